"""Intervals and timeouts of the service that are not settings."""

from dataclasses import dataclass
from typing import Final

LEASE_S: Final = 6.0  # a worker's lease on a chunk of a batch


@dataclass(frozen=True, slots=True)
class Timings:
    """The timings of one service, in seconds."""

    follow_every_s: float = 0.5  # between two checks of the pointer in the data folder
    publish_every_s: float = 1.0  # between two checks of the catalog; papers sent to this service do not wait
    keys_refresh_s: float = 1.0  # between two readings: a revoked key is refused after at most this time
    merge_every_s: float = 10.0  # between two checks whether segments should be merged
    # Before a merge that failed is tried again: it reads all files of its segments, and may write as many.
    merge_retry_s: float = 600.0
    # Before a generation that could not be served is tried again, which reads all of its files.
    swap_retry_s: float = 30.0
    scrub_pause_s: float = 86_400.0  # between two passes
    scrub_damaged_pause_s: float = 600.0  # between passes while something is damaged, to notice a repair soon
    export_timeout_s: float = 2.0  # for one batch of spans with retries; shutdown waits no longer
    # How long one query of a batch gives way to requests; then it runs anyway, so that batches progress.
    patience_s: float = 1.0
    lease_s: float = LEASE_S  # a worker that does not renew its lease for this long is considered gone
    # If batches are left to workers: after this long without one, the service computes them itself.
    without_worker_s: float = 10.0


DEFAULTS = Timings()
