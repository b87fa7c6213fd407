"""Examples from citing sentences: co-cited papers, co-citing sentences, and contexts with the cited paper."""

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.errors import InputError
from models.text.sentences import split_sentences
from models.training.examples import Example, TrainingSet
from models.types import Paper

# ASPIRE's bounds (semantics 3.11), in sentences and in words separated by spaces.
_SENTENCES = range(3, 21)
_MAX_SENTENCE_WORDS = 80
_SHORT_SENTENCE = 4
_CONTEXT_WORDS = range(5, 61)
_MOST_COCITED = 3
_MAX_CONTEXTS = 10
_DIGITS = re.compile(r"\d+")
# "[1, 2]", "(Church and Hanks, 1990)", "(2003b)": the citation marks of a sentence. Bounded, so linear.
_CITATION = re.compile(r"\[[\d,;\s–-]{1,60}\]|\([^()]{0,120}\b(?:19|20)\d\d[a-z]?[^()]{0,60}\)")


@dataclass(frozen=True, slots=True)
class Citation:
    """A sentence of the paper ``citing`` with the papers it cites; ``n_cited`` also counts unknown papers.

    ``title`` and ``doi`` are those of the citing paper, if known.
    """

    citing: str
    context: str
    cited: tuple[str, ...]
    n_cited: int
    title: str = ""
    doi: str | None = None


def is_usable(paper: Paper) -> bool:
    """Return whether ASPIRE keeps an abstract: 3-20 sentences, none above 80 words, not all of 4 or fewer."""
    lengths = [len(sentence.text.split()) for sentence in paper.sentences]
    return (
        len(lengths) in _SENTENCES
        and max(lengths) <= _MAX_SENTENCE_WORDS
        and any(length > _SHORT_SENTENCE for length in lengths)
    )


def cocited_papers(
    citations: Iterable[Citation], papers: Mapping[str, Paper], *, min_contexts: int = 1
) -> list[Example]:
    """Return the pairs of papers cited in one sentence, by ASPIRE's rules (semantics 3.11).

    A sentence counts if it cites two or three usable papers and has 5 to 60 words and a bracket. Sentences
    about the same papers that differ only in digits count once; each citing paper gives one sentence for each
    set of cited papers.
    A pair has one context from each paper that cites it, at most ten; ``min_contexts`` is the least number of
    these citing papers. The pairs are in the order of the ids. All papers that any sentence cites with the
    query ``belong`` to it, also those that make no pair with it.
    """
    pairs: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    together: defaultdict[str, set[str]] = defaultdict(set)
    recorded = _recorded(citations, together, papers)
    for known, cited_by in _cocited(recorded, papers, most_cited=_MOST_COCITED).items():
        for pair in itertools.combinations(known, 2):
            pairs[pair] |= cited_by
    found = {pair: cited_by for pair, cited_by in sorted(pairs.items()) if len(cited_by) >= min_contexts}
    named = {name for pair in found for name in pair}
    return [
        Example(
            query,
            positive,
            contexts=tuple(list(cited_by.values())[:_MAX_CONTEXTS]),
            belong=tuple(sorted((together[query] & named) - {query, positive})),
        )
        for (query, positive), cited_by in found.items()
    ]


def _recorded(
    citations: Iterable[Citation], together: Mapping[str, set[str]], papers: Mapping[str, Paper]
) -> Iterator[Citation]:
    """Yield the citations unchanged, and add to each of ``papers`` in ``together`` those cited with it."""
    for citation in citations:
        known = papers.keys() & citation.cited
        for name in known:
            together[name].update(known)
        yield citation


def cociting_sentences(
    citations: Iterable[Citation], papers: Mapping[str, Paper]
) -> tuple[list[Example], dict[str, Paper]]:
    """Return the pairs of sentences that cite the same papers: the data of CoSentBert (semantics 3.11).

    Sentences count as in ``cocited_papers``, but may cite any number of papers. Each set of cited papers
    gives all pairs of its first ten sentences (in ASPIRE of all), in the order of the cited ids. The
    sentences are also returned, as texts.
    """
    examples, texts = [], dict[str, Paper]()
    for _, cited_by in sorted(_cocited(citations, papers).items()):
        # A sentence that cites several sets, as in two versions of a paper, is one text.
        of_set = list(cited_by.values())[:_MAX_CONTEXTS]
        names = [_named("cociting", context) for context in of_set]
        texts |= {name: short_text(name, context) for name, context in zip(names, of_set, strict=True)}
        examples += [Example(query, positive) for query, positive in itertools.combinations(names, 2)]
    return examples, texts


