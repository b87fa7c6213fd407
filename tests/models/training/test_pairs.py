"""The data recipes: what they keep, what they leave out, and that evaluations do not leak."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast
from unicodedata import normalize

import numpy as np
import pytest

from models.encoders.hashing import HashingEncoder
from models.errors import InputError
from models.text.sentences import sentences_from_list
from models.training.examples import Example, TrainingSet, related
from models.training.held_out import encode_texts, held_out_ranks
from models.training.objectives.distances import DOCUMENT
from models.training.pairs.alignment import AlignBy, align
from models.training.pairs.citations import citation_triplets
from models.training.pairs.citing import (
    Citation,
    cocited_papers,
    cociting_sentences,
    contexts_to_documents,
    hold_out,
    is_usable,
    short_text,
    training_set,
)
from models.training.pairs.cropping import independent_crops, inverse_cloze
from models.training.pairs.leaks import LeakGuard, n_shared
from models.training.trainable import Trainable
from models.types import EncodedPaper, Paper, Unit, ignore_progress

SENTENCES = ("We study graphs of proteins.", "Cells are shown to divide.", "Results improve over time.")


def paper(
    name: str, sentences: tuple[str, ...] = SENTENCES, *, title: str = "", doi: str | None = None
) -> Paper:
    """Return a paper of these sentences."""
    abstract, split = sentences_from_list(list(sentences))
    return Paper(
        id=name, title=title or f"A study of the {name}", abstract=abstract, sentences=split, doi=doi
    )


def papers(*names: str) -> dict[str, Paper]:
    """Return papers of these names."""
    return {name: paper(name) for name in names}


def citation(
    citing: str, *cited: str, context: str = "Many works study this (all of them) here."
) -> Citation:
    """Return a citing sentence with the citing paper's name in its text."""
    return Citation(citing, f"{context} {citing}", cited, len(cited))


def pairs_of(examples: list[Example]) -> list[tuple[str, str]]:
    """Return query and positive of each example."""
    return [(example.query, example.positive) for example in examples]


def test_cocited_papers_are_all_pairs_of_a_sentence() -> None:
    """A sentence gives all pairs of its two or three known papers, and none for four."""
    known = papers("a", "b", "c", "d", "e")
    found = cocited_papers(
        [citation("x", "c", "a", "b", "unknown"), citation("y", "a", "b", "d", "e"), citation("z", "d", "e")],
        known,
    )
    assert pairs_of(found) == [("a", "b"), ("a", "c"), ("b", "c"), ("d", "e")]


@pytest.mark.parametrize(
    "context",
    [
        "Too short (1).",
        "many words " * 31 + "(1)",
        "No bracket is in this sentence, so what it cites is unclear.",
    ],
)
def test_contexts_that_say_too_little_or_too_much_do_not_count(context: str) -> None:
    """A context has 5 to 60 words and a bracket."""
    given = Citation("x", context, ("a", "b"), 2)
    assert cocited_papers([given], papers("a", "b")) == []
    assert len(cocited_papers([replace(given, context="This context is fine (1).")], papers("a", "b"))) == 1


def test_contexts_that_differ_in_digits_count_once_and_so_do_citing_papers() -> None:
    """A pair has one context per citing paper, at most ten; those that differ in digits count once."""
    repeated = [Citation(f"x{i}", f"It was done before in [{i}] and then.", ("a", "b"), 2) for i in range(3)]
    own = [citation("y", "a", "b"), citation("y", "a", "b", context="Another wording of the same (one).")]
    (found,) = cocited_papers([*repeated, *own], papers("a", "b"))
    assert len(found.contexts) == 2
    (many,) = cocited_papers([citation(f"z{'i' * i}", "a", "b") for i in range(15)], papers("a", "b"))
    assert len(many.contexts) == 10


def test_strict_pairs_need_two_citing_papers() -> None:
    """With ``min_contexts=2``, a pair cited by only one paper is left out."""
    given = [citation("x", "a", "b"), citation("y", "a", "b"), citation("z", "a", "c")]
    assert pairs_of(cocited_papers(given, papers("a", "b", "c"), min_contexts=2)) == [("a", "b")]


