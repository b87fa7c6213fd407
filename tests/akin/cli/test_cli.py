"""Tests of the command line: its arguments, output, errors and exit statuses."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.encoding.arguments import built_with
from models.encoder import load_encoder
from service.answer_warnings import WarningCode, warning
from service.app import create_app
from service.settings import Settings
from tests.support.builds import DEMO_CORPUS, ROOT, build_quietly, many_papers, write_corpus
from tests.support.commands import flat, parsed, run
from tests.support.examples.models import aspire_vectors
from tests.support.examples.models.tiny_bert import write_frozen_bert
from tests.support.servers.loopback import free_port


def test_search_marks_the_matching_sentences(hashed_data: Path) -> None:
    """A printed result shows the title, score and id of a paper and the share of each matching sentence."""
    shown = flat(
        run("search", "--data", hashed_data, "--paper", "demo:p03-m07", "--sentences", "3", "--limit", "2")
    )
    assert "▶ 3 We posit a structural causal model" in shown
    assert re.search(r"1\. .+ -\d\.\d{4} (?:strong|fair|weak) match demo:p\d\d-m\d\d · ", shown)
    assert re.search(r"\d\d% [A-Z].+ ← 3", shown)
    assert "2 of 99 papers in" in shown
    assert re.search(r"Words: \w+ \d+%, \w+ \d+%", shown)


def test_words_can_be_left_out(hashed_data: Path) -> None:
    """With ``--words 0`` the output names no shared words."""
    shown = flat(run("search", "--data", hashed_data, "--paper", "demo:p03-m07", "--words", "0"))
    assert "Words:" not in shown


def test_json_is_the_body_of_the_service(hashed_data: Path) -> None:
    """`akin search --json` prints the body of POST /v1/search, except for took_ms and next_cursor."""
    printed = json.loads(
        run(
            "search",
            "--data",
            hashed_data,
            "--paper",
            "demo:p03-m07",
            "--facet",
            "method",
            "--limit",
            "3",
            "--json",
        )
    )
    body = {"query": {"paper_id": "demo:p03-m07"}, "facet": "method", "limit": 3}
    with TestClient(create_app(Settings(data=hashed_data, device="cpu"))) as client:
        answered = client.post("/v1/search", json=body).json()
    assert answered.pop("next_cursor") is not None
    assert printed.pop("next_cursor") is None
    del printed["took_ms"], answered["took_ms"]
    assert answered == printed


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffA Title\r\n \r\nWe forecast floods. A gauge network is used.\r\n",
        "A Title\n\nWe forecast floods. A gauge network is used.",
        "We forecast floods. A gauge network is used.",
        '{"title": "A Title", "abstract": ["We forecast floods.", "A gauge network is used."]}',
    ],
)
def test_a_query_may_come_from_a_file_or_standard_input(hashed_data: Path, tmp_path: Path, text: str) -> None:
    """Plain text with or without a title, and JSON, are understood, from a file and from standard input."""
    file = tmp_path / "query.txt"
    file.write_text(text, encoding="utf-8")
    arguments = ("search", "--data", hashed_data, "--limit", "2", "--json")
    answers = [
        json.loads(run(*arguments, "--abstract", file)),
        json.loads(run(*arguments, "-", stdin=text)),
    ]
    for answer in answers:
        texts = [sentence["text"] for sentence in answer["query"]["sentences"]]
        assert ["We forecast floods.", "A gauge network is used."] == texts
        assert 2 == len(answer["results"])


def test_a_first_paragraph_of_several_sentences_is_no_title(hashed_data: Path) -> None:
    """Two paragraphs of prose are both part of the abstract if the first has several sentences."""
    text = "We forecast floods. We do it early.\n\nA gauge network is used."
    answer = json.loads(run("search", "--data", hashed_data, "--json", "-", stdin=text))
    assert ("", 3) == (answer["query"]["title"], len(answer["query"]["sentences"]))


def test_a_foreign_abstract_gets_a_note(hashed_data: Path) -> None:
    """The answer to a query that does not look English carries a note."""
    text = "Nous présentons un modèle pour la prévision des crues. Les résultats sont très encourageants."
    shown = flat(run("search", "--data", hashed_data, "-", stdin=text))
    assert f"Note: {warning(WarningCode.ABSTRACT_NOT_ENGLISH, 'fr').message}" in shown


BAD_SEARCHES: list[tuple[list[str], str]] = [
    (["--paper", "nope"], "No paper of this collection"),
    (["--paper", "demo:p00-m00", "--sentences", "99"], "numbered 0 to"),
    (["--paper", "demo:p00-m00", "--sentences", "a,b"], "as 0,3"),
    (["--paper", "demo:p00-m00", "--abstract", "x.txt"], "once"),
    ([], "once"),
    (["--abstract", "absent.txt"], "no such file"),
    (["--paper", "demo:p00-m00", "--sentences", "0", "--facet", "method"], "not both"),
    (["-", "--abstract", "absent.txt"], "once"),
    (["--paper", "demo:p00-m00", "--scorer", "magic"], "magic"),
    (["--paper", "demo:p00-m00", "--year-from", "99999999999999999999"], "2100"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_SEARCHES)
def test_a_wrong_search_says_what_to_do(hashed_data: Path, arguments: list[str], message: str) -> None:
    """Wrong arguments end with a message and a non-zero status, without a traceback."""
    result = CliRunner().invoke(app, ["search", "--data", str(hashed_data), *arguments])
    assert 0 != result.exit_code
    assert message in flat(result.output.replace("│", ""))
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("text", ["{", '{"abstract": 3}', '{"title": "x"}', '{"a":' * 10_000, "x" * 200_000])
def test_a_query_that_is_no_paper_is_an_error(hashed_data: Path, text: str) -> None:
    """Standard input without a usable abstract ends with an error message about the query."""
    assert run("search", "--data", hashed_data, "-", stdin=text, status=1).startswith("error: The query")


def test_embed_prints_every_paper() -> None:
    """`akin embed` prints a JSON line per paper: id, sentences, facets, vectors and dropped sentences."""
    lines = run("embed", DEMO_CORPUS, "--encoder", "hashing").splitlines()
    assert 100 == len(lines)
    first = json.loads(lines[0])
    assert {"id", "sentences", "facets", "vectors", "document", "dropped_sentences"} == set(first)
    assert len(first["sentences"]) == len(first["vectors"]) + first["dropped_sentences"]
    assert {256} == {len(vector) for vector in [*first["vectors"], first["document"]]}


def test_embed_tells_what_it_skips(tmp_path: Path) -> None:
    """`akin embed` counts invalid rows and rows without an abstract, and does not suggest ``--fetch``."""
    bib = tmp_path / "my.bib"
    bib.write_text(
        "@article{c, t\n@article{a, title = {A}, abstract = {We sing.}}\n@article{b, title = {B}}\n"
    )
    shown = flat(run("embed", bib, "--encoder", "hashing"))
    assert "Skipped 1 row:" in shown
    assert "1 row has no abstract and was skipped:" in shown
    assert "--fetch" not in shown


def test_embed_reproduces_aspire(tmp_path: Path) -> None:
    """`akin embed` with a local ASPIRE-style folder gives the vectors that ASPIRE's public code computes."""
    papers = {name: given for name, given in aspire_vectors.PAPERS.items() if given.title}
    rows = [
        {"id": name, "title": given.title, "abstract": [sentence.text for sentence in given.sentences]}
        for name, given in papers.items()
    ]
    corpus = write_corpus(tmp_path / "papers.jsonl", rows)
    lines = run("embed", corpus, "--encoder", write_frozen_bert(tmp_path / "frozen")).splitlines()
    assert list(papers) == [json.loads(line)["id"] for line in lines]
    for embedded in map(json.loads, lines):
        sentences, cls = aspire_vectors.of(embedded["id"])
        np.testing.assert_allclose(embedded["vectors"], sentences, atol=1e-5)
        np.testing.assert_allclose(embedded["document"], cls, atol=1e-5)


