"""Warnings of an answer: a code for programs and a sentence for people."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from indexer.corpus.rows import MAX_SENTENCES


class WarningCode(StrEnum):
    """The subject of a warning; the comment says which values its ``about`` has."""

    ABSTRACT_NOT_ENGLISH = "abstract_not_english"  # the language, by its ISO 639-1 code
    TEXT_NOT_ENGLISH = "text_not_english"  # the same
    SENTENCES_CUT = "sentences_cut"  # how many
    SENTENCES_PAST_TOKEN_LIMIT = "sentences_past_token_limit"  # noqa: S105 - no secret; their numbers
    UNLIKE_SENTENCES_PAST_TOKEN_LIMIT = "unlike_sentences_past_token_limit"  # noqa: S105 - the same
    FACET_MISSING = "facet_missing"  # the facets
    UNLIKE_FACET_MISSING = "unlike_facet_missing"  # the same
    INDEXED_WITH_OTHER_TAGGER = "indexed_with_other_tagger"  # the collection's tagger, by name
    NOT_CONVERGED = "not_converged"  # how many results
    LIST_ENDS_AT = "list_ends_at"  # after how many papers
    REPEATED_SENTENCES = "repeated_sentences"  # how many
    WORDS_NOT_INDEXED = "words_not_indexed"  # of how many papers
    NO_GOOD_MATCH = "no_good_match"  # the strength of the first result
    ONLY_LAST_ADDED = "only_last_added"  # how many papers
    PARTIAL_COVERAGE = "partial_coverage"  # the share of the papers that could be found, in percent


@dataclass(frozen=True, slots=True)
class AnswerWarning:
    """A warning; ``message`` says what was found and what to do, ``about`` has the values in it."""

    code: WarningCode
    message: str
    about: tuple[str, ...]


_NOT_ENGLISH: Final = (
    "does not seem to be English ({all}), and the encoder was trained on English; give it in English for "
    "better "
    "results."
)
_NOT_READ: Final = (
    "The encoder's token limit ends before sentence {first} (counted from 0), so sentences chosen "
    "{purpose}from there on do not count; choose earlier sentences, or shorten the abstract."
)
_MESSAGES: Final = {
    WarningCode.ABSTRACT_NOT_ENGLISH: f"The abstract {_NOT_ENGLISH}",
    WarningCode.TEXT_NOT_ENGLISH: f"The text {_NOT_ENGLISH}",
    WarningCode.SENTENCES_CUT: f"Only the first {MAX_SENTENCES:,} sentences of the abstract are read, and it "
    "has {all} more; shorten it if these matter.",
    WarningCode.SENTENCES_PAST_TOKEN_LIMIT: _NOT_READ.replace("{purpose}", ""),
    WarningCode.UNLIKE_SENTENCES_PAST_TOKEN_LIMIT: _NOT_READ.replace("{purpose}", "to be unlike "),
    WarningCode.FACET_MISSING: "No sentence of the query has the facet {all}, so only the other chosen "
    "facets count; choose sentences by number to include more.",
    WarningCode.UNLIKE_FACET_MISSING: "No sentence of the query has the facet {all}, so it cannot be used "
    "with unlike; choose sentences by number instead.",
    WarningCode.INDEXED_WITH_OTHER_TAGGER: "The facets of the collection come from another tagger ({all}) "
    "than those of the query; choose sentences by number where this matters.",
    WarningCode.NOT_CONVERGED: "The match is less exact than usual for {all} of the results; take their "
    "scores as approximate.",
    WarningCode.LIST_ENDS_AT: "The list ends after {all} papers although there are more; add filters to see "
    "others.",
    WarningCode.REPEATED_SENTENCES: "Sentences with the same text as a nearer one were left out ({all}), so "
    "the list is shorter than requested; add filters to find others.",
    WarningCode.WORDS_NOT_INDEXED: "Shared words do not count, because the collection was built by an older "
    "version and has no words of {all} papers; run `akin compact` once to add them.",
    WarningCode.NO_GOOD_MATCH: "There is no good match, because all of these results are {all}; try other "
    "words, or add papers.",
    WarningCode.PARTIAL_COVERAGE: "Only {all} % of the collection could be searched, because machines that "
    "hold the rest do not respond; search again later.",
    WarningCode.ONLY_LAST_ADDED: "More papers were added than one search compares, so only the last {all} "
    "count; mark papers as seen more often.",
}


def coverage_warning(coverage: float) -> Iterator[AnswerWarning]:
    """Yield a warning if not all of a collection could be searched."""
    if coverage < 1:
        yield warning(WarningCode.PARTIAL_COVERAGE, f"{min(100 * coverage, 99.9):.1f}")


def warning(code: WarningCode, *about: str | int) -> AnswerWarning:
    """Return the warning with this code, about one or more values."""
    shown = [f"{each:,}" if isinstance(each, int) else each for each in about]
    message = _MESSAGES[code].format(all=" or ".join(shown), first=shown[0])
    return AnswerWarning(code, message, tuple(map(str, about)))
