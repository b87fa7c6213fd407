"""What a cluster reports as degraded."""

from typing import Final

from service.degradation import Degradation

SHARD_AWAY: Final = Degradation(
    "shards",
    "A machine that holds a part of the collection does not respond: searches report the share that they "
    "cover.",
    "it is restarted automatically if the cluster has room; see the log of Ray",
)
PROCESS_AWAY: Final = Degradation(
    "shards",
    "A process that holds a part of the collection does not respond; another one answers, so that searches "
    "cover everything.",
    SHARD_AWAY.remedy,
)
COLOCATED: Final = Degradation(
    "replicas",
    "Two processes of a shard are on one machine: if it fails, a part of the collection cannot be searched.",
    "add a machine to the cluster; one of them moves there",
)
