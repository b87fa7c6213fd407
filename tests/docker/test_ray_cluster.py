"""Tests of the service on a cluster: docker/ray.yml with the compose file, and KubeRay's manifest."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner
from lightkube.core.dictmixin import DictMixin
from lightkube.models import apps_v1, batch_v1, core_v1, meta_v1

from service.settings import Settings
from tests.support.builds import ROOT
from tests.support.commands import parsed
from tests.support.containers.compose import COMPOSE_FILE, services
from tests.support.containers.deploy_page import blocks, commands, pods

RAY_FILE = ROOT / "docker" / "ray.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(RAY_FILE.read_text(encoding="utf-8"))
MANIFESTS = [each for text in blocks("yaml") for each in yaml.safe_load_all(text) if "kind" in each]
(CLUSTER,) = (each for each in MANIFESTS if each["kind"] == "RayCluster")


class HeadGroup(DictMixin, rename="camel"):
    """The fields of KubeRay's HeadGroupSpec that the manifest has."""

    ray_start_params: dict[str, str]  # required by older releases only
    template: core_v1.PodTemplateSpec


class WorkerGroup(HeadGroup, rename="camel"):
    """Those of its WorkerGroupSpec."""

    group_name: str
    replicas: int
    min_replicas: int
    max_replicas: int


class ClusterSpec(DictMixin, rename="camel"):
    """Those of its RayClusterSpec."""

    ray_version: str
    head_group_spec: HeadGroup
    worker_group_specs: list[WorkerGroup]


class RayCluster(DictMixin, rename="camel"):
    """KubeRay's RayCluster: fields and types by the API reference of 1.7.0, read on 2026-11-28."""

    api_version: Literal["ray.io/v1"]
    kind: str
    metadata: meta_v1.ObjectMeta
    spec: ClusterSpec


# The schema of each manifest of the page, of Kubernetes except for the last.
SCHEMAS: dict[tuple[str, str], type[DictMixin]] = {
    ("v1", "Service"): core_v1.Service,
    ("batch/v1", "Job"): batch_v1.Job,
    ("apps/v1", "Deployment"): apps_v1.Deployment,
    ("ray.io/v1", "RayCluster"): RayCluster,
}


def groups() -> list[dict[str, Any]]:
    """Return the groups of the manifest, the head first."""
    return [CLUSTER["spec"]["headGroupSpec"], *CLUSTER["spec"]["workerGroupSpecs"]]


def container_of(group: dict[str, Any]) -> dict[str, Any]:
    """Return the only container of a group."""
    (container,) = group["template"]["spec"]["containers"]
    return dict(container)


def programs() -> list[list[str]]:
    """Return every `ray start` and `akin serve` command of the compose file, the manifest and the page."""
    written = [" ".join(shlex.quote(word) for word in ["ray", *each["command"]]) for each in nodes().values()]
    written.append(COMPOSE["services"]["service"]["entrypoint"][2])
    for each in groups():
        words = container_of(each)["command"]
        written.append(words[2] if words[:2] == ["sh", "-c"] else shlex.join(words))
    written += [shlex.join(words) for words in commands() if words[:2] == ["ray", "start"]]
    parts = [
        part.removeprefix("exec ") for line in written for part in re.split(r" && | then | \|\| |; ", line)
    ]
    return [shlex.split(part) for part in parts if part.startswith(("ray ", "akin "))]


def nodes() -> dict[str, dict[str, Any]]:
    """Return the services that are only nodes of the cluster."""
    return {name: each for name, each in COMPOSE["services"].items() if name not in {"service", "worker"}}


def test_the_compose_file_is_one() -> None:
    """The compose file satisfies the specification, and the services that it extends or overrides exist."""
    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", "vendor.compose-spec", str(RAY_FILE)])
    assert 0 == done.exit_code, done.output
    for each in nodes().values():
        assert COMPOSE_FILE == (ROOT / each["extends"]["file"]).resolve()
        assert each["extends"]["service"] in services("cpu")
    assert {"service", "worker"} <= set(services("cpu"))
    assert {"ray-head", "ray-node"} == set(nodes())


def test_batches_run_where_the_shards_are() -> None:
    """The service processes batches: a worker outside the cluster would open every index itself."""
    own = {name: each.get("environment", {}) for name, each in COMPOSE["services"].items()}
    assert own["service"]["AKIN_RAY"].startswith("ray-head:")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AKIN_WORKERS", own["service"]["AKIN_WORKERS"])
        assert not Settings().workers
    assert 0 == COMPOSE["services"]["worker"]["scale"]


