"""Derives the facets of sentences from section labels in an abstract ("METHODS: We ...")."""

import re
from collections.abc import Iterator
from typing import Final

from indexer.corpus.rows import RawPaper, to_paper
from models.types import Facet, Paper

# The words of section labels in clinical and biological abstracts. Conclusions count as results, as in
# PubMed's reader.
_WORDS: Final = {
    Facet.BACKGROUND: "BACKGROUND INTRODUCTION CONTEXT RATIONALE IMPORTANCE",
    Facet.OBJECTIVE: "OBJECTIVE OBJECTIVES AIM AIMS PURPOSE GOAL GOALS HYPOTHESIS QUESTION",
    Facet.METHOD: "METHOD METHODS METHODOLOGY DESIGN DESIGNS SETTING SETTINGS PARTICIPANTS PATIENT PATIENTS "
    "SUBJECTS MATERIALS INTERVENTION INTERVENTIONS MEASUREMENT MEASUREMENTS MEASURE MEASURES MEASURED "
    "PROCEDURES SOURCE SOURCES SELECTION EXTRACTION COLLECTION EXPOSURE EXPOSURES POPULATION SAMPLE ANALYSIS "
    "STRATEGY CRITERIA APPROACH",
    Facet.RESULT: "RESULT RESULTS FINDING FINDINGS CONCLUSION CONCLUSIONS INTERPRETATION DISCUSSION "
    "SYNTHESIS SIGNIFICANCE RELEVANCE IMPLICATIONS RECOMMENDATIONS SUMMARY",
    Facet.OTHER: "FUNDING REGISTRATION",
}
_FACET_OF: Final = {word: facet for facet, words in _WORDS.items() for word in words.split()}
_BESIDE: Final = (
    "AND|&|OF|THE|REVIEW|MAIN|OUTCOME|OUTCOMES|STUDY|DATA|PRINCIPAL|KEY|PRIMARY|RECENT|RESEARCH|EXPERIMENTAL|"
    r"TRIAL|SEARCH|AUTHORS?['’]?S?"
)
_ANY: Final = "|".join([*_FACET_OF, _BESIDE])
# At most six words; a label without a colon is in capitals.
_LABEL: Final = re.compile(rf"((?:{_ANY})(?:(?:\s*[/&,]\s*|\s+)(?:{_ANY}))" + r"{0,5})(\s*:\s*|\s+)(?=\S)")
_BETWEEN_WORDS: Final = re.compile(r"[\s/&,]+")
_LABEL_WITH_COLON: Final = re.compile(_LABEL.pattern.replace(r"(\s*:\s*|\s+)", r"(\s*:\s*)"), re.IGNORECASE)


def labelled_by_sections(paper: Paper, *, keep_labels: bool = False) -> Paper | None:
    """Return the paper with the facet of its section on every sentence, without the labels unless kept.

    Only id, title and abstract are kept. Return ``None`` if the first sentence has no label, all sections
    have the same facet, or a section has several facets ("METHODS AND RESULTS").
    """
    sections = list(_sections(paper))
    facets = [facet for _, facet in sections]
    if None in facets or len(set(facets)) < 2:
        return None
    texts = [sentence.text for sentence in paper.sentences] if keep_labels else [text for text, _ in sections]
    return to_paper(RawPaper(id=paper.id, title=paper.title, abstract=texts, facets=facets))


def _sections(paper: Paper) -> Iterator[tuple[str, Facet | None]]:
    """Yield each sentence without its label, and the facet of its section."""
    facet: Facet | None = None
    for sentence in paper.sentences:
        text = sentence.text
        label = _LABEL_WITH_COLON.match(text) or _LABEL.match(text)
        if label and (found := _facets(label[1])):
            text, facet = text[label.end() :], _one_of(found)
        yield text, facet


def facet_of_label(label: str) -> Facet | None:
    """Return the facet of a section with this label, or ``None`` if the label names no facet or several."""
    return _one_of(_facets(label.strip(" :.")))


def _facets(label: str) -> set[Facet]:
    words = _BETWEEN_WORDS.split(label.upper())
    return {_FACET_OF[word] for word in words if word in _FACET_OF}


def _one_of(facets: set[Facet]) -> Facet | None:
    """Return the only facet of a label, else ``None``; background and objective together are background."""
    if len(facets) > 1 and facets <= {Facet.BACKGROUND, Facet.OBJECTIVE}:
        return Facet.BACKGROUND
    return next(iter(facets)) if len(facets) == 1 else None
