"""Tests of reading citing sentences from full texts in S2ORC's layouts."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from akin.cli import app as cli
from akin.cli.training.full_texts.full_text import names_of
from akin.cli.training.full_texts.layouts import citing_sentences
from akin.cli.training.sets import read_citations
from evaluation.sets.pairs import read_set
from indexer.corpus.source import MAX_LINE_BYTES
from models.errors import BrokenRowError
from models.training.pairs.citing import Citation
from models.types import Paper
from tests.support.examples.models.training_sets import write_lines

TEXT = "Moss is old. Moss spreads (Fern, 2001; Reed, 2004) and rots (Unknown, 1999). It dries [12]. The end."
MARKS = {"(Fern, 2001;": "BIBREF0", "Reed, 2004)": "BIBREF1", "(Unknown, 1999)": None, "[12]": "BIBREF2"}
ENTRIES: dict[str, Any] = {
    "BIBREF0": {"title": "Ferns", "year": 2001, "link": "41"},
    "BIBREF1": {"title": "Reeds", "link": "42"},
    "BIBREF2": {"title": "Lost", "link": None},
}
# What every layout of TEXT gives: an unlinked paper and one without an entry only count.
FOUND = [
    ("Moss spreads (Fern, 2001; Reed, 2004) and rots (Unknown, 1999).", ("s2:41", "s2:42"), 3),
    ("It dries [12].", (), 1),
]


def parse(text: str = TEXT, marks: dict[str, Any] = MARKS, **more: Any) -> dict[str, Any]:
    """Return a parse with one paragraph, in which each of ``marks`` is a citation."""
    spans = [
        {"start": text.index(mark), "end": text.index(mark) + len(mark), "text": mark, "ref_id": key}
        for mark, key in marks.items()
    ]
    paragraph = {"section": "Moss", "text": text, "cite_spans": spans, "ref_spans": []}
    return {"abstract": [], "body_text": [paragraph], "bib_entries": ENTRIES, "ref_entries": {}} | more


def links(entries: dict[str, Any]) -> dict[str, Any]:
    """Return entries as those of 2019, which have the id in ``links``."""
    return {key: {"ref_id": "b0", "links": entry["link"]} for key, entry in entries.items()}


def span(text: str, part: str, **attributes: Any) -> dict[str, Any]:
    """Return an annotation of the first occurrence of ``part``."""
    begin = text.index(part)
    found: dict[str, Any] = {"start": begin, "end": begin + len(part)}
    return found | ({"attributes": attributes} if attributes else {})


def annotated(**changes: Any) -> dict[str, Any]:
    """Return a row of today's release, with the first paragraph repeated and a reference outside it."""
    references = "[1] Ferns. [2] Reeds. [3] Lost."
    text = f"\nOn Moss\n\n{TEXT}\n\nFigure 1, as in [7].\n\n{references}"
    refs = [span(text, m, **({"ref_id": f"b{key[-1]}"} if key else {})) for m, key in MARKS.items()]
    entries = [
        span(text, "[1] Ferns.", id="b0", matched_paper_id=41, doi="10.1/F"),
        span(text, "[2] Reeds.", id="b1", matched_paper_id="42"),
        span(text, "[3] Lost.", id="b2"),
    ]
    kinds = {
        "title": [span(text, "On Moss")],
        "paragraph": [span(text, TEXT)] * 2,
        "bibref": [*refs, refs[2], span(text, "[7]", ref_id="b0")],
        "bibentry": entries,
    }
    annotations = {kind: json.dumps(spans) for kind, spans in kinds.items()} | {"table": None} | changes
    content = {"source": {"pdfsha": "0f"}, "text": text, "annotations": annotations}
    return {"corpusid": 7, "externalids": {"doi": "10.5555/m", "arxiv": None}, "content": content}


