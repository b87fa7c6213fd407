"""Tests of encoding on a cluster that loses machines with GPUs."""

from pathlib import Path

import pytest

from indexer.cluster import connect
from indexer.collection.growth import Bounds
from indexer.encoding.on_cluster import EncodeOnCluster
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import EncoderError
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.servers.patience import soon
from tests.support.servers.ray import RayCluster, RayNode

pytestmark = pytest.mark.system


def test_a_gpu_that_is_lost_leaves_its_parts_to_the_others(
    ray_cluster: RayCluster, tmp_path: Path, hashing: Encoder
) -> None:
    """If a machine dies, the others encode its parts; without any GPU left, the build ends with an error."""
    ray = connect(ray_cluster.address)

    def n_gpus() -> float:
        return float(sum(each["Resources"].get("GPU", 0) for each in ray.nodes() if each["Alive"]))

    nodes: list[RayNode] = []
    for number in range(2):  # one after another, because they share a folder here
        nodes.append(ray_cluster.add_node("--num-gpus=1"))
        soon(lambda: n_gpus() > number, timeout_s=60)  # noqa: B023 - it is called at once
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(40))
    with EncodeOnCluster(ray_cluster.address, hashing_annotator, lost_s=2.0) as encode:
        assert 2 == len(ray.get([each.pid.remote() for each in encode.actors]))
        nodes[0].kill()
        soon(lambda: n_gpus() == 1, timeout_s=60)
        build_quietly(corpus, tmp_path / "there", hashing, bounds=Bounds(part=4), encode=encode)
        assert 1 == len(encode.actors)
        assert 40 == len(open_snapshot(tmp_path / "there"))
        nodes[1].kill()
        soon(lambda: n_gpus() == 0, timeout_s=60)
        with pytest.raises(EncoderError, match="No process of the cluster encodes"):
            build_quietly(corpus, tmp_path / "nowhere", hashing, encode=encode)


def test_gpus_that_others_hold_do_not_hold_up_a_build(
    ray_cluster: RayCluster, tmp_path: Path, hashing: Encoder
) -> None:
    """Actors that do not start leave their parts to the others; if none starts, the error says what to do."""
    ray = connect(ray_cluster.address)
    nodes: list[RayNode] = []
    for number in range(2):  # one after another, because they share a folder here
        nodes.append(ray_cluster.add_node("--num-gpus=1"))
        soon(lambda: ray.available_resources().get("GPU", 0) == number + 1)  # noqa: B023 - it is called at once
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(12))
    holders = [ray.remote(num_cpus=0, num_gpus=1)(Holder).remote() for _ in range(2)]
    ray.get([each.answer.remote() for each in holders])
    with (
        EncodeOnCluster(ray_cluster.address, hashing_annotator, start_s=2.0) as encode,
        pytest.raises(EncoderError, match=r"others hold all GPUs.* choose another --device"),
    ):
        build_quietly(corpus, tmp_path / "nowhere", hashing, encode=encode)
    ray.kill(holders[0])
    soon(lambda: ray.available_resources().get("GPU") == 1)
    with EncodeOnCluster(ray_cluster.address, hashing_annotator, start_s=30.0) as encode:
        build_quietly(corpus, tmp_path / "there", hashing, bounds=Bounds(part=4), encode=encode)
        assert (1, 12) == (len(encode.actors), len(open_snapshot(tmp_path / "there")))
    for node in nodes:
        node.kill()


class Holder:
    """An actor that holds a GPU."""

    def answer(self) -> None:
        """Answer once it runs."""
