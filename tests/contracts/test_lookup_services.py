"""Tests of the contract that every lookup service in SERVICES meets."""

from urllib.parse import unquote

import httpx
import pytest

from indexer.corpus.lookup.services import SERVICES
from models.errors import ServiceError
from tests.support.examples.lookup_answers import LookupServices

# The number to look up at each service, which its faked answer contains.
IDS = {"doi": "10.5555/lamp.1", "arxiv": "9912.00007", "pmid": "41"}
BOMB = b'<!DOCTYPE a [<!ENTITY b "b"><!ENTITY c "&b;&b;&b;&b;">]><a>&c;</a>'


def answer(name: str) -> bytes:
    """Return the body of the service's answer to a request for that paper."""
    url, parameters = SERVICES[name].address([IDS[name]], "")
    with httpx.Client(transport=httpx.MockTransport(LookupServices())) as client:
        return client.get(url, params=parameters).content


def test_every_service_is_tested() -> None:
    """Every service has a number to look up here."""
    assert set(IDS) == set(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
class TestEveryLookupService:
    def test_one_request_asks_for_as_many_as_it_says(self, name: str) -> None:
        """A request uses TLS, contains each number, and adds at most the contact; a pause follows."""
        service = SERVICES[name]
        numbers = [f"{IDS[name]}{i:03}" for i in range(service.at_once)]
        url, parameters = service.address(numbers, "")
        assert url.startswith("https://")
        assert [] == [
            number for number in numbers if number not in unquote(url) + ",".join(parameters.values())
        ]
        same_url, with_contact = service.address(numbers, "me@example.org")
        assert url == same_url
        assert {"me@example.org"} >= {*with_contact.values()} - {*parameters.values()}
        assert service.every_s > 0

    def test_papers_are_returned_under_the_requested_names(self, name: str) -> None:
        """A found paper is keyed by the identifier requested, and has a title and an abstract."""
        (found,) = SERVICES[name].papers(answer(name)).items()
        lookup, paper = found
        assert f"{name}:{IDS[name]}" == lookup
        assert paper.title
        assert paper.abstract

    @pytest.mark.parametrize("body", [b"", b"<html>busy", b'{"message"', b"\xff\xfe", BOMB])
    def test_an_answer_of_another_shape_names_the_service(self, name: str, body: bytes) -> None:
        """HTML pages, truncated answers and entity bombs raise an error with the name of the service."""
        with pytest.raises(ServiceError, match=f"{SERVICES[name].name}: its answer cannot be read"):
            SERVICES[name].papers(body)
