"""The state of a training run as one safetensors file, written atomically."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from models.errors import InputError
from models.training.loop import History, State

_FORMAT = "akin-training-1"


def state_content(state: State, *, config: str) -> bytes:
    """Return the file content of ``state``; ``config`` is the digest of the run's configuration and data."""
    metadata = {
        "format": _FORMAT,
        "config": config,
        "step": str(state.step),
        "measured_by": state.measured_by,
        "history": json.dumps({"losses": state.history.losses, "measured": state.history.measured}),
    }
    content: bytes = save(state.tensors, metadata=metadata)
    return content


def read_state(path: Path, *, config: str) -> State:
    """Return the state in ``path``; InputError if it holds no state, or that of another configuration."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors: dict[str, torch.Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except FileNotFoundError as error:
        raise InputError(
            f"{path.parent} holds no checkpoint yet: there is no {path.name}. Start the run with akin train, "
            "or wait for its first checkpoint."
        ) from error
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{path} is not a checkpoint of a run ({error}); delete it to start again."
        ) from error
    if metadata.get("format") != _FORMAT:
        raise InputError(f"{path} is not a checkpoint of a run of this version; delete it to start again.")
    if metadata["config"] != config:
        raise InputError(
            f"{path} belongs to a run with another configuration or other data; give a new --out, or delete "
            f"the folder {path.parent} to start again."
        )
    history = json.loads(metadata["history"])
    measured = [(int(step), dict(figures)) for step, figures in history["measured"]]
    return State(
        int(metadata["step"]), tensors, History(history["losses"], measured), metadata.get("measured_by", "")
    )
