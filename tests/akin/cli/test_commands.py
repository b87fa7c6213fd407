"""Tests of the whole command line: its help, how fast it shows, and shell completion."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from akin.cli.app import app
from akin.cli.commands import COMMANDS, FIRST
from docs.site_pages import commands_page
from service.search.aspect import DEFAULT_CONTRAST
from service.search.query import DEFAULT_NEGATIVE_WEIGHT
from tests.support.builds import ROOT, many_papers, write_corpus
from tests.support.commands import flat, helps, parsed, run

HEAVY = {"torch", "numpy", "transformers", "fastapi", "faiss", "pyarrow"}
MAIN = "import sys; sys.argv[0] = 'akin'; from akin.__main__ import main; main()"


def shown(*arguments: str, **variables: str) -> str:
    """Return what the program prints in a separate process."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=given, check=True).stdout


INTERRUPTED = """
import sys

class Finder:
    def find_spec(self, name, *_):
        if name == "akin.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
from akin.__main__ import main
main()
"""


def test_ctrl_c_while_the_program_loads_is_no_traceback() -> None:
    """An interruption before the command line is imported ends as those after it."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (130, "Interrupted.\n") == (ended.returncode, ended.stderr)


def test_without_a_command_it_shows_what_people_do() -> None:
    """`akin` without a command shows five examples, and each is a valid command line."""
    assert f"{FIRST}\n" == run()
    examples = re.findall(r"^  .+?  (akin .+)$", FIRST, re.M)
    assert 5 == len(examples)
    for example in examples:
        name, *given = shlex.split(example)[1:]
        assert name == parsed([name, *given]).info_name


def test_every_command_is_listed_with_what_its_own_help_says_first() -> None:
    """The summaries in the list of commands equal the first paragraphs of the commands' help."""
    group = typer.main.get_command(app)
    help_of = {name: group.get_command(None, name).loaded().help for name in COMMANDS}
    first = {name: flat(inspect.cleandoc(text).split("\n\n")[0]) for name, text in help_of.items()}
    assert first == COMMANDS


def test_the_page_of_commands_says_what_their_help_says() -> None:
    """It has all options, with ranges, defaults and variables, and arguments by the names in the help."""
    page = "\n".join(commands_page())
    for line in (
        "| `--out` | The folder to write. Required. |",
        "| `--unlike-weight` | Weight of --unlike. 0.01 to 1. Default: `0.4`. |",
        "| `--port` | Port to listen on. 0 to 65535. Default: `8000`. |",
        "| `--key` | An API key for --url. Or in `AKIN_KEY`. |",
        "| `--aim` | Maximise the sum of all affinities, or the smallest one. One of total, worst. Default",
        "| `--reviewers` | Reviewers to assign to each submission; 0: none. 0 to 1000. Default: `0`. |",
    ):
        assert line in page
    assert "| `SUBMISSIONS PROFILES` | " in page
    assert str(ROOT) not in page
    of_commands = [context for _, context in helps() if context.parent]
    given = [each for context in of_commands for each in context.command.params if each.name != "help"]
    names = {each.opts[0] if "-" in each.opts[0] else str(each.metavar) for each in given}
    assert len(names) > 100
    assert [] == sorted(name for name in names if f"\n| `{name}" not in page)


def test_help_shows_flags_without_a_type_and_arguments_in_capitals() -> None:
    """Help shows `--help` instead of `--help <bool>`, and arguments in capitals, such as CORPORA."""
    params = [(name, each) for name, context in helps() for each in context.command.get_params(context)]
    assert len(params) > 300
    flags = {each.metavar for _, each in params if getattr(each, "is_flag", False)}
    assert {""} == flags
    arguments = [each.metavar for _, each in params if each.param_type_name == "argument"]
    assert {True} == {each.isupper() for each in arguments}
    assert "--help <" not in flat(shown("index", "--help"))


def test_help_names_what_options_take_in_words() -> None:
    """No help shows a type of Python, a range as an inequality, or a default in brackets."""
    for name, _ in helps():
        text = flat(run(*name.split()[1:], "--help", width=200))
        found = [
            each for each in ("list[", " range", "<str>", "<int>", "<float>", "<=", ">=") if each in text
        ]
        assert (name, []) == (name, found)
    search = flat(run("search", "--help", width=200))
    for said in ("--author <author>", "--save <name>", "--focus <number> [0 to 1]", "[default: 0.4]"):
        assert said in search
    assert "--words <number> [at least 0]" in search


