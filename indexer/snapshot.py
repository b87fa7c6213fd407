"""The snapshot: what the indexer publishes and the service reads.

DATA/
  CURRENT                        the name of the served generation, swapped in one step
  LOCK                           held by the one writer
  SECRET                         signs the service's cursors, made by it when first needed; mode 0600
  catalog.sqlite3                papers as the corpus gave them, every version
  building/                      the parts of an unfinished build
  snapshots/000001/              one generation, immutable once it stands here
    manifest.json                written last: encoder, counts, SHA-256 of every file and of itself
    segment-000/                 papers, vectors and index: indexer/segment.py
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from indexer.durable import publish_folder, replace_file, storage_errors, sync, writer_lock
from indexer.manifest import REMEDY, Manifest
from indexer.segment import Segment
from models.checksums import sha256_of
from models.errors import (
    EncoderMismatchError,
    PaperNotFoundError,
    SnapshotCorruptError,
    SnapshotMissingError,
)
from models.types import EncoderSpec, FunctionSpec, Paper, Unit


class Snapshot:
    """One generation, open for reading."""

    def __init__(self, folder: Path, manifest: Manifest, *, device: str) -> None:
        self.manifest = manifest
        # One segment until collections grow in place; the manifest is already a list.
        (entry,) = manifest.segments
        self.segment = Segment(folder / entry.name, entry, unit=manifest.encoder.unit, device=device)

    @property
    def generation(self) -> str:
        """The name of this generation, as every answer carries it."""
        return self.manifest.generation

    def __len__(self) -> int:
        return len(self.segment)

    def paper(self, position: int) -> Paper:
        """The paper at ``position`` (0 <= position < len(self))."""
        return self.segment.paper(position)

    def position(self, paper_id: str) -> int:
        """Where a paper stands; raises PaperNotFoundError."""
        position = self.segment.position(paper_id)
        if position is None:
            raise PaperNotFoundError(
                f"No paper of this collection has the id given; it holds {len(self)} papers, "
                f"the first is {self.paper(0).id!r}."
            )
        return position

    def vectors(self, position: int) -> Float32[np.ndarray, "n_sentence dim"]:
        """The sentence vectors of one paper."""
        packed = self.segment.vectors
        return packed.rows[packed.offsets[position] : packed.offsets[position + 1]].astype(np.float32)

    def dropped_sentences(self, position: int) -> int:
        """How many sentences of one paper, its last, lie past the encoder's token limit, without vectors."""
        if self.manifest.encoder.unit is Unit.DOCUMENT:
            return 0
        return len(self.paper(position).sentences) - len(self.vectors(position))

    def expect_encoder(self, spec: EncoderSpec) -> None:
        """Refuse any encoder but the one that made the vectors; raises EncoderMismatchError."""
        made_by = self.manifest.encoder
        if spec.fingerprint != made_by.fingerprint:
            raise EncoderMismatchError(
                f"Generation {self.generation} was built with encoder {made_by.name!r} "
                f"({made_by.fingerprint[:12]}), not {spec.name!r} ({spec.fingerprint[:12]}); "
                f"serve it with that encoder or index the corpus again"
            )

    def expect_functions(self, spec: FunctionSpec | None) -> None:
        """Refuse any encoder of functions but the one that made the function vectors, where there are some.

        Raises EncoderMismatchError.
        """
        made_by = self.manifest.functions
        if made_by is not None and (spec is None or spec.fingerprint != made_by.fingerprint):
            given = "but none is loaded" if spec is None else f"not {_named(spec)}"
            raise EncoderMismatchError(
                f"Generation {self.generation} got its function vectors from {_named(made_by)}, {given}; "
                "serve it with the version of Akin that built it or index the corpus again"
            )


def _named(spec: FunctionSpec) -> str:
    return f"{spec.name!r} ({spec.fingerprint[:12]})"


def snapshot_folder(data: Path, generation: str) -> Path:
    """Where a generation stands."""
    return data / "snapshots" / generation


