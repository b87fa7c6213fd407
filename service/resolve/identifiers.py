"""Search for papers by the names of other services: DOIs, arXiv and ACL ids, PubMed numbers, addresses."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from indexer.corpus.library.names import doi_in, name_of
from indexer.snapshot.segment import Segment
from indexer.snapshot.snapshot import Snapshot
from models.errors import PaperNotFoundError

_DOI = re.compile(r"10\.\d{4,9}/\S+")
_ARXIV_DOI = "10.48550/arxiv."
_ARXIV_VERSION = re.compile(r"v\d+$")
_S2_HASH = re.compile(r"[0-9a-f]{40}")
_PMCID = re.compile(r"PMC\d{5,9}", re.IGNORECASE)
_OPENALEX = re.compile(r"W\d{5,12}", re.IGNORECASE)
_ANTHOLOGY_OLD = re.compile(r"[a-z]\d\d-\d{4,5}", re.IGNORECASE)
# What follows a prefix: numbers, arXiv's two forms, the Anthology's two, DOIs, hashes, addresses.
_FORM = re.compile(
    r"(?:w|pmc)?(?!\d{4}$)\d+|\d{4}\.\d{4,5}(?:v\d+)?|[a-z.-]+/\d{7}(?:v\d+)?|\d{4}\.[\w-]+\.\d+|https?://\S+|"
    + "|".join(each.pattern for each in (_ANTHOLOGY_OLD, _DOI, _S2_HASH)),
    re.IGNORECASE,
)
# The parts of an address that do not distinguish papers (nor do slashes at its end). The pattern is used for
# given and stored addresses, so Arrow's RE2 must be able to read it.
_NOT_IN_ADDRESS = r"^[A-Za-z]+://(?i:www\.|dx\.)?|(?s:#.*)"
_APART_FROM_IT = re.compile(_NOT_IN_ADDRESS)
MAX_NAME_CHARS = 4_000  # twice the longest address of a paper; longer names are not looked up


@dataclass(frozen=True, slots=True)
class Names:
    """The possible names of a paper in a collection: ids, tried in order, then its DOI, then its address."""

    ids: tuple[str, ...] = ()
    doi: str | None = None
    address: str | None = None


def _by_doi(doi: str) -> Names:
    """Return the names of a paper with this DOI; case is ignored, and arXiv papers have DOIs of their own."""
    given, doi = doi.strip(), _lower(doi.strip())
    paper = _ARXIV_VERSION.sub("", doi.removeprefix(_ARXIV_DOI)) if doi.startswith(_ARXIV_DOI) else None
    ids = (f"doi:{given}", f"doi:{doi}", given, doi, *([f"arxiv:{paper}"] if paper else []))
    return Names(tuple(dict.fromkeys(ids)), doi=doi)


def _by_arxiv(paper: str) -> Names:
    """Return the names of an arXiv paper without version; before 2007 as ``math/0309136``, without class."""
    paper = _ARXIV_VERSION.sub("", paper.strip().lower())
    archive, slash, number = paper.partition("/")
    paper = archive.partition(".")[0] + slash + number if slash else paper
    return Names((f"arxiv:{paper}", f"arXiv:{paper}", paper), _ARXIV_DOI + paper, f"arxiv.org/abs/{paper}")


def _by_acl(paper: str) -> Names:
    """Return the names of an ACL paper: ``P18-1001`` in upper case, ``2020.acl-main.447`` in lower case."""
    paper = paper.strip()
    paper = paper.upper() if _ANTHOLOGY_OLD.fullmatch(paper) else paper.lower()
    return Names((f"acl:{paper}", paper), address=f"aclanthology.org/{paper}")


def _by_pmcid(number: str) -> Names:
    """Return the names of a PubMed Central paper, given with or without the prefix ``PMC``."""
    name = "PMC" + number.strip().upper().removeprefix("PMC")
    ids = (f"pmcid:{name}", f"pmcid:{name.removeprefix('PMC')}", name)
    return Names(ids, address=f"ncbi.nlm.nih.gov/pmc/articles/{name}")


def _by_number(*prefixes: str, address: str | None = None) -> Callable[[str], Names]:
    """Return a scheme for numbers, which mean nothing without a prefix: a bare number is not tried as id."""

    def names(number: str) -> Names:
        number = number.strip()
        ids = tuple(prefix + number for prefix in prefixes)
        return Names(ids, address=None if address is None else address + number)

    return names


def _by_address(url: str) -> Names:
    """Return the names of a paper with this address: always the address, and more for known services."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:  # brackets that hold no IPv6 address
        return Names()
    host, path = (parts.hostname or "").removeprefix("www."), unquote(parts.path).strip("/")
    last = path.rpartition("/")[2]
    known = Names()
    if host in {"doi.org", "dx.doi.org"}:
        known = _by_doi(path)
    elif host.endswith("arxiv.org") and path.startswith(("abs/", "pdf/", "html/")):
        known = _by_arxiv(path.partition("/")[2].removesuffix(".pdf"))
    elif host in {"aclanthology.org", "aclweb.org"}:
        known = _by_acl(last.removesuffix(".pdf"))
    elif host == "pubmed.ncbi.nlm.nih.gov":
        known = SCHEMES["pmid"](last)
    elif host.endswith("ncbi.nlm.nih.gov") and last.upper().startswith("PMC"):
        known = _by_pmcid(last)
    elif host.endswith("semanticscholar.org"):
        known = _by_s2_page(last)
    elif host.endswith("openalex.org") and _OPENALEX.fullmatch(last):
        known = SCHEMES["mag"](last[1:])
    elif doi := doi_in(url):  # publishers put it into their addresses
        known = _by_doi(doi)
    return Names(known.ids, known.doi, address_key(url))


