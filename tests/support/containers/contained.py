"""Services of the compose file as processes of this machine, confined as their containers would be.

No container engine is needed: in a mount namespace the root is read-only except for volumes and tmpfs, and
the process runs as its user, without privileges, with the variables of its image. The paths of the image are
below a folder. If the interpreter of the tests is in a folder that only root can enter, such as root's home,
the process sees nothing in this folder except the interpreter.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests.support.builds import ROOT
from tests.support.containers.build import placed
from tests.support.containers.compose import command_of, dockerfile_of, environment_of, services, writable_in
from tests.support.containers.images import Image

# Arguments: ro or rw, for the root and other places; the interpreter's folder, and the folder above it that
# is closed to others, or nothing; the number of other places, these; the number of writable ones, these; the
# command.
_CONFINE = """
set -e
mode=$1 python=$2 closed=$3 count=$4; shift 4
mount --make-rprivate /
mount --options "remount,bind,$mode" /
while [ "$count" -gt 0 ]; do
  mount --bind "$1" "$1"; mount --options "remount,bind,$mode" "$1"; shift; count=$((count - 1))
done
count=$1; shift
while [ "$count" -gt 0 ]; do
  mount --bind "$1" "$1"; mount --options remount,bind,rw "$1"; shift; count=$((count - 1))
done
if [ -n "$closed" ]; then
  mount --bind "$python" /mnt
  mount --types tmpfs --options mode=0755 none "$closed"; mkdir --parents "$python"
  mount --no-mtab --move /mnt "$python"
  mount --options remount,bind,ro "$python"; mount --options remount,ro "$closed"
fi
exec "$@"
"""
_ROOT = os.geteuid() == 0
# A user other than root becomes root in a new user namespace, but not outside of it.
_NAMESPACE = ["unshare", "--mount"] if _ROOT else ["unshare", "--map-root-user", "--mount"]


def _closed_above(folder: Path) -> str:
    """Return the outermost of ``folder`` and its parents closed to other users; empty unless run by root."""
    closed = (
        str(each) for each in (*reversed(folder.parents), folder) if not each.stat().st_mode & stat.S_IXOTH
    )
    return next(closed, "") if _ROOT else ""


def _confined(writable: Sequence[Path], read_only: Sequence[Path], mode: str = "ro") -> list[str]:
    python = Path(sys.base_prefix).resolve()
    places = [str(len(read_only)), *map(str, read_only), str(len(writable)), *map(str, writable)]
    return [*_NAMESPACE, "sh", "-c", _CONFINE, "confine", mode, str(python), _closed_above(python), *places]


@pytest.fixture
def confinement(tmp_path: Path) -> None:
    """Skip a test if processes cannot be confined: without util-linux, or without mount namespaces."""
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("processes are confined with unshare and setpriv of util-linux")
    command = [*_NAMESPACE, "mount", "--bind", tmp_path, tmp_path]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine lets this user make no mount namespace: {tried.stderr}")


@pytest.fixture
def prefix(confinement: None) -> Iterator[Path]:
    """A folder for an image that the image's user can enter; pytest's folders are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="akin-image-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@dataclass
class Machine:
    """The place of the services of a profile: the image below ``prefix``, and the addresses of servers."""

    prefix: Path
    catalog_url: str
    redis_url: str
    profile: str = "cpu"
    read_only: Collection[str] = ()  # volumes that are read-only here
    # They replace variables of a process; None removes one.
    variables: Mapping[str, str | None] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)  # they replace those of `.env.example`

    def __post_init__(self) -> None:
        self.services = services(self.profile, self.settings)

    def path(self, place: str) -> Path:
        """Return the path on this machine of a path of the image."""
        return self.prefix / place.lstrip("/")

    def make_volumes(self) -> None:
        """Make the volumes like a container engine: with the image's files there, owned by its user.

        The group of this user may reach the socket of the database.
        """
        for service in (each for each in self.services.values() if "user" in each):
            user, group = map(int, service["user"].split(":"))
            for place in map(self.path, writable_in(service)):
                place.mkdir(parents=True, exist_ok=True)
                for path in (place, *place.rglob("*")) if _ROOT else ():
                    os.chown(path, user, group)
            socket = make_url(self.catalog_url).query.get("host") if self.catalog_url else None
            if _ROOT and isinstance(socket, str) and _closed_above(Path(socket)):
                os.chown(socket, -1, group)
                Path(socket).chmod(0o710)

    def uid(self, name: str) -> int:
        """Return the id of the user of a service; without root, it is that of the tests."""
        return int(self.services[name]["user"].split(":")[0]) if _ROOT else os.geteuid()

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables of a service: of its image, of the compose file, and with the places here."""
        service = self.services[name]
        given = {**self.image(name).environment, **environment_of(service)}
        own = {key: placed(value, self.prefix) for key, value in given.items()}
        servers = {"AKIN_CATALOG_URL": self.catalog_url, "AKIN_REDIS_URL": self.redis_url, "AKIN_PORT": "0"}
        memory, *_ = (each.split(":")[0] for each in service["tmpfs"])
        here = {"COLUMNS": "300", "TMPDIR": str(self.path(memory))}
        every = {**own, **servers, **here, **self.variables}
        return {key: value for key, value in every.items() if value is not None}

    def image(self, name: str) -> Image:
        """Return the image of a service."""
        return Image(dockerfile_of(self.services[name]))

    def confined(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the command line that runs ``command`` confined like the service ``name``."""
        service = self.services[name]
        writable = [self.path(place) for place in writable_in(service) if place not in self.read_only]
        mode = "ro" if service["read_only"] else "rw"
        return [*_confined(writable, [ROOT, self.prefix], mode), *self._privileges(service), *command]

    def _privileges(self, service: Mapping[str, Any]) -> list[str]:
        """Return the command that sets user and group, and drops the privileges that its container drops."""
        user, group = service["user"].split(":")
        given = [f"--reuid={user}", f"--regid={group}", "--clear-groups"] if _ROOT else []
        if "no-new-privileges:true" in service["security_opt"]:
            given.append("--no-new-privs")
        if service["cap_drop"] == ["ALL"]:
            given += [f"--{which}=-all" for which in ("inh-caps", "ambient-caps", "bounding-set")]
        return ["setpriv", *given]

    def command(self, name: str) -> list[str]:
        """Return the image's program with the arguments of the compose file and the paths of this machine."""
        words = [*self.image(name).one("ENTRYPOINT").words, *command_of(self.services[name])]
        return [placed(word, self.prefix) for word in words]

    def health(self, name: str, port: int) -> int:
        """Return the exit status of the image's health check, run like a service on this port."""
        machine = replace(self, variables={**self.variables, "AKIN_PORT": str(port)})
        return machine.run(name, self.image(name).healthcheck).returncode

    def start(
        self, name: str, command: Sequence[str] | None = None, **streams: Any
    ) -> "subprocess.Popen[str]":
        """Start a service, or another command confined like it."""
        working = self.path(self.services[name].get("working_dir", "/var/lib/akin"))
        return subprocess.Popen(
            self.confined(name, command or self.command(name)),
            cwd=working if working.exists() else ROOT,
            env=self.environment(name),
            text=True,
            **streams,
        )

    def run(self, name: str, command: Sequence[str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a service, or another command, until it ends."""
        with self.start(name, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
