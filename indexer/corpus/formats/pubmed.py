"""Reads PubMed's XML (``PubmedArticleSet > PubmedArticle``); labelled sections give the facets."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from indexer.corpus.library.names import year_in
from indexer.corpus.records import root_tag, xml_records
from indexer.corpus.rows import RawPaper, Row, clean
from indexer.corpus.sections import facet_of_label
from indexer.corpus.source import Lines
from models.text.sentences import split_sentences
from models.types import Facet

# NlmCategory, NLM's own mapping of thousands of labels to five. There is no facet for conclusions, so they
# count as results. UNASSIGNED has no facet.
_FACETS = {
    "BACKGROUND": Facet.BACKGROUND,
    "OBJECTIVE": Facet.OBJECTIVE,
    "METHODS": Facet.METHOD,
    "RESULTS": Facet.RESULT,
    "CONCLUSIONS": Facet.RESULT,
}
_ROOTS = frozenset({"PubmedArticleSet", "PubmedArticle"})


class PubmedReader:
    """The reader of PubMed: ids become ``pmid:12345678``; labelled sections become sentences with facets."""

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the root element is ``PubmedArticleSet`` or ``PubmedArticle``."""
        return root_tag(head) in _ROOTS

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each article; skip books."""
        for line, article, _ in xml_records(lines, "PubmedArticle"):
            yield Row(line, raw_paper(article))


def raw_paper(record: Element) -> RawPaper:
    """Return the paper of one ``PubmedArticle``."""
    name = _text(record.find("MedlineCitation/PMID"))
    abstract, facets = _abstract(record.findall("MedlineCitation/Article/Abstract/AbstractText"))
    journal = record.find("MedlineCitation/Article/Journal")
    return RawPaper(
        id=f"pmid:{name}" if name else None,
        title=_text(record.find("MedlineCitation/Article/ArticleTitle")),
        abstract=abstract,
        facets=facets,
        year=_year(journal),
        venue=None if journal is None else _text(journal.find("Title")),
        authors=[_author(author) for author in record.findall("MedlineCitation/Article/AuthorList/Author")],
        url=f"https://pubmed.ncbi.nlm.nih.gov/{name}/",
        doi=_text(record.find("PubmedData/ArticleIdList/ArticleId[@IdType='doi']"))
        or _text(record.find("MedlineCitation/Article/ELocationID[@EIdType='doi']")),
    )


def _abstract(sections: list[Element]) -> tuple[str | list[str], list[Facet | None] | None]:
    """Return a text and ``None``, or sentences and their facets if sections have known labels."""
    texts = [clean(_text(section) or "") for section in sections]
    facets = [
        _FACETS.get(category.upper())
        if (category := section.get("NlmCategory"))
        else facet_of_label(section.get("Label", ""))
        for section in sections
    ]
    if not any(facets):
        return " ".join(texts), None
    labelled = [
        (sentence.text, facet)
        for text, facet in zip(texts, facets, strict=True)
        for sentence in split_sentences(text)
    ]
    return [text for text, _ in labelled], [facet for _, facet in labelled]


def _year(journal: Element | None) -> str | None:
    """Return the year of the issue, or ``None``; some dates are a text: ``2001 Nov-Dec``, ``Winter 1999``."""
    if journal is None:
        return None
    date = _text(journal.find("JournalIssue/PubDate/Year"))
    return year_in(date or _text(journal.find("JournalIssue/PubDate/MedlineDate")))


def _author(author: Element) -> str:
    names = [_text(author.find(tag)) for tag in ("ForeName", "LastName", "Suffix", "CollectiveName")]
    return " ".join(name for name in names if name)


def _text(element: Element | None) -> str:
    return "" if element is None else "".join(element.itertext()).strip()
