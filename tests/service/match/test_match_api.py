"""Tests of ``POST /v1/match``: the profiles near to submissions, their reasons, and assignments."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from fastapi.testclient import TestClient

from akin.client.responses.matches import MatchedSubmission
from service.context import check_deadline
from service.match.answer import Matcher
from service.search.engine import SearchEngine
from tests.support.clients import client_of, python_client
from tests.support.servers.patience import soon

SUBMISSION, OTHER = "demo:p03-m07", "demo:p01-m02"
PROFILES = [
    {"name": "floods", "papers": [f"demo:p03-m0{number}" for number in range(7)]},
    {"name": "second", "papers": ["demo:p01-m01", "demo:p01-m03", "none"]},
    {"name": "third", "papers": ["demo:p05-m04"], "quota": 0},
]


def matched(client: TestClient, *submissions: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """Return the answer to a match that must succeed."""
    body = {"submissions": submissions or [{"paper_id": SUBMISSION}], "profiles": PROFILES, **rest}
    response = client.post("/v1/match", json=body)
    assert 200 == response.status_code, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_profiles_come_by_affinity_with_what_makes_it(sentence_client: TestClient) -> None:
    """Profiles come nearest first; reasons sum to the affinity, and alignments and words to each score."""
    answer = matched(sentence_client, reasons=5)
    (submission,) = answer["submissions"]
    assert SUBMISSION == submission["id"]
    affinities = [each["affinity"] for each in submission["profiles"]]
    assert sorted(affinities, reverse=True) == affinities
    assert "floods" == submission["profiles"][0]["profile"]
    assert {"floods", "second", "third"} == {each["profile"] for each in submission["profiles"]}
    for profile in submission["profiles"]:
        total = sum(each["share"] * each["score"] for each in profile["reasons"])
        assert pytest.approx(1 + total) == profile["affinity"]
        for each in profile["reasons"]:
            cells = sum(cell["weight"] * cell["distance"] for cell in each["alignments"])
            assert (
                pytest.approx(-each["score"]) == cells + each["words"]["weight"] * each["words"]["distance"]
            )
    assert [{"profile": "second", "papers": ["none"]}] == answer["unresolved"]


def test_an_entry_is_what_a_comparison_says(sentence_client: TestClient) -> None:
    """A profile of one paper has the affinity, score and alignments of a comparison with that paper."""
    profile = matched(sentence_client)["submissions"][0]["profiles"]
    (third,) = [each for each in profile if each["profile"] == "third"]
    body = {"a": {"paper_id": SUBMISSION}, "b": {"paper_id": "demo:p05-m04"}}
    side = sentence_client.post("/v1/compare", json=body).json()["a"]
    assert side["affinity"] == third["affinity"]
    assert side["score"] == third["reasons"][0]["score"]
    assert side["alignments"] == third["reasons"][0]["alignments"]


def test_the_answer_is_as_long_as_requested(sentence_client: TestClient) -> None:
    """``limit`` bounds the profiles per submission, and ``reasons`` the papers per profile."""
    answer = matched(sentence_client, {"paper_id": SUBMISSION}, {"paper_id": OTHER}, limit=2, reasons=0)
    assert [2, 2] == [len(each["profiles"]) for each in answer["submissions"]]
    assert [0, 1] == [each["submission"] for each in answer["submissions"]]
    assert not any(profile["reasons"] for each in answer["submissions"] for profile in each["profiles"])
    first = matched(sentence_client, nearest=1)["submissions"][0]["profiles"][0]
    assert first["affinity"] > matched(sentence_client)["submissions"][0]["profiles"][0]["affinity"]


def test_reasons_left_out_are_in_the_rest(sentence_client: TestClient) -> None:
    """The listed reasons and ``rest`` make the affinity, for any number of reasons."""
    for options in ({"reasons": 2, "nearest": 7}, {"reasons": 0}, {"reasons": 7, "nearest": 7, "limit": 3}):
        (submission,) = matched(sentence_client, **options)["submissions"]
        for each in submission["profiles"]:
            explained = sum(reason["share"] * reason["score"] for reason in each["reasons"])
            assert pytest.approx(each["affinity"]) == 1 + explained + each["rest"]
        (floods,) = [each for each in submission["profiles"] if each["profile"] == "floods"]
        assert min(options["reasons"], 7) == len(floods["reasons"])
        assert (options["reasons"] == 7) == (floods["rest"] == 0)


def test_a_pasted_paper_is_its_own_copy(sentence_client: TestClient) -> None:
    """A pasted paper with the title of an indexed one is not compared with it, and has its conflicts."""
    paper = sentence_client.get("/v1/papers/demo:p03-m00").json()["paper"]
    pasted = {"title": paper["title"].upper(), "abstract": paper["abstract"] + " One sentence more."}
    submissions = {"paper_id": "demo:p03-m00"}, pasted
    by_id, copied = matched(sentence_client, *submissions, own_conflicts=False)["submissions"]
    (own,) = [each for each in copied["profiles"] if each["profile"] == "floods"]
    assert "demo:p03-m00" not in {each["paper"]["id"] for each in own["reasons"]}
    (same,) = [each for each in by_id["profiles"] if each["profile"] == "floods"]
    assert pytest.approx(same["affinity"], abs=0.1) == own["affinity"]
    barred = {"name": "third", "papers": ["demo:p05-m04"], "conflicts": ["demo:p03-m00"]}
    answer = matched(sentence_client, pasted, profiles=[PROFILES[0], barred], own_conflicts=False)
    assert ["floods"] == [each["profile"] for each in answer["submissions"][0]["profiles"]]


def test_nobody_judges_their_own_work(sentence_client: TestClient) -> None:
    """Holders and authors of a submission are not assigned or listed, unless ``own_conflicts`` is false."""
    paper = sentence_client.get(f"/v1/papers/{SUBMISSION}").json()["paper"]
    first, *_, last = paper["authors"][0].split()
    profiles = [
        {"name": "holder", "papers": [SUBMISSION, "demo:p03-m01"]},
        {"name": f"{last.upper()}, {first}", "papers": ["demo:p03-m02"]},
        {"name": "other", "papers": ["demo:p05-m04"]},
    ]
    options = {"profiles": profiles, "assign": {"per_submission": 1}}
    pasted = {"title": paper["title"], "abstract": paper["abstract"]}
    for given in ({"paper_id": SUBMISSION}, pasted):
        (submission,) = matched(sentence_client, given, **options)["submissions"]
        assert [("other", True)] == [(each["profile"], each["assigned"]) for each in submission["profiles"]]
    (submission,) = matched(sentence_client, **options, own_conflicts=False)["submissions"]
    assert {each["name"] for each in profiles} == {each["profile"] for each in submission["profiles"]}


def test_authors_are_those_of_the_paper_with_the_title(sentence_client: TestClient) -> None:
    """The authors that the collection has for the title of a pasted submission are not matched with it."""
    paper = sentence_client.get(f"/v1/papers/{SUBMISSION}").json()["paper"]
    pasted = {"title": paper["title"].upper(), "abstract": "Rivers flood. We measure floods of rivers."}
    author = {"name": paper["authors"][0], "papers": ["demo:p03-m02"]}
    options = {"profiles": [author, {**PROFILES[2], "quota": 1}], "assign": {"per_submission": 1}}
    (submission,) = matched(sentence_client, pasted, **options)["submissions"]
    assert [("third", True)] == [(each["profile"], each["assigned"]) for each in submission["profiles"]]
    (submission,) = matched(sentence_client, pasted, **options, own_conflicts=False)["submissions"]
    assert 2 == len(submission["profiles"])


def test_authors_of_a_pasted_submission_are_not_matched_with_it(
    sentence_client: TestClient, hashed_data: Path, tmp_path: Path
) -> None:
    """A pasted submission may have authors, also in a batch, but no query of a search has."""
    pasted = {"title": "Unknown", "abstract": "Rivers flood. We measure floods of rivers."}
    named = {**pasted, "authors": ["Ada B. Lovelace", "Nobody Else"]}
    profiles = {"Lovelace, Ada B.": ["demo:p03-m02"], "other": ["demo:p05-m04"]}
    with client_of(Path(copytree(hashed_data, tmp_path / "data"))) as service:
        client = python_client(service)
        answer = client.match([pasted, named], profiles)
        assert [2, 1] == [len(each.profiles) for each in answer.submissions]
        assert ["other"] == [each.profile for each in answer.submissions[1].profiles]
        free = client.match([named], profiles, own_conflicts=False).submissions[0]
        assert 2 == len(free.profiles)
        job = client.batch(match={"submissions": [pasted, named], "profiles": profiles})
        answers = [each.answer for each in client.batch_results(job.id, poll_s=0.05)]
        assert [2, 1] == [len(each.profiles) for each in answers if isinstance(each, MatchedSubmission)]
    refused = sentence_client.post("/v1/search", json={"query": named})
    assert (422, True) == (refused.status_code, "authors" in refused.text)


@pytest.mark.parametrize("name", [" ", "a\u0000", "a\ufffdb"])
def test_profiles_have_names_that_can_be_read(sentence_client: TestClient, name: str) -> None:
    """Names of profiles must be printable, as for saved profiles."""
    body = {"submissions": [{"paper_id": SUBMISSION}], "profiles": [{"name": name, "papers": [OTHER]}]}
    response = sentence_client.post("/v1/match", json=body)
    assert (422, True) == (response.status_code, "printable characters" in response.text)


def test_conflicts_that_nobody_knows_are_reported(sentence_client: TestClient) -> None:
    """Unknown conflicts of a profile are listed with its unknown papers."""
    profiles = [{"name": "a", "papers": ["demo:p03-m01", "gone"], "conflicts": ["lost", "demo:p03-m07"]}]
    answer = matched(sentence_client, profiles=profiles)
    assert [{"profile": "a", "papers": ["gone", "lost"]}] == answer["unresolved"]


def test_assignments_keep_quotas_and_conflicts(sentence_client: TestClient) -> None:
    """Assigned profiles come first, even if they are not the nearest, and conflicts are kept."""
    answer = matched(
        sentence_client,
        {"paper_id": SUBMISSION},
        {"title": "", "abstract": "Rivers flood. We measure floods of rivers."},
        assign={"per_submission": 1, "per_profile": 1},
        conflicts=[{"submission": 0, "profile": "floods"}],
    )
    first, second = answer["submissions"]
    assert ["second"] == [each["profile"] for each in first["profiles"] if each["assigned"]]
    assert "floods" not in {each["profile"] for each in first["profiles"]}
    assert ["floods"] == [each["profile"] for each in second["profiles"] if each["assigned"]]
    assert second["id"] is None


@pytest.mark.parametrize(
    ("changed", "status", "message"),
    [
        ({"submissions": [{"paper_id": "none"}]}, 404, "No paper"),
        ({"profiles": [{"name": "a", "papers": ["none"]}]}, 422, "profiles have no paper in this collection"),
        ({"profiles": [PROFILES[0], PROFILES[0]]}, 422, "have the same name"),
        ({"conflicts": [{"submission": 1, "profile": "floods"}]}, 422, "A conflict names submission 1"),
        ({"assign": {"per_submission": 4}}, 422, "fewer than 4 reviewers"),
        ({"profiles": [{"name": "a", "papers": ["x"] * 5_000}, PROFILES[0]]}, 422, "more than 5000"),
        ({"submissions": [{"paper_id": SUBMISSION}] * 50, "limit": 41}, 422, "are more than 2000"),
        ({"profiles": []}, 422, "profiles"),
    ],
)
def test_what_cannot_be_matched_is_refused(
    sentence_client: TestClient, changed: dict[str, Any], status: int, message: str
) -> None:
    """A match that is impossible or too large gets an error that says why."""
    body = {"submissions": [{"paper_id": SUBMISSION}], "profiles": PROFILES, **changed}
    response = sentence_client.post("/v1/match", json=body)
    assert (status, True) == (response.status_code, message in response.text), response.text


def test_what_takes_too_long_is_refused_with_a_remedy(
    tmp_path: Path, sentence_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A match or comparison that takes too long gets 504 with a remedy that fits its request."""

    def for_ever(*_given: object) -> Any:
        while True:
            check_deadline()

    monkeypatch.setattr(Matcher, "affinities", for_ever)
    monkeypatch.setattr("service.api.routes.match.side_by_side", for_ever)
    one, other = {"paper_id": SUBMISSION}, {"paper_id": OTHER}
    with client_of(tmp_path, sentence_engine, deadline_ms=300) as client:
        for path, body, remedy in (
            (
                "match",
                {"submissions": [one], "profiles": PROFILES},
                "fewer submissions or profiles, or match",
            ),
            ("compare", {"a": one, "b": other}, "compare shorter texts"),
        ):
            answer = client.post(f"/v1/{path}", json=body)
            assert 504 == answer.status_code
            assert remedy in answer.json()["detail"]
            assert "scorer" not in answer.json()["detail"]
        batch = client.post(
            "/v1/batches", json={"match": {"submissions": [one], "profiles": PROFILES}}
        ).json()
        soon(lambda: client.get(f"/v1/batches/{batch['id']}").json()["state"] == "done")
        (line,) = client.get(f"/v1/batches/{batch['id']}/results").text.splitlines()
        assert "match with fewer profiles at a time." in json.loads(line)["problem"]["detail"]


def test_the_client_matches(sentence_client: TestClient) -> None:
    """The Python client takes submissions by name or pasted, and profiles as names and papers."""
    client = python_client(sentence_client)
    answer = client.match(
        [SUBMISSION, {"title": "Floods", "abstract": "Rivers flood."}],
        {each["name"]: each["papers"] for each in PROFILES},  # type: ignore[misc]  # texts and lists
        limit=1,
        assign={"per_submission": 1, "per_profile": 2},
    )
    assert ["floods"] == [each.profile for each in answer.submissions[0].profiles if each.assigned]
    assert answer.submissions[0].profiles[0].reasons[0].paper.id.startswith("demo:p03")
    assert ("none",) == answer.unresolved[0].papers