def _by_s2_page(last: str) -> Names:
    if last.lower().startswith("corpusid:"):
        return SCHEMES["corpusid"](last.partition(":")[2])
    return Names((f"s2:{last}", last))


# Semantic Scholar's prefixes, in any letter case, and the names that a collection may have for the paper.
# OpenAlex took over the numbers of the Microsoft Academic Graph. The last two are those of our own ids.
SCHEMES: dict[str, Callable[[str], Names]] = {
    "doi": _by_doi,
    "arxiv": _by_arxiv,
    "acl": _by_acl,
    "corpusid": _by_number("s2:"),
    "mag": _by_number("mag:", "openalex:W"),
    "pmid": _by_number("pmid:", address="pubmed.ncbi.nlm.nih.gov/"),
    "pmcid": _by_pmcid,
    "url": _by_address,
    "s2": lambda name: _by_number("s2:")(name.lower()),
    "openalex": lambda name: _by_number("mag:", "openalex:W")(name.strip().upper().removeprefix("W")),
}


def names_of(given: str) -> Names:
    """Return the possible names of the paper called ``given``; none for a name of no known scheme.

    Known are names with one of these prefixes, DOIs, addresses, PubMed Central's ids, and Semantic Scholar's
    ids of 40 hexadecimal digits.
    """
    prefix, colon, rest = given.strip().partition(":")
    if colon and rest.strip() and prefix.lower() in SCHEMES:
        return SCHEMES[prefix.lower()](rest)
    if prefix.lower() in {"http", "https"}:
        return _by_address(given)
    if _DOI.fullmatch(given.strip()):
        return _by_doi(given)
    if _S2_HASH.fullmatch(given.strip().lower()):
        return Names((f"s2:{given.strip().lower()}",))
    return _by_pmcid(given) if _PMCID.fullmatch(given.strip()) else Names()


def _lower(text: str) -> str:
    """Return ``text`` in lower case as Arrow writes it, which differs from Python for some letters."""
    if text.isascii():
        return text.lower()
    # Arrow cannot store a lone surrogate, but no DOI contains one.
    readable = text.encode("utf-8", "replace").decode("utf-8")
    lowered: str = pc.utf8_lower(pa.scalar(readable, pa.string())).as_py()
    return lowered


def is_name(text: str) -> bool:
    """Return whether a text is a DOI, an address or another identifier instead of words.

    After a prefix it has the form of one: "ACL:reconstruction", "arXiv:GPT-4" and "ACL:2023" are words.
    """
    if name_of(text) is not None:
        return True
    prefix, colon, rest = text.strip().partition(":")
    if colon and prefix.lower() in SCHEMES:
        is_address = prefix.lower() == "url" and "." in rest.partition("/")[0] and len(rest.split()) == 1
        return is_address or _FORM.fullmatch(rest.strip()) is not None
    numbered = any(map(str.isdigit, text)) or "://" in text
    return numbered and not any(map(str.isspace, text.strip())) and names_of(text) != Names()


