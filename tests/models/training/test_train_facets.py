"""Training facet taggers: what is learnt, what is kept, and that it can be repeated."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save_file

from models.encoder import Encoder
from models.errors import EncoderError, InputError, WeightsError
from models.facets import FACETS, METADATA, SHIPPED_WEIGHTS, read_metadata
from models.taggers.features import Batch, ngrams
from models.taggers.files import content_of
from models.taggers.sequence import SequenceModel, SequenceTagger, Shape, log_marginals
from models.training.facets import (
    SURFACE,
    TaggerSettings,
    drop_beginnings,
    hidden_states,
    mean_and_spread,
    one_hot,
    train_tagger,
)
from models.types import Facet, Paper
from tests.support.examples.models.tiny_bert import paper

SAID = {
    Facet.BACKGROUND: "Lakes are studied by many.",
    Facet.OBJECTIVE: "We ask how deep they are.",
    Facet.METHOD: "We propose a sounding line.",
    Facet.RESULT: "It finds the bottom.",
    Facet.OTHER: "Copyright by the authors.",
}
SURFACE_FILE = "facets-surface.safetensors.halves.gz"
QUICK = replace(SURFACE, n_members=1, n_epochs=12, rarest=1, ngram_decay=0.01, ngram_dropout=0.0, dropout=0.0)


def labelled(n_papers: int) -> list[Paper]:
    """Return abstracts with labelled sentences, every second one without an objective."""
    papers = []
    for number in range(n_papers):
        facets = [facet for facet in FACETS if number % 2 or facet is not Facet.OBJECTIVE]
        plain = paper("", *(f"{SAID[facet]} {number}" for facet in facets))
        own = tuple(replace(s, facet=f) for s, f in zip(plain.sentences, facets, strict=True))
        papers.append(replace(plain, sentences=own))
    return papers


def trained(papers: list[Paper], settings: TaggerSettings = QUICK) -> bytes:
    """Return the weights of a tagger of text alone."""
    return train_tagger(
        papers, [], [one_hot(p) for p in papers], settings, encoder=None, on_progress=lambda *_: None
    )


def test_a_tagger_learns_what_sentences_do(tmp_path: Path) -> None:
    """Sentences of unseen abstracts get the right facets, and the file names its tagger."""
    path = tmp_path / "facets-toy.safetensors"
    path.write_bytes(trained(labelled(64)))
    tagger = SequenceTagger(path)
    assert ("facets-toy", None, ()) == (tagger.spec.name, tagger.spec.encoder, tagger.spec.layers)
    assert 64 == read_metadata(path)["n_papers"]
    for given in labelled(4):
        (found,) = tagger.tag([given], [])
        assert [s.facet for s in given.sentences] == [FACETS[code] for code in found.argmax(axis=1)]


def test_some_abstracts_are_learnt_as_if_they_began_later() -> None:
    """About a quarter of possible later starts is learnt too, always the same; short abstracts have none."""
    papers = [replace(given, id=f"p{number}") for number, given in enumerate(labelled(200))]
    later = list(drop_beginnings(papers))
    assert later == list(drop_beginnings(papers))
    own = {given.id: given.sentences for given in papers}
    assert all(given.sentences == own[given.id][-len(given.sentences) :] for given in later)
    begun = Counter(given.sentences[0].facet for given in later)
    # Half have an objective; all have a method, and two sentences starting with the result.
    assert {Facet.OBJECTIVE, Facet.METHOD, Facet.RESULT} == set(begun)
    assert 15 < begun[Facet.OBJECTIVE] < 35 < begun[Facet.METHOD] < 65 > begun[Facet.RESULT] > 35
    assert not list(drop_beginnings([replace(given, sentences=given.sentences[:2]) for given in papers]))
    assert not list(drop_beginnings([replace(given, sentences=given.sentences[-1:]) for given in papers]))


def test_half_of_the_members_learn_the_first_source_alone(tmp_path: Path) -> None:
    """Half of the members train on the first source only, and the other half on all sources."""
    own, settings = labelled(32), replace(QUICK, n_members=2)
    swapped = {Facet.METHOD: Facet.RESULT, Facet.RESULT: Facet.METHOD}
    others = [
        replace(p, sentences=tuple(replace(s, facet=swapped.get(s.facet, s.facet)) for s in p.sentences))
        for p in labelled(160)
    ]
    content = train_tagger(
        [*own, *others],
        [],
        [one_hot(p) for p in [*own, *others]],
        settings,
        encoder=None,
        on_progress=lambda *_: None,
        n_own=len(own),
    )
    given = own[1]
    wanted = [s.facet for s in given.sentences]
    path = tmp_path / "facets-half.safetensors"
    path.write_bytes(content)
    tagger = SequenceTagger(path)
    first, second = (
        [FACETS[code] for code in member(tagger.extractor.batch([given], []))[0].argmax(dim=1)]
        for member in tagger.members
    )
    assert wanted == first != second


def test_training_can_be_repeated() -> None:
    """Equal papers and seed give equal bytes, another seed others, and torch's generator is unchanged."""
    before = torch.random.get_rng_state()
    quick = replace(QUICK, n_epochs=1)
    first = trained(labelled(16), quick)
    assert first == trained(labelled(16), quick)
    assert first != trained(labelled(16), replace(quick, seed=1))
    assert torch.equal(before, torch.random.get_rng_state())


