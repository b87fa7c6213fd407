"""Tests of papers found by DOIs, arXiv, ACL and PubMed ids, and addresses."""

from functools import partial
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import publish_pending
from indexer.corpus.rows import RawPaper, to_paper
from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment import Segment
from models.encoder import Encoder
from models.errors import DeadlineError, PaperNotFoundError
from service.app import create_app
from service.context import with_deadline
from service.resolve.identifiers import Identifiers
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.annotators import annotated
from tests.support.builds import many_papers, quiet
from tests.support.sentence_engines import small_engine

# Ids of papers in the collection, with their other names.
PAPERS: dict[str, dict[str, object]] = {
    "plain:1": {"doi": "10.1093/Mind/LIX.236.433"},
    "arxiv:2106.15928": {"url": "https://arxiv.org/abs/2106.15928"},
    "arxiv:math/0309136": {},
    "acl:P18-1001": {"url": "https://aclanthology.org/P18-1001/"},
    "acl:2020.acl-main.447": {"doi": "10.18653/v1/2020.acl-main.447"},
    "s2:77490025": {"url": "https://www.semanticscholar.org/paper/649def34f8be52c8b66281af98ae884c09aef38b"},
    "openalex:W112218234": {"doi": "10.1000/same"},
    "pmid:19872477": {"doi": "10.1000/same"},
    "pmcid:PMC2323736": {},
    "s2:649def34f8be52c8b66281af98ae884c09aef38b": {},
    "1706.03762": {},
    "DOI:10.9999/an.id": {"doi": "10.1000/another"},
    "plain:2": {"url": "http://Example.ORG/Papers/7/"},
    "plain:3": {"doi": "10.9999/an.id"},
    "plain:4": {"url": "http://www.arxiv.org/abs/2301.00001"},
    "plain:5": {"doi": "10.9999/İΣ"},
    "10.2000/Xyz": {},
    "doi:10.2000/other": {},
    "arXiv:2001.00001": {},
}

SAME = [
    ("plain:1", "plain:1"),
    ("DOI:10.1093/mind/lix.236.433", "plain:1"),
    ("doi: 10.1093/MIND/LIX.236.433", "plain:1"),
    ("10.1093/mind/lix.236.433", "plain:1"),
    ("URL:https://doi.org/10.1093/mind/lix.236.433", "plain:1"),
    ("https://dx.doi.org/10.1093%2Fmind%2Flix.236.433", "plain:1"),
    ("https://academic.oup.com/mind/article/doi/10.1093/mind/LIX.236.433/986238", "plain:1"),
    ("https://link.springer.com/content/pdf/10.48550/arXiv.2106.15928.pdf", "arxiv:2106.15928"),
    ("ARXIV:2106.15928", "arxiv:2106.15928"),
    ("arXiv:2106.15928v3", "arxiv:2106.15928"),
    ("DOI:10.48550/arXiv.2106.15928", "arxiv:2106.15928"),
    ("URL:https://arxiv.org/pdf/2106.15928v1.pdf", "arxiv:2106.15928"),
    ("ARXIV:math.GT/0309136", "arxiv:math/0309136"),
    ("ARXIV:1706.03762", "1706.03762"),
    ("2106.15928v2", "arxiv:2106.15928"),
    ("https://www.arxiv.org/html/2106.15928v2", "arxiv:2106.15928"),
    ("P18-1001", "acl:P18-1001"),
    ("PMID 19872477", "pmid:19872477"),
    ("https://www.ncbi.nlm.nih.gov/pubmed/19872477/", "pmid:19872477"),
    ("ACL:p18-1001", "acl:P18-1001"),
    ("URL:http://www.aclweb.org/anthology/P18-1001.pdf", "acl:P18-1001"),
    ("ACL:2020.ACL-main.447", "acl:2020.acl-main.447"),
    ("CorpusId:77490025", "s2:77490025"),
    ("CORPUSID: 77490025", "s2:77490025"),
    ("URL:https://api.semanticscholar.org/CorpusID:77490025", "s2:77490025"),
    ("MAG:112218234", "openalex:W112218234"),
    ("PMID:19872477", "pmid:19872477"),
    ("https://pubmed.ncbi.nlm.nih.gov/19872477/", "pmid:19872477"),
    ("PMCID:2323736", "pmcid:PMC2323736"),
    ("PMCID:pmc2323736", "pmcid:PMC2323736"),
    ("https://pmc.ncbi.nlm.nih.gov/articles/PMC2323736/", "pmcid:PMC2323736"),
    ("649DEF34F8BE52C8B66281AF98AE884C09AEF38B", "s2:649def34f8be52c8b66281af98ae884c09aef38b"),
    ("URL:https://example.org/Papers/7", "plain:2"),
    ("URL:https://www.example.org/Papers/7/#abstract", "plain:2"),
    ("URL:HTTPS://WWW.EXAMPLE.org/Papers/7", "plain:2"),
    # An exact id comes first; of several papers with one DOI the first is found.
    ("DOI:10.9999/an.id", "DOI:10.9999/an.id"),
    ("10.9999/an.id", "plain:3"),
    ("DOI:10.1000/same", "openalex:W112218234"),
    ("ARXIV:2301.00001v2", "plain:4"),
    ("10.9999/İΣ", "plain:5"),
    ("doi:10.9999/iσ", "plain:5"),
    ("https://doi.org/10.1093/Mind/LIX.236.433.", "plain:1"),
    ("DOI:10.1093/mind/lix.236.433;", "plain:1"),
    ("doi:10.2000/Xyz", "10.2000/Xyz"),
    ("https://doi.org/10.2000/Other", "doi:10.2000/other"),
    ("arxiv:2001.00001v1", "arXiv:2001.00001"),
    ("arXiv:2106.15928 [cs.CL]", "arxiv:2106.15928"),
    ("https://ar5iv.labs.arxiv.org/html/2106.15928", "arxiv:2106.15928"),
]

