"""A whole collection compared with a query, against the kernels of the service."""

from typing import Any

import numpy as np
import pytest
import torch

import models.transport.whole
from models.errors import DeviceFullError, InputError
from models.transport import Scorer, score_papers
from models.transport.whole import WholeCollection
from models.types import PackedVectors
from tests.support.examples.models.vectors import clustered_vectors

N_PAPERS = 40
A_CELL = 16  # the solver's numbers for each cell of a plan


@pytest.mark.parametrize(
    ("scorer", "norm", "dtype", "batch_bytes"),
    [
        (Scorer.OT, 1.0, np.float16, None),
        (Scorer.OT, 1.0, np.float32, 1),
        (Scorer.OT, 12.0, np.float32, 200_000),
        (Scorer.EXACT_OT, 1.0, np.float16, 200_000),
        (Scorer.SINGLE, 12.0, np.float32, None),
    ],
)
def test_a_whole_collection_scores_as_its_papers_do(
    scorer: Scorer, norm: float, dtype: type[np.floating], batch_bytes: int | None
) -> None:
    """Whatever the batch size and lengths, scores equal those of the kernels to 1e-5, in order."""
    query, rows, offsets = clustered_vectors(3, n_papers=N_PAPERS, n_sentences=(1, 20), norm=norm)
    rows = rows.astype(dtype)
    whole = WholeCollection(PackedVectors(rows, offsets), device="cpu")
    found = whole.scores(query, scorer=scorer, batch_bytes=batch_bytes)
    expected = score_papers(query, rows.astype(np.float32), offsets, scorer=scorer)
    assert found.converged.all()
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5, rtol=0)


def test_a_batch_is_no_larger_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensors of a batch fit into ``batch_bytes``."""
    query, rows, offsets = clustered_vectors(3, n_papers=N_PAPERS, n_sentences=(1, 20))
    whole = WholeCollection(PackedVectors(rows, offsets), device="cpu")
    batches: list[int] = []
    solve = models.transport.whole.plans_of

    def counted(costs: torch.Tensor, *rest: Any, **named: Any) -> Any:
        batches.append(costs.nbytes)
        return solve(costs, *rest, **named)

    monkeypatch.setattr(models.transport.whole, "plans_of", counted)
    whole.scores(query, batch_bytes=150_000)
    assert 3 < len(batches) < N_PAPERS
    assert A_CELL * max(batches) <= 150_000


def test_a_device_that_runs_out_of_memory_gets_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory, batches are halved with equal scores; if one pair is too large, DeviceFullError."""
    query, rows, offsets = clustered_vectors(3, n_papers=N_PAPERS)
    whole = WholeCollection(PackedVectors(rows, offsets), device="cpu")
    expected = whole.scores(query).scores
    solve, most = models.transport.whole.plans_of, [7]

    def limited(costs: torch.Tensor, *rest: Any, **named: Any) -> Any:
        if len(costs) > most[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return solve(costs, *rest, **named)

    monkeypatch.setattr(models.transport.whole, "plans_of", limited)
    np.testing.assert_allclose(expected, whole.scores(query).scores, atol=1e-7, rtol=0)
    most[0] = 0
    with pytest.raises(DeviceFullError, match="One pair of papers do not fit"):
        whole.scores(query)


def test_what_cannot_be_compared_is_refused() -> None:
    """A paper without sentences, a wrong dimension and non-finite numbers are refused."""
    query, rows, offsets = clustered_vectors(3, n_papers=5)
    with pytest.raises(InputError, match="without sentences"):
        WholeCollection(PackedVectors(rows, np.insert(offsets, 1, 0)), device="cpu")
    whole = WholeCollection(PackedVectors(rows, offsets), device="cpu")
    for unusable in (query[:, 1:], query[:0], np.full_like(query, np.nan)):
        with pytest.raises(InputError, match="expected at least one finite vector of 32"):
            whole.scores(unusable)
    rows[3] = np.inf
    with pytest.raises(InputError, match="not finite"):
        WholeCollection(PackedVectors(rows, offsets), device="cpu").scores(query)