def test_snapshots_are_listed_verified_and_rolled_back(tmp_path: Path, hashed_data: Path) -> None:
    """list marks the served generation, verify names a damaged file, rollback serves the one before."""
    data = tmp_path / "data"
    shutil.copytree(hashed_data, data)
    build_quietly(DEMO_CORPUS, data, load_encoder("hashing"), limit=5, replace=True)
    assert re.search(r"→\W+000002", run("snapshot", "list", "--data", data))
    narrow = run("snapshot", "list", "--data", data, width=80)
    assert 2 == len(re.findall(r"00000\d +20\d\d-\d\d-\d\d \d\d:\d\d  .*  hashing  *exact", narrow))
    assert "all identical to the manifest" in run("snapshot", "verify", "--data", data)
    assert "000001" in run("snapshot", "rollback", "--data", data)
    assert re.search(r"→\W+000001", run("snapshot", "list", "--data", data))
    (data / "segments" / "000001" / "offsets.npy").write_bytes(b"")
    assert "offsets.npy" in run("snapshot", "verify", "--data", data, status=1)
    (data / "snapshots" / "000002" / "manifest.json").write_bytes(b"{}")
    (data / "CURRENT").unlink()
    listed = run("snapshot", "list", "--data", data)
    assert re.search(r"000001.*100", listed)
    assert re.search(r"000002\W+cannot be read", listed)


