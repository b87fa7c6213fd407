"""CSL-JSON in odd shapes."""

import json
from pathlib import Path

from indexer.corpus.read import CorpusReport, read_corpus
from tests.support.examples.corpus_examples import write_lines


def test_csl_of_odd_shapes(tmp_path: Path) -> None:
    """Dates, names and ids are read as programs write them, from a list or from JSON lines."""
    records = [
        {"id": 7, "type": "book", "title": "T", "abstract": "A.", "issued": {"date-parts": [["2015"]]}},
        {"id": "b", "type": "book", "title": "T", "abstract": "A.", "issued": {"raw": "1999"}, "author": {}},
        {"id": "c", "type": "book", "title": "T", "issued": None, "note": "PMID: 41\nhttps://x.y"},
    ]
    report = CorpusReport()
    path = write_lines(tmp_path, json.dumps(records, indent=2))
    papers = list(read_corpus(path, report=report))
    assert [("7", 2015), ("b", 1999)] == [(paper.id, paper.year) for paper in papers]
    assert ["pmid:41"] == [each.lookup for each in report.unresolved]
    assert papers == list(read_corpus(write_lines(tmp_path, *records)))


def test_works_of_crossref(tmp_path: Path) -> None:
    """The first title of a Crossref work counts, and its year may stand in a text."""
    work = {
        "DOI": "10.5555/X",
        "type": "journal-article",
        "title": ["Tides", "Another title"],
        "container-title": ["Coastal Letters"],
        "abstract": "<jats:p>We sing.</jats:p>",
        "issued": {"literal": "Winter 1999"},
    }
    bare = {"DOI": "10.5555/y", "type": "journal-article", "title": [], "abstract": "A.", "issued": {}}
    report = CorpusReport()
    (paper,) = read_corpus(write_lines(tmp_path, work, bare), report=report)
    assert ("doi:10.5555/x", "Tides", "Coastal Letters", 1999) == (
        paper.id,
        paper.title,
        paper.venue,
        paper.year,
    )
    assert 1 == report.broken
