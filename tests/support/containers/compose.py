"""The compose file, read as by `docker compose`: variables filled in, services of a profile."""

import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.builds import ROOT

COMPOSE_FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / ".env.example"
PROFILES = ("cpu", "gpu", "demo")
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<kind>:[-?])(?P<word>[^}]*))?\}")


class UnsetError(Exception):
    """A variable that the file requires is empty."""


def example() -> dict[str, str]:
    """Return the variables of `.env.example`, including those without a value."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled(variables: Mapping[str, str], text: str) -> str:
    """Return ``text`` with its variables filled in; raises UnsetError if `${NAME:?...}` is empty."""

    def value(found: re.Match[str]) -> str:
        given = variables.get(found["name"], "")
        if not given and found["kind"] == ":?":
            raise UnsetError(found["name"])
        return given or (found["word"] or "")

    return _VARIABLE.sub(value, text)


def variables_of(text: str) -> set[str]:
    """Return the names of the variables in ``text``."""
    return {found["name"] for found in _VARIABLE.finditer(text)}


@cache
def _read() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8")))


def compose(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the whole file with these variables filled in."""

    def fill(part: Any) -> Any:
        if isinstance(part, str):
            return filled(variables, part)
        if isinstance(part, dict):
            return {key: fill(value) for key, value in part.items()}
        return [fill(value) for value in part] if isinstance(part, list) else part

    return dict(fill(_read()))


def services(profile: str, variables: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the services of a profile; ``variables`` take precedence over those of `.env.example`."""
    given = {**example(), "POSTGRES_PASSWORD": "example", **(variables or {})}
    every = compose(given)["services"]
    return {name: each for name, each in every.items() if profile in each.get("profiles", PROFILES)}


def ours(profile: str) -> dict[str, dict[str, Any]]:
    """Return the services of a profile that run Akin."""
    return {name: each for name, each in services(profile).items() if each["image"].startswith("akin:")}


def command_of(service: Mapping[str, Any]) -> list[str]:
    """Return the words of a command, which may be written as one line."""
    command = service["command"]
    return shlex.split(command) if isinstance(command, str) else list(command)


def environment_of(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a service as its process sees them."""
    return {name: str(value) for name, value in service["environment"].items()}


def volumes_of(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the mounted volumes, each a name or a host folder, by their path in the container."""
    short = (each.split(":") for each in service["volumes"] if isinstance(each, str))
    long = {each["target"]: each["source"] for each in service["volumes"] if isinstance(each, dict)}
    return {target: source for source, target, *_ in short} | long


def writable_in(service: Mapping[str, Any]) -> list[str]:
    """Return the writable paths over a read-only root: volumes that are not read-only, and tmpfs."""
    short = [each.split(":") for each in service["volumes"] if isinstance(each, str)]
    long = [each["target"] for each in service["volumes"] if isinstance(each, dict) and not each["read_only"]]
    memory = [each.split(":")[0] for each in service["tmpfs"]]
    return [target for _, target, *mode in short if mode != ["ro"]] + long + memory


def dockerfile_of(service: Mapping[str, Any]) -> Path:
    """Return the Dockerfile of the image of a service."""
    return ROOT / service["build"]["context"] / service["build"]["dockerfile"]
