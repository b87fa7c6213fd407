"""docs/deploy.md against the tree: its commands, services, settings, paths, ports and bounds."""

import re
import shlex
from typing import Any

import pytest
import typer
import yaml

from akin.cli import app
from service.access.policy import MAX_BATCH_BYTES
from service.settings import Settings
from tests.support.builds import ROOT
from tests.support.containers.compose import PROFILES, compose, example, ours, services
from tests.support.containers.images import DOCKERFILES, Image

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
SERVICES = set(compose({**example(), "POSTGRES_PASSWORD": "x"})["services"])
IMAGE = Image(DOCKERFILES[0])
DATA = IMAGE.one("VOLUME").words[0]


def block(language: str) -> str:
    """The block in this language."""
    (found,) = (text for name, text in BLOCKS if name == language)
    return found


def commands() -> list[list[str]]:
    """Every command of the page, in blocks and in the text."""
    lines = [line for name, text in BLOCKS if name == "sh" for line in text.splitlines()]
    lines += re.findall(r"`((?:docker compose|sudo) [^`]+)`", PAGE)
    return [shlex.split(line, comments=True) for line in lines]


def of_akin() -> list[list[str]]:
    """What follows the program: in a container of ours, as a unit, as a container of a cluster."""
    run = [words[words.index("run") :] for words in commands() if "run" in words]
    found = [words[next(i for i, word in enumerate(words) if word in SERVICES) + 1 :] for words in run]
    found += [
        words[words.index("/opt/akin/bin/akin") + 1 :]
        for words in commands()
        if "/opt/akin/bin/akin" in words
    ]
    found += [line.split()[1:] for line in re.findall(r"ExecStart=(\S+ [^`\n]+)", PAGE)]
    return [words for words in found if words]


def test_compose_commands_name_services_that_there_are() -> None:
    """Those that are started, ended or looked at."""
    given = [words[2:] for words in commands() if words[:2] == ["docker", "compose"]]
    assert {"build", "up", "run", "stop", "rm", "logs", "exec"} == {words[0] for words in given}
    named = set()
    for words in given:
        if words[0] in {"up", "stop", "rm", "logs"}:
            options = {"service=2"}  # of --scale
            named |= {word for word in words[1:] if not word.startswith("-")} - options
    assert {"service", "worker", "keys", "postgres", "redis"} < named <= SERVICES


@pytest.mark.parametrize("words", of_akin(), ids=" ".join)
def test_commands_of_akin_are_taken(words: list[str]) -> None:
    """By the command line itself, and with the data of the images."""
    assert DATA == words[words.index("--data") + 1]
    command = typer.main.get_command(app)
    context = command.make_context("akin", list(words))
    while isinstance(command, typer.core.TyperGroup):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def test_there_are_commands() -> None:
    """The page has some of each kind."""
    assert {"serve", "worker", "index", "backup", "migrate", "keys", "snapshot"} == {
        words[0] for words in of_akin()
    }


def test_settings_are_those_of_akin() -> None:
    """And variables of the compose file those of `.env.example`."""
    known = {f"AKIN_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"AKIN_[A-Z_]+", PAGE)) <= known
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)(?:=[^`]*)?`", PAGE)) - known - {"TORCH_INDEX"} <= set(example())
    assert all(f"| `{profile}` |" in PAGE for profile in PROFILES)
    for name in ours("gpu"):
        assert f"`{name}`" in PAGE


def test_the_deployment_fits_the_image() -> None:
    """User, port, volumes, health, the image's name, and time to end."""
    spec = yaml.safe_load(block("yaml"))["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    service: dict[str, Any] = services("cpu")["service"]
    assert service["image"] == container["image"] == spec["initContainers"][0]["image"]
    assert service["command"] == container["args"] == IMAGE.one("CMD").words
    user = spec["securityContext"]
    assert IMAGE.one("USER").value == f"{user['runAsUser']}:{user['runAsGroup']}"
    assert f"{spec['terminationGracePeriodSeconds']}s" == service["stop_grace_period"]
    ports = {
        container["ports"][0]["containerPort"],
        *(container[f"{each}Probe"]["httpGet"]["port"] for each in ("readiness", "liveness")),
    }
    assert {int(IMAGE.one("EXPOSE").value)} == ports
    mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    assert {*IMAGE.one("VOLUME").words, "/tmp"} == set(mounted)  # noqa: S108 - of the image
    assert set(mounted.values()) == {each["name"] for each in spec["volumes"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_the_proxies_let_batches_through() -> None:
    """Bodies of 32 MB, and the port where Akin listens."""
    bound = MAX_BATCH_BYTES // 1_000_000
    assert f"client_max_body_size {bound}m;" in block("nginx")
    assert f"max_size {bound}MB" in block("caddyfile")
    for proxy in ("nginx", "caddyfile"):
        assert f"127.0.0.1:{Settings.model_fields['port'].default}" in block(proxy)


def test_the_unit_ends_as_the_containers_do() -> None:
    """The same time to finish, and the same port as by default."""
    unit = block("ini")
    assert f"TimeoutStopSec={services('cpu')['service']['stop_grace_period'].removesuffix('s')}\n" in unit
    assert f"--port {Settings.model_fields['port'].default}\n" in unit
