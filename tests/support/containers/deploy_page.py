"""The blocks, commands and pods of docs/how-to/deploy.md."""

import re
import shlex
from typing import Any

import yaml

from tests.support.builds import ROOT
from tests.support.containers.compose import compose, example

PAGE = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
SERVICES = set(compose({**example(), "POSTGRES_PASSWORD": "x"})["services"])
_BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def blocks(language: str) -> list[str]:
    """Return the blocks in this language."""
    return [text for name, text in _BLOCKS if name == language]


def commands() -> list[list[str]]:
    """Return every command of the page, in blocks and in the text, as words."""
    lines = [line for text in blocks("sh") for line in text.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`((?:docker compose|sudo) [^`]+)`", PAGE)
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def pods() -> dict[str, dict[str, Any]]:
    """Return the pod specifications of the cluster's manifests, by the kind of their owner."""
    manifests = [each for text in blocks("yaml") for each in yaml.safe_load_all(text)]
    return {
        each["kind"]: each["spec"]["template"]["spec"]
        for each in manifests
        if "template" in each.get("spec", {})
    }


def of_akin() -> list[list[str]]:
    """Return the arguments of Akin in containers, in systemd units and in the pods of a cluster."""
    run = [
        words[words.index("run") :] for words in commands() if "run" in words and "--entrypoint" not in words
    ]
    found = [words[next(i for i, word in enumerate(words) if word in SERVICES) + 1 :] for words in run]
    found += [words[2:] for words in commands() if words[:2] == ["as_akin", "/opt/akin/bin/akin"]]
    found += [line.split()[1:] for line in re.findall(r"ExecStart=(\S+ [^`\n]+)", PAGE)]
    for pod in pods().values():
        found += [each["args"] for each in pod["initContainers"] + pod["containers"] if "args" in each]
    return [list(words) for words in dict.fromkeys(map(tuple, found)) if words]
