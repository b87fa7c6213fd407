"""Connection to a Ray cluster, which encodes corpora and serves collections on several machines.

Anyone who can reach a cluster may run code on it, so Ray's token authentication is switched on. Every machine
needs the same token: in RAY_AUTH_TOKEN, in the file that RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token.
"""

import os
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, Final

from models.errors import InputError
from models.extras import needed

LOCAL: Final = "local"
# Bytes of the object store of a local cluster, whose results are small.
_LOCAL_OBJECTS: Final = 256 * 2**20
_CONNECT_TIMEOUT_S: Final = 3.0
_PROBE_S: Final = 30.0
_TOKEN_FILE: Final = Path(".ray") / "auth_token"
# CPUs of actors that need no processor of their own, but must run on a machine with CPUs.
ACTOR_CPUS: Final = 0.01


def connect(address: str) -> Any:
    """Return the module ``ray``, connected to the cluster at ``address``; ``local`` starts a local cluster.

    Other addresses are HOST:PORT, or ``auto`` for the cluster that this machine belongs to; this process must
    run on a machine of the cluster. Raises MissingPackageError; InputError if it cannot be reached, or runs
    nothing for this process.
    """
    # Ray only reads these from the environment, when it is loaded. No usage statistics are sent.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # threads left after its end must not restart it
    if address == LOCAL:
        _make_token()
    with needed("A cluster (--ray, AKIN_RAY)", extra="ray"):
        ray = import_module("ray")
    if ray.is_initialized():
        return ray
    expect_reachable(address)
    # Actors only see the GPUs that they request.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    with _same_signals():
        try:
            if address == LOCAL:
                ray.init(
                    address=LOCAL,
                    include_dashboard=False,
                    log_to_driver=False,
                    object_store_memory=_LOCAL_OBJECTS,
                )
            else:
                ray.init(address=address, log_to_driver=False)
        except Exception as error:  # Ray raises plain Exception, for example if a node is slow to start
            raise _not_joined(address, error) from error
    if address != LOCAL:
        _expect_running(ray, address)
    return ray


def expect_reachable(address: str) -> None:
    """Raise InputError if nobody listens at an address HOST:PORT, which Ray would try for a long time."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():  # a name that Ray resolves, such as ``auto``
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise _not_joined(address, error) from error


def _not_joined(address: str, error: Exception) -> InputError:
    reason = (str(error) or type(error).__name__).strip().splitlines()[0][:200]
    return InputError(
        f"Cannot join the Ray cluster at {address!r} ({reason}); give --ray local, or the address of a "
        "cluster that this machine belongs to (`ray start --address=HOST:6379`), with the same "
        "RAY_AUTH_TOKEN on all of them; see Ray's log."
    )


class _Probe:
    """An actor that only answers."""

    def answer(self) -> None:
        """Answer."""


def _expect_running(ray: Any, address: str) -> None:
    """Raise InputError if the cluster runs no actor for this process, as one that knows no tokens does."""
    actor = ray.remote(num_cpus=0)(_Probe).remote()
    try:
        ray.get(actor.answer.remote(), timeout=_PROBE_S)
    except ray.exceptions.GetTimeoutError:
        return  # it is slow, or has no machine yet
    except ray.exceptions.ActorDiedError as error:
        ray.shutdown()
        raise InputError(
            f"The Ray cluster at {address!r} runs nothing for Akin ({_last_line(error)}); start Ray on every "
            "machine with RAY_AUTH_MODE=token and the same RAY_AUTH_TOKEN, where the same version of Akin is "
            "installed; see Ray's log."
        ) from error


def start_failure(ray: Any, error: Exception) -> str | None:
    """Return in one line why an actor could not start; ``None`` if ``error`` has another cause."""
    if isinstance(error, ray.exceptions.ActorDiedError) and error.actor_init_failed:
        return _last_line(error)
    return None


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].strip()


def machines(ray: Any) -> list[str]:
    """Return the ids of the machines of a cluster that have CPUs; raises InputError if there are none."""
    alive = [each for each in ray.nodes() if each["Alive"]]
    found = [each["NodeID"] for each in alive if each["Resources"].get("CPU", 0) > 0]
    if not found:
        raise InputError("No machine of the cluster has a CPU to compute with; add a machine.")
    return found


def placement_strategy(ray: Any, machine: str) -> Any:
    """Return the strategy that places an actor on a machine, or on another one if that machine is lost."""
    strategies = import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(machine, soft=True)


def _make_token() -> None:
    """Set a random token for a local cluster, if no token is set."""
    kept = Path.home() / _TOKEN_FILE
    if not (os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH") or kept.is_file()):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextmanager
def _same_signals() -> Iterator[None]:
    """Restore the caller's handler of SIGTERM, which Ray replaces when it connects."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
