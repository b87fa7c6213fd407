"""Reads lists of DOIs, arXiv ids and PubMed numbers, one per line: papers with only their name known."""

from collections.abc import Iterator

from indexer.corpus.library.names import doi_in, reference_of
from indexer.corpus.records import each_line
from indexer.corpus.rows import RawPaper, Row
from indexer.corpus.source import Lines
from models.errors import InputError

# The number of lines read to recognise a list.
_LOOKED_AT = 20
_MAX_WORDS = 3  # "arXiv: 2212.11867 v2"
_MAX_CHARS = 400


class IdsReader:
    """The reader of lists: ids become ``doi:10.…``, ``arxiv:…`` or ``pmid:…``; notes (#) are skipped."""

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first line and most of the others name a paper and hold nothing else."""
        lines = [line for line in head.splitlines()[:_LOOKED_AT] if line.strip() and not _is_note(line)]
        named = [_reference(line) is not None for line in lines]
        return bool(named) and named[0] and 2 * sum(named) > len(named)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each line that is neither blank nor a note."""
        for number, line in each_line(lines):
            if isinstance(line, InputError):
                yield Row(number, line)
            elif (text := line.decode(errors="replace")).strip() and not _is_note(text):
                yield Row(number, _row(text))


def _is_note(line: str) -> bool:
    return line.lstrip().startswith("#")


def _row(line: str) -> RawPaper | InputError:
    name = _reference(line)
    if name is None:
        return InputError(f"{line.strip()[:50]!r} is not a DOI, arXiv id or PubMed number")
    return RawPaper(id=name, title=None, abstract=None, doi=doi_in(line), lookup=name)


def _reference(line: str) -> str | None:
    """Return the ``doi:…``, ``arxiv:…`` or ``pmid:…`` of a line, or ``None`` if it holds anything else."""
    text = line.strip().strip("\"',")
    if len(text) > _MAX_CHARS or len(text.split()) > _MAX_WORDS or text.startswith(("{", "[", "<", "@")):
        return None
    return reference_of(text)
