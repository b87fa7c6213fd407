"""Tests of filters by author and id over HTTP, on the command line and in a segment."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.snapshot import segment
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.types import Filters
from service.app import create_app
from service.settings import Settings
from tests.support.builds import build_quietly, many_papers, write_corpus

AUTHORS = {
    "a/1": ["Ann Lee", "Bo Li"],
    "b.2": ["ANN LEE"],
    "c": ["Ann Leeson"],
    "d": [],
    "é🙂": ["Śára Łuk"],
    "İ": ["İnci ΝΙΚΟΣ"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a data folder with six papers and their authors."""
    folder = tmp_path_factory.mktemp("filters")
    papers = [
        {"id": name, "title": name, "abstract": [f"Text {i}."], "authors": authors, "year": 2000 + i}
        for i, (name, authors) in enumerate(AUTHORS.items())
    ]
    build_quietly(write_corpus(folder / "c.jsonl", papers), folder / "data", hashing)
    return folder / "data"


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over these papers."""
    with TestClient(create_app(Settings(data=data, device="cpu"))) as client:
        yield client


def found(client: TestClient, filters: dict[str, object], **query: str) -> set[str]:
    """Return the ids of all papers that pass."""
    searched = query or {"abstract": "Text."}
    response = client.post("/v1/search", json={"query": searched, "filters": filters, "limit": 100})
    assert 200 == response.status_code, response.text
    return {result["paper"]["id"] for result in response.json()["results"]}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"authors": ["ann lee"]}, {"a/1", "b.2"}),
        ({"authors": ["Bo Li", "śára łuk"]}, {"a/1", "é🙂"}),
        ({"authors": ["Ann"]}, set()),
        ({"authors": ["İnci ΝΙΚΟΣ"]}, {"İ"}),
        ({"authors": ["S\u0301a\u0301ra Łuk"]}, {"é🙂"}),
        ({"ids": ["c", "é🙂", "nowhere", "c"]}, {"c", "é🙂"}),
        ({"ids": ["nowhere"]}, set()),
        ({"exclude_ids": ["a/1", "nowhere"]}, {"b.2", "c", "d", "é🙂", "İ"}),
        ({"ids": ["a/1", "b.2"], "exclude_ids": ["b.2"]}, {"a/1"}),
        ({"ids": ["a/1", "b.2", "d"], "year_from": 2001}, {"b.2", "d"}),
        ({"ids": [f"unknown-{i}" for i in range(9_999)] + ["d"]}, {"d"}),
    ],
)
def test_who_passes(client: TestClient, filters: dict[str, object], expected: set[str]) -> None:
    """A paper passes with any one of the authors, by full name in any case; unknown ids are ignored."""
    assert expected == found(client, filters)


def test_a_query_by_id_excludes_itself_too(client: TestClient) -> None:
    """The query's own paper is excluded in addition to the given ids, even if ``ids`` names it."""
    assert {"b.2"} == found(client, {"ids": ["a/1", "b.2", "c"], "exclude_ids": ["c"]}, paper_id="a/1")


WRONG: list[dict[str, object]] = [
    {"ids": []},
    {"ids": ["x"] * 10_001},
    {"exclude_ids": ["x"] * 10_001},
    {"ids": [""]},
    {"ids": ["x" * 201]},
    {"ids": [1]},
    {"authors": [""]},
    {"authors": ["x"] * 101},
    {"authors": None},
]


@pytest.mark.parametrize("filters", WRONG)
def test_wrong_filters_are_problems(client: TestClient, filters: dict[str, object]) -> None:
    """Empty or too long lists, and entries that are no ids or names, get 422."""
    assert (
        422 == client.post("/v1/search", json={"query": {"abstract": "T."}, "filters": filters}).status_code
    )


@pytest.mark.parametrize("filters", [{"exclude_ids": list(AUTHORS)}, {"authors": ["Nobody"]}])
def test_nothing_left_has_its_reason(client: TestClient, filters: dict[str, object]) -> None:
    """If the filters leave no paper, the answer's reason says so."""
    body = {"query": {"abstract": "Text."}, "filters": filters}
    assert "filtered_out" == client.post("/v1/search", json=body).json()["reason"]


def test_authors_on_the_command_line(data: Path) -> None:
    """`akin search` and `akin sentences` accept `--author` several times."""
    options = ["--data", str(data), "--author", "bo li", "--author", "Ann Leeson", "--json"]
    for command in (["search", "--paper", "d"], ["sentences", "Text."]):
        result = CliRunner().invoke(app, [*command, *options])
        assert 0 == result.exit_code, result.output
        papers = [each["paper"]["id"] for each in json.loads(result.output)["results"]]
        assert ["a/1", "c"] == sorted(papers)


@pytest.mark.parametrize("n_unknown", [0, 500])
def test_many_ids_are_found_at_once(hashed_snapshot: Snapshot, n_unknown: int) -> None:
    """A look-up of few or many ids finds every known id and ignores unknown ones."""
    segment = hashed_snapshot
    ids = [segment.paper(i).id for i in (3, 99, 0, 42)]
    ids += ["nowhere", "\ud800", "", *(f"unknown {i}" for i in range(n_unknown))]
    assert [0, 3, 42, 99] == sorted(segment.find_all(ids).tolist())
    assert [] == segment.find_all(frozenset()).tolist()


def test_ids_with_one_hash_are_distinguished(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If hashes collide, the ids themselves decide."""
    monkeypatch.setattr("indexer.snapshot.segment.hash64", lambda _: 7)
    for module in ("segment", "segment_writer", "snapshot"):
        sevens = lambda ids: np.full(len(ids), 7, dtype=np.uint64)  # noqa: E731
        monkeypatch.setattr(f"indexer.snapshot.{module}.hashes64", sevens)
    build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(70)), tmp_path / "data", hashing)
    snapshot = open_snapshot(tmp_path / "data")
    (segment,) = snapshot.segments
    ids = [segment.paper(i).id for i in (5, 61)] + [f"unknown {i}" for i in range(200)]
    assert [5, 61] == sorted(segment.positions(ids).tolist()) == sorted(snapshot.find_all(ids).tolist())
    assert [*range(70)] == sorted(snapshot.shared_with(segment, but=np.array([], np.int64)).tolist())


def test_ids_take_no_room_in_the_memory_of_filters(
    hashed_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filters that differ only in ids share one computation of their other conditions."""
    computed: list[Filters] = []
    work_out = segment.allowed_papers

    def watched(table: pa.Table, filters: Filters) -> np.ndarray:
        computed.append(filters)
        return work_out(table, filters)

    monkeypatch.setattr(segment, "allowed_papers", watched)
    snapshot = open_snapshot(hashed_data)
    for i in range(50):
        allowed = snapshot.allowed_papers(
            Filters(year_from=1900, exclude_ids=frozenset({snapshot.paper(i).id}))
        )
        assert (99, False) == (np.count_nonzero(allowed), bool(allowed[i]))
        assert not allowed.flags.writeable
    assert [Filters(year_from=1900)] == computed