def generations(data: Path) -> list[str]:
    """Every published generation of a data folder, oldest first."""
    folder = data / "snapshots"
    if not folder.is_dir():
        return []
    return sorted(child.name for child in folder.iterdir() if re.fullmatch(r"\d{6,}", child.name))


def current_generation(data: Path) -> str:
    """The served generation; raises SnapshotMissingError."""
    with storage_errors(data):
        if not (data / "CURRENT").is_file():
            raise SnapshotMissingError(
                f"{data}: nothing is indexed here; run `akin index CORPUS --data {data}` first"
            )
        name = (data / "CURRENT").read_text(encoding="utf-8").strip()
    if name not in generations(data):
        raise SnapshotMissingError(
            f"{data}/CURRENT names generation {name[:40]!r}, which is not there; "
            f"run `akin snapshot list --data {data}` and `akin snapshot rollback --to GENERATION`"
        )
    return name


def read_manifest(data: Path, generation: str) -> Manifest:
    """The manifest of a generation; raises SnapshotCorruptError."""
    path = snapshot_folder(data, generation) / "manifest.json"
    with storage_errors(path):
        if not path.is_file():
            raise SnapshotCorruptError(f"{path}: missing; {REMEDY}")
        manifest = Manifest.from_json(path.read_bytes(), path)
    if manifest.generation != generation:
        raise SnapshotCorruptError(f"{path}: belongs to generation {manifest.generation}; {REMEDY}")
    return manifest


def verify(data: Path, generation: str) -> Manifest:
    """Compare every file of a generation with its manifest; raises SnapshotCorruptError."""
    manifest = read_manifest(data, generation)
    for path, expected in _files(snapshot_folder(data, generation), manifest):
        if not path.is_file():
            raise SnapshotCorruptError(f"{path}: missing; {REMEDY}")
        with storage_errors(path):
            found = sha256_of(path)
        if found != expected:
            raise SnapshotCorruptError(
                f"{path}: SHA-256 is {found[:12]}, the manifest says {expected[:12]}; {REMEDY}"
            )
    return manifest


def _files(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, str]]:
    for segment in manifest.segments:
        for name, expected in segment.files.items():
            yield folder / segment.name / name, expected


def open_snapshot(data: Path, generation: str | None = None, *, device: str = "cpu") -> Snapshot:
    """Open a generation (the served one by default) after comparing every file with its checksum.

    Raises SnapshotMissingError, SnapshotCorruptError.
    """
    name = generation or current_generation(data)
    manifest = verify(data, name)
    with storage_errors(data):
        return Snapshot(snapshot_folder(data, name), manifest, device=device)


def next_generation(data: Path) -> str:
    """The name the next published generation gets."""
    names = generations(data)
    return f"{int(names[-1]) + 1:06d}" if names else "000001"


def publish(prepared: Path, data: Path, manifest: Manifest) -> None:
    """Write the manifest into ``prepared``, move it to its place, then let CURRENT name it."""
    (prepared / "manifest.json").write_bytes(manifest.to_json())
    target = snapshot_folder(data, manifest.generation)
    if not target.parent.is_dir():
        target.parent.mkdir()
        sync(data)
    publish_folder(prepared, target)
    replace_file(data / "CURRENT", manifest.generation.encode() + b"\n")


def rollback(data: Path, to: str | None = None) -> Manifest:
    """Serve an earlier generation again (the one before the served one by default), once it is verified.

    Raises SnapshotMissingError, SnapshotCorruptError, BuildLockedError.
    """
    if not generations(data):
        current_generation(data)  # says that nothing is indexed here
    with writer_lock(data), storage_errors(data):
        known = generations(data)
        served = (data / "CURRENT").read_text(encoding="utf-8").strip() if (data / "CURRENT").exists() else ""
        earlier = [name for name in known if name < served]
        target = to or (earlier[-1] if earlier else None)
        if target is None or target not in known:
            raise SnapshotMissingError(
                f"{data}: no generation {to or 'before ' + repr(served)} to go back to; "
                f"known: {', '.join(known) or 'none'}"
            )
        manifest = verify(data, target)
        replace_file(data / "CURRENT", target.encode() + b"\n")
    return manifest
