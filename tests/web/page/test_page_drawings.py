"""Tests of the page's drawings: alignments, timelines, and the description of the collection."""

import math
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import orjson
import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.types import Facet, Sentence
from service.api.schemas.search.recommendations import RecommendationsOut
from service.api.schemas.search.results import AlignmentOut, OmittedOut, ResultOut, SearchOut
from service.collection.generations import open_engine
from service.search.aspect import Aspect, Contrast
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings
from service.web import render
from service.web.address.page_query import PageQuery
from service.web.views.collection import CollectionView, describe_collection
from service.web.views.figures import FILE, FiguresView, read_figures
from service.web.views.results.alignment import Source, draw_alignment, share_in_words
from service.web.views.results.results import years_address
from service.web.views.results.timeline import TimelineView, draw_timeline
from tests.support.builds import build_quietly, many_papers, write_corpus

ATTACK = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
# Room for a drawing on a screen of 390 CSS pixels.
NARROW = 358


@pytest.fixture(scope="module")
def engine(hashed_data: Path) -> SearchEngine:
    """Return an engine over the demo corpus with the hashing encoder."""
    return open_engine(Settings(data=hashed_data, device="cpu"))


def search(
    engine: SearchEngine, paper_id: str = "demo:p01-m03", aspect: Aspect | None = None, **query: Any
) -> SearchOut:
    """Return an answer as routes and pages get it."""
    return SearchOut.of(engine.search(SearchQuery((Seed(paper_id, aspect=aspect or Aspect()),), **query)))


def source(engine: SearchEngine, paper_id: str = "demo:p01-m03") -> Source:
    """Return the query paper as a source of rows."""
    query = search(engine, paper_id, limit=1).query
    sentences = [Sentence(each.text, each.start, each.end, each.facet) for each in query.sentences]
    return Source(query.title, tuple(sentences))


def drawn(name: str, view: object, *more: object, macro: str = "") -> tuple[str, list[ET.Element]]:
    """Return the HTML that a macro makes of a view, and its drawings, which must be valid XML."""
    module = render.templates().get_template(f"parts/{name}.html").module
    html = str(getattr(module, macro or name)(view, *more))
    assert "style=" not in html
    pieces = [piece.split("</svg>")[0] for piece in html.split("<svg")[1:]]
    return html, [ET.fromstring(f"<svg{piece}</svg>") for piece in pieces]  # noqa: S314 - our own text


def long_result(result: ResultOut, *, n_sentences: int, n_query: int) -> ResultOut:
    """Return a result with many sentences, each aligned with each of the query's, up to an answer's limit."""
    sentence = result.paper.sentences[0]
    weight = 1 / (n_sentences * n_query)
    cells = [
        AlignmentOut(query_sentence=i, sentence=j, weight=weight, distance=1.0)
        for i in range(n_query)
        for j in range(n_sentences)
    ]
    rest = OmittedOut(count=len(cells) - 64, weight=weight * (len(cells) - 64), distance=1.0)
    paper = result.paper.model_copy(update={"sentences": (sentence,) * n_sentences})
    return result.model_copy(
        update={"paper": paper, "alignments": tuple(cells[:: len(cells) // 64][:64]), "omitted": (rest,)}
    )


def test_area_is_weight(engine: SearchEngine) -> None:
    """The areas of discs are proportional to the weights, except for very light ones, which stay visible."""
    answer = search(engine)
    view = draw_alignment(answer.results[0], [source(engine)])
    heaviest = view.cells[0]
    assert heaviest.weight == max(each.weight for each in answer.results[0].alignments)
    visible = [cell for cell in view.cells if cell.radius > 1.2]
    areas = np.array([cell.radius**2 / heaviest.radius**2 for cell in visible])
    np.testing.assert_allclose(areas, [c.weight / heaviest.weight for c in visible], atol=2e-3)
    assert len(answer.results[0].alignments) == len(view.cells)
    assert view.side / 2 > heaviest.radius


def test_rows_and_columns_are_the_sentences(engine: SearchEngine) -> None:
    """Rows are the query's sentences with their facets, and columns the paper's, in order."""
    answer = search(engine, aspect=Aspect(facets=(Facet.METHOD,)))
    result = answer.results[0]
    view = draw_alignment(result, [source(engine)])
    assert list(answer.query.selected) == [row.number for row in view.rows]
    assert [answer.query.sentences[row.number].text for row in view.rows] == [row.text for row in view.rows]
    assert {Facet.METHOD} == {row.facet for row in view.rows}
    for column in view.columns:
        sentence = result.paper.sentences[column.number]
        assert result.paper.abstract[sentence.start : sentence.end] == column.text
        assert str(column.number + 1) == column.label
    assert sorted(column.at for column in view.columns) == [column.at for column in view.columns]


def test_contrast_is_drawn_apart(engine: SearchEngine) -> None:
    """Sentences to be unlike have separate rows below the others, and rings instead of discs."""
    aspect = Aspect(facets=(Facet.METHOD,), unlike=Contrast(facets=(Facet.BACKGROUND,)))
    result = search(engine, aspect=aspect).results[0]
    view = draw_alignment(result, [source(engine)])
    like = [row.at for row in view.rows if not row.unlike]
    unlike = [row.at for row in view.rows if row.unlike]
    assert max(like) + view.side < min(unlike)
    assert {each.weight < 0 for each in result.alignments} == {True, False}
    assert all(cell.unlike == cell.row.unlike for cell in view.cells)
    assert [False, True] == sorted({pair.unlike for pair in view.pairs})
    html, _ = drawn("alignment", view, "id")
    assert "counts against it" in html
    assert html.count('<g class="cell against"') == sum(each.weight < 0 for each in result.alignments)


def test_pairs_hold_each_sentence_once(engine: SearchEngine) -> None:
    """The listed pairs are the heaviest ones in which no sentence comes twice."""
    views = [draw_alignment(result, [source(engine)]) for result in search(engine).results]
    assert {1, 2, 3} >= {len(view.pairs) for view in views} != {1}
    for view in views:
        assert view.pairs[0] is view.cells[0]
        for one, other in combinations(view.pairs, 2):
            assert one.weight >= other.weight
            assert one.row is not other.row
            assert one.column is not other.column


def test_one_sentence_may_meet_several(engine: SearchEngine) -> None:
    """For a query of one sentence, the listed pairs have several sentences of the paper."""
    query = search(engine, aspect=Aspect(sentences=(0,)))
    views = [draw_alignment(result, [source(engine)]) for result in query.results]
    assert {2, 3} & {len(view.pairs) for view in views}
    for view in views:
        assert len(view.pairs) == len({pair.column.number for pair in view.pairs})


def test_several_seeds_are_distinguished(engine: SearchEngine) -> None:
    """Rows of several papers are labelled with paper and sentence; those of negatives count against."""
    ids = ["demo:p00-m01", "demo:p02-m02"]
    seeds = tuple(map(Seed, ids))
    negatives = (Seed("demo:p05-m05"),)
    out = RecommendationsOut.of(engine.search(SearchQuery(seeds=seeds, negatives=negatives)))
    snapshot = engine.snapshot
    papers = [snapshot.paper(snapshot.position(seed.id or "")) for seed in out.seeds]
    sources = [
        Source(paper.title, paper.sentences, seed=seed.seed, negative=seed.negative)
        for paper, seed in zip(papers, out.seeds, strict=True)
    ]
    titles = {(each.negative, each.seed): each.title for each in sources}
    for result in out.results:
        view = draw_alignment(result, sources)
        for row in view.rows:
            prefix = "−" if row.unlike else ""
            assert f"{prefix}{row.seed + 1}.{row.number + 1}" == row.label
            assert titles[row.unlike, row.seed] == row.source
            assert row.text
        assert len(result.alignments) == len(view.cells)
    html, _ = drawn("alignment", draw_alignment(out.results[0], sources), "id")
    assert "2.1 is the first sentence of the second paper" in html


def test_whole_papers_have_words_alone(engine: SearchEngine) -> None:
    """If an encoder gives one vector per abstract, the distance is shown and nothing is drawn."""
    cell = AlignmentOut(query_sentence=None, sentence=None, weight=1.0, distance=12.345)
    result = search(engine).results[0].model_copy(update={"alignments": (cell,)})
    html, drawings = drawn("alignment", draw_alignment(result, [source(engine)]), "id")
    assert [] == drawings
    assert "12.35" in html or "12.34" in html


def test_long_abstracts_stay_readable(engine: SearchEngine) -> None:
    """With thirty sentences against thirty, discs do not touch, and the pairs left out are counted."""
    one = source(engine)
    many = replace(one, sentences=one.sentences[:1] * 30)
    result = long_result(search(engine).results[0], n_sentences=30, n_query=30)
    view = draw_alignment(result, [many])
    assert all(later.at - earlier.at >= view.side for earlier, later in pairwise(view.columns))
    assert view.side >= 2 * max(cell.radius for cell in view.cells)
    assert ("836 smaller pairs are not shown; together they make up 93\u00a0%.",) == view.left_out
    html, _ = drawn("alignment", view, "id")
    assert 'tabindex="0"' in html


def test_every_value_stands_in_the_table(engine: SearchEngine) -> None:
    """The table has a row for each pair of the drawing, with weight and distance."""
    view = draw_alignment(search(engine).results[0], [source(engine)])
    html, (svg,) = drawn("alignment", view, "card-1")
    assert len(view.cells) == html.count("<tr data-q=")
    for cell in view.cells:
        assert f'<td class="number">{cell.share}</td><td class="number">{cell.distance}</td>' in html
    named = str(svg.get("aria-labelledby")).split()
    inside = {element.get("id"): "".join(element.itertext()) for element in svg.iter()}
    assert view.summary == inside[named[1]]
    assert ["card-1-title", "card-1-desc"] == named


@pytest.mark.parametrize(
    ("weight", "words"),
    [(0.314, "31\u00a0%"), (1.0, "100\u00a0%"), (0.004, "under 1\u00a0%"), (-0.12, "−12\u00a0%")],
)
def test_weights_are_read_as_percent(weight: float, words: str) -> None:
    """A weight is shown as a percentage, and as "under 1 %" if it rounds to 0."""
    assert words == share_in_words(weight)


def papers_of(engine: SearchEngine, years: list[int | None]) -> list[Any]:
    """Return papers with these years."""
    paper = search(engine).results[0].paper
    return [
        paper.model_copy(update={"year": year, "title": f"Paper {i}"})
        for i, year in enumerate(years, start=1)
    ]


def test_each_dated_result_has_a_dot_in_its_year(engine: SearchEngine) -> None:
    """A dot is in the column of its year with its rank, the best lowest; undated papers are counted."""
    view = draw_timeline(papers_of(engine, [2019, 2021, None, 2019, 2020]))
    assert ["2019", "2020", "2021"] == [column.label for column in view.columns]
    assert [[1, 4], [5], [2]] == [[dot.rank for dot in column.dots] for column in view.columns]
    assert view.columns[0].dots[0].y > view.columns[0].dots[1].y
    assert "4 papers from 2019 to 2021, 1 more without a year" == view.summary


@pytest.mark.parametrize(
    "years", [[2020] * 9, [1963, 2024, 1999, 2001], [2011, 2024], list(range(1950, 2030))]
)
def test_timelines_fit_a_telephone(engine: SearchEngine, years: list[int | None]) -> None:
    """Whatever the years, the drawing is narrow, no two dots touch, and each dot links to its card."""
    view = draw_timeline(papers_of(engine, years))
    assert NARROW >= view.width
    dots = [dot for column in view.columns for dot in column.dots]
    for one, other in combinations(dots, 2):
        assert math.hypot(one.x - other.x, one.y - other.y) > 2 * view.radius
    assert all(view.radius <= dot.y <= view.base - view.radius for dot in dots)
    assert len(years) == len(dots) + sum(column.more for column in view.columns)
    _, (svg,) = drawn("timeline", view)
    links = [each.get("href") for each in svg.iter("a")]
    assert {f"#result-{rank}" for rank in range(1, len(years) + 1)} >= set(links)
    assert len(dots) == len(links)


def test_a_full_column_says_how_many_more(engine: SearchEngine) -> None:
    """The best ten of a hundred results of a year have dots, and the others are counted."""
    view = draw_timeline(papers_of(engine, [2020] * 100), ranks=range(11, 111))
    (column,) = view.columns
    assert list(range(11, 21)) == [dot.rank for dot in column.dots]
    assert 90 == column.more
    html, _ = drawn("timeline", view)
    assert "+90" in html
    assert 0 < column.above < column.dots[-1].y


def test_years_lead_to_the_same_search_within_them(engine: SearchEngine) -> None:
    """A column links to the search within its years, both ends included, unless it is empty."""
    years = [1990, 2024, 2023]
    view = draw_timeline(papers_of(engine, years), link=lambda first, last: f"/?from={first}&to={last}")
    assert "/?from=1990&to=1994" == view.columns[0].href
    assert "/?from=2020&to=2024" == view.columns[-1].href
    assert {""} == {column.href for column in view.columns[1:-1]}
    html, _ = drawn("timeline", view)
    assert 'href="/?from=1990&amp;to=1994"' in html


def test_no_years_no_drawing(engine: SearchEngine) -> None:
    """If no result has a year, the page says so and draws nothing."""
    html, drawings = drawn("timeline", draw_timeline(papers_of(engine, [None, None])))
    assert [] == drawings
    assert "None of these papers has a year" in html
    assert TimelineView((), "None of these papers has a year", 0.0, 0.0, 0.0) == draw_timeline([])


def test_the_collection_is_described_as_it_is(engine: SearchEngine) -> None:
    """The numbers of papers, sentences, years, venues and fields, and the encoder, are the snapshot's."""
    snapshot = engine.snapshot
    papers = [snapshot.paper(int(at)) for at in snapshot.positions]
    view = describe_collection(snapshot)
    assert 100 == view.n_papers
    assert sum(len(paper.sentences) for paper in papers) == view.n_sentences
    assert ("hashing", "exact") == (view.encoder, view.backend)
    assert (min(p.year or 0 for p in papers), max(p.year or 0 for p in papers)) == view.years
    assert [("Akin demo corpus (invented)", 100)] == [(each.name, each.n_papers) for each in view.venues]
    for each in view.fields:
        assert sum(each.name in paper.fields for paper in papers) == each.n_papers
    papers_by_year = dict(bar.words.split(": ") for bar in view.bars)
    assert {str(p.year): str(sum(q.year == p.year for q in papers)) for p in papers} == papers_by_year
    assert max(bar.height for bar in view.bars) == view.chart_height
    assert describe_collection(snapshot) is view


def test_deleted_papers_are_not_counted(tmp_path: Path, hashing: Encoder) -> None:
    """Deleted papers count in no figure, even if all are deleted."""
    data = tmp_path / "data"
    build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(3)), data, hashing)

    def without(*ids: str) -> CollectionView:
        with Catalog.open(data / CATALOG_FILE) as catalog:
            delete_papers(data, ids, catalog, keep=3)
        return describe_collection(open_snapshot(data))

    left = [open_snapshot(data).paper(at) for at in (1, 2)]
    view = without("p0")
    assert (2, (2001, 2002), 0) == (view.n_papers, view.years, view.n_undated)
    assert sum(len(each.sentences) for each in left) == view.n_sentences
    empty = without("p1", "p2")
    assert (0, 0, None, (), ()) == (
        empty.n_papers,
        empty.n_sentences,
        empty.years,
        empty.bars,
        empty.examples,
    )
    html, _ = drawn("collection", empty, FiguresView(), None)
    assert "About this collection" in html


def test_examples_find_something(engine: SearchEngine, hashed_snapshot: Snapshot) -> None:
    """Each example is a search with results and without warnings, and examples are always the same."""
    examples = describe_collection(engine.snapshot).examples
    assert [Facet.METHOD, Facet.BACKGROUND, Facet.RESULT, None] == [each.facet for each in examples]
    assert 4 == len({each.paper_id for each in examples})
    for example in examples:
        contrast = None if example.unlike is None else Contrast(facets=(example.unlike,))
        aspect = Aspect(facets=() if example.facet is None else (example.facet,), unlike=contrast)
        query = SearchQuery((Seed(example.paper_id or None, text=example.text or None, aspect=aspect),))
        answer = engine.search(query)
        assert answer.results
        assert () == answer.warnings
    assert examples == describe_collection(hashed_snapshot).examples


def test_examples_have_what_they_ask_for(tmp_path: Path, hashing: Encoder) -> None:
    """A paper with one method sentence is no example for methods, and a long title is no example at all."""
    fine = ["background", "background", "method", "method", "result", "result"]
    facets = {"dull": ["background"] * 6, "long": fine, "one": [*fine[:3], *fine[4:], "result"], "good": fine}
    papers = [
        {"id": key, "title": key * (60 if key == "long" else 1), "abstract": ["A b."] * 6, "facets": each}
        for key, each in facets.items()
    ]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    examples = describe_collection(open_snapshot(tmp_path / "data")).examples
    assert {"long", "dull"}.isdisjoint(each.paper_id for each in examples if each.facet is Facet.METHOD)
    assert [("good", Facet.METHOD), ("good", Facet.RESULT)] == [
        (each.paper_id, each.facet) for each in examples if each.facet in {Facet.METHOD, Facet.RESULT}
    ]


def row(**changes: object) -> dict[str, object]:
    """Return a row as `akin evaluate --json` writes it."""
    return {
        "set": "csfcube",
        "system": "hashing:ot",
        "facet": "all",
        "fold": "all",
        "measure": "NDCG%20",
        "value": 57.64,
        "low": 51.2,
        "high": 63.9,
        "n": 24,
        **changes,
    }


def write_rows(folder: Path, rows: object) -> None:
    """Write a file of figures into a data folder."""
    (folder / FILE).write_bytes(orjson.dumps(rows))


def test_figures_are_those_of_the_encoder_that_serves(tmp_path: Path) -> None:
    """The main measure of the system that the service uses is shown, next to BM25's."""
    write_rows(
        tmp_path,
        [
            row(system="bm25", value=41.0),
            row(system="bm25", measure="MAP", value=30.0),
            row(system="hashing:ot:whole", value=60.0),
            row(),
            row(measure="MAP", value=1.0),
            row(fold="1", value=2.0),
            row(facet="method", value=42.0, low=None, high=None),
            row(system="minilm:ot:focus:tagged", value=70.0),
        ],
    )
    found = read_figures(tmp_path, "hashing")
    assert "hashing:ot" == found.system
    assert [("all queries", "57.6", "51–64", "41.0"), ("method", "42.0", "", "")] == [
        (each.respect, each.value, each.interval, each.baseline) for each in found.figures
    ]
    assert {"NDCG%20"} == {each.measure for each in found.figures}
    assert "minilm:ot:focus:tagged" == read_figures(tmp_path, "minilm").system


def test_figures_with_shared_words_go_before_all_others(tmp_path: Path) -> None:
    """Figures with shared words come first, as words count by default, and among them the tagger's."""
    rows = [row(system=f"hashing:{way}") for way in ("ot:focus:tagged", "ot:focus:words")]
    write_rows(tmp_path, rows)
    assert "hashing:ot:focus:words" == read_figures(tmp_path, "hashing").system
    write_rows(tmp_path, [*rows, row(system="hashing:ot:focus:tagged:words")])
    assert "hashing:ot:focus:tagged:words" == read_figures(tmp_path, "hashing").system


@pytest.mark.parametrize("rows", [b"{", b'[{"set": 1}]', b"[" + b" " * 5_000_000 + b"]"])
def test_figures_that_cannot_be_read_are_reported(tmp_path: Path, rows: bytes) -> None:
    """A file of figures that cannot be read is named, and the page goes on without figures."""
    (tmp_path / FILE).write_bytes(rows)
    found = read_figures(tmp_path, "hashing")
    assert () == found.figures
    assert FILE in found.note


def test_figures_are_read_again_only_if_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another encoder has other figures of the same file."""
    write_rows(tmp_path, [row()])
    found = read_figures(tmp_path, "hashing")
    with monkeypatch.context() as patched:
        patched.delattr(Path, "read_bytes")
        assert found == read_figures(tmp_path, "hashing")
    assert "minilm" in read_figures(tmp_path, "minilm").note
    write_rows(tmp_path, [row(), row(facet="method")])
    assert 2 == len(read_figures(tmp_path, "hashing").figures)


def test_no_figures_no_word(tmp_path: Path) -> None:
    """Without a file there is no note; for a file about another encoder there is one."""
    assert FiguresView() == read_figures(tmp_path, "hashing")
    write_rows(tmp_path, [row()])
    assert "minilm" in read_figures(tmp_path, "minilm").note


def test_what_corpora_say_is_text(engine: SearchEngine) -> None:
    """Markup in sentences, titles, names and figures is shown as text."""
    answer = search(engine)
    attacked = Source(ATTACK, tuple(Sentence(ATTACK, 0, len(ATTACK), None) for _ in answer.query.sentences))
    paper = answer.results[0].paper.model_copy(update={"title": ATTACK, "year": 2020})
    collection = describe_collection(engine.snapshot)
    hostile = replace(
        collection,
        encoder=ATTACK,
        examples=tuple(replace(each, title=ATTACK) for each in collection.examples),
        fields=tuple(replace(each, name=ATTACK) for each in collection.fields),
    )

    def attack(*_: object, **__: object) -> str:
        return ATTACK

    for html in (
        drawn("alignment", draw_alignment(answer.results[0], [attacked]), "id")[0],
        drawn("alignment", draw_alignment(answer.results[0], [attacked, replace(attacked, seed=1)]), "id")[0],
        drawn("timeline", draw_timeline([paper], link=attack))[0],
        drawn("collection", hostile, FiguresView(note=ATTACK), attack)[0],
        drawn("collection", hostile, attack, macro="examples")[0],
    ):
        assert "&lt;script&gt;" in html
        assert "<script" not in html
        assert "<img" not in html


def test_a_year_of_the_timeline_stays_within_the_filters() -> None:
    """A column of two years leads to those that the filters let pass."""
    query = PageQuery(paper="p", year_from=2015, year_to=2025)
    assert "from=2015&to=2015" in years_address(query, 2014, 2015)
    assert "from=2024&to=2025" in years_address(query, 2024, 2027)
    assert "from=2014&to=2015" in years_address(PageQuery(paper="p"), 2014, 2015)
