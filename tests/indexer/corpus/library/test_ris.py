"""RIS: odd and broken files."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import rispy
from hypothesis import given
from hypothesis import strategies as st

from indexer.corpus.library.chunks import MAX_ENTRY_BYTES
from indexer.corpus.read import CorpusReport, read_corpus
from models.types import Paper
from tests.support.examples.corpus_examples import CORPORA, EXAMPLES


def entry(key: str, *lines: str) -> str:
    """Return an entry that is whole unless ``lines`` break it."""
    return "\r\n".join(["TY  - JOUR", f"ID  - {key}", *(lines or ("TI  - T", "AB  - A.")), "ER  - ", "", ""])


def read(folder: Path, content: str | bytes) -> tuple[list[Paper], CorpusReport]:
    """Return the papers of a file and the report of reading it."""
    path = folder / "my.ris"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    report = CorpusReport()
    return list(read_corpus(path, report=report)), report


texts = st.text(st.sampled_from("abc é中,;:.-{}TY%"), min_size=1).map(lambda text: f"x{text}x")


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_what_is_written_is_read(given_texts: list[tuple[str, str]]) -> None:
    """Titles and abstracts are read back as written."""
    entries = [
        {"type_of_reference": "JOUR", "id": f"k{n}", "title": title, "abstract": abstract}
        for n, (title, abstract) in enumerate(given_texts)
    ]
    with TemporaryDirectory() as folder:
        papers, _ = read(Path(folder), rispy.dumps(entries))
    expected = [(f"k{n}", " ".join(t.split()), " ".join(a.split())) for n, (t, a) in enumerate(given_texts)]
    assert expected == [(paper.id, paper.title, paper.abstract) for paper in papers]


def test_an_entry_that_has_no_id_is_named_by_its_title_year_and_author(tmp_path: Path) -> None:
    """An entry without an id gets the same id in every export, and different papers get different ids."""

    def unnamed(title: str, year: str, author: str) -> str:
        lines = f"TI  - {title}", "AB  - A.", f"PY  - {year}", f"AU  - {author}"
        return entry("", *lines).replace("ID  - \r\n", "")

    given = [("Floods", "2020", "Doe, J."), ("Floods", "2021", "Doe, J."), ("Floods", "2020", "Roe, R.")]
    papers, report = read(tmp_path, "".join(unnamed(*each) for each in given))
    assert [3, 3, []] == [len(papers), len({paper.id for paper in papers}), report.broken_rows]
    (again,), _ = read(tmp_path, unnamed("FLOODS ", "2020", "Doe, J."))
    assert papers[0].id == again.id
    assert again.id.startswith("ris:")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("TY  - JOUR\r\nTI  - T\r\nAB  - A.\r\n\r\n", "it does not end with a line ER"),
        (entry("b", "AB  - A."), "no title"),
        ("TY  - BOOK\r\nAB  - A.\r\nER  - \r\n", "no title"),
        (entry("b", "TI  - T", "AB  - A.", "N1  - " + "x" * MAX_ENTRY_BYTES), "more than 1,048,576 bytes"),
        (entry("a"), "duplicate id 'a', first seen at line 1"),
    ],
)
def test_a_broken_entry_is_passed_over(tmp_path: Path, broken: str, reason: str) -> None:
    """A broken entry is skipped and reported with its line and reason, and its neighbours are read."""
    papers, report = read(tmp_path, entry("a") + broken + entry("c"))
    assert ["a", "c"] == [paper.id for paper in papers]
    ((line, given_reason),) = [(each.line, each.reason) for each in report.broken_rows]
    assert 7 == line
    assert reason in given_reason


def test_one_blank_before_the_sign(tmp_path: Path) -> None:
    """Tags with one blank before the dash, as some programs write them, are read."""
    other = entry("b", "TI  - T", "AB  - We compare.", "US - China relations.").replace("ER  -", "ER -")
    papers, report = read(tmp_path, entry("a").replace("  -", " -") + other + entry("c"))
    assert [("a", "A."), ("b", "We compare. US - China relations."), ("c", "A.")] == [
        (paper.id, paper.abstract) for paper in papers
    ]
    assert 0 == report.broken


def test_an_entry_that_begins_oddly_is_reported_alone(tmp_path: Path) -> None:
    """An entry that does not begin with a TY line is reported alone, and the entries after it are read."""
    odd = "TYPE JOUR\r\nTI  - T\r\nAB  - A.\r\nER  - \r\n"
    papers, report = read(tmp_path, entry("a") + odd + odd + "ER  - \r\n" + entry("c"))
    assert ["a", "c"] == [paper.id for paper in papers]
    reason = "not a valid RIS entry: it does not begin with a line TY"
    assert [(7, reason), (11, reason)] == [(each.line, each.reason) for each in report.broken_rows]


def test_an_entry_that_the_parser_cannot_take_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the parser raises on an entry, that entry is reported and the others are read."""

    class Fragile(rispy.RisParser):  # type: ignore[misc]  # rispy ships no types
        """A parser that raises KeyError, as rispy does on a line of no known field."""

        def parse_line(self, line: str) -> object:
            return {}[line] if line == "TI  - Odd" else super().parse_line(line)

    monkeypatch.setattr(rispy, "RisParser", Fragile)
    papers, report = read(tmp_path, entry("a") + entry("b", "TI  - Odd", "AB  - A.") + entry("c"))
    assert ["a", "c"] == [paper.id for paper in papers]
    assert ["its fields cannot be told apart (KeyError)" in each.reason for each in report.broken_rows] == [
        True
    ]


