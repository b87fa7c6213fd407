"""PubMed's .nbib: odd and broken files."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.corpus.library.chunks import MAX_ENTRY_BYTES
from indexer.corpus.read import CorpusReport, read_corpus
from models.types import Paper


def entry(number: int, *lines: str, end: str = "\r\n") -> str:
    """Return an entry with a title and an abstract, or with ``lines``."""
    return end.join([f"PMID- {number}", *(lines or ("TI  - T", "AB  - A.")), "SO  - J.", "", ""])


def read(folder: Path, content: str | bytes) -> tuple[list[Paper], CorpusReport]:
    """Return the papers of a file and the report of reading it."""
    path = folder / "my.nbib"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    report = CorpusReport()
    return list(read_corpus(path, report=report)), report


def wrapped(text: str) -> str:
    """Return a text wrapped as PubMed does, in lines that begin with six spaces."""
    return "\r\n      ".join(text.split(" "))


texts = st.text(st.sampled_from("abcé中,;:.-{}TI%"), min_size=1).map(lambda text: f"x{text}x")


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=4)), min_size=1, max_size=5))
def test_what_is_written_is_read(given_texts: list[tuple[str, list[str]]]) -> None:
    """Titles and abstracts are read back as written, on however many lines."""
    content = "".join(
        entry(n, f"TI  - {title}", f"AB  - {wrapped(' '.join(words))}")
        for n, (title, words) in enumerate(given_texts, start=1)
    )
    with TemporaryDirectory() as folder:
        papers, report = read(Path(folder), content)
    assert [(title, " ".join(words)) for title, words in given_texts] == [
        (paper.title, paper.abstract) for paper in papers
    ]
    assert not report.broken


@pytest.mark.parametrize(
    ("lines", "authors"),
    [
        (("FAU - King, Martin Luther Jr", "AU  - King ML Jr"), ("Martin Luther King Jr",)),
        (("AU  - King ML Jr", "AU  - de la Cruz A", "AU  - Plato"), ("ML King Jr", "A de la Cruz", "Plato")),
        (("FAU - Quill, Ada", "FAU - Rask, B", "CN  - A Group"), ("Ada Quill", "B Rask", "A Group")),
        ((), ()),
    ],
)
def test_names_are_in_their_usual_order(
    tmp_path: Path, lines: tuple[str, ...], authors: tuple[str, ...]
) -> None:
    """Full names are used if there are any, else initials; groups come last."""
    (paper,), _ = read(tmp_path, entry(1, "TI  - T", "AB  - A.", *lines))
    assert authors == paper.authors


@pytest.mark.parametrize(
    ("lines", "doi"),
    [
        (("LID - 10.1234/a [doi]",), "10.1234/a"),
        (("LID - S0140 [pii]", "AID - 10.1234/b [doi]"), "10.1234/b"),
        (("LID - S0140 [pii]",), None),
    ],
)
def test_a_doi_is_marked(tmp_path: Path, lines: tuple[str, ...], doi: str | None) -> None:
    """The id marked as DOI names the article, else its PubMed number."""
    (paper,), _ = read(tmp_path, entry(7, "TI  - T", "AB  - A.", *lines))
    assert (doi, f"doi:{doi}" if doi else "pmid:7") == (paper.doi, paper.id)


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """Entries that are too long or not text are skipped and reported with their lines."""
    content = (
        b"\n\n"
        + entry(1).encode()
        + entry(2, "TI  - T", "AB  - " + "x " * (MAX_ENTRY_BYTES // 2)).encode()
        + entry(3, "TI  - T", "AB  - \x81").encode("latin-1")
        + entry(4).encode("utf-8")
    )
    papers, report = read(tmp_path, content)
    assert ["pmid:1", "pmid:4"] == [paper.id for paper in papers]
    assert [8, 13] == [row.line for row in report.broken_rows]
    assert "1,048,576 bytes" in report.broken_rows[0].reason


def test_lines_that_are_no_fields_are_passed_over(tmp_path: Path) -> None:
    """Lines that are not fields are skipped, and an entry without a number is broken."""
    papers, report = read(
        tmp_path, "PMID- 5\n   lost\nno field\nTI  - T\nAB  - A.\n\nPMID- \nTI  - T\nAB  - B.\n"
    )
    assert ["pmid:5"] == [paper.id for paper in papers]
    assert ["no id"] == [row.reason[:5] for row in report.broken_rows]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0c"])
def test_only_line_ends_end_a_line(tmp_path: Path, sign: str) -> None:
    """Text after a separator of lines or pages that is no line end stays in its field."""
    abstract = f"Rivers rise.{sign}METHODS: We fit a model to\r\n      data. It works."
    ((paper,), _) = read(tmp_path, entry(1, "TI  - T", f"AB  - {abstract}"))
    assert "Rivers rise. METHODS: We fit a model to data. It works." == paper.abstract
