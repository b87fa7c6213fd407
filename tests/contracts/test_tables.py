"""Tests of the contract of every table of results in TABLES."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.api.schemas.search.results import ResultOut
from service.web.tables import TABLES

# The unescaped separator of cells, and the number of lines besides those of papers.
CELLS = {"tex": (r"(?<!\\)&", 6), "md": (r"(?<!\\)\|", 2), "tsv": ("\t", 1)}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def result(title: str, author: str, abstract: str) -> ResultOut:
    """Return a search result whose abstract is one method sentence."""
    sentence = {"start": 0, "end": len(abstract), "facet": "method", "facet_source": "given"}
    paper = {"id": "p", "title": title, "abstract": abstract, "sentences": [sentence], "authors": [author]}
    rest = {"year": None, "venue": None, "url": None, "doi": None, "fields": []}
    words = {"weight": 0.0, "distance": 0.0, "terms": []}
    return ResultOut.model_validate(
        {
            "paper": paper | rest,
            "score": -1.0,
            "alignments": [],
            "omitted": [],
            "highlights": [],
            "words": words,
            "converged": True,
            "gap": 0.0,
            "strength": None,
        }
    )


def test_every_table_is_tested() -> None:
    """Every table has an entry in ``CELLS``."""
    assert set(CELLS) == set(TABLES)


@pytest.mark.parametrize("ending", TABLES)
class TestEveryTable:
    @settings(max_examples=50)
    @given(title=TEXT, author=TEXT, abstract=TEXT)
    @example(title="a | b & c\td", author="\\", abstract="=1\n2 \\| \\& \u2028 3\r4")
    def test_a_paper_is_a_line(self, ending: str, title: str, author: str, abstract: str) -> None:
        """Every paper is one line with as many cells as the header, whatever text it has."""
        parting, n_others = CELLS[ending]
        _, table = TABLES[ending]
        lines = table([result(title, author, abstract), result("Plain", "Ada Quill", "We sort ropes.")])
        rows = [line for line in lines.removesuffix("\n").split("\n") if re.search(parting, line)]
        assert 2 + n_others == len(lines.splitlines())
        assert 1 == len({len(re.findall(parting, row)) for row in rows})
        assert "We sort ropes." in rows[-1]

    def test_without_papers_it_is_its_head(self, ending: str) -> None:
        """Without papers a table has only its head."""
        assert CELLS[ending][1] == len(TABLES[ending][1]([]).splitlines())
