"""Conversion of a library file's entries into seeds: papers of the collection, or the entries' own text."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from warnings import warn

from akin.client.params import id_of, mapping_of
from akin.client.responses.papers import Paper
from akin.client.uploads import abstract_of
from models.counts import counted
from models.errors import InputError
from models.extras import needed

if TYPE_CHECKING:
    from akin.client.params import Seed, Seeds
    from indexer.corpus.library.entries import Entry

MAX_SEEDS: Final = 500  # the limit of recommendations
_SHOWN: Final = 5  # left out titles that a warning names
_TITLE: Final = -1  # the number of an entry's title among its names
_Found = TypeVar("_Found")

# A generator that yields names of papers, and is sent the papers of the collection with these names: so the
# same code works with and without asyncio.
PaperLookup = Generator[list[str], Sequence[Paper | None], _Found]
Files = str | Path | Sequence[str | Path]


@dataclass(slots=True)
class LibrarySeeds:
    """The entries of a library as ``seeds``: keywords with the id of each, or its title and abstract.

    ``n_known`` are papers of the collection, ``n_pasted`` have the text of the library. ``left_out`` are the
    titles of entries that are not in the collection and have no usable abstract, ``broken`` the rows that
    cannot be parsed. ``past`` if there are more than ``most`` entries, which are not read.
    """

    seeds: list[dict[str, Any]] = field(default_factory=list)
    n_known: int = 0
    n_pasted: int = 0
    left_out: list[str] = field(default_factory=list)
    most: int = MAX_SEEDS
    past: bool = False
    broken: list[str] = field(default_factory=list)

    @property
    def losses(self) -> list[str]:
        """Sentences that say which entries of the library do not count, and why."""
        remarks = []
        if self.left_out:
            named = "; ".join(self.left_out[:_SHOWN]) + (" ..." if len(self.left_out) > _SHOWN else "")
            remarks.append(
                f"left out {counted(len(self.left_out), 'entry', 'entries')} that the collection does not "
                f"have, without a usable abstract: {named}"
            )
        remarks += [f"skipped: {row}" for row in self.broken]
        if self.past:
            counts = f"only the first {counted(self.most, 'entry counts', 'entries count')}"
            remarks.append(
                f"{counts if self.most else 'no entry counts'}; give the others in another search."
            )
        if not (remarks or self.seeds):
            remarks.append("no entry could be read; expected a library (.bib, .ris, .nbib ...) or a corpus")
        return remarks


def read_seeds(files: Sequence[Path], *, most: int = MAX_SEEDS) -> PaperLookup[LibrarySeeds]:
    """Read the first ``most`` entries of some files as seeds; raises CorpusError, StorageError."""
    with needed("Reading a library", extra="local"):
        from indexer.corpus.read import CorpusReport, read_entries  # noqa: PLC0415 - clients do without it
        from indexer.corpus.rows import to_paper  # noqa: PLC0415
    found, report = LibrarySeeds(most=most), CorpusReport()
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
        found.seeds.append({"title": own.title, "abstract": abstract_of(own)})
    # The same paper may be in several files.
    found.seeds = [seed for place, seed in enumerate(found.seeds) if seed not in found.seeds[:place]]
    found.broken = list(map(str, report.broken_rows))
    return found


def _known(entries: "Sequence[Entry]") -> PaperLookup[list[Paper | None]]:
    """Find each entry's paper in the collection, by its first name that is found or by its title."""
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
    """Return a name of an entry by its number, or its title; "" if there is none, or a name is too long."""
    from indexer.corpus.rows import MAX_TITLE_CHARS  # noqa: PLC0415

    if nth == _TITLE:
        return entry.title[:MAX_TITLE_CHARS]
    name = entry.names[nth] if nth < len(entry.names) else ""
    return name if len(name) <= MAX_TITLE_CHARS else ""


def with_libraries(params: Mapping[str, Any]) -> PaperLookup[dict[str, Any]]:
    """Return recommendations as they are sent: libraries ``like`` and ``unlike`` become seeds and negatives.

    ``facet`` applies to every seed that does not choose a part itself. Raises InputError if there is no seed,
    CorpusError, StorageError; warns of entries that do not count.
    """
    sent = dict(params)
    facet = sent.pop("facet", None)
    seeds: dict[str, list[Any]] = {
        name: list(seeds_of(sent.get(name) or ())) for name in ("seeds", "negatives")
    }
    for files, name in (("unlike", "negatives"), ("like", "seeds")):
        given = sent.pop(files, None)
        if isinstance(given, Mapping):
            raise InputError(
                f"{files} of recommend takes library files, not a dictionary; papers that results should be "
                "unlike are negatives, and a facet in which they should differ is unlike of search."
            )
        if given:
            # Negatives are read first, and leave one seed at least.
            left = MAX_SEEDS - sum(map(len, seeds.values())) - bool(sent.get("like"))
            library = yield from read_seeds(_paths(given), most=max(0, left))
            if library.losses:
                warn("; ".join([f"{files}={given}", *library.losses]), stacklevel=5)
            seeds[name] += library.seeds
    if facet is not None:
        seeds["seeds"] = [_in_respect(seed, facet) for seed in seeds["seeds"]]
    sent |= {name: each for name, each in seeds.items() if each or name in sent}
    if not sent.get("seeds"):
        raise InputError("Nothing to start from: give papers as seeds, or a library as like.")
    return sent


def seeds_of(given: "Seeds") -> "list[str | Seed]":
    """Return a list of seeds, also for a single one; raises InputError if ``given`` is neither."""
    if isinstance(one := id_of(given), str | Mapping):
        return [cast("str | Seed", one)]
    if not isinstance(given, Iterable) or hasattr(given, "columns"):  # a table yields its columns
        raise InputError(
            f"Papers to start from are ids, or dictionaries that hold a paper, not {type(given).__name__}."
        )
    return [id_of(each) for each in given]


def _paths(given: Files) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(each) for each in given]


def _in_respect(seed: "str | Seed | dict[str, Any]", facet: object) -> dict[str, Any]:
    """Return a seed with ``facet``, unless it chooses a facet or sentences itself."""
    expected = "A seed is the id of a paper, or a dictionary that holds one"
    named = {"paper_id": seed} if isinstance(seed, str) else dict(mapping_of(seed, expected))
    chooses = named.keys() & {"facet", "sentences"}
    return named if chooses else {**named, "facet": facet}


def looked_up(lookup: PaperLookup[_Found], papers: Callable[[list[str]], Sequence[Paper | None]]) -> _Found:
    """Run a lookup with ``papers``, which finds papers by their names, and return its result."""
    try:
        names = next(lookup)
        while True:
            names = lookup.send(papers(names))
    except StopIteration as done:
        found: _Found = done.value
        return found
