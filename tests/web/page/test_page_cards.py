"""Tests of results on the page: the marks in them and their links."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from models.encoder import Encoder
from models.text.words import stems
from models.types import Facet
from service.api.schemas.search.results import ResultOut
from service.web.address.page_query import PageQuery
from service.web.views.results.sentences import card_sentences
from tests.support.builds import build_quietly, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import PAPER, Page, page_at, query_of, ranked_ids


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus."""
    with client_of(hashed_data) as client:
        yield client


def test_matching_sentences_are_marked_by_their_weight(client: TestClient) -> None:
    """The heaviest sentence of a result has the strongest mark, and every sentence is shown."""
    out = client.post("/v1/search", json={"query": {"paper_id": PAPER}, "facet": "method", "limit": 1}).json()
    (result,) = out["results"]
    page = page_at(client, f"/?paper={PAPER}&facet=method&n=1")
    marks = page.all("span", class_="sentence")
    assert len(result["paper"]["sentences"]) == len(marks)
    levels = [int((re.search(r"\bw(\d+)", each["class"]) or [0, 0])[1]) for each in marks]
    weights = {each["sentence"]: each["weight"] for each in result["highlights"]}
    assert max(weights, key=lambda number: weights[number]) == levels.index(max(levels))
    heavier = [(a, b) for a in weights for b in weights if weights[a] > weights[b]]
    assert all(levels[a] >= levels[b] for a, b in heavier)


def test_only_what_carries_a_match_is_marked(client: TestClient) -> None:
    """The heaviest sentences up to 80 % of the match are marked, except light ones; all show shares."""
    for query, body in (("", {}), ("&facet=method", {"facet": "method"}), ("&s=2", {"sentences": [2]})):
        request = {"query": {"paper_id": PAPER}, "limit": 5, **body}
        for result, html in zip(
            client.post("/v1/search", json=request).json()["results"],
            client.get(f"/?paper={PAPER}&n=5{query}").text.split("<article")[1:],
            strict=True,
        ):
            weights = {each["sentence"]: each["weight"] for each in result["highlights"]}
            even = 1 / len(result["paper"]["sentences"])
            heaviest = sorted(weights, key=lambda number: -weights[number])
            expected = [
                number
                for place, number in enumerate(heaviest)
                if sum(weights[each] for each in heaviest[:place]) < 0.8 and weights[number] >= even
            ]
            marks = Page(html).all("span", class_="sentence")
            marked = [int(each["data-s"]) for each in marks if re.search(r"\bw\d", each["class"])]
            assert sorted(expected) == marked
            assert 0 < len(marked) < len(marks)
            assert all("of the match" in each["title"] for each in marks)
            assert any(each["data-m"] for each in marks if int(each["data-s"]) not in marked)


def test_an_opened_card_says_what_is_highlighted(client: TestClient) -> None:
    """Beside the alignment, whose pairs may hold other sentences, the card says which are highlighted.

    It also says what makes the match strong, fair or weak.
    """
    text = page_at(client, f"/?paper={PAPER}&open=2").text
    assert 1 == len(
        re.findall(r"A \w+ match: closer than \d+% of the papers here are to their closest", text)
    )
    said = "only sentences with an even share of the match or more are highlighted"
    assert 1 == page_at(client, f"/?paper={PAPER}&open=2").text.count(said)
    assert said not in page_at(client, f"/?paper={PAPER}").text


def test_marks_are_those_of_the_answer(client: TestClient) -> None:
    """A card marks the sentences that the answer marks, the more strongly the larger their share."""
    (result,) = client.post("/v1/search", json={"query": {"paper_id": PAPER}, "limit": 1}).json()["results"]
    lights = [
        {"sentence": at, "start": 0, "end": 1, "weight": weight, "marked": marked}
        for at, weight, marked in ((4, 0.5, True), (0, 0.32, True), (1, 0.18, False))
    ]
    sentences = card_sentences(ResultOut.model_validate({**result, "highlights": lights}), 1)
    assert {0: 7, 4: 10} == {each.number: each.level for each in sentences if each.level}
    assert "50\u00a0%" == sentences[4].share


