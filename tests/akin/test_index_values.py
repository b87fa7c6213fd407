"""Tests of `akin.index` with dictionaries, which are read as Akin's own papers, whatever keys they have."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import akin
from models.errors import InputError, StorageError


def paper(**more: Any) -> dict[str, Any]:
    """Return a paper with additional keys."""
    return {"id": "a", "title": "A title", "abstract": "We show a flood.", **more}


def indexed(given: Any, data: Path, **options: Any) -> set[str]:
    """Return the ids in a collection that is indexed from ``given``."""
    with akin.index(given, data, encoder="hashing", device="cpu", **options) as collection:
        return {each.id for each in collection.list_papers(limit=10)}


def test_keys_of_another_format_change_nothing(tmp_path: Path) -> None:
    """A dictionary with a key of Semantic Scholar is still stored under its own id."""
    assert {"a"} == indexed([paper(corpusid=5)], tmp_path / "data")


@pytest.mark.parametrize("on_error", ["skip", "fail"])
def test_a_dictionary_without_id_is_named_by_its_place(tmp_path: Path, on_error: str) -> None:
    """The error for a dictionary without an id names its position in the list, not a temporary file."""
    given = [{"paper_id": "b", "title": "Another title", "abstract": "We show two floods."}]
    with pytest.raises(InputError, match=r"papers\[0\]: no id") as refused:
        indexed(given, tmp_path / "data", on_error=on_error)
    assert "akin-" not in str(refused.value)


def test_a_format_is_that_of_files(tmp_path: Path) -> None:
    """With a format name, files are read in this format and dictionaries are still accepted."""
    file = tmp_path / "library.txt"
    file.write_text("@article{b, title={Another title}, abstract={We show two floods.}}")
    assert {"a", "b"} == indexed([paper(), file], tmp_path / "data", format_name="bibtex")


@pytest.mark.parametrize(
    "options",
    [*({"limit": n} for n in (-1, 0, True, "3")), {"on_error": "foo"}, {"on_error": ["skip"]}],
)
def test_options_that_mean_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    """A limit that is no positive integer, or an unknown ``on_error``, is refused by name."""
    with pytest.raises(InputError, match=rf"^{next(iter(options))} must be"):
        indexed([paper()], tmp_path / "data", **options)


def test_an_empty_collection_says_so(tmp_path: Path) -> None:
    """A search for sentences in an emptied collection returns a reason."""
    with akin.index([paper()], tmp_path / "data", encoder="hashing", device="cpu") as collection:
        collection.delete("a")
        found = collection.search_sentences("A flood.")
    assert ("nothing_else_indexed", 0) == (found.reason, len(found.results))
    assert found.detail


def test_a_limit_of_numpy_counts(tmp_path: Path) -> None:
    """An integer of numpy is accepted as the limit."""
    given = [{"id": f"p{n}", "title": "T", "abstract": f"We show {n}."} for n in range(3)]
    assert {"p0", "p1"} == indexed(given, tmp_path / "data", limit=np.int64(2))


def test_a_missing_file_makes_no_collection(tmp_path: Path) -> None:
    """Indexing a file that does not exist leaves no folder behind."""
    with pytest.raises(StorageError, match=r"absent\.jsonl: no such file"):
        indexed([paper(), tmp_path / "absent.jsonl"], tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_value_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error for a value of an unknown type names its paper and field; NA is no value."""
    missing = paper(year=pd.NA, venue=np.nan, doi=pd.NaT, url=None)
    with pytest.raises(
        InputError, match=r"papers\[1\]: the field 'year' is Timestamp; give a text, a number"
    ):
        indexed([missing, paper(id="b", year=pd.Timestamp("2020-01-01"))], tmp_path / "data")
    assert {"a"} == indexed([missing], tmp_path / "data")
    with pytest.raises(InputError, match=r"papers\[0\] is neither a dictionary nor a file, but Series"):
        indexed([pd.Series(missing)], tmp_path / "data")


def test_a_duplicate_id_is_named_by_its_place(tmp_path: Path) -> None:
    """The warning about an id that two papers have names the places of both in the list."""
    with pytest.warns(UserWarning, match=r"papers\[1\]: duplicate id 'a', first in papers\[0\]"):
        indexed([paper(), paper()], tmp_path / "data")
