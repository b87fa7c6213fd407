"""The phrase list and the sentences it labels."""

from collections import Counter
from pathlib import Path

import pytest

from models.errors import InputError
from models.training.rhetoric.phrases import PHRASES, PhraseList, mine, phrase_ngrams, read_phrases
from models.types import Paper, Sentence

LIST = """
[gap]
phrases = ["little is known about", "(has|have) not (yet|) been studied"]
[result]
phrases = ["we show that", "the results of this paper show that"]
[aim]
phrases = ["the aim of this paper", "we show that"]
"""


def phrase_list(folder: Path, content: str = LIST) -> PhraseList:
    """Return a list read from a file."""
    path = folder / "phrases.toml"
    path.write_text(content, encoding="utf-8")
    return read_phrases(path)


def paper(paper_id: str, *texts: str) -> Paper:
    """Return a paper of these sentences."""
    return Paper(paper_id, "", " ".join(texts), tuple(Sentence(text, 0, 0) for text in texts))


def test_a_phrase_names_its_alternatives() -> None:
    """Each choice in each bracket is a reading, and an empty choice leaves the bracket out."""
    assert {
        ("has", "not", "yet", "been"),
        ("has", "not", "been"),
        ("have", "not", "yet", "been"),
    } < phrase_ngrams("(has|have) not (yet|) been")
    assert 4 == len(phrase_ngrams("(has|have) not (yet|) been"))


def test_a_long_phrase_counts_as_its_runs_of_five() -> None:
    """A phrase of more than five words counts as its 5-grams, a shorter one as a single n-gram."""
    assert {("a", "b", "c", "d", "e"), ("b", "c", "d", "e", "f")} == phrase_ngrams("a b c d e f")
    assert {("a", "b", "c", "d", "e")} == phrase_ngrams("a b c d e")
    assert {("a", "b")} == phrase_ngrams("a b")


def test_five_words_at_least_are_the_papers_ngrams(tmp_path: Path) -> None:
    """With at least five words required, shorter readings and functions with only such are dropped."""
    (tmp_path / "list.toml").write_text(LIST + "[short]\nphrases = ['in short']\n", encoding="utf-8")
    phrases = read_phrases(tmp_path / "list.toml", least_words=5)
    assert ("gap", "result", "aim") == phrases.functions
    assert {5} == {len(ngram) for ngram in phrases.ngrams}
    assert frozenset() == phrases.functions_in("Little is known about it.")
    assert frozenset({"gap"}) == phrases.functions_in("It has not yet been studied.")


def test_what_two_functions_share_is_dropped_and_reported(tmp_path: Path) -> None:
    """An n-gram of two functions labels nothing, and the list reports both."""
    phrases = phrase_list(tmp_path)
    assert {("we", "show", "that"): ("aim", "result")} == dict(phrases.ambiguous)
    assert frozenset() == phrases.functions_in("We show that it works.")
    assert frozenset({"gap"}) == phrases.functions_in("Little is known about it.")


def test_words_match_whatever_their_case_and_ending(tmp_path: Path) -> None:
    """Words match by stem, in any case, with punctuation between them, but not inside other words."""
    phrases = phrase_list(tmp_path)
    assert frozenset({"gap"}) == phrases.functions_in("This HAS not been studying, so far.")
    assert frozenset({"aim"}) == phrases.functions_in("The aims of this paper: none.")
    assert frozenset() == phrases.functions_in("Little is knownabout it.")


def test_a_sentence_of_two_functions_teaches_neither(tmp_path: Path) -> None:
    """Only sentences with n-grams of exactly one function are taken, and the others are counted."""
    papers = [
        paper(
            "a",
            "Little is known about seas.",
            "The aim of this paper is seas, of which little is known about.",
        ),
        paper("b", "Nothing here.", "The aim of this paper is a sea."),
    ]
    mined = mine(papers, phrase_list(tmp_path), per_function=9, seed=0)
    assert [("a", 0, "gap"), ("b", 1, "aim")] == [
        (e.paper.id, e.sentence, e.function) for e in mined.examples
    ]
    assert {"gap": 1, "result": 0, "aim": 1} == dict(mined.n_found)
    assert (4, 1) == (mined.n_sentences, mined.n_unclear)


def test_classes_are_balanced_by_a_draw_from_the_whole_corpus(tmp_path: Path) -> None:
    """At most ``per_function`` sentences of each function are drawn evenly from the whole corpus."""
    papers = [paper(f"{i}", "Little is known about seas.") for i in range(400)]
    papers += [paper("last", "The aim of this paper is a sea.")]
    drawn = []
    for seed in range(20):
        mined = mine(papers, phrase_list(tmp_path), per_function=10, seed=seed)
        assert {"gap": 400, "result": 0, "aim": 1} == dict(mined.n_found)
        places = [int(e.paper.id) for e in mined.examples if e.function == "gap"]
        assert (10, sorted(places)) == (len(set(places)), places)
        drawn += places
    # 200 uniform draws of 0..399: the mean is 199.5, its standard error 8.2.
    assert 170 < sum(drawn) / len(drawn) < 229
    assert mined == mine(papers, phrase_list(tmp_path), per_function=10, seed=19)


def test_both_lists_are_one_of_more_than_forty_functions(tmp_path: Path) -> None:
    """They share no n-gram, so none is dropped; each function is named by at least twenty."""
    more = PHRASES.with_name("more_functions.toml").read_text(encoding="utf-8")
    phrases = phrase_list(tmp_path, PHRASES.read_text(encoding="utf-8") + more)
    assert 53 == len(phrases.functions)
    assert {} == phrases.ambiguous
    counts = Counter(phrases.ngrams.values())
    assert [] == [name for name in phrases.functions if counts[name] < 20]


def test_the_shipped_list_is_usable() -> None:
    """The shipped list has 20 functions or more, each with its own n-grams, and labels clear sentences."""
    phrases = read_phrases()
    assert 20 <= len(phrases.functions) == len(set(phrases.ngrams.values()))
    expected = {
        "However, little is known about how birds sleep.": {"point-out-gap"},
        "We propose a novel framework for parsing.": {"propose-method"},
        "It significantly outperforms strong baselines.": {"report-improvement"},
        "Our code is publicly available at this address.": {"release-resource"},
        "In future work, we will study fish.": {"announce-future-work"},
        "Fish swim.": set(),
    }
    assert expected == {text: phrases.functions_in(text) for text in expected}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[gap]\nphrases = 3", r"\[gap\] must hold phrases"),
        ("gap = 3\n[b]\nphrases = ['a b']", r"\[gap\] must hold phrases"),
        ("[gap]\nphrases = ['little (is|)', 'a b']\n[b]\nphrases = ['c d']", "at least 2 words"),
        ("[gap]\nphrases = ['a b']", "at least two are needed"),
        ("[gap]\nphrases = ['is (a|b']", r"unpaired or nested bracket"),
        ("[gap]\nphrases = ['is (a (b|c))']", r"unpaired or nested bracket"),
        ("[gap]\nphrases = ['is a|is b']", r"\| outside of brackets"),
        ("not toml", "cannot be read as a phrase list"),
    ],
)
def test_a_bad_list_is_refused_with_its_place(tmp_path: Path, content: str, message: str) -> None:
    """A bad list is refused with what is wrong and where."""
    with pytest.raises(InputError, match=message):
        phrase_list(tmp_path, content)
    with pytest.raises(InputError, match="cannot be read"):
        read_phrases(tmp_path / "absent.toml")
