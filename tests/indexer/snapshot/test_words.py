"""The words of a collection: their rarity over all segments, and the papers that share them."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from indexer.collection.growth import Bounds
from indexer.collection.merging import compact
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment import PAPERS
from indexer.words.collection import CollectionWords
from indexer.words.file import KeptWords, SegmentWords, merged_words, words_in, words_of
from models.checksums import hash64
from models.encoder import Encoder
from models.text.words import WordCounts, count_words, stems
from tests.support.builds import build_quietly, many_papers, write_corpus

TEXTS = [
    "Rivers flood towns, and graph networks forecast the floods.",
    "Graph networks transcribe music; music is hard.",
    "数据增强方法",
    "",
    "Rivers carry sediment. Rivers meander.",
    "the of and",
]
QUERY = "Floods of rivers: forecasts by zymurgy"


def bags(texts: Sequence[str]) -> list[WordCounts]:
    """Return the word counts of abstracts without titles."""
    return [count_words("", text) for text in texts]


def collection(
    *segments: Sequence[str], dead: Sequence[int] = (), most_postings: int = 100
) -> CollectionWords:
    """Return the words of segments of texts, with the papers at the positions ``dead`` deleted."""
    bounds = np.cumsum([0, *map(len, segments)])
    live = np.ones(bounds[-1], dtype=bool)
    live[list(dead)] = False
    own = np.split(live, bounds[1:-1])
    return CollectionWords([words_of(bags(each)) for each in segments], own, most_postings=most_postings)


def cosines(words: CollectionWords, text: str, n: int) -> np.ndarray:
    """Return the cosine of a text with every paper."""
    return words.cosines([words.vector([(1.0, count_words("", text))])], np.arange(n))[0]


def test_cosines_are_those_of_scikit_learn() -> None:
    """Cosines are those of sublinear tf-idf with smoothed idf; unknown words count as the rarest."""
    vectorizer = TfidfVectorizer(analyzer=stems, sublinear_tf=True)
    matrix = vectorizer.fit_transform(TEXTS)
    for text in (QUERY.removesuffix(" by zymurgy"), TEXTS[0], TEXTS[2]):
        expected = (matrix @ vectorizer.transform([text]).T).toarray()[:, 0]
        assert cosines(collection(TEXTS), text, 6) == pytest.approx(expected, abs=1e-12)
    known = cosines(collection(TEXTS), QUERY.removesuffix(" by zymurgy"), 6)
    assert (cosines(collection(TEXTS), QUERY, 6)[known > 0] < known[known > 0]).all()


def test_segments_change_nothing() -> None:
    """Cosines are the same to the bit for any split into segments and any company of papers."""
    whole, parted = collection(TEXTS), collection(TEXTS[:2], TEXTS[2:5], TEXTS[5:])
    expected = cosines(whole, QUERY, 6)
    assert expected.tolist() == cosines(parted, QUERY, 6).tolist()
    vector = parted.vector([(1.0, count_words("", QUERY))])
    alone = [float(parted.cosines([vector], np.array([i]))[0, 0]) for i in range(6)]
    assert expected.tolist() == alone
    assert expected.tolist() == parted.cosines([vector] * 3, np.arange(6))[1].tolist()


def test_deleted_papers_make_no_word_common() -> None:
    """Deleted papers do not count in document frequencies."""
    more = [*TEXTS, "Floods, rivers and forecasts.", "Floods again."]
    without = collection(TEXTS[:3], TEXTS[3:])
    assert cosines(without, QUERY, 6) == pytest.approx(cosines(collection(more, dead=[6, 7]), QUERY, 6)[:6])
    assert not np.allclose(cosines(without, QUERY, 6), cosines(collection(more), QUERY, 6)[:6])


def test_what_is_shared_adds_up() -> None:
    """The weights of the words that a paper shares with a text add up to their cosine."""
    words = collection(TEXTS[:2], TEXTS[2:])
    vector = words.vector([(0.5, count_words("", QUERY)), (0.5, count_words("", "music"))])
    for position, cosine in enumerate(words.cosines([vector], np.arange(6))[0]):
        shared = words.shared(vector, position)
        assert sum(shared.values()) == pytest.approx(cosine, abs=1e-12)
        assert set(shared) == set(stems(TEXTS[position])) & {*stems(QUERY), "music"}


def test_the_nearest_by_words_are_found() -> None:
    """Allowed papers that share a word are found, nearest first, ties by position."""
    texts = [*TEXTS, *TEXTS]
    words = collection(texts[:5], texts[5:])
    vector = words.vector([(1.0, count_words("", QUERY))])
    expected = [0, 6, 4, 10]
    everything = np.ones(12, dtype=bool)
    for n in range(6):
        assert expected[:n] == words.nearest(vector, n, allowed=everything).tolist()
    allowed = everything.copy()
    allowed[[0, 6]] = False
    assert [4, 10] == words.nearest(vector, 9, allowed=allowed).tolist()


def test_of_too_many_postings_the_weightiest_words_are_read() -> None:
    """A limit on postings leaves out the commonest words, not the rarest."""
    texts = ["graph networks zymurgy", *["graph networks"] * 50]
    words = collection(texts, most_postings=10)
    vector = words.vector([(1.0, count_words("", "graph networks zymurgy"))])
    assert [0] == words.nearest(vector, 5, allowed=np.ones(51, dtype=bool)).tolist()


@pytest.mark.parametrize(("most_postings", "found"), [(10, []), (100, [49])])
def test_rare_words_are_looked_up_within_a_bound(most_postings: int, found: list[int]) -> None:
    """A lookup of rare words reads no more postings than its limit, even if few papers are allowed."""
    words = collection(["graph"] * 20 + ["networks"] * 30, most_postings=most_postings)
    vector = words.vector([(1.0, count_words("", "graph networks"))])
    assert found == words.rarest(vector, 5, allowed=np.arange(50) == 49)


def test_papers_with_all_of_some_words_are_found() -> None:
    """Allowed papers with all words are found in every segment; with an unknown word or none, no paper is."""
    words = collection(["graph zymurgy", "graph", "zymurgy graph"], ["zymurgy"], ["graphs of zymurgy", ""])
    allowed = np.ones(6, dtype=bool)
    assert [0, 2, 4] == words.with_all(stems("zymurgy of graphs"), allowed=allowed).tolist()
    allowed[2] = False
    assert [0, 4] == words.with_all(stems("zymurgy of graphs"), allowed=allowed).tolist()
    assert [] == words.with_all(stems("graph xylitol"), allowed=allowed).tolist()
    assert [] == words.with_all([], allowed=allowed).tolist()
    assert [] == collection([""]).with_all(["graph"], allowed=allowed[:1]).tolist()


@pytest.mark.parametrize("texts", [[], [""], ["the", "of"]])
def test_without_a_word_nothing_is_alike(texts: list[str]) -> None:
    """Collections, papers and texts without words have cosine 0, and nothing is found."""
    words = collection(texts) if texts else CollectionWords([], [])
    assert [0.0] * len(texts) == cosines(words, QUERY, len(texts)).tolist()
    for query in (QUERY, "", "the"):
        vector = words.vector([(1.0, count_words("", query))])
        assert [] == words.nearest(vector, 5, allowed=np.ones(len(texts), dtype=bool)).tolist()
    assert [0.0] * 6 == cosines(collection(TEXTS), "", 6).tolist()


def test_words_grow_and_merge_with_the_collection(tmp_path: Path, hashing: Encoder) -> None:
    """A collection built in steps, with replaced papers, has the same words as one built at once."""
    papers = many_papers(60)
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "whole", hashing)
    for start, end in ((0, 40), (30, 45), (45, 60)):
        build_quietly(write_corpus(tmp_path / "s.jsonl", papers[start:end]), tmp_path / "steps", hashing)
    changed = [{**papers[0], "title": "Zymurgy"}]
    for data in ("whole", "steps"):
        build_quietly(write_corpus(tmp_path / "s.jsonl", changed), tmp_path / data, hashing)
    found = []
    for data in ("whole", "steps"):
        snapshot = open_snapshot(tmp_path / data)
        assert snapshot.words is not None
        positions = np.array([snapshot.position(str(paper["id"])) for paper in papers])
        vector = snapshot.words.vector([(1.0, count_words("Zymurgy", ""))])
        found.append(snapshot.words.cosines([vector], positions)[0].tolist())
        best = snapshot.words.nearest(vector, 1, allowed=snapshot.live)
        assert ["p0"] == [snapshot.paper(int(position)).id for position in best]
    assert found[0] == found[1]


def test_a_collection_without_words_still_opens(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection made before words were stored opens without them, and compacting adds them."""
    with monkeypatch.context() as before:
        before.setattr("indexer.snapshot.segment_writer.write_words", lambda path, papers: None)
        build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(5)), tmp_path / "data", hashing)
    snapshot = open_snapshot(tmp_path / "data")
    assert snapshot.words is None
    compact(tmp_path / "data", snapshot, device="cpu", keep=1)
    assert open_snapshot(tmp_path / "data").words is not None


