"""The HTML report: complete, self-contained, escaped, and its charts true to the figures."""

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from evaluation.charts import Dot, Point, dots, heat_map, scatter, ticks
from evaluation.collection import Collection, EvalQuery
from evaluation.explained import MOST_PAPERS
from evaluation.measures import per_query
from evaluation.report import MOST_RANKINGS, ExplainedRanking, write_report
from evaluation.run import Run
from evaluation.summary import Row, compare, summarise
from models.errors import InputError, StorageError
from models.types import Alignment, Paper, RankedPaper, Sentence

EVIL = """</title></style><script>alert('x')</script><img src=x onerror="alert(1)">&amp;"'{{ 7 * 7 }}"""
VOID = {"meta", "br"}


class PageParser(HTMLParser):
    """Builds an element tree and refuses what strict HTML does: tags out of balance, attributes twice."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = ET.Element("document")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A new element, open unless it is void."""
        names = [name for name, _ in attrs]
        assert sorted(set(names)) == sorted(names), f"<{tag}> has an attribute twice"
        element = ET.SubElement(self.open[-1], tag, {name: value or "" for name, value in attrs})
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content, which only SVG has."""
        assert any(element.tag == "svg" for element in self.open) or tag == "svg", f"<{tag}/> outside SVG"
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """The innermost open element ends, no other."""
        assert tag == self.open[-1].tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        """Text after the last child, or before the first."""
        parent = self.open[-1]
        if len(parent):
            parent[-1].tail = (parent[-1].tail or "") + data
        else:
            parent.text = (parent.text or "") + data


def parsed(html: str) -> ET.Element:
    """The page as a tree; fails where a tag is out of balance."""
    parser = PageParser()
    parser.feed(html)
    parser.close()
    assert [parser.root] == parser.open
    return parser.root


def text_of(element: ET.Element) -> str:
    """The words of an element, white space folded."""
    return " ".join("".join(element.itertext()).split())


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    """The elements of a class."""
    return [element for element in root.iter() if name in element.get("class", "").split()]


def paper(name: str, n_sentences: int = 3, title: str | None = None) -> Paper:
    """A paper of numbered sentences."""
    texts = [f"Sentence {i} of {name}." for i in range(n_sentences)]
    starts = [sum(len(text) + 1 for text in texts[:i]) for i in range(n_sentences)]
    sentences = tuple(Sentence(t, s, s + len(t)) for t, s in zip(texts, starts, strict=True))
    return Paper(name, f"Title of {name}" if title is None else title, " ".join(texts), sentences)


def collection(
    n_queries: int = 6, facets: Sequence[str] = ("method", "result"), **changes: object
) -> Collection:
    """Six papers, each a query, judged 0 to 3 by their distance on a ring."""
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
    """Three systems: one knows the grades, one turns them upside down, one does the two by turns."""
    known = {q.id: {p: float(given.qrels[q.id].get(p, 0)) for p in q.pool} for q in given.queries}
    turned = {q: {p: -score for p, score in scores.items()} for q, scores in known.items()}
    mixed = {q: (known if i % 2 else turned)[q] for i, q in enumerate(known)}
    return [Run("turned", turned), Run("knowing", known), Run("mixed", mixed)]


def ranked(name: str, *alignments: tuple[int, int, float]) -> RankedPaper:
    """A result with (query sentence, sentence, weight) at distance 1."""
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
    """The report's text, of the tiny collection where nothing else is given."""
    given = collection() if given is None else given
    systems = runs(given) if systems is None else systems
    rows = summarise(given, systems, n_resamples=100) if rows is None else rows
    path = folder / "report.html"
    day = dt.date(2024, 3, 5)
    write_report(
        path, given, systems, rows, explanations=explanations, measured_on=day, command="akin evaluate x"
    )
    return path.read_text(encoding="utf-8")


def test_the_page_is_well_formed(tmp_path: Path) -> None:
    """Tags balance, ids are unique, and every reference inside the page has its target."""
    html = written(tmp_path)
    page = parsed(html)
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert html.startswith("<!DOCTYPE html>\n<html lang")
    assert len(set(ids)) == len(ids)
    referred = {name for element in page.iter() for name in element.get("aria-labelledby", "").split()}
    referred |= {a.get("href", "").removeprefix("#") for a in page.iter("a")}
    assert {"figures", "facets", "queries", "rankings"} <= referred
    assert set() == referred - set(ids)