def in_two_texts() -> dict[str, Any]:
    """Return a row of s2orc_v2, whose bibliography is a text of its own; one citation names its paper."""
    entry = span("Ferns", "Ferns", id="b0", matched_paper_id="41")
    refs = [span(TEXT, m, **({"ref_id": f"b{key[-1]}"} if key else {})) for m, key in MARKS.items()]
    refs[1]["attributes"]["matched_paper_id"] = 42
    body = {"paragraph": json.dumps([span(TEXT, TEXT)]), "bib_ref": json.dumps(refs)}
    return {
        "corpusid": 7,
        "title": "On Moss",
        "openaccessinfo": {"externalids": {"DOI": "10.5555/m"}},
        "body": {"text": TEXT, "annotations": body},
        "bibliography": {"text": "Ferns", "annotations": {"bib_entry": json.dumps([entry])}},
    }


KNOWN = {"title": "On Moss", "doi": "10.5555/m"}
OLD = parse(bib_entries=links(ENTRIES))
LAYOUTS = {
    "2020": ({"paper_id": "7", "_pdf_hash": "0f", **parse()}, {}),
    "2019": ({"paper_id": "7", "metadata": KNOWN, "grobid_parse": OLD, "latex_parse": OLD}, KNOWN),
    "2019, LaTeX": ({"paper_id": "7", "metadata": KNOWN, "grobid_parse": None, "latex_parse": OLD}, KNOWN),
    "2019, no body": (
        {"paper_id": "7", "metadata": KNOWN, "grobid_parse": parse(body_text=[]), "latex_parse": OLD},
        KNOWN,
    ),
    "doc2json": ({"paper_id": "7", "title": "On Moss", "pdf_parse": parse()}, {"title": "On Moss"}),
    "annotations": (annotated(), KNOWN),
    "annotations, two texts": (in_two_texts(), KNOWN),
}


@pytest.mark.parametrize(("row", "known"), LAYOUTS.values(), ids=list(LAYOUTS))
def test_each_layout_gives_the_same_citing_sentences(row: dict[str, Any], known: dict[str, str]) -> None:
    """All layouts give the same sentences, cited ids and counts, and what they know of the citing paper."""
    title, doi = known.get("title", ""), known.get("doi")
    assert [Citation("s2:7", *each, title, doi) for each in FOUND] == list(citing_sentences(row, {}))


def test_a_cited_paper_has_the_id_that_the_corpus_gives_it() -> None:
    """A cited paper gets its id in the corpus by its DOI, if the corpus does not have it by its number."""
    mine = Paper(id="mine", title="", abstract="", sentences=(), doi="10.1/f")
    named = names_of({"mine": mine})
    assert ("mine", "s2:42") == next(citing_sentences(annotated(), named)).cited
    own = {"BIBREF0": {"link": None, "other_ids": {"DOI": ["10.1/F"]}}}
    assert ("mine",) == next(citing_sentences({"paper_id": "7", **parse(bib_entries=own)}, named)).cited


def test_a_paper_that_is_linked_to_itself_is_not_cited() -> None:
    """Some entries are linked to the citing paper by mistake; it only counts as a cited one."""
    row = {"paper_id": "41", **parse()}
    assert [(("s2:42",), 3), ((), 1)] == [(each.cited, each.n_cited) for each in citing_sentences(row, {})]


