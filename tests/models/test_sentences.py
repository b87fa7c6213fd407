"""Sentence splitting: exact offsets, the cases for which the merge layer exists, hostile input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import InputError
from models.text.sentences import MAX_SENTENCE_CHARS, sentences_from_list, split_sentences
from models.types import Facet, Sentence
from tests.support.growing import grows_too_fast

# Pieces that trigger the rules of the splitter more often than random characters do.
PIECES = st.sampled_from(
    ["We ", "see", " ", "\n", "\n\n", "\r\n", ". ", ".", "? ", '"', "”", "(", ")", "[", "$", "e.g. ", "Fig. ",
     "3", "al. ", "A. ", "a", "é", "e\u0301", "你好。", "😀", "\u200b", "\u2028", "\ud800", "\0", "- ", "1) ",
     "x" * 700]
)  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join))

HOSTILE = {
    "one word": "a",
    "stops": ".",
    "brackets": "(",
    "closers after stops": ".) ",
    "line ends": "\n",
    "spaces": " ",
    "titles": "Mr. ",
    "combining marks": "e\u0301\u0302",
    "emoji": "😀",
    "joined emoji": "👩\u200d👩\u200d👧",
    "zero width": "\u200b",
    "letters": "A. ",
    "quoted letters": '"A. ',
    "opening quotes": "“",
    "apostrophes": "'",
    "open quotations": "“a. B",
    "short sentences": "A b. ",
    "ellipses": "... ",
    "no spaces": "你好。世界！",
    "mixed scripts": "Привет. 你好。 مرحبا؟ Hello! नमस्ते। ",
    "paragraphs": "a\n\n",
    "bullets": "• ",
    "dollars": "$a ",
    "open brackets": "( a. B ",
    "surrogates": "\ud800",
    "citations": "[1]",
}


def texts_of(text: str) -> list[str]:
    """Return the sentences without their offsets."""
    return [sentence.text for sentence in split_sentences(text)]


def assert_invariants(text: str) -> None:
    """Assert what is true of the sentences of any text."""
    sentences = split_sentences(text)
    end = 0
    for sentence in sentences:
        assert text[sentence.start : sentence.end] == sentence.text
        assert sentence.text == sentence.text.strip()
        assert 0 < len(sentence.text) <= MAX_SENTENCE_CHARS
        assert text[end : sentence.start].strip() == ""
        end = sentence.end
    assert text[end:].strip() == ""


@given(TEXTS)
def test_every_character_belongs_to_one_sentence_at_its_offsets(text: str) -> None:
    """Sentences are exact, stripped, capped slices in order, with only white space between them."""
    assert_invariants(text)


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_split_exactly_in_linear_time(unit: str) -> None:
    """Time grows about linearly with any hostile text, and offsets stay exact."""
    assert not grows_too_fast(split_sentences, lambda size: (unit * size)[:size])
    assert_invariants((unit * 16_384)[:16_384])


@pytest.mark.parametrize(
    "text",
    [
        "We follow Smith et al. (2003) and Rask et al. [4] here.",
        "See Fig. 3 and Eq. (4) for it.",
        "Sec. 5 and Tab. 2 show this.",
        "Long spans, e.g. BERT and i.e. Transformers, cf. Vaswani.",
        "It is 5 vs. Rask with approx. 3 resp. 4 of them.",
        "We use No. 7 by Dr. Quill and Prof. Rask.",
        "J. R. Smith and A. B. Jones wrote it.",
        "A gain of 0.5 at p < .05 was seen.",
        "The U.S. government paid.",
        "It went on. however slowly it was.",
        "Let $x. Y$ be a formula with $p. Q$ in it.",
        "They (Smith 2003. See there) agree.",
        "2. Robust methods win.",
        "Wir trafen uns am 3. Mai in Bonn.",
        "Как видно, рис. 3 и табл. 2 верны.",
        "Written by John F. Kennedy on St. Lawrence Island for Mr. Quill.",
        "Lamps, bulbs etc. were sold.",
    ],
)
def test_stops_that_end_no_sentence(text: str) -> None:
    """Stops of abbreviations, initials, numbers, maths and brackets, or before lower case, end nothing."""
    assert [text] == texts_of(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "They ask “why?” We say (so.) Then we go.",
            ["They ask “why?”", "We say (so.)", "Then we go."],
        ),
        ("The models' weights are fixed. It's cheap.", ["The models' weights are fixed.", "It's cheap."]),
        ("An open (bracket. Another one.", ["An open (bracket.", "Another one."]),
        ("True for p < q. False for q > p.", ["True for p < q.", "False for q > p."]),
        ("It holds for all n. We prove it.", ["It holds for all n.", "We prove it."]),
        ("It is the state of the art. Code is public.", ["It is the state of the art.", "Code is public."]),
        (
            "We show two things: (a) it works. (b) It is fast.",
            ["We show two things: (a) it works.", "(b) It is fast."],
        ),
        ("It costs $5. Then it costs $10.", ["It costs $5.", "Then it costs $10."]),
        ("A hard\nline end. Next\r\none.", ["A hard\nline end.", "Next\r\none."]),
        ("A heading\n\nThe text", ["A heading", "The text"]),
        ("你好。世界很大！", ["你好。", "世界很大！"]),
        ("We use C4. cfKG is next.", ["We use C4.", "cfKG is next."]),
        ("We saw type B. Results follow.", ["We saw type B.", "Results follow."]),
        ("It is Hepatitis C. Patients slept.", ["It is Hepatitis C.", "Patients slept."]),
        ("Lamps, etc. Available ones burn.", ["Lamps, etc.", "Available ones burn."]),
        ("We improve MT. Considerable work is left.", ["We improve MT.", "Considerable work is left."]),
        ("We write MR. We read it.", ["We write MR.", "We read it."]),
        ("Voici le sens. La suite vient.", ["Voici le sens.", "La suite vient."]),
        ("Es begann 2020. Mai war es.", ["Es begann 2020.", "Mai war es."]),
        (
            "rivers rise. we fit a graph, e.g. of smith et al. (2003), to them. it works!",
            ["rivers rise.", "we fit a graph, e.g. of smith et al. (2003), to them.", "it works!"],
        ),
    ],
)
def test_boundaries(text: str, expected: list[str]) -> None:
    """Quotes, brackets, variables, and a text in lower case do not hide the end of a sentence."""
    assert expected == texts_of(text)


def test_nothing_to_split() -> None:
    """A text of only white space has no sentences."""
    assert () == split_sentences("") == split_sentences(" \n\t ")


def test_too_long_a_sentence_is_cut_at_white_space() -> None:
    """A sentence over the cap is cut at the last white space within the cap."""
    words = "word " * 900
    assert [1999, 1999, 499] == [len(text) for text in texts_of(words)]


def test_too_long_a_word_is_cut_at_the_cap() -> None:
    """A word over the cap is cut at the cap."""
    assert [MAX_SENTENCE_CHARS, MAX_SENTENCE_CHARS, 1] == [len(t) for t in texts_of("x" * 4001)]


def test_a_list_is_joined_by_single_spaces() -> None:
    """Given sentences are stripped and joined by one space; empty ones are dropped with their facets."""
    abstract, sentences = sentences_from_list(
        [" We ask. ", "", "We answer."], [Facet.OBJECTIVE, Facet.OTHER, None]
    )
    assert "We ask. We answer." == abstract
    assert (Sentence("We ask.", 0, 7, Facet.OBJECTIVE), Sentence("We answer.", 8, 18, None)) == sentences


def test_a_list_needs_one_facet_for_each_sentence() -> None:
    """A number of facets other than that of sentences is refused."""
    with pytest.raises(InputError, match="1 facet for 2 sentences"):
        sentences_from_list(["One.", "Two."], [None])


@given(st.lists(st.text()))
def test_offsets_of_a_list(parts: list[str]) -> None:
    """Sentences of a list are slices of the joined abstract."""
    abstract, sentences = sentences_from_list(parts)
    assert [part.strip() for part in parts if part.strip()] == [abstract[s.start : s.end] for s in sentences]
