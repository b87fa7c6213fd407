"""Reads PubMed's XML (``PubmedArticleSet > PubmedArticle``); labelled sections give the facets.

A ``PubmedBookArticle`` is a chapter of a book, or a whole one.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from indexer.corpus.library.names import year_in
from indexer.corpus.records import root_tag, xml_records
from indexer.corpus.rows import RawPaper, Row, clean, without_tags
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
_FORMULA = "{http://www.w3.org/1998/Math/MathML}math"
RECORDS = ("PubmedArticle", "PubmedBookArticle")
_ROOTS = frozenset({"PubmedArticleSet", *RECORDS})


class PubmedReader:
    """The reader of PubMed: ids become ``pmid:12345678``; labelled sections become sentences with facets."""

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the root element is ``PubmedArticleSet`` or one of its records."""
        return root_tag(head) in _ROOTS

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each article, chapter or book."""
        for line, article, _ in xml_records(lines, *RECORDS):
            yield Row(line, raw_paper(article))


def raw_paper(record: Element) -> RawPaper:
    """Return the paper of one of the RECORDS."""
    name = _text(_first(record, "MedlineCitation/PMID", "BookDocument/PMID"))
    article = _first(record, "MedlineCitation/Article", "BookDocument")
    article = Element("Article") if article is None else article
    abstract, facets = _abstract(article.findall("Abstract/AbstractText"))
    return RawPaper(
        id=f"pmid:{name}" if name else None,
        title=without_tags(_text(_first(article, "ArticleTitle", "Book/BookTitle"))),
        abstract=abstract,
        facets=facets,
        year=_year(_first(article, "Journal/JournalIssue/PubDate", "Book/PubDate")),
        venue=without_tags(_text(_first(article, "Journal/Title", "Book/BookTitle"))),
        authors=[_author(author) for author in article.findall("AuthorList/Author")],
        url=f"https://pubmed.ncbi.nlm.nih.gov/{name}/",
        doi=_text(record.find("PubmedData/ArticleIdList/ArticleId[@IdType='doi']"))
        or _text(article.find("ELocationID[@EIdType='doi']")),
    )


def _first(element: Element, *paths: str) -> Element | None:
    """Return the first element at one of these paths, in their order."""
    return next((found for path in paths if (found := element.find(path)) is not None), None)


def _abstract(sections: list[Element]) -> tuple[str | list[str], list[Facet | None] | None]:
    """Return a text and ``None``, or sentences and their facets if sections have known labels."""
    texts = [clean(str(without_tags(_text(section)))) for section in sections]
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


def _year(date: Element | None) -> str | None:
    """Return the year of a date, or ``None``; some dates are a text: ``2001 Nov-Dec``, ``Winter 1999``."""
    return None if date is None else year_in(_text(date.find("Year")) or _text(date.find("MedlineDate")))


def _author(author: Element) -> str:
    first = _first(author, "ForeName", "Initials")
    names = [_text(first), *(_text(author.find(tag)) for tag in ("LastName", "Suffix", "CollectiveName"))]
    return " ".join(name for name in names if name)


def _text(element: Element | None) -> str:
    """Return the text of an element; between the signs of a formula there are no spaces."""
    if element is None:
        return ""
    for formula in list(element.iter(_FORMULA)):
        formula.text = "".join(text for text in formula.itertext() if text.strip())
        del formula[:]
    return "".join(element.itertext()).strip()
