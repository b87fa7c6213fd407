"""A build of the first stage of a Dockerfile without a container engine, with its paths below a folder.

Lines are run unchanged except for the paths. `python3` is the interpreter of the tests.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote

from tests.support.builds import ROOT
from tests.support.containers.images import expanded, stages

_PLACE = re.compile(r"(?<![\w/.])/(?=(?:opt|var)/)")


def build(dockerfile: Path, prefix: Path) -> None:
    """Run the first stage of ``dockerfile`` with its paths below ``prefix``."""
    working = prefix
    given: dict[str, str] = {}
    arguments = torch_of_this_machine(prefix)
    for instruction in stages(dockerfile)[0]:
        match instruction.name:
            case "ARG" | "ENV":
                named = {key: expanded(value, given) for key, value in instruction.assigned.items()}
                given |= {key: placed(value, prefix) for key, value in named.items()}
                given |= {key: value for key, value in arguments.items() if key in named}
            case "WORKDIR":
                working = prefix / instruction.value.lstrip("/")
                working.mkdir(parents=True, exist_ok=True)
            case "COPY":
                *sources, target = instruction.words
                for source in sources:
                    _copy(ROOT / source, working / target)
            case "RUN":
                _run(placed(instruction.value, prefix), working, given)


def placed(text: str, prefix: Path) -> str:
    """Return ``text`` with the paths of the image moved below ``prefix``."""
    return _PLACE.sub(f"{prefix}/", text)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.mkdir(exist_ok=True)
        shutil.copy2(source, target)


def _run(line: str, working: Path, variables: Mapping[str, str]) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=working,
        env={**kept, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def torch_of_this_machine(prefix: Path) -> dict[str, str]:
    """Return TORCH_INDEX, an index of the wheel that pip finds, if the tests run with torch for CPUs.

    Otherwise return no argument: pip would find a wheel for GPUs, so the default index of the image is used.
    """
    if not version("torch").endswith("+cpu"):
        return {}
    looked = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    done = subprocess.run(
        [*looked, "--no-deps", "--report=-", f"torch=={version('torch')}"],
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = json.loads(done.stdout)["install"]
    address = found["download_info"]["url"]
    page = prefix / "index" / "torch" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{address}">{unquote(address.rpartition("/")[2])}</a>', encoding="utf-8")
    return {"TORCH_INDEX": page.parents[1].as_uri()}
