"""Names of devices: auto, cpu, cuda or cuda:N; does not import torch."""

import re
from typing import Final

from models.errors import InputError

DEVICES: Final = "auto, cpu, cuda or cuda:N"
# "cpu:0" is what torch calls the processor, too.
DEVICE_NAME: Final = re.compile(r"auto|cpu(?::0)?|cuda(?::(?P<number>\d{1,2}))?")


def checked_device(name: str) -> str:
    """``name``, and ``cpu`` for ``cpu:0``; raises InputError where it is none of a device."""
    if DEVICE_NAME.fullmatch(name) is None:
        raise InputError(f"Unknown device {name!r}; expected {DEVICES}")
    return "cpu" if name.startswith("cpu") else name


def gpu_number(name: str) -> int | None:
    """N of cuda:N; ``None`` where ``name`` leaves it open. Raises InputError."""
    found = DEVICE_NAME.fullmatch(checked_device(name))
    number = found and found["number"]
    return int(number) if number else None
