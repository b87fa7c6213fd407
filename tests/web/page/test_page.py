"""Tests of the page at ``/`` without a browser: its addresses, contents, errors and access."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import orjson
import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import QueryParams

from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.types import Facet, Paper, Sentence
from service.access.api_keys import Keys, Scope
from service.answer_warnings import WarningCode, warning
from service.api.schemas.base import PaperOut
from service.app import create_app
from service.search.engine import SearchEngine
from service.search.query import Page as ListPage
from service.search.query import Reason
from service.settings import Settings
from service.web import assets
from service.web.address.further import Further
from service.web.address.page_query import Order, PageQuery, View
from service.web.render import render, templates
from service.web.views.query import view_query
from service.web.views.results.cards import web_address
from tests.support.builds import ROOT, build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import PAPER, Page, page_at, query_of, ranked_ids


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus."""
    with client_of(hashed_data) as client:
        yield client


def test_nothing_on_a_page_runs_or_is_styled_in_its_text(client: TestClient) -> None:
    """No page has an inline script, an inline style, a handler, or an address of another origin."""
    for address in ("/", f"/?paper={PAPER}&facet=method&open=1", "/?text=sepsis", "/?paper=none"):
        text = client.get(address).text
        assert not re.search(r"<script(?![^>]* src=)|\sstyle=|<style|\son[a-z]+=|javascript:", text)
        for tag, attrs in Page(text).tags:
            loaded = attrs.get("src", "") or (attrs.get("href", "") if tag == "link" else "")
            assert not loaded or loaded.startswith("/static/")


def test_templates_are_compiled_when_the_service_starts(hashed_data: Path) -> None:
    """No request waits for it, and none looks whether their files have changed."""
    templates.cache_clear()
    with client_of(hashed_data):
        assert len(templates().cache or ()) == len(templates().list_templates())
    assert not templates().auto_reload


def test_static_files_are_kept_by_their_version_alone(client: TestClient) -> None:
    """Files of this version may be cached for ever, others may not, and unknown files are not found."""
    folder = f"/static/{assets.version()}"
    for file in assets.FOLDER.iterdir():
        answer = client.get(f"{folder}/{file.name}")
        assert answer.headers["cache-control"].endswith("immutable")
        assert (file.read_bytes(), "nosniff") == (answer.content, answer.headers["x-content-type-options"])
        assert answer.headers["content-type"].split(";")[0] in {
            "text/css",
            "text/javascript",
            "image/svg+xml",
        }
    assert "no-store" == client.get("/static/older/page.css").headers["cache-control"]
    for name in ("..%2flibrary.py", "none.css", "..", ".", "%2e%2e"):
        assert 404 == client.get(f"{folder}/{name}").status_code
    with pytest.raises(KeyError):
        assets.address("none.css")


@pytest.mark.parametrize("address", ["/static/older/page.css", "/docs/swagger-ui.css"])
def test_a_file_that_a_browser_has_is_not_sent_again(client: TestClient, address: str) -> None:
    """A request with the file's ETag gets an empty 304 with the same headers."""
    first = client.get(address)
    again = client.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (304, b"") == (again.status_code, again.content)
    for name in ("cache-control", "content-security-policy", "x-content-type-options"):
        assert first.headers[name] == again.headers[name]
    assert 200 == client.get(address, headers={"If-None-Match": '"other"'}).status_code


def test_scripts_stay_small() -> None:
    """The scripts of the search are under 30 kB together, that of the batch page is under 12 kB.

    The decision about scripts gives the sum of both limits.
    """
    of_batches, of_search = 12_000, 30_000
    sizes = {script.name: script.stat().st_size for script in assets.FOLDER.glob("*.js")}
    assert 0 < sizes.pop("batch.js") < of_batches
    assert 0 < sum(sizes.values()) < of_search
    decision = (ROOT / "docs" / "decisions" / "page" / "scripts.md").read_text(encoding="utf-8")
    assert f"under {(of_batches + of_search) // 1000} kB of scripts on all pages together" in decision


