"""What is computed of the parts of an unfinished build, beside their papers (indexer/encoding/reading.py).

DATA/building/corpus/
  vectors-DIGEST/      the vectors and facets of a part, whole once the folder is there; the digest covers the
                       papers and every model, so nothing stale is ever taken up; files.json has the SHA-256
                       of each file, so nothing damaged either; quarantined.json, where there are some, names
                       the papers that could not be encoded, which have no vectors
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float16, Int64

from indexer.catalog.quarantine import QuarantinedPaper
from indexer.encoding.embed import EmbeddedPapers, embed
from indexer.encoding.reading import Part, Reading, read_table
from indexer.files.durable import discard_folder, publish_folder, write_array
from indexer.files.notes import read_note, write_note
from indexer.snapshot.columns import SCHEMA, Columns, paper_at
from indexer.snapshot.folder import compare_files
from indexer.snapshot.manifest import models_key
from models.annotator import Annotator
from models.checksums import digest_of, sha256_of
from models.errors import SnapshotCorruptError
from models.types import Precision, ProgressFn

_ROWS, _OFFSETS, _FACETS, _FUNCTIONS = "rows.npy", "offsets.npy", "facets.npy", "functions.npy"
_FILES, _QUARANTINED = "files.json", "quarantined.json"


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """What a segment takes from one part: the columns in ``papers``, and what was computed, in ``folder``.

    ``reused`` when an earlier run had computed it. Papers at the places ``refused`` could not be encoded and
    are left out of everything else; ``quarantined`` says which they are and why. Every method reads from the
    disk.
    """

    papers: Path
    folder: Path
    n_papers: int
    n_rows: int
    n_sentences: int
    reused: bool
    refused: tuple[int, ...] = ()
    quarantined: tuple[QuarantinedPaper, ...] = ()

    @property
    def key(self) -> str:
        """What tells its content from any other: its folder is named by its papers and every model."""
        return "-".join([self.folder.name, *map(str, self.refused)])

    def rows(self) -> np.ndarray:
        """Sentence vectors, (n_rows, dim)."""
        return np.asarray(np.load(self.folder / _ROWS))

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """Where each paper's rows begin and end, as in ``PackedVectors``."""
        return np.asarray(np.load(self.folder / _OFFSETS))

    @property
    def has_functions(self) -> bool:
        """Whether there was an encoder of functions."""
        return (self.folder / _FUNCTIONS).is_file()

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """Function vectors, where there are some."""
        return np.asarray(np.load(self.folder / _FUNCTIONS))

    def table(self) -> pa.Table:
        """The papers' columns, every sentence with a facet: the corpus's own, else the tagger's."""
        table = read_table(self.papers)
        if self.refused:
            encoded = np.setdiff1d(np.arange(len(table)), self.refused)
            table = Columns(table).take(encoded).combine_chunks()
        facets = pa.ListArray.from_arrays(
            table["starts"].combine_chunks().offsets, pa.array(np.load(self.folder / _FACETS))
        )
        field = SCHEMA.get_field_index("facets")
        return table.set_column(field, SCHEMA.field(field), facets)


def encode_parts(
    folder: Path,
    reading: Reading,
    annotator: Annotator,
    *,
    dtype: str,
    precision: Precision,
    on_progress: ProgressFn,
) -> list[EncodedPart]:
    """The vectors and facets of every part, those computed now that an earlier run did not."""
    done = 0

    def advance(n_papers: int) -> None:
        nonlocal done
        done += n_papers
        on_progress("Encoding", done, reading.n_papers)

    return [
        _encode_part(folder, part, annotator, dtype=dtype, precision=precision, on_progress=advance)
        for part in reading.parts
    ]


def _encode_part(
    folder: Path,
    part: Part,
    annotator: Annotator,
    *,
    dtype: str,
    precision: Precision,
    on_progress: Callable[[int], None],
) -> EncodedPart:
    """The vectors and facets of a part, computed now unless an earlier run did."""
    models = models_key(
        annotator.encoder.spec,
        annotator.tagger.spec,
        annotator.function_spec,
        dtype=dtype,
        precision=precision,
    )
    done = folder / vectors_name(part.sha256, models)
    reused = is_kept(done)
    if reused:
        on_progress(part.n_papers)
    else:
        discard_folder(done)
        table = read_table(folder / part.name)
        papers = [paper_at(table, position) for position in range(len(table))]
        embedded = embed(papers, annotator, dtype=dtype, on_progress=on_progress)
        hashes = table["content_hash"].to_pylist()
        _keep(done, embedded, [(paper.id, digest) for paper, digest in zip(papers, hashes, strict=True)])
    return kept_part(folder / part.name, done, reused=reused)


def vectors_name(sha256: str, models: str) -> str:
    """The folder of what ``models`` (their key) made of the part whose file has this ``sha256`` (hex)."""
    return f"vectors-{digest_of({'part': sha256, 'models': models})[:32]}"


def kept_part(papers: Path, folder: Path, *, reused: bool) -> EncodedPart:
    """What ``folder`` keeps of the part in the file ``papers``."""
    noted = read_note(folder / _QUARANTINED).get("papers", [])
    offsets = np.load(folder / _OFFSETS)
    return EncodedPart(
        papers,
        folder,
        n_papers=len(offsets) - 1,
        n_rows=int(offsets[-1]),
        n_sentences=len(np.load(folder / _FACETS, mmap_mode="r")),
        reused=reused,
        refused=tuple(place for place, *_ in noted),
        quarantined=tuple(QuarantinedPaper(*stated) for _, *stated in noted),
    )


def is_kept(done: Path) -> bool:
    """Whether an earlier run kept what it computed of a part, and it is as it was kept."""
    files = read_note(done / _FILES)
    try:
        compare_files(done, files)
    except SnapshotCorruptError:
        return False
    return bool(files)


def _keep(done: Path, embedded: EmbeddedPapers, papers: Sequence[tuple[str, str]]) -> None:
    """Keep what was computed of ``papers``, given by ids and content hashes."""
    prepared = done.with_name("unfinished")
    shutil.rmtree(prepared, ignore_errors=True)
    prepared.mkdir()
    arrays = {
        _ROWS: embedded.vectors.rows,
        _OFFSETS: embedded.vectors.offsets,
        _FACETS: embedded.facets,
        _FUNCTIONS: embedded.functions,
    }
    for name, array in arrays.items():
        if array is not None:
            write_array(prepared / name, [array], shape=array.shape, dtype=array.dtype)
    if embedded.refused:
        noted = [[place, *papers[place], reason] for place, reason in embedded.refused.items()]
        write_note(prepared / _QUARANTINED, {"papers": noted})
    write_note(prepared / _FILES, {path.name: sha256_of(path) for path in sorted(prepared.iterdir())})
    publish_folder(prepared, done)
