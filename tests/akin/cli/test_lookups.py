"""Tests of ``akin index`` with libraries: entries without abstracts, and keys that name another paper."""

from functools import partial
from pathlib import Path

import httpx
import pytest

import akin.cli.collection.lookups
from indexer.corpus.lookup.throttled_client import ThrottledClient
from tests.support.commands import flat, run
from tests.support.examples.corpus_examples import write_lines
from tests.support.examples.lookup_answers import LookupServices

ENTRIES = (
    "@misc{a, title={Whole}, abstract={We have an abstract.}}",
    "@misc{b, title={Primes}, eprint={9912.00007}}",
    "@misc{c, title={Nowhere}}",
)


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> LookupServices:
    """Return the faked public services; no other host can be reached."""
    answering = LookupServices()
    client = partial(ThrottledClient, transport=httpx.MockTransport(answering), sleep=lambda _: None)
    monkeypatch.setattr(akin.cli.collection.lookups, "ThrottledClient", client)
    return answering


def index(*arguments: str | Path, status: int = 0) -> str:
    """Return the output of indexing into a collection with the hashing encoder."""
    given = ("--encoder", "hashing", "--device", "cpu", *arguments)
    return flat(run("index", *given, status=status, width=400))


def unspaced(text: str) -> str:
    """Return the text without whitespace, as line wrapping may break a long path anywhere."""
    return "".join(text.split())


def test_entries_without_an_abstract_are_listed(tmp_path: Path, services: LookupServices) -> None:
    """Entries without an abstract are listed with file, line and identifier, and no request is sent."""
    corpus = write_lines(tmp_path, *ENTRIES, name="my.bib")
    shown = index(corpus, "--data", tmp_path / "data")
    assert "Indexed 1 paper " in shown
    table = tmp_path / "data" / "lookups" / "unresolved.csv"
    for said in (
        f"2 rows have no abstract and were skipped: {corpus}:2: no abstract (arxiv:9912.00007)",
        f"{corpus}:3: no abstract 1 of them can be looked up",
        f"with --fetch. {table} lists them.",
    ):
        assert unspaced(said) in unspaced(shown)
    assert '"arxiv:9912.00007","Primes"' in table.read_text(encoding="utf-8")
    assert [] == services.urls


def test_fetch_looks_them_up(tmp_path: Path, services: LookupServices) -> None:
    """``--fetch`` indexes the looked-up entries with the rest; running the command again sends no request."""
    corpus = write_lines(tmp_path, *ENTRIES, name="my.bib")
    shown = index(corpus, "--data", tmp_path / "data", "--fetch", "--contact", "ada@example.org")
    assert "Looked up 1 entries, found 1." in shown
    assert "Indexed 2 papers" in shown
    assert "1 abstract came from --fetch." in shown
    assert 1 == len(services.urls)
    assert "2 papers were already there" in index(corpus, "--data", tmp_path / "data")
    assert 1 == len(services.urls)


def test_a_list_of_ids_alone(tmp_path: Path, services: LookupServices) -> None:
    """A list of ids alone has no usable paper; the error suggests --fetch, which names unknown ids."""
    corpus = write_lines(tmp_path, "9912.00007", "10.5555/b", name="ids.txt")
    shown = index(corpus, "--data", tmp_path / "data", status=1)
    assert "no usable paper (no row has an abstract; 2 can be looked up with --fetch: " in shown
    assert (tmp_path / "data" / "lookups" / "unresolved.csv").exists()
    shown = index(corpus, "--data", tmp_path / "data", "--fetch")
    assert "1 are not known there: doi:10.5555/b" in shown
    assert "Indexed 1 paper " in shown


def test_services_that_fail_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a lookup service fails, the output names it and the other papers are indexed."""
    down = httpx.MockTransport(LookupServices("export.arxiv.org"))
    client = partial(ThrottledClient, transport=down, sleep=lambda _: None)
    monkeypatch.setattr(akin.cli.collection.lookups, "ThrottledClient", client)
    shown = index(write_lines(tmp_path, *ENTRIES, name="my.bib"), "--data", tmp_path / "data", "--fetch")
    assert "arXiv failed (export.arxiv.org: it answers 503)." in shown
    assert "Indexed 1 paper " in shown


def test_a_name_that_a_service_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An identifier refused by a service is named with the reason, without advice to try again."""
    transport = httpx.MockTransport(lambda _: httpx.Response(400))
    client = partial(ThrottledClient, transport=transport, sleep=lambda _: None)
    monkeypatch.setattr(akin.cli.collection.lookups, "ThrottledClient", client)
    corpus = write_lines(tmp_path, ENTRIES[0], "@misc{d, title={D}, doi={10.5555/d}}", name="my.bib")
    shown = index(corpus, "--data", tmp_path / "data", "--fetch")
    assert "1 were refused there: doi:10.5555/d (api.crossref.org: it answers 400)" in shown
    assert "Run the same command again" not in shown


def test_a_key_that_names_another_paper_is_reported(tmp_path: Path) -> None:
    """A paper that replaces one with an entirely different title is named with both titles."""
    first = ("@misc{a, title={Floods in rivers}, abstract={A.}}", "@misc{b, title={Lamps}, abstract={B.}}")
    index(write_lines(tmp_path, *first, name="my.bib"), "--data", tmp_path / "data")
    other = ("@misc{a, title={A flood}, abstract={A.}}", "@misc{b, title={On glowing stars}, abstract={C.}}")
    shown = index(write_lines(tmp_path, *other, name="other.bib"), "--data", tmp_path / "data")
    assert "2 of them replaced papers with the same id." in shown
    assert "1 paper replaced one with the same id and an entirely different title" in shown
    assert "b: 'Lamps' became 'On glowing stars'" in shown
    assert "'Floods in rivers'" not in shown
