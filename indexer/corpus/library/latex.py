"""LaTeX in titles, names and abstracts as Unicode; mathematics stays as it is written."""

import re
from functools import cache, lru_cache
from typing import Any

from pylatexenc.latex2text import LatexNodes2Text, get_default_latex_context_db

# One after another, each in linear time: what stays, what goes with its argument, accents, the other macros.
_MARKUP = re.compile(
    r"(?P<math>(?<!\\)\$[^$]++\$|\\\((?:[^\\]|\\[^()])*+\\\))"
    r"|(?P<gone>\\(?:cite[a-z]{0,8}|label|ref|href|vspace|hspace|begin|end)\*?\s{0,5}(?:\[[^\[\]]{0,200}\])?"
    r"\{[^{}]{0,500}\}|\\[vh]?phantom\{(?:\\.|[^{}\\]){0,500}+\})"
    r"|(?P<accent>\\(?:[\"'`^~=.]\s{0,5}|[cvuHkrbdt](?:(?![a-zA-Z])\s{0,5}))"
    r"(?:\{\s{0,5}\\?[a-zA-Z]\s{0,5}\}|\\[ij](?![a-zA-Z])|[a-zA-Z]))"
    r"|(?P<macro>\\[a-zA-Z]{1,40}(?:\s{1,5}|\{\})?)"
    r"|\\(?P<sign>[%&_#${}])"
    r"|(?P<space>\\[ ,;:!/]|\\\\|~)"
    r"|(?P<dash>---|--)"
    r"|(?P<quote>``|'')"
    r"|(?P<brace>[{}])",
)
# What the table of signs leaves out of what reference managers write.
_OTHER_SIGNS = {
    "textless": "<",
    "lt": "<",
    "textgreater": ">",
    "gt": ">",
    "textbar": "|",
    "textpercent": "%",
    "textunderscore": "_",
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
    """Return ``text`` without LaTeX: accents and signs as characters, macros gone, their arguments kept."""
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
    text: str = LatexNodes2Text().latex_to_text(accent)
    return text.strip()


@lru_cache(maxsize=4_096)
def _sign(macro: str) -> str:
    """The sign that a macro stands for; a blank for one that only says how its argument looks."""
    name = macro.rstrip("{} \t\r\n").removeprefix("\\")
    # The table has the day of the reading as well.
    written = _OTHER_SIGNS.get(name) or (None if name == "today" else _of_table(name))
    if written is None and name.startswith("text"):  # \textbeta is \beta outside mathematics
        sign = _of_table(name.removeprefix("text"))
        written = sign if sign is not None and len(sign) == 1 else None
    if written is None:
        return " " if macro[-1].isspace() else ""
    return written.strip()


def _of_table(name: str) -> str | None:
    """What stands for a macro without arguments, where something does."""
    written = getattr(_signs().get_macro_spec(name), "simplify_repl", None)
    return written if isinstance(written, str) and "%" not in written else None


@cache
def _signs() -> Any:
    """What macros stand for: pylatexenc's own table."""
    return get_default_latex_context_db()
