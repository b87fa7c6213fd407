"""Turns the entries of a library file into seeds: papers of the collection, or the library's own text."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from warnings import warn

from akin.client.params import mapping_of
from akin.client.responses.papers import Paper
from models.errors import InputError
from models.extras import needed

if TYPE_CHECKING:
    from akin.client.params import Seed
    from indexer.corpus.library.entries import Entry

MOST_SEEDS: Final = 500  # that recommendations take
_SHOWN: Final = 5  # titles that are left out
_TITLE: Final = -1  # the number of an entry's title among its names
_Found = TypeVar("_Found")

# Yields names of papers, to be sent the papers that the collection has by them: so it is the same with and
# without asyncio.
Reading = Generator[list[str], Sequence[Paper | None], _Found]
Files = str | Path | Sequence[str | Path]


@dataclass(slots=True)
class LibrarySeeds:
    """What the entries of a library are as ``seeds``: the keywords that name or hold each of them.

    ``n_known`` are papers of the collection, ``n_pasted`` are taken as the library has them. Titles are
    ``left_out`` that are not in the collection and have no abstract; rows are ``broken`` that cannot be read;
    entries ``past`` the bound are not.
    """

    seeds: list[dict[str, Any]] = field(default_factory=list)
    n_known: int = 0
    n_pasted: int = 0
    left_out: list[str] = field(default_factory=list)
    past: bool = False
    broken: list[str] = field(default_factory=list)

    @property
    def losses(self) -> list[str]:
        """What of the library does not count, in sentences."""
        told = []
        if self.left_out:
            named = "; ".join(self.left_out[:_SHOWN]) + (" ..." if len(self.left_out) > _SHOWN else "")
            told.append(
                f"{len(self.left_out):,} are not in the collection and have no usable abstract: {named}"
            )
        told += [f"skipped: {row}" for row in self.broken]
        if self.past:
            told.append(f"Only the first {MOST_SEEDS} entries count; give the others in another search.")
        return told


def read_seeds(files: Sequence[Path], *, most: int = MOST_SEEDS) -> Reading[LibrarySeeds]:
    """The first ``most`` entries of some files as seeds; raises CorpusError, StorageError."""
    with needed("Reading a library", extra="local"):
        from indexer.corpus.read import CorpusReport, read_entries  # noqa: PLC0415 - clients do without it
        from indexer.corpus.rows import to_paper  # noqa: PLC0415
    found, report = LibrarySeeds(), CorpusReport()
    rows = chain.from_iterable(read_entries(file, report=report) for file in files)
    entries = list(islice(rows, most + 1))
    found.past = len(entries) > most
    entries = entries[:most]
    known = yield from _known(entries)
    for entry, paper in zip(entries, known, strict=True):
        if paper is not None:
            found.n_known += 1
            found.seeds.append({"paper_id": paper.id})
            continue
        try:
            own = to_paper(replace(entry.paper, id="seed", facets=None))
        except InputError:
            found.left_out.append(entry.title or str(entry.paper.id))
            continue
        found.n_pasted += 1
        found.seeds.append({"title": own.title, "abstract": own.abstract})
    # The same paper may stand in several files.
    found.seeds = [seed for place, seed in enumerate(found.seeds) if seed not in found.seeds[:place]]
    found.broken = list(map(str, report.broken_rows))
    return found


def _known(entries: "Sequence[Entry]") -> Reading[list[Paper | None]]:
    """The papers of the collection that entries are: by the first name that it knows, or by their titles."""
    known: list[Paper | None] = [None] * len(entries)
    most = max((len(entry.names) for entry in entries), default=0)
    for nth in (*range(most), _TITLE):
        wanted = {place: name for place, entry in enumerate(entries) if (name := _nth(entry, nth))}
        places = [place for place in wanted if known[place] is None]
        if places:
            papers = yield [wanted[place] for place in places]
            for place, paper in zip(places, papers, strict=True):
                known[place] = paper
    return known


def _nth(entry: "Entry", nth: int) -> str:
    """A name of an entry by its number, or its title; empty where there is none that can be looked up."""
    from indexer.corpus.rows import MAX_TITLE_CHARS  # noqa: PLC0415

    if nth == _TITLE:
        return entry.title[:MAX_TITLE_CHARS]
    name = entry.names[nth] if nth < len(entry.names) else ""
    return name if len(name) <= MAX_TITLE_CHARS else ""


def with_libraries(params: Mapping[str, Any]) -> Reading[dict[str, Any]]:
    """Recommendations whose libraries ``like`` and ``unlike`` are seeds and negatives, as they are sent.

    ``facet`` counts for every seed that names none of its own. Raises InputError where there is no seed,
    CorpusError, StorageError; warns of entries that do not count.
    """
    sent = dict(params)
    facet = sent.pop("facet", None)
    for files, name in (("like", "seeds"), ("unlike", "negatives")):
        given = sent.pop(files, None)
        seeds: list[Any] = list(seeds_of(sent.get(name) or ()))
        if given:
            library = yield from read_seeds(_paths(given))
            if library.losses:
                warn("; ".join([f"{files}: {given}", *library.losses]), stacklevel=5)
            seeds += library.seeds
        if facet is not None and name == "seeds":
            seeds = [_in_respect(seed, facet) for seed in seeds]
        if seeds or name in sent:
            sent[name] = seeds
    if not sent.get("seeds"):
        raise InputError("Nothing to start from: give papers as seeds, or a library as like.")
    return sent


def seeds_of(given: "str | Seed | Sequence[str | Seed]") -> "list[str | Seed]":
    """A list of seeds, also of one that is given by itself; raises InputError for what is none."""
    if isinstance(given, str | Mapping):
        return [given]
    if not isinstance(given, Iterable):
        raise InputError(
            f"Papers to start from are ids, or dictionaries that hold a paper, not {type(given).__name__}."
        )
    return list(given)


def _paths(given: Files) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(each) for each in given]


def _in_respect(seed: "str | Seed | dict[str, Any]", facet: object) -> dict[str, Any]:
    """A seed, with the facet that counts where it chooses nothing itself."""
    told = "A seed is the id of a paper, or a dictionary that holds one"
    named = {"paper_id": seed} if isinstance(seed, str) else dict(mapping_of(seed, told))
    chooses = named.keys() & {"facet", "sentences"}
    return named if chooses else {**named, "facet": facet}


def looked_up(reading: Reading[_Found], papers: Callable[[list[str]], Sequence[Paper | None]]) -> _Found:
    """What a reading comes to, where ``papers`` finds papers by their names."""
    try:
        names = next(reading)
        while True:
            names = reading.send(papers(names))
    except StopIteration as done:
        found: _Found = done.value
        return found