def test_sentences_that_cite_the_same_papers_belong_together() -> None:
    """Sentences of different papers that cite the same set are paired; a set cited once gives none."""
    given = [
        citation("y", "b", "a"),
        citation("x", "a", "b", "unknown"),
        citation("x", "a", "b", context="Another wording of the same (one)."),
        citation("z", "a", "b", "c"),
        citation("v", "a", "b"),
        citation("short", "c", "b", context="Too short (1)."),
        citation("w", "b", "c"),
    ]
    examples, texts = cociting_sentences(given, papers("a", "b", "c"))
    found = {frozenset(texts[name].abstract.split()[-1] for name in (e.query, e.positive)) for e in examples}
    assert found == {frozenset("yx"), frozenset("yv"), frozenset("xv")}
    assert len(examples) == 3
    assert all(text.title == "" for text in texts.values())


def test_sentences_that_cite_many_papers_are_paired_and_the_papers_are_not() -> None:
    """Sentences of different papers that cite the same four papers are a pair, but the four papers none."""
    names = ("a", "b", "c", "d")
    given = [citation("x", *names), citation("y", *names)]
    examples, _ = cociting_sentences(given, papers(*names))
    assert (1, []) == (len(examples), cocited_papers(given, papers(*names)))


def test_a_sentence_that_cites_two_sets_is_one_text() -> None:
    """The same sentence in two papers, with other cited papers known, is one text of two pairs."""
    same = "Similar results were shown in [1], [2]."
    given = [Citation("x", same, ("a", "b"), 2), Citation("y", same, ("a", "b", "c"), 3)]
    given += [citation("v", "a", "b"), citation("w", "a", "b", "c")]
    examples, texts = cociting_sentences(given, papers("a", "b", "c"))
    assert (2, 3) == (len(examples), len(texts))
    (shared,) = {examples[0].query, examples[0].positive} & {examples[1].query, examples[1].positive}
    assert same == texts[shared].abstract


def test_equal_sentences_about_other_papers_count() -> None:
    """Sentences of equal wording count once for the same papers, and also for others."""
    same = "Similar results were shown in [1], [2]."
    given = [Citation(name, same, cited, 2) for name, cited in (("x", ("a", "b")), ("y", ("c", "d")))]
    assert pairs_of(cocited_papers([*given, given[0]], papers("a", "b", "c", "d"))) == [
        ("a", "b"),
        ("c", "d"),
    ]


def test_ten_sentences_of_a_set_give_pairs() -> None:
    """At most ten sentences of a set are used, which give 45 pairs."""
    many = [citation(f"z{'i' * i}", "a", "b") for i in range(15)]
    examples, _ = cociting_sentences(many, papers("a", "b"))
    assert len(examples) == 45


@pytest.mark.parametrize(
    ("sentences", "usable"),
    [
        (SENTENCES, True),
        (SENTENCES[:2], False),
        (SENTENCES * 7, False),
        ((*SENTENCES, "word " * 81), False),
        (("One two three.",) * 3, False),
    ],
)
def test_abstracts_have_bounds(sentences: tuple[str, ...], usable: bool) -> None:
    """A usable abstract has 3 to 20 sentences, none above 80 words, and not all of 4 words or fewer."""
    assert is_usable(paper("p", sentences)) is usable


def test_contexts_lose_the_marks_of_their_citations() -> None:
    """Citation marks are removed from contexts, and contexts of several papers are left out."""
    known = papers("a", "b")
    examples, texts = contexts_to_documents(
        [
            Citation(
                "x",
                "Graphs [1, 2] of words (Smith et al., 2003b) help to find papers (see below).",
                ("a",),
                1,
            ),
            Citation("y", "Graphs of words help, as two papers say [1].", ("a", "b"), 2),
            Citation("z", "Graphs of words help, as two papers say [2].", ("a",), 2),
        ],
        known,
    )
    assert [example.positive for example in examples] == ["a"]
    query = texts[examples[0].query]
    assert query.abstract == "Graphs of words help to find papers (see below)."
    assert query.title == ""


def test_citation_triplets_have_hard_and_easy_negatives() -> None:
    """Hard negatives are cited by the cited papers but not by the query; easy ones come from all others."""
    names = [f"p{i}" for i in range(30)]
    cited = {"p0": ["p1", "p2", "absent", "p0"], "p1": ["p2", "p3", "p4", "p0"], "p2": ["p5"]}
    found = citation_triplets(cited, papers(*names), n_hard=2, n_easy=3, most_per_paper=5, seed=0)
    by_query = {query: [e for e in found if e.query == query] for query in ("p0", "p1", "p2")}
    assert sorted(pairs_of(by_query["p0"])) == [("p0", "p1"), ("p0", "p2")]
    for example in found:
        assert len(set(example.negatives)) == 5
        assert not {example.query, *cited[example.query]} & set(example.negatives)
    for example in by_query["p0"]:
        assert len({"p3", "p4", "p5"} & set(example.negatives[:2])) == 2
    assert found == citation_triplets(cited, papers(*names), n_hard=2, n_easy=3, most_per_paper=5, seed=0)
    assert len(citation_triplets(cited, papers(*names), n_hard=2, n_easy=3, most_per_paper=1, seed=0)) == 3


