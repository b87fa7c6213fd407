"""A Dockerfile, read as by a builder: its stages, and the image of its last stage."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from dockerfile_parse import DockerfileParser
from dockerfile_parse.util import WordSplitter

from tests.support.builds import ROOT

# The PATH of every image based on Debian.
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DOCKERFILES = (ROOT / "docker" / "cpu.Dockerfile", ROOT / "docker" / "cuda.Dockerfile")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction, with its continued lines joined."""

    name: str
    value: str

    @property
    def words(self) -> list[str]:
        """The arguments: the words of a line, or the list of an exec form."""
        if self.value.startswith("["):
            return list(json.loads(self.value))
        return list(WordSplitter(self.value).split())

    @property
    def assigned(self) -> dict[str, str]:
        """The values of ENV, ARG or LABEL, by name."""
        return dict(word.split("=", 1) for word in self.words)


def instructions(dockerfile: Path) -> list[Instruction]:
    """Return all instructions in order, without comments."""
    parser = DockerfileParser(fileobj=BytesIO(dockerfile.read_bytes()))
    wanted = (each for each in parser.structure if each["instruction"] != "COMMENT")
    return [Instruction(each["instruction"], each["value"]) for each in wanted]


def stages(dockerfile: Path) -> list[list[Instruction]]:
    """Return the instructions of each stage, starting with its FROM."""
    found: list[list[Instruction]] = []
    for instruction in instructions(dockerfile):
        if instruction.name == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


class Image:
    """The image of the last stage."""

    def __init__(self, dockerfile: Path) -> None:
        self._last = stages(dockerfile)[-1]

    def one(self, name: str) -> Instruction:
        """Return the instruction ``name``, which must occur once in the stage."""
        (found,) = (each for each in self._last if each.name == name)
        return found

    def assigned(self, name: str) -> dict[str, str]:
        """Return all values of ENV, ARG or LABEL, by name."""
        found = (each for each in self._last if each.name == name)
        return {key: value for each in found for key, value in each.assigned.items()}

    @property
    def environment(self) -> dict[str, str]:
        """The variables of processes: its ENV, with the base image's PATH filled in, and its user's home."""
        given = {**self.assigned("ARG"), "PATH": BASE_PATH}
        own = {name: expanded(value, given) for name, value in self.assigned("ENV").items()}
        (home,) = (
            word.partition("=")[2]
            for each in self._last
            if each.name == "RUN"
            for word in each.words
            if word.startswith("--home-dir=")
        )
        return {"HOME": home, **own}

    @property
    def healthcheck(self) -> list[str]:
        """The command of the health check."""
        value = self.one("HEALTHCHECK").value
        return list(json.loads(value[value.index("CMD") + len("CMD") :]))


def expanded(value: str, variables: Mapping[str, str]) -> str:
    """Return ``value`` with every known ``$NAME`` filled in."""
    return re.sub(r"\$(\w+)", lambda found: variables.get(found[1], found[0]), value)


def copied(dockerfile: Path) -> Iterator[tuple[str, ...]]:
    """Yield the sources of each COPY from the build context, without its target."""
    for instruction in instructions(dockerfile):
        words = instruction.words if instruction.name == "COPY" else []
        if words and not any(word.startswith("--from") for word in words):
            yield tuple(word for word in words[:-1] if not word.startswith("--"))


def locked(lock: Path) -> dict[str, tuple[str, set[str]]]:
    """Return the version and the hashes of each package of a lock file."""
    found: dict[str, tuple[str, set[str]]] = {}
    name = ""
    for line in lock.read_text(encoding="utf-8").splitlines():
        if pinned := re.match(r"([\w.-]+)==(\S+)", line):
            name = pinned[1]
            found[name] = (pinned[2], set())
        elif hashed := re.search(r"--hash=(sha256:[0-9a-f]{64})", line):
            found[name][1].add(hashed[1])
    return found


def project() -> dict[str, Any]:
    """Return the ``project`` table of pyproject.toml."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])
