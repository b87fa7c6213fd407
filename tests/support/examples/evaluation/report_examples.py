"""A tiny invented evaluation, its report, and a strict parser of pages."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

from evaluation.collection import Collection, EvalQuery
from evaluation.report.report import ExplainedRanking, write_report
from evaluation.run import Run
from evaluation.statistics.summary import Row, summarise
from models.types import Alignment, Paper, RankedPaper, Sentence

VOID = {"meta", "br"}


class PageParser(HTMLParser):
    """A parser into an element tree that refuses unbalanced tags and repeated attributes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = ET.Element("document")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add an element, open unless it is void."""
        names = [name for name, _ in attrs]
        assert sorted(set(names)) == sorted(names), f"<{tag}> has an attribute twice"
        element = ET.SubElement(self.open[-1], tag, {name: value or "" for name, value in attrs})
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add an element without content, which is only permitted in SVG."""
        assert any(element.tag == "svg" for element in self.open) or tag == "svg", f"<{tag}/> outside SVG"
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost open element; fail for any other."""
        assert tag == self.open[-1].tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        """Add text after the last child, or before the first one."""
        parent = self.open[-1]
        if len(parent):
            parent[-1].tail = (parent[-1].tail or "") + data
        else:
            parent.text = (parent.text or "") + data


def parsed(html: str) -> ET.Element:
    """Return the page as a tree; fails for unbalanced tags."""
    parser = PageParser()
    parser.feed(html)
    parser.close()
    assert [parser.root] == parser.open
    return parser.root


def text_of(element: ET.Element) -> str:
    """Return the text of an element, with white space folded."""
    return " ".join("".join(element.itertext()).split())


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    """Return the elements of a class."""
    return [element for element in root.iter() if name in element.get("class", "").split()]


def paper(name: str, n_sentences: int = 3, title: str | None = None) -> Paper:
    """Return a paper with numbered sentences."""
    texts = [f"Sentence {i} of {name}." for i in range(n_sentences)]
    starts = [sum(len(text) + 1 for text in texts[:i]) for i in range(n_sentences)]
    sentences = tuple(Sentence(t, s, s + len(t)) for t, s in zip(texts, starts, strict=True))
    return Paper(name, f"Title of {name}" if title is None else title, " ".join(texts), sentences)


def collection(
    n_queries: int = 6, facets: Sequence[str] = ("method", "result"), **changes: object
) -> Collection:
    """Return a collection of papers on a ring, each one a query, with grades 0 to 3 by distance."""
    papers = {f"p{i}": paper(f"p{i}") for i in range(max(6, n_queries))}
    ids = list(papers)
    queries = tuple(
        EvalQuery(
            id=f"q{i}",
            paper=papers[ids[i]],
            pool=tuple(ids[:6]),
            cluster=ids[i],
            selected=(0, 2),
            facet=facets[i % len(facets)],
        )
        for i in range(n_queries)
    )
    qrels = {
        f"q{i}": {other: (j - i) % 4 for j, other in enumerate(ids[:6]) if j not in (i, 5)}
        for i in range(n_queries)
    }
    made = Collection("tiny", papers, queries, qrels, 2, ("NDCG%50", "MAP", "P@1"))
    return replace(made, **changes)  # type: ignore[arg-type]  # keywords pass through


def runs(given: Collection) -> list[Run]:
    """Return three systems: one ranks by grade, one by grade reversed, one alternates between both."""
    known = {q.id: {p: float(given.qrels[q.id].get(p, 0)) for p in q.pool} for q in given.queries}
    turned = {q: {p: -score for p, score in scores.items()} for q, scores in known.items()}
    mixed = {q: (known if i % 2 else turned)[q] for i, q in enumerate(known)}
    return [Run("turned", turned), Run("knowing", known), Run("mixed", mixed)]


def ranked(name: str, *alignments: tuple[int, int, float]) -> RankedPaper:
    """Return a result with alignments (query sentence, sentence, weight), all at distance 1."""
    return RankedPaper(paper(name), -1.0, tuple(Alignment(i, j, weight, 1.0) for i, j, weight in alignments))


EXPLAINED = ExplainedRanking(
    "q0",
    "knowing",
    (
        ranked("p3", (0, 1, 0.5), (2, 1, 0.25), (2, 0, 0.25)),
        ranked("p2", (0, 0, 1.0)),
        ranked("p1", (0, 0, 1.0)),
        ranked("p5", (0, 2, 0.6), (2, 2, 0.4)),
    ),
)


def written(
    folder: Path,
    given: Collection | None = None,
    systems: Sequence[Run] | None = None,
    rows: Sequence[Row] | None = None,
    explanations: Sequence[ExplainedRanking] = (EXPLAINED,),
) -> str:
    """Write a report, by default on the tiny collection, and return its text."""
    given = collection() if given is None else given
    systems = runs(given) if systems is None else systems
    rows = summarise(given, systems, n_resamples=100) if rows is None else rows
    path = folder / "report.html"
    day = dt.date(2024, 3, 5)
    write_report(
        path, given, systems, rows, explanations=explanations, measured_on=day, command="akin evaluate x"
    )
    return path.read_text(encoding="utf-8")
