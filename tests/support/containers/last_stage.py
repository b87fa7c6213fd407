"""A run of the last stage of a Dockerfile without a container engine, as root, over this machine.

The root of the image is an overlay over this machine's root; writes go to memory, so that none of them stay.
The interpreter of the tests takes the place of the base image's.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.containers.images import BASE_PATH, stages

# Arguments: a folder; the interpreter's folder, library and installed packages; the lines.
_OVER_THIS_MACHINE = """
set -e
base=$1 root=$1/root python=$2 library=$3 installed=$4; shift 4
mount --make-rprivate /
mount --types tmpfs none "$base"
mkdir "$base/upper" "$base/work" "$root"
mount --types overlay --options "lowerdir=/,upperdir=$base/upper,workdir=$base/work" none "$root"
mount --bind /dev "$root/dev"
# As in the base image: no byte code, no further packages, no such user; and its interpreter is for everybody.
mount --types tmpfs none "$root$installed"
find "$root$library" -name __pycache__ -prune -exec rm --recursive {} +
for file in "$root/etc/passwd" "$root/etc/group" "$root/etc/shadow" "$root/etc/gshadow"; do
  [ ! -e "$file" ] || sed --in-place --regexp-extended '/^akin:|:10001:/d' "$file"
done
while [ "$python" != / ]; do chmod o+x "$root$python"; python=$(dirname "$python"); done
for line in "$@"; do chroot "$root" /bin/sh -c "$line"; done
"""


def run_last_stage(dockerfile: Path, folder: Path, further: Sequence[str]) -> str:
    """Run the lines of the last stage, then ``further`` ones, and return their output; skip if impossible."""
    if os.geteuid() != 0:
        pytest.skip("only root can make users in the root of an image")
    python = Path(sys.base_prefix).resolve()
    if python.stat().st_dev != Path("/").stat().st_dev:
        pytest.skip(f"{python} is on another file system than the root of this machine")
    base = {"base": str(python), "installed_base": str(python)}
    library, installed = (sysconfig.get_path(name, vars=base) for name in ("stdlib", "purelib"))
    lines = [each.value for each in stages(dockerfile)[-1] if each.name == "RUN"]
    places = [str(folder), str(python), library, installed]
    command = ["unshare", "--mount", "sh", "-c", _OVER_THIS_MACHINE, "over", *places, *lines, *further]
    done = subprocess.run(
        command,
        cwd="/",
        env={"PATH": f"{python}/bin:{BASE_PATH}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout
