"""Tests of sentence search in unusual collections: repeated sentences, given facets, missing vectors."""

from pathlib import Path

import pytest

from models.annotator import Annotator
from models.encoder import Encoder
from models.errors import EncoderMismatchError, MissingVectorsError
from models.types import Facet, Paper
from service.answer_warnings import WarningCode, warning
from service.search.engine import SearchEngine
from service.search.sentences import Likeness, SentenceQuery, search_sentences
from tests.support.annotators import FirstColumns, KeywordTagger
from tests.support.sentence_engines import N_FUNCTION_DIMS, Whole, small_engine

NOTICE = "All rights reserved by the publisher."


def with_notices(n: int) -> list[dict[str, object]]:
    """Return papers that end in the same notice, some in capitals, and three with a similar sentence."""
    noticed = [
        {"id": f"n{i}", "title": f"T{i}", "abstract": [f"Topic {i}.", NOTICE.upper() if i % 2 else NOTICE]}
        for i in range(n)
    ]
    near = [
        {"id": f"r{i}", "title": f"R{i}", "abstract": [f"Some rights reserved by publisher {i}."]}
        for i in range(3)
    ]
    return [*noticed, *near]


def test_the_only_paper_finds_no_other(tmp_path: Path, sentence_annotator: Annotator) -> None:
    """If nothing else is indexed the answer says so."""
    engine = small_engine(
        tmp_path, sentence_annotator, [{"id": "a", "title": "A", "abstract": ["We aim high."]}]
    )
    answer = search_sentences(engine, SentenceQuery(paper_id="a"))
    assert ((), "nothing_else_indexed") == (answer.results, answer.reason)


def test_a_repeated_sentence_comes_once(tmp_path: Path, sentence_annotator: Annotator) -> None:
    """If fifty papers share a sentence, only the nearest is returned, so that other sentences have room."""
    engine = small_engine(tmp_path, sentence_annotator, with_notices(50))
    answer = search_sentences(engine, SentenceQuery(text=NOTICE, limit=4))
    texts = [found.paper.sentences[found.sentence].text for found in answer.results]
    assert [True, False, False, False] == [text.casefold() == NOTICE.casefold() for text in texts]
    assert {"r0", "r1", "r2"} == {found.paper.id for found in answer.results[1:]}
    assert () == answer.warnings


def test_repeats_without_end_are_reported(tmp_path: Path, sentence_annotator: Annotator) -> None:
    """If repeats fill all rows that may be read, the answer is shorter and warns of their number."""
    engine = small_engine(tmp_path, sentence_annotator, with_notices(50))
    answer = search_sentences(engine, SentenceQuery(text=NOTICE, limit=4), most_rows=20)
    assert (1, (warning(WarningCode.REPEATED_SENTENCES, 19),)) == (len(answer.results), answer.warnings)


def test_a_wider_search_reads_only_what_is_new(
    tmp_path: Path, sentence_annotator: Annotator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that widens because of repeats reads no paper of a row twice."""
    engine = small_engine(tmp_path, sentence_annotator, with_notices(50))
    snapshot, read = engine.snapshot, []

    def counted(position: int) -> Paper:
        read.append(position)
        return paper_of(position)

    paper_of = snapshot.paper
    monkeypatch.setattr(snapshot, "paper", counted)
    search_sentences(engine, SentenceQuery(text=NOTICE, limit=4))
    assert 4 <= len(read) <= snapshot.n_rows


def test_all_there_is_may_be_fewer_than_the_limit(tmp_path: Path, sentence_annotator: Annotator) -> None:
    """If there are fewer different sentences than the limit, all are returned without a warning."""
    engine = small_engine(tmp_path, sentence_annotator, with_notices(5))
    answer = search_sentences(engine, SentenceQuery(text=NOTICE, limit=100))
    assert (5 + 1 + 3, ()) == (len(answer.results), answer.warnings)


def test_facets_the_tagger_gave_are_searched(tmp_path: Path, sentence_annotator: Annotator) -> None:
    """Sentences indexed without facets are found by the facets that the tagger gave them."""
    papers = [
        {"id": "a", "title": "A", "abstract": ["Floods are frequent.", "We propose a gauge."]},
        {"id": "b", "title": "B", "abstract": ["We aim at floods.", "Our code is public."]},
    ]
    engine = small_engine(tmp_path, sentence_annotator, papers)

    def found(*facets: Facet) -> set[tuple[str, int]]:
        answer = search_sentences(engine, SentenceQuery(text="floods", facets=facets))
        return {(each.paper.id, each.sentence) for each in answer.results}

    assert {("a", 1)} == found(Facet.METHOD)
    assert {("a", 0), ("b", 0)} == found(Facet.BACKGROUND)
    assert {("b", 0)} == found(Facet.OBJECTIVE)
    assert {("a", 1), ("b", 1)} == found(Facet.METHOD, Facet.OTHER)


def test_without_function_vectors_there_is_no_search_by_function(plain_engine: SearchEngine) -> None:
    """Without function vectors, a search by function is refused with the remedy; by meaning it works."""
    for query in ({"text": "We aim high."}, {"paper_id": "demo:p03-m07", "sentence": 0}):
        with pytest.raises(MissingVectorsError, match="`akin reindex --encoder minilm`"):
            search_sentences(plain_engine, SentenceQuery(by=Likeness.FUNCTION, **query))
        assert search_sentences(plain_engine, SentenceQuery(**query)).results


def test_an_encoder_of_whole_papers_has_no_sentences(tmp_path: Path, hashing: Encoder) -> None:
    """With one vector per paper, sentence search is refused."""
    engine = small_engine(
        tmp_path,
        Annotator(Whole(hashing), tagger=KeywordTagger()),
        [{"id": "a", "title": "A", "abstract": ["B.", "C."]}],
    )
    for by in Likeness:
        with pytest.raises(MissingVectorsError, match=r"one vector per paper.*`akin reindex --encoder"):
            search_sentences(engine, SentenceQuery(text="A.", by=by))


def test_functions_by_another_model_are_not_compared(
    sentence_engine: SearchEngine, hashing: Encoder, sentence_annotator: Annotator
) -> None:
    """A text needs the function model of the index; an indexed sentence does not."""
    fingerprint = hashing.spec.fingerprint
    others = [FirstColumns(fingerprint, dim=N_FUNCTION_DIMS, name="other"), None]
    for other in others:
        changed = Annotator(sentence_annotator.encoder, tagger=sentence_annotator.tagger, functions=other)
        mixed = SearchEngine(sentence_engine.snapshot, lambda changed=changed: changed, n_candidates=200)  # type: ignore[misc]  # bound now
        with pytest.raises(EncoderMismatchError):
            search_sentences(mixed, SentenceQuery(text="We aim high.", by=Likeness.FUNCTION))
        indexed = SentenceQuery(paper_id="demo:p03-m07", by=Likeness.FUNCTION)
        assert search_sentences(mixed, indexed).results
