"""Tests of mistaken commands: the error says what is wrong, and no data is lost."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from akin import Collection
from akin.cli.app import app
from indexer.files.data_folder import CATALOG_FILE
from tests.support.builds import DEMO_CORPUS, ROOT, many_papers, write_corpus
from tests.support.commands import flat, parsed, run

DEMO = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Return the folder of a collection of ten papers."""
    data = tmp_path / "data"
    corpus = write_corpus(tmp_path / "ten.jsonl", many_papers(10))
    run("index", corpus, "--data", data, "--encoder", "hashing", "--device", "cpu")
    return data


def cut_short(path: Path, content: bytes) -> Path:
    """Write only the first two thirds of ``content``."""
    path.write_bytes(content[: len(content) * 2 // 3])
    return path


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_a_file_that_breaks_off_replaces_no_collection(tmp_path: Path, index: Path, ending: str) -> None:
    """A truncated corpus is an error with --replace; without it, its papers are added with a warning."""
    lines = "".join(f"{json.dumps({**paper, 'id': f'new{i}'})}\n" for i, paper in enumerate(many_papers(60)))
    content = gzip.compress(lines.encode()) if ending.endswith("gz") else lines.encode()
    cut = cut_short(tmp_path / f"cut.{ending}", content)
    shown = flat(run("index", cut, "--data", index, "--replace", "--device", "cpu", status=1))
    assert "nothing was replaced. Fetch the file again" in shown
    with Collection(index, device="cpu") as collection:
        assert 10 == len(collection)
    shown = flat(run("index", cut, "--data", index, "--device", "cpu"))
    assert f"{cut} was not read to its end: line " in shown
    assert "Skipped" not in shown


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("index", "absent.jsonl", "--data", "d"), "absent.jsonl: no such file or folder"),
        (("index", str(DEMO_CORPUS), "--data", "d", "--backend", "exakt"), "Unknown index backend 'exakt'"),
        (("index", str(DEMO_CORPUS), "--data", "d", "--format", "bibtec"), "Unknown corpus format 'bibtec'"),
        (("index", str(DEMO_CORPUS), "--data", "d", "--per-gpu", "2"), "give --ray as well"),
        (("embed", "absent.jsonl"), "absent.jsonl: no such file or folder"),
    ],
)
def test_files_are_looked_at_before_models_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], said: str
) -> None:
    """Missing files and unknown formats or backends are reported before the slow loading of models."""
    monkeypatch.chdir(tmp_path)
    # This encoder does not exist either; if models were loaded first, the error would be about it.
    assert said in flat(run(*command, "--encoder", "nobody/knows", status=1))


def test_another_encoder_says_how_to_change_it(tmp_path: Path, index: Path) -> None:
    """Indexing with another encoder is refused, and the error says that it takes --replace."""
    more = write_corpus(tmp_path / "more.jsonl", many_papers(11))
    shown = flat(run("index", more, "--data", index, "--encoder", "minilm", "--device", "cpu", status=1))
    assert "index the corpus again with --replace" in shown


@pytest.mark.parametrize(
    "command",
    ["status", "delete p1", "migrate", "upgrade", "reindex", "snapshot list", "snapshot verify", "keys list"],
)
def test_a_mistyped_folder_is_not_made_and_is_named(tmp_path: Path, command: str) -> None:
    """A folder without a collection is named in the error; neither it nor a catalog is created."""
    for folder, is_there in ((tmp_path / "nope", False), (tmp_path, True)):
        shown = flat(run(*command.split(), "--data", folder, status=1))
        assert f"{folder}: nothing is indexed here" in shown
        assert is_there == folder.exists()
    assert not list(tmp_path.iterdir())


def test_only_creating_a_key_makes_a_catalog(tmp_path: Path) -> None:
    """Before anything is indexed, only `akin keys create` creates a catalog, and it says so."""
    assert "nothing is indexed here" in run("keys", "revoke", "x", "--data", tmp_path, status=1)
    assert not (tmp_path / CATALOG_FILE).exists()
    assert f"Nothing is indexed in {tmp_path} yet" in flat(run("keys", "create", "x", "--data", tmp_path))
    assert (tmp_path / CATALOG_FILE).exists()


@pytest.mark.parametrize("generation", ["77", "../segments"])
def test_a_generation_that_never_was_is_not_damaged(hashed_data: Path, generation: str) -> None:
    """Verifying a generation that does not exist names the known ones."""
    shown = run("snapshot", "verify", hashed_data, "--generation", generation, status=1)
    assert f"no generation {generation}; known: 000001" in flat(shown)


