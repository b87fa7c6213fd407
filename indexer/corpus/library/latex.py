"""Turns LaTeX in titles, names and abstracts into Unicode; mathematics stays unchanged."""

import re
from functools import cache, lru_cache
from typing import Any

from pylatexenc.latex2text import LatexNodes2Text, get_default_latex_context_db

# A letter under an accent, and an accent with its letter or none.
_LETTER = r"\\(?:[ijoOlL]|ae|AE|oe|OE|aa|AA)(?![a-zA-Z])\s{0,5}|[a-zA-Z]"
_SIGN = r"\\(?:[\"'`^~=.]\s{0,5}|[cvuHkrbdt](?:(?![a-zA-Z])\s{0,5}))"
_ACCENT = rf"{_SIGN}(?:\{{\s{{0,5}}(?:{_LETTER})?\s{{0,5}}\}}|{_LETTER})"
# Tried in order, each in linear time: mathematics, macros removed with their argument, accents, other macros.
_MARKUP = re.compile(
    r"(?P<math>(?<!\\)\$[^$]++\$|\\\((?:[^\\]|\\[^()])*+\\\)|\\\[(?:[^\\]|\\[^\[\]])*+\\\])"
    r"|(?P<gone>\\(?:cite[a-z]{0,8}|label|ref|href|vspace|hspace|begin|end|noopsort)\*?\s{0,5}"
    r"(?:\[[^\[\]]{0,200}\]){0,2}\{[^{}]{0,500}\}|\\[vh]?phantom\{(?:\\.|[^{}\\]){0,500}+\}|\\[-/!])"
    rf"|(?P<accent>{_SIGN}\{{\s{{0,5}}{_ACCENT}\s{{0,5}}\}}|{_ACCENT})"  # Vietnamese has two on a letter
    r"|(?P<macro>\\[a-zA-Z]{1,40}(?:\s{1,5}|\{\})?)"
    r"|\\(?P<sign>[%&_#${}])"
    r"|(?P<space>\\[ ,;:]|\\\\|(?<=[^\s(\[/])~(?=\S))"  # in "of ~5 m", ~ means about
    r"|(?P<dash>---|--)"
    r"|(?P<quote>``|'')"
    r"|(?P<brace>[{}])",
)
# Signs that reference managers write and pylatexenc's table lacks.
_OTHER_SIGNS = {
    "textless": "<",
    "lt": "<",
    "textgreater": ">",
    "gt": ">",
    "textbar": "|",
    "textpercent": "%",
    "textunderscore": "_",
    "textasciicircum": "^",
    "textbraceleft": "{",
    "textbraceright": "}",
    "textquotedbl": '"',
    "lbrack": "[",
    "rbrack": "]",
    "pounds": "£",
    "euro": "€",
}
_WRITTEN = {"---": "—", "--": "–", "``": "“", "''": "”"}


def from_latex(text: str) -> str:
    """Return ``text`` without LaTeX: accents and signs as characters, other macros as their arguments."""
    return _MARKUP.sub(_replaced, text)


def _replaced(found: "re.Match[str]") -> str:
    kind, text = found.lastgroup, found[0]
    if kind == "math":
        return text
    if kind == "accent":
        return _accented(text)
    if kind == "macro":
        return _sign(text)
    if kind == "sign":
        return found["sign"]
    return " " if kind == "space" else _WRITTEN.get(text, "")


@lru_cache(maxsize=4_096)
def _accented(accent: str) -> str:
    """Return an accent with its letter; without a letter, its sign: ``\\~{}`` is how people write ~."""
    sign = accent.rstrip("{} \t\r\n").removeprefix("\\")
    if len(sign) == 1:
        return sign if sign in "\"'`^~" else ""
    text: str = LatexNodes2Text().latex_to_text(accent)
    return text.strip()


@lru_cache(maxsize=4_096)
def _sign(macro: str) -> str:
    """Return the sign of a macro; for a macro without one, the space after it, if any."""
    name = macro.rstrip("{} \t\r\n").removeprefix("\\")
    # The table replaces \today by the current date.
    written = _OTHER_SIGNS.get(name) or (None if name == "today" else _of_table(name))
    if written is None and name.startswith("text"):  # \textbeta is \beta outside mathematics
        sign = _of_table(name.removeprefix("text"))
        written = sign if sign is not None and len(sign) == 1 else None
    if written is None:
        return " " if macro[-1].isspace() else ""
    return written.strip()


def _of_table(name: str) -> str | None:
    """Return the text that the table has for a macro without arguments, or ``None``."""
    written = getattr(_signs().get_macro_spec(name), "simplify_repl", None)
    return written if isinstance(written, str) and "%" not in written else None


@cache
def _signs() -> Any:
    """Return pylatexenc's table of macros."""
    return get_default_latex_context_db()
