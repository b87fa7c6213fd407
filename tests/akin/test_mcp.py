"""Tests of `akin mcp`: language-model clients list and call its tools over stdio and HTTP."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from typer.testing import CliRunner

import akin
from akin.cli.app import app
from akin.client.retries import Retries
from akin.mcp.tools import Tools, make_server
from models.types import Facet
from service.answer_warnings import WarningCode, warning
from service.app import create_app
from service.search.aspect import Aspect
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings
from tests.support.builds import ROOT
from tests.support.servers.loopback import free_port, served
from tests.support.servers.patience import soon
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS

TOOLS = {"search_papers", "recommend", "find_sentences", "analyze_text", "find_papers", "get_paper"}
PAPER = "demo:p03-m07"
ABSTRACT = "Rivers flood towns. We propose a graph network over gauges. It is accurate."


@pytest.fixture(scope="module")
def address(sentence_engine: SearchEngine) -> Iterator[str]:
    """Yield the address of a service over the demo corpus."""
    with served(create_app(Settings(), sentence_engine)) as address:
        yield address


def text_of(result: Any, *, failed: bool = False) -> str:
    """Return the only text of a result, and check whether it succeeded or ``failed``."""
    assert isinstance(result, CallToolResult)
    (content,) = result.content
    assert failed == bool(result.is_error), content
    text: str = content.text  # type: ignore[union-attr]  # the tools answer with text alone
    return text


def answer_of(address: str, tool: str, *, failed: bool = False, **arguments: Any) -> str:
    """Return the answer of a tool."""

    async def ask() -> str:
        once = Retries(attempts=1)
        async with akin.AsyncClient(address, retries=once) as client, Client(make_server(client)) as model:
            return text_of(await model.call_tool(tool, arguments), failed=failed)

    return anyio.run(ask)


def run_with(server: StdioServerParameters | str, use: Callable[[Client], Awaitable[None]]) -> None:
    """Call ``use`` with a client of ``server``, within a minute."""

    async def run() -> None:
        with anyio.fail_after(60):
            async with Client(server) as client:
                await use(client)

    anyio.run(run)


def found_ids(text: str) -> list[str]:
    """Return the ids of the found papers, best first."""
    return re.findall(r"^\d+\. .* \| id (\S+) \| score", text, re.M)


@pytest.mark.system
def test_a_model_searches_over_standard_input_and_output(
    hashed_data: Path, plain_engine: SearchEngine
) -> None:
    """`akin mcp --data` lists its tools, all read-only, and answers a search by facet."""

    async def use(client: Client) -> None:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed} == TOOLS
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in listed)
        text = text_of(await client.call_tool("search_papers", {"paper_id": PAPER, "facet": ["method"]}))
        query = SearchQuery((Seed(PAPER, aspect=Aspect(facets=(Facet.METHOD,))),), limit=5)
        expected = plain_engine.search(query)
        assert [ranked.paper.id for ranked in expected.results] == found_ids(text)
        assert list(expected.seeds[0].selected) == [int(n) for n in re.findall(r"counts \[(\d+)\]", text)]
        refused = await client.call_tool("get_paper", {"paper_id": "nobody"})
        assert "No paper of this collection" in text_of(refused, failed=True)

    command = [*AKIN_WITHOUT_WEIGHTS, "mcp", "--data", str(hashed_data)]
    run_with(StdioServerParameters(command=sys.executable, args=command, cwd=ROOT), use)


@pytest.mark.system
def test_a_model_searches_over_http(address: str) -> None:
    """`akin mcp --url --transport http` searches a running service, and refuses other hosts' names."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "akin", "mcp", "--url", address, "--transport", "http"]
    server = subprocess.Popen([*command, "--port", str(port)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        place = f"http://127.0.0.1:{port}/mcp"
        wait_for(port, server)

        async def use(client: Client) -> None:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            assert PAPER in text_of(await client.call_tool("get_paper", {"paper_id": PAPER}))

        run_with(place, use)
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {"Host": "evil.example", "Accept": "application/json"}
        assert 421 == httpx.post(place, json=body, headers=headers).status_code
    finally:
        server.terminate()
        server.wait(timeout=60)


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server listens on the port."""

    def answers() -> bool:
        with socket.socket() as knock:
            return knock.connect_ex(("127.0.0.1", port)) == 0

    soon(answers, process=server)


def test_results_are_short(address: str) -> None:
    """A search shows the title, id, score and matching sentences of each paper, but no abstract."""
    pasted: dict[str, Any] = {"title": "A draft", "abstract": ABSTRACT, "sentences": [1], "limit": 3}
    text = answer_of(address, "search_papers", **pasted)
    assert "Query: A draft" in text
    assert "counts [1] “We propose a graph network over gauges.”" in text
    assert 3 == len(found_ids(text))
    assert len(text) < 3_000
    with akin.Client(address) as client:
        best = client.search(title="A draft", abstract=ABSTRACT, sentences=[1], limit=1).results[0]
    sentence, share = best.matching()[0]
    assert f"{share:.0%} “{sentence}”" in text
    assert best.paper.abstract not in text


def test_contrast_and_filters(address: str) -> None:
    """Contrast and filters reach the search, and the answer includes reasons and warnings."""
    facet: dict[str, Any] = {"paper_id": PAPER, "facet": ["method"]}
    plain = answer_of(address, "search_papers", **facet)
    contrast = answer_of(address, "search_papers", **facet, unlike=["background"])
    assert found_ids(plain) != found_ids(contrast)
    assert re.search(r"^  unlike \[\d\] “\w", contrast, re.M)
    nothing = answer_of(address, "search_papers", **facet, year_from=2090)
    assert "Nothing found: No paper matches the filters" in nothing
    by_venue = answer_of(address, "search_papers", **facet, venues=["no such venue"])
    assert "Nothing found" in by_venue
    french = "Nous présentons un modèle pour la prévision des crues. Les résultats sont très encourageants."
    foreign = answer_of(address, "search_papers", abstract=french)
    assert f"\nWarning: {warning(WarningCode.ABSTRACT_NOT_ENGLISH, 'fr').message}" in foreign


def test_one_facet_needs_no_list(address: str) -> None:
    """A single facet is accepted instead of a list with one facet."""
    for tool, given in (
        ("search_papers", {"paper_id": PAPER}),
        ("recommend", {"positive": [PAPER]}),
        ("find_sentences", {"text": ABSTRACT}),
    ):
        one, listed = (answer_of(address, tool, **given, facet=facet) for facet in ("method", ["method"]))
        assert one == listed
    one, listed = (
        answer_of(address, "search_papers", paper_id=PAPER, unlike=facet) for facet in ("result", ["result"])
    )
    assert one == listed


def test_texts_are_seeds_too(address: str) -> None:
    """Texts are seeds next to papers, restricted to the requested facet, as in the HTTP API."""
    text = "causal effects under confounding"
    answer = answer_of(address, "recommend", positive=[PAPER], texts=[text], facet="method")
    seeds = [{"paper_id": PAPER, "facet": "method"}, {"text": text, "facet": "method"}]
    with akin.Client(address) as client:
        expected = [result.paper.id for result in client.recommend(seeds, limit=5)]
    assert expected == found_ids(answer)
    assert found_ids(answer_of(address, "recommend", positive=[PAPER], facet="method")) != expected


def test_the_other_tools(address: str) -> None:
    """Recommendations, sentences, analyses and papers are short texts too."""
    text = answer_of(
        address, "recommend", positive=[PAPER, "demo:p03-m08", "nobody"], negative=["demo:p01-m07"]
    )
    assert "Unlike: " in text
    assert "Left out: positive number 2, “nobody”: No paper of this collection has this title, DOI" in text
    assert 5 == len(found_ids(text))
    text = answer_of(address, "find_sentences", text="We release our code.", by="function", limit=2)
    assert 2 == len(re.findall(r"^   sentence \d+ \(\w+\) of .* \| id \S+ \| distance \d", text, re.M))
    text = answer_of(address, "analyze_text", abstract=ABSTRACT)
    assert re.search(r"^\[1\] method \(\d\.\d\d\): “We propose a graph network over gauges.”", text, re.M)
    text = answer_of(address, "get_paper", paper_id=PAPER)
    assert re.search(rf"^.+ \(20\d\d, .+\) \| id {PAPER}$", text.splitlines()[0])
    assert re.search(r"^\[3\] method: \w", text, re.M)


def test_a_paper_is_found_by_its_title(address: str) -> None:
    """A paper is found by a similar title, and the answer has the id that searches require."""
    with akin.Client(address) as client:
        title = client.paper(PAPER).title
    best, *others = answer_of(address, "find_papers", title=title.lower()[:-3], limit=3).splitlines()
    assert best.startswith(title)
    assert best.endswith(f" | id {PAPER}")
    assert 2 >= len(others)
    assert answer_of(address, "find_papers", title="Of whales and ships").startswith("Nothing found: ")


def test_a_model_learns_what_it_did_wrong(address: str) -> None:
    """Errors of the service and invalid arguments reach the model as readable errors."""
    text = answer_of(address, "search_papers", failed=True, paper_id=PAPER, sentences=[99])
    assert "99" in text
    assert "limit" in answer_of(address, "search_papers", failed=True, paper_id=PAPER, limit=51)
    assert "facet" in answer_of(address, "search_papers", failed=True, paper_id=PAPER, facet=["colour"])
    assert "cannot be reached" in answer_of("http://127.0.0.1:9", "get_paper", failed=True, paper_id=PAPER)


@pytest.mark.parametrize(
    ("tool", "given"), [("search_papers", {"text": "floods", "year_min": 2090}), ("get_paper", {"id": PAPER})]
)
def test_an_argument_that_a_tool_does_not_have(address: str, tool: str, given: dict[str, Any]) -> None:
    """An unknown argument is refused with the known ones, as ignoring a filter would mislead."""
    text = answer_of(address, tool, failed=True, **given)
    unknown = list(given)[-1]
    assert f"unknown argument {unknown}; expected " in text
    assert "paper_id" in text


def test_what_the_client_refuses_is_reported(address: str) -> None:
    """An error of the client reaches the model as a tool error."""

    async def ask() -> None:
        async with akin.AsyncClient(address) as client:
            await Tools(client).recommend(positive=[])

    with pytest.raises(ToolError, match="Nothing to start from"):
        anyio.run(ask)


def test_a_long_pasted_paper_is_not_repeated(address: str) -> None:
    """A pasted paper used as a whole is shown as a number of sentences; a selection as its first 20."""
    abstract = " ".join(f"We propose a graph network over gauge {n}." for n in range(50))
    whole = answer_of(address, "search_papers", abstract=abstract, limit=1)
    assert "\n  counts: 50 sentences\n" in whole
    assert "gauge 7" not in whole
    chosen = answer_of(address, "search_papers", abstract=abstract, sentences=list(range(30)), limit=1)
    assert 20 == chosen.count("\n  counts [")
    assert "\n  and 10 more\n" in chosen


def test_remedies_that_a_model_can_follow(address: str) -> None:
    """Error messages name no address of the API, no page of documentation, and no field of its answers."""
    nothing = answer_of(address, "find_papers", title="Of whales and ships")
    assert "/v1/" not in nothing
    wrong = answer_of(address, "search_papers", failed=True, paper_id=PAPER, text="floods")
    assert "/docs" not in wrong
    lost = answer_of(address, "recommend", positive=["nobody"])
    assert "Left out: positive number 0, “nobody”: " in lost
    assert "unresolved" not in lost
    near = answer_of(address, "recommend", positive=["demo:p03-m77"], texts=["Floods rise.", "It rains."])
    assert "did_you_mean" not in near
    assert "“demo:p03-m77”: No paper of this collection has this title, DOI or id; did you mean '" in near
    assert "\nSeed: “It rains.”\n" in near


@pytest.mark.parametrize("arguments", [[], ["--url", "http://127.0.0.1:9", "--data", "x"]])
def test_one_place_to_search(arguments: list[str]) -> None:
    """Either an address or a folder must be given, and not both."""
    result = CliRunner().invoke(app, ["mcp", *arguments])
    assert (1, True) == (result.exit_code, "Give either --url" in " ".join(result.output.split()))


def test_a_port_that_is_taken(address: str) -> None:
    """A port that is taken is an error with a remedy, and no tools are announced."""
    taken = address.rpartition(":")[2]
    result = CliRunner().invoke(app, ["mcp", "--url", address, "--transport", "http", "--port", taken])
    assert (1, True) == (result.exit_code, "choose another --port" in " ".join(result.output.split()))
    assert "Tools at" not in result.output


@pytest.mark.system
@pytest.mark.parametrize(
    ("transport", "sent"),
    [("stdio", signal.SIGTERM), ("http", signal.SIGTERM), ("stdio", signal.SIGINT)],
)
def test_an_ended_server_leaves_no_folder(
    hashed_data: Path, tmp_path: Path, transport: str, sent: signal.Signals
) -> None:
    """After SIGTERM, or Ctrl-C while a thread waits for input, no temporary folder is left."""
    port = free_port()
    command = ["mcp", "--data", str(hashed_data), "--transport", transport, "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, *AKIN_WITHOUT_WEIGHTS, *command],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        if transport == "http":
            wait_for(port, server)
        else:
            server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            server.stdin.flush()
            assert server.stdout.readline()
        assert any(tmp_path.iterdir())
        server.send_signal(sent)
        server.wait(timeout=60)
        assert [] == list(tmp_path.iterdir())
    finally:
        server.kill()
        server.communicate()
