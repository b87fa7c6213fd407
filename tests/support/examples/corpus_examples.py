"""The papers of the files in ``tests/support/examples/corpora``, and helpers to write other corpora."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from indexer.corpus.read import CorpusReport, read_corpus
from models.text.sentences import sentences_from_list
from models.types import Facet, Paper

CORPORA = Path(__file__).parent / "corpora"


def paper(
    paper_id: str, title: str, *parts: str, facets: list[Facet | None] | None = None, **rest: object
) -> Paper:
    """Return a paper with the sentences ``parts``; ``rest`` are fields of Paper."""
    abstract, sentences = sentences_from_list(parts, facets)
    return Paper(paper_id, title, abstract, sentences, **rest)  # type: ignore[arg-type]  # fields of Paper


@dataclass(frozen=True)
class Example:
    """A file of a format: its papers, its broken line and why, its number of rows without abstract."""

    file: str
    papers: tuple[Paper, ...]
    broken_line: int
    reason: str
    without_abstract: int = 0


PRIMES = paper(
    "arxiv:9912.00001",
    "Gaps between Invented Primes",
    "Let $p_1. p_2$ be primes that we invented.",
    "Their gaps are bounded by $k \\leq 3$.",
    year=2011,
    authors=("Ada Quill", "Bo Rask", "Cy Umber III"),
    url="https://arxiv.org/abs/9912.00001",
    fields=("math.PR", "math.CA"),
)


def sums(*parts: str) -> Paper:
    """Return the second arXiv paper; its abstract in unarXive is different."""
    url = "https://arxiv.org/abs/9912.00003"
    fields = ("math.PR", "math.CA")
    return paper(
        "arxiv:9912.00003", "Sums of Gaps", *parts, year=2012, authors=("Quill",), url=url, fields=fields
    )


EXAMPLES = {
    "jsonl": Example(
        "own.jsonl",
        (
            paper(
                "tide-1",
                "Tide Tables from Sparse Gauges",
                "Tide gauges are sparse, e.g. in the Arctic.",
                "We fit a harmonic model to seven of them.",
                year=2019,
                venue="Coastal Letters",
                authors=("Ada Quill", "Bo Rask"),
                url="https://example.org/tide-1",
                doi="10.5555/tide.1",
                fields=("Oceanography",),
            ),
            paper(
                "tide-3",
                "Gauges Revisited",
                "Sparse gauges mislead.",
                "We add three.",
                facets=[Facet.BACKGROUND, Facet.METHOD],
                authors=("Ada Quill", "Cy Umber"),
            ),
        ),
        broken_line=2,
        reason="not valid JSON",
    ),
    "csv": Example(
        "table.csv",
        (
            paper(
                "kiln-1",
                "Firing Curves, Compared",
                "Kilns drift.",
                'We compare "slow" and fast curves.',
                year=2015,
                venue="Clay Studies",
                authors=("Ada Quill", "Bo Rask"),
                doi="10.5555/kiln.1",
                fields=("Ceramics", "Control"),
            ),
            paper("kiln-3", "Cooling Curves", "We cool kilns slowly."),
        ),
        broken_line=4,
        reason="no abstract",
    ),
    "acl": Example(
        "acl.xml",
        (
            paper(
                "acl:2031.inv-main.1",
                "Parsing Gothic Inscriptions & More",
                "Inscriptions are short.",
                "We parse n of them with no treebank; see https://example.org/gothic.",
                year=2031,
                venue="inv",
                authors=("Ada Quill", "Bo Rask"),
                url="https://aclanthology.org/2031.inv-main.1/",
                doi="10.5555/v1/2031.inv-main.1",
            ),
            paper(
                "acl:2031.inv-main.4",
                "Runes Counted",
                "We count runes.",
                year=2031,
                venue="inv",
                authors=("Umber",),
                url="https://aclanthology.org/2031.inv-main.4/",
            ),
        ),
        broken_line=24,
        reason="the title is empty",
        without_abstract=1,
    ),
    "s2": Example(
        "s2orc.jsonl",
        (
            paper(
                "s2:11",
                "Moss on Slate",
                "Moss grows where p < q.",
                "H2O is needed, and 1 < 2 > 0.",
                year=1998,
                venue="Moss Review",
                authors=("Ada B. Quill",),
                url="https://api.semanticscholar.org/CorpusID:11",
                doi="10.5555/moss.1",
                fields=("Biology",),
            ),
            paper(
                "s2:14",
                "Moss on Zinc",
                "Zinc keeps moss away.",
                year=1998,
                venue="Moss Review",
                url="https://api.semanticscholar.org/CorpusID:14",
            ),
        ),
        broken_line=2,
        reason="the year 'long ago'",
        without_abstract=1,
    ),
    "arxiv": Example(
        "arxiv.jsonl", (PRIMES, sums("We sum gaps.")), broken_line=2, reason="the title is empty"
    ),
    "unarxive": Example(
        "unarxive.jsonl", (PRIMES, sums("The parsed source.")), broken_line=2, reason="the title is empty"
    ),
    "openalex": Example(
        "openalex.jsonl",
        (
            paper(
                "openalex:W31",
                "Bells in situ",
                "Bells ring slowly.",
                "We ring them.",
                year=2022,
                venue="Journal of Bells",
                authors=("Bo Rask",),
                url="https://doi.org/10.5555/oa.31",
                doi="10.5555/oa.31",
                fields=("Arts",),
            ),
            paper(
                "openalex:W34",
                "Small Bells",
                "Small bells.",
                year=2022,
                authors=("Bo Rask",),
                url="https://openalex.org/W34",
                doi="10.5555/oa.34",
                fields=("Physics",),
            ),
        ),
        broken_line=2,
        reason="the positions of 'Bells'",
        without_abstract=1,
    ),
    "openreview": Example(
        "openreview.jsonl",
        (
            paper(
                "moss1",
                "Moss on Invented Walls",
                "Walls grow moss.",
                "We count it.",
                year=2021,
                venue="Wall Days",
                authors=("Ada Quill", "Bo Rask"),
            ),
            paper("moss4", "Dry Walls", "Dry walls have no moss.", authors=("Cy Umber III",)),
        ),
        broken_line=2,
        reason="the title is empty",
        without_abstract=1,
    ),
    "pubmed": Example(
        "pubmed.xml",
        (
            paper(
                "pmid:41",
                "Salt baths for invented aches.",
                *("Aches abound.", "Salt is cheap.", "To bathe.", "We bathed 3 people."),
                *("None complained (p < .05).", "Baths help.", "Salt was given."),
                facets=[
                    *(Facet.BACKGROUND, Facet.BACKGROUND, Facet.OBJECTIVE, Facet.METHOD),
                    *(Facet.RESULT, Facet.RESULT, None),
                ],
                year=2003,
                venue="Annals of Invented Medicine",
                authors=("Ada B Quill", "The Bath Group"),
                url="https://pubmed.ncbi.nlm.nih.gov/41/",
                doi="10.5555/salt.41",
            ),
            paper(
                "pmid:44",
                "Plain baths.",
                "Plain water was used.",
                year=2001,
                venue="Annals",
                url="https://pubmed.ncbi.nlm.nih.gov/44/",
            ),
        ),
        broken_line=18,
        reason="the title is empty",
        without_abstract=1,
    ),
    "bibtex": Example(
        "library.bib",
        (
            paper(
                "doi:10.5555/lamp.1",
                "LED Lamps for Øyster Beds – a Survey",
                "Lamps are dim.",
                "We fit 50% of them with $x_1 \\leq 3$ café bulbs.",
                year=2019,
                venue="Journal of Invented Lamps",
                authors=("Ada Quill", "Bo Rask Jr", "The Lamp and Light Group"),
                url="https://example.org/a_b",
                doi="10.5555/Lamp.1",
            ),
            paper(
                "quill2022",
                "Lamps, the Book",
                "All about lamps.",
                authors=("Ada Quill",),
                venue="Invented Press",
            ),
        ),
        broken_line=15,
        reason="not a valid BibTeX entry",
        without_abstract=1,
    ),
    "ris": Example(
        "library.ris",
        (
            paper(
                "doi:10.5555/kite.1",
                "Kites in Still Air",
                "Kites need wind.",
                "We fly them without.",
                year=2018,
                venue="Kite Letters",
                authors=("Ada Quill", "Bo Rask Jr"),
                url="https://example.org/kite",
                doi="10.5555/kite.1",
            ),
            paper(
                "pmid:4711",
                "Kites Revisited",
                "We revisit kites.",
                year=2020,
                venue="Proceedings of Kites",
                authors=("Cy Umber",),
            ),
        ),
        broken_line=13,
        reason="no title",
        without_abstract=1,
    ),
    "nbib": Example(
        "library.nbib",
        (
            paper(
                "doi:10.5555/kite.nbib.1",
                "Kites in still air: an invented trial.",
                "BACKGROUND: Kites need wind.",
                "METHODS: We fly them without.",
                year=2018,
                venue="Journal of invented kites",
                authors=("Ada Quill", "Bo Rask Jr", "Kite Study Group"),
                url="https://pubmed.ncbi.nlm.nih.gov/90000001/",
                doi="10.5555/kite.nbib.1",
            ),
            paper(
                "pmid:90000004",
                "Kites revisited.",
                "We revisit kites.",
                year=2020,
                venue="J Inv Kites",
                authors=("C Umber",),
                url="https://pubmed.ncbi.nlm.nih.gov/90000004/",
            ),
        ),
        broken_line=22,
        reason="no title",
        without_abstract=1,
    ),
    "zotero": Example(
        "zotero.csv",
        (
            paper(
                "doi:10.5555/rope.1",
                "Ropes, Compared",
                "Ropes fray.",
                'We compare "wet" and dry ones.',
                year=2017,
                venue="Rope Studies",
                authors=("Ada Quill", "Bo Rask"),
                url="https://example.org/rope",
                doi="10.5555/rope.1",
            ),
            paper(
                "arxiv:9912.00009",
                "Ropes in Space",
                "We float ropes.",
                year=2023,
                authors=("Cy Umber",),
                url="http://arxiv.org/abs/9912.00009",
            ),
        ),
        broken_line=3,
        reason="no title",
        without_abstract=1,
    ),
    "csl": Example(
        "library.csl.json",
        (
            paper(
                "doi:10.5555/sail.1",
                "Sails of Paper",
                "Sails tear.",
                "We fold them.",
                year=2015,
                venue="Sail World",
                authors=("Ada Quill", "The Sail Group"),
                url="https://example.org/sail",
                doi="10.5555/SAIL.1",
            ),
            paper("umber2018", "Sails of Cloth", "We weave sails.", authors=("Cy van den Berg",)),
        ),
        broken_line=3,
        reason="the title is a number",
        without_abstract=1,
    ),
    # Only ids, so there are no papers.
    "ids": Example("ids.txt", (), broken_line=4, reason="not a DOI, arXiv id or PubMed", without_abstract=3),
}

WriteFn = Callable[..., Path]


def write_lines(folder: Path, *lines: object, name: str = "corpus.jsonl", gzipped: bool = False) -> Path:
    """Write texts, bytes (unchanged) and objects (as JSON) to a file of ``folder``; return its path."""
    texts = (line if isinstance(line, str | bytes) else json.dumps(line) for line in lines)
    content = b"".join(text if isinstance(text, bytes) else text.encode() + b"\n" for text in texts)
    path = folder / name
    path.write_bytes(gzip.compress(content) if gzipped else content)
    return path


def row(paper_id: object = "a", **rest: object) -> dict[str, object]:
    """Return a row of Akin's format, which is valid unless ``rest`` makes it invalid."""
    return {"id": paper_id, "title": "A title", "abstract": "An abstract."} | rest


def reasons(path: Path, **options: str) -> list[tuple[int, str]]:
    """Return line and reason of each broken row of ``path``."""
    report = CorpusReport()
    list(read_corpus(path, report=report, **options))  # type: ignore[arg-type]  # options are names
    return [(broken.line, broken.reason) for broken in report.broken_rows]