def test_papers_that_are_read_as_a_whole_have_no_marks(client: TestClient) -> None:
    """With one vector per paper, no sentence is marked."""
    (result,) = client.post("/v1/search", json={"query": {"paper_id": PAPER}, "limit": 1}).json()["results"]
    light = {"sentence": None, "start": 0, "end": 1, "weight": 1.0, "marked": True}
    whole = ResultOut.model_validate({**result, "highlights": [light], "alignments": []})
    assert {(0, "")} == {(each.level, each.share) for each in card_sentences(whole, 1)}


def test_a_name_is_marked_as_a_whole(tmp_path: Path, hashing: Encoder) -> None:
    """A name that overlaps with its words is marked once, and no text is repeated."""
    texts = {
        "a": ("Asking GPT-4", ["Is GPT-4-based coding new?"]),
        "b": ("GPT-4", ["We try GPT-4-based tools."]),
    }
    papers = [{"id": key, "title": title, "abstract": abstract} for key, (title, abstract) in texts.items()]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    with client_of(tmp_path / "data") as client:
        html = client.get("/?paper=a").text
    assert "<mark>GPT-4</mark></a>" in html
    assert "We try <mark>GPT-4</mark>" in html
    assert "We try GPT-4-based tools." in re.sub("</?mark>", "", html)


def test_shared_words_are_marked_and_listed(client: TestClient) -> None:
    """The heaviest shared words are listed and marked in a card, unless words are left out."""
    out = client.post("/v1/search", json={"query": {"paper_id": PAPER}, "limit": 1}).json()
    terms = [each["term"] for each in out["results"][0]["words"]["terms"]]
    address = f"/?paper={PAPER}&n=1"
    html = client.get(address).text
    assert terms[:8] == [unescape(term) for term in re.findall(r'<span class="word"[^>]*>([^<]+)<', html)]
    marked = {stem for word in re.findall("<mark>([^<]+)</mark>", html) for stem in stems(unescape(word))}
    assert marked
    assert marked <= {stem for term in terms for stem in stems(term)}
    (title,) = re.findall(r'title="Start from this paper: [^"]*">(.*?)</a>', html)
    assert out["results"][0]["paper"]["title"] == unescape(re.sub("</?mark>", "", title))
    assert "<mark>" in title
    (link,) = page_at(client, address).all("a", id="words")
    assert 0 == query_of(link["href"]).words
    without = page_at(client, link["href"])
    assert [] == without.all("mark") == without.all("span", class_="word")
    (back,) = without.all("a", id="words")
    assert query_of(back["href"]).words is None
    assert ["0.0"] == [each["value"] for each in without.all("input", name="words")]


def test_query_sentences_and_results_name_each_other(client: TestClient) -> None:
    """The pairs that a result's sentences name are alignments with the chosen sentences only."""
    page = page_at(client, f"/?paper={PAPER}&s=2&s=3")
    met = [pair.split(":") for each in page.all("span", class_="sentence") for pair in each["data-m"].split()]
    assert {"2", "3"} == {query for query, _ in met}
    assert all(1 <= int(level) <= 10 for _, level in met)
    assert {"s2", "s3"} == {each["id"] for each in page.all("input", name="s") if "checked" in each}


def test_only_the_query_s_own_sentences_are_named_as_its(client: TestClient) -> None:
    """Drawings mark rows of further papers, negatives included, unlike those of the query's own abstract."""
    against = "against"
    other = page_at(client, f"/?paper={PAPER}&not=demo:p02-m00&open=1").all("g", class_=against)
    assert other
    assert all("data-seed" in each for each in other)
    own = page_at(client, f"/?paper={PAPER}&u=0&like=demo:p01-m00&open=1").all("g", class_=against)
    assert own
    assert not any("data-seed" in each for each in own)
    alone = page_at(client, "/?like=demo:p01-m00&like=demo:p02-m00&open=1").all("g", class_="cell")
    assert alone
    assert all("data-seed" in each for each in alone)


def test_pages_of_a_list_never_repeat(client: TestClient) -> None:
    """Following "next" shows every paper exactly once."""
    seen: list[str] = []
    address = f"/?paper={PAPER}&n=40"
    while address:
        page = page_at(client, address)
        seen += ranked_ids(page)
        address = next((each["href"] for each in page.all("a", rel="next")), "")
    assert 99 == len(seen) == len(set(seen))


