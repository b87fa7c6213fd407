"""Section labels in an abstract ("METHODS: We ..."), which give sentences their facets."""

import re
from collections.abc import Iterator
from typing import Final

from indexer.corpus.rows import RawPaper, to_paper
from models.types import Facet, Paper

# The words that labels of clinical and biological abstracts are made of. What an abstract concludes is what
# it found, as in PubMed's reader.
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
    """The paper with a facet on every sentence, that of its section, and without the labels unless kept.

    ``None`` where the first sentence has no label, all sections do the same, or one does several things at
    once ("METHODS AND RESULTS").
    """
    sections = list(_sections(paper))
    facets = [facet for _, facet in sections]
    if None in facets or len(set(facets)) < 2:
        return None
    texts = [sentence.text for sentence in paper.sentences] if keep_labels else [text for text, _ in sections]
    return to_paper(RawPaper(id=paper.id, title=paper.title, abstract=texts, facets=facets))


def _sections(paper: Paper) -> Iterator[tuple[str, Facet | None]]:
    """Each sentence without its label, and the facet of the section it is in."""
    facet: Facet | None = None
    for sentence in paper.sentences:
        text = sentence.text
        label = _LABEL_WITH_COLON.match(text) or _LABEL.match(text)
        if label and (found := _facets(label[1])):
            text, facet = text[label.end() :], _one_of(found)
        yield text, facet


def facet_of_label(label: str) -> Facet | None:
    """What a section with this label does, where the label says one thing."""
    return _one_of(_facets(label.strip(" :.")))


def _facets(label: str) -> set[Facet]:
    words = _BETWEEN_WORDS.split(label.upper())
    return {_FACET_OF[word] for word in words if word in _FACET_OF}


def _one_of(facets: set[Facet]) -> Facet | None:
    """What a section with a label of several words does; a stated aim is background too."""
    if len(facets) > 1 and facets <= {Facet.BACKGROUND, Facet.OBJECTIVE}:
        return Facet.BACKGROUND
    return next(iter(facets)) if len(facets) == 1 else None
