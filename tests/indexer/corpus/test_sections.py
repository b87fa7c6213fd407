"""Section labels in the text of an abstract become facets of its sentences."""

import pytest

from indexer.corpus.rows import RawPaper, to_paper
from indexer.corpus.sections import labelled_by_sections
from models.types import Facet, Paper


def paper(*sentences: str) -> Paper:
    """Return a paper with an abstract that is split as any text is."""
    return to_paper(RawPaper(id="p", title="Drugs", abstract=" ".join(sentences)))


def facets(*sentences: str) -> list[Facet | None] | None:
    """Return the facets by sections, or ``None`` for a paper without labelled sections."""
    found = labelled_by_sections(paper(*sentences))
    return None if found is None else [sentence.facet for sentence in found.sentences]


def test_a_label_is_of_all_sentences_to_the_next() -> None:
    """A label, in capitals or with a colon, holds up to the next and is removed unless labels are kept."""
    given = paper(
        "BACKGROUND Hearts fail. Many die of it.",
        "Methods: We asked 10 clinics.",
        "MAIN OUTCOME MEASURES: Deaths.",
        "RESULTS 10 patients died.",
        "AUTHORS' CONCLUSIONS: It fails.",
        "TRIAL REGISTRATION: NCT1.",
    )
    found, kept = labelled_by_sections(given), labelled_by_sections(given, keep_labels=True)
    assert found is not None
    assert kept is not None
    expected = [
        ("Hearts fail.", Facet.BACKGROUND),
        ("Many die of it.", Facet.BACKGROUND),
        ("We asked 10 clinics.", Facet.METHOD),
        ("Deaths.", Facet.METHOD),
        ("10 patients died.", Facet.RESULT),
        ("It fails.", Facet.RESULT),
        ("NCT1.", Facet.OTHER),
    ]
    assert expected == [(each.text, each.facet) for each in found.sentences]
    assert given.abstract == kept.abstract
    assert [each.facet for each in found.sentences] == [each.facet for each in kept.sentences]


@pytest.mark.parametrize(
    ("label", "expected"),
    [("PURPOSE", Facet.OBJECTIVE), ("BACKGROUND AND AIMS", Facet.BACKGROUND), ("Study design", Facet.METHOD)],
)
def test_labels_of_several_words(label: str, expected: Facet) -> None:
    """One telling word of a label decides its facet, and background wins over aims."""
    assert [expected, Facet.RESULT] == facets(f"{label}: Hearts fail.", "RESULTS: They do.")


@pytest.mark.parametrize(
    "sentences",
    [
        ("Hearts fail.", "RESULTS: They do."),
        ("BACKGROUND: Hearts fail.", "Results are few."),
        ("BACKGROUND: Hearts fail.", "METHODS AND RESULTS: We asked and found.", "CONCLUSION: They do."),
        ("Background hearts fail.", "Results show it."),
    ],
)
def test_what_is_no_labelled_abstract(sentences: tuple[str, ...]) -> None:
    """Abstracts without a leading label, with one facet, a mixed section or mere words are not labelled."""
    assert facets(*sentences) is None


def test_a_long_run_of_labels_takes_linear_time() -> None:
    """An abstract that repeats a label word 10,000 times is not labelled."""
    assert facets("METHODS " * 10_000 + "end.") is None