def test_states_are_read_for_every_sentence(minilm: Encoder) -> None:
    """Hidden states hold sentences, then their openings, for each layer; without layers there are none."""
    papers = labelled(3)
    states = hidden_states(papers, minilm, layers=(2, 3), on_progress=lambda *_: None)
    assert [(4, len(p.sentences), 384) for p in papers] == [own.shape for own in states]
    assert hidden_states(papers, minilm, layers=(), on_progress=lambda *_: None) == []


def test_states_are_standardised_by_all_sentences() -> None:
    """Mean and deviation are those of one table of all sentences, without building that table."""
    draw = np.random.default_rng(0)
    states = [draw.normal(3.0, 2.0, size=(6, n, 5)).astype(np.float32) for n in (1, 4, 9, 2)]
    rows = np.concatenate([own.swapaxes(0, 1).reshape(own.shape[1], -1) for own in states]).astype(np.float64)
    np.testing.assert_allclose(mean_and_spread(states), [rows.mean(axis=0), rows.std(axis=0)], rtol=1e-6)
    assert mean_and_spread([]).shape == (2, 0)


def test_a_tagger_reads_hidden_layers(tmp_path: Path, minilm: Encoder) -> None:
    """A tagger trained on layers uses them: with noise as states its probabilities change."""
    papers = labelled(32)
    settings = TaggerSettings(layers=(3,), n_members=1, n_epochs=3, rarest=1)
    states = hidden_states(papers, minilm, layers=(3,), on_progress=lambda *_: None)
    content = train_tagger(
        papers, states, [one_hot(p) for p in papers], settings, encoder="0" * 64, on_progress=lambda *_: None
    )
    path = tmp_path / "facets-toy.safetensors"
    path.write_bytes(content)
    tagger = SequenceTagger(path)
    assert (3,) == tagger.spec.layers
    noise = np.random.default_rng(0).normal(size=states[0].shape).astype(np.float32)
    informed, confused = tagger.tag(papers[:1], states[:1])[0], tagger.tag(papers[:1], [noise])[0]
    assert abs(informed - confused).max() > 0.05


def test_sentences_without_a_facet_cannot_teach() -> None:
    """A paper with an unlabelled sentence is refused, and the error names it."""
    with pytest.raises(InputError, match="'p' has sentences without a facet"):
        one_hot(replace(paper("", "One.", "Two."), id="p"))


def test_too_few_sentences_teach_nothing() -> None:
    """Sentences too few for any n-gram to be known are refused; one more makes weights that load."""
    papers, settings = labelled(2), replace(QUICK, n_epochs=1)  # 9 sentences
    with pytest.raises(InputError, match="needs 10 labelled sentences or more, and got 9"):
        trained(papers, replace(settings, rarest=10))
    assert trained(papers, replace(settings, rarest=9))