def test_citations_that_make_no_example_are_no_wrong_answers() -> None:
    """A cited paper that was not drawn belongs to the query, in training and among held-out pairs."""
    names = [f"p{i}" for i in range(60)]
    cited = {name: names[i + 1 : i + 9] for i, name in enumerate(names)}
    found = citation_triplets(cited, papers(*names), n_hard=2, n_easy=3, most_per_paper=1, seed=0)
    split = hold_out(found, n_held_out=12, seed=0)
    for made in (training_set("set", examples, papers(*names)) for examples in (found, *split)):
        assert any(example.belong for example in made.examples)
        queries = {example.query for example in made.examples}
        wrong = [(a, b) for a in queries for b in cited[a] if b in made.texts and b not in related(a, [made])]
        assert wrong == []
        assert {other for example in made.examples for other in example.belong} <= made.texts.keys()


def test_papers_cited_together_that_make_no_pair_are_no_wrong_answers() -> None:
    """Papers of a pair with too few contexts, or of a sentence that cites many, belong to the query."""
    strict = [citation(f"{x}{pair}", *pair) for x in "xy" for pair in ("ab", "cd", "ef")]
    given = [*strict, citation("once", "a", "d"), citation("many", "a", "c", "f", "g", context="See (all).")]
    found = cocited_papers(given, papers(*"abcdefg"), min_contexts=2)
    assert pairs_of(found) == [("a", "b"), ("c", "d"), ("e", "f")]
    assert [example.belong for example in found] == [("c", "d", "f"), ("a", "f"), ()]
    held_out = hold_out(found, n_held_out=2, seed=2)[1]
    assert [(example.query, example.belong) for example in held_out] == [("a", ("f",)), ("e", ())]


def test_citing_sentences_of_two_sets_have_different_ids() -> None:
    """Equal ids are of equal sentences, because a run takes the ids of all its sets together."""
    known = papers("a", "b")
    (first,), (second,), (again,) = (
        contexts_to_documents([citation("x", name, context=context)], known)[0]
        for name, context in (
            ("a", "Some of them were tied in (Doe, 1999) before us."),
            ("b", "Knots of rope were measured in (Doe, 1999) first."),
            ("b", "Some of them were tied in (Doe, 1999) before us."),
        )
    )
    assert (True, True) == (first.query != second.query, first.query == again.query)


def test_too_few_papers_to_draw_from_are_refused() -> None:
    """Drawing five negatives from three papers is refused."""
    with pytest.raises(InputError, match="too few"):
        citation_triplets({"a": ["b"]}, papers("a", "b", "c"), n_hard=2, n_easy=3, most_per_paper=1, seed=0)


def test_crops_are_spans_of_their_abstract() -> None:
    """A long abstract gives two spans of at least ten words, at most half of it; a short one none."""
    long = paper("long", tuple(f"Sentence number {i} says so and so." for i in range(12)))
    examples, texts = independent_crops({"long": long, "short": paper("short", ("Few words.",))}, seed=1)
    assert pairs_of(examples) == [("crop:long:a", "crop:long:b")]
    words = long.abstract.split()
    for name in ("crop:long:a", "crop:long:b"):
        crop = texts[name].abstract.split()
        assert 10 <= len(crop) <= len(words) // 2
        assert any(words[i : i + len(crop)] == crop for i in range(len(words)))
    assert texts["crop:long:a"] != texts["crop:long:b"]


def test_inverse_cloze_takes_a_sentence_out() -> None:
    """The query is one sentence and the positive the paper without it; two sentences are too few."""
    given = {"a": paper("a"), "b": paper("b", SENTENCES[:2])}
    examples, texts = inverse_cloze(given, seed=0)
    assert pairs_of(examples) == [("cloze:a", "rest:a")]
    rest = [sentence.text for sentence in texts["rest:a"].sentences]
    assert sorted([texts["cloze:a"].abstract, *rest]) == sorted(SENTENCES)
    assert texts["rest:a"].title == given["a"].title


