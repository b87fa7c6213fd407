"""Which abstracts are in another language than English."""

import pycld2

# Enough to tell; the cost grows with the text.
_CHARACTERS_READ = 500


def other_language(text: str) -> str | None:
    """The ISO 639-1 code of the language of ``text``; ``None`` for English and where it is uncertain."""
    # The detector refuses characters that are not text, of which extracted abstracts have some.
    read = "".join(char if char.isprintable() else " " for char in text[:_CHARACTERS_READ])
    reliable, _, languages = pycld2.detect(read)
    code: str = languages[0][1]
    return code if reliable and code != "en" else None