def test_marginals_are_those_of_all_labellings() -> None:
    """The marginals are equal to those from summing over every labelling of a short abstract."""
    torch.manual_seed(0)
    model = SequenceModel(Shape(n_inputs=0, projected=4, ngram_dim=4, hidden=4), n_ngrams=1)
    for parameter in (model.transition, model.first, model.last):
        torch.nn.init.normal_(parameter)
    scores = torch.randn(2, 3, 5)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    found = log_marginals(scores, mask, model.transition, model.first, model.last).exp()
    for number, length in enumerate(mask.sum(dim=1).tolist()):
        weights = torch.zeros(length, 5)
        for labels in torch.cartesian_prod(*[torch.arange(5)] * length):
            score = (
                model.first[labels[0]] + model.last[labels[-1]] + scores[number, range(length), labels].sum()
            )
            score = score + model.transition[labels[:-1], labels[1:]].sum()
            weights[range(length), labels] += score.exp()
        expected = weights / weights.sum(dim=1, keepdim=True)
        torch.testing.assert_close(found[number, :length], expected)


def test_ngrams_know_the_ends_of_a_sentence() -> None:
    """N-grams have up to three words, lower-case, with numbers as 0 and the ends of the sentence marked."""
    expected = {"<s>", "up", "0", "</s>", "<s> up", "up 0", "0 </s>", "<s> up 0", "up 0 </s>"}
    assert expected == set(ngrams("Up 42"))


def test_other_files_are_no_taggers(tmp_path: Path) -> None:
    """A file that is not a tagger is refused, and the error names it."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(WeightsError, match=r"x\.safetensors does not hold the weights of a facet tagger"):
        SequenceTagger(path)


def test_shipped_taggers_were_made_with_the_default_settings() -> None:
    """The shipped weights have the default settings; changing a default without new weights fails here."""
    for name, settings in (
        ("facets-minilm.safetensors.halves.gz", TaggerSettings()),
        (SURFACE_FILE, SURFACE),
    ):
        stored = read_metadata(SHIPPED_WEIGHTS / name)
        assert json.loads(json.dumps(asdict(settings))) == stored["settings"]
        assert (1_668 < stored["n_papers"]) if settings.layers else (1_668 == stored["n_papers"])


@pytest.mark.parametrize(
    "change",
    [
        {"shape": None},
        {"layers": 3},
        {"n_members": 9},
        {"shape": {"hidden": 1}},
        {"shape": {"n_inputs": 0, "projected": 64, "ngram_dim": 31, "hidden": 64}},
    ],
)
def test_a_damaged_tagger_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    """Metadata that does not fit the tensors raises a WeightsError that names the file."""
    source, path = SHIPPED_WEIGHTS / SURFACE_FILE, tmp_path / "mine.safetensors"
    changed = {**read_metadata(source), **change}
    save_file(load(content_of(source)), path, metadata={METADATA: json.dumps(changed)})
    with pytest.raises(WeightsError, match=r"mine\.safetensors does not hold the weights"):
        SequenceTagger(path)


def test_states_of_other_papers_are_refused() -> None:
    """A tagger that reads layers refuses papers without hidden states."""
    tagger = SequenceTagger(SHIPPED_WEIGHTS / "facets-minilm.safetensors.halves.gz")
    with pytest.raises(EncoderError, match="hidden states of 0 papers for 2; it reads layers"):
        tagger.tag(labelled(2), [])


def test_one_long_abstract_does_not_slow_the_others() -> None:
    """Abstracts are read in batches of similar length, so padding stays small, and their order is kept."""
    tagger = SequenceTagger(SHIPPED_WEIGHTS / SURFACE_FILE)
    papers = [*labelled(6), paper("", *(f"Sentence {i} says more." for i in range(400))), *labelled(6)]
    read: list[int] = []
    batch = tagger.extractor.batch

    def counting(some: Sequence[Paper], states: Sequence[np.ndarray]) -> Batch:
        made = batch(some, states)
        read.append(made.mask.numel())
        return made

    tagger.extractor = SimpleNamespace(batch=counting)
    found = tagger.tag(papers, [])
    assert [len(p.sentences) for p in papers] == [len(own) for own in found]
    assert sum(read) < 1_200  # 13 x 400 in one batch
