"""Encoding of versions of papers by content hash, reusing vectors that any process has encoded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from indexer.catalog.catalog import Catalog
from indexer.catalog.quarantine import QuarantinedPaper, including
from indexer.encoding.known import KnownVersions
from indexer.encoding.parts import Encode, Part
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.segment_writer import KeptPart
from models.counts import counted
from models.errors import EncoderError
from models.types import ProgressFn, ignore_progress

PART_PAPERS: Final = 1_000  # encoded at once: the most work that a kill may lose


@dataclass(frozen=True, slots=True)
class EncodedVersions:
    """Encoded versions of papers; ``quarantined`` papers could not be encoded, and are not in ``parts``.

    ``n_reused`` papers had been encoded before. ``folders`` are the folders of unfinished work with papers of
    the parts; no other papers of the ``emptied`` folders are needed.
    """

    parts: tuple[KeptPart, ...]
    quarantined: tuple[QuarantinedPaper, ...]
    n_reused: int
    folders: frozenset[Path]
    emptied: frozenset[Path]

    @property
    def n_papers(self) -> int:
        """The number of papers in all parts."""
        return sum(len(part) for part in self.parts)

    def note(self, catalog: Catalog, models: str, *, seen: int, served: str = "") -> int:
        """Record in ``catalog`` which papers ``models`` (``Manifest.models_key``) could not encode.

        ``served`` are the models of the served generation, if it is to be replaced. Returns ``seen``, the
        last change that the parts include, or that by which papers of the parts left the quarantine, if no
        other came before.
        """
        return including(catalog.note_encoding(models, self.hashes(), self.quarantined, served), seen=seen)

    def hashes(self) -> Iterator[str]:
        """Yield the content hashes of the papers in all parts, read part by part."""
        for part in self.parts:
            yield from part.table()["content_hash"].to_pylist()


def cumulative_progress(on_progress: ProgressFn, n_papers: int) -> Callable[[int], None]:
    """Return a callback that adds up encoded papers and reports the total of ``n_papers``."""
    done = 0

    def tell(n_more: int) -> None:
        nonlocal done
        done += n_more
        on_progress("Encoding", done, n_papers)

    return tell


def none_encoded(quarantined: Sequence[QuarantinedPaper]) -> EncoderError:
    """Return the error of a new collection all of whose papers (one at least) are ``quarantined``."""
    first = quarantined[0]
    return EncoderError(
        f"None of {counted(len(quarantined), 'paper')} could be encoded; the first, {first.paper_id!r}: "
        f"{first.reason}"
    )


def encode_versions(
    versions: Iterable[tuple[str, str]],
    catalog: Catalog,
    encode: Encode,
    *,
    like: Manifest,
    known: KnownVersions,
    on_done: Callable[[int], None] = ignore_progress,
    at_once: int = PART_PAPERS,
) -> EncodedVersions:
    """Encode versions as in the collection ``like``, except ``known`` ones, ``at_once`` papers per part.

    Each version is given by paper id and content hash. Parts are kept in ``known.into``, next to the parts
    that ``known`` links there. ``on_done`` gets how many papers were done since its last call. Raises
    EncoderError, StorageError.
    """
    parts: list[KeptPart] = []
    quarantined: list[QuarantinedPaper] = []
    used: dict[Path, bool] = {}
    n_reused = 0
    begun = (_begin(some, catalog, encode, like, known, on_done) for some in _runs(versions, at_once))
    for run in _ahead(begun, encode.at_once - 1):
        n_reused += run.n_known
        parts += run.taken
        quarantined += run.refused
        used |= run.folders
        if run.part is not None:
            part = run.part()
            if part.entry.n_papers:
                parts.append(KeptPart(part.open, np.arange(part.entry.n_papers)))
            quarantined += part.refused
            used[part.folder] = True
    emptied = frozenset(folder for folder, is_all in used.items() if is_all)
    return EncodedVersions(tuple(parts), tuple(quarantined), n_reused, frozenset(used), emptied)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of versions: ``n_known`` were already encoded or refused, and ``part`` waits for the others."""

    n_known: int
    taken: Sequence[KeptPart]
    refused: Sequence[QuarantinedPaper]
    folders: Mapping[Path, bool]
    part: Callable[[], Part] | None


def _begin(
    some: Sequence[tuple[str, str]],
    catalog: Catalog,
    encode: Encode,
    like: Manifest,
    known: KnownVersions,
    on_done: Callable[[int], None],
) -> _Run:
    wanted = dict(some)
    taken, refused, folders = known.take(wanted)
    n_known = len(some) - len(wanted)
    on_done(n_known)
    papers = [*catalog.versions(wanted.values())] if wanted else []
    part = encode(known.into, papers, like=like, on_progress=on_done) if papers else None
    return _Run(n_known, taken, refused, folders, part)


def _ahead(runs: Iterator[_Run], n: int) -> Iterator[_Run]:
    """Yield the runs, each only after the next ``n`` have begun."""
    waiting: deque[_Run] = deque()
    for run in runs:
        waiting.append(run)
        if len(waiting) > n:
            yield waiting.popleft()
    yield from waiting


def _runs(versions: Iterable[tuple[str, str]], at_once: int) -> Iterator[Sequence[tuple[str, str]]]:
    iterator = iter(versions)
    while some := list(islice(iterator, at_once)):
        yield some
