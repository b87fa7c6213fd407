"""Tests that two pages list all degraded parts, metrics, warnings, reasons and statuses of the service."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.answer_warnings import WarningCode
from service.api.errors import RESPONSES, STATUS
from service.search.query import Reason, SeedReason
from tests.support.builds import ROOT
from tests.support.clients import client_of

HOW_TO = ROOT / "docs" / "how-to"
SERVING, PROGRAMS = ((HOW_TO / name).read_text(encoding="utf-8") for name in ("serving.md", "programs.md"))


def cells(page: str) -> set[str]:
    """Return the names between backticks in the first cells of tables, without labels of metrics."""
    first = re.findall(r"^\| ([^|]+)\|", page, re.M)
    return {name for cell in first for name in re.findall(r"`(\w+)(?:\{[^}]*\})?`", cell)}


def degraded_parts() -> Iterator[str]:
    """Yield the first argument of each ``Degradation`` in the source of the service."""
    for file in sorted((ROOT / "service").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Degradation"
            ):
                assert isinstance(node.args[0], ast.Constant), file
                yield str(node.args[0].value)


def test_every_part_that_may_be_degraded_is_listed() -> None:
    """Every part that may be degraded, as named by /readyz and ``akin_degraded``, is in a table."""
    parts = set(degraded_parts())
    assert len(parts) > 8
    assert set() == parts - cells(SERVING)


def test_every_metric_is_listed(hashed_data: Path) -> None:
    """Every metric is in a table by its Prometheus name, except ``process_*``, and no other is."""
    with client_of(hashed_data) as client:
        shown = re.findall(r"^# TYPE (\w+) ", client.get("/metrics").text, re.M)
    names = {name for name in shown if not name.endswith("_created")}
    assert len(names) > 20
    listed = cells(SERVING)
    assert [] == sorted(name for name in names if name not in listed and not name.startswith("process_"))
    assert {name for name in listed if name.startswith("akin_")} <= names


def test_every_warning_is_listed() -> None:
    """Every warning code is in a table."""
    assert set() == set(WarningCode) - cells(PROGRAMS)


@pytest.mark.parametrize("reasons", [Reason, SeedReason])
def test_every_reason_is_listed(reasons: type[Reason | SeedReason]) -> None:
    """Every reason for missing results or unusable seeds is on the page."""
    assert set() == set(reasons) - set(re.findall(r"`(\w+)`", PROGRAMS))


def test_every_status_is_listed() -> None:
    """Every HTTP status is listed except 502, which another service's answer causes."""
    listed = {int(status) for status in re.findall(r"^\| ([45]\d\d) \|", PROGRAMS, re.M)}
    assert {*STATUS.values(), *map(int, RESPONSES), 500} - {502} == listed
