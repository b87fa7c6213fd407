"""Reading a corpus: files that are damaged or cut short."""

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from indexer.corpus.read import MAX_REPORTED_ROWS, CorpusReport, read_corpus
from indexer.corpus.records import xml_records
from indexer.corpus.source import MAX_LINE_BYTES, Lines, open_source
from models.errors import BrokenFileError, CorpusFormatError
from tests.support.examples.corpus_examples import WriteFn, row, write_lines


@pytest.fixture
def write(tmp_path: Path) -> WriteFn:
    """Return a function that writes lines to a file."""
    return partial(write_lines, tmp_path)


def test_a_damaged_gzip_file(write: WriteFn) -> None:
    """The report says that gzip data is damaged, and papers before the damage are kept."""
    content = bytearray(gzip.compress(b"".join(json.dumps(row(i)).encode() + b"\n" for i in range(5_000))))
    content[len(content) // 2 :] = bytes(len(content) // 2)
    path = write(bytes(content))
    report = CorpusReport()
    papers = [found.id for found in read_corpus(path, report=report)]
    assert [str(i) for i in range(len(papers))] == papers
    assert len(papers) + 1 == report.broken_rows[0].line
    assert "ends early here: the gzip file is cut short or damaged" in report.broken_rows[-1].reason


def test_a_gzip_file_damaged_from_the_start(write: WriteFn) -> None:
    """A gzip file with no readable data raises an error with the file, its first line and the reason."""
    path = write(gzip.compress(b"{}")[:10] + b"\xff" * 20)
    with pytest.raises(BrokenFileError, match=r":1: .*the gzip file is cut short or damaged"):
        list(read_corpus(path))


def test_a_list_cut_off_behind_a_huge_number(write: WriteFn) -> None:
    """A JSON list cut off within its first object is reported or refused, whatever numbers the object has."""
    with pytest.raises((BrokenFileError, CorpusFormatError)):
        list(read_corpus(write('[{"id": 99999999999999999999999999, "ti')))


ACL_HEAD = '<collection id="J10"><volume id="1"><paper id="1"><title>T</title><abstract>A.</abstract></paper>'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"{ACL_HEAD}\n<paper", "the XML is cut short or broken"),
        (f"{ACL_HEAD}\n</wrong>", "the XML is cut short or broken"),
        (f"{ACL_HEAD}\n&undefined;", "the XML is cut short or broken"),
        (f"{ACL_HEAD}\n{'<a>' * 200}", "elements nest more than 100 deep"),
        (
            ACL_HEAD + "\n<x>" + "x" * (MAX_LINE_BYTES + 20_000),
            "more than 8,388,608 bytes without a paper",
        ),
    ],
)
def test_broken_xml(write: WriteFn, content: str, reason: str) -> None:
    """Papers before a break in the XML are read, and the line of the break is raised or reported."""
    path = write(content)
    papers = read_corpus(path, on_error="fail")
    assert "acl:J10-1001" == next(papers).id
    with pytest.raises(BrokenFileError, match=f":2: {reason}"):
        list(papers)
    report = CorpusReport()
    assert ["acl:J10-1001"] == [found.id for found in read_corpus(path, report=report)]
    (broken,) = report.broken_rows
    assert (str(path), 2, 1) == (broken.path, broken.line, report.broken)
    assert broken.reason.startswith(f"the file ends early here: {reason}")
    assert broken.reason.endswith("; the rest was not read")


@pytest.mark.parametrize(
    "declaration",
    ['<!ENTITY a "ha"><!ENTITY b "&a;&a;">', '<!ENTITY a SYSTEM "file:///etc/passwd">', '<!ENTITY % a "x">'],
)
def test_entities_are_never_expanded(write: WriteFn, declaration: str) -> None:
    """A file that declares entities is refused before anything is expanded or fetched."""
    path = write(f"<!DOCTYPE collection [{declaration}]>\n{ACL_HEAD}</volume></collection>")
    with pytest.raises(BrokenFileError, match="declares entities"):
        list(read_corpus(path, on_error="fail"))
    report = CorpusReport()
    assert [] == list(read_corpus(path, report=report))
    assert "declares entities" in report.broken_rows[0].reason


def test_an_unreadable_encoding(write: WriteFn) -> None:
    """An XML file with an unknown encoding raises a BrokenFileError."""
    path = write(f'<?xml version="1.0" encoding="bogus"?>{ACL_HEAD}</volume></collection>')
    with pytest.raises(BrokenFileError, match=r"encoding|broken"):
        list(read_corpus(path, on_error="fail"))


def test_the_next_file_is_read(write: WriteFn) -> None:
    """A file that is cut short does not end the reading of a corpus of several files."""
    report = CorpusReport()
    first = write(f"{ACL_HEAD}\n<paper", name="first.xml")
    second = write(row("b"), name="second.jsonl")
    papers = [found.id for path in (first, second) for found in read_corpus(path, report=report)]
    assert ["acl:J10-1001", "b"] == papers
    assert (2, 1) == (report.papers, report.broken)


def test_a_break_is_reported_after_any_number_of_broken_rows(write: WriteFn) -> None:
    """The report keeps a capped number of broken rows, and always the one that says a file was cut short."""
    content = "".join(["{\n"] * 100 + [json.dumps(row("a")) + "\n"] * 2).encode()
    path = write(gzip.compress(json.dumps(row("z")).encode() + b"\n" + content, compresslevel=0)[:-30])
    report = CorpusReport()
    list(read_corpus(path, report=report))
    assert MAX_REPORTED_ROWS + 1 == len(report.broken_rows)
    assert (101, 103) == (report.broken, report.broken_rows[-1].line)
    assert "ends early here" in report.broken_rows[-1].reason


def test_a_file_of_another_format_still_raises(write: WriteFn) -> None:
    """A table without the required columns raises an error instead of counting as cut short."""
    with pytest.raises(CorpusFormatError, match="no column id"):
        list(read_corpus(write("title,abstract", "T,A."), format_name="csv"))


def test_a_table_of_an_old_mac_may_hold_line_feeds(write: WriteFn) -> None:
    """Most lines end with carriage returns, and a quoted cell has a line feed."""
    path = write(b'id,title,abstract\r1,T,"A.\nB."\r2,U,"C.\nD.\nE."\r')
    assert [("1", "A. B."), ("2", "C. D. E.")] == [(found.id, found.abstract) for found in read_corpus(path)]


@pytest.mark.parametrize("content", [b"Text, with\ra return\nmore, and more\n", b"a,b\rc\n\n\n"])
def test_a_return_within_the_first_line_is_no_table(write: WriteFn, content: bytes) -> None:
    """A file of no known format says so, whatever characters its first line has."""
    with pytest.raises(CorpusFormatError, match="format"):
        list(read_corpus(write(content)))


def test_read_xml_elements_are_forgotten(write: WriteFn) -> None:
    """Only the current paper of a volume is held in memory, however many papers the volume has."""
    papers = '<paper id="1"><title>T</title></paper>\n' * 50
    path = write(f'<collection id="J10"><volume id="1">{papers}</volume></collection>')
    with open_source(path) as stream:
        held = [len(ancestors[-1]) for _, _, ancestors in xml_records(Lines(stream, path), "paper")]
    assert [1] * 50 == held
