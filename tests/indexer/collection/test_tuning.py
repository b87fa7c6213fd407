"""`akin tune`: the least effort at which an approximate index reaches the requested recall."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.collection.maintenance.tuning import EFFORTS, K, tried_efforts, tune
from indexer.index.backends.faiss_codes import FaissCodesIndex
from indexer.index.vector_index import VectorIndex, build_index
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import InputError
from models.types import Hits
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.commands import flat
from tests.support.examples.models.clusters import clustered


@pytest.fixture(scope="module")
def rows() -> list[np.ndarray]:
    """Return the rows of two segments, enough for an index of lists."""
    every = clustered(26_000, 16)
    return [every[:14_000], every[14_000:]]


@pytest.fixture(scope="module")
def indexes(rows: list[np.ndarray]) -> list[VectorIndex]:
    """Return an index of lists over the rows of each segment."""
    return [build_index(own, "ivfsq", device="cpu") for own in rows]


def test_more_effort_finds_more_until_it_is_enough(
    indexes: list[VectorIndex], rows: list[np.ndarray]
) -> None:
    """Recall rises with the effort, as a direct count confirms, until it reaches the requested one."""
    queries = rows[0][:40].astype(np.float32)
    tries = list(tried_efforts(indexes, rows, queries, recall=1.0))
    assert EFFORTS[: len(tries)] == tuple(each.effort for each in tries)
    assert all(one.recall <= other.recall + 0.005 for one, other in pairwise(tries))
    assert tries[0].recall < tries[-1].recall
    wanted = tries[0].recall + 0.5 * (tries[-1].recall - tries[0].recall)
    enough = list(tried_efforts(indexes, rows, queries, recall=wanted))
    assert enough[-1].recall >= wanted
    assert all(each.recall < wanted for each in enough[:-1])
    # The indexes keep the last effort that was tried.
    every = np.concatenate(rows).astype(np.float32)
    shares = []
    for query in queries:
        true = set(np.argsort(np.linalg.norm(every - query, axis=1), kind="stable")[:K].tolist())
        hits = [index.search(query[np.newaxis], K) for index in indexes]
        scores = np.concatenate([each.scores[0] for each in hits])
        numbers = np.concatenate([hits[0].rows[0], hits[1].rows[0] + len(rows[0])])
        shares.append(len(true & set(numbers[np.argsort(-scores)][:K].tolist())) / K)
    assert enough[-1].recall == pytest.approx(np.mean(shares), abs=0.01)


def test_what_is_found_out_is_kept(tmp_path: Path, hashing: Encoder) -> None:
    """The chosen effort is stored in a new generation, and stays in use after papers are added."""
    data, papers = tmp_path / "data", many_papers(60)
    build_quietly(write_corpus(tmp_path / "a.jsonl", papers[:50]), data, hashing, backend="hnsw")
    before = current_generation(data)
    looked = tune(data, recall=0.9, n_queries=5, keep=2, store=False)
    assert before == current_generation(data) == looked.manifest.generation
    result = CliRunner().invoke(app, ["tune", "--data", str(data), "--recall", "0.9", "--queries", "5"])
    assert 0 == result.exit_code, result.output
    served = read_manifest(data, current_generation(data))
    assert before != served.generation
    assert looked.chosen is not None
    assert served.effort == looked.chosen.effort != 1
    build_quietly(write_corpus(tmp_path / "b.jsonl", papers[50:]), data, hashing, backend="hnsw")
    snapshot = open_snapshot(data)
    assert (60, served.effort) == (len(snapshot), snapshot.manifest.effort)
    for segment in snapshot.segments:
        assert isinstance(segment.index, FaissCodesIndex)
        assert served.effort == segment.index.effort
    again = open_snapshot(data, before, beside=snapshot)
    assert {1.0} == {
        segment.index.effort for segment in again.segments if isinstance(segment.index, FaissCodesIndex)
    }


def test_what_cannot_be_tuned_is_said(
    tmp_path: Path, hashed_data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exact index has nothing to tune; an unreachable recall and one above 1 are errors."""
    result = CliRunner().invoke(app, ["tune", "--data", str(hashed_data)])
    assert (0, True) == (result.exit_code, "nothing to tune" in flat(result.stdout))
    with pytest.raises(InputError, match="a recall of 98"):
        tune(hashed_data, recall=98, keep=2)
    data = tmp_path / "data"
    corpus = write_corpus(tmp_path / "a.jsonl", many_papers(20))
    build_quietly(corpus, data, hashing, backend="hnsw")
    before = current_generation(data)
    search = FaissCodesIndex.search

    def finds_worse(*given: Any, **named: Any) -> Hits:
        found = search(*given, **named)
        return replace(found, scores=found.scores - 1)

    monkeypatch.setattr(FaissCodesIndex, "search", finds_worse)
    result = CliRunner().invoke(app, ["tune", "--data", str(data)])
    assert 1 == result.exit_code
    assert "No effort up to 8 finds 98.0%" in flat(result.stderr)
    assert before == current_generation(data)
