"""Reading a corpus: every way in which a row or a file can be broken."""

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from indexer.corpus.read import MAX_REPORTED_ROWS, CorpusReport, read_corpus
from indexer.corpus.rows import MAX_ABSTRACT_CHARS, MAX_ID_CHARS, MAX_SENTENCES, MAX_TITLE_CHARS
from indexer.corpus.source import MAX_LINE_BYTES
from models.errors import CorpusFormatError, StorageError, UnknownNameError
from models.types import Facet
from tests.support.examples.corpus_examples import WriteFn, paper, reasons, row, write_lines


@pytest.fixture
def write(tmp_path: Path) -> WriteFn:
    """Return a function that writes lines to a file."""
    return partial(write_lines, tmp_path)


# Our own format: every way a row can be broken


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"id": "x", "title": "T", "abstract": NaN, }', "not valid JSON"),
        ('{"id": "x", "title": "T", "abstract": NaN}', "no abstract"),
        ('{"id": "x", "title": "T", "abstract": "\\ud800"}', "not valid JSON"),
        ('{"id": "x", "title": "T", "abstract": "\\ud800", "year": NaN}', "not valid JSON"),
        ('{"id": "x", "title": "NaN", "abstract": "\\ud800"}', "not valid JSON"),
        (b'{"id": "x", "title": "T", "abstract": "\x81"}\n', "neither UTF-8 nor Latin-1 at byte"),
        ('{"id":' + "[" * 100_000, "not valid JSON"),
        ({"title": "T", "abstract": "A."}, "no id"),
        ({"id": "x", "abstract": "A."}, "no title"),
        ({"id": "x", "title": "T"}, "no abstract"),
        (row("x", id=1.5), "the id is a number, not a text"),
        (row("x", id=True), "the id is true or false, not a text"),
        (row(" x"), "white space at its ends"),
        (row("x\ny"), "cannot be printed"),
        (row("x\u202e"), "cannot be printed"),
        (row(""), "the id is empty"),
        (row("x" * (MAX_ID_CHARS + 1)), "the id has 201 characters"),
        (row("x", title=["T"]), "the title is a list"),
        (row("x", title=" \n "), "the title is empty"),
        (row("x", title="x" * (MAX_TITLE_CHARS + 1)), "the title has 2,001 characters"),
        (row("x", abstract=7), "the abstract is a number"),
        (row("x", abstract=" \u0000 "), "the abstract is empty"),
        (row("x", abstract="x" * (MAX_ABSTRACT_CHARS + 1)), "the abstract has 100,001 characters"),
        (row("x", abstract=[]), "the abstract is empty"),
        (row("x", abstract=["", " "]), "the abstract is empty"),
        (row("x", abstract=["A.", 1]), "the sentence is a number"),
        (row("x", abstract=["A."] * (MAX_SENTENCES + 1)), "the abstract has 1,001 sentences"),
        (row("x", abstract=["x" * 10_001]), "the sentence has 10,001 characters"),
        (row("x", abstract=["x" * 9_999] * 11), "the abstract has 109,999 characters"),
        (row("x", abstract=["A.", "B."], facets=["method"]), "1 facet for 2 sentences"),
        (
            row("x", abstract="One thing. Two things.", facets=["method"]),
            "facets has length 1, but the abstract's number of sentences is 2",
        ),
        (row("x", facets=["methods"]), "unknown facet 'methods'; known: background"),
        (row("x", facets=[["method"]]), "unknown facet"),
        (row("x", facets="method"), "facets is a text, not a list"),
        (row("x", year=999), "the year '999'"),
        (row("x", year=True), "the year 'True'"),
        (row("x", year=2020.5), "the year '2020.5'"),
        (row("x", year="2020.5"), "the year '2020.5'"),
        (row("x", year="2001a"), "the year '2001a'"),
        (row("x", authors=7), "authors is a number"),
        (row("x", authors=[7]), "the author is a number, not a text"),
        (row("x", authors=[{"id": 7}]), "the author is an object, not a text"),
        (row("x", year="2020-050"), "the year '2020-050'"),
        (row("x", abstract=" NaN\n"), "the abstract is empty"),
        (row("x", abstract="n/a"), "the abstract is empty"),
        (row("x", fields={"a": 1}), "fields is an object"),
        (row("x", venue=["V"]), "the venue is a list"),
    ],
)
def test_a_broken_row_says_why(write: WriteFn, broken: object, reason: str) -> None:
    """A broken row is skipped and reported with its reason, and its neighbours are read."""
    path = write(row("first"), broken, "", row("last"))
    report = CorpusReport()
    assert ["first", "last"] == [found.id for found in read_corpus(path, report=report)]
    assert [2] == [found.line for found in report.broken_rows]
    assert reason in report.broken_rows[0].reason


