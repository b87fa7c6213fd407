"""Tests of the compose file and `.env.example`, against schema, tree, commands and settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner
from sqlalchemy import make_url

from akin.cli.serving.serve import MIN_GRACE_S
from service.access.keys import is_loopback
from service.background import STOP_S
from service.settings import Settings
from service.timings import DEFAULTS
from tests.support.builds import DEMO_CORPUS, ROOT
from tests.support.commands import parsed
from tests.support.containers.compose import (
    COMPOSE_FILE,
    EXAMPLE,
    PROFILES,
    UnsetError,
    command_of,
    compose,
    dockerfile_of,
    environment_of,
    example,
    ours,
    services,
    variables_of,
    volumes_of,
)
from tests.support.containers.images import DOCKERFILES, Image, project, stages

TEXT = COMPOSE_FILE.read_text(encoding="utf-8")
ALL = {(profile, name): service for profile in PROFILES for name, service in ours(profile).items()}
SETTINGS = {f"AKIN_{name.upper()}" for name in Settings.model_fields}
each_service = pytest.mark.parametrize("service", ALL.values(), ids=map("/".join, ALL))
each_profile = pytest.mark.parametrize("profile", PROFILES)


def schema_faults(path: Path) -> tuple[int, str]:
    """Return the exit status and output of checking a file against the compose schema."""
    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", "vendor.compose-spec", str(path)])
    return done.exit_code, done.output


def test_the_file_is_as_the_specification_wants_it() -> None:
    """The compose file satisfies the published schema of the compose specification."""
    assert 0 == schema_faults(COMPOSE_FILE)[0], schema_faults(COMPOSE_FILE)[1]


@pytest.mark.parametrize(
    ("right", "wrong"), [("mem_limit:", "memory_limit:"), ("condition: service_healthy", "condition: ready")]
)
def test_the_schema_finds_a_mistake(tmp_path: Path, right: str, wrong: str) -> None:
    """A wrong name and a wrong value are found by the schema."""
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(TEXT.replace(right, wrong), encoding="utf-8")
    code, found = schema_faults(broken)
    assert (1, True) == (code, wrong.rpartition(": ")[2].rstrip(":") in found)


def test_the_example_has_every_setting_and_every_variable() -> None:
    """The example has the settings and the variables of both compose files, each once, and no others."""
    names = re.findall(r"^#?([A-Z_0-9]+)=", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)
    of_cluster = variables_of((ROOT / "docker" / "ray.yml").read_text(encoding="utf-8"))
    assert sorted(SETTINGS | variables_of(TEXT) | of_cluster | {"COMPOSE_PROFILES"}) == sorted(names)
    assert set(PROFILES) >= set(example()["COMPOSE_PROFILES"].split(","))
    # Settings that the compose file sets itself are not in .env.
    assert SETTINGS - variables_of(TEXT) == SETTINGS - set(example())


@each_service
def test_a_service_has_every_setting(service: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each service gets exactly the settings, with default values if the example leaves them empty."""
    given = environment_of(service)
    assert SETTINGS == set(given)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    changed = {
        name
        for name in Settings.model_fields
        if getattr(Settings(), name) != Settings.model_fields[name].default
    }
    cuda = {"device"} if "cuda" in service["image"] else set()
    assert {"data", "catalog_url", "redis_url", "host", "workers"} | cuda == changed


def test_a_variable_reaches_its_setting() -> None:
    """A value in .env reaches the container under the same name."""
    values = {name: f"value of {name}" for name in variables_of(TEXT)}
    for name in ("service", "service-gpu"):
        given = environment_of(compose(values)["services"][name])
        assert {k: v for k, v in values.items() if k.startswith("AKIN_")} == {
            k: v for k, v in given.items() if v.startswith("value of")
        }


def test_nothing_runs_without_a_password() -> None:
    """The database password has no default, and the compose file says where to set it."""
    with pytest.raises(UnsetError, match="POSTGRES_PASSWORD"):
        compose(example())
    assert "copy .env.example to .env" in TEXT


@each_service
def test_a_command_is_one_of_akin(service: dict[str, Any]) -> None:
    """Each command is valid for akin, and its data folder is the volume."""
    context = parsed(command_of(service))
    assert Path("/var/lib/akin") == context.params["data"]


def test_a_command_that_is_not_is_refused() -> None:
    """A command with an unknown option or value is refused."""
    for words in (
        ["serve", "--data", "d", "--nope"],
        ["keys", "create", "a", "--data", "d", "--scope", "all"],
    ):
        with pytest.raises(Exception, match=r"(?i)no such option|is not one of"):
            parsed(words)


