"""Tests of the Dockerfiles and their locks: with a linter, and against pyproject.toml and each other."""

import json
import re
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.builds import ROOT
from tests.support.containers.images import DOCKERFILES, Image, copied, instructions, locked, project, stages

CPU, CUDA = DOCKERFILES
LOCK = ROOT / "requirements.lock"
LOCAL_LOCK = ROOT / "local.lock"
BUILD_LOCK, IMAGE_LOCK, CUDA_LOCK, CUVS_LOCK = (
    ROOT / "docker" / f"{name}.lock" for name in ("build", "cpu", "cuda", "cuvs")
)
GPU_LOCKS = {"gpu": CUDA_LOCK, "cuvs": CUVS_LOCK}
EXTRAS = ("postgres", "ray", "redis", "telemetry")  # in addition to "serve"
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
SECRET = re.compile("PASSWORD|SECRET|TOKEN|KEY|CREDENTIAL")
each_dockerfile = pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)


def linted(dockerfile: Path) -> "subprocess.CompletedProcess[str]":
    """Return the result of running hadolint on a file."""
    hadolint = Path(sys.executable).with_name("hadolint")
    return subprocess.run(
        [hadolint, "--no-color", dockerfile], capture_output=True, text=True, check=False, timeout=60
    )


@each_dockerfile
def test_the_linter_finds_nothing(dockerfile: Path) -> None:
    """Hadolint finds nothing, neither by its own rules nor by shellcheck's."""
    done = linted(dockerfile)
    assert (0, "") == (done.returncode, done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("right", "wrong", "rule"),
    [
        ('CMD ["serve", "--data", "/var/lib/akin"]', "CMD serve --data /var/lib/akin", "DL3025"),
        ("python:3.11.15-slim-bookworm\n", "python\n", "DL3006"),
        ('/" "$(', '/" $(true) #', "SC2046"),
    ],
)
def test_the_linter_finds_a_mistake(tmp_path: Path, right: str, wrong: str, rule: str) -> None:
    """Hadolint finds a shell-form CMD, an image without a version, and an unquoted variable."""
    broken = tmp_path / "Dockerfile"
    broken.write_text(CPU.read_text(encoding="utf-8").replace(right, wrong), encoding="utf-8")
    done = linted(broken)
    assert (1, True) == (done.returncode, rule in done.stdout)


def test_both_images_are_the_same_but_for_the_gpu() -> None:
    """The last stages are equal, except for the variables of the GPU."""

    def last(dockerfile: Path) -> list[tuple[str, str]]:
        return [(each.name, each.value) for each in stages(dockerfile)[-1] if each.name != "ENV"]

    assert last(CPU) == last(CUDA)
    own = {
        "CUDA_CACHE_PATH": "/var/cache/akin/cuda",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "NVIDIA_VISIBLE_DEVICES": "all",
    }
    assert {**Image(CPU).environment, **own} == Image(CUDA).environment


@each_dockerfile
def test_what_is_copied_is_there_and_nothing_else_is_sent(dockerfile: Path) -> None:
    """Each copied source exists and is let through; the rest, above all .env, is not sent to the builder."""
    sources = {source for each in copied(dockerfile) for source in each}
    let_through = {line[1:] for line in IGNORED if line.startswith("!")}
    assert "*" == next(line for line in IGNORED if not line.startswith("#"))
    assert sources <= let_through
    assert all((ROOT / path).exists() for path in let_through)
    assert not {".env", ".git", "tests", "docs"} & let_through


def test_all_that_is_let_through_is_copied() -> None:
    """Each source that is let through is copied by a Dockerfile, and all packages are among them."""
    sources = {source for dockerfile in DOCKERFILES for each in copied(dockerfile) for source in each}
    assert sources == {line[1:] for line in IGNORED if line.startswith("!")}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages == {source for source in sources if (ROOT / source).is_dir()}


@each_dockerfile
def test_the_image_runs_one_program_as_an_ordinary_user(dockerfile: Path) -> None:
    """Exec forms let SIGTERM reach Akin, and the user is numeric, so that orchestrators can check it."""
    image = Image(dockerfile)
    for name in ("ENTRYPOINT", "CMD", "VOLUME"):
        assert image.one(name).value.startswith("[")
    assert image.healthcheck[:2] == ["python3", "-c"]
    assert "'/readyz'" in image.healthcheck[-1]
    # The check times out before the engine ends it.
    engines, own = re.findall(r"timeout=(\d+)", image.one("HEALTHCHECK").value)
    assert int(own) < int(engines)
    assert "SIGTERM" == image.one("STOPSIGNAL").value
    user, group = map(int, image.one("USER").value.split(":"))
    assert user == group >= 10_000
    made = " ".join(each.value for each in stages(dockerfile)[-1] if each.name == "RUN")
    assert f"useradd --uid={user} --gid={group} " in made
    assert f"install --directory --owner={user} --group={group} " in made


