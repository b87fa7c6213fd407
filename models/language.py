"""Which natural language an abstract is written in."""

import py3langid

# Enough to tell; the cost grows with the text.
_CHARACTERS_READ = 500


def language_of(text: str) -> str:
    """The ISO 639-1 code of the most likely language of ``text``."""
    code: str = py3langid.classify(text[:_CHARACTERS_READ])[0]
    return code


def not_english(what: str, text: str) -> tuple[str, ...]:
    """The warning for ``text`` that looks French: ``abstract_not_english:fr``, if ``what`` is "abstract"."""
    language = language_of(text)
    return () if language == "en" else (f"{what}_not_english:{language}",)