@pytest.mark.parametrize(
    ("query", "body"),
    [
        (f"paper={PAPER}", {"query": {"paper_id": PAPER}}),
        (f"paper={PAPER}&facet=method", {"query": {"paper_id": PAPER}, "facet": "method"}),
        (f"paper={PAPER}&s=2&s=0", {"query": {"paper_id": PAPER}, "sentences": [0, 2]}),
        (
            f"paper={PAPER}&facet=method&facet=result&unlike=background",
            {
                "query": {"paper_id": PAPER},
                "facet": ["method", "result"],
                "unlike": {"facet": "background"},
            },
        ),
        ("text=sepsis+alarms", {"query": {"text": "sepsis alarms"}}),
        (
            f"paper={PAPER}&from=2015&to=2020&field=Hydrology",
            {
                "query": {"paper_id": PAPER},
                "filters": {"year_from": 2015, "year_to": 2020, "fields": ["Hydrology"]},
            },
        ),
    ],
)
def test_the_page_asks_what_a_program_asks(client: TestClient, query: str, body: dict[str, object]) -> None:
    """An address stands for one request to the API, and both give the same papers in the same order."""
    page_query = PageQuery.of(QueryParams(query))
    assert ("/v1/search", {**body, "limit": 10}) == (page_query.path, page_query.body())
    out = client.post(page_query.path, json=body).json()
    page = page_at(client, f"/?{query}")
    assert [result["paper"]["id"] for result in out["results"]] == ranked_ids(page)


def test_the_form_sends_what_the_address_asks(client: TestClient) -> None:
    """Without scripts, the form of a page sends the query of its address again."""
    page_query = PageQuery(
        paper=PAPER,
        facets=(Facet.METHOD,),
        unlike_sentences=(0,),
        like=(Further("demo:p01-m00"),),
        not_like=(Further("demo:p02-m00"),),
        year_from=2012,
        venues=("Akin demo corpus (invented)",),
        view=View.TABLE,
        order=Order.YEAR,
    )
    page = page_at(client, page_query.address())
    sent = [
        (each["name"], each.get("value", ""))
        for each in page.all("input")
        if "name" in each and (each.get("type") != "checkbox" or "checked" in each)
    ]
    assert ("s", "2") in sent
    paper = client.get(f"/v1/papers/{PAPER}").json()["paper"]
    sentences = [Sentence("", 0, 0, Facet(each["facet"])) for each in paper["sentences"]]
    assert page_query == PageQuery.of(QueryParams(sent)).settled(sentences)


def test_a_form_may_send_a_facet_with_its_ticks(client: TestClient) -> None:
    """If a form sends a facet with its sentences, a filter or further paper keeps the facet."""
    for more in ("from=2020", f"like={PAPER}", "n=25"):
        address = f"/?paper=demo:p03-m07&facet=method&s=3&s=4&{more}"
        assert "method" in query_of(page_at(client, address).all("a", class_="stays")[0]["href"]).facets
    both = page_at(client, "/?paper=demo:p03-m07&unlike=method&u=3&u=4&from=2020")
    assert (Facet.METHOD,) == query_of(both.all("a", class_="stays")[0]["href"]).unlike_facets


def test_unticking_all_of_a_facet_leaves_it(client: TestClient) -> None:
    """If a form sends a facet without its sentences, the facet is not chosen any more."""
    page = page_at(client, "/?paper=demo:p03-m07&facet=method&unlike=background")
    sent = [
        (each["name"], each.get("value", ""))
        for each in page.all("input")
        if each.get("name", "s") != "s" and (each.get("type") != "checkbox" or "checked" in each)
    ]
    page_query = PageQuery.of(QueryParams(sent))
    assert ((), (Facet.BACKGROUND,)) == (page_query.facets, page_query.unlike_facets)