def _cocited(
    citations: Iterable[Citation], papers: Mapping[str, Paper], *, most_cited: int | None = None
) -> dict[tuple[str, ...], dict[str, str]]:
    """Return, for each sorted set of papers cited in a usable sentence, one sentence of each citing paper.

    A set has two papers at least, and ``most_cited`` at most.
    """
    contexts: defaultdict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    seen: set[tuple[tuple[str, ...], str]] = set()
    for citation in citations:
        known = tuple(sorted({i for i in citation.cited if i in papers and is_usable(papers[i])}))
        wording = known, _DIGITS.sub("", citation.context)
        if (
            not 2 <= len(known) <= (most_cited or len(known))
            or len(citation.context.split()) not in _CONTEXT_WORDS
            or not set("([") & set(citation.context)
            or wording in seen
        ):
            continue
        seen.add(wording)
        contexts[known].setdefault(citation.citing, citation.context)
    return contexts


def contexts_to_documents(
    citations: Iterable[Citation], papers: Mapping[str, Paper]
) -> tuple[list[Example], dict[str, Paper]]:
    """Return sentences that cite only one paper, with this paper (Zeta Alpha's context to document).

    Semantics 4.3. Citation marks are cut out; a sentence counts if 5 to 60 words are left, and each wording
    counts once for a cited paper. The sentences are also returned, as texts.
    """
    examples, texts = [], {}
    seen: set[tuple[str, str]] = set()
    for citation in citations:
        wording = with_and_without_marks(citation.context)[1]
        (cited, *more) = citation.cited or ("",)
        key = (cited, _DIGITS.sub("", wording))
        if more or citation.n_cited != 1 or cited not in papers or key in seen:
            continue
        if len(wording.split()) not in _CONTEXT_WORDS:
            continue
        seen.add(key)
        name = _named("context", wording)
        texts[name] = short_text(name, wording)
        examples.append(Example(name, cited))
    return examples, texts


def _named(kind: str, text: str) -> str:
    """Return an id that a text has in every set, and no other text, as a run compares the ids of its sets."""
    return f"{kind}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def with_and_without_marks(context: str) -> tuple[str, str]:
    """Return a citing sentence as it is, as ``sentences`` uses it, and without its citation marks."""
    return context, " ".join(_CITATION.sub(" ", context).split())


def short_text(name: str, text: str) -> Paper:
    """Return a text as a paper without a title, like a short query; InputError if it is empty."""
    sentences = split_sentences(text)
    if not sentences:
        raise InputError(f"The text {name!r} is empty; leave it out.")
    return Paper(id=name, title="", abstract=text, sentences=sentences)


def hold_out(
    examples: Sequence[Example], *, n_held_out: int, seed: int
) -> tuple[list[Example], list[Example]]:
    """Return the examples for training and the held-out examples, which have no text in common.

    The ``n_held_out`` held-out examples are drawn at random, and no two of them share a query or a positive;
    their negatives are dropped, because no measurement reads them. Training leaves out every example whose
    query or positive is held out, and every negative that is. If two held-out texts belong together in any
    example, the ``belong`` of the held-out example records it, so that a right answer is not counted as
    wrong. Raises InputError if too few examples are left.
    """
    order = np.random.default_rng([seed, 1]).permutation(len(examples))
    held_out: list[Example] = []
    taken: set[str] = set()
    for number in order:
        if len(held_out) == n_held_out:
            break
        example = examples[number]
        if not taken & {example.query, example.positive}:
            held_out.append(example)
            taken |= {example.query, example.positive}
    training = [
        replace(example, negatives=tuple(name for name in example.negatives if name not in taken))
        for example in examples
        if not taken & {example.query, example.positive}
    ]
    if len(held_out) < n_held_out or not training:
        raise InputError(
            f"{n_held_out} examples to hold out of {len(examples)} leave {len(training)} to train on "
            f"({len(held_out)} without common texts were found); hold out fewer."
        )
    return training, _with_belonging(held_out, examples, taken)


def _with_belonging(
    held_out: Sequence[Example], examples: Sequence[Example], taken: set[str]
) -> list[Example]:
    """Return the held-out examples without negatives, but with the texts of ``taken`` joined to the query."""
    akin: defaultdict[str, set[str]] = defaultdict(set)
    for example in examples:
        if example.query in taken:
            for other in taken.intersection((example.positive, *example.belong)):
                akin[example.query].add(other)
                akin[other].add(example.query)
    return [
        replace(own, negatives=(), belong=tuple(sorted(akin[own.query] - {own.query, own.positive})))
        for own in held_out
    ]


def training_set(name: str, examples: Sequence[Example], texts: Mapping[str, Paper]) -> TrainingSet:
    """Return the training set of ``examples``, with only the ``texts`` that they name.

    Of texts that only ``belong`` to a query, none is added, and the others' ids are left out.
    """
    named = {text for own in examples for text in own.named}
    kept = [replace(own, belong=tuple(other for other in own.belong if other in named)) for own in examples]
    return TrainingSet(name, {i: texts[i] for i in texts if i in named}, tuple(kept))
