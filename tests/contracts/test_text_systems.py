"""Tests of the contract of every system in TEXT_SYSTEMS, which rank by words alone."""

import math
from collections.abc import Callable

import pytest

from evaluation.collection import EvalQuery
from evaluation.systems.system import TEXT_SYSTEMS, TextSystem, parse
from evaluation.systems.systems import Systems
from models.types import Paper
from tests.support.examples.evaluation.system_examples import METHOD, OTHERS, PAPERS, WHOLE, collection

RankFn = Callable[..., dict[str, float]]


@pytest.fixture
def rank() -> RankFn:
    """Return a function for a system's scores of one query over the example papers."""

    def rank(name: str, query: EvalQuery) -> dict[str, float]:
        return dict(Systems(collection(query), pytest.fail).rank(name).scores.get(query.id, {}))

    return rank


@pytest.mark.parametrize("name", TEXT_SYSTEMS)
class TestEveryTextSystem:
    def test_it_ranks_the_pool_and_nothing_else(self, rank: RankFn, name: str) -> None:
        """Every other paper of the pool gets a finite score, the same in every run."""
        scores = rank(name, WHOLE)
        assert set(OTHERS) == set(scores)
        assert all(math.isfinite(score) for score in scores.values())
        assert scores == rank(name, WHOLE)

    def test_the_same_text_comes_first(self, rank: RankFn, name: str) -> None:
        """A query with a paper's own words ranks this paper first."""
        for found in PAPERS.values():
            text = Paper(id="asked", title="", abstract=f"{found.title} {found.abstract}", sentences=())
            scores = rank(name, EvalQuery("q:text", text, tuple(PAPERS), "q:text", is_text=True))
            assert found.id == max(scores, key=lambda paper_id: scores[paper_id])

    def test_the_order_of_the_pool_does_not_matter(self, rank: RankFn, name: str) -> None:
        """The scores do not depend on the order of the pool."""
        backwards = EvalQuery("q:whole", WHOLE.paper, OTHERS[::-1], "q")
        assert rank(name, WHOLE) == rank(name, backwards)

    def test_selected_sentences_count_alone(self, rank: RankFn, name: str) -> None:
        """With ``-facet`` only the selected sentences count; without it, the whole paper does."""
        facet = str(TextSystem(name, facet=True))  # type: ignore[arg-type]  # one of the names
        sentence = PAPERS["q"].sentences[1].text
        text = Paper(id="asked", title="", abstract=sentence, sentences=())
        assert rank(name, METHOD) == rank(name, WHOLE)
        assert rank(facet, METHOD) == rank(name, EvalQuery("q:method", text, OTHERS, "q"))

    def test_a_text_without_words_is_not_answered(self, rank: RankFn, name: str) -> None:
        """Stop words and marks alone find nothing, and unknown words score every paper 0."""
        for abstract, scores in (("the of ... ?", {}), ("quixotic zeppelins", dict.fromkeys(OTHERS, 0.0))):
            text = Paper(id="asked", title="", abstract=abstract, sentences=())
            assert scores == rank(name, EvalQuery("q:text", text, OTHERS, "q:text", is_text=True))

    def test_its_name_is_read_as_written(self, rank: RankFn, name: str) -> None:
        """The name in a table can be parsed as a system."""
        for system in (TextSystem(name), TextSystem(name, facet=True)):  # type: ignore[arg-type]  # one of them
            assert system == parse(str(system))