@pytest.mark.parametrize(
    ("command", "joins", "expected"),
    [("serve", True, ["ray", "akin"]), ("serve", False, ["ray"]), ("migrate", False, ["akin"])],
)
def test_only_serving_joins_the_cluster(
    command: str, joins: bool, expected: list[str], tmp_path: Path
) -> None:
    """The service joins the cluster before it serves; an upgrade or a backup does not need the cluster."""
    for name, status in (("ray", 0 if joins else 7), ("akin", 0)):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\nexit {status}\n', encoding="utf-8")
        program.chmod(0o755)
    words = [each.replace("$$", "$") for each in COMPOSE["services"]["service"]["entrypoint"]]
    done = subprocess.run(
        [*words, command, "--data", "/a b"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert expected == [line.split()[0] for line in done.stdout.splitlines()]
    assert (0 if "akin" in expected else 7) == done.returncode
    assert "akin" not in expected or f"akin {command} --data /a b\n" in done.stdout


def test_what_has_the_cache_volume_is_stopped_before_it_is_removed() -> None:
    """The upgrade stops every service that mounts the cache, as a volume in use cannot be removed."""
    stopped = {
        word for words in commands() if words[:3] == ["docker", "compose", "stop"] for word in words[3:]
    }
    assert {"service", "worker", *nodes()} == stopped


def test_every_process_has_the_token() -> None:
    """Every process has the token and its mode, and without a token nothing starts."""
    for each in [COMPOSE["services"]["service"], *nodes().values()]:
        environment = each["environment"]
        assert "token" == environment["RAY_AUTH_MODE"]
        assert environment["RAY_AUTH_TOKEN"].startswith("${RAY_AUTH_TOKEN:?")
    for group in groups():
        container = container_of(group)
        assert {"name": "RAY_AUTH_MODE", "value": "token"} in container["env"]
        assert [{"secretRef": {"name": "akin"}}] == container["envFrom"]


@pytest.mark.usefixtures("ray_environment")
@pytest.mark.parametrize("words", {" ".join(each): each for each in programs()}.values(), ids=" ".join)
def test_commands_are_taken(words: list[str]) -> None:
    """Options and values are accepted by the command lines of Ray and Akin."""
    if words[0] == "akin":
        rest = ["serve", "--data", "/var/lib/akin"] if words[1:] == ["$$@"] else words[1:]
        assert "/var/lib/akin" == str(parsed(rest).params["data"])
        return
    scripts = pytest.importorskip("ray.scripts.scripts", reason="no Ray: pip install akin[ray]")
    assert "start" == words[1]
    given = scripts.start.make_context("start", words[2:]).params
    assert given["head"] != bool(given["address"])


def test_the_manifests_have_the_fields_that_there_are() -> None:
    """Names and types of all fields are Kubernetes' and KubeRay's: the models drop names that they lack."""
    assert set(SCHEMAS) == {(each["apiVersion"], each["kind"]) for each in MANIFESTS}
    for each in MANIFESTS:
        assert each == SCHEMAS[each["apiVersion"], each["kind"]].from_dict(each).to_dict()


def test_the_pods_are_like_those_of_the_deployment() -> None:
    """The pods of the cluster have the image, the probes and the rights of the Deployment's."""
    pod = pods()["Deployment"]
    (served,) = pod["containers"]
    for each in groups():
        own, container = each["template"]["spec"], container_of(each)
        assert (pod["enableServiceLinks"], pod["securityContext"]) == (
            own["enableServiceLinks"],
            own["securityContext"],
        )
        assert served["image"] == container["image"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            each["name"] for each in own["volumes"]
        }
    container = container_of(groups()[-1])
    for name in ("ports", "readinessProbe", "livenessProbe", "startupProbe"):
        assert served[name] == container[name]
    ending = "terminationGracePeriodSeconds"
    assert pod[ending] == groups()[-1]["template"]["spec"][ending]


def test_the_locked_ray_is_the_manifests() -> None:
    """The Ray version of the image's lock is that of the manifest."""
    locked = (ROOT / "docker" / "cpu.lock").read_text(encoding="utf-8")
    assert f"\nray=={CLUSTER['spec']['rayVersion']} " in locked


def test_the_service_waits_for_all_nodes() -> None:
    """There are as many nodes as shards, so that a service that starts with them waits for all."""
    n_shards = COMPOSE["services"]["service"]["environment"]["AKIN_SHARDS"]
    assert n_shards.startswith("${AKIN_SHARDS:?")
    assert n_shards == COMPOSE["services"]["ray-node"]["scale"]
    _, shards, service = groups()
    given = {each["name"]: each["value"] for each in container_of(service)["env"]}
    assert str(shards["replicas"]) == given["AKIN_SHARDS"]
