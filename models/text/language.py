"""Detects the language of abstracts that are not in English."""

import pycld2

# Enough to detect a language; the cost grows with the text.
_CHARACTERS_READ = 500
# The languages that papers are written in. The detector has a hundred more, and may take English with odd
# words for one of those.
_PAPER_LANGUAGES = frozenset(
    {"ar", "bg", "bn", "ca", "cs", "da", "de", "el", "es", "et", "eu", "fa", "fi", "fr"}
    | {"gl", "he", "hi", "hr", "hu", "hy", "id", "it", "iw", "ja", "ka", "kk", "ko", "lt"}
    | {"lv", "mk", "ms", "nb", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr"}
    | {"sv", "ta", "th", "tr", "uk", "ur", "uz", "vi", "zh", "zh-Hant"}
)


def other_language(text: str) -> str | None:
    """Return the ISO 639-1 code of the language of ``text``, or ``None`` if it is English or uncertain.

    A language in which hardly any papers are written counts as uncertain.
    """
    # The detector refuses characters that are not printable; extracted abstracts have some.
    read = text[:_CHARACTERS_READ]
    if not read.isprintable():
        read = "".join(char if char.isprintable() else " " for char in read)
    reliable, _, languages = pycld2.detect(read)
    code: str = languages[0][1]
    return code if reliable and code in _PAPER_LANGUAGES else None