def test_facets_of_a_text_go_to_its_sentences(write: WriteFn) -> None:
    """Facets of an abstract given as text go to its sentences if there are as many."""
    path = write(row(abstract="One thing.  Two\nthings.", facets=["method", None]))
    assert [paper("a", "A title", "One thing.", "Two things.", facets=[Facet.METHOD, None])] == list(
        read_corpus(path)
    )


def test_a_text_has_its_first_thousand_sentences(write: WriteFn) -> None:
    """A text of more sentences keeps its words, but only the first 1,000 sentences; facets are theirs."""
    text, facets = " ".join(["We do."] * 14_285), ["method"] * MAX_SENTENCES
    long, labelled = read_corpus(write(row("a", abstract=text), row("b", abstract=text, facets=facets)))
    for found in (long, labelled):
        assert (text, MAX_SENTENCES) == (found.abstract, len(found.sentences))
    assert {Facet.METHOD} == {sentence.facet for sentence in labelled.sentences}


def test_two_authors_may_have_one_name(write: WriteFn) -> None:
    """Each author counts, also one with the name of another; a field counts once."""
    (found,) = read_corpus(write(row(authors=["Wei Wang", "Wei Wang"], fields=["A", "A"])))
    assert (("Wei Wang", "Wei Wang"), ("A",)) == (found.authors, found.fields)


@pytest.mark.parametrize("nobody", [None, {"name": None}, {"name": ""}, ""])
def test_a_missing_author_costs_no_paper(write: WriteFn, nobody: object) -> None:
    """An author without a name is left out."""
    assert [("Ada",)] == [found.authors for found in read_corpus(write(row(authors=["Ada", nobody])))]


def test_gaps_of_a_table_are_null(write: WriteFn) -> None:
    """NaN, which Python writes for gaps of a table, is a missing value, also in every row."""
    (found,) = read_corpus(write('{"id": "x", "title": "T", "abstract": "A.", "venue": NaN, "year": NaN}'))
    assert (None, None) == (found.venue, found.year)


def test_authors_may_be_objects(write: WriteFn) -> None:
    """An author may be an object with a name, as services write it."""
    (found,) = read_corpus(write(row(authors=[{"authorId": "1", "name": "Ada Quill"}, "Bo Rask"])))
    assert ("Ada Quill", "Bo Rask") == found.authors


@pytest.mark.parametrize(
    "prefix", ["", "doi: ", "https://doi.org/", "http://dx.doi.org/", "doi.org/", "www.doi.org/"]
)
def test_a_doi_has_no_prefix(write: WriteFn, prefix: str) -> None:
    """The address of the resolver does not belong to a DOI, with or without its scheme."""
    assert ["10.5555/A"] == [found.doi for found in read_corpus(write(row(doi=f"{prefix}10.5555/A")))]


def test_a_number_may_be_an_id(write: WriteFn) -> None:
    """A whole number as id becomes text."""
    assert ["7"] == [found.id for found in read_corpus(write(row(7)))]


@pytest.mark.parametrize(
    "year",
    [2020, 2020.0, " 2020 ", "2020.00", " 2020.0 ", "2020-05", "2020-05-01", "2020-05-01T10:00:00.5Z"],
)
def test_a_year_may_have_a_decimal_point_or_be_in_a_date(write: WriteFn, year: object) -> None:
    """A year may have a decimal point, as tables with gaps write whole numbers, or begin a date."""
    assert [2020] == [found.year for found in read_corpus(write(row(year=year)))]