def test_the_page_asks_for_nothing_outside_itself(tmp_path: Path) -> None:
    """No address, no script, no linked file: the page reads the same without a network."""
    html = written(tmp_path)
    assert [] == re.findall(r"https?:|//|@import|url\(|\bsrc=|<script|<link|<iframe|<img|javascript:", html)
    assert "default-src 'none'" in html


def test_the_heading_says_what_was_measured_when_and_how(tmp_path: Path) -> None:
    """Set, date, numbers of queries and of query papers, notes and the command."""
    header = next(parsed(written(tmp_path, collection(notes=("Take with salt.",)))).iter("header"))
    facts = {text_of(fact[0]): text_of(fact[1]) for fact in next(header.iter("dl"))}
    assert "tiny" == text_of(next(header.iter("h1")))
    assert "akin evaluate x" == text_of(next(header.iter("code")))
    assert ["Take with salt."] == [text_of(note) for note in of_class(header, "note")]
    assert facts == {
        "Date": "5 March 2024",
        "Queries": "6",
        "Query papers": "6",
        "Papers": "6",
        "Relevant from": "grade 2",
        "Systems": "3",
    }


def test_a_report_without_a_date_bears_todays(tmp_path: Path) -> None:
    """The date is the caller's, or today's."""
    given = collection()
    before = dt.datetime.now(tz=dt.UTC).date()
    write_report(tmp_path / "r.html", given, [], [])
    (time,) = parsed((tmp_path / "r.html").read_text()).iter("time")
    assert before <= dt.date.fromisoformat(time.get("datetime", "")) <= dt.datetime.now(tz=dt.UTC).date()


def test_every_figure_of_the_main_measures_is_in_a_table(tmp_path: Path) -> None:
    """Systems by facets, best system first, with the interval beside each figure."""
    given = collection()
    rows = summarise(given, runs(given), n_resamples=100)
    tables = list(parsed(written(tmp_path, given, rows=rows)).iter("table"))
    assert ["NDCG%50", "MAP", "P@1"] == [text_of(next(table.iter("caption"))) for table in tables]
    for table in tables:
        measure = text_of(next(table.iter("caption")))
        header, *lines = [[text_of(cell) for cell in line] for line in table.iter("tr")]
        assert ["System", "method 3 queries", "result 3 queries", "all 6 queries"] == header
        assert ["knowing", "mixed", "turned"] == [line[0] for line in lines]
        shown = {
            (line[0], facet.split()[0]): cell
            for line in lines
            for facet, cell in zip(header, line, strict=True)
        }
        for row in rows:
            if row.measure == measure:
                assert shown[row.system, row.facet].removeprefix("★best: ") == (
                    f"{row.value:.1f} {row.low:.1f} to {row.high:.1f}"
                )


def test_the_best_of_each_column_is_marked_for_eye_and_ear(tmp_path: Path) -> None:
    """Systems that read the same are all the best; the mark has words for a screen reader."""
    rows = [
        Row("tiny", system, "all", "all", "MAP", value, value - 5, value + 5, 6)
        for system, value in (("a", 41.04), ("b", 41.0), ("c", 40.9))
    ]
    page = parsed(written(tmp_path, collection(measures=("MAP",)), [], rows))
    assert ["★best: 41.0 36.0 to 46.0"] * 2 == [
        text_of(cell) for cell in of_class(page, "best") if cell.tag == "td"
    ]


@pytest.mark.parametrize("measures", [("NDCG%50",), ("NDCG%50", "MAP", "P@1")])
def test_single_folds_are_folded_away(tmp_path: Path, measures: tuple[str, ...]) -> None:
    """The tables in sight cover all folds; those of single folds stand below, named."""
    given = collection()
    halves = tuple(replace(query, fold=f"fold{i % 3 % 2 + 1}") for i, query in enumerate(given.queries))
    page = parsed(written(tmp_path, replace(given, queries=halves, measures=measures)))
    folded = [text_of(caption) for details in page.iter("details") for caption in details.iter("caption")]
    shown = [text_of(caption) for caption in page.iter("caption")]
    assert ["NDCG%50", *measures[1:2]] == shown[: len(shown) - len(folded)]
    of_folds = [f"{measure}, {fold}" for fold in ("fold1", "fold2") for measure in measures]
    assert [*measures[2:], *of_folds] == folded


