"""Looking up entries with only a name, against answers of the documented shapes."""

import csv
import json
from pathlib import Path

import httpx
import pytest

from indexer.corpus.lookup.found import FoundPapers, note_unresolved
from indexer.corpus.lookup.look_up import LookupReport, look_up
from indexer.corpus.lookup.throttled_client import ThrottledClient
from indexer.corpus.read import CorpusReport, Unresolved, read_corpus
from models.types import Facet
from tests.support.builds import quiet
from tests.support.examples.corpus_examples import write_lines
from tests.support.examples.lookup_answers import ARXIV, CROSSREF, LookupServices


def ask(services: LookupServices, folder: Path, *corpora: Path) -> LookupReport:
    """Look up the names in ``corpora``."""
    transport = httpx.MockTransport(services)
    with ThrottledClient(contact="ada@example.org", transport=transport, sleep=lambda _: None) as client:
        return look_up(corpora, folder, client, on_progress=quiet)


def ask_text(text: str, folder: Path, corpus: Path) -> LookupReport:
    """Look up the names in ``corpus`` when every answer is ``text``."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text=text))
    with ThrottledClient(transport=transport, sleep=lambda _: None) as client:
        return look_up([corpus], folder, client, on_progress=quiet)


def test_names_are_requested_from_the_service_that_knows_them(tmp_path: Path) -> None:
    """Each name is requested from its service, in as few requests as possible; unknown names are listed."""
    corpus = write_lines(tmp_path, "10.5555/Lamp.1", "9912.00007", "9912.00008", "pmid:41", "10.5555/b")
    services = LookupServices()
    report = ask(services, tmp_path / "lookups", corpus)
    assert (5, 3, ["arxiv:9912.00008", "doi:10.5555/b"], {}) == (
        report.n_looked_up,
        report.n_found,
        report.unknown,
        report.failed,
    )
    assert [
        "/api/query?id_list=9912.00007%2C9912.00008&max_results=2",
        "/entrez/eutils/efetch.fcgi?db=pubmed&id=41&retmode=xml&tool=akin&email=ada%40example.org",
        "/works/10.5555%2Flamp.1",
        "/works/10.5555%2Fb",
    ] == [url.raw_path.decode() for url in services.urls]


def test_names_become_papers(tmp_path: Path) -> None:
    """Found names become papers with all fields that the services give; the others stay unresolved."""
    corpus = write_lines(tmp_path, "10.5555/Lamp.1", "9912.00007", "9912.00008", "pmid:41")
    ask(LookupServices(), tmp_path / "lookups", corpus)
    rows = CorpusReport()
    lamps, primes, salt = read_corpus(corpus, report=rows, found=FoundPapers(tmp_path / "lookups"))
    assert ("doi:10.5555/lamp.1", "Lamps of Old", "Lamps are dim. We fit bulbs.", 2019, "Lamp Letters") == (
        lamps.id,
        lamps.title,
        lamps.abstract,
        lamps.year,
        lamps.venue,
    )
    assert ("Ada Quill", "The Lamp Group") == lamps.authors
    assert ("Gaps between Invented Primes", 2020, "10.5555/primes", ("math.PR",)) == (
        primes.title,
        primes.year,
        primes.doi,
        primes.fields,
    )
    assert ("pmid:41", Facet.METHOD) == (salt.id, salt.sentences[0].facet)
    assert ["arxiv:9912.00008"] == [each.lookup for each in rows.unresolved]


def test_what_was_found_is_not_requested_again(tmp_path: Path) -> None:
    """Names found before are not requested again, even if an interruption left half a line."""
    corpus = write_lines(tmp_path, "9912.00007", "pmid:41")
    ask(LookupServices("eutils.ncbi.nlm.nih.gov"), tmp_path / "lookups", corpus)
    with (tmp_path / "lookups" / "found.jsonl").open("ab") as stream:
        stream.write(b'{"lookup": "pmid:4')
    services = LookupServices()
    assert 1 == ask(services, tmp_path / "lookups", corpus).n_found
    assert ["eutils.ncbi.nlm.nih.gov"] == [url.host for url in services.urls]
    assert {"arxiv:9912.00007", "pmid:41"} == set(FoundPapers(tmp_path / "lookups"))


def test_a_service_that_fails_is_given_up_and_the_others_are_used(tmp_path: Path) -> None:
    """A failing service is reported with the reason, and the other services are used."""
    corpus = write_lines(tmp_path, "9912.00007", "pmid:41", "10.5555/lamp.1")
    report = ask(LookupServices("export.arxiv.org"), tmp_path / "lookups", corpus)
    assert ({"arXiv": "export.arxiv.org: it answers 503"}, 2) == (report.failed, report.n_found)


@pytest.mark.parametrize("status", [400, 410, 414])
def test_a_name_that_is_refused_holds_up_no_other(tmp_path: Path, status: int) -> None:
    """A refused name is reported with the reason, even if it was one of several in a request."""
    numbers = [f"pmid:{n}" for n in (7, 8, 41, 9)]
    corpus = write_lines(tmp_path, "10.5555/bad", "10.5555/lamp.1", *numbers)
    services = LookupServices()

    def answer(request: httpx.Request) -> httpx.Response:
        given = services(request)
        refused = request.url.path.endswith("bad") or "8" in request.url.params.get("id", "").split(",")
        return httpx.Response(status) if refused else given

    with ThrottledClient(transport=httpx.MockTransport(answer), sleep=lambda _: None) as client:
        report = look_up([corpus], tmp_path / "lookups", client, on_progress=quiet)
    assert {
        "pmid:8": f"eutils.ncbi.nlm.nih.gov: it answers {status}",
        "doi:10.5555/bad": f"api.crossref.org: it answers {status}",
    } == report.refused
    assert (6, 2, ["pmid:7", "pmid:9"], {}) == (
        report.n_looked_up,
        report.n_found,
        report.unknown,
        report.failed,
    )


@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_a_service_that_refuses_everybody_is_given_up(tmp_path: Path, status: int) -> None:
    """A service that answers with 401, 403, 429 or 500 gets no requests for other names."""
    corpus = write_lines(tmp_path, "10.5555/a", "10.5555/b")
    paths = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return httpx.Response(status)

    with ThrottledClient(transport=httpx.MockTransport(answer), sleep=lambda _: None) as client:
        report = look_up([corpus], tmp_path / "lookups", client, on_progress=quiet)
    assert ({"Crossref": f"api.crossref.org: it answers {status}"}, {}) == (report.failed, report.refused)
    assert {"/works/10.5555/a"} == set(paths)


def test_a_paper_may_have_another_name_at_its_service(tmp_path: Path) -> None:
    """A paper keeps the requested id if Crossref redirects its DOI or arXiv leaves the subject class out."""
    corpus = write_lines(tmp_path, "10.5555/alias", "math.GT/9912007", "math.GT/9912008")
    paths = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.raw_path.decode())
        if request.url.path.endswith("alias"):
            return httpx.Response(301, headers={"Location": "/works/10.5555%2Flamp.1"})
        if request.url.host == "export.arxiv.org":
            return httpx.Response(200, text=ARXIV.replace("9912.00007v2", "math/9912007v1"))
        return LookupServices()(request)

    with ThrottledClient(transport=httpx.MockTransport(answer), sleep=lambda _: None) as client:
        report = look_up([corpus], tmp_path / "lookups", client, on_progress=quiet)
    assert paths[0].startswith("/api/query?id_list=math%2F9912007%2Cmath%2F9912008&")
    assert ["arxiv:math.gt/9912008"] == report.unknown
    papers = read_corpus(corpus, found=FoundPapers(tmp_path / "lookups"))
    assert ["doi:10.5555/alias", "arxiv:math.gt/9912007"] == [paper.id for paper in papers]


@pytest.mark.parametrize("text", ["{", "<html>", '{"message": 7}', "[]"])
def test_answers_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    """Unreadable answers give no papers, and arXiv and PubMed count as failed."""
    corpus = write_lines(tmp_path, "9912.00007", "pmid:41", "10.5555/lamp.1")
    report = ask_text(text, tmp_path / "lookups", corpus)
    assert 0 == report.n_found
    assert {"arXiv", "PubMed"} <= report.failed.keys()


def test_a_paper_without_an_abstract_is_written_down(tmp_path: Path) -> None:
    """A paper found without an abstract stays unresolved, is counted, and is not requested again."""
    corpus = write_lines(tmp_path, "10.5555/lamp.1")
    bare = {"message": {key: value for key, value in CROSSREF["message"].items() if key != "abstract"}}
    assert 1 == ask_text(json.dumps(bare), tmp_path / "lookups", corpus).without_abstract
    assert 0 == ask_text(json.dumps(bare), tmp_path / "lookups", corpus).n_looked_up
    report = CorpusReport()
    assert [] == list(read_corpus(corpus, report=report, found=FoundPapers(tmp_path / "lookups")))
    assert ["Lamps of Old"] == [each.title for each in report.unresolved]


def test_the_table_of_unresolved_entries(tmp_path: Path) -> None:
    """The table replaces the entries of the files read last, keeps other files' and escapes formulas."""
    first, second = tmp_path / "a.bib", tmp_path / "b.bib"
    folder = tmp_path / "lookups"
    assert note_unresolved(folder, [], [first]) is None
    assert not folder.exists()
    note_unresolved(folder, [Unresolved("doi:10.5/a", "=1+1", str(first), 3)], [first])
    path = note_unresolved(folder, [Unresolved("pmid:4", "T", str(second), 1)], [second])
    assert path is not None
    with path.open(encoding="utf-8", newline="") as stream:
        assert [
            ["id", "title", "file", "line"],
            ["doi:10.5/a", "'=1+1", str(first), "3"],
            ["pmid:4", "T", str(second), "1"],
        ] == list(csv.reader(stream))
    assert path == note_unresolved(folder, [], [first])
    assert note_unresolved(folder, [], [second]) is None


