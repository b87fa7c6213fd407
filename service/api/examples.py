"""Descriptions and examples of the OpenAPI document."""

from typing import Any, Final

# These work with any collection: they name no paper of a collection, unless that is the point.
_DRAFT: Final = {
    "title": "Forecasting floods with graphs",
    "abstract": "Floods are hard to forecast. We fit a graph network to river gauges. It warns a day ahead.",
}
_TEXT: Final = {"text": "graph networks forecast floods"}

DESCRIPTION: Final = """\
Akin finds papers similar to one you give, in the respect you choose, and shows which sentences match.

* **Start** with `POST /v1/search`: give a paper of the collection, a pasted title and abstract, or a few
  words; choose a `facet` (background, method, result) or `sentences` that count, and what results should be
  `unlike`.
* **Keys.** If the service has keys, send one as `Authorization: Bearer KEY` or `X-API-Key: KEY`;
  *Authorize* does so for requests made at `/docs`. Without keys the service accepts requests only from
  its own machine.
* **Errors** are `application/problem+json` (RFC 9457): `detail` says what was given, what was expected and
  what to do; `errors` names each invalid field.
* **Pages.** To get the next page, send `next_cursor` as `cursor` with the same request; null means the end
  of the list.
* Every response names the `generation` of the collection that it was read from.
"""

_PARTS: Final = {
    "search": "Papers and sentences similar to those given, and the facet of each sentence.",
    "match": "Two papers side by side; profiles, such as reviewers, near to papers.",
    "vectors": "The vectors that searches compare, for programs of your own.",
    "papers": "The papers of the collection: list, find by title, read, add, delete.",
    "batches": "Thousands of searches, recommendations or submissions at once, processed in the background.",
    "saved queries": "Queries saved under a name, their new results, and their feeds.",
    "Semantic Scholar": "Semantic Scholar's interface over this collection, for clients written for it.",
    "operations": "Whether the service is alive and ready, and its metrics.",
}
TAGS: Final = [{"name": name, "description": description} for name, description in _PARTS.items()]


def _example(summary: str, value: Any) -> dict[str, Any]:
    return {"summary": summary, "value": value}


# Bodies of POST or PUT requests, by path.
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "/v1/search": {
        "text": _example("A few words", {"query": _TEXT, "limit": 3}),
        "draft": _example(
            "Papers that use the method of a draft", {"query": _DRAFT, "facet": "method", "limit": 3}
        ),
        "contrast": _example(
            "The same method, another problem",
            {"query": _DRAFT, "sentences": [1], "unlike": {"sentences": [0]}, "limit": 3},
        ),
        "filtered": _example(
            "Only some years, and fewer details of each result",
            {"query": _TEXT, "filters": {"year_from": 2015}, "include": ["highlights"]},
        ),
    },
    "/v1/recommendations": {
        "seeds": _example(
            "Like two papers, unlike a third",
            {
                "seeds": [{**_DRAFT, "facet": "method"}, {"paper_id": "demo:p03-m07"}],
                "negatives": ["demo:p01-m07"],
                "limit": 3,
            },
        )
    },
    "/v1/sentences/search": {
        "meaning": _example("What says the same", {"query": {"text": "We release our code."}, "limit": 3})
    },
    "/v1/analyze": {"draft": _example("A draft", _DRAFT)},
    "/v1/compare": {"drafts": _example("A draft and a shorter one", {"a": _DRAFT, "b": _TEXT})},
    "/v1/match": {
        "reviewers": _example(
            "A submission and two profiles",
            {
                "submissions": [_DRAFT],
                "profiles": [
                    {"name": "Ada", "papers": ["demo:p02-m01", "demo:p02-m06"]},
                    {"name": "Ben", "papers": ["demo:p03-m07"]},
                ],
                "limit": 2,
            },
        )
    },
    "/v1/profiles/{name}": {
        "reviewer": _example(
            "What a reviewer has written", {"papers": ["demo:p02-m01", "demo:p02-m06"], "quota": 4}
        )
    },
    "/v1/embed": {"draft": _example("A draft", {"papers": [_DRAFT]})},
    "/v1/papers": {
        "one": _example(
            "A paper to add, or to replace the one with the same id",
            {"papers": [{"id": "mine/1", **_DRAFT, "year": 2026, "authors": ["Ada Ann"]}]},
        )
    },
    "/v1/papers/fetch": {"names": _example("By any of their names", {"ids": ["demo:p03-m07", "10.1/x"]})},
    "/v1/batches": {
        "queries": _example("Searches of their own", {"queries": [{"query": _TEXT}, {"query": _DRAFT}]}),
        "seeds": _example("One shape for many papers", {"seeds": ["demo:p03-m07"], "facet": "method"}),
        "profiles": _example(
            "New papers for readers",
            {
                "profiles": [{"name": "Ada", "papers": ["demo:p02-m01", "demo:p02-m06"]}],
                "filters": {"year_from": 2020},
                "limit": 5,
            },
        ),
        "match": _example(
            "Reviewers for submissions",
            {
                "match": {
                    "submissions": [{"paper_id": "demo:p03-m07"}, _DRAFT],
                    "profiles": [
                        {"name": "Ada", "papers": ["demo:p02-m01", "demo:p02-m06"]},
                        {"name": "Ben", "papers": ["demo:p01-m02"]},
                    ],
                }
            },
        ),
    },
    "/v1/queries": {
        "search": _example("A search", {"name": "floods", "search": {"query": _TEXT}}),
        "recommendations": _example(
            "Likes and dislikes",
            {"name": "graphs", "recommendations": {"seeds": ["demo:p03-m07"], "negatives": ["demo:p01-m07"]}},
        ),
    },
    "/v1/queries/{query_id}/seen": {"all": _example("Papers up to change 12 were read", {"up_to": 12})},
    "/recommendations/v1/papers/": {
        "lists": _example("Two lists", {"positivePaperIds": ["demo:p03-m07"], "negativePaperIds": []})
    },
    "/graph/v1/paper/batch": {"ids": _example("By their names", {"ids": ["demo:p03-m07", "DOI:10.1/x"]})},
}
