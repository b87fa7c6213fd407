"""Pages of the service, parsed without a browser."""

from html.parser import HTMLParser
from urllib.parse import urlsplit

from fastapi.testclient import TestClient
from starlette.datastructures import QueryParams

from service.web.address.page_query import PageQuery
from service.web.render import PAGE_POLICY

PAPER = "demo:p00-m00"


class Page(HTMLParser):
    """A parser that stores the tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store a tag with its attributes."""
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        """Store text."""
        self.text += data

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        """Return the attributes of each ``tag`` with every value of ``wanted`` as a word of the attribute."""
        names = {name.rstrip("_"): value for name, value in wanted.items()}
        return [
            attrs
            for each, attrs in self.tags
            if each == tag and all(value in attrs.get(name, "").split() for name, value in names.items())
        ]


def page_at(client: TestClient, address: str, *, status: int = 200) -> Page:
    """Return the page at ``address``, after checks of status and headers."""
    answer = client.get(address)
    assert (status, "text/html; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    assert PAGE_POLICY == answer.headers["content-security-policy"]
    return Page(answer.text)


def query_of(link: str) -> PageQuery:
    """Return the query of a link of a page."""
    return PageQuery.of(QueryParams(urlsplit(link).query))


def ranked_ids(page: Page) -> list[str]:
    """Return the ids of the results, best first."""
    return [query_of(each["href"]).paper for each in page.all("a", title="Start")]