def test_lists_are_printed_as_json(data: Path) -> None:
    """Papers, generations and keys are printed as JSON; --json with another output format is refused."""
    (paper,) = json.loads(run("papers", "--data", data, "--limit", "1", "--json"))["papers"]
    assert DEMO[0]["id"] == paper["id"]
    (generation,) = json.loads(run("snapshot", "list", data, "--json"))
    assert ("000001", True, len(DEMO)) == tuple(generation[key] for key in ("generation", "served", "papers"))
    run("keys", "create", "x", "--data", data)
    (key,) = json.loads(run("keys", "list", "--data", data, "--json"))
    assert ("x", "read", True, None) == tuple(key[name] for name in ("name", "scope", "usable", "revoked_at"))
    assert not {name for name in key if "hash" in name}
    for command in (["papers"], ["search", "--text", "rivers"], ["recommend", DEMO[0]["id"]]):
        shown = run(*command, "--data", data, "--json", "--output", "csv", status=1)
        assert "cannot be given with --output csv" in flat(shown)


ALMOST, MEANT = DEMO[0]["id"][:-1], f"did you mean '{DEMO[0]['id']}' ({DEMO[0]['title']})"


def test_a_lost_seed_is_named_with_what_was_meant(data: Path) -> None:
    """Unknown seeds are named with similar ids; if no seed is left, nothing is recommended or saved."""
    for form in ("text", "titles"):
        shown = flat(
            run("recommend", DEMO[7]["id"], ALMOST, "--data", data, "--output", form, "--limit", "1")
        )
        assert (
            f"Left out: '{ALMOST}': No paper of this collection has this title, DOI or id; did you mean"
            in shown
        )
        assert f"'{DEMO[0]['id']}' ({DEMO[0]['title']})" in shown
        assert "did_you_mean" not in shown
    shown = flat(run("recommend", "nobody", "--data", data, "--save", "x", status=1))
    assert "Left out: 'nobody': No paper of this collection has this title, DOI or id." in shown
    assert "None of the papers to start from can be used" in shown
    assert "There is no saved query" in run("watch", "--data", data)
    printed = CliRunner().invoke(app, ["recommend", "nobody", "--data", str(data), "--json"])
    assert (1, "no_seed_resolved") == (printed.exit_code, json.loads(printed.stdout)["reason"])


@pytest.mark.parametrize("mistyped", ["mine.bib", "mine.jsonl.gz", "./mine", "../mine", "/absent/mine"])
def test_a_mistyped_file_is_no_title(data: Path, mistyped: str) -> None:
    """A mistyped path of a library is an error, and is not looked up as a title."""
    for command in (
        ("recommend", DEMO[0]["id"], "--unlike", mistyped),
        ("recommend", mistyped),
        ("compare", DEMO[0]["id"], mistyped),
    ):
        assert f"{mistyped}: no such file" in flat(run(*command, "--data", data, status=1))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("compare", "-", "-"), "Only one of the two papers can be `-`"),
        (("compare", "", DEMO[0]["id"]), "A paper to compare is empty"),
        (("recommend", DEMO[0]["id"], "--negative-weight", "0.5"), "give --unlike PAPER as well"),
    ],
)
def test_what_cannot_count_is_refused(data: Path, command: tuple[str, ...], said: str) -> None:
    """Papers that cannot be read, and a weight of nothing, are errors."""
    assert said in flat(run(*command, "--data", data, stdin="Floods rise.", status=1))


def test_an_empty_name_of_a_file_to_analyze() -> None:
    """The error names no option that the command does not have."""
    assert "The name of the file is empty" in run("analyze", "", status=1)


