"""Reads the ACL Anthology's XML: ``collection > volume > paper``, one file per collection."""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from indexer.corpus.records import root_tag, xml_records
from indexer.corpus.rows import RawPaper, Row
from indexer.corpus.source import Lines

_OLD_COLLECTION = re.compile(r"[A-Z]\d\d")


class AclReader:
    """The reader of the Anthology: ids become ``acl:2021.eacl-main.1``; inner markup becomes its text."""

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the root element is a ``collection`` with volumes in it."""
        return root_tag(head) == "collection" and "<volume" in head

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each paper; skip front matter."""
        for line, paper, ancestors in xml_records(lines, "paper"):
            yield Row(line, _raw(paper, ancestors))


def _raw(paper: Element, ancestors: list[Element]) -> RawPaper:
    collection, volume = ancestors[0], ancestors[-1]
    name = _anthology_id(paper, collection.get("id", ""), volume.get("id", ""))
    return RawPaper(
        id=f"acl:{name}",
        title=_text(paper.find("title")),
        abstract=_text(paper.find("abstract")),
        year=_text(paper.find("year")) or _text(volume.find("meta/year")),
        venue=_text(volume.find("meta/venue")) or _text(volume.find("meta/booktitle")),
        authors=[_name(author) for author in paper.findall("author")],
        url=f"https://aclanthology.org/{name}/",
        doi=_text(paper.find("doi")),
    )


def _name(author: Element) -> str:
    """Return the first and last name of an author, without affiliation and spellings in other scripts."""
    return " ".join(filter(None, (_text(author.find(part)) for part in ("first", "last"))))


def _anthology_id(paper: Element, collection: str, volume: str) -> str:
    """Return the id in ``<url>``; if that is absent or an external address, the one the Anthology derives."""
    url = _text(paper.find("url"))
    if url and "/" not in url:
        return url
    number = paper.get("id", "")
    if not _OLD_COLLECTION.fullmatch(collection):
        return f"{collection}-{volume}.{number}"
    # Workshops have up to 99 volumes of 99 papers, all other collections 9 volumes of 999 papers.
    two_digit_volume = (
        collection[0] == "W"
        or collection == "C69"
        or (collection == "D19" and len(volume) + (volume > "4") > 1)
    )
    return (
        f"{collection}-{volume:0>2}{number:0>2}" if two_digit_volume else f"{collection}-{volume}{number:0>3}"
    )


def _text(element: Element | None) -> str | None:
    return None if element is None else "".join(element.itertext()).strip()
