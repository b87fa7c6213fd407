"""Tests of the HTML report: complete, self-contained and escaped."""

import datetime as dt
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.report.explained import MAX_PAPERS
from evaluation.report.report import MAX_RANKINGS, ExplainedRanking, write_report
from evaluation.run import Run
from evaluation.statistics.summary import Row, summarise
from models.errors import InputError, StorageError
from models.types import Alignment, RankedPaper
from tests.support.examples.evaluation.report_examples import (
    collection,
    of_class,
    paper,
    parsed,
    ranked,
    runs,
    text_of,
    written,
)

EVIL = """</title></style><script>alert('x')</script><img src=x onerror="alert(1)">&amp;"'{{ 7 * 7 }}"""


def test_the_page_is_well_formed(tmp_path: Path) -> None:
    """The page parses, its ids are unique, and every internal reference has a target."""
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
    """The page has no address, script or linked file, so it reads the same without a network."""
    html = written(tmp_path)
    assert [] == re.findall(r"https?:|//|@import|url\(|\bsrc=|<script|<link|<iframe|<img|javascript:", html)
    assert "default-src 'none'" in html


def test_the_heading_says_what_was_measured_when_and_how(tmp_path: Path) -> None:
    """The heading shows the set, date, numbers of queries and query papers, notes and the command."""
    header = next(parsed(written(tmp_path, collection(notes=("Take with salt.",)))).iter("header"))
    facts = {text_of(fact[0]): text_of(fact[1]) for fact in next(header.iter("dl"))}
    assert "tiny" == text_of(next(header.iter("h1")))
    assert "akin evaluate x" == text_of(next(header.iter("code")))
    assert ["Take with salt."] == [text_of(note) for note in of_class(header, "note")]
    assert facts == {
        "Date": "5 March 2024",
        "Queries": "6",
        "Clusters (query papers or topics)": "6",
        "Papers": "6",
        "Relevant from": "grade 2",
        "Systems": "3",
    }


def test_a_report_without_a_date_bears_todays(tmp_path: Path) -> None:
    """A report without a given date has today's."""
    given = collection()
    before = dt.datetime.now(tz=dt.UTC).date()
    write_report(tmp_path / "r.html", given, [], [])
    (time,) = parsed((tmp_path / "r.html").read_text()).iter("time")
    assert before <= dt.date.fromisoformat(time.get("datetime", "")) <= dt.datetime.now(tz=dt.UTC).date()


def test_every_figure_of_the_main_measures_is_in_a_table(tmp_path: Path) -> None:
    """Tables have systems by facets, the best system first, with the interval next to each figure."""
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
    """Systems with the same rounded figure are all marked as best, with words for a screen reader."""
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
    """The visible tables cover all folds, and those of single folds are folded away with their names."""
    given = collection()
    halves = tuple(replace(query, fold=f"fold{i % 3 % 2 + 1}") for i, query in enumerate(given.queries))
    page = parsed(written(tmp_path, replace(given, queries=halves, measures=measures)))
    folded = [text_of(caption) for details in page.iter("details") for caption in details.iter("caption")]
    shown = [text_of(caption) for caption in page.iter("caption")]
    assert ["NDCG%50", *measures[1:2]] == shown[: len(shown) - len(folded)]
    of_folds = [f"{measure}, {fold}" for fold in ("fold1", "fold2") for measure in measures]
    assert [*measures[2:], *of_folds] == folded


def test_a_ranking_shows_grades_shares_and_chosen_sentences(tmp_path: Path) -> None:
    """Badges show relevant, irrelevant and unjudged papers; shares and shades match the alignments."""
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


def test_relevant_papers_are_those_that_can_be_found(tmp_path: Path) -> None:
    """The number of relevant papers leaves out the query's own and judged ones that the collection lacks."""
    given = collection()
    queries = tuple(replace(query, pool=()) for query in given.queries)
    judged = {**given.qrels, "q0": given.qrels["q0"] | {"p0": 3, "lost": 3}}
    assert "2 relevant papers in the pool" in written(tmp_path, replace(given, queries=queries, qrels=judged))


def test_a_ranking_without_alignments_is_still_shown(tmp_path: Path) -> None:
    """The ranking of a system that compares no sentences still has papers, grades and scores."""
    page = parsed(
        written(tmp_path, explanations=[ExplainedRanking("q1", "bm25", (ranked("p3"), ranked("p4")))])
    )
    articles = list(page.iter("article"))
    assert ["1 Title of p3", "2 Title of p4"] == [text_of(next(article.iter("h3"))) for article in articles]
    assert [] == [svg for article in articles for svg in article.iter("svg")]
    assert "no alignment" in text_of(articles[0])


def test_a_query_that_found_nothing_says_so(tmp_path: Path) -> None:
    """An empty ranking shows its query and a note, but no empty list."""
    page = parsed(written(tmp_path, explanations=[ExplainedRanking("q1", "s", ())]))
    (ranking,) = of_class(page, "ranking")
    assert "nothing was found." in text_of(ranking)
    assert [] == of_class(ranking, "papers")


def test_rankings_are_capped(tmp_path: Path) -> None:
    """Only the first rankings and papers are shown, and the page says how many rankings are left out."""
    long = ExplainedRanking("q0", "s", tuple(ranked(f"p{i}") for i in range(MAX_PAPERS + 2)))
    page = parsed(written(tmp_path, explanations=[long] * (MAX_RANKINGS + 3)))
    assert MAX_RANKINGS == len(of_class(page, "ranking"))
    assert MAX_RANKINGS * MAX_PAPERS == len(list(page.iter("article")))
    assert "3 more explained rankings are not shown here." in text_of(page)


def test_markup_in_names_stays_text(tmp_path: Path) -> None:
    """Markup in the names of collections, systems and papers is shown as text, never run."""
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
    """A figure without an interval has no whisker, and a missing figure is shown as missing in words."""
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
    """An evaluation without figures and rankings still makes a page."""
    page = parsed(written(tmp_path, systems=[], rows=[], explanations=()))
    assert "No figures were measured." in text_of(page)
    assert ["figures"] == [section.get("id") for section in page.iter("section")]


def test_one_system_has_no_rival(tmp_path: Path) -> None:
    """With one system there is no scatter plot and no mark of the best."""
    given = collection()
    page = parsed(written(tmp_path, given, runs(given)[:1], explanations=()))
    assert ["figures", "facets"] == [section.get("id") for section in page.iter("section")]
    assert "best" not in text_of(next(page.iter("main")))
    assert not any(a.get("href") == "#queries" for a in page.iter("a"))


def test_an_explained_query_must_be_in_the_collection(tmp_path: Path) -> None:
    """A ranking of a query outside the collection is refused by name."""
    with pytest.raises(InputError, match="'elsewhere'"):
        written(tmp_path, explanations=[ExplainedRanking("elsewhere", "s", ())])


def test_a_report_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    """If the folder does not exist, the error names it."""
    with pytest.raises(StorageError, match="absent"):
        written(tmp_path / "absent")
