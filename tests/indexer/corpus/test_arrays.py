"""JSON arrays: every JSON lines format may also come as a list."""

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.corpus.arrays import array_elements, list_of_page, page_elements
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.source import MAX_LINE_BYTES, Lines
from models.errors import BrokenFileError, InputError
from tests.support.examples.corpus_examples import CORPORA, EXAMPLES, reasons, row, write_lines
from tests.support.growing import grows_too_fast


def elements(text: str, *, piece: int = 8_192) -> list[tuple[int, bytes | InputError]]:
    """Return the elements of an array that is read in pieces of ``piece`` bytes."""
    stream = io.BufferedReader(io.BytesIO(text.encode()))  # type: ignore[arg-type]  # bytes are raw enough
    return list(array_elements(Lines(stream, Path("a.json")), piece))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.lists(values), st.sampled_from([None, 2]), st.booleans(), st.integers(1, 30))
def test_elements_are_those_of_the_array(
    given_values: list[object], indent: int | None, ascii_only: bool, piece: int
) -> None:
    """Elements are read whatever the strings hold, however the list is laid out and wherever a read ends."""
    text = json.dumps(given_values, indent=indent, ensure_ascii=ascii_only)
    found = [json.loads(element) for _, element in elements(text, piece=piece)]  # type: ignore[arg-type]
    assert given_values == found


def test_lines_are_those_where_elements_begin() -> None:
    """An element has the number of the line on which it begins, also after blank lines."""
    text = '\n[\n\n {"a":\n 1}, {"b": 2}\n,\n{"c": "]"}\n]\n'
    assert [3 + 1, 5, 7] == [line for line, _ in elements(text)]


@pytest.mark.parametrize("layout", [None, 2])
@pytest.mark.parametrize("name", ["jsonl", "arxiv", "openalex", "openreview", "s2", "unarxive"])
def test_each_format_may_come_as_a_list(name: str, layout: int | None, tmp_path: Path) -> None:
    """Each format is read from a gzipped list, pretty-printed or on one line."""
    example = EXAMPLES[name]
    whole = []
    for line in (CORPORA / example.file).read_text(encoding="utf-8").splitlines():
        try:
            whole.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    path = tmp_path / "list.gz"
    path.write_bytes(gzip.compress(json.dumps(whole, indent=layout).encode()))
    assert example.papers == tuple(read_corpus(path))


def test_a_broken_element_is_reported_and_passed_over(tmp_path: Path) -> None:
    """A broken element or one that is not an object is reported with its line, and the rest is read."""
    path = write_lines(
        tmp_path, "[", json.dumps(row("a")) + ",", '{"id": }', ', 7, "x"', "," + json.dumps(row("b")), "]"
    )
    report = CorpusReport()
    assert ["a", "b"] == [found.id for found in read_corpus(path, report=report)]
    assert [3, 4, 4] == [broken.line for broken in report.broken_rows]
    assert "not valid JSON" in report.broken_rows[0].reason
    assert "not a JSON object" in report.broken_rows[1].reason


def test_the_first_element_may_be_broken_or_large(tmp_path: Path) -> None:
    """The format is recognised if the first element is broken or larger than the head of the file."""
    broken = write_lines(tmp_path, '[{"id": },', json.dumps(row("b")), "]", name="broken.json")
    assert ["b"] == [found.id for found in read_corpus(broken)]
    large = write_lines(tmp_path, json.dumps([row("a", note="x" * 100_000)]), name="large.json")
    assert ["a"] == [found.id for found in read_corpus(large)]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("[{},", 1, "the list that begins here does not end"),
        ('[{}\n,{"a": "', 2, "the list that begins here does not end"),
        ("[{}]\n7", 2, "there is text after the end"),
        ("[{}] 7", 1, "there is text after the end"),
    ],
)
def test_a_list_that_does_not_end_breaks_off(text: str, line: int, reason: str) -> None:
    """Whole elements are read before the error about a list without an end or with text after it."""
    found = array_elements(Lines(io.BufferedReader(io.BytesIO(text.encode())), Path("a.json")))  # type: ignore[arg-type]  # bytes are raw enough
    assert b"{}" == next(found)[1]
    with pytest.raises(BrokenFileError, match=reason) as caught:
        list(found)
    assert line == caught.value.line


def test_a_huge_element_is_not_held(tmp_path: Path) -> None:
    """An element over the size limit is one broken row, and the next paper is read."""
    path = write_lines(tmp_path, f'["{"x" * MAX_LINE_BYTES}",', json.dumps(row("b")), "]", name="huge.json")
    assert [(1, "the entry is longer than 8,388,608 bytes; shorten it")] == reasons(path, format_name="jsonl")
    assert ["b"] == [found.id for found in read_corpus(path, format_name="jsonl")]


def test_an_empty_list_has_no_paper(tmp_path: Path) -> None:
    """An empty list has no papers."""
    assert [] == list(read_corpus(write_lines(tmp_path, "[]"), format_name="jsonl"))


@pytest.mark.parametrize("line", ['{"meta":1},\n', '{"meta":' * 20 + "[1]\n"])
def test_what_looks_like_a_page_is_passed_over_as_fast_as_other_text(line: str) -> None:
    """Text after a list is not searched again with each line, whatever pages it seems to begin."""

    def read(text: bytes) -> int:
        stream = io.BufferedReader(io.BytesIO(text))  # type: ignore[arg-type]  # bytes are raw enough
        return sum(1 for _ in page_elements(Lines(stream, Path("a.json"))))

    other = line.replace("meta", "mean")
    # The longer text has as many lines as the shorter one; only the words in them differ.
    assert not grows_too_fast(
        read, lambda size: b'{"data":[{}],\n"x":[\n' + (other if size == 1 else line).encode() * 400, size=1
    )


def test_a_page_has_a_short_text_without_lists_before_its_list() -> None:
    """Other text before a list makes it none; the page may begin anywhere in what is read."""
    for before in ("{", '{"meta":{"a":1},', '{ "total" : 3, "x":"{", '):
        assert b"[{}]}" == list_of_page(f' {before}"data" : [{{}}]}}'.encode())
    for before in ("", '{"x":1,', '{"meta":[],', "[{", f'{{"meta":"{"x" * 2_000}",'):
        assert list_of_page(f'{before}"data":[{{}}]}}'.encode()) is None
    text = b'{"data":[{"a":1}], "x":[{"b":2}]}' + b"\n" * 5_000 + b'{"meta":{},\n"items"\n:\n[\n{"c":3}]}'
    lines = Lines(io.BufferedReader(io.BytesIO(text)), Path("a.json"))  # type: ignore[arg-type]  # bytes are raw enough
    assert [(1, b'{"a":1}'), (5_005, b'{"c":3}')] == list(page_elements(lines))