def test_facet_charts_show_every_system_and_facet(tmp_path: Path) -> None:
    """One panel for each facet, each with every system, told in words as well."""
    section = next(s for s in parsed(written(tmp_path)).iter("section") if s.get("id") == "facets")
    panels = list(section.iter("figure"))
    assert ["method", "result", "all"] == [text_of(next(panel.iter("b"))) for panel in panels]
    for panel in panels:
        assert ["knowing", "mixed", "turned"] == [text_of(name) for name in of_class(panel, "name")]
        assert all(system in text_of(next(panel.iter("desc"))) for system in ("knowing", "mixed", "turned"))


def test_dots_stand_where_their_values_say() -> None:
    """Positions are linear in the values and each dot lies inside its whisker."""
    values = [12.5, 61.0, 30.25, 30.5, 88.0]
    systems = [Dot(f"s{i}", v, v - 4.0, v + 6.0, best=v == 88.0) for i, v in enumerate(values)]
    chart = parsed(dots(systems, [0.0, 50.0, 100.0], name="x", title="T"))
    positions = [
        float(mark.get("cx") or re.match(r"M([\d.]+)", mark.get("d", ""))[1])  # type: ignore[index]  # one of the two
        for mark in of_class(chart, "dot")
    ]
    whiskers = [
        list(map(float, re.findall(r"[MH]([\d.]+)", w.get("d", "")))) for w in of_class(chart, "whisker")
    ]
    start, end = (float(of_class(chart, "lane")[0].get(side, "")) for side in ("x1", "x2"))

    def scale(value: float) -> float:
        return start + (end - start) * value / 100

    assert [pytest.approx(scale(value), abs=0.01) for value in values] == positions
    assert [pytest.approx([scale(v - 4), scale(v + 6)], abs=0.01) for v in values] == [
        w[:2] for w in whiskers
    ]
    assert ["path"] == [mark.tag for mark in of_class(chart, "dot") if mark.tag != "circle"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 100.0], [0, 20, 40, 60, 80, 100]),
        ([33.4, 35.2], [33, 34, 35, 36]),
        ([50.0], [50, 51]),
        ([math.nan, 12.0, 48.0], [10, 20, 30, 40, 50]),
        ([], [0, 20, 40, 60, 80, 100]),
        ([-3.0, 2.0], [-3, -2, -1, 0, 1, 2]),
    ],
)
def test_ticks_are_round_and_span_the_values(values: list[float], expected: list[float]) -> None:
    """At most six round numbers, the outer ones around every finite value."""
    assert expected == ticks(values)


def test_duels_plot_every_query_at_its_values(tmp_path: Path) -> None:
    """The best system against each other one: a titled mark for each query, counts and paired difference."""
    given = collection()
    systems = runs(given)
    section = next(
        s for s in parsed(written(tmp_path, given, systems)).iter("section") if s.get("id") == "queries"
    )
    figures = list(section.iter("figure"))
    best = per_query(given, systems[1])["NDCG%50"]
    assert 2 == len(figures)
    for figure, other in zip(figures, (systems[2], systems[0]), strict=True):
        values = per_query(given, other)["NDCG%50"]
        marks = [m for name in ("won", "lost", "equal") for m in of_class(figure, name)]
        assert {f"{q}: {best[q]:.1f} against {values[q]:.1f}" for q in best} == {
            text_of(mark) for mark in marks
        }
        better, worse = (sum(sign * (best[q] - values[q]) > 0 for q in best) for sign in (1, -1))
        words = text_of(next(figure.iter("figcaption")))
        assert f"better on {better}, worse on {worse}, equal on {len(best) - better - worse}" in words
        paired = next(
            c for c in compare(given, systems[1], other) if (c.measure, c.facet) == ("NDCG%50", "all")
        )
        assert f"Mean difference {paired.difference.value:+.1f} points" in words
        assert paired.resolvable == ("these queries resolve" in words)


