"""Tests of CSV, BibTeX, RIS and Atom: all content of a paper stays in its field and can be read back."""

import csv
import io
import re
import unicodedata
from itertools import count
from typing import Any

import pytest
import rispy
from bibtexparser.middlewares.names import parse_single_name_into_parts
from defusedxml.ElementTree import fromstring
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.exports import CSV_COLUMNS, Feed, to_atom, to_bibtex, to_csv, to_ris
from service.api.schemas.base import PaperOut
from service.api.schemas.search.results import ResultOut
from tests.support.answers import NO_WORDS
from tests.support.examples.bibtex import entries, typeset

ATOM = "{http://www.w3.org/2005/Atom}"
HOSTILE = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    [
        '=HYPERLINK("http://x")',
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        " =1",
        "＝1",
        'a","b\r\nc',
        "}\n@article{x, title={y}",
        "\\",
        "{",
        "50% of $x_1^2 & #~",
        "x\nER  - \n\nTY  - JOUR\nTI  - y",
        "a\u2028ER  - ",
        "Research and Development",
        "et others",
        "A, B, C, D",
    ]
)
PAPERS = st.builds(
    PaperOut,
    id=HOSTILE.filter(bool),
    title=HOSTILE,
    abstract=HOSTILE,
    sentences=st.just(()),
    year=st.none() | st.integers(1000, 2100),
    venue=st.none() | HOSTILE,
    authors=st.lists(HOSTILE.filter(lambda name: name.strip()), max_size=3).map(tuple),
    url=st.none() | HOSTILE,
    doi=st.none() | HOSTILE,
    fields=st.lists(HOSTILE, max_size=2).map(tuple),
)


def result(paper: PaperOut, score: float = -0.5) -> ResultOut:
    """Return a result without explanation."""
    return ResultOut(
        paper=paper,
        score=score,
        alignments=(),
        omitted=(),
        highlights=(),
        words=NO_WORDS,
        converged=True,
        gap=0.0,
        strength=None,
    )


@given(st.lists(PAPERS, max_size=4))
def test_csv_keeps_every_cell_and_no_formula(papers: list[PaperOut]) -> None:
    """A CSV cell is read back unchanged, except for an apostrophe that keeps spreadsheets from computing."""
    text = to_csv([result(paper) for paper in papers], ranks=count(11))
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert (list(CSV_COLUMNS), len(papers)) == (header, len(rows))
    for rank, (paper, row) in enumerate(zip(papers, rows, strict=True), start=11):
        cells = dict(zip(CSV_COLUMNS, row, strict=True))
        assert (str(rank), "-0.5") == (cells.pop("rank"), cells.pop("score"))
        assert ("", "") == (cells.pop("strength"), cells.pop("nearer_than"))
        for name, cell in cells.items():
            value = getattr(paper, name)
            plain = "; ".join(value) if isinstance(value, tuple) else str(value or "")
            for before, after in zip(plain.split(";"), cell.split(";"), strict=True):
                bare = after.lstrip(" ")
                assert before.lstrip(" ") in {bare, bare.removeprefix("'")} or f"'{before}" == after
                assert not bare.startswith(("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"))


def test_csv_quotes_every_cell() -> None:
    """Every cell is quoted, and no part of a cell after a semicolon begins a formula."""
    paper = a_paper(authors=("Ann", "=1+1", "B;@c"), fields=("-1",))
    _, row = to_csv([result(paper)]).splitlines()
    cells = ["1", "-0.5", "", "", "x", "T", "Ann; '=1+1; B;'@c", "", "", "", "", "'-1", "A."]
    assert row == ",".join(f'"{cell}"' for cell in cells)


def one_line(text: str) -> str:
    """Return the text without line breaks and control characters."""
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in text).split())


@given(st.lists(PAPERS, max_size=4))
def test_bibtex_holds_every_paper_whole(papers: list[PaperOut]) -> None:
    """Each paper has its own BibTeX key, and LaTeX sets its title, abstract and venue as they are."""
    found = entries(to_bibtex(papers))
    assert len(papers) == len(found)
    for paper, (key, fields) in zip(papers, found.items(), strict=True):
        assert re.fullmatch(r"[a-z0-9-]+", key)
        title = fields["title"] if one_line(paper.title) else "{}"
        assert one_line(paper.title) == typeset(title[1:-1])
        assert one_line(paper.abstract) == typeset(fields.get("abstract", ""))
        assert one_line(paper.venue or "") == typeset(fields.get("journal", ""))
        for name in ("doi", "url"):
            assert not set(" {}\\\n") & set(fields.get(name, ""))


def a_paper(**fields: Any) -> PaperOut:
    """Return a paper with a title and the given fields."""
    bare = {"id": "x", "title": "T", "abstract": "A.", "sentences": (), "authors": (), "fields": ()}
    return PaperOut(**{"year": None, "venue": None, "url": None, "doi": None, **bare, **fields})


