"""A paper of the demo corpus, and the titles that page and service return for a query."""

import json

import httpx
from playwright.sync_api import Page

from tests.support.builds import DEMO_CORPUS

PAPERS = {
    paper["id"]: paper for paper in map(json.loads, DEMO_CORPUS.read_text(encoding="utf-8").splitlines())
}
PAPERS_BY_TITLE = {paper["title"]: paper for paper in PAPERS.values()}
ID = "demo:p03-m07"
PAPER = PAPERS[ID]
QUERY_PATH = f"/?paper={ID}"


def shown(page: Page) -> list[str]:
    """Return the titles of the cards, best first."""
    return page.locator("article.card h3").all_inner_texts()


def answered(site: str, path: str = "/v1/search", **body: object) -> list[str]:
    """Return the titles that the API of the service answers a query with."""
    answer = httpx.post(f"{site}{path}", json=body).raise_for_status().json()
    return [result["paper"]["title"] for result in answer["results"]]