@pytest.mark.parametrize(
    "url", ["example.org/a", "javascript:alert(1)", "", 7, ["x"], "https://" + "x" * 2_000]
)
def test_an_unusable_url_costs_no_paper(write: WriteFn, url: object) -> None:
    """An unusable URL is dropped, and the paper stays."""
    report = CorpusReport()
    assert [None] == [found.url for found in read_corpus(write(row(url=url)), report=report)]
    assert 0 == report.broken


@pytest.mark.parametrize(
    "broken",
    [
        ["null"],
        ["garbage"],
        ["[1]", "7"],
        ["{garbage"],
        [{"title": "T", "abstract": "A."}],
        ["null", {"name": 1}, "", '{"id": "x",'],
    ],
)
@pytest.mark.parametrize("whole_line", [row("a"), row("a", abstract="x" * 70_000)], ids=["short", "cut"])
def test_broken_first_rows_do_not_hide_the_format(
    write: WriteFn, broken: list[object], whole_line: object
) -> None:
    """Broken first rows are reported, and the format is recognised by a later row, even a very long one."""
    path = write(*broken, whole_line)
    report = CorpusReport()
    assert ["a"] == [found.id for found in read_corpus(path, report=report)]
    assert [number for number, line in enumerate(broken, 1) if line] == [r.line for r in report.broken_rows]


def test_the_first_row_that_tells_the_format_decides(write: WriteFn) -> None:
    """The first row with a known format decides, even if later rows look like another format."""
    other = row("c", categories="cs.CL", submitter="Ada Quill")
    path = write({"title": "T"}, row("b"), other)
    assert ["b", "c"] == [found.id for found in read_corpus(path)]


def test_a_json_object_is_no_table(write: WriteFn) -> None:
    """A JSON object is not read as a table, even if one of its strings looks like a header."""
    path = write({"note": ",id,title,abstract,"}, row("a"))
    assert ["a"] == [found.id for found in read_corpus(path)]


def test_white_space_may_follow_the_last_row(write: WriteFn) -> None:
    """A whole row without a line end is no file that is cut short."""
    assert ["a"] == [found.id for found in read_corpus(write(json.dumps(row("a")).encode() + b" \t "))]


def test_an_endless_line_is_read_past(write: WriteFn) -> None:
    """A line over the size limit is a broken row, and later lines keep their numbers."""
    path = write(row("a"), "x" * (2 * MAX_LINE_BYTES + 10), row("c"), "{", gzipped=True)
    assert [2, 4] == [line for line, _ in reasons(path)]


def test_a_duplicate_id_is_a_broken_row(write: WriteFn) -> None:
    """The later row with an id is refused, in one file and across files, with the place of the first."""
    first = write(row("a"), row("b"), row("a"), name="first.jsonl")
    second = write(row("c"), row("b"), name="second.jsonl")
    report = CorpusReport()
    papers = [*read_corpus(first, report=report), *read_corpus(second, report=report)]
    assert ["a", "b", "c"] == [found.id for found in papers]
    assert ["duplicate id 'a', first seen at line 1", f"duplicate id 'b', first seen at {first}:2"] == [
        broken.reason for broken in report.broken_rows
    ]
    assert (3, 2, 2) == (report.papers, report.broken, report.duplicates)


def test_two_rows_on_one_line_may_be_duplicates(write: WriteFn) -> None:
    """Duplicates on one line are found, because XML may have no line ends."""
    record = '<paper id="1"><title>T</title><abstract>A.</abstract></paper>'
    path = write(f'<collection id="J10"><volume id="1">{record}{record}</volume></collection>')
    report = CorpusReport()
    assert ["acl:J10-1001"] == [found.id for found in read_corpus(path, report=report)]
    assert ["duplicate id 'acl:J10-1001', first seen at line 1"] == [r.reason for r in report.broken_rows]
    assert 1 == report.duplicates


def test_the_report_stays_small(write: WriteFn) -> None:
    """All broken rows are counted, and only the first ones are kept."""
    report = CorpusReport()
    list(read_corpus(write(row(), *["{"] * 100), report=report))
    assert (100, MAX_REPORTED_ROWS) == (report.broken, len(report.broken_rows))