@each_dockerfile
def test_no_layer_holds_a_secret(dockerfile: Path) -> None:
    """No build argument or variable, which stay in the image, has the name of a secret."""
    for name in ("ARG", "ENV"):
        given = [each.assigned for each in instructions(dockerfile) if each.name == name]
        assert given
        assert not [key for assigned in given for key in assigned if SECRET.search(key)]


@each_dockerfile
def test_its_labels_are_those_of_the_project(dockerfile: Path) -> None:
    """The OCI labels match pyproject.toml and build arguments, and the base image has a release."""
    prefix = "org.opencontainers.image."
    (base,) = {stage[0].value.split()[0] for stage in stages(dockerfile)}
    about = {
        "title": project()["name"].capitalize(),
        "description": project()["description"],
        "version": project()["version"],
        "licenses": project()["license"],
        "base.name": f"docker.io/library/{base}",
        **{name: f"${name.upper()}" for name in ("created", "revision", "source")},
    }
    assert {f"{prefix}{key}": value for key, value in about.items()} == Image(dockerfile).assigned("LABEL")
    assert {"created", "revision", "source"} <= {name.lower() for name in Image(dockerfile).assigned("ARG")}
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", base)


@each_dockerfile
def test_compiled_loops_are_looked_for_where_they_were_put(dockerfile: Path) -> None:
    """Both stages have the same numba cache folder, in the cache volume, and the same kind of processor."""
    build, last = (
        {key: value for each in stage if each.name in {"ARG", "ENV"} for key, value in each.assigned.items()}
        for stage in stages(dockerfile)
    )
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME", "CPU"):
        assert build[name] == last[name]
    volume = Image(dockerfile).one("VOLUME").words[1]
    for name in ("NUMBA_CACHE_DIR", "HF_HOME"):
        assert last[name].startswith(f"{volume}/")
    assert last["XDG_CACHE_HOME"] == volume
    moved = [each.words[-2:] for each in stages(dockerfile)[-1] if each.name == "COPY"]
    assert [["/opt/akin", "/opt/akin"], [volume, volume]] == moved
    assert "bin/python3 -m akin.compiling" == [e.value for e in stages(dockerfile)[0] if e.name == "RUN"][-1]


# Print numba's cache keys and compiler options on each of two processors.
_KEYS = """
import json, llvmlite.binding as llvm
from numba.core.codegen import JITCPUCodegen
keys = []
for name, features in (("znver3", {"avx2": True, "sse4a": True}), ("skylake-avx512", {"avx512f": True})):
    llvm.get_host_cpu_name = lambda name=name: name
    llvm.get_host_cpu_features = lambda features=features: llvm.FeatureMap(features)
    keys.append(JITCPUCodegen("any").magic_tuple())
print(json.dumps(keys))
"""


def test_compiled_loops_are_for_other_processors_too() -> None:
    """The image's variables, not the processor of the building machine, decide what is compiled."""
    given = {name: value for name, value in Image(CPU).environment.items() if name.startswith("NUMBA_CPU")}
    done = subprocess.run(
        [sys.executable, "-c", _KEYS], env=given, capture_output=True, text=True, check=True, timeout=60
    )
    one, other = json.loads(done.stdout)
    assert one == other
    assert ["x86-64-v3", ""] == one[1:]


def required(*extras: str) -> dict[str, Requirement]:
    """Return Akin's requirements with some extras, by name, including extras made of other extras."""
    given = project()
    found = {}
    wanted = [*map(Requirement, given["dependencies"]), *(Requirement(f"akin[{each}]") for each in extras)]
    while wanted:
        each = wanted.pop()
        if each.name == "akin":
            wanted += [
                Requirement(line) for extra in each.extras for line in given["optional-dependencies"][extra]
            ]
        elif not each.marker or each.marker.evaluate():
            found[each.name.lower()] = each
    return found


def needed(*extras: str) -> set[str]:
    """Return the names of Akin's direct and indirect requirements with some extras, by installed metadata."""
    locked_for = {"python_version": "3.11", "python_full_version": "3.11.0"}
    found = set[tuple[str, str]]()
    wanted = list(required(*extras).values())
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {extra for known, extra in found if known == name}:
            found.add((name, extra))
            further = map(Requirement, requires(name) or [])
            given = {**locked_for, "extra": extra}
            wanted += [each for each in further if not each.marker or each.marker.evaluate(given)]
    return {name for name, _ in found}


