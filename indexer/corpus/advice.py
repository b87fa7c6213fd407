"""Says what to do with a file that has no known corpus format."""

from indexer.corpus.formats.table import fields_of_table
from indexer.corpus.records import first_record

# How files of other programs begin, and what to choose there instead.
_OTHER_PROGRAMS = {
    "%0 ": "This is EndNote's own format: export the library as RIS.",
    "FN ": "This is Web of Science's plain text: export the records as RIS.",
    "PMID,Title,": "PubMed's CSV has no abstracts: save the results in the format PubMed instead.",
}


def advice_on(head: str) -> str:
    """Return what to do with a file that begins with ``head`` and that no reader recognises."""
    for begin, what in _OTHER_PROGRAMS.items():
        if head.startswith(begin):
            return what
    record = first_record(head)
    if head.lstrip().startswith("{\n") and not record:
        return "Its JSON spans several lines: write each paper on one line, or all of them as a list [...]."
    if {"title", "abstract"} <= (record.keys() or fields_of_table(head)):
        return f"It has titles and abstracts: add a {'key' if record else 'column'} id (or doi) to each."
    return "Convert it to one of them, or name its format."
