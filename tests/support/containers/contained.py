"""Services of the compose file as processes of this machine, confined as their containers would be.

No container engine is needed: in a mount namespace the root is read-only but for the volumes and /tmp, and
the process runs as the image's user with no privilege but to read and to search folders, since the
interpreter of the tests may be in the home of root. Paths of the image stand under a folder.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.builds import ROOT
from tests.support.containers.compose import command_of, dockerfile_of, environment_of, services, volumes_of
from tests.support.containers.images import Image

# Arguments: how many volumes there are, these, the folder for /tmp, user, group, then the command.
_CONFINE = """
set -e
count=$1; shift
mount --make-rprivate /
while [ "$count" -gt 0 ]; do mount --bind "$1" "$1"; shift; count=$((count - 1)); done
mount --options remount,bind,ro /
user=$1 group=$2; shift 2
may='-all,+dac_read_search'
exec setpriv --reuid="$user" --regid="$group" --clear-groups --no-new-privs \
  --inh-caps="$may" --ambient-caps="$may" --bounding-set="$may" "$@"
"""


@pytest.fixture
def confinement() -> None:
    """Skips a test where processes cannot be confined: only root may, with the tools of util-linux."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("processes are confined by root alone, with unshare and setpriv of util-linux")
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)  # noqa: S607 - wherever it is
    if tried.returncode != 0:
        pytest.skip(f"this machine lets nobody make a mount namespace: {tried.stderr}")


@pytest.fixture
def prefix(confinement: None) -> Iterator[Path]:
    """A folder for an image that its user can reach, as those of pytest cannot be reached by others."""
    with tempfile.TemporaryDirectory(prefix="akin-image-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@dataclass
class Machine:
    """Where services of one profile run: the image under ``prefix``, servers at these addresses."""

    prefix: Path
    catalog_url: str
    redis_url: str
    program: Sequence[str]
    profile: str = "cpu"
    variables: Mapping[str, str | None] = field(
        default_factory=dict
    )  # in place of others; None takes one out

    def __post_init__(self) -> None:
        self.services = services(self.profile)

    def path(self, place: str) -> Path:
        """Where a path of the image is on this machine."""
        return self.prefix / place.lstrip("/")

    def make_volumes(self) -> None:
        """Makes the volumes as an engine does: with what the image has there, owned by its user."""
        for service in self.services.values():
            for target in volumes_of(service) if service["image"].startswith("akin:") else ():
                self.path(target).mkdir(parents=True, exist_ok=True)
        self.path("/tmp").mkdir()  # noqa: S108 - of the image
        for target in ("/var/lib/akin", "/var/cache/akin", "/tmp"):  # noqa: S108 - the same
            user, group = self.user("service")
            for path in (self.path(target), *self.path(target).rglob("*")):
                os.chown(path, int(user), int(group))

    def user(self, name: str) -> list[str]:
        """User and group of a service."""
        return str(self.services[name]["user"]).split(":")

    def environment(self, name: str) -> dict[str, str]:
        """The variables of a service: of its image, of the compose file, and where things are here."""
        service = self.services[name]
        given = {**Image(dockerfile_of(service)).environment, **environment_of(service)}
        own = {
            key: value.replace("/var/", f"{self.prefix}/var/") if value.startswith("/var/") else value
            for key, value in given.items()
        }
        servers = {"AKIN_CATALOG_URL": self.catalog_url, "AKIN_REDIS_URL": self.redis_url, "AKIN_PORT": "0"}
        kept = {"PATH": os.environ["PATH"], "COLUMNS": "300"}
        every = {**kept, **own, **servers, "TMPDIR": str(self.path("/tmp")), **self.variables}  # noqa: S108
        return {key: value for key, value in every.items() if value is not None}

    def confined(self, name: str, command: Sequence[str]) -> list[str]:
        """A command line that runs ``command`` as a service of this name would."""
        volumes = [str(self.path(target)) for target in ("/var/lib/akin", "/var/cache/akin", "/tmp")]  # noqa: S108
        confine = ["unshare", "--mount", "sh", "-c", _CONFINE, "confine"]
        return [*confine, str(len(volumes)), *volumes, *self.user(name), *command]

    def command(self, name: str) -> list[str]:
        """The image's program with what the compose file gives it, paths as they are here."""
        words = (
            self.path(word) if word.startswith(("/var/", "/opt/")) else word
            for word in command_of(self.services[name])
        )
        return [*self.program, *map(str, words)]

    def start(
        self, name: str, command: Sequence[str] | None = None, **streams: Any
    ) -> "subprocess.Popen[str]":
        """Starts a service, or another command in its place."""
        working = self.path(self.services[name].get("working_dir", "/var/lib/akin"))
        return subprocess.Popen(
            self.confined(name, command or self.command(name)),
            cwd=working if working.exists() else ROOT,
            env=self.environment(name),
            text=True,
            **streams,
        )

    def run(self, name: str, command: Sequence[str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Runs a one-shot to its end."""
        with self.start(name, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