@pytest.mark.skipif(
    not version("torch").endswith("+cpu"), reason="torch for GPUs needs more than the one for processors"
)
def test_the_cpu_image_takes_what_serving_needs_and_no_more() -> None:
    """The lock has exactly the requirements of serving, torch for CPUs, and the hashes of the test lock."""
    image, every = locked(IMAGE_LOCK), locked(LOCK)
    assert needed("serve", *EXTRAS) == {canonicalize_name(name) for name in image}
    torch, hashes = image.pop("torch")
    assert (f"{required('serve')['torch'].specifier}+cpu", 1) == (f"=={torch}", len(hashes))
    assert {name: every[name] for name in image} == image
    # `make demo` installs the same, except for what only some services need.
    local = locked(LOCAL_LOCK)
    assert needed("local") == {canonicalize_name(name) for name in local} | {"torch"}
    assert {name: every[name] for name in local} == local


@pytest.mark.parametrize(
    "lock", [LOCK, LOCAL_LOCK, BUILD_LOCK, IMAGE_LOCK, CUDA_LOCK, CUVS_LOCK], ids=lambda path: path.name
)
def test_every_package_of_every_lock_has_its_hash(lock: Path) -> None:
    """Every package has a hash, and only the locks of the images and of cuVS contain torch."""
    assert {BUILD_LOCK, IMAGE_LOCK, CUDA_LOCK, CUVS_LOCK} == {*(ROOT / "docker").glob("*.lock")}
    assert {LOCK, LOCAL_LOCK} == {*ROOT.glob("*.lock")}
    known = r"[\w.-]+==[\w.+-]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?| *#.*|"
    lines = lock.read_text(encoding="utf-8").splitlines()
    assert [] == [line for line in lines if not re.fullmatch(known, line)]
    every = locked(lock)
    assert (lock in {IMAGE_LOCK, CUDA_LOCK, CUVS_LOCK}) == ("torch" in every)
    assert [] == [name for name, (_, hashes) in every.items() if not hashes]


@each_dockerfile
def test_what_is_installed_is_compared_with_its_hash(dockerfile: Path) -> None:
    """Both locks are installed with hashes, in layers below the code, which changes more often."""
    order = [each.value for each in stages(dockerfile)[0] if each.name in {"COPY", "RUN"}]
    for lock in ("docker/build.lock", f"docker/{dockerfile.stem}.lock"):
        (installed,) = (i for i, value in enumerate(order) if f"--requirement={lock}" in value)
        assert f"--require-hashes --requirement={lock}" in order[installed]
        assert f"{lock} docker/" in order[:installed]
        assert "akin akin" in order[installed + 1 :]
    assert "/opt/uv/bin/uv pip install --no-index --no-deps --no-build-isolation ." == order[-2]
    assert ["uv"] == list(locked(BUILD_LOCK))


def names(lock: dict[str, tuple[str, set[str]]]) -> set[str]:
    """Return the names of a lock's packages in lower case."""
    return {name.lower() for name in lock}


@pytest.mark.parametrize(
    ("extra", "faiss", "others"),
    [
        ("gpu", "faiss-gpu", {"nvidia", "cuda"}),
        ("cuvs", "faiss-gpu-cuvs", {"nvidia", "cuda", "libcuvs", "libraft", "librmm", "rapids"}),
    ],
)
def test_the_locks_for_gpus_are_the_other_one_with_cuda(extra: str, faiss: str, others: set[str]) -> None:
    """They have the other's versions and hashes, with a FAISS for GPUs, and torch with its CUDA packages."""
    cuda, cpu = locked(GPU_LOCKS[extra]), locked(LOCK)
    for name in set(cuda) & set(cpu):
        assert cpu[name] == cuda[name], name
    own = set(cuda) - set(cpu)
    assert {faiss, "torch", "triton"} <= own
    assert others == {name.split("-")[0] for name in own} - {"faiss", "torch", "triton"}
    assert cuda[faiss][0] == cpu["faiss-cpu"][0]
    assert f"=={cuda['torch'][0]}" == str(required(extra)["torch"].specifier)
    assert set(required(extra, *EXTRAS)) <= names(cuda)


@pytest.mark.parametrize("extra", GPU_LOCKS)
def test_the_locks_for_gpus_have_the_versions_that_are_wanted(extra: str) -> None:
    """The versions of the locks satisfy pyproject.toml."""
    versions = {name.lower(): version for name, (version, _) in locked(GPU_LOCKS[extra]).items()}
    for name, requirement in required(extra, *EXTRAS).items():
        assert requirement.specifier.contains(versions[name]), name
