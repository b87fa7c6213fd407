"""Parsers of exported BibTeX that read it like BibTeX and LaTeX."""

import re


def entries(bibtex: str) -> dict[str, dict[str, str]]:
    """Return the fields of each entry by key, read like BibTeX: a backslash does not escape a brace."""
    found: dict[str, dict[str, str]] = {}
    place = 0
    while (start := re.compile(r"\s*@(article|misc)\{([^,\s{}]+),\s*").match(bibtex, place)) is not None:
        fields, place = {}, start.end()
        while (name := re.compile(r"([a-z]+) = \{").match(bibtex, place)) is not None:
            depth, place = 1, name.end()
            begin = place
            while depth:
                depth += {"{": 1, "}": -1}.get(bibtex[place], 0)
                place += 1
            fields[name[1]] = bibtex[begin : place - 1]
            comma = re.compile(r",\s*").match(bibtex, place)
            assert comma is not None
            place = comma.end()
        assert "}" == bibtex[place]
        place += 1
        assert start[2].lower() not in {key.lower() for key in found}
        found[start[2]] = fields
    assert "" == bibtex[place:].strip()
    return found


def typeset(latex: str) -> str:
    """Return the text that LaTeX prints for an escaped text; fails if a special character is not escaped."""
    words = {
        "textbackslash": "\\",
        "textbraceleft": "{",
        "textbraceright": "}",
        "textasciicircum": "^",
        "textasciitilde": "~",
        "textless": "<",
        "textgreater": ">",
        "textbar": "|",
    }
    escape = re.compile(r"\\([a-z]+)\{\}|\\([$&#%_])")
    latex = re.sub("{([-`'])}", r"\1", latex)
    bare = re.search(r"[\\{}$&#%_^~<>|]", escape.sub("", latex))
    assert bare is None, f"{bare[0]} means something else to LaTeX"
    return escape.sub(lambda found: words[found[1]] if found[1] else found[2], latex)
