"""Tests of docs/how-to/deploy.md: its commands, services, settings, paths, ports and limits."""

import json
import re
from typing import Any

import pytest
import yaml

from service.access.policy import MAX_BATCH_BYTES
from service.api.schemas.search.query import IndexedIn
from service.api.schemas.search.search import SearchIn
from service.cluster.replicas import OPEN_S
from service.settings import Settings
from tests.support.builds import DEMO_CORPUS, ROOT
from tests.support.commands import parsed
from tests.support.containers.compose import PROFILES, example, ours, services, variables_of
from tests.support.containers.deploy_page import PAGE, SERVICES, blocks, commands, of_akin, pods
from tests.support.containers.images import DOCKERFILES, Image, stages

IMAGE = Image(DOCKERFILES[0])
DATA = IMAGE.one("VOLUME").words[0]
# Variables of the file that adds a cluster.
OF_RAY = variables_of((ROOT / "docker" / "ray.yml").read_text(encoding="utf-8"))


def test_compose_commands_name_services_that_there_are() -> None:
    """The compose commands on the page name existing services."""
    given = [words[2:] for words in commands() if words[:2] == ["docker", "compose"]]
    assert {"build", "up", "run", "stop", "rm", "logs", "exec", "down"} == {words[0] for words in given}
    named = set()
    for words in given:
        if words[0] in {"up", "stop", "rm", "logs"}:
            # A word with "=" belongs to --scale.
            named |= {word for word in words[1:] if not word.startswith("-") and "=" not in word}
    assert {"service", "worker", "keys", "postgres", "redis"} <= named <= SERVICES | {"ray-head", "ray-node"}


@pytest.mark.parametrize("words", of_akin(), ids=" ".join)
def test_commands_of_akin_are_taken(words: list[str]) -> None:
    """The command line accepts the page's commands, with the data folder of the images."""
    assert DATA == str(parsed(words).params["data"])


def test_there_are_commands() -> None:
    """The page has a command of each kind."""
    assert {"serve", "worker", "index", "backup", "upgrade", "keys", "snapshot"} == {
        words[0] for words in of_akin()
    }


def test_the_first_search_sends_a_key_and_a_query() -> None:
    """The first search on the page sends a key, and queries by a paper of the demo."""
    (words,) = (each for each in commands() if each[0] == "curl" and each[2].endswith("/v1/search"))
    headers = {words[i + 1] for i, word in enumerate(words) if word == "-H"}
    assert {"Authorization: Bearer KEY", "Content-Type: application/json"} == headers
    request = SearchIn.model_validate_json(words[words.index("-d") + 1])
    assert isinstance(request.query, IndexedIn)
    papers = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
    assert request.query.paper_id in {paper["id"] for paper in papers}


