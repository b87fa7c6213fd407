"""Finds the id of a library entry, and its name at a public service."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

# Old DOIs have a part like <391::AID-ASI1> before a digit; other angle brackets do not belong to a DOI.
_DOI_NUMBER = r"(10\.\d{4,9}/(?:[^\s\"<>{}]|<[^\s\"<>{}:/]{0,40}:[^\s\"<>{}]{0,80}>(?=\d))+)"
_DOI = re.compile(r"(?<![\w.])" + _DOI_NUMBER)
_ARXIV_FIELD = r"(?:q-[a-z]{2,4}|[a-z]{2,8}(?:-[a-z]{2,4})?)(?:\.[A-Za-z]{2})?"
_ARXIV_NUMBER = rf"(\d{{4}}\.\d{{4,5}}|{_ARXIV_FIELD}/\d{{7}})(?:v\d{{1,3}})?"
_ARXIV_BARE = re.compile(_ARXIV_NUMBER)
_ARXIV_NAMED = re.compile(
    r"(?:\barxiv:\s{0,5}|arxiv\.org/(?:abs|pdf|html)/|\b10\.48550/arxiv\.)" + _ARXIV_NUMBER, re.IGNORECASE
)
_PMID_NAMED = re.compile(
    r"(?:\bpmid:?\s{0,5}|pubmed\.ncbi\.nlm\.nih\.gov/|ncbi\.nlm\.nih\.gov/(?:m/)?pubmed(?:/|/?\?term=))"
    r"([0-9]{1,8})(?![0-9+])",  # a + joins the words of a search
    re.IGNORECASE,
)
_ACL = re.compile(
    r"\b(?:aclanthology\.org|aclweb\.org/anthology)/"
    r"([A-Z][0-9]{2}-[0-9]{4,5}|[0-9]{4}\.[a-z0-9_]{1,30}-[a-z0-9]{1,20}\.[0-9]{1,4})"
)
_ACL_BARE = re.compile(
    r"(?:acl:\s{0,5})?([A-Z][0-9]{2}-[0-9]{4,5}|[0-9]{4}\.[a-z0-9_]{1,30}-[a-z0-9]{1,20}\.[0-9]{1,4})",
    re.IGNORECASE,
)
_DOI_BARE = re.compile(r"(?:doi:?\s{0,5}|(?:www\.|dx\.)?doi\.org/)?" + _DOI_NUMBER, re.IGNORECASE)
# A field with only a DOI: all its characters belong to the DOI, except a closing tag.
_DOI_FIELD = re.compile(
    r"\s{0,20}(?:doi:?\s{0,5})?(10\.\d{4,9}/(?:[^\s\"{}<]|<(?!/))+)\s{0,20}",
    re.IGNORECASE,
)
# The class of an arXiv paper: "1706.03762 [cs.CL]".
_ITS_CLASS = re.compile(r"(?<=\S) {1,3}\[[a-zA-Z-]{2,12}(?:\.[A-Za-z-]{2,12})?\]$")
_PMID_BARE = re.compile(r"[0-9]{1,8}")
_RESOLVER = re.compile(r"//(?:dx\.)?doi\.org/", re.IGNORECASE)
# A letter may stand beside a year ("2020a", "c1999"), a digit only as a part of a date ("20200105").
_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)[0-9]{2}(?=(?:(?:0[0-9]|1[0-2])[0-3][0-9])?(?!\d))")
# The text after a DOI in the address of a publisher: the form in which the paper is shown, or its version.
_FORM = re.compile(
    r"(?:/(?:full|fulltext|pdf|epdf|abstract|abs|html|meta)|\.pdf"
    r"|(?<=\d)v\d{1,2}(?:\.[a-z-]{1,12}){0,2}(?:\+html)?){1,3}$",
    re.IGNORECASE,
)
# Oxford University Press adds the number of the article, and the name of a file.
_OXFORD = re.compile(r"//academic\.oup\.com/", re.IGNORECASE)
_OF_OXFORD = re.compile(r"/[0-9]{2,9}(?:/[^/]{1,200}\.pdf)?$")
# The start of a query or a fragment; one kind of old DOI ends in #.
_NOT_OF_A_PATH = re.compile(r"\?|(?<!;2-)#")
_SUFFIXES = frozenset({"Jr", "Sr", "II", "III", "IV"})
# A DOI does not end in the punctuation that ends a sentence.
_NOT_AT_THE_END = ".,;:"
# What may stand beside an id in a note: "Preprint at https://arxiv.org/abs/…", "arXiv:1706.03762 [cs]".
_BESIDE_IDS = frozenset(
    "arxiv at available doi eprint id online pmcid pmid preprint pubmed url".split()  # noqa: SIM905 - a list of words reads better
)
_IN_BRACKETS, _DIGIT, _WORD = re.compile(r"\[[^\[\]]{0,80}\]"), re.compile(r"\d"), re.compile(r"[^\W\d_]+")
_MAX_CHARS = 4_000  # twice the longest address of a paper


def year_in(*texts: str | None) -> str | None:
    """Return the first year from 1500 to 2099 in the first of these texts that has one, or ``None``."""
    return next((found[0] for text in texts if text and (found := _YEAR.search(text))), None)


@dataclass(frozen=True, slots=True)
class EntryNames:
    """The ``id`` in a collection, the ``doi``, and the ``lookup``: ``arxiv:…``, ``pmid:…`` or ``doi:…``."""

    id: str | None
    doi: str | None
    lookup: str | None


def entry_names(
    *,
    doi: str | None,
    arxiv: str | None,
    pmid: str | None,
    key: str | None,
    others: tuple[str | None, ...] = (),
    note: str | None = None,
) -> EntryNames:
    """Name an entry by its fields; ``others`` are fields that may hold an id, such as the address.

    Of a ``note`` only lines with nothing but an id count: others may speak of another work.

    The id is the DOI (unless it is arXiv's) or else the id at arXiv, the ACL Anthology or PubMed, so that it
    stays the same in every export; without any of them it is the citation key. Papers at arXiv or PubMed are
    looked up there, because Crossref has few abstracts.
    """
    others += tuple(_lines_with_only_an_id(note or ""))
    paper = (bare_arxiv(arxiv) if arxiv else None) or arxiv_in(doi, *others)
    found = _whole_doi(doi) or doi_in(doi, *others)
    doi_name = found if found is not None and not found.lower().startswith("10.48550/arxiv.") else None
    number = pmid if pmid and _PMID_BARE.fullmatch(pmid) else pmid_in(pmid, *others)
    by_doi = f"doi:{doi_name.lower()}" if doi_name else None
    by_arxiv = f"arxiv:{paper}" if paper else None
    by_pmid = f"pmid:{number}" if number else None
    return EntryNames(
        by_doi or by_arxiv or acl_in(*others) or by_pmid or key, found, by_arxiv or by_pmid or by_doi
    )


def _lines_with_only_an_id(note: str) -> Iterator[str]:
    """Yield the lines of a note that have no word beside ids, dates and words such as "Preprint at"."""
    return filter(is_only_an_id, note[:_MAX_CHARS].splitlines())


def is_only_an_id(line: str) -> bool:
    """Return whether a line with an id has no word beside ids, dates and words such as "Preprint at"."""
    words = " ".join(word for word in _IN_BRACKETS.sub(" ", line).split() if not _DIGIT.search(word))
    return _BESIDE_IDS.issuperset(_WORD.findall(words.lower()))


def id_by_doi(doi: object) -> str | None:
    """Return the id that ``entry_names`` gives by a field for DOIs, or ``None`` if the field holds none."""
    if not isinstance(doi, str):
        return None
    return entry_names(doi=doi, arxiv=None, pmid=None, key=None).id


def reference_of(text: str) -> str | None:
    """Return the ``doi:…``, ``arxiv:…`` or ``pmid:…`` that a line of a list means, or ``None``."""
    text = text.strip()
    if paper := arxiv_in(text) or bare_arxiv(text):
        return f"arxiv:{paper}"
    if doi := doi_in(text):
        return f"doi:{doi.lower()}"
    number = text if _PMID_BARE.fullmatch(text) else pmid_in(text)
    return f"pmid:{number}" if number else None


def name_of(text: str) -> str | None:
    """Return the ``doi:…``, ``arxiv:…``, ``acl:…`` or ``pmid:…`` that ``text`` is, as people write them.

    Return ``None`` for a text with other words, and for a number alone, which may be a year.
    """
    text = text.strip()
    if len(text) > _MAX_CHARS:
        return None
    text = _ITS_CLASS.sub("", text)
    if paper := _ARXIV_BARE.fullmatch(text) or _ARXIV_NAMED.fullmatch(text):
        return f"arxiv:{paper[1].lower()}"
    for scheme, pattern in (("doi", _DOI_BARE), ("acl", _ACL_BARE), ("pmid", _PMID_NAMED)):
        if found := pattern.fullmatch(text):
            return f"{scheme}:{found[1]}"
    return None


def doi_in(*texts: str | None) -> str | None:
    """Return the first DOI in these texts, without the parts that addresses add to it."""
    words = (word for text in texts if text for word in text[:_MAX_CHARS].split())
    return next((doi for word in words if (doi := _doi_of_word(word))), None)


def _doi_of_word(word: str) -> str | None:
    """Return the DOI in a text without spaces; in an address, look in its path, then in its query."""
    if "://" not in word:
        found = _DOI.search(_plain(word))
        return found and found[1].rstrip(_NOT_AT_THE_END)
    path, *queries = _NOT_OF_A_PATH.split(word)
    for part in (path, *(each for query in queries for each in query.split("&"))):
        if found := _DOI.search(_plain(part)):
            doi = found[1].rstrip(_NOT_AT_THE_END + "/")
            if _RESOLVER.search(path):
                return doi
            return (_OF_OXFORD if _OXFORD.search(path) else _FORM).sub("", doi)
    return None


def _whole_doi(field: str | None) -> str | None:
    """Return the DOI in a field for DOIs, or ``None`` if the field holds anything else."""
    found = _DOI_FIELD.fullmatch(_plain(field)) if field else None
    return found and found[1].rstrip(_NOT_AT_THE_END)


def _plain(text: str) -> str:
    """Return the beginning of a text with the escapes of addresses, angle brackets and ``&`` resolved."""
    text = unquote(text[:_MAX_CHARS])
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def arxiv_in(*texts: str | None) -> str | None:
    """Return the first arXiv id in these texts that a prefix or address marks as one, without its version."""
    found = _first(_ARXIV_NAMED, texts)
    return found and found.lower()


def bare_arxiv(text: str) -> str | None:
    """Return the arXiv id that ``text`` is, or else the first one marked in it, without its version."""
    found = _ARXIV_BARE.fullmatch(text.strip())
    return found[1].lower() if found else arxiv_in(text)


def acl_in(*texts: str | None) -> str | None:
    """Return ``acl:…`` for the first address of the ACL Anthology in these texts."""
    found = _first(_ACL, texts)
    return found and f"acl:{found}"


def pmid_in(*texts: str | None) -> str | None:
    """Return the first PubMed number in these texts that a prefix or address marks as one."""
    return _first(_PMID_NAMED, texts)


def _first(pattern: "re.Pattern[str]", texts: Sequence[str | None]) -> str | None:
    """Return the group of ``pattern`` in the first of these texts that matches it, or ``None``."""
    return next((found[1] for text in texts if text and (found := pattern.search(text[:_MAX_CHARS]))), None)


def usual_order(name: str) -> str:
    """Return ``Last, First, Suffix`` as ``First Last Suffix``."""
    return in_usual_order(name.split(","))


def in_usual_order(parts: Sequence[str]) -> str:
    """Join the parts of a name as ``usual_order`` does; the common ``First Last, Jr.`` keeps its order."""
    last, *rest = [part.strip() for part in parts]
    first = rest[:1] if len(rest) > 1 or not any(map(is_suffix, rest)) else []
    return " ".join(filter(None, [*first, last, *rest[len(first) :]]))


def is_suffix(word: str) -> bool:
    """Return whether ``word`` is a suffix of names, such as ``Jr.`` or ``III``."""
    return word.rstrip(".") in _SUFFIXES


def with_subtitle(title: object, subtitle: object) -> object:
    """Return a title with its subtitle, unless it has it already; return anything else unchanged."""
    if not isinstance(title, str) or not isinstance(subtitle, str) or not subtitle:
        return title
    return title if subtitle.casefold() in title.casefold() else f"{title}: {subtitle}"