def test_a_facet_is_never_offered_to_be_like_and_unlike() -> None:
    """Choosing a facet as like removes it from unlike, and the other way round."""
    sentences = tuple(Sentence("a", 0, 1, facet) for facet in (Facet.BACKGROUND, Facet.OBJECTIVE))
    paper = Paper(id="x", title="", abstract="a", sentences=sentences)
    like, unlike = (
        PageQuery(paper="x", facets=(Facet.OBJECTIVE,)),
        PageQuery(paper="x", unlike_facets=(Facet.OBJECTIVE,)),
    )
    for page_query in (like, unlike):
        view = view_query(page_query, paper)
        assert view is not None
        for link in (*view.facets, *view.unlike):
            chosen = query_of(link.href)
            assert not (chosen.facets and chosen.unlike_facets)


def test_several_papers_become_seeds_and_negatives(client: TestClient) -> None:
    """Further papers become seeds, and papers and sentences to be unlike become negatives."""
    page_query = PageQuery.of(QueryParams(f"paper={PAPER}&s=2&u=0&like=demo:p01-m00&not=demo:p02-m00"))
    expected = {
        "seeds": [{"paper_id": PAPER, "sentences": [2]}, {"paper_id": "demo:p01-m00"}],
        "negatives": [{"paper_id": PAPER, "sentences": [0]}, {"paper_id": "demo:p02-m00"}],
        "limit": 10,
    }
    assert ("/v1/recommendations", expected) == (page_query.path, page_query.body())
    page = page_at(client, page_query.address())
    assert 10 == len(page.all("article"))
    assert "Similar to" in page.text


def test_an_unknown_further_paper_is_named_beside_its_reason(client: TestClient) -> None:
    """An unknown further paper is named with the reason, and the others are used."""
    page = page_at(client, f"/?paper={PAPER}&like=demo:p99-m99")
    assert 10 == len(page.all("article"))
    assert "No paper here has this title or id" in page.text


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("paper=none", 404, "This paper is not in this collection"),
        (f"paper={PAPER}&facet=colour", 422, "it may be one of background"),
        (f"paper={PAPER}&from=soon", 422, "a whole number is expected"),
        (f"paper={PAPER}&view=map", 422, "view=map; it may be one of cards, table"),
        (f"paper={PAPER}&sort=size", 422, "it may be one of strength, year"),
        (f"paper={PAPER}&s=-1", 422, "a whole number is expected"),
        (f"paper={PAPER}&from=9999", 422, "2100"),
        (f"paper={PAPER}&s=99", 422, "the abstract has 6, numbered 1 to 6"),
        (f"paper={PAPER}&s=1&u=1", 422, "Sentence 2 is chosen as both like and unlike; choose"),
        (f"paper={PAPER}&text=too", 422, "Start from one thing"),
        (f"paper={PAPER}&paper=other", 422, "2 times"),
        (f"paper={PAPER}&cursor=made-up", 422, "belongs to another search"),
        (f"text={'a' * 2001}", 422, "The text must have at most 2,000 characters"),
        (f"paper={PAPER}&n=101", 422, "The number of results per page must be at most 100"),
        ("title=Alone", 422, "Paste its abstract too"),
        (f"not={PAPER}", 422, "only papers to avoid"),
    ],
)
def test_why_a_query_is_refused_is_on_the_page(
    client: TestClient, query: str, status: int, words: str
) -> None:
    """A bad address gets the right status and a page that says why."""
    page = page_at(client, f"/?{query}", status=status)
    assert words in page.text
    assert not page.all("article")


def test_a_text_too_long_for_addresses_is_refused_in_words(client: TestClient) -> None:
    """A text over 10,000 characters is refused with the reason, and no box cuts it."""
    page = page_at(client, f"/?abstract={'word ' * 2_000}and+more", status=422)
    assert "paste only the abstract" in page.text
    for each in (page, page_at(client, "/")):
        assert [False] == ["maxlength" in box for box in each.all("textarea", id="abstract")]


def test_a_further_paper_is_added_to_be_unlike(client: TestClient) -> None:
    """One box adds a further paper, and a choice next to it says whether to be like or unlike it."""
    unlike = page_at(client, f"/?paper={PAPER}&add=demo:p02-m00&as=not")
    like = page_at(client, f"/?paper={PAPER}&add=demo:p02-m00&as=like")
    assert ["add"] == [each["name"] for each in unlike.all("input", id="like")]
    assert ["in", "as", "in", "n"] == [each["name"] for each in unlike.all("select")]
    added = (Further("demo:p02-m00"),)
    assert added == query_of(unlike.all("a", class_="stays")[0]["href"]).not_like
    assert added == query_of(like.all("a", class_="stays")[0]["href"]).like