def test_help_of_narrow_terminals_breaks_no_value_of_an_option() -> None:
    """In 80 columns, help of every command lists the values of its options as whole words."""
    n_values = 0
    for name, context in helps():
        shown_help = run(*name.split()[1:], "--help", width=80)
        assert "|" not in shown_help, name
        words = set(re.findall(r"[\w.-]*\w", shown_help))
        choices = [each.type_descriptor.choices or () for each in context.command.params]
        values = {str(getattr(value, "value", value)) for each in choices for value in each}
        assert set() == values - words, name
        n_values += len(values)
    assert n_values > 100


def test_commands_on_a_collection_alone_take_its_folder_by_its_place(hashed_data: Path) -> None:
    """`akin status DATA` equals `akin status --data DATA`; giving the folder twice is an error."""
    by_place = {
        name.removeprefix("akin ")
        for name, context in helps()
        for each in context.command.params
        if each.param_type_name == "argument" and each.metavar == "DATA"
    }
    snapshots = {f"snapshot {name}" for name in ("list", "verify", "rollback")}
    assert {"status", "compact", "tune", "reindex", "migrate", "upgrade", *snapshots} == by_place
    for name in by_place:
        for given in ([], [hashed_data, "--data", hashed_data]):
            assert "Give the data folder once" in flat(run(*name.split(), *given, status=1))
    for name in ("status", "migrate", "compact", "tune", "snapshot list", "snapshot verify"):
        assert run(*name.split(), hashed_data) == run(*name.split(), "--data", hashed_data)


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_what_serves_finds_its_folder_in_the_environment(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AKIN_DATA sets the folder and help names it; --data wins over it; without either, an error says so."""
    monkeypatch.setenv("AKIN_DATA", "set")
    assert Path("set") == parsed([command]).params["data"]
    assert Path("given") == parsed([command, "--data", "given"]).params["data"]
    assert "AKIN_DATA" in run(command, "--help")
    monkeypatch.setenv("AKIN_DATA", "")
    assert "Missing option '--data'" in flat(run(command, status=2))


@pytest.mark.parametrize(
    ("command", "option", "weight"),
    [
        ("akin search", "unlike_weight", DEFAULT_CONTRAST),
        ("akin recommend", "negative_weight", DEFAULT_NEGATIVE_WEIGHT),
    ],
)
def test_help_shows_the_weights_of_the_service(command: str, option: str, weight: float) -> None:
    """The default weights in help, copied so that help loads no search code, equal those of the service."""
    (param,) = (each for each in dict(helps())[command].command.params if each.name == option)
    assert str(weight) == param.show_default


def test_help_wraps_at_the_width_of_the_terminal() -> None:
    """Each paragraph of a help text is one line, which typer wraps, however the source breaks it."""
    paragraphs = [each for _, context in helps() for each in (context.command.help or "").split("\n\n")]
    assert [] == [each for each in paragraphs if "\n" in each]


def test_help_loads_nothing() -> None:
    """`akin --help` lists all commands without importing a heavy package."""
    begin = MAIN.removesuffix("main()")
    code = f"{begin}\ntry: main()\nexcept SystemExit: print({HEAVY} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert all(f" {name} " in done.stdout for name in COMMANDS)
    assert "set()" == done.stdout.splitlines()[-1]


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    """Text has "?" for characters that the terminal's encoding lacks; output for programs is in UTF-8."""
    papers = [{**paper, "title": f"Überflutungen Ω{n}"} for n, paper in enumerate(many_papers(3))]
    data = tmp_path / "data"
    run("index", write_corpus(tmp_path / "three.jsonl", papers), "--data", data, "--encoder", "hashing")
    for encoding, command, printed, read in (
        ("ascii", ("search", "--paper=p0"), "?berflutungen ?", "ascii"),
        ("ascii", ("search", "--paper=p0", "--output=csv"), "Überflutungen Ω", "utf-8"),
        ("cp1252", ("compare", "p0", "p1"), "Überflutungen ?0", "cp1252"),
        ("cp1252", ("compare", "p0", "p1", "--json"), "Überflutungen Ω0", "utf-8"),
    ):
        given = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
        parts = [sys.executable, "-c", MAIN, *command, "--data", data]
        done = subprocess.run(parts, capture_output=True, env=given, check=True)
        assert printed in done.stdout.decode(read), command


@pytest.mark.system
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("akin re", ["recommend", "reindex"]),
        ("akin search --fa", ["--facet"]),
        ("akin keys re", ["renew", "revoke"]),
        ("akin serch --hel", ["--help"]),
    ],
)
def test_a_shell_completes(line: str, completed: list[str]) -> None:
    """Shell completion offers commands, their options and their subcommands."""
    place = str(len(line.split()) - 1)
    assert completed == shown(_AKIN_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=place).split()