# Files that are unusable as a whole


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file(write: WriteFn, content: bytes) -> None:
    """A file without content raises a CorpusFormatError."""
    with pytest.raises(CorpusFormatError, match="is empty"):
        read_corpus(write(content))


@pytest.mark.parametrize("content", [b"%PDF-1.7\n\0\0", bytes(range(256)), "a,b".encode("utf-16-le")])
def test_a_binary_file(write: WriteFn, content: bytes) -> None:
    """A file with NUL bytes is refused as not text."""
    with pytest.raises(CorpusFormatError, match="is not text"):
        read_corpus(write(content))


@pytest.mark.parametrize(
    "content", ["hello", "<html><body/></html>", '{"name": 1}', "name,title", "[{}]", "<!--" * 9_999]
)
def test_an_unknown_format(write: WriteFn, content: str) -> None:
    """The error about an unknown format lists the known formats."""
    with pytest.raises(
        CorpusFormatError,
        match="Known: acl, arxiv, bibtex, csl, csv, ids, jsonl, nbib, openalex, openreview, pubmed",
    ):
        read_corpus(write(content))


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (",title,abstract\n0,T,A.\n", r"add a column id \(or doi\) to each"),
        ('{"title": "T", "abstract": "A."}\n', r"add a key id \(or doi\) to each"),
        ("%0 Journal Article\n%T T\n", "export the library as RIS"),
        ("FN Clarivate\nVR 1.0\n", "export the records as RIS"),
        ("PMID,Title,Authors\n", "PubMed's CSV has no abstracts"),
        ('{\n "id": "a",\n "title": "T",\n "abstract": "A."\n}\n', "each paper on one line"),
        ("hello", "name its format"),
    ],
)
def test_an_unknown_format_says_what_to_do(write: WriteFn, content: str, advice: str) -> None:
    """The error names what is missing, or what to export from the program that wrote the file."""
    with pytest.raises(CorpusFormatError, match=advice):
        read_corpus(write(content))


@pytest.mark.parametrize(
    "content",
    [
        "Title,Source title,DOI,Abstract\nT,V,https://doi.org/10.5555/A,A.\n",
        "\n \r\nTitle,Source title,DOI,Abstract\nT,V,https://doi.org/10.5555/A,A.\n",
        '{"title": "T", "venue": "V", "doi": "10.5555/A", "abstract": "A."}\n',
    ],
)
def test_without_an_id_the_doi_names_the_paper(write: WriteFn, content: str) -> None:
    """A table or JSON without ids, as Scopus and pandas write them, gets the ids that libraries get."""
    assert [paper("doi:10.5555/a", "T", "A.", venue="V", doi="10.5555/A")] == list(
        read_corpus(write(content))
    )


def test_an_unknown_format_name(write: WriteFn) -> None:
    """An unknown format name is refused, and the error suggests the nearest one."""
    with pytest.raises(UnknownNameError, match="Did you mean 'pubmed'"):
        read_corpus(write(row()), format_name="pubmet")


@pytest.mark.parametrize("name", ["", "missing.jsonl", "nul\0"])
def test_no_file(tmp_path: Path, name: str) -> None:
    """A folder, a missing file and an impossible name raise a StorageError at once."""
    with pytest.raises(StorageError):
        read_corpus(tmp_path / name)


def test_every_thousand_rows_are_reported(write: WriteFn, tmp_path: Path) -> None:
    """Progress is reported every 1,000 rows, also unusable ones, over all files of a report."""
    n_rows: list[int] = []
    report = CorpusReport()
    ids = write(*(f"10.5555/a{n}" for n in range(2_500)))
    assert [] == list(read_corpus(ids, report=report, on_rows=n_rows.append))
    assert [0, 1_000, 2_000] == n_rows
    (tmp_path / "more").mkdir()
    more = write_lines(tmp_path / "more", *(row(f"x{n}") if n % 2 else "{" for n in range(600)))
    assert 300 == len(list(read_corpus(more, report=report, on_rows=n_rows.append)))
    assert [0, 1_000, 2_000, 3_000] == n_rows
    assert (3_100, 2_500, 300, 300) == (report.rows, report.without_abstract, report.papers, report.broken)
