"""Tests of query texts that are the name of a paper instead of words."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support.answers import warned
from tests.support.clients import client_of


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus."""
    with client_of(hashed_data) as client:
        yield client


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("https://doi.org/10.1000/absent", "address"),
        ("10.1000/absent", "identifier"),
        ("doi: 10.1000/absent", "identifier"),
        ("arXiv:2106.15928", "identifier"),
        ("PMID: 12345678", "identifier"),
        ("whales sing, see https://doi.org/10.1000/absent", None),
        ("graphs", None),
    ],
)
def test_a_text_that_names_a_paper_has_a_warning(client: TestClient, text: str, kind: str | None) -> None:
    """A text that is only a paper's address or identifier gets a warning; one with other words gets none."""
    for path, body in (
        ("search", {"query": {"text": text}}),
        ("recommendations", {"seeds": [{"text": text}]}),
    ):
        answer = client.post(f"/v1/{path}", json=body)
        assert 200 == answer.status_code, answer.text
        assert (None if kind is None else [kind]) == dict(warned(answer.json())).get("text_is_name")
