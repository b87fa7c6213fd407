"""Parts: segments without an index, of up to 1,000 encoded papers, in a folder that is complete or absent.

DATA/building/WORK/part-DIGEST/     the digest covers the papers and every model; files as in
                                    indexer/snapshot/segment.py, and kept.json
                                    (indexer/files/finished_folders.py), which also names the papers that
                                    could not be encoded
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

from indexer.catalog.quarantine import MAX_CHARS, QuarantinedPaper
from indexer.content_hash import content_hash
from indexer.encoding.embed import EmbeddedPapers, embed
from indexer.files.data_folder import part_folder
from indexer.files.durable import link_or_copy
from indexer.files.finished_folders import keep, kept
from indexer.snapshot.columns import SCHEMA, papers_to_table
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.segment import Segment
from indexer.snapshot.segment_writer import entry_of, write_vectors
from models.annotator import Annotator
from models.checksums import digest_of
from models.types import Paper, Unit


@dataclass(frozen=True, slots=True)
class Part:
    """The encoded papers in a folder, as a segment that is opened each time, and the ``refused`` papers.

    Thousands of parts may wait to be published, more than the files that a process may have open.
    """

    folder: Path
    entry: SegmentEntry
    refused: tuple[QuarantinedPaper, ...]

    def open(self) -> Segment:
        """Open the papers as a segment without an index."""
        return Segment(self.folder, self.entry, unit=Unit.SENTENCE, device="cpu")


@dataclass(frozen=True, slots=True)
class _NewPart:
    """Papers that have just been encoded, as a part to write."""

    papers: Sequence[Paper]
    embedded: EmbeddedPapers

    key = ""  # not needed before it is written

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

    def words(self) -> None:
        """Return nothing: words are counted where papers become part of a segment."""

    def table(self) -> pa.Table:
        """Return the columns of the papers, with a facet per sentence: the corpus's, else the tagger's."""
        table = papers_to_table(self.papers)
        offsets = table["starts"].combine_chunks().offsets
        facets = pa.ListArray.from_arrays(offsets, pa.array(self.embedded.facets))
        field = SCHEMA.get_field_index("facets")
        return table.set_column(field, SCHEMA.field(field), facets)


def read_part(folder: Path) -> Part | None:
    """Return the part in a folder, or ``None`` if it is not intact; every file's checksum is compared."""
    note = kept(folder)
    return None if note is None else _part(folder, note)


def linked(folder: Path, into: Path) -> Path:
    """Link the folder of a part into ``into``, and return it; return ``folder`` if it is already there.

    So no other process removes the part. If one removes it at this moment, the returned folder is missing.
    """
    target = into / folder.name
    if not target.is_dir():
        prepared = into / f"unfinished-{folder.name}"
        shutil.rmtree(prepared, ignore_errors=True)
        with suppress(FileNotFoundError, shutil.Error):
            shutil.copytree(folder, prepared, copy_function=link_or_copy)
            prepared.rename(target)
    return target


# Parts begun for each device: the one being encoded, and one that waits.
PARTS_PER_DEVICE: Final = 2


class Encode(Protocol):
    """A function that encodes papers into a part under ``into``, and returns a function that waits for it.

    Papers are encoded as in the collection ``like``. ``on_progress`` gets how many papers were done since its
    last call.
    """

    @property
    def at_once(self) -> int:
        """How many parts are worked on at the same time."""
        ...

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """Begin a part; raises EncoderError, StorageError, as waiting for it does."""
        ...


@dataclass(frozen=True, slots=True)
class EncodeHere:
    """An encoder in this process, for one part after another."""

    annotator: Annotator

    @property
    def at_once(self) -> int:
        """One."""
        return 1

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """Encode the part before returning; raises EncoderError, StorageError."""
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
    """Encode papers as in the collection ``like``, and keep the part in a folder under ``into``.

    A part that is there already is not encoded again. Raises EncoderError, StorageError.
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
        refused = [
            [papers[place].id, hashes[place], why[:MAX_CHARS]] for place, why in embedded.refused.items()
        ]
        return {**asdict(entry), "models": like.models_key, "refused": refused}

    digest = digest_of({"models": like.models_key, "papers": hashes})
    folder = part_folder(into, digest)
    return _part(folder, keep(folder, write))


def entry_in(note: Mapping[str, Any], folder: Path) -> SegmentEntry:
    """Return the entry of the segment in a folder, from its note."""
    stated = {field.name: note[field.name] for field in fields(SegmentEntry)}
    return SegmentEntry(**{**stated, "name": folder.name})


def refused_in(note: Mapping[str, Any]) -> tuple[QuarantinedPaper, ...]:
    """Return the papers that could not be encoded, from the note of a part."""
    return tuple(QuarantinedPaper(*stated) for stated in note.get("refused", ()))


def _part(folder: Path, note: Mapping[str, Any]) -> Part:
    return Part(folder, entry_in(note, folder), refused_in(note))