@pytest.mark.parametrize(
    ("wrong", "words", "kept"),
    [
        ("&cursor=made-up&from=2015", "Show the first page", PageQuery(paper=PAPER, year_from=2015)),
        ("&s=1&u=1&from=2015", "Search with the whole abstract", PageQuery(paper=PAPER, year_from=2015)),
        ("&facet=method&n=1000", "Search with ten results", PageQuery(paper=PAPER, facets=(Facet.METHOD,))),
        ("&s=1&from=9999", "Search without these years", PageQuery(paper=PAPER, sentences=(1,))),
    ],
)
def test_what_was_wrong_can_be_left_out(client: TestClient, wrong: str, words: str, kept: PageQuery) -> None:
    """A link on the error page asks the same query without the mistake."""
    page = page_at(client, f"/?paper={PAPER}{wrong}", status=422)
    assert words in page.text
    assert kept == query_of(page.all("a", class_="main")[0]["href"])


def test_papers_to_be_unlike_stay_when_none_is_to_be_like(client: TestClient) -> None:
    """Without a paper to be like the answer is an error, but papers to be unlike are still listed."""
    page = page_at(client, "/?not=demo:p02-m00", status=422)
    assert ["demo:p02-m00"] == [each["value"] for each in page.all("input", name_="not")]
    assert 1 == len(page.all("a", class_="drop"))


def test_a_refused_abstract_is_not_lost(client: TestClient) -> None:
    """A pasted abstract stays on the page that refuses it."""
    page = page_at(client, "/?abstract=A+draft+of+mine.&from=9999", status=422)
    assert "A draft of mine." in page.text


def test_no_results_say_what_to_do(client: TestClient) -> None:
    """If filters leave no papers, a link removes each of them."""
    page = page_at(client, f"/?paper={PAPER}&from=1900&to=1901")
    assert "No paper matches the filters" in page.text
    assert f"/?paper={PAPER.replace(':', '%3A')}" in [
        each.get("href") for each in page.all("a", class_="chip")
    ]


def test_a_page_after_the_last_leads_back(client: TestClient) -> None:
    """A page after the last one blames no filter and links back."""
    page_query = PageQuery(paper=PAPER, year_from=2000)
    services = client.app.state.services  # type: ignore[attr-defined]
    query, engine = page_query.request().to_query(), services.collection.engines.current
    cursor = services.cursors.write(ListPage(len(engine.snapshot), 200), query, engine.digest)
    page = page_at(client, page_query.address(cursor=cursor))
    assert "No more papers" in page.text
    assert "Remove a filter" not in page.text
    (back,) = page.all("a", rel="prev")
    assert ranked_ids(page_at(client, back["href"]))


def test_without_a_query_the_page_describes_the_collection_to_whom_it_may(
    client: TestClient, hashed_data: Path, tmp_path: Path
) -> None:
    """With keys, the page and its files are open, but searches and facts about the collection need a key."""
    assert "About this collection" in client.get("/").text
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        token = keys.create("reader", scope=Scope.READ, expires_days=1).token
    app = create_app(Settings(data=hashed_data, catalog_url=f"sqlite:///{tmp_path / CATALOG_FILE}"))
    with TestClient(app, client=("127.0.0.1", 50_000)) as stranger:
        bare = page_at(stranger, "/")
        assert "About this collection" not in bare.text
        assert "demo:" not in bare.text
        for path in ("/", "/batch", "/batch?id=x"):
            assert "needs an API key" in page_at(stranger, path).text
            assert "needs an API key" not in page_at(client, path).text
        refused = page_at(stranger, f"/?paper={PAPER}", status=401)
        assert "No key was given" in refused.text
        assert "A web page cannot send a key" in refused.text
        assert "`" not in refused.text
        command = stranger.get(f"/?paper={PAPER}", headers={"X-API-Key": token})
        assert "Bearer $AKIN_KEY" in command.text
        assert "AKIN_KEY" not in client.get(f"/?paper={PAPER}").text
        assert 200 == stranger.get(assets.address("page.css")).status_code
        assert 401 == stranger.get(f"/results.csv?paper={PAPER}").status_code
        known = stranger.get("/", headers={"X-API-Key": token})
        assert "About this collection" in known.text


