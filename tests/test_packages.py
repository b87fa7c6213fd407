"""Tests of the installed packages: their files, their dependencies, and the messages about missing ones."""

import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import requires, version
from pathlib import Path
from typing import get_args

import pytest
import yaml
from packaging.requirements import Requirement

from models.errors import MissingPackageError
from models.extras import Extra, needed
from service.app import create_app
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.builds import ROOT
from tests.support.documents import PAGES, blocks_of
from tests.support.packages import PACKAGES, build, checkout, install, run
from tests.support.servers.loopback import served

MAX_MB = 30  # of a client's environment, including the byte code that pip compiles
# A script of a user who installed only the client.
ALONE = """
import sys

import akin

client = akin.Client(sys.argv[1])
answer = client.search("demo:p03-m07", facet="method", limit=3)
print(repr(answer))
print(answer.to_bibtex().count("@article{"), answer._repr_html_())
for asked in (
    lambda: akin.open("x"),
    lambda: akin.index("x", "y"),
    lambda: client.recommend(like="my.bib"),
    answer.to_ris,
    answer.to_pandas,
):
    try:
        asked()
    except akin.AkinError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both distributions."""
    return build(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def alone(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with only the client and its dependencies."""
    return install(built, tmp_path_factory.mktemp("client") / "venv")


@pytest.fixture(scope="module")
def address(sentence_engine: SearchEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service over the demo corpus."""
    settings = Settings(data=tmp_path_factory.mktemp("served"))
    with served(create_app(settings, sentence_engine)) as address:
        yield address


def files_of(package: str) -> set[str]:
    """Return the files of a package in the working tree."""
    there = (path for path in (ROOT / package).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in there if "__pycache__" not in path.parts}


def installed(package: Path) -> set[str]:
    """Return the files of an installed package, without byte code."""
    files = (path for path in package.rglob("*") if path.is_file())
    return {str(path.relative_to(package)) for path in files if "__pycache__" not in path.parts}


@pytest.mark.system
def test_both_distributions_hold_all_files(built: Path) -> None:
    """They have code, templates, migrations, weights and the demo corpus, but neither tests nor documents."""
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    expected = set[str]().union(*map(files_of, PACKAGES))
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert expected == packed
    with tarfile.open(source) as archive:
        names = {each.name.partition("/")[2] for each in archive if each.isfile()}
    assert expected <= names
    assert {"LICENSE", "README.md"} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


@pytest.mark.system
def test_the_source_distribution_installs_what_the_wheel_does(
    built: Path, alone: Path, tmp_path: Path
) -> None:
    """Installed into an empty environment, it has the wheel's files and prints the wheel's version."""
    programs = install(built, tmp_path / "venv", kind="tar.gz", beside=("rich", "structlog", "typer"))
    (packages,) = programs.parent.glob("lib/*/site-packages")
    (of_wheel,) = alone.parent.glob("lib/*/site-packages")
    for package in PACKAGES:
        assert installed(of_wheel / package) == installed(packages / package)
    (wheel,) = built.glob("*.whl")
    assert f"akin {wheel.name.split('-')[1]}\n" == run(programs / "akin", "--version")
    assert "akin.client" in run(programs / "python", "-P", "-c", "import akin; print(akin.Client)")


@pytest.mark.system
def test_the_lines_of_the_first_page_build_and_install(tmp_path: Path) -> None:
    """README's ``pip`` lines, in a checkout and a new environment of Python's own, install the client.

    They are run as they are written, but without an extra, whose packages take minutes.
    """
    (block,) = [each for each in blocks_of(ROOT / "README.md") if each.text.startswith("pip wheel")]
    built, installed = block.text.splitlines()
    assert installed.startswith("pip install ")
    assert 1 == installed.count("akin[local]")
    folder = checkout(tmp_path / "akin")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    for line in (built, installed.replace("akin[local]", "akin")):
        typed = f"cd {folder} && PATH={programs}:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 {line}"
        run("sh", "-c", typed)
    said = "import akin, importlib.metadata as m; print(akin.Client, m.version('akin'))"
    assert f"<class 'akin.client.client.Client'> {version('akin')}\n" == run(
        programs / "python", "-P", "-c", said
    )


@pytest.mark.system
def test_a_client_alone_is_small_and_asks_a_service(alone: Path, address: str, tmp_path: Path) -> None:
    """It writes BibTeX, shows text instead of cards, and names missing packages with the install command."""
    files = [path for path in alone.parent.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < MAX_MB * 1_000_000
    script = tmp_path / "alone.py"
    script.write_text(ALONE, encoding="utf-8")
    said = run(alone / "python", script, address).splitlines()
    assert ("<SearchAnswer: 3 of 99>", "3 None") == (said[0], said[4])
    local = f'pip install "akin[local]=={version("akin")}"'
    assert [local] * 4 + ["pip install pandas"] == [line.split(": ")[-1] for line in said[5:]]


@pytest.mark.system
def test_the_command_line_says_what_it_needs(alone: Path) -> None:
    """The message comes without a traceback."""
    said = run(alone / "akin", "search", "--help", status=1)
    expected = r'error: The command line needs the package \'\w+\', .*"akin\[local\]==[\d.]+"\n'
    assert re.fullmatch(expected, said)


def test_every_package_ships_its_types() -> None:
    """Type checkers of a user's program read the annotations of all packages (PEP 561)."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    packed = tool["setuptools"]["package-data"]
    for package in PACKAGES:
        assert "py.typed" in packed[package]
        assert (ROOT / package / "py.typed").is_file()


def test_the_extras_are_those_of_the_project() -> None:
    """Every extra named in messages exists, and only ``engine`` and ``dev`` are never named in one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"engine", "dev", *get_args(Extra)} == set(project["optional-dependencies"])
    assert {"anyio", "httpx", "pydantic"} == {Requirement(each).name for each in project["dependencies"]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_install_this_version(page: Path) -> None:
    """Every line that installs Akin by name has its version, as ``akin`` is another project on PyPI."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = re.findall(r"pip install [^`\n]*?(akin(?![/\w])[^\s`]*)", page.read_text(encoding="utf-8"))
    end = f'=={project["version"]}"'
    assert [] == [name for name in installed if not name.endswith(end)]


def test_three_extras_bring_a_library_of_indexes() -> None:
    """All extras but those and what is made of them work beside any: all three have the module ``faiss``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def names(extra: str) -> set[str]:
        """Return the names of an extra's requirements, also of those it is made of."""
        lines = [Requirement(line) for line in extras[extra]]
        inner = (names(each) for line in lines if line.name == "akin" for each in line.extras)
        return {line.name for line in lines}.union(*inner)

    brought = {extra: {each for each in names(extra) if each.startswith("faiss")} for extra in extras}
    cpu, gpu, cuvs = {"faiss-cpu"}, {"faiss-gpu"}, {"faiss-gpu-cuvs"}
    expected = {"local": cpu, "serve": cpu, "dev": cpu, "gpu": gpu, "cuvs": cuvs}
    assert expected == {extra: found for extra, found in brought.items() if found}
    assert set(expected) == {extra for extra in extras if "torch" in names(extra)}


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("faiss.contrib", '"akin[local]==7.8.9"'),
        ("sqlalchemy", '"akin[local]==7.8.9"'),
        ("torch", '"akin[local]==7.8.9"'),
        ("sklearn", '"akin[evaluate]==7.8.9"'),
        ("pytorch_metric_learning", '"akin[train]==7.8.9"'),
        ("mcp.server", '"akin[mcp]==7.8.9"'),
        ("no_such.part", "no-such"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, line: str
) -> None:
    """The extra is found in the project's metadata, with its version; other packages have their own name."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = stated["optional-dependencies"].items()
    given = [f'{each}; extra == "{extra}"' for extra, lines in extras for each in lines]
    assert requires("akin")
    monkeypatch.setattr("models.extras.requires", lambda name: given)
    monkeypatch.setattr("models.extras.version", lambda name: "7.8.9")
    with pytest.raises(MissingPackageError) as caught, needed("This"):
        raise ModuleNotFoundError(name=package)
    name = package.partition(".")[0]
    assert f"This needs the package {name!r}, which is not installed: pip install {line}" == str(caught.value)


def test_the_citation_is_of_this_version_and_its_five_papers() -> None:
    """CITATION.cff has the package's version and cites all five."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert project["version"] == citation["version"]
    assert [2020, 2021, 2022, 2022, 2022] == sorted(each["year"] for each in citation["references"])
