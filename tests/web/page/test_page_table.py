"""Tests of results as a table: rows, order, paging, and the files saved of the list."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from models.encoder import Encoder
from service.api.dependencies.cursors import Paging
from service.api.schemas.search.results import ResultOut
from service.api.services import services_of
from service.web.address.page_query import PageQuery
from service.web.query_answer import whole_list
from service.web.tables import to_latex, to_markdown, to_tsv
from service.web.views.results.rows import key_sentences
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import PAPER, Page, page_at, ranked_ids

QUERY_PATH = f"/?paper={PAPER}&facet=method&unlike=background"


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus."""
    with client_of(hashed_data) as client:
        yield client


@pytest.fixture(scope="module")
def results(client: TestClient) -> list[dict[str, Any]]:
    """Return the results of the same query by the API."""
    body = {"query": {"paper_id": PAPER}, "facet": "method", "unlike": {"facet": "background"}}
    found: list[dict[str, Any]] = client.post("/v1/search", json=body).json()["results"]
    return found


def pages_from(client: TestClient, address: str) -> list[Page]:
    """Return the page at ``address`` and all pages after it."""
    pages = [page_at(client, address)]
    while following := pages[-1].all("a", rel="next"):
        pages.append(page_at(client, following[0]["href"]))
    return pages


def texts(result: dict[str, Any], facet: str) -> list[str]:
    """Return the sentences of one facet."""
    paper = result["paper"]
    return [
        paper["abstract"][each["start"] : each["end"]]
        for each in paper["sentences"]
        if each["facet"] == facet
    ]


def changed(result: dict[str, Any], **paper: object) -> ResultOut:
    """Return a result with changes to its paper, of which the first sentence matches."""
    lights = [{**result["highlights"][0], "sentence": 0}] if result["highlights"] else []
    return ResultOut.model_validate({**result, "highlights": lights, "paper": {**result["paper"], **paper}})


def test_a_row_says_what_matches_and_what_the_paper_does(
    client: TestClient, results: list[dict[str, Any]]
) -> None:
    """A row has the title, year, heaviest sentence, problem, method and result, but no abstract."""
    html = client.get(f"{QUERY_PATH}&view=table").text
    rows = html.split('<tr class="entry')[1:]
    assert len(results) == len(rows)
    assert not Page(html).all("article")
    for row, result in zip(rows, results, strict=True):
        page = Page(row)
        heaviest = max(result["highlights"], key=lambda each: each["weight"])
        cells = [each["title"] for each in page.all("p", class_="cut")]
        assert result["paper"]["abstract"][heaviest["start"] : heaviest["end"]] == cells[0]
        aims, known = texts(result, "objective"), texts(result, "background")
        problem = (*aims[:1], *known[-1:])[:1]
        assert cells[1:] == [*problem, *texts(result, "method")[:1], *texts(result, "result")[:1]]
        assert str(result["paper"]["year"]) in page.text
        assert result["paper"]["title"] in " ".join(page.text.split())


def test_a_paper_without_a_facet_has_none_to_show(results: list[dict[str, Any]]) -> None:
    """A paper without facets has no problem, method and result, and without highlights no match."""
    bare = [{**each, "facet": None} for each in results[0]["paper"]["sentences"]]
    key = key_sentences(changed({**results[0], "highlights": []}, sentences=bare))
    assert {None} == {key.match, key.problem, key.method, key.result}
    assert " & -- & -- & -- " in to_latex([changed(results[0], sentences=bare)])


def test_a_row_opens_to_its_card(client: TestClient) -> None:
    """The address names the opened row, and the links of rows open and close their cards."""
    page = page_at(client, f"{QUERY_PATH}&view=table&open=2")
    assert ["card-2"] == [each["id"] for each in page.all("article")]
    assert ["false", "true", "false"] == [each["aria-expanded"] for each in page.all("a", class_="expand")][
        :3
    ]
    closed = page_at(client, page.all("a", class_="expand")[1]["href"])
    assert not closed.all("article")
    assert page_at(client, closed.all("a", class_="expand")[1]["href"]).all("article", id="card-2")


@pytest.mark.parametrize("view", ["cards", "table"])
def test_the_newest_may_come_first(client: TestClient, view: str, results: list[dict[str, Any]]) -> None:
    """Sorted by year over all pages, papers keep their ranks, and equal years are in order of rank."""
    saved = list(
        csv.DictReader(io.StringIO(client.get(f"/results.csv{QUERY_PATH[1:]}&whole=1").text.lstrip("\ufeff")))
    )
    expected = sorted(saved, key=lambda each: (-int(each["year"]), int(each["rank"])))
    pages = pages_from(client, f"{QUERY_PATH}&view={view}&sort=year&n=40")
    assert [each["id"] for each in expected] == [each for page in pages for each in ranked_ids(page)]
    tag = "tr" if view == "table" else "article"
    shown = [int(each["id"].split("-")[1]) for page in pages for each in page.all(tag) if "id" in each]
    assert [int(each["rank"]) for each in expected] == shown
    assert "Papers 41 to 80 of the best 99, newest first" in pages[1].text
    strongest = [each["href"] for each in pages[1].all("a", class_="chip") if "sort=" not in each["href"]]
    best = [each["paper"]["id"] for each in results]
    (back,) = [each for each in strongest if ranked_ids(page_at(client, each))[:10] == best][:1]
    assert ("view=table" in back) == (view == "table")


def test_the_best_hundred_are_sorted(tmp_path: Path, hashing: Encoder) -> None:
    """Sorted by year, pages and files have exactly the best 100 papers, each once."""
    papers = [{**each, "year": 1990 + number % 30} for number, each in enumerate(many_papers(130))]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    with client_of(tmp_path / "data") as client:
        best = [each for page in pages_from(client, "/?paper=p0&n=50")[:2] for each in ranked_ids(page)]
        pages = pages_from(client, "/?paper=p0&n=30&sort=year")
        shown = [ranked_ids(page) for page in pages]
        assert [30, 30, 30, 10] == [len(each) for each in shown]
        assert sorted(best) == sorted(each for ids in shown for each in ids)
        assert "Papers 91 to 100 of the best 100, newest first" in pages[-1].text
        assert shown[1] == ranked_ids(page_at(client, pages[2].all("a", rel="prev")[0]["href"]))
        for words, expected in (("", shown[1]), ("whole", [each for ids in shown for each in ids])):
            (link,) = [
                each["href"]
                for each in pages[1].all("a")
                if "results.csv" in each["href"] and ("whole" in each["href"]) == bool(words)
            ]
            rows = list(csv.DictReader(io.StringIO(client.get(link).text.lstrip("\ufeff"))))
            assert [(best.index(each) + 1, each) for each in expected] == [
                (int(row["rank"]), row["id"]) for row in rows
            ]


def test_one_goes_back_as_one_came(client: TestClient) -> None:
    """The link "Previous" shows the page before, also with another page size, and is missing on the first."""
    first = page_at(client, f"/?paper={PAPER}&n=25")
    assert not first.all("a", rel="prev")
    second = page_at(client, first.all("a", rel="next")[0]["href"])
    third = page_at(client, second.all("a", rel="next")[0]["href"])
    assert ranked_ids(second) == ranked_ids(page_at(client, third.all("a", rel="prev")[0]["href"]))
    (back,) = second.all("a", rel="prev")
    assert ranked_ids(first) == ranked_ids(page_at(client, back["href"]))
    assert not page_at(client, back["href"]).all("a", rel="prev")
    more = page_at(client, back["href"].replace("n=25", "n=50"))
    assert ranked_ids(first) + ranked_ids(second) == ranked_ids(more)


@pytest.mark.parametrize(
    "query", [f"paper={PAPER}&n=7", f"paper={PAPER}&like=demo:p01-m00&n=7", "text=sepsis"]
)
def test_the_whole_list_is_saved(client: TestClient, query: str) -> None:
    """From any page, the whole list is saved in the order of the pages, with ranks from 1."""
    first = page_at(client, f"/?{query}&words=0")
    second = page_at(client, first.all("a", rel="next")[0]["href"])
    (address,) = [
        each["href"] for each in second.all("a") if "results.csv" in each["href"] and "whole" in each["href"]
    ]
    rows = list(csv.DictReader(io.StringIO(client.get(address).text.lstrip("\ufeff"))))
    seen = ranked_ids(first) + ranked_ids(second)
    assert seen == [row["id"] for row in rows[: len(seen)]]
    assert [str(rank) for rank in range(1, len(rows) + 1)] == [row["rank"] for row in rows]
    assert len({row["id"] for row in rows}) == len(rows) >= 98
    assert {"1", "2"} < {row["rank"] for row in rows if row["abstract"]}


def test_a_saved_list_is_bounded(client: TestClient) -> None:
    """No more than ``most`` papers are saved, however many the list has."""
    services = services_of(client.app)  # type: ignore[arg-type]  # what a client calls its application
    engine = services.collection.engines.current
    request = Request({"type": "http", "app": client.app, "state": {"engine": engine}})
    saved = whole_list(engine, Paging(services.cursors, request), PageQuery(paper=PAPER), most=15)
    assert 15 == len(saved.out.results)


def test_the_page_says_what_of_the_list_is_saved(client: TestClient) -> None:
    """The page offers "All 99 results", unless it shows all of them."""
    assert "All 99 results" in page_at(client, f"/?paper={PAPER}").text
    assert "whole=1" not in client.get(f"/?paper={PAPER}&n=100").text


