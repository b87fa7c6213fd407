"""`akin.index` of dictionaries: they are Akin's own papers, whatever else they hold."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import akin
from models.errors import InputError


def paper(**more: Any) -> dict[str, Any]:
    """A paper with other keys than it needs."""
    return {"id": "a", "title": "A title", "abstract": "We show a flood.", **more}


def indexed(given: Any, data: Path, **options: Any) -> set[str]:
    """The ids in a collection made of what is given."""
    with akin.index(given, data, encoder="hashing", device="cpu", **options) as collection:
        return {each.id for each in collection.list_papers(limit=10)}


def test_keys_of_another_format_change_nothing(tmp_path: Path) -> None:
    """A dictionary is stored under its own id, though it looks like a row of Semantic Scholar."""
    assert {"a"} == indexed([paper(corpusid=5)], tmp_path / "data")


@pytest.mark.parametrize("on_error", ["skip", "fail"])
def test_a_dictionary_without_id_is_named_by_its_place(tmp_path: Path, on_error: str) -> None:
    """The error speaks of the list that was given, not of a file that nobody knows."""
    given = [{"paper_id": "b", "title": "Another title", "abstract": "We show two floods."}]
    with pytest.raises(InputError, match=r"papers\[0\]: no id") as refused:
        indexed(given, tmp_path / "data", on_error=on_error)
    assert "akin-" not in str(refused.value)


def test_a_format_is_that_of_files(tmp_path: Path) -> None:
    """Dictionaries beside a file of a named format are indexed too."""
    file = tmp_path / "library.txt"
    file.write_text("@article{b, title={Another title}, abstract={We show two floods.}}")
    assert {"a", "b"} == indexed([paper(), file], tmp_path / "data", format_name="bibtex")


@pytest.mark.parametrize(
    "options",
    [*({"limit": n} for n in (-1, 0, True, "3")), {"on_error": "foo"}, {"on_error": ["skip"]}],
)
def test_options_that_mean_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    """A limit below one, or another way to treat errors, is refused by its name."""
    with pytest.raises(InputError, match=rf"^{next(iter(options))} must be"):
        indexed([paper()], tmp_path / "data", **options)


def test_an_empty_collection_says_so(tmp_path: Path) -> None:
    """A search for sentences has its reason where the only paper was deleted."""
    with akin.index([paper()], tmp_path / "data", encoder="hashing", device="cpu") as collection:
        collection.delete("a")
        found = collection.search_sentences("A flood.")
    assert ("nothing_else_indexed", 0) == (found.reason, len(found.results))
    assert found.detail


def test_a_limit_of_numpy_counts(tmp_path: Path) -> None:
    """A whole number is one, whoever made it."""
    given = [{"id": f"p{n}", "title": "T", "abstract": f"We show {n}."} for n in range(3)]
    assert {"p0", "p1"} == indexed(given, tmp_path / "data", limit=np.int64(2))