def address_key(url: str) -> str:
    """Return an address without scheme, ``www.``, fragment and final slashes, with its host in lower case."""
    host, slash, rest = _APART_FROM_IT.sub("", url.strip()).rstrip("/").partition("/")
    return host.lower() + slash + rest


class Identifiers:
    """The names of the papers of one snapshot.

    DOIs and addresses are sorted when first needed, once for each segment: a new generation shares most
    segments with the previous one.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def position(self, given: str) -> int | None:
        """Return the position of the paper called ``given``; ``None`` if it is not in the collection.

        An id of the collection always means the paper with that id, whatever else it may look like.
        """
        if len(given) > MAX_NAME_CHARS:
            return None
        found = next(self._positions(given, names_of(given)), None)
        # As people write them: 2106.15928v2, PMID 31452104, https://arxiv.org/html/2106.15928.
        written = None if found is not None else name_of(given) or name_of(address_key(given))
        return found if written is None else next(self._positions(written, names_of(written)), None)

    def resolve(self, given: str) -> str:
        """Return the id of the paper called ``given``; raises PaperNotFoundError."""
        position = self.position(given)
        if position is None:
            raise PaperNotFoundError(
                "No paper of this collection has this id. Give an id of the collection, or another "
                f"identifier of the paper: {', '.join(f'{scheme.upper()}:...' for scheme in SCHEMES)}."
            )
        return self._snapshot.paper(position).id

    def _positions(self, given: str, names: Names) -> Iterator[int]:
        for paper_id in (given, *names.ids):
            if (position := self._snapshot.find(paper_id)) is not None:
                yield position
        if names.doi is not None:
            yield from self._named(names.doi, _DOIS, _dois)
            if (plain := names.doi.rstrip(".,;:")) != names.doi:  # of the sentence around it
                yield from self._positions(plain, _by_doi(plain))
        if names.address is not None:
            yield from self._named(names.address, _ADDRESSES, _addresses)

    def _named(self, name: str, known: "_Sorted", read: Callable[[Segment], Any]) -> Iterator[int]:
        """Yield the positions of the papers with this name, in order; ``read`` returns a segment's names."""
        start = 0
        for segment in self._snapshot.segments:
            if segment not in known:
                known[segment] = _SortedColumn(read(segment))
            places = known[segment].places(name)
            yield from (start + place for place in places if self._snapshot.live[start + place])
            start += len(segment)


def _dois(segment: Segment) -> Any:
    return pc.utf8_lower(segment.column("doi"))


def _addresses(segment: Segment) -> Any:
    urls = pc.replace_substring_regex(segment.column("url"), pattern=_NOT_IN_ADDRESS, replacement="")
    keys = pc.utf8_rtrim(urls, characters="/")
    host = pc.utf8_lower(pc.replace_substring_regex(keys, pattern="/.*$", replacement=""))
    path = pc.replace_substring_regex(keys, pattern="^[^/]*", replacement="")
    return pc.binary_join_element_wise(host, path, "")


class _SortedColumn:
    """The sorted texts of a column of a segment, without nulls, and their places in the segment."""

    def __init__(self, column: Any) -> None:
        order = pc.sort_indices(column)[: len(column) - column.null_count]
        self._texts = column.take(order)
        self._order: Int64[np.ndarray, " n"] = np.asarray(order, dtype=np.int64)

    def places(self, text: str) -> Iterator[int]:
        """Yield the places of ``text``, in order."""
        n = len(self._order)
        first = bisect_left(range(n), _bytes(text), key=lambda i: _bytes(self._texts[i].as_py()))
        for i in range(first, n):
            if self._texts[i].as_py() != text:
                return
            yield int(self._order[i])


def _bytes(text: str) -> bytes:
    """Return the UTF-8 bytes of ``text``, by which Arrow sorts."""
    return text.encode("utf-8", "surrogatepass")


# Of segments in use.
_Sorted = WeakKeyDictionary[Segment, _SortedColumn]
_DOIS: Final[_Sorted] = WeakKeyDictionary()
_ADDRESSES: Final[_Sorted] = WeakKeyDictionary()
