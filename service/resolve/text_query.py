"""Short texts as queries: a claim or a few words, taken as one sentence without a title."""

from models.errors import SentenceSelectionError
from models.text.language import other_language
from models.types import Paper, Sentence
from service.answer_warnings import AnswerWarning, WarningCode, warning

MAX_TEXT_CHARS = 2_000
# The language of a shorter text is a guess: "state a gap" is taken for Northern Sotho.
_MIN_CHARS_TO_TELL = 40


def text_paper(text: str) -> Paper:
    """Return ``text`` as a paper to search for; raises SentenceSelectionError for a blank text."""
    if not text.strip():
        raise SentenceSelectionError("The query text is blank; give a claim, a question or a few words.")
    return one_sentence(text)


def one_sentence(text: str) -> Paper:
    """Return a paper without id, title and facets that has the stripped ``text`` as its only sentence."""
    text = text.strip()
    return Paper(id="", title="", abstract=text, sentences=(Sentence(text, 0, len(text)),))


def text_warnings(text: str) -> tuple[AnswerWarning, ...]:
    """Return a warning for a text that does not look English, if it is long enough to tell."""
    language = other_language(text) if len(text) >= _MIN_CHARS_TO_TELL else None
    return () if language is None else (warning(WarningCode.TEXT_NOT_ENGLISH, language),)
