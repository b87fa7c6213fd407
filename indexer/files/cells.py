"""Cells of tables that may be opened in a spreadsheet, without formulas."""

# Characters that start a formula in spreadsheets, or that they skip before one (CWE-1236); also full-width.
_FORMULA = tuple("=+-@\t\r\n\0＝＋－＠")


def escape_formulas(text: str) -> str:
    """Return ``text`` with an apostrophe before each formula, also after semicolons (cell separators)."""
    return ";".join(map(_escape_formula, text.split(";")))


def _escape_formula(text: str) -> str:
    rest = text.lstrip(" ")
    return f"{text[: len(text) - len(rest)]}'{rest}" if rest.startswith(_FORMULA) else text
