"""CSL-JSON in odd shapes."""

import json
from pathlib import Path

import pytest

from indexer.corpus.read import CorpusReport, read_corpus
from tests.support.examples.corpus_examples import reasons, write_lines


def test_csl_of_odd_shapes(tmp_path: Path) -> None:
    """Dates, names and ids are read as programs write them, from a list or from JSON lines."""
    records = [
        {"id": 7, "type": "book", "title": "T", "abstract": "A.", "issued": {"date-parts": [["2015"]]}},
        {"id": "b", "type": "book", "title": "T", "abstract": "A.", "issued": {"raw": "1999"}, "author": {}},
        {"id": "c", "type": "book", "title": "T", "issued": None, "note": "PMID: 41\nhttps://x.y"},
    ]
    report = CorpusReport()
    path = write_lines(tmp_path, json.dumps(records, indent=2))
    papers = list(read_corpus(path, report=report))
    assert [2015, 1999] == [paper.year for paper in papers]
    assert ["csl:", "b"] == [paper.id[:4] for paper in papers]
    assert ["pmid:41"] == [each.lookup for each in report.unresolved]
    assert papers == list(read_corpus(write_lines(tmp_path, *records)))


def test_works_of_crossref(tmp_path: Path) -> None:
    """The first title of a Crossref work counts, and its year may stand in a text."""
    work = {
        "DOI": "10.5555/X",
        "type": "journal-article",
        "title": ["Tides", "Another title"],
        "subtitle": ["A study"],
        "container-title": ["Coastal Letters"],
        "abstract": "<jats:p>We sing.</jats:p>",
        "issued": {"literal": "Winter 1999"},
    }
    bare = {"DOI": "10.5555/y", "type": "journal-article", "title": [], "abstract": "A.", "issued": {}}
    report = CorpusReport()
    (paper,) = read_corpus(write_lines(tmp_path, work, bare), report=report)
    assert ("doi:10.5555/x", "Tides: A study", "Coastal Letters", 1999) == (
        paper.id,
        paper.title,
        paper.venue,
        paper.year,
    )
    assert 1 == report.broken


@pytest.mark.parametrize(
    ("abstract", "expected"),
    [
        ("<jats:p>&lt;p&gt;We &lt;em&gt;sing&lt;/em&gt;.&lt;/p&gt;</jats:p>", "We sing."),
        ("<jats:p>Tides &amp;lt; 1 m.</jats:p>", "Tides < 1 m."),
        ("<jats:p>We read &lt;p&gt; and &lt;b&gt; of HTML.</jats:p>", "We read <p> and <b> of HTML."),
    ],
)
def test_abstracts_that_are_escaped_twice(tmp_path: Path, abstract: str, expected: str) -> None:
    """A decoded abstract that is a paragraph of HTML, or still has entities, is decoded again."""
    work = {"DOI": "10.5555/x", "type": "book", "title": ["T"], "abstract": abstract, "issued": {}}
    assert [expected] == [paper.abstract for paper in read_corpus(write_lines(tmp_path, work))]


UNDATED = {"id": "web1", "type": "webpage", "title": "Undated", "abstract": "A."}
DATED = {
    "id": "b",
    "type": "article-journal",
    "title": "Dated",
    "abstract": "A b.",
    "issued": {"date-parts": [[2020]]},
    "author": [{"family": "Doe", "given": "J"}],
    "DOI": "10.1000/b",
}


@pytest.mark.parametrize(
    "records", [[UNDATED, DATED], [UNDATED | {"URL": "https://example.org/a"}, DATED], [UNDATED, 7, DATED]]
)
@pytest.mark.parametrize("as_list", [True, False])
def test_the_first_entry_may_be_undated(tmp_path: Path, records: list[object], as_list: bool) -> None:
    """A later entry, or a common key of CSL, tells the format, so no field of the others is lost."""
    path = write_lines(tmp_path, *([records] if as_list else records))
    papers = list(read_corpus(path))
    assert ["web1", "doi:10.1000/b"] == [paper.id for paper in papers]
    assert (2020, ("J Doe",), "10.1000/b") == (papers[1].year, papers[1].authors, papers[1].doi)
    alone = write_lines(tmp_path, [{"id": "a", "type": "book", "title": "T", "DOI": "10.1000/a"}])
    report = CorpusReport()
    assert [] == list(read_corpus(alone, report=report))
    assert (["doi:10.1000/a"], 0) == ([each.lookup for each in report.unresolved], report.broken)


def test_papers_of_our_own_format_may_have_a_type(tmp_path: Path) -> None:
    """Keys of Akin's own format in the first record count more than what others have in addition."""
    path = write_lines(tmp_path, UNDATED | {"year": 2019, "author": "x", "publisher": "P"}, DATED)
    assert [("web1", 2019), ("b", None)] == [(paper.id, paper.year) for paper in read_corpus(path)]


@pytest.mark.parametrize("number", ["1", 23, "ITEM-1"])
def test_the_number_of_an_entry_is_no_id(tmp_path: Path, number: object) -> None:
    """Another export gives the number to another paper; the id is made of the title, so it stays the same."""
    floods = UNDATED | {"title": "Floods", "issued": {}, "id": number}
    (first,) = read_corpus(write_lines(tmp_path, floods))
    (other,) = read_corpus(write_lines(tmp_path, floods | {"title": "Stars"}))
    (again,) = read_corpus(write_lines(tmp_path, floods | {"id": "77"}))
    assert first.id == again.id != other.id
    assert first.id.startswith("csl:")
    assert ["no title"] == [reason for _, reason in reasons(write_lines(tmp_path, floods | {"title": None}))]


@pytest.mark.parametrize(
    ("year", "expected"), [("2020a", 2020), (2020, 2020), (-300, None), ("n.d.", None), ([], None)]
)
def test_a_year_that_is_none_loses_no_paper(tmp_path: Path, year: object, expected: int | None) -> None:
    """A letter after a year distinguishes papers of one year; a year that cannot be used is left out."""
    (found,) = read_corpus(write_lines(tmp_path, DATED | {"issued": {"date-parts": [[year]]}}))
    assert expected == found.year


def test_names_of_people_and_groups(tmp_path: Path) -> None:
    """All particles of a name are kept; Crossref calls the name of a group ``name``."""
    people = [
        {"given": "Vincent", "dropping-particle": "van", "family": "Gogh"},
        {"given": "Jan", "non-dropping-particle": "van der", "family": "Berg", "suffix": "Jr"},
        {"literal": "A Group"},
        {"name": "Another Group"},
        7,
    ]
    (found,) = read_corpus(write_lines(tmp_path, DATED | {"author": people}))
    assert ("Vincent van Gogh", "Jan van der Berg Jr", "A Group", "Another Group") == found.authors


def test_an_answer_of_crossref_about_one_work(tmp_path: Path) -> None:
    """A saved answer has the work in ``message``."""
    answer = {"status": "ok", "message-type": "work", "message": DATED | {"title": ["Dated"]}}
    (found,) = read_corpus(write_lines(tmp_path, answer))
    assert ("doi:10.1000/b", "Dated", 2020) == (found.id, found.title, found.year)