@pytest.mark.parametrize(
    ("authors", "expected"),
    [
        (("Marco Cuturi", "Lavergne, Éric"), "Marco Cuturi and Lavergne, Éric"),
        (("Research and Development Group", "Ann Lee"), "{Research and Development Group} and Ann Lee"),
        (("many others",), "{many others}"),
        (("A, B, C, D",), "{A, B, C, D}"),
        (("Anderson Strand",), "Anderson Strand"),
        (("Maurice J. Pescitelli, Jr.", "Cy Umber III"), "Pescitelli, Jr., Maurice J. and Umber, III, Cy"),
        (("Ludwig van Quill , Sr",), "van Quill, Sr, Ludwig"),
        (("Pescitelli, Jr.", "Quill, Ada, Jr."), "{Pescitelli, Jr.} and {Quill, Ada, Jr.}"),
        (("Rand and Sons Jr.", "Jr."), "{Rand and Sons Jr.} and {Jr.}"),
    ],
)
def test_bibtex_parts_authors_where_they_part(authors: tuple[str, ...], expected: str) -> None:
    """In BibTeX, `and` only separates authors; names that contain it are in braces."""
    (fields,) = entries(to_bibtex([a_paper(authors=authors)])).values()
    assert expected == fields["author"]


def test_names_with_a_suffix_come_back() -> None:
    """A BibTeX reader splits a name with a suffix into its first, last and suffix parts."""
    (fields,) = entries(to_bibtex([a_paper(authors=("Maurice J. Pescitelli, Jr.",))])).values()
    parts = parse_single_name_into_parts(fields["author"])
    assert (["Maurice", "J."], ["Pescitelli"], ["Jr."]) == (parts.first, parts.last, parts.jr)


def test_bibtex_keys_are_readable_and_lasting() -> None:
    """A key names author, year and title, and does not depend on the other exported papers."""
    paper = a_paper(id="1", authors=("Éric Du Pré",), year=2020, title="The Ärger of Floods")
    twin = a_paper(id="2", authors=("Eric Pre",), year=2020, title="Arger of floods")
    (alone,) = entries(to_bibtex([paper]))
    first, second = entries(to_bibtex([twin, paper]))
    assert (alone, True) == (second, first != second)
    assert re.fullmatch(r"pre2020arger-[0-9a-f]{6}", alone)


def test_bibtex_keys_stay_apart_when_hashes_do_not() -> None:
    """Papers whose shortened hashes are equal get longer ones."""
    papers = [a_paper(id=str(i), title="Same") for i in range(40)]
    assert 40 == len(entries(to_bibtex(papers, key_hash_chars=0)))


@given(st.lists(PAPERS, max_size=4))
def test_ris_holds_every_paper_whole(papers: list[PaperOut]) -> None:
    """A RIS reader finds one record per paper in order, with each text on one line."""
    records = rispy.loads(to_ris(papers))
    assert len(papers) == len(records)
    for paper, record in zip(papers, records, strict=True):
        for name, key in (("title", "title"), ("abstract", "abstract"), ("venue", "secondary_title")):
            assert one_line(getattr(paper, name) or "") == record.get(key, "").strip()
        assert [one_line(name) for name in paper.authors] == record.get("authors", [])


def in_xml(text: str) -> str:
    """Return the text without the characters that XML cannot hold."""
    return one_line(text.replace("\ufffe", "").replace("\uffff", ""))


@settings(max_examples=200)
@given(
    st.lists(PAPERS | st.builds(a_paper, abstract=st.just("\ufffe<&]]>\uffff")), max_size=3),
    st.sampled_from(["javascript:alert(1)", "https://x.org/a b", "x", ""]),
)
def test_a_feed_holds_texts_as_texts(papers: list[PaperOut], url: str) -> None:
    """A feed is valid XML for any papers; texts stay in their elements, links lead to the web or the page."""
    given_papers = [(paper.model_copy(update={"url": url}), place) for place, paper in enumerate(papers)]
    feed = to_atom(Feed("q", "<a>\0", "/v1/feeds/t", "/", 0), given_papers)
    root = fromstring(feed)
    found = list(root.iter(f"{ATOM}entry"))
    assert "<a>" == root.findtext(f"{ATOM}title")
    assert len(papers) == len(found)
    for entry, paper in zip(found, reversed(papers), strict=True):
        title = one_line(paper.title) or paper.id
        for name, text in (("title", title), ("summary", paper.abstract)):
            assert in_xml(text) == (entry.findtext(f"{ATOM}{name}") or "")
        assert [in_xml(name) for name in paper.authors] == [
            each.text or "" for each in entry.iter(f"{ATOM}name")
        ]
        (link,) = entry.iter(f"{ATOM}link")
        assert link.attrib["href"].startswith("https://x.org/a%20b" if "//" in url else "/?paper=")


def test_a_feed_says_when_papers_came() -> None:
    """The newest papers come first with times in UTC, and the feed has the time of the newest."""
    paper = a_paper(id="a/1")
    feed = to_atom(
        Feed("q", "Q", "/f", "/", 10), [(paper, 0), (paper.model_copy(update={"id": "b"}), 86_400)]
    )
    root = fromstring(feed)
    times = [each.text for each in root.iter(f"{ATOM}updated")]
    assert ["1970-01-02T00:00:00Z", "1970-01-02T00:00:00Z", "1970-01-01T00:00:00Z"] == times
    assert ["urn:akin:query:q", "urn:akin:query:q:b", "urn:akin:query:q:a%2F1"] == [
        each.text for each in root.iter(f"{ATOM}id")
    ]