@each_service
def test_a_service_fits_its_image(service: dict[str, Any]) -> None:
    """User, volumes, port, version and program of a service match the Dockerfile of its image."""
    dockerfile = dockerfile_of(service)
    image = Image(dockerfile)
    assert service["image"] == f"akin:{project()['version']}-{dockerfile.stem}"
    assert str(service["user"]) == image.one("USER").value
    assert set(image.one("VOLUME").words) == set(volumes_of(service)) - {"/corpus"}
    assert str(service["environment"]["AKIN_PORT"]) == image.one("EXPOSE").value
    assert ["akin"] == image.one("ENTRYPOINT").words
    if service["command"][0] == "serve":
        assert service["command"] == image.one("CMD").words
    else:
        assert {"disable": True} == service["healthcheck"]  # the image's check is for services


@each_service
def test_a_service_may_do_little(service: dict[str, Any]) -> None:
    """Services have a read-only root, no privileges, bounded memory and processes, and an init process."""
    assert (True, ["ALL"], True) == (service["read_only"], service["cap_drop"], service["init"])
    assert ["no-new-privileges:true"] == service["security_opt"]
    assert 4096 == service["pids_limit"]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert not {"privileged", "cap_add", "network_mode", "pid", "devices"} & set(service)


@each_profile
def test_there_is_time_to_finish_requests(profile: str) -> None:
    """The grace period is longer than a service takes to end with its settings; others end alone."""
    lasting = {name: each for name, each in ours(profile).items() if each["restart"] == "unless-stopped"}
    assert {"service", "worker"} == {name.removesuffix("-gpu") for name in lasting}
    # For requests past their deadline, for background work, and for the last spans.
    beside_s = MIN_GRACE_S + STOP_S + DEFAULTS.export_timeout_s
    for service in lasting.values():
        default, given = Settings.model_fields, environment_of(service)
        waits_ms = sum(
            int(given[f"AKIN_{n.upper()}"] or default[n].default) for n in ("drain_ms", "deadline_ms")
        )
        assert waits_ms / 1000 + beside_s < int(service["stop_grace_period"].removesuffix("s"))
    (said,) = re.findall(r"AKIN_DEADLINE_MS together and (\d+) s", EXAMPLE.read_text(encoding="utf-8"))
    assert beside_s == int(said)
    chosen = services(profile, {"STOP_GRACE_PERIOD": "3m"})
    assert {"3m"} == {chosen[name]["stop_grace_period"] for name in lasting}


