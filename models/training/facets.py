"""Training of a facet tagger on abstracts with a facet for each sentence (as in CSAbstruct; semantics 4.4).

The encoder stays unchanged: its hidden layers are read once, and the ensemble on them trains in minutes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float32, Float64
from torch import nn

from models.checksums import hash64
from models.encoder import PAPERS_PER_CALL, Encoder, layer_states
from models.errors import InputError
from models.facets import FACETS
from models.taggers.features import Batch, FeatureExtractor, ngrams
from models.taggers.sequence import SequenceModel, Shape, weights_content
from models.types import Facet, Paper, ProgressFn

_WARM_UP = 0.15  # of all steps
_MAX_GRADIENT = 1.0

States = Float32[np.ndarray, "n_states _ dim"]

# Most labelled abstracts begin with background, and a tagger trained only on them tags any first sentence as
# background. So some abstracts are used again, as if they began with their aim, method or results: a
# quarter of those with at least two sentences left, drawn by id.
_BEFORE = (
    {Facet.BACKGROUND},
    {Facet.BACKGROUND, Facet.OBJECTIVE},
    {Facet.BACKGROUND, Facet.OBJECTIVE, Facet.METHOD},
)
_BEGUN_LATER = 4
_MIN_SENTENCES = 2


@dataclass(frozen=True, slots=True)
class TaggerSettings:
    """The settings of a tagger; the defaults are those of the shipped weights that read hidden layers."""

    layers: tuple[int, ...] = (2, 3, 4)
    n_members: int = 4
    n_epochs: int = 8
    projected: int = 64
    ngram_dim: int = 16
    hidden: int = 64
    rarest: int = 10  # least number of training sentences with an n-gram
    dropout: float = 0.5
    input_dropout: float = 0.6
    ngram_dropout: float = 0.4
    learning_rate: float = 2e-3  # the highest of AdamW in one cycle
    weight_decay: float = 1e-2
    # Most n-grams occur only a few times: without strong decay their vectors memorise the sentences.
    ngram_decay: float = 40.0
    batch: int = 32  # abstracts
    seed: int = 0


# For a tagger of text alone: n-grams are its only input, so they get more dimensions.
SURFACE = TaggerSettings(
    layers=(), n_members=2, n_epochs=8, ngram_dim=32, rarest=5, dropout=0.3, learning_rate=5e-3
)


def drop_beginnings(papers: Sequence[Paper]) -> Iterator[Paper]:
    """Yield some of the labelled ``papers`` again, cut to begin with their aim, method or results."""
    for paper in papers:
        facets = [sentence.facet for sentence in paper.sentences]
        starts = {
            next((place for place, facet in enumerate(facets) if facet not in before), len(facets))
            for before in _BEFORE
        }
        for start in sorted(starts - {0}):
            drawn = hash64(f"begun later:{paper.id}:{start}") % _BEGUN_LATER == 0
            if drawn and len(facets) - start >= _MIN_SENTENCES:
                yield replace(paper, sentences=paper.sentences[start:])


def hidden_states(
    papers: Sequence[Paper], encoder: Encoder, *, layers: Sequence[int], on_progress: ProgressFn
) -> list[States]:
    """Return the tagger's input for each paper: its sentences in ``layers``, then their openings.

    Empty if ``layers`` is empty. Raises EncoderError for layers that the encoder does not have.
    """
    states: list[States] = []
    for start in range(0, len(papers) if layers else 0, PAPERS_PER_CALL):
        encoded = encoder.encode(papers[start : start + PAPERS_PER_CALL], layers=layers)
        states += [layer_states(paper, range(len(layers))) for paper in encoded]
        on_progress("encoding", len(states), len(papers))
    return states


def one_hot(paper: Paper) -> Float32[np.ndarray, "n_sentence 5"]:
    """Return the facets of a labelled paper as probabilities; InputError if a sentence has no facet."""
    if any(sentence.facet is None for sentence in paper.sentences):
        raise InputError(f"Paper {paper.id!r} has sentences without a facet; training needs one on each.")
    codes = [FACETS.index(sentence.facet) for sentence in paper.sentences if sentence.facet is not None]
    return np.eye(len(FACETS), dtype=np.float32)[codes]


def train_tagger(
    papers: Sequence[Paper],
    states: Sequence[States],
    targets: Sequence[Float32[np.ndarray, "_ 5"]],
    settings: TaggerSettings,
    *,
    encoder: str | None,
    on_progress: ProgressFn,
    n_own: int | None = None,
) -> bytes:
    """Train a tagger and return its weights file; equal arguments give equal bytes on the same machine.

    The first half of the members learns only the first ``n_own`` papers, if given, the others all papers.
    ``states`` are those of ``hidden_states`` (empty for a tagger of text alone); ``targets`` are the
    probabilities to learn; ``encoder`` is the fingerprint of the encoder of the states. The loss is the cross
    entropy of each sentence's marginal. Raises InputError for too few sentences to know any n-gram.
    """
    extractor = _feature_extractor(papers, states, settings)
    shape = Shape(len(extractor.mean), settings.projected, settings.ngram_dim, settings.hidden)
    members = []
    with torch.random.fork_rng(devices=[]):
        for number in range(settings.n_members):
            torch.manual_seed(settings.seed * 1_000 + number)
            rng = np.random.default_rng([settings.seed, number])
            member = SequenceModel(
                shape,
                n_ngrams=len(extractor.vocabulary),
                dropout=settings.dropout,
                input_dropout=settings.input_dropout,
            )
            report = partial(_report, on_progress, number * settings.n_epochs, settings)
            own = slice(n_own if number < settings.n_members // 2 else None)
            _train(
                member,
                extractor,
                papers[own],
                states[own],
                targets[own],
                settings,
                rng=rng,
                on_epoch=report,
            )
            members.append(member.eval())
    metadata = {
        "encoder": encoder,
        "layers": settings.layers,
        "n_papers": len(papers),
        "settings": asdict(settings),
    }
    return weights_content(members, extractor, shape, metadata)


def _train(
    member: SequenceModel,
    extractor: FeatureExtractor,
    papers: Sequence[Paper],
    states: Sequence[States],
    targets: Sequence[Float32[np.ndarray, "_ 5"]],
    settings: TaggerSettings,
    *,
    rng: np.random.Generator,
    on_epoch: Callable[[int], None],
) -> None:
    ngram_vectors = {id(parameter) for parameter in member.ngrams.parameters()}
    others = [parameter for parameter in member.parameters() if id(parameter) not in ngram_vectors]
    optimiser = torch.optim.AdamW(
        [
            {"params": others, "weight_decay": settings.weight_decay},
            {"params": member.ngrams.parameters(), "weight_decay": settings.ngram_decay},
        ],
        lr=settings.learning_rate,
    )
    n_batches = -(-len(papers) // settings.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings.learning_rate, total_steps=settings.n_epochs * n_batches, pct_start=_WARM_UP
    )
    for epoch in range(settings.n_epochs):
        for chosen in np.array_split(rng.permutation(len(papers)), n_batches):
            batch = extractor.batch(
                [papers[i] for i in chosen], [states[i] for i in chosen] if states else []
            )
            kept = torch.rand_like(batch.ngram_weights) >= settings.ngram_dropout
            batch.ngram_weights.mul_(kept)
            wanted = _padded([targets[i] for i in chosen], batch)
            loss = -(wanted * member(batch)).sum() / batch.mask.sum()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(member.parameters(), _MAX_GRADIENT)
            optimiser.step()
            schedule.step()
        on_epoch(epoch + 1)


def _report(on_progress: ProgressFn, before: int, settings: TaggerSettings, epoch: int) -> None:
    on_progress("epochs", before + epoch, settings.n_members * settings.n_epochs)


def _padded(
    targets: Sequence[Float32[np.ndarray, "_ 5"]], batch: Batch
) -> Float32[torch.Tensor, "n_papers n_longest 5"]:
    """Return the targets padded like the sentences of ``batch``, with zeros after the end of an abstract."""
    padded = torch.zeros(*batch.mask.shape, len(FACETS))
    padded[batch.mask] = torch.from_numpy(np.concatenate(targets))
    return padded


def _feature_extractor(
    papers: Sequence[Paper], states: Sequence[States], settings: TaggerSettings
) -> FeatureExtractor:
    """Return the extractor of training sentences: known n-grams, and mean and spread of the states.

    Raises InputError for too few sentences to know any n-gram.
    """
    sentences = [sentence.text for paper in papers for sentence in paper.sentences]
    counts = Counter(ngram for text in sentences for ngram in ngrams(text))
    known = sorted(ngram for ngram, count in counts.items() if count >= settings.rarest)
    if not known:  # the beginning of a sentence is an n-gram that every sentence has
        raise InputError(
            f"A tagger needs {settings.rarest} labelled sentences or more, and got {len(sentences)}, those "
            "learnt twice included; give more abstracts, hundreds for useful facets."
        )
    idf = np.log(len(sentences) / np.array([len(sentences), *(counts[ngram] for ngram in known)]))
    mean, spread = mean_and_spread(states)
    # The idf is rounded to float16, as in the file, so that training uses the values of the loaded tagger.
    return FeatureExtractor(
        {ngram: place for place, ngram in enumerate(known, start=1)},
        idf.astype(np.float16).astype(np.float32),
        mean.astype(np.float32),
        (spread + 1e-6).astype(np.float32),
    )


def mean_and_spread(states: Sequence[States]) -> Float64[np.ndarray, "2 n_numbers"]:
    """Return the mean and standard deviation of each number of the states, over all sentences.

    Sums paper by paper, so that the states of a large corpus are not copied. Empty without states.
    """
    if not states:
        return np.zeros((2, 0))
    n_rows = sum(own.shape[1] for own in states)
    mean = sum(own.sum(axis=1, dtype=np.float64) for own in states) / n_rows  # (n_states, dim)
    squares = sum(((own - mean[:, None]) ** 2).sum(axis=1) for own in states) / n_rows
    return np.stack([mean.ravel(), np.sqrt(squares).ravel()])
