"""The words of texts: what counts as a word, which words are equal, and where they are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.text.words import MAX_WORD_CHARS, count_words, phrases, places, plain, spellings_of, stems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a I ? 5", []),  # one character is not a word
        ("The and of", []),
        ("Networks, network's NETWORK", ["network", "network", "network"]),
        ("BERT-base on COVID-19", ["bert", "base", "covid", "19", "covid19"]),
        ("IL-6, il6; GPT-4 and GPT\u20113", ["il", "il6", "gpt", "gpt", "il6", "gpt4", "gpt3"]),
        ("a t-SNE-based map", ["sne", "base", "map", "tsne"]),
        ("TNF-α in C++, F# and 3-D", ["tnf", "tnfα", "c++", "f#", "3d"]),
        ("2019-2020, -5, x-, 1+1, a--b", ["2019", "2020"]),
        ("用GPT-4做", ["gpt", "gpt4"]),
        ("C++17, GPT-3.5, GPT-3. IL−6", ["17", "gpt", "gpt", "il", "c++", "gpt3.5", "gpt3", "il6"]),
        ("人々", ["人々"]),
        (f"{'x' * 21}-4 4-{'x' * 21} {'x' * 20}-4", ["x" * 21, "x" * 21, "x" * 20, "x" * 20 + "4"]),
        ("snake_case p53 mRNA", ["snake", "case", "p53", "mrna"]),
        ("ﬁne ＢＥＲＴ Straße STRASSE", ["fine", "bert", "strass", "strass"]),
        ("数据增强", ["数据", "据增", "增强"]),
        ("用BERT做", ["bert"]),
        ("विज्ञान", ["विज्ञान"]),
        ("наука о языке", ["наука", "языке"]),
        ("x" * 500, ["x" * MAX_WORD_CHARS]),
        ("\ud800x\udfff \x00 \u202e 🙂", []),
    ],
)
def test_what_a_word_is(text: str, expected: list[str]) -> None:
    """A word is a run of letters and digits in any case and form; unspaced scripts give pairs."""
    assert expected == stems(text)


def test_a_title_counts_twice() -> None:
    """Words of the title count twice, also if the abstract has them."""
    assert {"flood": 3, "river": 1} == count_words("Floods", "Rivers flood.")


def test_words_are_shown_as_they_are_written() -> None:
    """A word is shown in its most frequent form, the first one if several are; a missing word is left out."""
    text = "Training trains. We trained, trained and tested BERT."
    assert {"train": "trained", "bert": "BERT"} == spellings_of(text, {"train", "bert", "flood"})
    assert {"gpt": "GPT", "gpt4": "GPT-4"} == spellings_of("GPT-4 is no GPT-3.", {"gpt", "gpt4"})
    assert [(20, 27, "train"), (29, 36, "train")] == places(text, {"train"})[2:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('uses of "Graph-networks" and “flood maps”', ["Graph-networks", "flood maps"]),
        ("«прогноз паводков» 「数据增强」", ["прогноз паводков", "数据增强"]),
        ('a 6" pipe and "two 6" pipes', ["two 6"]),
        ('"" "the" "', []),
        (f'"{"x" * 101}"', []),
    ],
)
def test_what_is_quoted(text: str, expected: list[str]) -> None:
    """Text between nearby quotation marks is a phrase if it has a word that counts."""
    assert expected == phrases(text)


@pytest.mark.parametrize(
    ("text", "phrase", "expected"),
    [
        ("We train GRAPH\nnetworks.", "graph networks", True),
        ("Graphs of networks", "graph networks", False),
        ("A paragraph networks", "graph networks", False),
        ("Hepatitis B", "hepatitis C", False),
        ("COVID-19 vaccines", "covid 19", True),
        ("我们用数据增强方法", "数据增强", True),
        ("", "graph", False),
    ],
)
def test_a_phrase_is_in_a_text_where_its_plain_form_is(text: str, phrase: str, expected: bool) -> None:
    """A phrase matches letter for letter, except for case, hyphens and the space between words."""
    assert expected is (plain(phrase) in plain(text))


@settings(max_examples=200)
@given(st.text(max_size=300) | st.text(st.sampled_from("aZé\u0301用9 -\u2011+#."), max_size=60))
def test_words_stand_where_they_are_said_to(text: str) -> None:
    """Every stem of any text is found at its places in the text."""
    found = places(text, frozenset(stems(text)))
    assert sorted(stems(text)) == sorted(stem for _, _, stem in found)
    assert sorted(found, key=lambda each: (each[0], -each[1])) == found
    assert {*stems(text)} == {*spellings_of(text, frozenset(stems(text)))}
    assert all(0 <= start < end <= len(text) and end - start <= MAX_WORD_CHARS for start, end, _ in found)


@settings(max_examples=200)
@given(st.text(st.sampled_from("abdeilntyzABDEILNTYZ019 _-'.+#"), max_size=200))
def test_words_of_plain_text_stand_where_they_are_said_to(text: str) -> None:
    """Every stem of ASCII text, which has a separate code path, is found at its places."""
    assert sorted(stems(text)) == sorted(stem for _, _, stem in places(text, frozenset(stems(text))))


@pytest.mark.parametrize("text", ["dying lying tying skies", "idly gently ugly early only", "b9 YB AED"])
def test_words_whose_stems_are_exceptions_are_found(text: str) -> None:
    """Words with an exceptional stem are found at their places."""
    assert stems(text) == [stem for _, _, stem in places(text, frozenset(stems(text)))]
    assert {*stems(text)} == {*spellings_of(text, frozenset(stems(text)))}
    assert [] == places(text, frozenset())


def test_a_word_inside_another_has_no_place() -> None:
    """Only whole words count, also if a longer word that begins or ends with them comes first."""
    text = "Concatenate cat bobcat cats, CAT and cat9."
    found = [(12, 15, "cat"), (23, 27, "cat"), (29, 32, "cat")]  # cat, cats, CAT
    assert found == places(text, {"cat"})
