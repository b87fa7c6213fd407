"""Intervals and timeouts of the service that are not settings."""

from dataclasses import dataclass
from typing import Final

LEASE_S: Final = 6.0  # of a worker on a part of a batch


@dataclass(frozen=True, slots=True)
class Timings:
    """The timings of one service, in seconds."""

    follow_every_s: float = 0.5  # between two looks at the pointer of the data folder
    absorb_every_s: float = 1.0  # the same at the catalog; what this service itself is given does not wait
    keys_refresh_s: float = 1.0  # between two readings: a revoked key is refused at most so much later
    merge_every_s: float = 10.0  # between two looks whether segments are to be merged
    # After which time a generation that could not be served is tried again: that reads all of its files.
    swap_retry_s: float = 30.0
    scrub_pause_s: float = 86_400.0  # between two passes
    scrub_damaged_pause_s: float = 600.0  # the same while something is damaged, so that a repair is soon seen
    export_timeout_s: float = 2.0  # for one batch of spans, tries included; the end waits no longer
    # How long one query of a batch gives way to requests, which never wait for it: some progress is made.
    patience_s: float = 1.0
    lease_s: float = LEASE_S  # a worker that does not renew its lease for so long is taken to be gone
    # Where batches are left to workers: after so long without one the service does them itself.
    without_worker_s: float = 10.0


USUAL = Timings()