def test_one_sentence_in_ten_stays_in_the_rest() -> None:
    """Inverse cloze leaves the query in the rest of about every tenth paper, by a seed."""
    given = papers(*(f"p{i}" for i in range(1_000)))
    _, texts = inverse_cloze(given, seed=0)
    left_in = [name for name in given if len(texts[f"rest:{name}"].sentences) == len(SENTENCES)]
    assert 70 < len(left_in) < 130
    assert all(texts[f"rest:{name}"].abstract == given[name].abstract for name in left_in)
    assert texts == inverse_cloze(given, seed=0)[1]
    assert texts != inverse_cloze(given, seed=1)[1]


def test_sentences_are_aligned_by_the_abstracts_alone() -> None:
    """By abstracts, the nearest pair of sentences is aligned, whatever the contexts say."""
    texts = {
        "a": paper("a", ("Graphs of words.", "Proteins fold in cells.", "We thank all.")),
        "b": paper("b", ("Nothing else.", "Cells hold folded proteins.", "We thank all.")),
    }
    about_proteins = ("How proteins fold in cells was shown (one, two).",)
    given = [Example("a", "b", contexts=about_proteins), Example("b", "a")]
    for encoder in (HashingEncoder(), OfDocuments()):
        by_abstracts = align(given, texts, encoder, by=AlignBy.ABSTRACTS, on_progress=ignore_progress)
        assert [(2, 2), (2, 2)] == [example.aligned for example in by_abstracts]
        (by_contexts, _) = align(given, texts, encoder, on_progress=ignore_progress)
        assert (1, 1) == by_contexts.aligned


def test_sentences_are_aligned_with_what_is_cited_of_them() -> None:
    """The sentence nearest to a context is found in each paper; without contexts there is none."""
    texts = {
        "a": paper("a", ("Graphs of words.", "Proteins fold in cells.", "We thank all.")),
        "b": paper("b", ("We thank all.", "Nothing else.", "Cells hold folded proteins.")),
    }
    given = [
        Example("a", "b", contexts=("How proteins fold in cells was shown (one, two).",)),
        Example("b", "a"),
    ]
    for encoder in (HashingEncoder(), OfDocuments()):
        first, second = align(given, texts, encoder, on_progress=ignore_progress)
        assert first.aligned == (1, 2)
        assert second.aligned is None