@pytest.mark.parametrize(
    ("ending", "media_type"),
    [("tex", "application/x-tex"), ("md", "text/markdown"), ("tsv", "text/tab-separated-values")],
)
def test_results_are_saved_as_a_table(client: TestClient, ending: str, media_type: str) -> None:
    """Links download the papers of the page and of the whole list as tables, and buttons copy the same."""
    page = page_at(client, QUERY_PATH)
    links = [each["href"] for each in page.all("a") if f"results.{ending}" in each.get("href", "")]
    copied = [each["data-copy"] for each in page.all("button") if f".{ending}" in each.get("data-copy", "")]
    link, whole = links
    assert (links, f"{link}&whole=1") == (copied, whole)
    assert 89 == client.get(whole).text.count("\n") - client.get(link).text.count("\n")
    answer = client.get(link)
    assert (200, f"{media_type}; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    assert f'filename="akin-results.{ending}"' in answer.headers["content-disposition"]


def test_a_latex_table_cites_the_bibtex_file(client: TestClient, results: list[dict[str, Any]]) -> None:
    """The keys are those of the BibTeX file of the same papers, and LaTeX commands are escaped."""
    tex, bib = (
        client.get(QUERY_PATH.replace("/", f"/results.{ending}", 1)).text for ending in ("tex", "bib")
    )
    assert re.findall(r"@\w+\{([^,]+),", bib) == re.findall(r"\\cite\{([^}]+)\}", tex)
    assert 10 == tex.count("\\\\\n") - 1
    assert tex.startswith("\\begin{tabular}{p{")
    assert tex.endswith("\\end{tabular}\n")
    abstract = r"100 % of \evil{x} & more_"
    spans = [{"start": 0, "end": len(abstract), "facet": "result"}]
    hostile = changed(results[0], abstract=abstract, sentences=spans, authors=["A & B"])
    assert r"100 \% of \textbackslash{}evil\textbraceleft{}x\textbraceright{} \& more\_ \\" in to_latex(
        [hostile]
    )


def test_a_latex_row_is_never_an_argument(results: list[dict[str, Any]]) -> None:
    r"""A title that begins with "[" or "*" stands in its row: "\\" does not read it as its argument."""
    titles = ["[Two] Ropes", "*Star"]
    papers = [changed(results[0], id=title, title=title, authors=[], year=None) for title in titles]
    rows = [line for line in to_latex(papers).splitlines() if r"\cite" in line]
    assert [r"{}[Two] Ropes~\cite", r"{}*Star~\cite"] == [row[: row.index(r"\cite") + 5] for row in rows]


def test_what_papers_say_stays_in_its_cell(results: list[dict[str, Any]]) -> None:
    """Bars, tabs and line breaks separate no cells, markup is escaped, and nothing is a formula."""
    abstract = "=1+1 | <b>bold</b>\twith\ntabs"
    spans = [{"start": 0, "end": len(abstract), "facet": "method"}]
    hostile = changed(results[0], abstract=abstract, sentences=spans, title="@SUM(A1)", authors=[], year=None)
    assert r"| =1+1 \| \<b\>bold\</b\> with tabs |" in to_markdown([hostile])
    cells = to_tsv([hostile]).splitlines()[1].split("\t")
    assert ["'@SUM(A1)", "", ""] == cells[:3]
    assert "'=1+1 | <b>bold</b> with tabs" == cells[7]


def test_a_spreadsheet_reads_what_a_cell_says(results: list[dict[str, Any]]) -> None:
    """A quotation mark hides no formula, keeps its text, and takes no other cell into its own."""
    titles = ['"=HYPERLINK(""http://x"",""y"")"', '"Why?": a title', '"Half']
    table = to_tsv([changed(results[0], id=title, title=title) for title in titles])
    _, *rows = csv.reader(io.StringIO(table), delimiter="\t")
    assert titles == [row[0] for row in rows]
    assert {9} == {len(row) for row in rows}


def test_a_table_without_sentences_has_empty_cells(results: list[dict[str, Any]]) -> None:
    """An answer may have highlights and no sentences; a power in a title is not one in Markdown."""
    bare = changed(results[0], sentences=[], abstract="", title="O(n^2+m^2)", authors=[], year=None)
    assert r"| O(n\^2+m\^2) | – | – | – |" in to_markdown([bare])
    assert ["", "", "", ""] == to_tsv([bare]).splitlines()[1].split("\t")[5:]


def test_authors_and_year_name_a_paper(results: list[dict[str, Any]]) -> None:
    """A row names one, two, many or no authors, also with the last name first."""
    names = {
        ("Ada Quill",): "Quill (2020): T",
        ("Quill, Ada", "Bo Reed"): "Quill and Reed (2020): T",
        ("A. Quill", "B. Reed", "C. Shore"): "Quill et al. (2020): T",
        (): "T (2020)",
    }
    for authors, expected in names.items():
        row = to_markdown([changed(results[0], title="T", authors=authors, year=2020)]).splitlines()[2]
        assert row.startswith(f"| {expected} |")
