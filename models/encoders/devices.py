"""Devices of encoders: choice, batch sizes, and out-of-memory detection."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from models.encoders.device_names import DEVICE_NAME, DEVICES
from models.errors import DeviceFullError, EncoderError
from models.types import Precision

# Tokens of one batch, padding included: a batch for a CPU stays in its caches, one for a GPU fills it.
CPU_BATCH_TOKENS = 2_048
CUDA_BATCH_TOKENS = 65_536
CPU = torch.device("cpu")
# What ``auto`` no longer chooses in this process: "cuda" once a model did not fit, so that all use the CPU.
GIVEN_UP: Final[set[str]] = set()
# In messages of a CPU, of cuBLAS when it starts, and of other CUDA calls.
_FULL = ("DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory")
_BFLOAT16_PRODUCTS = ("avx512_bf16", "amx_bf16")  # of x86; elsewhere AUTO stays with float32


def out_of_memory(error: Exception) -> bool:
    """Return whether torch ran out of memory, which often shows only in the text of a RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in _FULL)


@contextmanager
def expect_memory(remedy: str) -> Iterator[None]:
    """Raise DeviceFullError with the ``remedy`` if torch runs out of memory."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0][:200]
        raise DeviceFullError(f"The memory of the device does not suffice ({reason}); {remedy}.") from error


def default_batch_tokens(device: torch.device) -> int:
    """Return the default token budget of a batch for ``device``."""
    return CUDA_BATCH_TOKENS if device.type == "cuda" else CPU_BATCH_TOKENS


def resolve_device(device: str) -> torch.device:
    """Return the named device; ``auto`` is CUDA if available and not given up, else the CPU.

    Raises EncoderError.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() and "cuda" not in GIVEN_UP else "cpu")
    if DEVICE_NAME.fullmatch(device) is None:
        raise EncoderError(f"Unknown device {device!r}; expected {DEVICES}.")
    resolved = torch.device(device)
    if resolved.type == "cuda":
        n_gpus = torch.cuda.device_count()
        if not n_gpus or not torch.cuda.is_available():
            raise EncoderError(
                f"Device {device!r} was requested, but this machine has no usable CUDA; use cpu."
            )
        if (resolved.index or 0) >= n_gpus:
            raise EncoderError(
                f"Device {device!r} was requested, but this machine has {n_gpus}, from cuda:0 on; name "
                "one of them, or use cpu."
            )
    return resolved


def device_beside_cluster(device: str) -> str:
    """Return the device of a machine beside a cluster: ``cpu`` if it has no GPU itself, else ``device``."""
    return "cpu" if device.startswith("cuda") and not torch.cuda.is_available() else device


def encoding_devices(device: str) -> list[str]:
    """Return the devices to encode many papers on: for ``auto`` all GPUs if several, else only ``device``."""
    n_gpus = torch.cuda.device_count() if device == "auto" and torch.cuda.is_available() else 0
    return [f"cuda:{number}" for number in range(n_gpus)] if n_gpus > 1 else [device]


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """Return BFLOAT16 for AUTO if ``device`` multiplies it natively, else FLOAT32; others stay unchanged.

    The choice relies on what the device reports, not on a measurement: restarts and equal machines must
    agree. Raises EncoderError for INT8 on a GPU.
    """
    if precision is Precision.INT8 and device.type != "cpu":
        raise EncoderError(f"int8 is for CPUs, but the device is {device}; use auto, or --device cpu.")
    if precision is not Precision.AUTO:
        return precision
    if device.type == "cuda":
        with torch.cuda.device(device):  # the next call reports on the current device
            native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        instructions = torch.cpu.get_capabilities()
        native = any(instructions.get(name) for name in _BFLOAT16_PRODUCTS)
    return Precision.BFLOAT16 if native else Precision.FLOAT32


def free_bytes(number: int) -> int | None:
    """Return the free bytes of memory of GPU ``number``, or ``None`` if torch does not find that GPU."""
    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        return None
    return torch.cuda.mem_get_info(number)[0]
