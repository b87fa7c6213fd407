"""Tests of the contract of every table format of a report in FORMATS."""

import re

import pytest

from evaluation.report.tables import FORMATS, TextTable

# The unescaped separator of cells, and the number of additional separators in a line.
CELLS = {"markdown": (r"(?<!\\)\|", 2), "latex": (r"(?<!\\)&", 0)}


def test_every_format_is_tested() -> None:
    """Every format has an entry in ``CELLS``."""
    assert set(CELLS) == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
class TestEveryFormat:
    @pytest.mark.parametrize("system", ["minilm:ot", "a | b", "a & b_c", "50 % of {x}\\", "#1~$2^"])
    def test_a_system_is_a_line(self, name: str, system: str) -> None:
        """Every system is one line with a cell per column, whatever its name, and the title is shown."""
        lines = ((system, "42.1", "62.6"), ("other", "40.0", "60.0"))
        text = FORMATS[name](TextTable("Of a set", ("System", "MAP", "NDCG%20"), lines))
        parting, beside = CELLS[name]
        rows = [line for line in text.splitlines() if re.search(parting, line) and "---" not in line]
        assert [2 + beside] * 3 == [len(re.findall(parting, row)) for row in rows]
        assert "Of a set" in text
        assert ["42.1" in row for row in rows] == [False, True, False]