def test_the_gpu_is_for_those_who_compute() -> None:
    """Only indexer, service and worker of the gpu profile get one NVIDIA GPU, without a CPU fallback."""
    every = ALL | {("gpu", name): service for name, service in services("gpu").items()}
    gpu = {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    for (profile, name), service in every.items():
        computes = profile == "gpu" and name in {"indexer-gpu", "service-gpu", "worker-gpu"}
        resources = service.get("deploy", {}).get("resources", {})
        assert ({"reservations": {"devices": [gpu]}} if computes else {}) == resources
        assert not computes or "cuda" == environment_of(service)["AKIN_DEVICE"]


def test_the_servers_are_those_that_akin_needs() -> None:
    """Servers have a fixed release, health checks, bounded memory, and a volume for PostgreSQL's data."""
    postgres, redis = (services("cpu")[name] for name in ("postgres", "redis"))
    url = make_url(environment_of(ours("cpu")["service"])["AKIN_CATALOG_URL"])
    given = postgres["environment"]
    assert (url.username, url.database) == (given["POSTGRES_USER"], given["POSTGRES_DB"])
    assert (url.password, url.host, url.port) == (given["POSTGRES_PASSWORD"], "postgres", 5432)
    program, *options = postgres["healthcheck"]["test"][1:]
    assert "pg_isready" == program
    assert {f"--username={url.username}", f"--dbname={url.database}", "--host=127.0.0.1"} == set(options)
    assert ["CMD", "valkey-cli", "ping"] == redis["healthcheck"]["test"]
    assert re.fullmatch(r"postgres:18\.\d+-bookworm", postgres["image"])
    assert re.fullmatch(r"valkey/valkey:9\.0\.\d+-trixie", redis["image"])
    # From version 18 on, the image stores its data in one folder per version below this one.
    assert {"/var/lib/postgresql": "postgres"} == volumes_of(postgres)
    assert ("1g", "256m") == (postgres["mem_limit"], redis["mem_limit"])
    assert {"192mb", "volatile-lru"} <= set(redis["command"])


def test_every_image_is_of_one_release() -> None:
    """Every image tag has at least two version numbers, so none is untagged or latest."""
    served = {service["image"] for profile in PROFILES for service in services(profile).values()}
    built_on = {stage[0].words[0] for dockerfile in DOCKERFILES for stage in stages(dockerfile)}
    assert {"akin", "postgres", "python", "valkey/valkey"} == {
        image.split(":")[0] for image in served | built_on
    }
    for image in served | built_on:
        assert re.fullmatch(r"[a-z/]+:\d+\.\d+[\w.-]*", image), image


def before(profile: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the services that a service waits for, directly or indirectly, with the condition."""
    every = services(profile)
    for other, wait in every[name].get("depends_on", {}).items():
        if other not in every:
            assert wait["required"] is False, f"{name} waits for {other}, which {profile} does not have"
            continue
        yield other, wait["condition"]
        yield from before(profile, other)


@each_profile
def test_each_waits_for_what_it_needs(profile: str) -> None:
    """Servers become healthy first, then the key is made, then the collection, then service and worker."""
    suffix = "-gpu" if profile == "gpu" else ""
    indexer = {"cpu": "indexer", "gpu": "indexer-gpu", "demo": "indexer-demo"}[profile]
    names = {"postgres", "redis", indexer, *(f"{each}{suffix}" for each in ("keys", "service", "worker"))}
    every = services(profile)
    assert names == set(every)
    done = "service_completed_successfully"
    for name in (f"service{suffix}", f"worker{suffix}"):
        expected = {("postgres", "service_healthy"), ("redis", "service_healthy"), (indexer, done)}
        assert expected | {(f"keys{suffix}", done)} == set(before(profile, name))
    assert {("postgres", "service_healthy"), (f"keys{suffix}", done)} == set(before(profile, indexer))
    assert all(every[name]["restart"] == "no" for name in (indexer, f"keys{suffix}"))


@each_profile
def test_nothing_is_published_beyond_this_machine_without_a_key(profile: str) -> None:
    """One port is published, on loopback by default, although Akin needs a key to listen in the container."""
    published = {name: service["ports"] for name, service in services(profile).items() if "ports" in service}
    ((name, (port,)),) = published.items()
    address, outer, inner = port.split(":")
    assert is_loopback(address)
    assert (outer, inner) == ("8000", environment_of(ours(profile)[name])["AKIN_PORT"])
    # Akin's behaviour without a key at such an address: tests/service/access/test_keys.py.
    assert not is_loopback(environment_of(ours(profile)[name])["AKIN_HOST"])
    keys = parsed(command_of(ours(profile)["keys-gpu" if profile == "gpu" else "keys"])).params
    assert ("admin", True, 0) == (keys["scope"], keys["first"], keys["expires_days"])
    chosen = services(profile, {"PUBLISH_ADDRESS": "192.0.2.1", "PUBLISH_PORT": "9000-9001"})[name]
    assert ["192.0.2.1:9000-9001:8000"] == chosen["ports"]


def test_the_demo_is_where_the_image_has_it() -> None:
    """The demo corpus has the path of the package in the image's environment."""
    service = ours("demo")["indexer-demo"]
    (path,) = parsed(command_of(service)).params["corpora"]
    (version,) = {
        re.match(r"python:(3\.\d+)\.", stage[0].value)[1] for stage in stages(dockerfile_of(service))
    }  # type: ignore[index]  # each is one
    packages = f"/opt/akin/lib/python{version}/site-packages"
    assert f"{packages}/{DEMO_CORPUS.relative_to(ROOT)}" == str(path)


def test_the_corpus_is_a_folder_of_the_host() -> None:
    """The corpus folder is mounted read-only as the working directory of the command."""
    service = services(
        "cpu",
        {"CORPUS": "/papers", "CORPUS_FILES": "a.jsonl b.jsonl.gz", "INDEX_OPTIONS": "--encoder hashing"},
    )["indexer"]
    (mounted,) = (volume for volume in service["volumes"] if isinstance(volume, dict))
    assert ("/papers", "/corpus", True) == (mounted["source"], mounted["target"], mounted["read_only"])
    given = parsed(command_of(service)).params
    assert ([Path("a.jsonl"), Path("b.jsonl.gz")], "hashing") == (given["corpora"], given["encoder"])
    assert "/corpus" == service["working_dir"]


@each_profile
def test_a_collection_is_indexed_once(profile: str) -> None:
    """A start does not index again unless `.env` says so, even if the corpus is missing."""
    for options, first in (("", True), ("--again", False)):
        (indexer,) = (
            each
            for name, each in services(profile, {"INDEX_OPTIONS": options}).items()
            if name.startswith("indexer")
        )
        assert (first or profile == "demo") == parsed(command_of(indexer)).params["first"]
        binds = [each["bind"] for each in indexer["volumes"] if isinstance(each, dict)]
        assert [{"create_host_path": True}] * (profile != "demo") == binds


def test_every_named_volume_is_there() -> None:
    """The declared volumes are exactly the used ones."""
    used = {
        source
        for profile in PROFILES
        for service in services(profile).values()
        for source in volumes_of({"volumes": service.get("volumes", [])}).values()
        if not source.startswith((".", "/"))
    }
    assert used == set(yaml.safe_load(TEXT)["volumes"])
