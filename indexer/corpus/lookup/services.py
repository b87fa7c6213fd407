"""Builds requests to Crossref, arXiv and PubMed, and parses their answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote
from xml.etree.ElementTree import Element, ParseError

import orjson
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from indexer.corpus.formats.pubmed import RECORDS as PUBMED_RECORDS
from indexer.corpus.formats.pubmed import raw_paper as pubmed_paper
from indexer.corpus.library.csl import raw_paper as crossref_paper
from indexer.corpus.library.latex import from_latex
from indexer.corpus.library.names import bare_arxiv
from indexer.corpus.rows import RawPaper, at
from models.errors import ServiceError

_ATOM: Final = "{http://www.w3.org/2005/Atom}"
_ARXIV: Final = "{http://arxiv.org/schemas/atom}"


@dataclass(frozen=True, slots=True)
class Service:
    """A public service: at most ``at_once`` papers per request, and one request every ``every_s`` seconds.

    ``address`` returns the URL and parameters of a request for names, given a contact; ``papers`` returns the
    papers in an answer by their lookup; ``known_as`` returns a name as the service itself writes it.
    """

    name: str
    at_once: int
    every_s: float
    address: Callable[[Sequence[str], str], tuple[str, dict[str, str]]]
    papers: Callable[[bytes], dict[str, RawPaper]]
    known_as: Callable[[str], str] = str


def _crossref_address(dois: Sequence[str], _contact: str) -> tuple[str, dict[str, str]]:
    return f"https://api.crossref.org/works/{quote(dois[0], safe='')}", {}


def _crossref_papers(body: bytes) -> dict[str, RawPaper]:
    try:
        work = at(orjson.loads(body), "message")
    except orjson.JSONDecodeError as error:
        raise _unreadable("Crossref", error) from error
    doi = at(work, "DOI")
    if not isinstance(work, dict) or not isinstance(doi, str):
        return {}
    return {f"doi:{doi.lower()}": crossref_paper(work)}


def _arxiv_address(numbers: Sequence[str], _contact: str) -> tuple[str, dict[str, str]]:
    params = {"id_list": ",".join(numbers), "max_results": str(len(numbers))}
    return "https://export.arxiv.org/api/query", params


def _arxiv_known_as(number: str) -> str:
    """Return an old number without its subject class: arXiv has ``math.gt/0309136`` as ``math/0309136``."""
    archive, slash, digits = number.partition("/")
    return archive.partition(".")[0] + slash + digits if slash else number


def _arxiv_papers(body: bytes) -> dict[str, RawPaper]:
    entries = _xml("arXiv", body).iter(f"{_ATOM}entry")
    papers = [paper for paper in map(_arxiv_paper, entries) if paper is not None]
    return {str(paper.lookup): paper for paper in papers}


def _arxiv_paper(entry: Element) -> RawPaper | None:
    """Return the paper of an entry, or ``None`` for an error, which has another kind of id."""
    number = bare_arxiv(entry.findtext(f"{_ATOM}id", ""))
    if number is None:
        return None
    return RawPaper(
        id=f"arxiv:{number}",
        title=from_latex(entry.findtext(f"{_ATOM}title", "")) or None,
        abstract=from_latex(entry.findtext(f"{_ATOM}summary", "")) or None,
        year=entry.findtext(f"{_ATOM}published", "")[:4] or None,
        venue=entry.findtext(f"{_ARXIV}journal_ref"),
        authors=[name.text or "" for name in entry.iter(f"{_ATOM}name")],
        url=f"https://arxiv.org/abs/{number}",
        doi=entry.findtext(f"{_ARXIV}doi"),
        fields=[each.get("term", "") for each in entry.iter(f"{_ATOM}category")],
        lookup=f"arxiv:{number}",
    )


def _pubmed_address(numbers: Sequence[str], contact: str) -> tuple[str, dict[str, str]]:
    params = {"db": "pubmed", "id": ",".join(numbers), "retmode": "xml", "tool": "akin"}
    return (
        "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi",
        params | ({"email": contact} if contact else {}),
    )


def _pubmed_papers(body: bytes) -> dict[str, RawPaper]:
    root = _xml("PubMed", body)
    papers = (pubmed_paper(record) for tag in PUBMED_RECORDS for record in root.iter(tag))
    return {paper.id: paper for paper in papers if isinstance(paper.id, str)}


def _xml(name: str, body: bytes) -> Element:
    try:
        root: Element = fromstring(body)
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise _unreadable(name, error) from error
    return root


def _unreadable(name: str, error: Exception) -> ServiceError:
    return ServiceError(f"{name}: its answer cannot be read ({error})", type="lookup", status=None)


# By the prefix of a lookup. The arXiv requires three seconds between requests; PubMed and Crossref allow
# three and five requests per second.
SERVICES: Final[Mapping[str, Service]] = {
    "arxiv": Service("arXiv", 50, 3.0, _arxiv_address, _arxiv_papers, _arxiv_known_as),
    "pmid": Service("PubMed", 100, 0.4, _pubmed_address, _pubmed_papers),
    "doi": Service("Crossref", 1, 0.25, _crossref_address, _crossref_papers),
}
