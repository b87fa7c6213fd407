"""Lists of ids, and library entries with only a name."""

from pathlib import Path

import pytest

from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.rows import RawPaper
from models.errors import BrokenRowError, CorpusFormatError
from tests.support.examples.corpus_examples import CORPORA, reasons, write_lines


def test_every_id_is_listed() -> None:
    """Ids without a paper are listed as unresolved with their lines, and a line without an id is broken."""
    report = CorpusReport()
    assert [] == list(read_corpus(CORPORA / "ids.txt", report=report))
    assert [(2, "doi:10.5555/lamp.1"), (3, "arxiv:9912.00007"), (5, "pmid:31452104")] == [
        (each.line, each.lookup) for each in report.unresolved
    ]
    with pytest.raises(BrokenRowError, match=r"ids\.txt:4: 'not an id' is not a DOI"):
        list(read_corpus(CORPORA / "ids.txt", on_error="fail"))


def test_what_was_found_completes_an_entry() -> None:
    """An entry keeps its id and fields, and a looked-up paper fills the missing fields."""
    found = {
        "doi:10.5555/lamp.1": RawPaper("x", "Lamps", "We fit lamps.", 2019, "V", ["A"], doi="10.5555/Lamp.1"),
        "arxiv:9912.00007": RawPaper("x", "Found", "We found it.", 2020),
    }
    report = CorpusReport()
    (lamps, other) = read_corpus(CORPORA / "ids.txt", report=report, found=found)
    assert ("doi:10.5555/lamp.1", "Lamps", "We fit lamps.", 2019) == (
        lamps.id,
        lamps.title,
        lamps.abstract,
        lamps.year,
    )
    assert "arxiv:9912.00007" == other.id
    assert (2, 1, ["pmid:31452104"]) == (
        report.looked_up,
        report.without_abstract,
        [each.lookup for each in report.unresolved],
    )
    (lamps, umber, _) = read_corpus(CORPORA / "library.bib", found=found)
    assert ("Lamps of Old", "We found it.", 2021) == (umber.title, umber.abstract, umber.year)
    assert "Lamps are dim." == lamps.sentences[0].text


def test_lists_are_recognised_among_other_texts(tmp_path: Path) -> None:
    """A list of ids is recognised if its first line and most lines name papers; a table is not a list."""
    assert [(2, "'x' is not a DOI, arXiv id or PubMed number")] == reasons(
        write_lines(tmp_path, "10.5555/a", "x", "41", name="a.txt")
    )
    assert [] == reasons(write_lines(tmp_path, "title,abstract,id", "10.5555/a,b,c", name="b.csv"))
    with pytest.raises(CorpusFormatError, match="no known corpus format"):
        reasons(write_lines(tmp_path, "10.5555/a", "Dear colleagues", "see above", name="d.txt"))
    long_line = "10.5555/" + "x" * 500
    assert [2] == [line for line, _ in reasons(write_lines(tmp_path, "41", long_line, "42", name="c.txt"))]


@pytest.mark.parametrize(
    "lines",
    [
        ["10.5555/a # LeCun 2015 review", "10.5555/b#c\t# another, longer note"],
        ["DOI", "10.5555/a", "10.5555/b#c"],
        ['"PubMed IDs"', "10.5555/a", "# x", "10.5555/b#c"],
    ],
)
def test_notes_and_a_header_are_passed_over(tmp_path: Path, lines: list[str]) -> None:
    """A note may follow an id after white space; a # inside an id belongs to it."""
    report = CorpusReport()
    assert [] == list(read_corpus(write_lines(tmp_path, *lines, name="ids.txt"), report=report))
    assert ["doi:10.5555/a", "doi:10.5555/b#c"] == [each.lookup for each in report.unresolved]
    assert 0 == report.broken


def test_the_list_of_unresolved_entries_is_bounded(tmp_path: Path) -> None:
    """Unresolved entries over the limit are counted but not listed."""
    assert CorpusReport().max_unresolved >= 10_000
    report = CorpusReport(max_unresolved=2)
    assert [] == list(read_corpus(write_lines(tmp_path, "1", "2", "3"), report=report))
    assert (3, 2) == (report.without_abstract, len(report.unresolved))