@pytest.mark.parametrize(
    ("doi", "url", "expected"),
    [
        ("10.1000/a<b", None, "https://doi.org/10.1000/a%3Cb"),
        ("https://doi.org/10.1000/x", None, "https://doi.org/10.1000/x"),
        (None, "https://example.org/p", "https://example.org/p"),
        (None, "javascript:alert(1)", ""),
        (None, " data:text/html,x", ""),
        ("javascript:alert(1)", None, ""),
        (None, None, ""),
    ],
)
def test_papers_link_to_the_web_alone(doi: str | None, url: str | None, expected: str) -> None:
    """A paper links to its DOI or web address, never to an address that would run code."""
    paper = PaperOut(
        id="x",
        title="",
        abstract="",
        sentences=(),
        year=None,
        venue=None,
        authors=(),
        url=url,
        doi=doi,
        fields=(),
    )
    assert expected == web_address(paper)


@pytest.mark.parametrize(
    ("paper_id", "expected"),
    [
        ("arxiv:math/0309136", "https://arxiv.org/abs/math/0309136"),
        ("acl:2021.eacl-main.1", "https://aclanthology.org/2021.eacl-main.1"),
        ("pmid:31452104", "https://pubmed.ncbi.nlm.nih.gov/31452104"),
        ("doi:10.5555/a<b", "https://doi.org/10.5555/a%3Cb"),
        ("arxiv:", ""),
        ("javascript:alert(1)", ""),
        ("quill2019", ""),
    ],
)
def test_papers_link_to_their_archive(paper_id: str, expected: str) -> None:
    """Without a DOI or an address, the id may give the link; an address goes before it."""
    fields = {"title": "", "abstract": "", "sentences": (), "year": None, "venue": None, "authors": ()}
    paper = PaperOut(id=paper_id, url=None, doi=None, fields=(), **fields)
    assert expected == web_address(paper)
    elsewhere = paper.model_copy(update={"url": "https://example.org/p"})
    assert "https://example.org/p" == web_address(elsewhere)


def test_what_is_no_text_does_not_break_a_page() -> None:
    """Halves of surrogate pairs and markup in a problem are shown as text."""
    answer = render(
        "problem.html", problem={"title": "<b>\ud800", "detail": "&", "request_id": "x"}, retry_after=None
    )
    assert b"&lt;b&gt;?" in answer.body


def test_warnings_are_shown_in_the_words_of_the_answer(client: TestClient) -> None:
    """The warnings of an answer are shown in the words of the API."""
    page = page_at(client, f"/?paper={PAPER}&facet=method&facet=other")
    assert warning(WarningCode.FACET_MISSING, "other").message in page.text


def test_results_say_of_how_many_they_are(client: TestClient) -> None:
    """The page shows the total, and a later page shows the range of its papers."""
    assert "The 10 closest of 99 papers" in page_at(client, f"/?paper={PAPER}").text
    assert "The 99 closest papers" in page_at(client, f"/?paper={PAPER}&n=100").text
    (following,) = page_at(client, f"/?paper={PAPER}").all("a", rel="next")
    assert "Papers 11 to 20 of 99" in page_at(client, following["href"]).text


def test_a_list_that_is_cut_says_so(hashed_data: Path, client: TestClient) -> None:
    """If a list is cut, the page says that there are at least this many papers."""
    engine = SearchEngine(open_snapshot(hashed_data), pytest.fail, n_candidates=200, max_listed=40)
    with client_of(hashed_data, engine) as cut:
        page = page_at(cut, f"/?paper={PAPER}")
        assert "The 10 closest of at least 40 papers" in page.text
        (following,) = page.all("a", rel="next")
        assert "Papers 11 to 20 of at least 40" in page_at(cut, following["href"]).text
    assert "at least" not in page_at(client, f"/?paper={PAPER}").text


