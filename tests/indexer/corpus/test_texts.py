"""Texts of libraries and services: tags are removed, and entities become characters."""

import json
from pathlib import Path

import pytest

from indexer.corpus.lookup.services import SERVICES
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.rows import to_paper, without_tags


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Science &amp; Technology", "Science & Technology"),
        ("<jats:p>p &lt; 0.05, q&gt;1</jats:p>", " p < 0.05, q>1 "),
        ("the tag &lt;b&gt; of <b>HTML</b>", "the tag <b> of HTML"),
        ("&amp;lt;i&amp;gt;", "&lt;i&gt;"),
        ("caf&eacute; &#233;&#xE9;&#XE9;", "café ééé"),
        ("R&D at AT&T; a&b;c", "R&D at AT&T; a&b;c"),
        ("?a=1&copy=2&notit; &NoSuchName; &#; &#x;", "?a=1&copy=2&notit; &NoSuchName; &#; &#x;"),
        ("&#99999999999;", "&#99999999999;"),
        ("&#1114112;&#xD800;", "\ufffd\ufffd"),
    ],
)
def test_entities_become_characters_once(text: str, expected: str) -> None:
    """Entities are replaced once, after tags are removed; text that only looks like an entity stays."""
    assert expected == without_tags(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"$1<p \le 2$ and $q>2$.", r"$1<p \le 2$ and $q>2$."),
        ("R<a b>c; x<i and j>k; y<b = 1>", "R<a b>c; x<i and j>k; y<b = 1>"),
        ("<a href=\"https://x.y/z/\" title='t'>l</a >, <span class=c>s</span>", "l, s"),
        ('<jats:p>p<br />q<ext-link\nxlink:href="u" >r</ext-link></jats:p>', " p qr "),
        ("a<jats:break/>b<jats:disp-quote>c<jats:bold>d</jats:bold></jats:disp-quote>e", "a b cd e"),
        ("<jats:strike>un</jats:strike>fit <jats:sans-serif>P</jats:sans-serif>CR", "unfit PCR"),
        ("<jats:overline>x</jats:overline>s, <fixed-case>B</fixed-case>ERT", "xs, BERT"),
        ("CO<inf>2</inf> and 10<sup>-3</sup>", "CO2 and 10-3"),
        ('<scp>R</scp> in <jats:uri a="b">m<mml:mo>/</mml:mo>s</jats:uri>', "R in m/s"),
    ],
)
def test_formulas_are_no_tags(text: str, expected: str) -> None:
    """After its name a tag has nothing but attributes with values."""
    assert expected == without_tags(text)


TEXT = "A &lt;b&gt; &amp; B&#0;&#10;&nbsp;&#x1b;C"


@pytest.mark.parametrize("ending", ["ris", "json"])
def test_entities_in_libraries(tmp_path: Path, ending: str) -> None:
    """Entities in titles, abstracts and venues become characters, and control characters are cleaned."""
    record = {
        "id": "a",
        "type": "book",
        "title": TEXT,
        "abstract": TEXT,
        "container-title": TEXT,
        "issued": {},
    }
    ris = f"TY  - JOUR\nID  - a\nTI  - {TEXT}\nAB  - {TEXT}\nT2  - {TEXT}\nER  - \n"
    path = tmp_path / f"my.{ending}"
    path.write_text(ris if ending == "ris" else json.dumps([record]), encoding="utf-8")
    (paper,) = read_corpus(path)
    clean = "A <b> & B\ufffd C"
    assert (clean, clean, clean) == (paper.title, paper.abstract, paper.venue)


def test_entities_in_answers_of_crossref() -> None:
    """Entities in Crossref's titles, abstracts and venues become characters."""
    work = {
        "DOI": "10.5555/a",
        "title": ["A &amp; B"],
        "abstract": "p &lt; 1",
        "container-title": ["C &amp; D"],
    }
    (paper,) = SERVICES["doi"].papers(json.dumps({"message": work}).encode()).values()
    assert ("A & B", "p < 1", "C & D") == (paper.title, paper.abstract, paper.venue)


def test_answers_of_crossref_are_read_as_files_of_its_works_are(tmp_path: Path) -> None:
    """A paper that is looked up has the fields of the same paper in a file, such as suffixes of names."""
    work = {
        "DOI": "10.5555/a",
        "type": "journal-article",
        "title": ["T"],
        "abstract": "A.",
        "issued": {"date-parts": [[2020, 1]]},
        "author": [{"given": "M. L.", "family": "King", "suffix": "Jr"}, {"name": "The Group"}],
    }
    (found,) = SERVICES["doi"].papers(json.dumps({"message": work}).encode()).values()
    path = tmp_path / "works.json"
    path.write_text(json.dumps([work]), encoding="utf-8")
    (read,) = read_corpus(path)
    assert ("M. L. King Jr", "The Group") == read.authors
    assert read == to_paper(found)
    assert {} == SERVICES["doi"].papers(b'{"message": [1]}') == SERVICES["doi"].papers(b'{"message": {}}')


def test_lines_of_json_may_be_in_windows_1252(tmp_path: Path) -> None:
    """As Python writes them on Windows; a line that is no JSON is still reported as such."""
    path = tmp_path / "p.jsonl"
    rows = '{"id": "a", "title": "Müller", "abstract": "Über Flüsse."}\n{"id": "b", "title": "é", "abstract"}'
    path.write_bytes(rows.encode("cp1252"))
    report = CorpusReport()
    (read,) = read_corpus(path, report=report)
    assert ("Müller", "Über Flüsse.") == (read.title, read.abstract)
    assert "not valid JSON" in str(report.broken_rows[0])
