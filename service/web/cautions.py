"""Warnings of an answer (``kind:what``) as sentences for people."""

from typing import Final

_SENTENCES: Final = {
    "facet_missing": "No sentence of it is a {what}; the others that were chosen count.",
    "unlike_facet_missing": "No sentence of it is a {what}, so there is none to be unlike.",
    "sentences_past_token_limit": "Sentence {number} lies past what the encoder reads and does not count.",
    "unlike_sentences_past_token_limit": "Sentence {number} lies past what the encoder reads.",
    "sentences_cut": "The abstract is very long: its last {what} sentences were left out.",
    "indexed_with_other_tagger": "The facets of the collection were found by another model ({what}).",
    "abstract_not_english": "The abstract does not look English ({what}); only English was learned.",
    "text_not_english": "The text does not look English ({what}); only English was learned.",
    "not_converged": "For {what} of the results the match is less exact than usual.",
    "list_ends_at": "The list ends after {what} papers.",
}


def caution(warning: str) -> str:
    """What ``warning`` says, or itself where it is of a kind unknown here."""
    kind, _, what = warning.partition(":")
    numbers = ", ".join(str(int(each) + 1) for each in what.split(",") if each.isdecimal())
    words = what.replace(",", " or ")
    return _SENTENCES.get(kind, warning.replace("{", "{{").replace("}", "}}")).format(
        what=words, number=numbers
    )