def test_a_key_in_the_text_becomes_a_number() -> None:
    """Texts made of LaTeX have the key as the mark, which becomes its number in brackets, as of unarXive."""
    text = "See BIBREF1 . As BIBREF0 and BIBREF2 say."
    marks = {"BIBREF1": "BIBREF1", " BIBREF0 ": "BIBREF0", "BIBREF2": "BIBREF2"}
    found = list(citing_sentences({"paper_id": "7", "latex_parse": parse(text, marks)}, {}))
    assert [("See [2] .", ("s2:42",), 1), ("As [1] and [3] say.", ("s2:41",), 2)] == [
        (each.context, each.cited, each.n_cited) for each in found
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**parse()}, '"corpusid" or "paper_id"'),
        ({"paper_id": [], **parse()}, '"corpusid" or "paper_id" as a text'),
        ({"paper_id": "7", **parse(body_text="text")}, '"body_text" .a list.'),
        ({"paper_id": "7", **parse(bib_entries=[])}, '"bib_entries" .an object.'),
        ({"paper_id": "7", **parse(body_text=[{"section": "A"}])}, '"text" and "cite_spans"'),
        ({"paper_id": "7", **parse(body_text=[{"text": "A", "cite_spans": {}}])}, '"text" and "cite_spans"'),
        (
            {"paper_id": "7", **parse(body_text=[{"text": "A", "cite_spans": [{"start": 0, "end": 2}]}])},
            "outside the text",
        ),
        ({"paper_id": "7", **parse(body_text=[{"text": "A", "cite_spans": [3]}])}, "outside the text"),
        ({"paper_id": "7", **parse(marks={"[12]": 12})}, '"ref_id" as a text'),
        ({"paper_id": "7", **parse(bib_entries={"BIBREF0": {"link": ["41"]}})}, "id of a cited paper"),
        ({"paper_id": "7", "pdf_parse": "text"}, '"pdf_parse" as an object'),
        ({"corpusid": 7, "content": "text"}, '"content", or "body"'),
        (annotated(bibref="[{"), "annotation bibref is not valid JSON"),
        (annotated(bibentry="{}"), "annotation bibentry is not a list"),
        (annotated(paragraph='[{"start": 0, "end": 9999}]'), "annotation paragraph has a span outside"),
        (annotated(bibref=[]), "annotation bibref is not text"),
    ],
)
def test_a_broken_full_text_is_named(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    """A broken row raises ``BrokenRowError`` with its file and line, and the reason."""
    file = write_lines(tmp_path / "full.jsonl", [annotated(), row])
    with pytest.raises(BrokenRowError, match=reason) as refused:
        list(read_citations([file], {}))
    assert (str(file), 2) == (refused.value.path, refused.value.line)


def test_a_full_text_without_text_has_no_sentences() -> None:
    """Papers whose text could not be read are in the releases too, and are passed over."""
    empty = parse(body_text=[], bib_entries={})
    rows: list[dict[str, Any]] = [
        {"paper_id": "7", "_pdf_hash": "0f", **empty},
        {"paper_id": "7", "grobid_parse": {}, "latex_parse": None},
        {"corpusid": 7, "content": None},
        {"corpusid": 7, "content": {"text": None, "annotations": {"paragraph": None, "bibref": None}}},
    ]
    assert [] == [each for row in rows for each in citing_sentences(row, {})]


def test_a_line_of_no_known_layout_names_the_layouts(tmp_path: Path) -> None:
    """Metadata of S2ORC has no text; the reason names what can be read."""
    file = write_lines(
        tmp_path / "meta.jsonl", [{"paper_id": "7", "title": "On Moss", "has_pdf_parse": True}]
    )
    with pytest.raises(BrokenRowError) as refused:
        list(read_citations([file], {}))
    for name in ("context", "unarXive", "S2ORC", "body_text", "grobid_parse", "pdf_parse", "content"):
        assert name in refused.value.reason


def test_a_line_that_is_too_long_is_named(tmp_path: Path) -> None:
    """A line over the limit is not read, and the error has the file and the line."""
    file = write_lines(
        tmp_path / "full.jsonl", [annotated(), {"corpusid": 8, "content": "x" * MAX_LINE_BYTES}]
    )
    with pytest.raises(BrokenRowError, match="longer than") as refused:
        list(read_citations([file], {}))
    assert (str(file), 2) == (refused.value.path, refused.value.line)


def test_cocited_papers_are_made_of_full_texts(tmp_path: Path) -> None:
    """``akin train data cocited`` pairs two papers of a corpus that a full text cites in one sentence."""
    abstract = ["Ferns need much shade to grow.", "They like rain.", "We count them."]
    papers: list[dict[str, object]] = [
        {"id": f"s2:{number}", "title": f"Paper {number}", "abstract": abstract} for number in (41, 42)
    ]
    corpus = write_lines(tmp_path / "papers.jsonl", papers)
    full = write_lines(tmp_path / "full.jsonl", [annotated()])
    command = ["train", "data", "cocited", "--papers", str(corpus), "--citations", str(full)]
    result = CliRunner().invoke(cli.app, [*command, "--out", str(tmp_path / "set")])
    assert 0 == result.exit_code, result.output
    (example,) = read_set(tmp_path / "set").examples
    assert ("s2:41", "s2:42") == (example.query, example.positive)
    assert (FOUND[0][0],) == example.contexts