@pytest.mark.parametrize("title", ["＝1+1", "\t=1", "a; =1+1"])
def test_no_title_in_the_table_is_a_formula(tmp_path: Path, title: str) -> None:
    """A title that a spreadsheet may read as a formula is escaped: full-width, after a tab or semicolon."""
    path = note_unresolved(tmp_path, [Unresolved("pmid:4", title, "a.bib", 1)], [])
    assert path is not None
    (_, (_, shown, *_)) = csv.reader(path.read_text(encoding="utf-8").splitlines())
    assert title != shown
    assert title == shown.replace("'", "")


def test_progress_is_reported(tmp_path: Path) -> None:
    """Progress is reported while a corpus is scanned and while services are requested."""
    progress: list[tuple[str, int, int | None]] = []
    corpus = write_lines(tmp_path, *(f"pmid:{n}" for n in range(1, 1_003)))
    transport = httpx.MockTransport(LookupServices())
    with ThrottledClient(transport=transport, sleep=lambda _: None) as client:
        look_up([corpus], tmp_path / "lookups", client, on_progress=lambda *each: progress.append(each))
    assert [("Scanning", 0, None), ("Scanning", 1_000, None), ("Scanning", 1_002, 1_002)] == progress[:3]
    assert ("Looking up", 1_002, 1_002) == progress[-1]


def test_a_service_of_many_names_that_is_elsewhere_is_given_up(tmp_path: Path) -> None:
    """A service that redirects elsewhere is given up after one request, without trying fewer names."""
    corpus = write_lines(tmp_path, *(f"9912.{number:05}" for number in range(20)))
    urls: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(request.url)
        return httpx.Response(302, headers={"Location": "https://elsewhere.example.org"})

    with ThrottledClient(transport=httpx.MockTransport(answer), sleep=lambda _: None) as client:
        report = look_up([corpus], tmp_path / "lookups", client, on_progress=quiet)
    assert (1, {}, ["arXiv"]) == (len(urls), report.refused, [*report.failed])
