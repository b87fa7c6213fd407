"""Tests of reading citing sentences from full texts in unarXive's layout."""

from pathlib import Path
from typing import Any

import pytest

from akin.cli.training.full_texts.full_text import names_of
from akin.cli.training.full_texts.layouts import citing_sentences
from akin.cli.training.sets import read_citations
from models.errors import BrokenRowError
from models.training.pairs.citing import Citation
from models.types import Paper
from tests.support.examples.models.training_sets import write_lines
from tests.support.outside_data import outside_data

IDS = {"open_alex_id": "", "sem_open_alex_id": "", "pubmed_id": "", "pmc_id": "", "doi": "", "arxiv_id": ""}
ENTRIES: dict[str, Any] = {
    "aa": {"bib_entry_raw": "A. Quill.", "ids": {**IDS, "arxiv_id": "2104.06921", "doi": "10.1/A"}},
    "bb": {"ids": {**IDS, "open_alex_id": "https://openalex.org/W42", "doi": "10.1/B"}},
    "cc": {"ids": {**IDS, "doi": "10.1/C"}},
    "dd": {"ids": IDS},
    "ee": {"bib_entry_raw": "Nobody knows this one."},
}


def full_text(*paragraphs: str) -> dict[str, Any]:
    """Return a row of unarXive."""
    body = [
        {"section": "Introduction", "text": text, "cite_spans": [], "ref_spans": []} for text in paragraphs
    ]
    return {"paper_id": "9912.1", "metadata": {"id": "9912.1"}, "body_text": body, "bib_entries": ENTRIES}


def test_each_sentence_that_cites_is_read_with_what_it_cites() -> None:
    """Citations become numbers, formulas a word, and cited papers with unknown ids are counted."""
    row = full_text(
        "Nothing is cited here. Pemantle {{cite:aa}} showed\nthis for {{formula:1-2}}. "
        "It holds{{cite:bb}}{{cite:aa}}.",
        "As {{cite:dd}}, {{cite:ee}} and {{cite:cc}} say, {{cite:gone}} too. "
        "The end, {{cite:cc}}, {{cite:cc}}.",
    )
    assert list(citing_sentences(row, {})) == [
        Citation("arxiv:9912.1", "Pemantle [1] showed this for FORMULA.", ("arxiv:2104.06921",), 1),
        Citation("arxiv:9912.1", "It holds [2] [1].", ("openalex:W42", "arxiv:2104.06921"), 2),
        Citation("arxiv:9912.1", "As [4], [5] and [3] say, [0] too.", ("doi:10.1/c",), 4),
        Citation("arxiv:9912.1", "The end, [3], [3].", ("doi:10.1/c",), 1),
    ]


def test_the_citing_paper_is_named_by_title_and_doi() -> None:
    """The title and DOI of the citing paper are kept for the leak guard."""
    row = full_text("See {{cite:aa}}.")
    row["metadata"] |= {"title": "Gaps between\n  Primes", "doi": "10.1/X"}
    (found,) = citing_sentences(row, {})
    assert (found.title, found.doi) == ("Gaps between\n  Primes", "10.1/X")


def test_a_cited_paper_has_the_id_that_the_corpus_gives_it() -> None:
    """A cited paper gets its id in the corpus, by OpenAlex id or DOI, before its arXiv id."""
    papers = {
        name: Paper(id=name, title="", abstract="", sentences=(), doi=doi)
        for name, doi in (("openalex:W42", None), ("mine", "10.1/a"), ("acl:C1", "10.1/C"))
    }
    (found,) = citing_sentences(full_text("See {{cite:aa}}, {{cite:bb}}, {{cite:cc}}."), names_of(papers))
    assert found.cited == ("mine", "openalex:W42", "acl:C1")


@pytest.mark.parametrize(
    "change",
    [
        {"body_text": "text"},
        {"body_text": [{"section": "A"}]},
        {"bib_entries": []},
        {"metadata": None, "paper_id": 3},
    ],
)
def test_a_broken_full_text_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    """A broken row raises ``BrokenRowError`` with its line."""
    file = write_lines(tmp_path / "full.jsonl", [full_text("Fine {{cite:aa}}."), {**full_text(), **change}])
    with pytest.raises(BrokenRowError, match="expected") as refused:
        list(read_citations([file], {}))
    assert refused.value.line == 2


def test_real_full_texts_are_read() -> None:
    """In three papers of unarXive no mark is left, and most sentences cite a paper with a known id."""
    found = list(read_citations([outside_data("formats/unarxive-sample.jsonl")], {}))
    assert {citation.citing for citation in found} == {f"arxiv:2212.{n}" for n in ("11867", "11831", "11808")}
    assert not any("{{" in citation.context for citation in found)
    assert sum(citation.n_cited for citation in found) > 100
    assert sum(bool(citation.cited) for citation in found) > len(found) / 2