def test_a_scatter_puts_better_queries_above_the_diagonal() -> None:
    """Across runs right, upwards runs up, and each side of the diagonal has its own mark."""
    points = [
        Point(name, x, y)
        for name, x, y in (("a", 20.0, 80.0), ("b", 80.0, 20.0), ("c", 50.0, 50.0), ("d", 30.0, 80.0))
    ]
    chart = parsed(scatter(points, ticks([0.0, 100.0]), name="x", title="T", across="one", upwards="two"))
    first, last = of_class(chart, "won")
    (lost,) = of_class(chart, "lost")
    assert float(first.get("cx", "")) < float(last.get("cx", "")) < float(lost.get("cx", ""))
    assert float(first.get("cy", "")) == float(last.get("cy", "")) < float(lost.get("cy", ""))
    assert ["path"] == [mark.tag for mark in of_class(chart, "equal")]
    assert ["2 better", "1 worse"] == [text_of(count) for count in of_class(chart, "count")]


def test_a_thousand_queries_are_one_path() -> None:
    """Crowds lose their labels, not their points."""
    points = [Point(f"q{i}", i / 10, 100 - i / 10) for i in range(1000)]
    chart = scatter(points, ticks([0.0, 100.0]), name="x", title="T", across="one", upwards="two")
    assert [500, 499, 1] == [
        mark.get("d", "").count("M")
        for name in ("won", "lost", "equal")
        for mark in of_class(parsed(chart), name)
    ]
    assert len(chart) < 25_000


def test_a_ranking_shows_grades_shares_and_chosen_sentences(tmp_path: Path) -> None:
    """Badges tell relevant, irrelevant and unjudged apart; shares and shades agree with the alignments."""
    page = parsed(written(tmp_path))
    assert ["Sentence 0 of p0.", "Sentence 2 of p0."] == [
        text_of(of_class(c, "text")[0]) for c in of_class(page, "chosen")
    ]
    assert ["✓ grade 3", "✓ grade 2", "grade 1", "not judged"] == [
        text_of(badge) for badge in of_class(page, "grade")
    ]
    first = next(page.iter("article"))
    assert "1 Title of p3" == text_of(next(first.iter("h3")))
    assert ["25 %", "75 %", "0 %"] == [text_of(mark) for mark in of_class(first, "mark")]
    assert ["--share:0.33", "--share:1.00", "--share:0.00"] == [li.get("style") for li in first.iter("li")]
    assert ["25", "50", "25"] == [text_of(weight) for weight in of_class(first, "weight")]


def test_a_heat_map_has_a_cell_for_each_weight_that_counts() -> None:
    """Sentences run down, query sentences across; weights that round to nothing are dots without a number."""
    cells = {(0, 4): (0.6, 0.5), (2, 1): (0.396, 0.7), (1, 1): (0.004, 0.9)}
    chart = parsed(heat_map(cells, range(3), [1, 4], name="x", title="T"))
    boxes = [(float(box.get("x", "")), float(box.get("y", ""))) for box in of_class(chart, "cell")]
    assert ["60", "40"] == [text_of(weight) for weight in of_class(chart, "weight")]
    assert boxes[0][0] > boxes[1][0]
    assert boxes[0][1] < boxes[1][1]
    assert 4 == of_class(chart, "light")[0].get("d", "").count("M")
    assert ["--share:1.00", "--share:0.66"] == [box.get("style") for box in of_class(chart, "cell")]
    assert "sentence 0 with query sentence 4: 60.0%, distance 0.500" in text_of(chart)


def test_a_ranking_without_alignments_is_still_shown(tmp_path: Path) -> None:
    """A system that compares no sentences has a list, grades and scores."""
    page = parsed(
        written(tmp_path, explanations=[ExplainedRanking("q1", "bm25", (ranked("p3"), ranked("p4")))])
    )
    articles = list(page.iter("article"))
    assert ["1 Title of p3", "2 Title of p4"] == [text_of(next(article.iter("h3"))) for article in articles]
    assert [] == [svg for article in articles for svg in article.iter("svg")]
    assert "no alignment" in text_of(articles[0])


def test_a_query_that_found_nothing_says_so(tmp_path: Path) -> None:
    """An empty ranking keeps its query and has no empty list."""
    page = parsed(written(tmp_path, explanations=[ExplainedRanking("q1", "s", ())]))
    (ranking,) = of_class(page, "ranking")
    assert "nothing was found." in text_of(ranking)
    assert [] == of_class(ranking, "papers")


