"""Data that we may not ship: where tests look for it, and how to get it.

They look in the folder set by ``AKIN_TEST_DATA``, or else in ``shared/data`` next to the project. A test
without its data is skipped with instructions to get it; another test, on invented data, covers the same
behaviour.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

import akin

VARIABLE = "AKIN_TEST_DATA"
BESIDE = Path(akin.__file__).parents[2] / "shared" / "data"

_ANSWERS = "store answers of {address}, one per file"
_ANTHOLOGY = "fetch data/xml/{name} from https://github.com/acl-org/acl-anthology"

# Each path below the folder, with where to get it from its publishers.
HOW_TO_GET: Mapping[str, str] = {
    "csfcube": (
        "fetch the files of https://github.com/iesl/CSFCube, and copy its eval_scripts/sample_ranked_pools/"
        "test-pid2pool-csfcube-specter-FACET-ranked.json to specter-ranking-FACET.json for each facet"
    ),
    "corpus.jsonl.gz": (
        "make it of 300 abstracts or more as JSON lines (docs/how-to/corpora.md), of the arXiv, say: "
        "https://info.arxiv.org/help/bulk_data.html"
    ),
    "csabstruct/dev.jsonl": (
        "fetch data/CSAbstruct/dev.jsonl from https://github.com/allenai/sequential_sentence_classification"
    ),
    "scifact": (
        "fetch corpus.jsonl from the archive data.tar.gz that https://github.com/allenai/scifact links; "
        "queries.jsonl, and qrels/train.tsv as qrels.tsv, from BEIR's scifact.zip, which "
        "https://github.com/beir-cellar/beir links"
    ),
    "formats/2021.eacl.xml": _ANTHOLOGY.format(name="2021.eacl.xml"),
    "formats/2022.scil.xml": _ANTHOLOGY.format(name="2022.scil.xml"),
    "formats/J10.xml": _ANTHOLOGY.format(name="J10.xml"),
    "formats/s2orc-metadata-sample.jsonl": (
        "fetch data/v2020-07-05/metadata/sample.jsonl from https://github.com/allenai/s2orc"
    ),
    "formats/unarxive-sample.jsonl": (
        "take three lines of any file of unarXive 2022, https://doi.org/10.5281/zenodo.7752615"
    ),
    "lookups/arxiv": _ANSWERS.format(address="https://export.arxiv.org/api/query?id_list=ID,ID"),
    "lookups/doi": _ANSWERS.format(address="https://api.crossref.org/works/DOI"),
    "lookups/pmid": _ANSWERS.format(
        address="https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi?db=pubmed&retmode=xml&id=ID,ID"
    ),
}


def outside_data(name: str) -> Path:
    """Return the path of ``name``, a key of HOW_TO_GET; skip the test if it is missing."""
    path = Path(os.environ.get(VARIABLE) or BESIDE) / name
    if not path.exists():
        pytest.skip(f"no {path}: {HOW_TO_GET[name]} ({VARIABLE} may name another folder to look in)")
    return path
