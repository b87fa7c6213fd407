"""Names of devices: auto, cpu, cuda or cuda:N; does not import torch."""

import re
from typing import Final

from models.errors import InputError

DEVICES: Final = "auto, cpu, cuda or cuda:N"
# "cpu:0" is another name for the CPU in torch.
DEVICE_NAME: Final = re.compile(r"auto|cpu(?::0)?|cuda(?::(?P<number>\d{1,2}))?")


def checked_device(name: str) -> str:
    """Return ``name``, or ``cpu`` for ``cpu:0``; raises InputError if it is not the name of a device."""
    if DEVICE_NAME.fullmatch(name) is None:
        raise InputError(f"Unknown device {name!r}; expected {DEVICES}")
    return "cpu" if name.startswith("cpu") else name


def gpu_number(name: str) -> int | None:
    """Return N of cuda:N, or ``None`` for other devices; raises InputError for an unknown name."""
    found = DEVICE_NAME.fullmatch(checked_device(name))
    number = found and found["number"]
    return int(number) if number else None