OTHERS = [
    "plain:9",
    "DOI:10.1093/mind",
    "DOI:",
    "PMID:77490025",  # a number of another register
    "19872477",
    "acl:p18-1001x",
    "URL:https://example.org/papers/7",  # paths are case-sensitive
    "http://[",
    "URL:",
    "\ud800",
    "DOI:10.1\x00/a",
    ":",
    "",
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> SearchEngine:
    """Return an engine over papers with all kinds of names."""
    papers = many_papers(len(PAPERS))
    for paper, (name, known) in zip(papers, PAPERS.items(), strict=True):
        paper |= {"id": name, **known}
    folder = tmp_path_factory.mktemp("named")
    return small_engine(folder, annotated(hashing), papers)


@pytest.fixture(scope="module")
def identifiers(engine: SearchEngine) -> Identifiers:
    """Return the identifiers of the engine's papers."""
    return engine.names.identifiers


@pytest.mark.parametrize(("given", "paper_id"), SAME)
def test_a_paper_is_found_by_its_names(identifiers: Identifiers, given: str, paper_id: str) -> None:
    """A paper is found by every name that a service gives it, in any case of prefix, DOI and host."""
    assert paper_id == identifiers.resolve(given)


@pytest.mark.parametrize("given", OTHERS)
def test_what_names_no_paper_finds_none(identifiers: Identifiers, given: str) -> None:
    """A name of no paper, or a malformed one, finds nothing."""
    assert identifiers.position(given) is None
    with pytest.raises(PaperNotFoundError, match="No paper of this collection"):
        identifiers.resolve(given)


def test_many_names_are_looked_up_as_each_alone(engine: SearchEngine) -> None:
    """Many ids, DOIs, titles and unknown names at once give what single ones give, within the deadline."""
    title = engine.snapshot.paper(0).title
    names = [given for given, _ in SAME] + [*OTHERS, title.upper(), f"{title} and no more", "plain:1"]
    alone: list[int | None] = []
    for name in names:
        try:
            alone.append(engine.names.position(name))
        except PaperNotFoundError:
            alone.append(None)
    assert alone == engine.names.positions(names)
    assert {0, None} < set(alone)

    for name in ("nobody", "no such title"):
        with pytest.raises(DeadlineError):
            with_deadline(0.0, partial(engine.names.positions, [name]))


def test_collections_without_dois_and_addresses(hashed_data: Path, plain_engine: object) -> None:
    """In a collection without DOIs and addresses, no paper is found by one."""
    identifiers = plain_engine.names.identifiers  # type: ignore[attr-defined]  # a SearchEngine
    assert identifiers.position("DOI:10.1093/mind/lix.236.433") is None
    assert identifiers.position("URL:https://example.org/7") is None


def test_names_are_found_in_all_segments_and_sorted_once(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replaced paper is found by its new DOI alone, and DOIs of an old segment are not sorted again."""
    papers = many_papers(40)
    papers[0] |= {"doi": "10.1000/Old", "url": "https://example.org/old"}
    papers[1] |= {"doi": "10.1000/stays"}
    before = small_engine(tmp_path, annotated(hashing), papers)
    replaced = str(papers[0]["id"])
    assert 0 == before.names.identifiers.position("10.1000/old")
    assert 0 == before.names.identifiers.position("https://example.org/old")

    read: list[tuple[int, str]] = []
    column = Segment.column

    def reading(own: Segment, name: str) -> object:
        read.append((len(own), name))
        return column(own, name)

    monkeypatch.setattr(Segment, "column", reading)
    data = tmp_path / "data"
    with Catalog.open(data / CATALOG_FILE) as catalog:
        new = papers[0] | {"doi": "10.1000/new", "url": None}
        catalog.add([to_paper(RawPaper(**new))])
        publish_pending(data, annotated(hashing), catalog, on_progress=quiet, keep=3)
    after = Identifiers(open_snapshot(data, beside=before.snapshot))
    assert replaced == after.resolve("10.1000/NEW")
    assert 40 == after.position("10.1000/new")
    assert 1 == after.position("10.1000/stays")
    assert after.position("10.1000/old") is None
    assert after.position("https://example.org/old") is None
    assert [(1, "doi"), (1, "url")] == [each for each in read if each[1] in {"doi", "url"}]


def test_papers_go_by_all_names_wherever_one_is_named(engine: SearchEngine) -> None:
    """Searches, sentence searches and paper routes accept a DOI in another case just like the id."""
    name = "https://doi.org/10.1093/MIND/lix.236.433"
    with TestClient(create_app(Settings(), engine)) as client:
        assert "plain:1" == client.get(f"/v1/papers/{name}").json()["paper"]["id"]
        assert "@misc" in client.get("/v1/papers/10.1093/mind/lix.236.433.bib").text
        for path, query in (("/v1/search", {}), ("/v1/sentences/search", {"sentence": 1})):
            by_id, by_name = (
                client.post(path, json={"query": {"paper_id": given, **query}}).json()
                for given in ("plain:1", name)
            )
            assert by_id["results"]
            assert by_id["results"] == by_name["results"]
        missing = client.post("/v1/search", json={"query": {"paper_id": "doi:10.1000/none"}})
        assert 404 == missing.status_code
