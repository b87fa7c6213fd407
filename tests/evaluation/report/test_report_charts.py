"""Tests of the report's charts: they match the figures, and describe them in words."""

import math
import re
from pathlib import Path

import pytest

from evaluation.measures import per_query
from evaluation.report.charts import Dot, Point, dots, heat_map, scatter, ticks
from evaluation.statistics.summary import compare
from tests.support.examples.evaluation.report_examples import (
    collection,
    of_class,
    parsed,
    runs,
    text_of,
    written,
)


def test_facet_charts_show_every_system_and_facet(tmp_path: Path) -> None:
    """Each facet has a panel with every system, which is also described in words."""
    section = next(s for s in parsed(written(tmp_path)).iter("section") if s.get("id") == "facets")
    panels = list(section.iter("figure"))
    assert ["method", "result", "all"] == [text_of(next(panel.iter("b"))) for panel in panels]
    for panel in panels:
        assert ["knowing", "mixed", "turned"] == [text_of(name) for name in of_class(panel, "name")]
        assert all(system in text_of(next(panel.iter("desc"))) for system in ("knowing", "mixed", "turned"))


def test_dots_stand_where_their_values_say() -> None:
    """The positions of dots and whiskers are linear in the values."""
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
    """Ticks are at most six round numbers around all finite values."""
    assert expected == ticks(values)


def test_duels_plot_every_query_at_its_values(tmp_path: Path) -> None:
    """Plots of the best system against each other have a mark per query, wins and the paired difference."""
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
    """Values grow to the right and upwards, and each side of the diagonal has its own mark."""
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
    """The marks of a thousand queries are three paths with all points, but without labels."""
    points = [Point(f"q{i}", i / 10, 100 - i / 10) for i in range(1000)]
    chart = scatter(points, ticks([0.0, 100.0]), name="x", title="T", across="one", upwards="two")
    assert [500, 499, 1] == [
        mark.get("d", "").count("M")
        for name in ("won", "lost", "equal")
        for mark in of_class(parsed(chart), name)
    ]
    assert len(chart) < 25_000


def test_a_heat_map_has_a_cell_for_each_weight_that_counts() -> None:
    """Rows are sentences, columns query sentences; weights that round to 0 are dots without a number."""
    cells = {(0, 4): (0.6, 0.5), (2, 1): (0.396, 0.7), (1, 1): (0.004, 0.9)}
    chart = parsed(heat_map(cells, range(3), [1, 4], name="x", title="T"))
    boxes = [(float(box.get("x", "")), float(box.get("y", ""))) for box in of_class(chart, "cell")]
    assert ["60", "40"] == [text_of(weight) for weight in of_class(chart, "weight")]
    assert boxes[0][0] > boxes[1][0]
    assert boxes[0][1] < boxes[1][1]
    assert 4 == of_class(chart, "light")[0].get("d", "").count("M")
    assert ["--share:1.00", "--share:0.66"] == [box.get("style") for box in of_class(chart, "cell")]
    assert "sentence 0 with query sentence 4: 60.0%, distance 0.500" in text_of(chart)