def test_words_counted_by_older_rules_are_counted_again(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words counted by older rules stay in use until a compaction counts them again, once."""
    with monkeypatch.context() as before:
        before.setattr("indexer.words.file.RULES", "1")
        build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(5)), tmp_path / "data", hashing)
    snapshot = open_snapshot(tmp_path / "data")
    assert snapshot.words is not None
    assert ["1"] == [segment.words.rules for segment in snapshot.segments if segment.words is not None]
    done = compact(tmp_path / "data", snapshot, device="cpu", keep=1)
    assert done.generation != snapshot.generation
    again = open_snapshot(tmp_path / "data")
    assert [True] == [segment.has_current_words for segment in again.segments]
    assert done.generation == compact(tmp_path / "data", again, device="cpu", keep=1).generation


def test_counts_past_what_is_kept_are_cut() -> None:
    """A word that occurs a thousand times counts as 255."""
    words = words_of(bags(["flood " * 1_000, "flood " * 255]))
    assert isinstance(words, SegmentWords)
    assert [255, 255] == words.counts.tolist()


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_cells_stand_by_paper_and_by_word(tmp_path: Path, at_once: int) -> None:
    """Counts are sorted by paper and by word, however many are sorted at once; no file stays on disk."""
    papers: list[WordCounts] = [{}, {"b": 2, "c": 300, "a": 1}, {}, {"a": 4}, {"c": 1, "a": 255}, {}]
    made = words_of(papers, tmp_path, at_once=at_once)
    assert not [*tmp_path.iterdir()]
    hashes = made.words.tolist()
    assert sorted(hashes) == hashes
    numbers = {stem: hashes.index(hash64(stem)) for stem in "abc"}
    cells = [
        (i, numbers[stem], min(times, 255)) for i, own in enumerate(papers) for stem, times in own.items()
    ]
    by_paper = np.repeat(np.arange(len(papers)), np.diff(made.paper_starts))
    assert sorted(cells) == list(zip(by_paper, made.numbers, made.counts, strict=True))
    by_word = np.repeat(np.arange(len(hashes)), np.diff(made.word_starts))
    turned = sorted((number, paper, times) for paper, number, times in cells)
    assert turned == list(zip(by_word, made.papers, made.times, strict=True))
    types = [getattr(made, field.name).dtype.name for field in fields(made) if field.name != "rules"]
    assert ["uint64", "int64", "uint32", "uint8", "int64", "uint32", "uint8"] == types


def same(one: SegmentWords, other: SegmentWords) -> bool:
    """Return whether all lists are equal."""
    return all(np.array_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_words_of_merged_segments_are_those_counted_anew(tmp_path: Path, at_once: int) -> None:
    """Words that occur in no paper that is kept are left out; no file stays on disk."""
    first, second = words_of(bags(TEXTS)), words_of(bags([*TEXTS[3:], QUERY]))
    kept = [KeptWords(first, np.array(own)) for own in ([0], [2, 3])] + [KeptWords(second, np.arange(1, 4))]
    made = merged_words(kept, tmp_path, at_once=at_once)
    assert not [*tmp_path.iterdir()]
    assert same(words_of(bags([TEXTS[0], *TEXTS[2:6], QUERY])), made)
    assert len(words_of(bags(TEXTS)).words) > len(merged_words(kept[:1]).words)
    assert same(words_of(bags(["", ""])), merged_words([KeptWords(first, np.array([3, 3]))]))


def test_a_merge_counts_no_words_again(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merged segment has the words of its papers, taken from the segments' files."""
    for n in (5, 9, 12):
        corpus = write_corpus(tmp_path / f"{n}.jsonl", many_papers(n))
        build_quietly(corpus, tmp_path / "data", hashing, bounds=Bounds(publish_every=2))
    monkeypatch.delattr("indexer.snapshot.segment_writer.words_in")
    compact(tmp_path / "data", open_snapshot(tmp_path / "data"), device="cpu", keep=1)
    (merged,) = open_snapshot(tmp_path / "data").segments
    assert merged.words is not None
    (papers,) = (tmp_path / "data").glob(f"segments/{merged.entry.name}/{PAPERS}")
    assert same(words_in(papers), merged.words)


def test_of_very_many_rare_words_some_are_looked_up() -> None:
    """Only the 64 rarest words of a long text are looked up."""
    texts = [f"quokka{number}" for number in range(100)]
    words = collection(texts)
    vector = words.vector([(1.0, count_words("", " ".join(texts)))])
    assert len(words.rarest(vector, 100, allowed=np.ones(100, dtype=bool))) == 64


def test_papers_with_the_rarest_word_come_first() -> None:
    """Papers with the rarest word come first, however often other words occur, in any segment."""
    texts = ["graph zymurgy", *["graph networks"] * 20, "graph quokka", "graph quokka"]
    words = collection(texts[:5], texts[5:])
    vector = words.vector([(1.0, count_words("", "graph networks " * 50 + "zymurgy quokka xylitol"))])
    allowed = np.ones(len(texts), dtype=bool)
    assert [0, 21, 22, 1] == words.rarest(vector, 4, allowed=allowed)
    allowed[[0, 21]] = False
    assert [22, 1] == words.rarest(vector, 2, allowed=allowed)
    assert [] == words.rarest(words.vector([(1.0, {})]), 2, allowed=allowed)
