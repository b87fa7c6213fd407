"""Tests of the digest that distinguishes the contents of generations."""

from dataclasses import replace
from pathlib import Path

import pytest

from indexer.files.data_folder import deleted_file
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.manifest import Manifest, SegmentEntry
from service.cache.digests import content_digest


@pytest.fixture
def manifest(hashed_data: Path) -> Manifest:
    """Return a manifest with two segments, each with deleted papers."""
    made = read_manifest(hashed_data, current_generation(hashed_data))
    first = replace(made.segments[0], name="000001")
    second = SegmentEntry("000002", 3, 9, "exact", None, {"vectors.npy": "b" * 64}, 1)
    files = {deleted_file("000001"): "1" * 64, deleted_file("000002"): "2" * 64}
    return replace(made, segments=(first, second), files=files)


def renamed(manifest: Manifest) -> Manifest:
    """Return the same content with other segment names."""
    names = {"000001": "000007", "000002": "000001"}
    return replace(
        manifest,
        segments=tuple(replace(each, name=names[each.name]) for each in manifest.segments),
        files={deleted_file(names[old]): manifest.files[deleted_file(old)] for old in names},
    )


def test_names_and_times_are_no_content(manifest: Manifest) -> None:
    """The digest depends on the files, not on the names of segments or on generation, time and change."""
    again = replace(renamed(manifest), generation="000009", created="later", change=99, base="000008")
    assert content_digest(manifest) == content_digest(again)


@pytest.mark.parametrize("what", ["files", "order", "deleted", "effort", "backend", "encoder"])
def test_other_content_has_another_digest(manifest: Manifest, what: str) -> None:
    """Everything that changes what a search may find changes the digest."""
    first, second = manifest.segments
    one, two = manifest.files.values()
    others = {
        "files": replace(manifest, segments=(first, replace(second, files={"vectors.npy": "c" * 64}))),
        "order": replace(manifest, segments=(second, first)),
        "deleted": replace(manifest, files={deleted_file("000001"): two, deleted_file("000002"): one}),
        "effort": replace(manifest, effort=2.0),
        "backend": replace(manifest, segments=(first, replace(second, backend="flat"))),
        "encoder": replace(manifest, encoder=replace(manifest.encoder, fingerprint="f" * 64)),
    }
    assert content_digest(manifest) != content_digest(others[what])
