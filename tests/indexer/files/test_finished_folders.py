"""Folders of finished work that two processes fill at the same time."""

from pathlib import Path
from typing import Any

import pytest

from indexer.files.finished_folders import NOTE, keep, kept
from models.checksums import sha256_of


def written(folder: Path, content: str) -> dict[str, Any]:
    """Write one file into a folder, and return the note about it."""
    (folder / "file").write_text(content, encoding="utf-8")
    return {"by": content, "files": {"file": sha256_of(folder / "file")}}


def test_two_that_fill_one_folder_do_not_mix(tmp_path: Path) -> None:
    """The first process that finishes a folder counts for both, and nothing of the second is left."""
    folder = tmp_path / "part-1"

    def slow(prepared: Path) -> dict[str, Any]:
        (prepared / "begun").touch()
        note = written(prepared, "slow")
        assert "quick" == keep(folder, lambda other: written(other, "quick"))["by"]
        return note

    assert "quick" == keep(folder, slow)["by"]
    assert {"file", NOTE} == {each.name for each in folder.iterdir()}
    assert [folder] == list(tmp_path.iterdir())
    assert "quick" == (kept(folder) or {})["by"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """The next process that fills a folder removes what a killed one left of it, and nothing of others."""
    mine, other = tmp_path / "unfinished-part-1-0a", tmp_path / "unfinished-part-12-0a"
    for each in (mine, other):
        each.mkdir()
        (each / "file").touch()
    keep(tmp_path / "part-1", lambda prepared: written(prepared, "x"))
    assert {"part-1", other.name} == {each.name for each in tmp_path.iterdir()}


def test_nothing_is_left_of_work_that_fails(tmp_path: Path) -> None:
    """If filling a folder fails, the error is raised and nothing is left."""

    def fail(prepared: Path) -> dict[str, Any]:
        written(prepared, "x")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        keep(tmp_path / "part-1", fail)
    assert not list(tmp_path.iterdir())