def test_settings_are_those_of_akin() -> None:
    """Settings on the page exist, and the other variables are in `.env.example` or the cluster's file."""
    known = {f"AKIN_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"AKIN_[A-Z_]+", PAGE)) <= known
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)(?:=[^`]*)?`", PAGE)) - known <= set(example()) | OF_RAY
    arguments = {
        argument
        for each in stages(DOCKERFILES[0])
        for one in each
        if one.name == "ARG"
        for argument in one.assigned
    }
    assert {"CPU", "TORCH_INDEX", "REVISION"} == set(re.findall(r"--build-arg (\w+)", PAGE)) <= arguments
    assert all(f"| `{profile}` |" in PAGE for profile in PROFILES)
    for name in ours("gpu"):
        assert f"`{name}`" in PAGE


def test_the_pods_fit_the_image() -> None:
    """User, volumes, memory file systems and image of the pods match, without service variables."""
    service: dict[str, Any] = services("cpu")["service"]
    for spec in pods().values():
        assert spec["enableServiceLinks"] is False  # a Service `akin` would set AKIN_PORT
        user = spec["securityContext"]
        assert (True, IMAGE.one("USER").value) == (
            user["runAsNonRoot"],
            f"{user['runAsUser']}:{user['runAsGroup']}",
        )
        containers = spec["initContainers"] + spec["containers"]
        assert {service["image"]} == {each["image"] for each in containers}
        mounts = [mount for each in containers for mount in each["volumeMounts"]]
        assert {mount["name"] for mount in mounts} == {each["name"] for each in spec["volumes"]}
        (container,) = spec["containers"]
        paths = {each["mountPath"] for each in container["volumeMounts"]} - {"/corpus"}
        assert {*IMAGE.one("VOLUME").words, *(each.split(":")[0] for each in service["tmpfs"])} == paths
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert ["ALL"] == container["securityContext"]["capabilities"]["drop"]


def test_the_replicas_serve_as_the_containers_do() -> None:
    """Replicas run the image's command on a read-only volume; the Job before them can write to it."""
    spec = pods()["Deployment"]
    (container,) = spec["containers"]
    service = services("cpu")["service"]
    assert service["command"] == container["args"] == IMAGE.one("CMD").words
    assert f"{spec['terminationGracePeriodSeconds']}s" == service["stop_grace_period"]
    health = [container[f"{each}Probe"]["httpGet"]["port"] for each in ("startup", "readiness", "liveness")]
    starting = container["startupProbe"]
    assert starting["periodSeconds"] * starting["failureThreshold"] > OPEN_S  # as long as opening may take
    assert {int(IMAGE.one("EXPOSE").value)} == {container["ports"][0]["containerPort"], *health}
    read_only = {
        kind: [
            mount.get("readOnly", False)
            for mount in pod["containers"][0]["volumeMounts"]
            if mount["name"] == "data"
        ]
        for kind, pod in pods().items()
    }
    assert {"Job": [False], "Deployment": [True]} == read_only


def test_models_are_mounted_into_what_reads_them() -> None:
    """Models are mounted into the compose services that compute."""
    (override,) = (each for text in blocks("yaml") for each in yaml.safe_load_all(text) if "services" in each)
    assert {"indexer", "service", "worker"} == set(override["services"]) <= SERVICES
    assert [["./models:/models:ro"]] * 3 == [each["volumes"] for each in override["services"].values()]


def test_the_proxies_pass_on_what_akin_takes() -> None:
    """The proxies allow large batches and long addresses; under a path they pass only the API."""
    bound = MAX_BATCH_BYTES // 1_000_000
    (nginx,), (caddy,) = blocks("nginx"), blocks("caddyfile")
    page = (ROOT / "docs" / "how-to" / "page.md").read_text(encoding="utf-8")
    (header_buffers,) = re.findall(r"`(large_client_header_buffers [^`]+)`", page)
    port = Settings.model_fields["port"].default
    for proxy, hosts in ((nginx, nginx.split("server {")[1:]), (caddy, caddy.split(".example.org {")[1:])):
        assert 2 == len(hosts)
        assert f"127.0.0.1:{port}" in proxy
        assert f"127.0.0.1:{port + 1}" in proxy
    for host in nginx.split("server {")[1:]:
        assert f"client_max_body_size {bound}m;" in host
        assert header_buffers in host
        assert 1 == host.count("location ")
        passed = set(re.findall(r"proxy_set_header (\S+)", host))
        assert {"Connection", "Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Request-ID"} == passed
    for host in caddy.split(".example.org {")[1:]:
        assert (1, 1) == (host.count(f"max_size {bound}MB"), host.count("health_uri /readyz"))
    assert {"/": "http://akin", "/akin/v1/": "http://akin/v1/"} == dict(
        re.findall(r"location (\S+) \{\s+proxy_pass (\S+);", nginx)
    )
    assert "proxy_redirect /v1/ /akin/v1/;" in nginx
    assert "handle /akin/v1/* {\n        uri strip_prefix /akin\n" in caddy
    assert "header_down Location ^/v1/ /akin/v1/" in caddy


def test_the_unit_ends_as_the_containers_do() -> None:
    """The systemd unit has the grace period and thread limit of the containers, and the default port."""
    (unit,) = blocks("ini")
    service = services("cpu")["service"]
    assert f"TimeoutStopSec={service['stop_grace_period'].removesuffix('s')}\n" in unit
    assert f"TasksMax={service['pids_limit']}\n" in unit
    assert f"--port {Settings.model_fields['port'].default}\n" in unit


def test_commands_beside_the_unit_run_as_it_does() -> None:
    """Commands next to the unit run with its user, folders and settings, which name its cache folders."""
    (unit,) = blocks("ini")
    (run,) = (words for words in commands() if "systemd-run" in words)
    properties = {word.removeprefix("--property=") for word in run if word.startswith("--property=")}
    assert {"User", "StateDirectory", "CacheDirectory", "EnvironmentFile"} == {
        each.split("=")[0] for each in properties
    }
    assert properties <= set(unit.splitlines())
    (settings,) = (text for text in blocks("sh") if "AKIN_CATALOG_URL=" in text)
    given = dict(line.split("=", 1) for line in settings.splitlines())
    image = IMAGE.environment
    assert {name: image[name] for name in ("NUMBA_CACHE_DIR", "HF_HOME")}.items() <= given.items()
    assert ["as_akin", "/opt/akin/bin/python3", "-m", "akin.compiling"] in commands()


def test_a_backup_is_restored_whole() -> None:
    """The backup's files and dump are restored, after the present ones except the secret are deleted."""
    (kept,) = (words for words in of_akin() if words[0] == "backup")
    (restored,) = (words for words in commands() if "--entrypoint" in words)
    assert f"cp --recursive {kept[1]}/. {DATA}" in restored[-1]
    assert f"find {DATA} -mindepth 1 ! -name SECRET -delete" in restored[-1]
    programs = [
        words[5] for words in commands() if words[:5] == ["docker", "compose", "exec", "-T", "postgres"]
    ]
    assert ["pg_dump", "dropdb", "createdb", "pg_restore"] == programs
    dumps = {words[-1] for words in commands() if ".dump" in words[-1]}
    assert 1 == len(dumps)