class OfDocuments:
    """An encoder of documents: the mean of the sentence vectors of another."""

    def __init__(self) -> None:
        self._encoder = HashingEncoder()
        self.spec = replace(self._encoder.spec, unit=Unit.DOCUMENT)

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Return one vector for each paper."""
        rows = [own.sentences.mean(axis=0) for own in self._encoder.encode(papers, layers=layers)]
        return [EncodedPaper(row[None], row, 0) for row in rows]


def test_what_is_held_out_shares_no_text_with_training() -> None:
    """No text of a held-out example is in training, and the seed decides the draw."""
    examples = [Example(f"p{i}", f"p{i + 1}") for i in range(60)]
    training, held_out = hold_out(examples, n_held_out=10, seed=0)
    assert len(held_out) == 10
    named = [name for example in held_out for name in (example.query, example.positive)]
    assert len(set(named)) == 20
    assert not {name for example in training for name in (example.query, example.positive)} & set(named)
    assert (training, held_out) == hold_out(examples, n_held_out=10, seed=0)
    assert held_out != hold_out(examples, n_held_out=10, seed=1)[1]
    with pytest.raises(InputError, match="hold out fewer"):
        hold_out(examples, n_held_out=50, seed=0)


def test_negatives_of_held_out_examples_stay_in_training() -> None:
    """Only queries and positives are held out, and of training examples no negative is one of them."""
    drawn = np.random.default_rng(0)
    examples = [
        Example(f"q{i}", f"p{i}", tuple({f"p{j}" for j in drawn.integers(200, size=5) if j != i}))
        for i in range(200)
    ]
    training, held_out = hold_out(examples, n_held_out=40, seed=0)
    named = {name for example in held_out for name in (example.query, example.positive)}
    assert (160, 40, 80) == (len(training), len(held_out), len(named))
    assert not [example for example in held_out if example.negatives]
    assert not named & {name for own in training for name in (own.query, own.positive, *own.negatives)}
    kept = {own.query: own.negatives for own in training}
    for before in examples:
        if before.query in kept:
            assert kept[before.query] == tuple(name for name in before.negatives if name not in named)


def test_a_measurement_encodes_no_negative() -> None:
    """Only queries and positives of a held-out set are ranked, so nothing else is encoded."""
    seen: list[str] = []

    class Model:
        """It keeps the ids of the texts that it gets, and encodes none of them."""

        def tokenise(self, given: Sequence[Paper]) -> list[str]:
            seen.extend(each.id for each in given)
            return []

        def passes(self, tokens: list[str]) -> list[list[str]]:
            return [tokens] * 0

    made = training_set("held-out", [Example("a", "b", ("c",)), Example("d", "b")], papers(*"abcd"))
    assert {} == encode_texts(cast("Trainable", Model()), made)
    assert seen == ["a", "b", "d"]


def test_held_out_texts_that_belong_together_are_no_rivals() -> None:
    """A pair left out because it joins two held-out texts still counts as a right answer."""
    joining = [Example("d", "a"), Example("c", "b")]
    pairs = [
        Example("a", "b"),
        Example("c", "d"),
        joining[0],
        Example("a", "e"),
        Example("x", "y"),
        joining[1],
    ]
    training, held_out = hold_out(pairs, n_held_out=2, seed=3)
    assert pairs_of(held_out) == [("c", "d"), ("a", "b")]
    assert [example.belong for example in held_out] == [("b",), ("d",)]
    assert pairs_of(training) == [("x", "y")]
    made = training_set("held-out", held_out, papers(*"abcdexy"))
    assert {"c", "d", "b"} == related("c", [made])
    assert "a" in related("d", [made])
    # Every other positive is nearer than the right one; those that belong to the query do not count.
    vectors = {name: (np.full((1, 2), place), np.full(2, place)) for place, name in enumerate("cbda")}
    np.testing.assert_array_equal(held_out_ranks(made, vectors, DOCUMENT, tau=0.5), [1, 1])
    with pytest.raises(InputError, match="not finite"):
        held_out_ranks(
            made, {**vectors, "d": (np.full((1, 2), np.nan), np.full(2, np.nan))}, DOCUMENT, tau=0.5
        )


def test_papers_of_evaluations_are_left_out_by_id_doi_and_title() -> None:
    """Papers of evaluations are left out by id, DOI or a long title, and each reason is counted."""
    guard = LeakGuard(
        [
            paper("used", ("Words of its own.",), title="Attention: Is All You Need?", doi="10.1/AB"),
            paper("x", ("Notes of its own.",), title="Introduction"),
        ],
        ids=["listed"],
    )
    given = {
        "used": paper("used", title="Another title altogether"),
        "listed": paper("listed"),
        "same": paper("same", title="attention is all you need"),
        "doi": paper("doi", doi="10.1/ab"),
        "notes": paper("notes", title="Introduction"),
        "clean": paper("clean"),
    }
    assert list(guard.without_leaks(given)) == ["notes", "clean"]
    assert guard.counts == {"id": 2, "title": 1, "doi": 1}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_with_accents_are_the_same_in_every_form(form: Literal["NFC", "NFD"]) -> None:
    """A title or sentence is the same whether its accents are characters of their own or not."""
    title, sentence = "On Schrödinger's équation", "Schrödinger's équation is solved in another way."
    used = paper("used", (sentence,), title=normalize("NFC", title))
    guard = LeakGuard([used])
    assert {} == guard.without_leaks({"x": paper("x", title=normalize(form, title))})
    assert 1 == n_shared([paper("x", (normalize(form, sentence),))], [used])


def test_a_doi_is_known_as_an_id_and_as_a_doi() -> None:
    """A DOI that is listed or used leaves out papers with it as DOI or as id, in any case."""
    guard = LeakGuard([paper("doi:10.2/Used", ("Words of its own.",))], ids=["doi:10.1/ABC"])
    given = {
        "id": paper("doi:10.1/abc"),
        "doi": paper("x", doi="10.1/Abc"),
        "used": paper("y", doi="10.2/used"),
        "clean": paper("doi:10.1/ab", doi=None),
    }
    assert list(guard.without_leaks(given)) == ["clean"]
    cited = Citation("doi:10.1/Abc", "By a listed paper.", ("a",), 1)
    assert list(guard.without_leaked_citations([cited])) == []
    assert guard.counts == {"doi": 3, "doi of the citing paper": 1}


def test_abstracts_of_evaluations_are_left_out_by_their_text() -> None:
    """An evaluation may have abstracts without titles, with @ for numbers; a short phrase is no abstract."""
    used = "In 40 of 57 patients , the pain went away after some weeks of warm baths in salty water ."
    same = "In 40 of 57 patients, the pain went away after some weeks of warm baths in salty water."
    guard = LeakGuard(
        [
            short_text("line:1", used),
            short_text("2", used.replace("40", "@").replace("57", "@").replace("warm", "cold")),
            short_text("3", "No abstract available."),
        ]
    )
    given = {
        "warm": paper("warm", (same,)),
        "cold": paper("cold", (same.replace("warm", "cold"),)),
        "hot": paper("hot", (same.replace("warm", "hot"),)),
        "none": paper("none", ("No abstract available.",)),
    }
    assert list(guard.without_leaks(given)) == ["hot", "none"]
    assert guard.counts == {"text": 2}


def test_a_citing_paper_of_an_evaluation_is_known_by_title_and_doi() -> None:
    """Citing papers of an evaluation are recognised by title or DOI, because their ids differ."""
    guard = LeakGuard([paper("mine:1", title="A study of it all, again"), paper("mine:2", doi="10.1/AB")])
    given = [
        Citation("arxiv:1", "By title.", ("a",), 1, title="A Study of it All: Again"),
        Citation("arxiv:1", "By title, too.", ("a",), 1, title="A Study of it All: Again"),
        Citation("arxiv:2", "By DOI.", ("a",), 1, doi="10.1/ab"),
        Citation("arxiv:3", "By none.", ("a",), 1, title="Another study altogether", doi="10.1/c"),
    ]
    assert [each.citing for each in guard.without_leaked_citations(given)] == ["arxiv:3"]
    assert guard.counts == {"title of the citing paper": 1, "doi of the citing paper": 1}


def test_copies_of_a_text_are_found_by_title_or_sentences() -> None:
    """Copies are found by title or sentences; ids and short titles do not count."""
    held_out = [
        paper("a", title="A study of it all"),
        paper("b", ("Words of its own.",), title="Introduction"),
        short_text("context:0", "A sentence that cites this."),
        paper("c", ("Nobody else has these.",), title="Introduction"),
    ]
    others = [
        paper("x", ("Other sentences.",), title="A Study (of it all)"),
        paper("y", ("Words of its own.",), title="Introduction 2"),
        short_text("context:7", "A sentence, that cites this!"),
        short_text("context:0", "Something quite different stands here."),
    ]
    assert n_shared(held_out, others) == 3
    assert n_shared(held_out[3:], others) == 0


def test_a_crop_stands_for_its_paper() -> None:
    """Of two texts with a paper in common, one may be a part of it; equal ids alone do not count."""
    long = tuple(f"Sentence number {i} says so and so." for i in range(12))
    given = {"a": paper("a", long), "b:c": paper("b:c", long)}
    crops, cloze = independent_crops(given, seed=0)[1], inverse_cloze(given, seed=0)[1]
    other = paper("a", title="The same id, of another collection")
    for texts, others, expected in (
        (crops, cloze, 4),
        (crops, {"a": given["a"]}, 2),
        (given, {name: crops[name] for name in ("crop:b:c:a", "crop:b:c:b")}, 1),
        (crops, {"a": other}, 2),
        ({"a": other}, {"a": given["a"]}, 0),
    ):
        assert n_shared(texts.values(), list(others.values())) == expected
    guard = LeakGuard(crops.values())
    assert guard.without_leaks({**given, "d": paper("d", long)}).keys() == {"d"}


@pytest.mark.parametrize(
    ("example", "said"),
    [
        (Example("a", "a"), "contains a text twice"),
        (Example("a", "b", negatives=("b",)), "contains a text twice"),
        (Example("a", "b", negatives=("a",)), "contains a text twice"),
        (Example("a", "z"), "names 'z'"),
    ],
)
def test_a_set_refuses_examples_that_cannot_be(example: Example, said: str) -> None:
    """A set refuses an example with a text twice or with an unknown text."""
    with pytest.raises(InputError, match=said):
        TrainingSet("set", papers("a", "b"), (example,))


def test_a_set_knows_what_belongs_together() -> None:
    """Belonging together is symmetric and reflexive, but not transitive."""
    made = training_set("set", [Example("a", "b"), Example("b", "c")], papers("a", "b", "c", "unused"))
    assert "unused" not in made.texts
    belongs = np.array([[y in related(x, [made]) for y in "abc"] for x in "abc"])
    np.testing.assert_array_equal(belongs, [[1, 1, 0], [1, 1, 1], [0, 1, 1]])


def test_an_empty_text_is_refused() -> None:
    """A text without a sentence is refused."""
    with pytest.raises(InputError, match="is empty"):
        short_text("t", " ")
