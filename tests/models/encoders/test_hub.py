"""Checkpoints from the hub: fetched once at one commit, found offline afterwards, never a pickle."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session, set_client_factory
from huggingface_hub.utils._http import default_client_factory

from models.checkpoints.checkpoints import CHECKPOINTS, WEIGHTS, locate_checkpoint
from models.encoder import load_encoder
from models.errors import WeightsError
from models.types import Unit
from tests.support.examples.models.tiny_bert import write_tiny_bert

NEWEST = "c0ffee" * 6 + "c0de"  # the commit of "main" on the hub


class FakeHub:
    """A hub that serves one folder, with a README and a pickle, as any repository at NEWEST."""

    def __init__(self, folder: Path) -> None:
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.files |= {"README.md": b"# A model", "pytorch_model.bin": b"a pickle"}
        self.online = True
        self.served: list[str] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Return a response of the hub's API; raise ConnectError if offline."""
        if not self.online:
            raise httpx2.ConnectError("no route to host", request=request)
        path = request.url.path
        if found := re.fullmatch(r"/[^/]+/[^/]+/resolve/([^/]+)/(.+)", path):
            return self._file(request.method, commit=found[1], name=found[2])
        if path.startswith("/api/models/") and "/tree/" in path:
            entries = [
                {"type": "file", "path": name, "size": len(content), "oid": etag(content)}
                for name, content in self.files.items()
            ]
            return httpx2.Response(200, json=entries)
        revision = path.partition("/revision/")[2]
        commit = NEWEST if revision in ("", "main") else revision
        siblings = [{"rfilename": name} for name in self.files]
        return httpx2.Response(200, json={"id": "any/any", "sha": commit, "siblings": siblings})

    def _file(self, method: str, *, commit: str, name: str) -> httpx2.Response:
        content = self.files[name]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{etag(content)}"'}
        if method == "HEAD":
            return httpx2.Response(200, headers={**headers, "Content-Length": str(len(content))})
        self.served.append(name)
        return httpx2.Response(200, headers=headers, content=content)


def etag(content: bytes) -> str:
    """Return the name of a blob."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Yield the hub with a tiny checkpoint in every repository, and an empty local cache."""
    fake = FakeHub(write_tiny_bert(tmp_path / "tiny"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    set_client_factory(lambda: httpx2.Client(transport=httpx2.MockTransport(fake.answer)))
    yield fake
    close_session()
    set_client_factory(default_client_factory)


@pytest.mark.parametrize("name", ["aspire-ot-compsci", "scincl"])
def test_what_was_fetched_once_is_found_offline(name: str, hub: FakeHub) -> None:
    """With or without a pinned revision, the second call needs no network and gives the same folder."""
    fetched = locate_checkpoint(name).folder
    hub.online = False
    assert fetched == locate_checkpoint(name).folder
    assert (CHECKPOINTS[name].revision or NEWEST) == fetched.name
    assert hub.files[WEIGHTS] == (fetched / WEIGHTS).read_bytes()


def test_weights_other_than_the_pinned_ones_are_refused(hub: FakeHub) -> None:
    """Weights that differ from their pinned SHA-256 are refused."""
    with pytest.raises(WeightsError, match="mpnet must have 78c0197b"):
        load_encoder("mpnet", device="cpu")


def test_only_safetensors_configuration_and_tokenizer_are_fetched(hub: FakeHub) -> None:
    """Neither the pickle nor other unused files are downloaded."""
    encoder = load_encoder("scincl", device="cpu")
    assert {WEIGHTS, "config.json", "tokenizer.json", "vocab.txt"} == set(hub.served)
    assert ("scincl", Unit.DOCUMENT) == (encoder.spec.name, encoder.spec.unit)


def test_a_cache_of_another_program_is_enough(hub: FakeHub, tmp_path: Path) -> None:
    """A snapshot in the cache's layout is used unchanged, without a list of the repository's files."""
    cached = tmp_path / "cache" / "models--allenai--specter"
    folder = write_tiny_bert(cached / "snapshots" / NEWEST)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(NEWEST)
    hub.online = False
    assert folder == locate_checkpoint("specter").folder


def test_a_cache_of_pickles_is_not_enough(hub: FakeHub, tmp_path: Path) -> None:
    """A cached snapshot with only a .bin is completed from the hub."""
    cached = tmp_path / "cache" / "models--allenai--specter"
    folder = write_tiny_bert(cached / "snapshots" / NEWEST)
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(NEWEST)
    assert folder == locate_checkpoint("specter").folder
    assert [WEIGHTS] == hub.served


@pytest.mark.parametrize("absent", [["config.json"], ["tokenizer.json", "vocab.txt"]])
def test_a_cache_of_another_program_is_completed(hub: FakeHub, tmp_path: Path, absent: list[str]) -> None:
    """A cached snapshot without configuration or tokenizer is completed from the hub."""
    cached = tmp_path / "cache" / "models--allenai--specter"
    folder = write_tiny_bert(cached / "snapshots" / NEWEST)
    for name in absent:
        (folder / name).unlink()
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(NEWEST)
    assert folder == locate_checkpoint("specter").folder
    assert absent == sorted(hub.served)


def test_a_fetch_that_was_interrupted_is_taken_up_again(hub: FakeHub) -> None:
    """A cached snapshot that lacks a file of the hub is completed."""
    folder = locate_checkpoint("specter").folder
    (folder / "tokenizer.json").unlink()
    assert folder == locate_checkpoint("specter").folder
    assert (folder / "tokenizer.json").is_file()


def test_without_a_network_the_message_says_what_to_do(hub: FakeHub) -> None:
    """Without cache and network, the error says to download elsewhere, give the folder, or convert."""
    hub.online = False
    with pytest.raises(WeightsError, match=r"elsewhere and give its folder.*akin convert FOLDER TARGET"):
        load_encoder("specter")


def test_a_repository_of_pickles_is_not_downloaded(hub: FakeHub) -> None:
    """Nothing is downloaded from a repository without safetensors, and the error says so."""
    del hub.files[WEIGHTS]
    with pytest.raises(WeightsError, match=r"publishes no model\.safetensors"):
        load_encoder("aspire-cocite-biomed")
    assert [] == hub.served
