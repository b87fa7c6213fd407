"""Tests of the selection of query sentences, their sides and how far they are turned."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import SentenceSelectionError
from models.types import Facet, Paper, Sentence, Unit
from service.search.aspect import (
    DEFAULT_FOCUS,
    Aspect,
    Contrast,
    Selection,
    apply_focus,
    facets_missing,
    select_sentences,
)

B, AIM, M, R = Facet.BACKGROUND, Facet.OBJECTIVE, Facet.METHOD, Facet.RESULT
LABELS = (B, AIM, M, M, R)


def paper(labels: tuple[Facet | None, ...] = LABELS) -> Paper:
    """Return a paper whose sentences have these facets."""
    sentences = tuple(Sentence("x.", 3 * i, 3 * i + 2, label) for i, label in enumerate(labels))
    return Paper("p", "T", "x. " * len(labels), sentences)


def select(aspect: Aspect, *, labels: tuple[Facet | None, ...] = LABELS, n_vectors: int = 5) -> Selection:
    """Return the selection in a paper with these facets."""
    return select_sentences(aspect, paper(labels), n_vectors=n_vectors, unit=Unit.SENTENCE)


@pytest.mark.parametrize(
    ("aspect", "expected"),
    [
        (Aspect(), Selection((0, 1, 2, 3, 4))),
        (Aspect(facets=(M,)), Selection((2, 3))),
        (Aspect(facets=(R, M)), Selection((2, 3, 4))),
        (Aspect(facets=(B,)), Selection((0, 1))),
        (Aspect(facets=(AIM,)), Selection((1,))),
        (Aspect(sentences=(4, 0, 4)), Selection((0, 4))),
        (Aspect(facets=(M,), unlike=Contrast(facets=(B,))), Selection((2, 3), (0, 1))),
        (Aspect(facets=(M,), unlike=Contrast(facets=(B, R))), Selection((2, 3), (0, 1, 4))),
        (Aspect(sentences=(2,), unlike=Contrast(sentences=(3,))), Selection((2,), (3,))),
        (Aspect(facets=(M,), unlike=Contrast(sentences=(4,))), Selection((2, 3), (4,))),
        (Aspect(unlike=Contrast(facets=(B,))), Selection((2, 3, 4), (0, 1))),
        (Aspect(unlike=Contrast(sentences=(2,))), Selection((0, 1, 3, 4), (2,))),
        (Aspect(facets=(Facet.OTHER,)), Selection(())),
        (Aspect(facets=(M,), unlike=Contrast(facets=(Facet.OTHER,))), Selection((2, 3), ())),
        (Aspect(unlike=Contrast(facets=(Facet.OTHER,))), Selection(())),
        (Aspect(facets=(Facet.OTHER,), unlike=Contrast(facets=(B, M, R))), Selection(())),
    ],
)
def test_an_aspect_selects_its_sentences(aspect: Aspect, expected: Selection) -> None:
    """Facets or numbers select both sides; with only an unlike side, all others are the like side."""
    assert expected == select(aspect)


def test_sentences_past_the_token_limit_are_not_selected() -> None:
    """Neither side holds a sentence without a vector."""
    aspect = Aspect(facets=(B, R), unlike=Contrast(facets=(M,)))
    assert Selection((0, 1), (2,)) == select(aspect, n_vectors=3)


@pytest.mark.parametrize(
    ("aspect", "message"),
    [
        (
            Aspect(facets=(M,), unlike=Contrast(facets=(M,))),
            "Sentences [2, 3] are chosen as both like and unlike; ",
        ),
        (
            Aspect(facets=(B,), unlike=Contrast(facets=(AIM,))),
            "Sentence [1] is chosen as both like and unlike (objective counts ",
        ),
        (
            Aspect(sentences=(0, 4), unlike=Contrast(facets=(R,))),
            "Sentence [4] is chosen as both like and unlike; ",
        ),
        (Aspect(unlike=Contrast(sentences=(0, 1, 2, 3, 4))), "nothing is left to search for"),
        (Aspect(sentences=(0,), unlike=Contrast(sentences=(5,))), "numbered 0 to 4"),
    ],
)
def test_a_contradiction_is_an_error(aspect: Aspect, message: str) -> None:
    """A sentence on both sides, an empty like side and a number out of range raise an error."""
    with pytest.raises(SentenceSelectionError) as error:
        select(aspect)
    assert message in str(error.value)


@pytest.mark.parametrize("aspect", [Aspect(facets=(M,)), Aspect(unlike=Contrast(facets=(M,)))])
def test_a_paper_without_labels_says_so(aspect: Aspect) -> None:
    """Selecting facets in a paper without facets is an error, not an empty answer."""
    with pytest.raises(SentenceSelectionError, match="have no facets"):
        select(aspect, labels=(None, None, None, None, None))


@pytest.mark.parametrize(
    "aspect", [Aspect(unlike=Contrast(facets=(M,))), Aspect(unlike=Contrast(sentences=(0,)))]
)
def test_one_vector_a_paper_has_no_contrast(aspect: Aspect) -> None:
    """With one vector per paper a contrast raises an error."""
    with pytest.raises(SentenceSelectionError, match="one vector per paper"):
        select_sentences(aspect, paper(), n_vectors=1, unit=Unit.DOCUMENT)


@pytest.mark.parametrize(
    ("aspect", "n_vectors", "expected"),
    [
        (
            Aspect(facets=(Facet.OTHER,)),
            5,
            "No sentence of the query has the facet other; it has background, objective, method and result.",
        ),
        (
            Aspect(facets=(R, Facet.OTHER)),
            2,
            (
                "No sentence of the query has the facet result or other; it has background and objective. "
                "Sentences from number 2 on were not encoded."
            ),
        ),
        (
            Aspect(unlike=Contrast(facets=(R,))),
            1,
            (
                "No sentence of the query has the facet result; it has background. "
                "Sentences from number 1 on were not encoded."
            ),
        ),
    ],
)
def test_a_missing_facet_is_reported_with_those_there_are(
    aspect: Aspect, n_vectors: int, expected: str
) -> None:
    """The detail names the missing facets, those present, and a token limit that may be the reason."""
    assert expected == facets_missing(aspect, paper(), n_vectors=n_vectors)


def test_several_facets_turn_as_little_as_the_one_that_turns_least() -> None:
    """Several facets are turned like the one that is turned least; a given focus overrides this."""
    turns = [Aspect(facets=facets).turn for facets in ((), (M,), (B,), (B, M), (M, R))]
    assert [DEFAULT_FOCUS, 0.4, 0.3, 0.3, 0.0] == turns
    assert 0.7 == Aspect(facets=(M, R), focus=0.7).turn


VECTORS = st.tuples(st.integers(2, 8), st.integers(0, 2**32 - 1)).map(
    lambda given: np.random.default_rng(given[1]).normal(size=(given[0], 6)).astype(np.float32)
)


@given(VECTORS, st.floats(0, 1), st.data())
def test_turning_keeps_norms_and_leaves_the_others(
    vectors: np.ndarray, focus: float, data: st.DataObject
) -> None:
    """Turned vectors keep their norms and come no nearer to the mean of the others; focus 0 changes none."""
    selected = sorted(data.draw(st.sets(st.integers(0, len(vectors) - 1), min_size=1)))
    turned = apply_focus(vectors, selected, focus=focus)
    np.testing.assert_allclose(
        np.linalg.norm(vectors[selected], axis=1), np.linalg.norm(turned, axis=1), rtol=1e-4
    )
    others = np.delete(vectors, selected, axis=0)
    if len(others):
        away = others.mean(axis=0)
        assert (turned @ away <= vectors[selected] @ away + 1e-4).all()
    assert (vectors[selected] == apply_focus(vectors, selected, focus=0.0)).all()


@pytest.mark.parametrize("n_sentences", range(2, 12))
def test_a_vector_equal_to_the_mean_of_the_others_stays(n_sentences: int) -> None:
    """What rounding leaves of it has no direction."""
    own = np.random.default_rng(n_sentences).normal(size=384).astype(np.float32)
    turned = apply_focus(np.tile(own, (n_sentences, 1)), [0], focus=1.0)
    np.testing.assert_array_equal(turned, own[None])