@pytest.mark.parametrize("command", [("search", "-"), ("analyze", "-"), ("delete", "--from-file", "-")])
def test_a_closed_standard_input_is_an_error(
    data: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A program that is started without standard input says so if it should read it."""
    monkeypatch.setattr("akin.cli.consoles.sys", SimpleNamespace(stdin=None))
    where = () if command[0] == "analyze" else ("--data", data)
    assert "Standard input is closed" in run(*command, *where, status=1)


@pytest.mark.parametrize(
    "named", ["10.1234/absent", "https://doi.org/10.1234/absent.csv", "Nodes: a tool.js"]
)
def test_dois_and_titles_are_no_files(data: Path, named: str) -> None:
    """DOIs and titles are looked up as papers, although they contain slashes or dots."""
    assert f"Left out: '{named}'" in flat(run("recommend", DEMO[0]["id"], "--unlike", named, "--data", data))


@pytest.mark.parametrize("where", ["--data", "--url"])
@pytest.mark.parametrize(
    "command",
    [
        ("search", "--paper", ALMOST),
        ("compare", DEMO[7]["id"], ALMOST),
        ("sentences", "--paper", ALMOST, "--sentence", "0"),
    ],
)
def test_an_unknown_paper_is_named_with_what_was_meant(
    data: Path, address: str, command: tuple[str, ...], where: str
) -> None:
    """An unknown paper is named with the similar id of a paper, if there is one."""
    shown = flat(run(*command, where, data if where == "--data" else address, status=1))
    assert f"error: '{ALMOST}': No paper of this collection has this title, DOI or id; did you mean" in shown
    unknown = [each if each != ALMOST else "nobody" for each in command]
    shown = flat(run(*unknown, where, data if where == "--data" else address, status=1))
    assert "error: 'nobody': No paper of this collection has this title, DOI or id; it holds" in shown


def test_a_mistyped_title_is_named_with_what_was_meant(data: Path) -> None:
    """A title with a typing error is no unknown id: its paper is named, whatever the command."""
    mistyped = DEMO[0]["title"].replace("e", "a", 1)
    for command in (("search", "--paper", mistyped), ("recommend", mistyped)):
        shown = flat(run(*command, "--data", data, status=1))
        assert f"No paper of this collection has this title, DOI or id; {MEANT}" in shown


def test_an_empty_query_is_refused(hashed_data: Path, tmp_path: Path) -> None:
    """Without any text, the file or standard input is named as empty, and what to give."""
    assert "error: Standard input is empty: give a title" in run(
        "search", "-", "--data", hashed_data, stdin="\n", status=1
    )
    (tmp_path / "draft.txt").touch()
    shown = flat(run("search", "--abstract", tmp_path / "draft.txt", "--data", hashed_data, status=1))
    assert "draft.txt is empty: give a title" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"title": "T", "abstract": "A text."}]', "give one paper"),
        ('{"abstract": [1, 2]}', "each item must be a text"),
    ],
)
def test_json_that_is_no_paper_says_what_one_is(hashed_data: Path, text: str, said: str) -> None:
    """JSON that is not one paper is an error, but an abstract may begin with a bracket."""
    assert said in flat(run("search", "-", "--data", hashed_data, stdin=text, status=1))
    assert "[Background]" in run("search", "-", "--data", hashed_data, stdin="[Background] Rivers flood.")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("search", "graph networks"), "give --text 'graph networks'"),
        (("papers", "--year-from", "2020", "--year-to", "2010"), "the range is the wrong way round"),
        (("papers", "--title", " "), "--title is empty"),
    ],
)
def test_what_was_meant_otherwise_says_how(hashed_data: Path, command: tuple[str, ...], said: str) -> None:
    """Words without an option, years in the wrong order and an empty title get a helpful error."""
    assert said in flat(run(*command, "--data", hashed_data, status=1))


@pytest.mark.parametrize("form", ["text", "titles", "csv"])
def test_an_empty_list_says_so_beside_it(hashed_data: Path, form: str) -> None:
    """If no paper matches, a note on standard error says so, in every output format."""
    for options, said in (
        (["--year-from", "2090"], "No paper matches the filters; widen them."),
        (["--page", "99"], "is past the last"),
    ):
        given = ["papers", "--data", str(hashed_data), "--output", form, *options]
        assert said in CliRunner().invoke(app, given).stderr


def test_the_folder_of_the_environment_counts_where_nothing_else_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AKIN_DATA is the default folder of every command except the demo, and options win over it."""
    monkeypatch.setenv("AKIN_DATA", "set")
    for line in ("search", "index f", "status", "purge x", "papers", "mcp", "snapshot list", "keys list"):
        assert Path("set") == parsed(line.split()).params["data"], line
        assert Path("given") == parsed([*line.split(), "--data", "given"]).params["data"], line
    assert parsed(["search", "--url", "http://x"]).params["data"] is None
    assert parsed(["status", "given"]).params["data"] is None
    assert Path(".demo") == parsed(["demo"]).params["data"]


@pytest.mark.parametrize(("command", "resumes"), [("papers", False), ("index", True)])
def test_only_what_resumes_says_so(
    hashed_data: Path, monkeypatch: pytest.MonkeyPatch, command: str, resumes: bool
) -> None:
    """An interrupted index command says how to resume; an interrupted list of papers does not."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("akin.cli.search.papers.open_client", interrupted)
    monkeypatch.setattr("akin.cli.collection.index.load_models", interrupted)
    given = [str(DEMO_CORPUS)] if command == "index" else []
    shown = run(command, *given, "--data", hashed_data, status=130)
    assert resumes == ("run the same command again to resume" in shown)
    assert "Interrupted." in shown


@pytest.mark.system
@pytest.mark.parametrize("options", [(), ("--output", "json")])
def test_a_full_disk_is_one_line(hashed_data: Path, options: tuple[str, ...]) -> None:
    """A full disk at standard output gives a one-line error, with nothing added by the interpreter."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "akin", "papers", "--data", str(hashed_data), *options],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            check=False,
        )
    assert (1, "error: cannot write the output: no space left on device\n") == (done.returncode, done.stderr)


def test_ids_to_delete_are_read_from_standard_input(index: Path) -> None:
    """`akin delete --from-file -` reads the ids from standard input."""
    run("delete", "--data", index, "--from-file", "-", stdin="p0\np1\n")
    with Collection(index, device="cpu") as collection:
        assert 8 == len(collection)
