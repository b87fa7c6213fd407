"""Tests of the contract that every lookup service in SERVICES meets."""

import re
from urllib.parse import unquote

import httpx
import pytest

from indexer.corpus.lookup.services import SERVICES
from models.errors import ServiceError
from tests.support.examples.lookup_answers import LookupServices
from tests.support.outside_data import outside_data

# The number to look up at each service, which its faked answer contains.
IDS = {"doi": "10.5555/lamp.1", "arxiv": "9912.00007", "pmid": "41"}
BOMB = b'<!DOCTYPE a [<!ENTITY b "b"><!ENTITY c "&b;&b;&b;&b;">]><a>&c;</a>'

MARKUP = re.compile(r"</?[a-z][a-z:-]{0,20}(?:\s[^<>=]{1,40}=[^<>]*)?/?>|&[a-z]{2,6};", re.IGNORECASE)


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

    def test_real_answers(self, name: str) -> None:
        """Answers of the service itself give papers with a title and an abstract, without markup."""
        answers = sorted(outside_data(f"lookups/{name}").iterdir())
        papers = [paper for each in answers for paper in SERVICES[name].papers(each.read_bytes()).values()]
        with_abstract = [paper for paper in papers if paper.abstract]
        assert with_abstract
        for paper in with_abstract:
            abstract = paper.abstract if isinstance(paper.abstract, str) else " ".join(paper.abstract)
            assert paper.title
            assert MARKUP.findall(f"{paper.title} {abstract}") == []