def test_encodings_marks_and_line_ends(tmp_path: Path) -> None:
    """Latin-1, a byte order mark, text before the first entry, CRLF, CR and gzip are read."""
    content = entry("a", "TI  - Café", "AB  - A.")
    assert ["Café"] == [paper.title for paper in read(tmp_path, content.encode("latin-1"))[0]]
    assert ["Café"] == [paper.title for paper in read(tmp_path, ("\ufeff\r\n" + content).encode())[0]]
    assert ["a"] == [paper.id for paper in read(tmp_path, "Provider: P\r\n" + content)[0]]
    whole = (CORPORA / "library.ris").read_bytes().replace(b"\n", b"\r\n")
    assert list(EXAMPLES["ris"].papers) == read(tmp_path, whole)[0]
    assert list(EXAMPLES["ris"].papers) == read(tmp_path, whole.replace(b"\r\n", b"\r"))[0]
    assert list(EXAMPLES["ris"].papers) == read(tmp_path, gzip.compress(whole.replace(b"\r\n", b"\r")))[0]


def test_only_line_ends_end_a_line(tmp_path: Path) -> None:
    """An author whose name holds a separator of lines stays one author."""
    ((paper,), _) = read(tmp_path, entry("a", "TI  - T", "AB  - A.", "AU  - A\u2028Group"))
    assert ("A Group",) == paper.authors


OLD_DOI = "10.1002/(SICI)1097-4571(199009)41:6<391::AID-ASI1>3.0.CO;2-9"
OLD_ADDRESS = "http://dx.doi.org/" + OLD_DOI.replace("<", "%3C").replace(">", "%3E")


@pytest.mark.parametrize(
    ("written", "url", "doi"),
    [
        (OLD_ADDRESS, OLD_ADDRESS, OLD_DOI),
        ("https://example.org/a;b=1", "https://example.org/a;b=1", None),
        ("https://a.b/1 ; HTTPS://doi.org/10.5555/c", "https://a.b/1", "10.5555/c"),
        (";https://a.b/1;", "https://a.b/1", None),
    ],
)
def test_a_semicolon_may_belong_to_an_address(
    tmp_path: Path, written: str, url: str, doi: str | None
) -> None:
    """A semicolon ends an address only before another address or at the end of the line."""
    ((paper,), _) = read(tmp_path, entry("a", "TI  - T", "AB  - A.", f"UR  - {written}"))
    assert (url, doi) == (paper.url, paper.doi)


@pytest.mark.parametrize("tag", ["TI", "T1", "BT", "CT"])
def test_books_and_unpublished_works_have_titles(tmp_path: Path, tag: str) -> None:
    """Their titles have tags of their own; they name an entry without an id, as other titles do."""
    ((paper,), _) = read(tmp_path, f"TY  - BOOK\r\n{tag}  - Of\r\n  Lamps\r\nAB  - A.\r\nER  - \r\n")
    assert "Of Lamps" == paper.title
    assert paper.id.startswith("ris:")


def test_the_year_is_in_the_first_field_that_has_one(tmp_path: Path) -> None:
    """The date counts if the year is only a word."""
    ((paper,), _) = read(tmp_path, entry("a", "TI  - T", "AB  - A.", "PY  - in press", "DA  - 2021/03/01"))
    assert 2021 == paper.year


def test_numbers_of_other_databases_are_no_pubmed_numbers(tmp_path: Path) -> None:
    """An accession number is a PubMed number only if the database is PubMed; otherwise it may be the key."""
    lines = ("TI  - T", "AB  - A.", "AN  - 7")
    content = entry("a", *lines, "DB  - PubMed") + entry("b", *lines) + entry("", *lines, "DB  - Scopus")
    assert ["pmid:7", "b", "7"] == [paper.id for paper in read(tmp_path, content)[0]]


def test_the_number_of_an_entry_is_no_id(tmp_path: Path) -> None:
    """Programs number the entries of each export, so that 1 is another paper in the next."""
    (floods,), _ = read(tmp_path, entry("1", "TI  - Floods in rivers", "AB  - A."))
    (stars,), _ = read(tmp_path, entry("1", "TI  - Stars and planets", "AB  - A."))
    (again,), _ = read(tmp_path, entry("2", "TI  - Floods in rivers", "AB  - A."))
    assert floods.id == again.id != stars.id
    (by_database,), _ = read(tmp_path, entry("1", "TI  - T", "AB  - A.", "AN  - WOS:7"))
    assert "WOS:7" == by_database.id


def test_a_wrapped_line_may_begin_like_the_last_one(tmp_path: Path) -> None:
    """A line of an abstract that begins with ER and a hyphen does not end the entry."""
    lines = ("TI  - T", "AB  - Growth of", "ER -negative tumours.", "PY  - 2020")
    papers, report = read(tmp_path, entry("k", *lines))
    assert [("k", "Growth of ER -negative tumours.", 2020)] == [(p.id, p.abstract, p.year) for p in papers]
    assert 0 == report.broken
