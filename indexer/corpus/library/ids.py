"""Reads lists of DOIs, arXiv ids and PubMed numbers, one per line: papers with only their name known."""

import re
from collections.abc import Iterator

from indexer.corpus.library.names import doi_in, is_only_an_id, reference_of
from indexer.corpus.records import each_line
from indexer.corpus.rows import RawPaper, Row
from indexer.corpus.source import Lines
from models.errors import InputError

# The number of lines read to recognise a list.
_LOOKED_AT = 20
_MAX_WORDS = 3  # "arXiv: 2212.11867 v2"
_MAX_CHARS = 400


# The first line of a list that is one column of a table.
_HEADER = re.compile(r"(?:doi|pmid|arxiv|(?:arxiv |pubmed |paper )?id|pubmed number)s?", re.IGNORECASE)
_NOTE = re.compile(r"(?:^|\s)#")


class IdsReader:
    """The reader of lists: ids become ``doi:10.…``, ``arxiv:…`` or ``pmid:…``.

    Notes (from # to the end of the line) and a header such as ``DOI`` are skipped.
    """

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first line and most of the others name a paper and hold nothing else."""
        named = [
            _reference(text) is not None for line in head.splitlines()[:_LOOKED_AT] if (text := _text(line))
        ]
        return bool(named) and named[0] and 2 * sum(named) > len(named)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each line that names something."""
        for number, line in each_line(lines):
            if isinstance(line, InputError):
                yield Row(number, line)
            elif text := _text(line.decode(errors="replace")):
                yield Row(number, _row(text))


def _text(line: str) -> str:
    """Return a line without its note, quotes and commas; ``""`` for a header."""
    text = _NOTE.split(line, maxsplit=1)[0].strip().strip("\"',")
    return "" if _HEADER.fullmatch(text) else text


def _row(text: str) -> RawPaper | InputError:
    name = _reference(text)
    if name is None:
        return InputError(f"{text[:50]!r} is not a DOI, arXiv id or PubMed number")
    return RawPaper(id=name, title=None, abstract=None, doi=doi_in(text), lookup=name)


def _reference(text: str) -> str | None:
    """Return the ``doi:…``, ``arxiv:…`` or ``pmid:…`` of a line, or ``None`` if it holds anything else."""
    if len(text) > _MAX_CHARS or len(text.split()) > _MAX_WORDS or text.startswith(("{", "[", "<", "@")):
        return None
    return reference_of(text) if is_only_an_id(text) else None