def test_rankings_are_capped(tmp_path: Path) -> None:
    """Past the first rankings, and the first papers of each, the page says how many it leaves out."""
    long = ExplainedRanking("q0", "s", tuple(ranked(f"p{i}") for i in range(MOST_PAPERS + 2)))
    page = parsed(written(tmp_path, explanations=[long] * (MOST_RANKINGS + 3)))
    assert MOST_RANKINGS == len(of_class(page, "ranking"))
    assert MOST_RANKINGS * MOST_PAPERS == len(list(page.iter("article")))
    assert "3 more explained rankings are not shown here." in text_of(page)


def test_markup_in_names_stays_text(tmp_path: Path) -> None:
    """Whatever a collection, a system or a paper is called, it is shown, never run."""
    plain = collection()
    bad = paper(EVIL, title=EVIL)
    bad = replace(bad, sentences=(replace(bad.sentences[0], text=EVIL), *bad.sentences[1:]))
    query = replace(plain.queries[0], id=EVIL, facet=EVIL, cluster=EVIL, paper=bad)
    given = replace(
        plain,
        name=EVIL,
        notes=(EVIL,),
        queries=(query, *plain.queries[1:]),
        qrels={**plain.qrels, EVIL: plain.qrels["q0"]},
    )
    first, *others = runs(given)
    ranking = ExplainedRanking(EVIL, EVIL, (RankedPaper(bad, -1.0, (Alignment(0, 0, 1.0, 1.0),)),))
    page = parsed(written(tmp_path, given, [Run(EVIL, first.scores), *others], explanations=[ranking]))
    tags = {element.tag for element in page.iter()}
    assert set() == tags & {"script", "img"}
    assert not any(name.startswith("on") for element in page.iter() for name in element.attrib)
    shown = [text_of(element) for element in page.iter()]
    assert EVIL in [text_of(heading) for heading in page.iter("h1")]
    assert EVIL in [text_of(cell) for cell in page.iter("th")]
    assert any(f"{EVIL}: " in words and " against " in words for words in shown)
    assert [EVIL, EVIL] == [text_of(t) for t in of_class(page, "text") if text_of(t) == EVIL]


def test_characters_that_html_forbids_are_replaced(tmp_path: Path) -> None:
    """Control characters and halves of surrogate pairs become the replacement character."""
    html = written(tmp_path, collection(notes=("a\x00b\x1bc\x7fd\ud800e\x85f\ufffeg é 漢 😀",)))
    assert "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf\ufffdg é 漢 😀" in html


@pytest.mark.parametrize("facets", [("all",), ("method", "result")])
def test_missing_intervals_and_rows_leave_gaps_not_nan(tmp_path: Path, facets: tuple[str, ...]) -> None:
    """A figure without an interval stands alone; a figure that is missing is a dash, told in words too."""
    given = collection(facets=facets)
    full = summarise(given, runs(given), n_resamples=10)
    rows = [
        replace(row, low=math.nan, high=math.nan)
        for row in full
        if (row.system, row.facet, row.measure) != ("mixed", "all", "NDCG%50")
    ]
    page = parsed(written(tmp_path, given, rows=rows))
    words = text_of(page)
    assert "nan" not in words
    assert "no figure" in words
    assert [] == of_class(page, "whisker")


def test_an_empty_evaluation_says_so(tmp_path: Path) -> None:
    """Nothing measured and nothing explained still make a page."""
    page = parsed(written(tmp_path, systems=[], rows=[], explanations=()))
    assert "No figures were measured." in text_of(page)
    assert ["figures"] == [section.get("id") for section in page.iter("section")]


def test_one_system_has_no_rival(tmp_path: Path) -> None:
    """Without a second system there is no scatter and no talk of the best of many."""
    given = collection()
    page = parsed(written(tmp_path, given, runs(given)[:1], explanations=()))
    assert ["figures", "facets"] == [section.get("id") for section in page.iter("section")]
    assert "best" not in text_of(next(page.iter("main")))
    assert not any(a.get("href") == "#queries" for a in page.iter("a"))


def test_an_explained_query_must_be_in_the_collection(tmp_path: Path) -> None:
    """A ranking of another collection is refused by name."""
    with pytest.raises(InputError, match="'elsewhere'"):
        written(tmp_path, explanations=[ExplainedRanking("elsewhere", "s", ())])


def test_a_report_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    """A folder that is not there is named."""
    with pytest.raises(StorageError, match="absent"):
        written(tmp_path / "absent")