def test_links_go_on_from_a_result(client: TestClient) -> None:
    """The links "More like this" and "Not like this" add a seed or negative to the same query."""
    page = page_at(client, f"/?paper={PAPER}&facet=method&from=2015")
    links = [query_of(each["href"]) for each in page.all("a") if each["href"].startswith("/?")]
    kept = PageQuery(paper=PAPER, facets=(Facet.METHOD,), year_from=2015)
    first = next(link for link in links if link.like)
    assert kept == replace(first, like=())
    assert {(Facet.METHOD,)} == {each.facets for link in links for each in (*link.like, *link.not_like)}
    assert any(link.not_like == first.like and not link.like for link in links)


@pytest.mark.parametrize(
    ("ending", "media_type", "begins"),
    [
        ("bib", "application/x-bibtex", "@"),
        ("ris", "application/x-research-info-systems", "TY  - "),
        ("csv", "text/csv", '\ufeff"rank","score","strength","nearer_than","id","title"'),
    ],
)
def test_results_are_saved_as_files(client: TestClient, ending: str, media_type: str, begins: str) -> None:
    """The file links give the papers of the page; the table begins with the mark by which Excel reads it."""
    page = page_at(client, f"/?paper={PAPER}&facet=method")
    links = [each["href"] for each in page.all("a") if f"results.{ending}" in each.get("href", "")]
    assert ["", "&whole=1"] == [link.removeprefix(links[0]) for link in links]
    answer = client.get(links[0])
    assert (200, f"{media_type}; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    assert answer.text.lstrip().startswith(begins)
    assert "attachment" in answer.headers["content-disposition"]
    out = client.post("/v1/search", json={"query": {"paper_id": PAPER}, "facet": "method"}).json()
    assert all(result["paper"]["authors"][0].split()[-1] in answer.text for result in out["results"])


def test_the_command_line_asks_the_same(client: TestClient) -> None:
    """The shown command is one curl call with the body of the page's query."""
    page = page_at(client, "/?text=it's+%22quoted%22+%24(here)+%60now%60")
    text = page.text[page.text.index("curl '") if "curl '" in page.text else page.text.index("curl http") :]
    words = shlex.split(text[: text.rindex("}'") + 2])
    assert ["curl", "http://testserver/v1/search"] == words[:2]
    assert {"query": {"text": 'it\'s "quoted" $(here) `now`'}, "limit": 10} == json.loads(words[-1])


def test_a_title_typed_leads_to_its_paper(client: TestClient) -> None:
    """Without scripts, a mistyped title gets a link to its paper, and an id leads to it at once."""
    page = page_at(client, "/?text=vital+sings+without+lables")
    assert "/?paper=demo%3Ap01-m00" in [each["href"] for each in page.all("a") if "href" in each]
    at_once = page_at(client, "/?text=demo:p01-m00")
    assert 'value="demo:p01-m00"' in client.get("/?text=demo:p01-m00").text
    assert at_once.all("input", name="paper")


def test_one_card_is_opened_at_a_time(client: TestClient) -> None:
    """The address names the opened card, and the other cards have a link to open them."""
    page = page_at(client, f"/?paper={PAPER}&open=2")
    assert 1 == len(page.all("details", class_="why"))
    assert 9 == len(page.all("a", class_="why"))
    assert "Which sentences match" in page.text


def test_a_text_may_be_compared_with_a_facet(client: TestClient) -> None:
    """A text can be compared with a facet's sentences, even with further papers."""
    (chip,) = page_at(client, "/?text=graph networks").all("a", id="facet-method")
    page = page_at(client, chip["href"])
    assert ["true"] == [each["aria-current"] for each in page.all("a", id="facet-method")]
    body = {"query": {"text": "graph networks"}, "facet": "method"}
    results = client.post("/v1/search", json=body).json()["results"]
    assert [each["paper"]["id"] for each in results] == ranked_ids(page)
    more = page_at(client, f"{chip['href']}&like={PAPER}")
    assert ["true"] == [each["aria-current"] for each in more.all("a", id="facet-method")]
    assert ranked_ids(more)
