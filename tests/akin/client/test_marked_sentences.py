"""Tests of the sentences that each interface marks as the match."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

import akin
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer
from akin.local.collection import Collection
from service.app import create_app
from service.settings import Settings
from tests.support.commands import run
from tests.support.servers.loopback import served

PAPER, OTHER, UNLIKE = "demo:p03-m07", "demo:p05-m02", "demo:p01-m07"
TEXT = "Graph networks forecast floods."
SEEDS: dict[str, Any] = {"seeds": [PAPER, OTHER], "negatives": [UNLIKE]}


@pytest.fixture(scope="module")
def address(hashed_data: Path) -> Iterator[str]:
    """Yield the address of a service over the demo corpus."""
    with served(create_app(Settings(data=hashed_data, device="cpu"))) as address:
        yield address


def on_cards(html: str) -> list[list[str]]:
    """Return the marked sentences of each card."""
    marks = (re.findall(r'<span class="sentence w\d+"[^>]*>(.*?)</span>', card) for card in cards_in(html))
    return [[unescape(re.sub("</?mark>", "", mark)) for mark in card] for card in marks]


def cards_in(html: str) -> list[str]:
    """Return the cards of a page or a notebook."""
    return html.split("<article")[1:]


def in_terminal(shown: str) -> list[list[str]]:
    """Return the marked sentences of each result in the output of a command."""
    results = re.split(r"^ ?\d+\. ", shown, flags=re.M)[1:]
    return [re.findall(r"^ {5,7}\d+% (.*?)(?:  [←≠].*)?$", result, re.M) for result in results]


@pytest.mark.parametrize(
    ("keywords", "options", "page"),
    [
        ({"paper_id": PAPER}, ("search", "--paper", PAPER), f"paper={PAPER}"),
        (
            {"paper_id": PAPER, "facet": "method", "unlike": {"facet": "background"}},
            ("search", "--paper", PAPER, "--facet", "method", "--unlike", "background"),
            f"paper={PAPER}&facet=method&unlike=background",
        ),
        (
            {"paper_id": PAPER, "sentences": [1, 3]},
            ("search", "--paper", PAPER, "--sentences", "1,3"),
            f"paper={PAPER}&s=1&s=3",
        ),
        ({"text": TEXT}, ("search", "--text", TEXT), f"text={TEXT}"),
        (
            SEEDS,
            ("recommend", PAPER, OTHER, "--unlike", UNLIKE),
            f"paper={PAPER}&like={OTHER}&not={UNLIKE}",
        ),
    ],
    ids=["paper", "facet", "sentences", "text", "seeds"],
)
def test_every_interface_marks_the_same_sentences(
    hashed_data: Path, address: str, keywords: dict[str, Any], options: tuple[str, ...], page: str
) -> None:
    """Page, notebook, client, library and command line mark the same sentences of each result."""

    def found(of: akin.Client | Collection) -> SearchAnswer | RecommendationsAnswer:
        return of.recommend(**keywords) if "seeds" in keywords else of.search(**keywords)

    with akin.Client(address) as client, akin.open(hashed_data, device="cpu") as collection:
        answers = [found(client), found(collection)]
    expected = [{text for text, _ in result.matching()} for result in answers[0]]
    assert 10 == len(expected)
    assert all(expected)
    assert sum(map(len, expected)) < sum(len(result.paper.sentences) for result in answers[0]) * 2 / 3
    shown = [[{text for text, _ in result.matching()} for result in answers[1]]]
    shown += [list(map(set, on_cards(str(answer._repr_html_())))) for answer in answers]
    shown.append(list(map(set, on_cards(httpx.get(f"{address}/?{page}").text))))
    for place in (("--data", hashed_data), ("--url", address)):
        shown.append(list(map(set, in_terminal(run(*options, *place, "--limit", "10", width=2_000)))))
    assert [expected] * len(shown) == shown
