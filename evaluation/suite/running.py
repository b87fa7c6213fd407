"""Measurement of the suite's parts with present collections; the figures of other parts are kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from evaluation.suite.figures import Section, read_sections, write_sections
from evaluation.suite.listing import SUITE, Part
from evaluation.tasks.task import TaskOptions
from models.errors import CollectionMissingError, SnapshotMissingError, UnknownNameError

# Packages with versions that may change a figure.
PACKAGES: Final = ("akin", "torch", "transformers", "numpy", "ir-measures", "bm25s", "gensim", "scikit-learn")


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """The parts that a run of the suite measured, and those it skipped, with the reason."""

    measured: tuple[str, ...]
    left: Mapping[str, str]


def run_suite(
    folder: Path,
    file: Path,
    options: TaskOptions,
    *,
    command: str,
    only: Sequence[str] = (),
    elsewhere: Mapping[str, Path] | None = None,
    parts: Mapping[str, Part] = SUITE,
    on_part: Callable[[str], None] = lambda _: None,
) -> SuiteRun:
    """Measure each part with a collection in ``folder``, or ``elsewhere`` by name, and write ``file``.

    The file is written after each part; sections of parts that are not measured are kept. ``only`` names the
    parts to measure; ``command`` is the command line that repeats this run. Raises UnknownNameError for any
    other name, and what measuring raises, except for a collection that is not present.
    """
    if unknown := [name for name in only if name not in parts]:
        raise UnknownNameError(f"Unknown part {unknown[0]!r}; known: {', '.join(parts)}.")
    sections = read_sections(file)
    measured: list[str] = []
    left: dict[str, str] = {}
    for name, part in parts.items():
        if only and name not in only:
            left[name] = "not named by --only"
            continue
        path = (elsewhere or {}).get(name, folder / part.folder)
        if not path.exists():
            left[name] = f"{path} is not there"
            continue
        on_part(name)
        try:
            figures = part.task.measure(path, options)
        except (CollectionMissingError, SnapshotMissingError) as error:
            left[name] = str(error).partition("\n")[0]
            continue
        if options.limit_queries is not None:
            note = f"Measured with --limit-queries {options.limit_queries}."
            figures = replace(figures, notes=(*figures.notes, note))
        day = datetime.now(tz=UTC).date().isoformat()
        sections[name] = Section(part.what, day, command, _packages(), figures)
        write_sections(file, {known: sections[known] for known in parts if known in sections})
        measured.append(name)
    return SuiteRun(tuple(measured), left)


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:  # Akin itself, run from its sources
            continue
    return found
