"""Tests of ``POST /v1/recommendations``: many seeds, negatives, and seeds that cannot be resolved."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from tests.support.answers import explained
from tests.support.clients import client_of

ID = "demo:p03-m07"
TEXT = {"title": "A draft", "abstract": "Rivers flood towns. We fit a graph network to gauges."}


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus under the hashing encoder."""
    with TestClient(
        create_app(Settings(data=hashed_data, device="cpu")), raise_server_exceptions=False
    ) as client:
        yield client


def recommend(client: TestClient, *seeds: dict[str, Any], **body: Any) -> dict[str, Any]:
    """Return the answer to a request that must succeed."""
    response = client.post("/v1/recommendations", json={"seeds": list(seeds), **body})
    assert 200 == response.status_code, response.text
    answer: dict[str, Any] = response.json()
    return answer


def by_id(*ids: str, **fields: Any) -> list[dict[str, Any]]:
    """Return seeds by id, all with the same fields."""
    return [{"paper_id": each, **fields} for each in ids]


def found(answer: dict[str, Any]) -> list[str]:
    """Return the ids of the results."""
    return [result["paper"]["id"] for result in answer["results"]]


def cells(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alignments and omitted sums, which make the score."""
    return [*result["alignments"], *result["omitted"]]


MIXED: list[dict[str, Any]] = [
    {"paper_id": ID, "facet": "method"},
    {"paper_id": "demo:p00-m03", "sentences": [0, 2], "weight": 3},
    {**TEXT, "facet": ["method", "background"]},
    {"title": "", "abstract": ["One sentence.", "Another one."]},
]


@pytest.mark.parametrize("strategy", ["any", "all"])
def test_alignments_sum_to_the_score(client: TestClient, strategy: str) -> None:
    """For seeds of all kinds with negatives, minus the weighted distances is the score; scores descend."""
    answer = recommend(client, *MIXED, negatives=by_id("demo:p05-m05"), strategy=strategy, limit=20)
    scores = [result["score"] for result in answer["results"]]
    assert (20, sorted(scores, reverse=True)) == (len(scores), scores)
    for result in answer["results"]:
        parts = cells(result)
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)
        assert 1 == pytest.approx(sum(p["weight"] for p in parts if p["weight"] > 0), abs=0.2)
        assert -0.4 == pytest.approx(sum(p["weight"] for p in parts if p["weight"] < 0), abs=0.1)
        assert 64 >= len(result["alignments"])
        assert 1 == pytest.approx(sum(h["weight"] for h in result["highlights"]), abs=1e-6)


def test_an_alignment_names_its_seed(client: TestClient) -> None:
    """An alignment has its seed, the sign of that seed, and one of the seed's chosen sentences."""
    answer = recommend(client, *MIXED, negatives=by_id("demo:p05-m05"), strategy="all")
    chosen = {(seed["seed"], seed["negative"]): seed["selected"] for seed in answer["seeds"]}
    assert [(0, False), (1, False), (2, False), (3, False), (0, True)] == list(chosen)
    assert [0, 2] == chosen[1, False]
    for result in answer["results"]:
        for cell in result["alignments"]:
            assert cell["query_sentence"] in chosen[cell["seed"], cell["negative"]]
            assert cell["negative"] == (cell["weight"] < 0)
            assert 0 <= cell["sentence"] < len(result["paper"]["sentences"])


def by_seed(result: dict[str, Any]) -> dict[tuple[int | None, bool], float]:
    """Return the sum of the weights of each seed and negative."""
    sums: dict[tuple[int | None, bool], float] = {}
    for cell in cells(result):
        key = cell["seed"], cell["negative"]
        sums[key] = sums.get(key, 0.0) + cell["weight"]
    return sums


def test_omitted_alignments_count_for_their_seeds(client: TestClient) -> None:
    """However few alignments are listed, their weights and the omitted sums are the same for each seed."""
    options: Any = {"negatives": by_id("demo:p05-m05"), "strategy": "all"}
    whole = recommend(client, *MIXED, **options, max_alignments=64)["results"][0]
    few = recommend(client, *MIXED, **options, max_alignments=3)["results"][0]
    assert 5 == len(by_seed(whole))
    assert by_seed(whole) == pytest.approx(by_seed(few), abs=1e-9)
    assert sum(each["count"] for each in few["omitted"]) > sum(each["count"] for each in whole["omitted"])


def test_a_paper_is_not_both_a_seed_and_a_negative(client: TestClient) -> None:
    """The same sentences of a paper cannot be both liked and disliked; different facets can."""
    both = {"seeds": by_id(ID, "demo:p00-m03"), "negatives": by_id(ID)}
    answer = client.post("/v1/recommendations", json=both)
    assert 422 == answer.status_code
    assert f"'{ID}' is both among the seeds and among the negatives" in answer.json()["detail"]
    assert found(recommend(client, *by_id(ID, facet="method"), negatives=by_id(ID, facet="background")))


def test_one_seed_gives_what_a_search_gives(client: TestClient) -> None:
    """One seed gives the papers, scores and first alignments of a search."""
    answer = recommend(client, {"paper_id": ID, "facet": "method"})
    searched = client.post("/v1/search", json={"query": {"paper_id": ID}, "facet": "method"}).json()
    assert found(searched) == found(answer)
    for one, other in zip(answer["results"], searched["results"], strict=True):
        assert other["score"] == pytest.approx(one["score"], abs=1e-9)
        alike = {key: one["alignments"][0][key] for key in other["alignments"][0]}
        assert other["alignments"][0] == pytest.approx(alike)
        assert other["highlights"][0]["sentence"] == one["highlights"][0]["sentence"]


def test_the_order_and_repetition_of_seeds_do_not_matter(client: TestClient) -> None:
    """Reversing or repeating the seeds does not change papers and scores."""
    seeds = by_id(ID, "demo:p00-m03", "demo:p01-m01")
    first = recommend(client, *seeds)
    for other in (recommend(client, *reversed(seeds)), recommend(client, *seeds, *seeds)):
        assert found(first) == found(other)
        assert [r["score"] for r in first["results"]] == pytest.approx(
            [r["score"] for r in other["results"]], abs=1e-9
        )


def test_a_weight_draws_results_to_its_seed(client: TestClient) -> None:
    """With either strategy, a seed with nearly all the weight gives the results of that seed alone."""
    alone = found(recommend(client, *by_id("demo:p00-m03"), filters={"exclude_ids": [ID]}))
    for strategy in ("any", "all"):
        heavy = by_id("demo:p00-m03", weight=100) + by_id(ID, weight=0.01)
        assert alone == found(recommend(client, *heavy, strategy=strategy))


def test_a_pasted_seed_has_its_weight(client: TestClient) -> None:
    """With next to no weight beside an id, the results are those of the id alone."""
    pasted = {"title": "Ropes", "abstract": "We sort ropes. They are long.", "weight": 0.01}
    seeds = by_id("demo:p00-m03")
    assert found(recommend(client, *seeds)) == found(recommend(client, *seeds, pasted))


def test_seeds_and_negatives_are_never_returned(client: TestClient) -> None:
    """Seeds and negatives are never returned, by id or pasted in other case and spacing; all others are."""
    papers = [client.get(f"/v1/papers/demo:p0{i}-m00").json()["paper"] for i in range(4)]
    pasted = [
        {"title": papers[0]["title"].upper(), "abstract": "Something else."},
        {"title": "Another", "abstract": papers[1]["abstract"].replace(" ", "\n ")},
    ]
    answer = recommend(client, *pasted, *by_id("demo:p02-m00"), negatives=by_id("demo:p03-m00"), limit=100)
    everyone = {f"demo:p0{i}-m0{j}" for i in range(10) for j in range(10)}
    assert everyone - {f"demo:p0{i}-m00" for i in range(4)} == set(found(answer))
    assert 96 == answer["total"]


@pytest.mark.parametrize("place", ["seeds", "negatives"])
@pytest.mark.parametrize("chosen", [{"facet": "other"}, {"sentences": [150]}], ids=["facet", "sentences"])
@pytest.mark.parametrize("pasted", [False, True], ids=["by id", "pasted"])
def test_a_seed_that_cannot_be_used_is_never_returned(
    client: TestClient, place: str, chosen: dict[str, Any], pasted: bool
) -> None:
    """A seed or negative without the chosen sentences is as little in the answer as one that counts."""
    other = "demo:p00-m03"
    paper = client.get(f"/v1/papers/{other}").json()["paper"]
    named = {name: paper[name] for name in ("title", "abstract")} if pasted else {"paper_id": other}
    given = {"seeds": by_id(ID), "limit": 100}
    given[place] = [*given.get(place, []), {**named, **chosen}]
    answer = client.post("/v1/recommendations", json=given).json()
    assert 1 == len(answer["unresolved"])
    assert found(recommend(client, *by_id(ID), limit=100, filters={"exclude_ids": [other]})) == found(answer)


def test_a_filter_for_unusable_seeds_alone_says_so(client: TestClient) -> None:
    """If only a seed that cannot be used passes the filters, the answer says that seeds are left out."""
    given = [*by_id(ID), {"paper_id": "demo:p00-m03", "facet": "other"}]
    answer = recommend(client, *given, filters={"ids": ["demo:p00-m03"]})
    assert ([], "filtered_out") == (answer["results"], answer["reason"])
    assert answer["detail"].startswith("Only papers of the query itself match the filters")


def test_a_text_leaves_out_no_paper(client: TestClient) -> None:
    """A paper whose title is given as a text comes first, as in a search: it was not pasted."""
    title = client.get(f"/v1/papers/{ID}").json()["paper"]["title"]
    answer = recommend(client, {"text": title}, limit=100)
    assert ID == found(answer)[0]
    assert 100 == len(found(answer)) == answer["total"]


def test_negatives_push_papers_down(client: TestClient) -> None:
    """The paper nearest to a negative falls in the list, and more so with a heavier negative weight."""
    near = found(recommend(client, *by_id("demo:p00-m03")))[0]
    places = []
    for body in ({}, {"negatives": by_id(ID)}, {"negatives": by_id(ID), "negative_weight": 1}):
        last = recommend(client, *by_id("demo:p00-m03"), limit=100, **body)
        places.append(found(last).index(found(recommend(client, *by_id(ID)))[0]))
    assert near != ID
    assert places == sorted(places)
    assert places[0] < places[-1]


@pytest.mark.parametrize("weight", [0.05, 1.0])
def test_negatives_count_by_their_weight(client: TestClient, weight: float) -> None:
    """The weights of what negatives take off sum to the negative weight."""
    seeds = by_id("demo:p00-m03")
    first = recommend(client, *seeds, negatives=by_id(ID), negative_weight=weight, limit=1)["results"][0]
    assert -weight == pytest.approx(
        sum(each["weight"] for each in cells(first) if each["negative"]), rel=0.05
    )


def test_seeds_that_cannot_be_used_are_explained(client: TestClient) -> None:
    """Each unusable seed is listed with a reason and suggestions, and the other seeds are answered."""
    title = client.get(f"/v1/papers/{ID}").json()["paper"]["title"]
    seeds = [
        *by_id(ID, "demo:p3-m07"),
        {"paper_id": "demo:p00-m03", "facet": "other"},
        {"paper_id": ID, "sentences": [150]},
        {"paper_id": title[:30]},
        {"paper_id": "zzz"},
    ]
    answer = recommend(client, *seeds, negatives=by_id("demo:p03-m0"))
    listed = {(each["seed"], each["negative"]): each for each in answer["unresolved"]}
    assert {
        (1, False): "not_indexed",
        (2, False): "no_sentence_of_that_facet",
        (3, False): "selection_impossible",
        (4, False): "not_indexed",
        (5, False): "not_indexed",
        (0, True): "not_indexed",
    } == {key: each["reason"] for key, each in listed.items()}
    assert all(each["detail"] for each in listed.values())
    offered = {key: [paper["id"] for paper in each["did_you_mean"]] for key, each in listed.items()}
    assert ID == offered[1, False][0]
    assert ([ID], [], 3) == (offered[4, False], offered[5, False], len(offered[0, True]))
    assert found(recommend(client, *by_id(ID))) == found(answer)


@pytest.mark.parametrize(
    "seed",
    [{"text": "Graph networks forecast floods."}, {"paper_id": ID, "facet": "method"}, {"paper_id": ID}],
)
def test_a_seed_that_is_left_out_changes_nothing(client: TestClient, seed: dict[str, Any]) -> None:
    """Scores and strengths are the same with and without seeds that cannot be used."""
    alone = recommend(client, seed)["results"]
    lost = by_id("zzz")
    beside = recommend(client, *lost, seed, *lost, negatives=lost)
    assert 3 == len(beside["unresolved"])
    for name in ("score", "strength"):
        assert [each[name] for each in alone] == [each[name] for each in beside["results"]]


def test_without_any_usable_seed_there_is_a_reason(client: TestClient) -> None:
    """If no seed is usable, the answer is empty with a reason, and every seed is listed."""
    answer = recommend(client, *by_id("nope-1", "nope-2"), negatives=by_id(ID))
    assert ([], "no_seed_resolved", 2) == (answer["results"], answer["reason"], len(answer["unresolved"]))
    assert answer["detail"]


def test_every_empty_answer_has_its_reason(client: TestClient) -> None:
    """Filters that exclude everything, and seeds that are the whole collection, have different reasons."""
    filtered = recommend(client, *by_id(ID), filters={"year_from": 2090})
    assert ([], "filtered_out") == (filtered["results"], filtered["reason"])
    everyone = by_id(*(f"demo:p0{i}-m0{j}" for i in range(10) for j in range(10)))
    answer = recommend(client, *everyone)
    assert ([], "nothing_else_indexed") == (answer["results"], answer["reason"])
    assert filtered["detail"] != answer["detail"]


def test_an_empty_page_after_the_last_says_that_the_list_has_ended(hashed_data: Path) -> None:
    """If only a pasted paper's copy is left, the empty last page says that the list ends, not the filter."""
    ids = [f"demo:p0{i}-m0{j}" for i in range(3) for j in range(7)]
    with client_of(hashed_data, device="cpu", candidates=20) as client:
        own = client.get(f"/v1/papers/{ids[0]}").json()["paper"]
        pasted = {"title": own["title"], "abstract": own["abstract"]}
        options: dict[str, Any] = {"words": 0, "filters": {"ids": ids}, "limit": 4}
        answers, cursor = [], {}
        while cursor != {"cursor": None}:
            answers.append(recommend(client, pasted, **options, **cursor))
            cursor = {"cursor": answers[-1]["next_cursor"]}
    assert [4, 4, 4, 4, 4, 0] == [len(each["results"]) for each in answers]
    assert (20, "end_of_list") == (answers[-1]["total"], answers[-1]["reason"])
    assert {None} == {each["reason"] for each in answers[:-1]}


def test_filters_choose_who_may_answer(client: TestClient) -> None:
    """The papers that pass the filters come back, and no others."""
    answer = recommend(client, *by_id(ID), filters={"year_from": 2015, "year_to": 2016}, limit=100)
    snapshot = client.app.state.services.collection.engines.current.snapshot  # type: ignore[attr-defined]  # the client keeps its application
    papers = [snapshot.paper(i) for i in range(len(snapshot))]
    assert {p.id for p in papers if p.year in {2015, 2016} and p.id != ID} == set(found(answer))


def test_five_hundred_seeds_are_answered_in_little(client: TestClient) -> None:
    """500 seeds get a small answer, and one paper may be a seed with several facets."""
    ids = [f"demo:p0{i}-m0{j}" for i in range(9) for j in range(10)]
    seeds = [seed for facet in ("method", "background") for seed in by_id(*ids, facet=facet)]
    answer = recommend(client, *(seeds * 3)[:500], strategy="all")
    assert [f"demo:p09-m0{j}" for j in range(10)] == sorted(found(answer))
    assert 500 == len(answer["seeds"]) + len(answer["unresolved"])
    assert 200_000 > len(json.dumps(answer["results"]))


def test_the_same_request_gives_the_same_answer(client: TestClient) -> None:
    """Two identical requests differ only in took_ms."""
    first, second = (recommend(client, *MIXED, negatives=by_id("demo:p05-m05")) for _ in range(2))
    del first["took_ms"], second["took_ms"]
    assert first == second


def test_a_score_does_not_depend_on_the_limit(client: TestClient) -> None:
    """The first papers of a longer answer are the shorter answer."""
    short, long = (recommend(client, *MIXED, limit=n)["results"] for n in (3, 50))
    assert short == long[:3]


def test_a_list_can_be_had_as_a_file(client: TestClient) -> None:
    """The Accept header gives CSV, with one line per paper."""
    response = client.post(
        "/v1/recommendations", json={"seeds": by_id(ID), "limit": 4}, headers={"Accept": "text/csv"}
    )
    assert (200, 5) == (response.status_code, len(response.text.splitlines()))


BAD_REQUESTS: list[Any] = [
    {},
    {"seeds": []},
    {"seeds": [{}]},
    {"seeds": by_id(ID) * 501},
    {"seeds": by_id(ID) * 300, "negatives": by_id(ID) * 201},
    {"seeds": [{"paper_id": ID, "abstract": "x"}]},
    {"seeds": [{"paper_id": ID, "facet": "method", "sentences": [0]}]},
    {"seeds": [{"paper_id": ID, "facet": "vibe"}]},
    {"seeds": [{"paper_id": ID, "weight": 0}]},
    {"seeds": [{"paper_id": ID, "weight": "1"}]},
    {"seeds": [{"paper_id": ID, "surprise": 1}]},
    {"seeds": by_id(ID), "strategy": "none"},
    {"seeds": by_id(ID), "negative_weight": 0},
    {"seeds": by_id(ID), "negatives": by_id(ID), "negative_weight": 5e-324},
    {"seeds": by_id(ID), "limit": 101},
    {"seeds": by_id(ID), "surprise": 1},
    {"seeds": ID},
]


@pytest.mark.parametrize("body", BAD_REQUESTS)
def test_a_wrong_request_gets_a_problem(client: TestClient, body: Any) -> None:
    """A wrong request gets 422 problem+json of at most 4 kB."""
    response = client.post("/v1/recommendations", json=body)
    assert (422, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert len(response.content) <= 4096


POISON = [
    b'{"seeds": [{"paper_id": "\\udfff"}]}',
    b'{"seeds": [{"paper_id": "a", "weight": NaN}]}',
    b'{"seeds": [{"paper_id": "a", "weight": 1e999}]}',
    b'{"seeds": [{"title": "x", "abstract": "\\ud800"}]}',
    b'{"seeds": [{"paper_id": "a", "sentences": [' + b"9" * 10_000 + b"]}]}",
    b'{"seeds": ' + b"[" * 100_000,
    b"\xff\xfe",
]


@pytest.mark.parametrize("content", POISON)
def test_poison_gets_a_problem(client: TestClient, content: bytes) -> None:
    """Hostile bodies get a 4xx problem of at most 4 kB."""
    response = client.post(
        "/v1/recommendations", content=content, headers={"Content-Type": "application/json"}
    )
    assert 400 <= response.status_code < 500
    assert "application/problem+json" == response.headers["content-type"]
    assert len(response.content) <= 4096


def test_strange_ids_are_only_unknown(client: TestClient) -> None:
    """Ids with NUL, line breaks, paths or emoji are listed as unresolved without suggestions."""
    strange = ["\x00", "a\r\nb", "../../etc/passwd", "🙂 🙂 🙂 🙂 🙂", "%00", "_%(", ".*", "x" * 200]
    answer = recommend(client, *by_id(*strange))
    assert len(strange) == len(answer["unresolved"])
    assert not any(each["did_you_mean"] for each in answer["unresolved"])


def test_a_name_alone_is_a_seed(client: TestClient) -> None:
    """A plain string is the same seed or negative as an object with it as ``paper_id``."""
    by_object = recommend(client, *by_id(ID, "demo:p00-m03"), negatives=by_id("demo:p05-m05"))
    by_name = recommend(client, ID, "demo:p00-m03", negatives=["demo:p05-m05"])  # type: ignore[arg-type]
    assert (found(by_object), by_object["seeds"]) == (found(by_name), by_name["seeds"])


def test_a_seed_alone_is_a_search(client: TestClient) -> None:
    """One seed with a contrast, a focus or a short text gives the results of the same search."""
    for seed in (
        {"paper_id": ID, "facet": "method", "unlike": {"facet": "background", "weight": 0.7}},
        {"paper_id": ID, "sentences": [1], "focus": 0.8},
        {"text": "Rivers flood towns."},
    ):
        own = {name: seed[name] for name in ("paper_id", "text") if name in seed}
        aspect = {name: value for name, value in seed.items() if name not in own}
        searched = client.post("/v1/search", json={"query": own, **aspect}).json()["results"]
        recommended = recommend(client, seed)["results"]
        assert [each["paper"]["id"] for each in searched] == [each["paper"]["id"] for each in recommended]
        assert [each["score"] for each in searched] == [each["score"] for each in recommended]


def test_a_contrast_of_a_seed_counts_among_the_negatives(client: TestClient) -> None:
    """With several seeds, the unlike side of one has negative weights, and the score adds up."""
    seeds = [{"paper_id": ID, "unlike": {"facet": "background"}}, *by_id("demo:p00-m03")]
    results = recommend(client, *seeds, negative_weight=0.5)["results"]
    assert results
    for result in results:
        away = [cell for cell in result["alignments"] if cell["weight"] < 0]
        assert {(0, False)} == {(cell["seed"], cell["negative"]) for cell in away}
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)


@pytest.mark.parametrize("path", ["search", "recommendations"])
def test_results_hold_the_parts_included(client: TestClient, path: str) -> None:
    """Only the included parts of results are filled; all of them without ``include``.

    Shared words are listed unless ``include`` is empty.
    """
    body = {"query": {"paper_id": ID}} if path == "search" else {"seeds": by_id(ID, "demo:p00-m03")}
    whole = client.post(f"/v1/{path}", json=body).json()["results"]
    empty = {"abstract": "", "sentences": [], "alignments": [], "omitted": [], "highlights": []}
    for include, kept in (
        ([], set()),
        (["abstract"], {"abstract"}),
        (["sentences", "highlights"], {"sentences", "highlights"}),
        (["alignments"], {"alignments", "omitted"}),
    ):
        results = client.post(f"/v1/{path}", json={**body, "include": include}).json()["results"]
        gone = {name: value for name, value in empty.items() if name not in kept}
        expected = [
            {**each, **{name: gone[name] for name in each if name in gone}}
            | {"paper": {**each["paper"], **{name: gone[name] for name in each["paper"] if name in gone}}}
            | ({} if include else {"words": {**each["words"], "terms": []}})
            for each in whole
        ]
        assert expected == results


@pytest.mark.parametrize("most", [0, 1, 5])
def test_alignments_past_the_most_are_summed_up(client: TestClient, most: int) -> None:
    """At most ``max_alignments`` are listed, and with the omitted ones they make the score."""
    body = {"query": {"paper_id": ID}, "unlike": {"facet": "background"}, "max_alignments": most}
    results = client.post("/v1/search", json=body).json()["results"]
    assert results
    for result in results:
        assert len(result["alignments"]) <= most
        assert result["omitted"]
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)
