"""Cells of tables that a spreadsheet may open: none of them is a formula."""

# What spreadsheets take for the start of a formula, or skip and then find one (CWE-1236); also full-width.
_FORMULA = tuple("=+-@\t\r\n\0＝＋－＠")


def harmless(text: str) -> str:
    """``text`` with an apostrophe before each formula, also where a spreadsheet parts cells at semicolons."""
    return ";".join(map(_harmless_part, text.split(";")))


def _harmless_part(text: str) -> str:
    rest = text.lstrip(" ")
    return f"{text[: len(text) - len(rest)]}'{rest}" if rest.startswith(_FORMULA) else text