# The hashing encoder loads faster than the default, which `.ci/run` tests in the demo.
DEMO = """
import sys
from functools import partial
import akin.cli.serving.serve
from akin.cli.app import app

serving = akin.cli.serving.serve
serving.index = partial(serving.index, encoder="hashing")
app(sys.argv[1:])
"""


@pytest.mark.system
def test_the_demo_answers_the_example_that_it_prints(tmp_path: Path) -> None:
    """`akin demo` indexes, serves, prints README's first search, which works, and ends cleanly on SIGINT."""
    data, port = tmp_path / "demo", free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", DEMO, "demo", "--data", str(data), "--port", str(port)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "300"},
    )
    try:
        assert process.stdout is not None
        lines = (line.strip() for line in process.stdout)
        line = next(re.sub(r"^\S*(?= search )", "akin", line) for line in lines if " search --data " in line)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        assert f"\n.venv/bin/{line.replace(str(data), '.demo')}    # the same method elsewhere\n" in readme
        answer = json.loads(run(*shlex.split(line)[1:], "--limit=3", "--json"))
        assert 3 == len(answer["results"])
        assert answer["results"][0]["alignments"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as response:
            assert 200 == response.status
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode in {0, 130}


def test_a_taken_port_is_a_clear_error(hashed_data: Path) -> None:
    """If the port is in use, the error says to choose another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "choose another --port" in flat(run("serve", "--data", hashed_data, "--port", port, status=1))


HELP = """
import sys
from akin.cli.app import app
app(["--help"], standalone_mode=False)
print({"torch", "transformers"} & sys.modules.keys())
"""


def test_the_version_is_printed() -> None:
    """`akin --version` prints the version of the installed package."""
    assert f"akin {version('akin')}" == run("--version").strip()


def test_help_names_every_command_and_imports_no_torch() -> None:
    """`akin --help` lists the commands and imports neither torch nor transformers."""
    shown = subprocess.run(
        [sys.executable, "-c", HELP], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert shown.endswith("set()\n")
    for command in ("index", "serve", "search", "embed", "convert", "snapshot", "demo"):
        assert command in shown


@pytest.mark.parametrize("command", ["index corpus.jsonl", "worker", "reindex", "compact"])
def test_commands_read_which_device_is_set(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AKIN_DEVICE sets the device of these commands unless ``--device`` is given; empty counts as unset."""
    words = [*command.split(), "--data", "data"]
    for value, device in (("", "auto"), ("cuda", "cuda")):
        monkeypatch.setenv("AKIN_DEVICE", value)
        assert device == parsed(words).params["device"]
    assert "cpu" == parsed([*words, "--device", "cpu"]).params["device"]


def test_ids_to_delete_come_from_a_file(hashed_data: Path, tmp_path: Path) -> None:
    """`akin delete --from-file` skips a byte order mark, and refuses a file that is not UTF-8 text."""
    data = tmp_path / "data"
    shutil.copytree(hashed_data, data)
    ids = tmp_path / "ids.txt"
    ids.write_bytes(b"\xef\xbb\xbfdemo:p00-m00\r\ndemo:p00-m01\n")
    shown = run("delete", "--data", data, "--from-file", ids)
    assert "Deleted 2 papers; generation 000002 is served from now on." in flat(shown)
    shown = run("delete", "--data", data, "--from-file", ids)
    assert "Nothing was deleted; generation 000002 is served as before." in flat(shown)
    ids.write_bytes(b"demo:p00-m02\xff\n")
    assert "not UTF-8 text (byte 12)" in flat(run("delete", "--data", data, "--from-file", ids, status=1))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--facet", "methods", "'methods' is not one of 'background'"),
        ("--tau", "-1", "it must be greater than or equal to 0.001"),
        ("--limit", "many", "it must be a valid integer"),
    ],
)
def test_a_wrong_value_is_named_in_plain_words(option: str, value: str, said: str) -> None:
    """The error for a wrong value states the value, or the allowed ones, without the words of a library."""
    error = flat(run("search", "--data", "x", "--paper", "y", option, value, status=2).replace("│", ""))
    assert f"Invalid value for '{option}': {said}" in error


def test_a_corpus_that_replaces_a_collection_is_built_like_it(tmp_path: Path) -> None:
    """``--replace`` keeps the encoder, dtype and backend of the collection unless the command sets them."""
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(3))
    run(
        "index",
        corpus,
        "--data",
        tmp_path / "d",
        "--encoder",
        "hashing",
        "--dtype",
        "float32",
        "--backend",
        "flat",
    )
    run("index", corpus, "--data", tmp_path / "d", "--replace")
    made = built_with(tmp_path / "d")
    assert made is not None
    assert ("hashing", "float32", "flat") == (made.encoder, made.dtype, made.backend)