@pytest.mark.parametrize("years", [True, False])
def test_papers_are_sorted_by_year_where_one_has_a_year(
    tmp_path: Path, hashing: Encoder, *, years: bool
) -> None:
    """Sorting by year is offered, with the number of papers sorted, only if it makes a difference."""
    papers = [{**each, "year": 2000 if years else None} for each in many_papers(15)]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    with client_of(tmp_path / "data") as client:
        assert ("The best 14, newest first" in page_at(client, "/?paper=p0").text) is years
        assert "The 10 closest of 14 papers" in page_at(client, "/?paper=p0").text
    few = write_corpus(tmp_path / "few.jsonl", papers[:2])
    build_quietly(few, tmp_path / "few", hashing)
    with client_of(tmp_path / "few") as client:
        for order in ("strength", "year"):
            page = page_at(client, f"/?paper=p0&sort={order}")
            assert "The closest paper" in page.text
            assert "newest first" not in page.text


@pytest.mark.parametrize(
    "text",
    [
        *("2212.99999", "arXiv: 2212.99999", "arXiv:2212.99999v2", "hep-th/9901001", "PMID 31452104"),
        *("P18-9999", "acl:p18-9999", "2020.acl-main.447", "10.1234/nowhere", "DOI 10.1234/nowhere"),
    ],
)
def test_a_name_in_the_search_box_is_no_text(client: TestClient, text: str) -> None:
    """An identifier in the search box, however written, is not searched as words if it is not found."""
    page = page_at(client, f"/?{urlencode({'text': text})}", status=404)
    assert "not in this collection" in page.text


@pytest.mark.parametrize(
    "text",
    [
        *("2020", "31452104", "3.1415", "2020.5", "GPT-4", "COVID-19", "T5-11b", "1998-2005", "ResNet-50"),
        *("24/7", "2.4 GHz", "papers of 2020", "as in arXiv:2212.11867", "PMID numbers", "P18-9999 again"),
    ],
)
def test_words_and_numbers_are_texts(client: TestClient, text: str) -> None:
    """Years, names of models, and sentences that contain an identifier are searched as texts."""
    answer = client.get("/", params={"text": text})
    assert 200 == answer.status_code
    assert f'<input type="hidden" name="text" value="{text}">' in answer.text


def test_a_name_in_the_search_box_is_its_paper(tmp_path: Path, hashing: Encoder) -> None:
    """An identifier in the search box finds its paper; four digits alone are a year."""
    ids = {
        "2212.11867v2": "arxiv:2212.11867",
        "PMID 31452104": "pmid:31452104",
        "31452104": "pmid:31452104",
        "p18-1001": "acl:P18-1001",
        "PMID 2020": "pmid:2020",
    }
    papers = [{**each, "id": name} for each, name in zip(many_papers(4), {*ids.values()}, strict=True)]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    with client_of(tmp_path / "data") as client:
        for text, name in ids.items():
            page = page_at(client, f"/?{urlencode({'text': text})}")
            assert page.all("input", name="paper", value=name), text
        assert page_at(client, "/?text=2020").all("input", name="text", value="2020", type="hidden")


def test_reasons_for_no_results_are_in_words(client: TestClient) -> None:
    """If no given paper is known, the page says so in its own words."""
    page = page_at(client, "/?like=none&like=neither")
    assert "the reason is next to each" in page.text
    body = orjson.loads(
        client.post("/v1/recommendations", json=PageQuery(like=(Further("none"),)).body()).content
    )
    assert Reason.NO_SEED_RESOLVED == body["reason"]


def test_one_result_is_one_paper(client: TestClient) -> None:
    """A single result is never called "1 papers"."""
    assert not re.search(r"\b1 papers", page_at(client, f"/?paper={PAPER}&n=1").text)
