"""Papers to start from, read from a library: as the collection has them, or as the library does."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from akin.client.answers import Paper
from indexer.corpus.read import CorpusReport, read_entries
from indexer.corpus.rows import MAX_TITLE_CHARS, RawPaper, clean, to_paper
from models.errors import InputError

if TYPE_CHECKING:
    from akin.client.client import Client
    from akin.local import Local

MOST_SEEDS: Final = 500  # that recommendations take


@dataclass(slots=True)
class LibrarySeeds:
    """What the entries of a library are as ``seeds``: the keywords that name or hold each of them.

    ``n_known`` are papers of the collection, ``n_pasted`` are taken as the library has them. Titles are
    ``left_out`` that are not in the collection and have no abstract; entries ``past`` the bound are not read.
    """

    seeds: list[dict[str, Any]] = field(default_factory=list)
    n_known: int = 0
    n_pasted: int = 0
    left_out: list[str] = field(default_factory=list)
    past: bool = False
    report: CorpusReport = field(default_factory=CorpusReport)


def read_seeds(
    files: Sequence[Path], collection: "Client | Local", *, most: int = MOST_SEEDS
) -> LibrarySeeds:
    """The first ``most`` entries of some files as seeds; raises CorpusError, StorageError."""
    found = LibrarySeeds()
    rows = chain.from_iterable(read_entries(file, report=found.report) for file in files)
    entries = list(islice(rows, most + 1))
    found.past = len(entries) > most
    entries = entries[:most]
    for entry, paper in zip(entries, _known(entries, collection), strict=True):
        if paper is not None:
            found.n_known += 1
            found.seeds.append({"paper_id": paper.id})
            continue
        try:
            own = to_paper(replace(entry, id="seed", facets=None))
        except InputError:
            found.left_out.append(_title(entry) or str(entry.id))
            continue
        found.n_pasted += 1
        found.seeds.append({"title": own.title, "abstract": own.abstract})
    # The same paper may stand in several files.
    found.seeds = [seed for place, seed in enumerate(found.seeds) if seed not in found.seeds[:place]]
    return found


def _known(entries: Sequence[RawPaper], collection: "Client | Local") -> list[Paper | None]:
    """The papers of the collection that entries are by their ids, or else by their titles."""
    known: list[Paper | None] = [None] * len(entries)
    for name_of in (_id, _title):
        places = [place for place, entry in enumerate(entries) if known[place] is None and name_of(entry)]
        if places:
            papers = collection.papers([name_of(entries[place]) for place in places])
            for place, paper in zip(places, papers, strict=True):
                known[place] = paper
    return known


def _id(entry: RawPaper) -> str:
    return entry.id if isinstance(entry.id, str) and len(entry.id) <= MAX_TITLE_CHARS else ""


def _title(entry: RawPaper) -> str:
    return clean(entry.title)[:MAX_TITLE_CHARS] if isinstance(entry.title, str) else ""
