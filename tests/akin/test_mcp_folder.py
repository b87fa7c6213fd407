"""Tests of `akin mcp --data`: a folder is searched in process, read only, and changes are followed."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

import akin
from akin.cli.app import app
from akin.cli.serving import mcp
from akin.cli.serving.mcp import in_process
from akin.client.uploads import NewPaper
from models.errors import ServiceError
from service.access.api_keys import Keys, Scope
from service.batches.job import ChunkContent, NewJob
from service.batches.jobs import Jobs
from service.search.engine import SearchEngine
from service.settings import Keyless, Settings
from tests.support.servers.patience import soon

PAPER = "demo:p03-m07"


def paper(paper_id: str) -> NewPaper:
    """Return a new paper with this id."""
    return {"id": paper_id, "title": f"The paper {paper_id}", "abstract": f"We show that {paper_id} floods."}


def test_a_folder_needs_no_key(tmp_path: Path, hashed_data: Path) -> None:
    """A folder is searched without a key, also if its service requires one, and no file in it changes.

    It is searched in this process, also if its service uses a cluster.
    """
    data = tmp_path / "data"
    shutil.copytree(hashed_data, data)
    made = CliRunner().invoke(app, ["keys", "create", "someone", "--data", str(data)])
    assert 0 == made.exit_code, made.output
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}

    async def ask() -> str:
        async with in_process(
            Settings(data=data, device="cpu", keyless=Keyless.OFF, ray="127.0.0.1:1")
        ) as client:
            return (await client.paper(PAPER)).id

    assert anyio.run(ask) == PAPER
    assert before == {path: path.stat().st_mtime_ns for path in data.rglob("*")}


def test_what_a_service_keeps_elsewhere_is_left_alone(tmp_path: Path, hashed_data: Path) -> None:
    """Keys in the service's database do not apply either, and its batches are not worked on."""
    place = f"sqlite:///{tmp_path / 'catalog.sqlite3'}"
    with Keys.open(place) as keys:
        keys.create("someone", scope=Scope.READ, expires_days=None)
    jobs = Jobs.open(place)
    chunk = ChunkContent(1, b"")
    waiting = jobs.add(NewJob("", None, "hash", "000009", b"", [chunk]), most=1, most_of_owner=1)
    settings = Settings(data=hashed_data, device="cpu", catalog_url=SecretStr(place))

    async def ask() -> str:
        async with in_process(settings) as client:
            return (await client.paper(PAPER)).id

    assert anyio.run(ask) == PAPER
    assert jobs.get(waiting.id, owner=None) == waiting
    jobs.close()


def test_a_folder_is_followed(tmp_path: Path) -> None:
    """The next call sees papers added and deleted by another process, and a purge can finish."""
    data = tmp_path / "data"
    with akin.index([paper("old"), paper("kept"), paper("other")], data, encoder="hashing", device="cpu"):
        pass

    def change() -> None:  # separate, as an open collection holds its generation
        with akin.open(data) as collection:
            collection.add(paper("new"))
            collection.delete("old")

    def purged() -> bool:
        return CliRunner().invoke(app, ["purge", "old", "--data", str(data)]).exit_code == 0

    async def ask() -> None:
        async with in_process(Settings(data=data, device="cpu")) as client:
            assert 2 == len((await client.search("old")).results)
            change()
            assert "new" == (await client.paper("new")).id
            with pytest.raises(ServiceError, match="No paper of this collection"):
                await client.paper("old")
            await anyio.to_thread.run_sync(soon, purged)
            assert "new" == (await client.paper("new")).id

    anyio.run(ask)


def test_what_is_published_while_it_starts_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A paper published while the folder is being loaded is found, as the loaded generation is followed."""
    data = tmp_path / "data"
    akin.index([paper("old"), paper("kept")], data, encoder="hashing", device="cpu").close()
    load = mcp.open_warm_engine

    def load_slowly(*given: Any) -> SearchEngine:
        engine = load(*given)
        with akin.open(data) as collection:
            collection.add(paper("new"))
        return engine

    monkeypatch.setattr(mcp, "open_warm_engine", load_slowly)

    async def ask() -> str:
        async with in_process(Settings(data=data, device="cpu")) as client:
            return (await client.paper("new")).id

    assert "new" == anyio.run(ask)


def test_a_folder_that_cannot_be_served_any_more(tmp_path: Path, hashed_data: Path) -> None:
    """If the next published generation is damaged, the loaded one is still served."""
    data = tmp_path / "data"
    shutil.copytree(hashed_data, data)

    async def ask() -> None:
        async with in_process(Settings(data=data, device="cpu")) as client:
            (data / "CURRENT").write_text("000099\n")
            assert (await client.paper(PAPER)).id == PAPER

    anyio.run(ask)
