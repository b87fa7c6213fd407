"""Several seeds on the demo grid: papers of one column share a method, papers of one row a problem.

EXPECTED states precision@7 measured with `minilm`, three seeds of each of ten columns (2026-11).
"""

from pathlib import Path

import pytest

from indexer.snapshot import open_snapshot
from models.encoder import Encoder
from models.types import Facet
from service.search.aspect import Aspect
from service.search.combine import Kinship
from service.search.engine import SearchEngine
from service.search.recommend import RecommendQuery, recommend
from service.search.seeds import Seed
from service.settings import Settings
from tests.support.annotators import annotated

# (akin to, whether the seeds' background is negative) -> precision@7 of the column.
EXPECTED = {
    (Kinship.SOME, False): 0.671,
    (Kinship.ALL, False): 0.743,
    (Kinship.SOME, True): 0.871,
    (Kinship.ALL, True): 0.857,
}


@pytest.fixture(scope="module")
def engine(demo_data: Path, minilm: Encoder) -> SearchEngine:
    """The demo corpus under the default encoder."""
    return SearchEngine(
        open_snapshot(demo_data), lambda: annotated(minilm), n_candidates=Settings().candidates
    )


@pytest.mark.parametrize(("akin_to", "unlike"), list(EXPECTED))
def test_seeds_of_one_method_find_the_method(engine: SearchEngine, akin_to: Kinship, unlike: bool) -> None:
    """Most papers are of the column the seeds are of, and more where the seeds' problems are negative."""
    found = 0
    for column in range(10):
        ids = [f"demo:p0{(column + step) % 10}-m0{column}" for step in (0, 3, 6)]
        query = RecommendQuery(
            seeds=tuple(Seed(each, aspect=Aspect(facets=(Facet.METHOD,))) for each in ids),
            negatives=tuple(Seed(each, aspect=Aspect(facets=(Facet.BACKGROUND,))) for each in ids * unlike),
            akin_to=akin_to,
            limit=7,
        )
        results = recommend(engine, query).results
        found += sum(result.paper.id.endswith(f"-m0{column}") for result in results)
    assert EXPECTED[akin_to, unlike] == pytest.approx(found / 70, abs=0.01)
