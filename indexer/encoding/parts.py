"""Parts: up to 1,000 encoded papers in a folder that is complete or absent: a segment without an index.

DATA/building/WORK/part-DIGEST/     the digest covers the papers and every model; files as in
                                    indexer/snapshot/segment.py, and kept.json (indexer/files/kept.py), which
                                    also names the papers that could not be encoded
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np
import pyarrow as pa
from jaxtyping import Float16, Int64

from indexer.catalog.quarantine import QuarantinedPaper
from indexer.content_hash import content_hash
from indexer.encoding.embed import EmbeddedPapers, embed
from indexer.files.durable import link_or_copy
from indexer.files.kept import keep, kept
from indexer.snapshot.columns import SCHEMA, papers_to_table
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.segment import Segment
from indexer.snapshot.segment_writer import entry_of, write_vectors
from models.annotator import Annotator
from models.checksums import digest_of
from models.types import Paper, Unit


@dataclass(frozen=True, slots=True)
class Part:
    """What a folder keeps: its papers, as a segment that is opened anew each time, and those ``refused``.

    Thousands of parts may wait for their publication, more than a process may have files open.
    """

    folder: Path
    entry: SegmentEntry
    refused: tuple[QuarantinedPaper, ...]

    def open(self) -> Segment:
        """Its papers; without an index."""
        return Segment(self.folder, self.entry, unit=Unit.SENTENCE, device="cpu")


@dataclass(frozen=True, slots=True)
class _NewPart:
    """Papers that were encoded just now."""

    papers: Sequence[Paper]
    embedded: EmbeddedPapers

    key = ""  # it has no name before it is written

    @property
    def n_rows(self) -> int:
        return len(self.embedded.vectors.rows)

    @property
    def has_functions(self) -> bool:
        return self.embedded.functions is not None

    def rows(self) -> np.ndarray:
        return self.embedded.vectors.rows

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        return self.embedded.vectors.offsets

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        return cast(np.ndarray, self.embedded.functions)

    def table(self) -> pa.Table:
        """Their columns, every sentence with a facet: the corpus's own, else the tagger's."""
        table = papers_to_table(self.papers)
        offsets = table["starts"].combine_chunks().offsets
        facets = pa.ListArray.from_arrays(offsets, pa.array(self.embedded.facets))
        field = SCHEMA.get_field_index("facets")
        return table.set_column(field, SCHEMA.field(field), facets)


def kept_part(folder: Path) -> Part | None:
    """The part in a folder, if it is whole: every file is compared with its checksum."""
    note = kept(folder)
    return None if note is None else _part(folder, note)


def linked(folder: Path, into: Path) -> Path:
    """The folder of a part under ``into``, with the same files; itself where that is where it stands.

    So nobody else takes it away. Where somebody does at this moment it is not there.
    """
    target = into / folder.name
    if not target.is_dir():
        prepared = into / f"unfinished-{folder.name}"
        shutil.rmtree(prepared, ignore_errors=True)
        with suppress(FileNotFoundError, shutil.Error):
            shutil.copytree(folder, prepared, copy_function=link_or_copy)
            prepared.rename(target)
    return target


# Begun for each device: the one that it encodes, and one that waits.
PARTS_PER_DEVICE: Final = 2


class Encode(Protocol):
    """Encodes papers as those of ``like`` into a part under ``into``: what it returns waits for the part.

    ``on_progress`` gets how many of its papers were done since its last call.
    """

    @property
    def at_once(self) -> int:
        """How many parts are worked on at the same time."""
        ...

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """Begin; raises EncoderError, StorageError, as waiting does."""
        ...


@dataclass(frozen=True, slots=True)
class EncodeHere:
    """Encodes in this process, one part after the other."""

    annotator: Annotator

    @property
    def at_once(self) -> int:
        """One."""
        return 1

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """The part is there when this returns; raises EncoderError, StorageError."""
        part = encode_part(into, papers, self.annotator, like=like, on_progress=on_progress)
        return lambda: part


def encode_part(
    into: Path,
    papers: Sequence[Paper],
    annotator: Annotator,
    *,
    like: Manifest,
    on_progress: Callable[[int], None],
) -> Part:
    """Encode papers as those of ``like``, and keep what comes of it in a folder under ``into``.

    Raises EncoderError, StorageError.
    """
    hashes = [content_hash(paper) for paper in papers]

    def write(prepared: Path) -> dict[str, Any]:
        embedded = embed(papers, annotator, dtype=like.dtype, on_progress=on_progress)
        entry = SegmentEntry("", 0, 0, "exact", None, {})
        encoded = [paper for place, paper in enumerate(papers) if place not in embedded.refused]
        if encoded:
            write_vectors(prepared, [_NewPart(encoded, embedded)])
            functions = None if embedded.functions is None else "exact"
            entry = entry_of(prepared, backend="exact", function_backend=functions)
        refused = [[papers[place].id, hashes[place], why] for place, why in embedded.refused.items()]
        return {**asdict(entry), "models": like.models_key, "refused": refused}

    digest = digest_of({"models": like.models_key, "papers": hashes})
    folder = into / f"part-{digest[:32]}"
    return _part(folder, keep(folder, write))


def entry_in(note: Mapping[str, Any], folder: Path) -> SegmentEntry:
    """The segment that a folder keeps, by its note."""
    stated = {field.name: note[field.name] for field in fields(SegmentEntry)}
    return SegmentEntry(**{**stated, "name": folder.name})


def refused_in(note: Mapping[str, Any]) -> tuple[QuarantinedPaper, ...]:
    """The papers that could not be encoded, by the note of a part."""
    return tuple(QuarantinedPaper(*stated) for stated in note.get("refused", ()))


def _part(folder: Path, note: Mapping[str, Any]) -> Part:
    return Part(folder, entry_in(note, folder), refused_in(note))
