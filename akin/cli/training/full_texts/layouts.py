"""The layouts of full texts that ``--citations`` takes; each line of a file may have another one."""

from collections.abc import Iterator, Mapping

from akin.cli.training.full_texts.full_text import sentences_that_cite
from akin.cli.training.full_texts.s2orc import is_s2orc, read_s2orc
from akin.cli.training.full_texts.unarxive import is_unarxive, read_unarxive
from evaluation.sets.files import JsonObject
from models.training.pairs.citing import Citation

LAYOUTS = (
    'a full text of unarXive ("body_text" with marks, "bib_entries" with "ids") or one of S2ORC ("body_text" '
    'with "cite_spans" and "bib_entries", by themselves or in "grobid_parse", "pdf_parse" or "latex_parse"; '
    '"corpusid" and "content" with "annotations"; or "corpusid", "body" and "bibliography")'
)


def is_full_text(row: JsonObject) -> bool:
    """Return whether a line is a full text and not a citing sentence."""
    return is_unarxive(row) or is_s2orc(row)


def citing_sentences(row: JsonObject, named: Mapping[str, str]) -> Iterator[Citation]:
    """Yield the citing sentences of a full text, in order, with ids in ``named`` where the papers have any.

    Raises InputError for a line of another layout.
    """
    return sentences_that_cite((read_unarxive if is_unarxive(row) else read_s2orc)(row), named)
