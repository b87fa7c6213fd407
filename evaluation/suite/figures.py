"""The figures of the suite's parts, and the JSON file that holds them."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from evaluation.statistics.bootstrap import Difference
from evaluation.statistics.summary import Comparison, Figures, Row, SystemComparison
from indexer.files.durable import replace_file, storage_errors
from models.errors import InputError

# Decimals of figures in percent; tables show one.
_DIGITS: Final = 3
_P_DIGITS: Final = 5


@dataclass(frozen=True, slots=True)
class Section:
    """The figures of one part, with how they were made; nothing in it depends on the machine."""

    what: str
    day: str  # of the measurement, YYYY-MM-DD, UTC
    command: str
    packages: Mapping[str, str]
    figures: Figures


def read_sections(path: Path) -> dict[str, Section]:
    """Read the sections of a file written by ``write_sections``; empty if it does not exist yet.

    Raises InputError for a file with any other content, and StorageError.
    """
    if not path.exists():
        return {}
    with storage_errors(path):
        content = path.read_bytes()
    try:
        return {name: _section(section) for name, section in orjson.loads(content)["sections"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} holds no figures of a suite ({error}); give another file.") from error


def write_sections(path: Path, sections: Mapping[str, Section]) -> None:
    """Replace the content of the file with these sections; raises StorageError."""
    written = {
        name: {
            "what": section.what,
            "day": section.day,
            "command": section.command,
            "packages": dict(section.packages),
            "papers": section.figures.n_papers,
            "queries": section.figures.n_queries,
            "notes": list(section.figures.notes),
            "rows": [_row(row) for row in section.figures.rows],
            "comparisons": [_compared(each) for each in section.figures.compared],
        }
        for name, section in sections.items()
    }
    with storage_errors(path):
        replace_file(path, _lines({"sections": written}).encode())


def _row(row: Row) -> dict[str, Any]:
    return {name: _number(value, _DIGITS) for name, value in asdict(row).items()}


def _compared(each: SystemComparison) -> dict[str, Any]:
    found, difference = each.comparison, each.comparison.difference
    return {
        "a": each.a,
        "b": each.b,
        "facet": found.facet,
        "measure": found.measure,
        "value": _number(difference.value, _DIGITS),
        "low": _number(difference.low, _DIGITS),
        "high": _number(difference.high, _DIGITS),
        "n": difference.n,
        "p": _number(difference.p, _P_DIGITS),
        "p_corrected": _number(found.p_corrected, _P_DIGITS),
    }


def _number(value: Any, digits: int) -> Any:
    """Round floats, and return None for nan, which JSON lacks."""
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else round(value, digits)


def _section(record: Mapping[str, Any]) -> Section:
    figures = Figures(
        record["papers"],
        record["queries"],
        tuple(Row(**_known(row)) for row in record["rows"]),
        tuple(map(_read_compared, record["comparisons"])),
        tuple(record["notes"]),
    )
    return Section(record["what"], record["day"], record["command"], record["packages"], figures)


def _read_compared(record: Mapping[str, Any]) -> SystemComparison:
    one = _known(record)
    difference = Difference(one["value"], one["low"], one["high"], one["n"], one["p"])
    return SystemComparison(
        one["a"], one["b"], Comparison(one["measure"], one["facet"], difference, one["p_corrected"])
    )


def _known(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in record.items()}


def _lines(record: Any, indent: int = 0) -> str:
    """Write JSON with a line for each innermost object: a change of one figure changes one line."""
    inside = " " * (indent + 1)
    if isinstance(record, dict) and any(isinstance(value, dict | list) for value in record.values()):
        parts = [f"{inside}{json.dumps(name)}: {_lines(value, indent + 1)}" for name, value in record.items()]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}" + "\n" * (indent == 0)
    if isinstance(record, list) and record:
        return "[\n" + ",\n".join(inside + _lines(each, indent + 1) for each in record) + f"\n{' ' * indent}]"
    return json.dumps(record, ensure_ascii=False)
