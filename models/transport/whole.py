"""Comparison of a query with every paper of a collection, without an index: fast on a GPU, slow on a CPU.

The collection's vectors stay on the device between queries; ``models.transport.tensor`` solves as many pairs
at once as fit into the device's memory.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64
from torch import Tensor

from models.encoders.devices import free_bytes, out_of_memory, resolve_device
from models.errors import DeviceFullError, InputError
from models.transport.kernels import score_papers
from models.transport.plan import SERVING, Scorer, TransportSettings
from models.transport.tensor import plans_of
from models.types import PackedVectors, rows_of

# Rows that are copied to the device at once.
_ROWS_AT_ONCE = 65_536
# 8-byte numbers per cell of a plan that solving takes: 8 in addition to the distances, and some to spare.
_NUMBERS_A_CELL = 16
_NUMBER_BYTES = 8
# Memory for the pairs solved at once: on a CPU what fits its caches, on a GPU a large share of free memory.
_CPU_BYTES = 16 * 2**20
_GPU_SHARE, _UNKNOWN_GPU_BYTES = 0.5, 2**30


@dataclass(frozen=True, slots=True)
class CollectionScores:
    """The score ``-sum(mass * cost)`` of every paper, in the collection's order, and whether it converged."""

    scores: Float64[np.ndarray, " n_papers"]
    converged: Bool[np.ndarray, " n_papers"]


class WholeCollection:
    """The vectors of all papers on one device, ready to be compared with a query.

    ``device`` is ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. The vectors keep the type that they have in
    ``vectors``, float16 or float32. Raises InputError for a paper without sentences, EncoderError for a
    missing device, DeviceFullError if the vectors do not fit.
    """

    def __init__(self, vectors: PackedVectors, *, device: str = "auto") -> None:
        self.device = resolve_device(device)
        lengths = np.diff(vectors.offsets)
        if not len(lengths) or lengths.min() < 1:
            raise InputError("A paper without sentences cannot be compared; leave such papers out.")
        # Papers are sorted by length, so that batches have little padding.
        self._order = np.argsort(lengths, kind="stable")
        self._lengths = lengths[self._order]
        numbers, self._offsets = rows_of(vectors.offsets, self._order)
        kind = torch.float16 if vectors.rows.dtype == np.float16 else torch.float32
        try:
            self._rows = torch.empty((len(numbers), vectors.rows.shape[1]), dtype=kind, device=self.device)
        except RuntimeError as error:
            raise self._full(f"{len(numbers)} sentence vectors", error) from error
        for start in range(0, len(numbers), _ROWS_AT_ONCE):
            piece = slice(start, start + _ROWS_AT_ONCE)
            self._rows[piece] = torch.from_numpy(np.asarray(vectors.rows[numbers[piece]]))

    def __len__(self) -> int:
        return len(self._lengths)

    @torch.no_grad()
    def scores(
        self,
        query: Float32[np.ndarray, "n_query dim"],
        *,
        scorer: Scorer = Scorer.OT,
        settings: TransportSettings = SERVING,
        batch_bytes: int | None = None,
    ) -> CollectionScores:
        """Compare the query with every paper; scores equal those of ``score_papers`` to 1e-5.

        As many pairs are solved at once as fit into ``batch_bytes`` (``None``: a default for the device), and
        half as many if the device runs out of memory. EXACT_OT is solved on the CPU on any device.

        Raises InputError for vectors that are not finite or of another dimension, DeviceFullError if not even
        one pair fits.
        """
        if not len(query) or query.shape[1] != self._rows.shape[1] or not np.isfinite(query).all():
            raise InputError(
                f"The query has shape {query.shape}; expected at least one finite vector of "
                f"{self._rows.shape[1]} numbers. Encode both with the same encoder."
            )
        query_rows = torch.from_numpy(query).to(self.device).double()
        found = CollectionScores(np.empty(len(self)), np.empty(len(self), np.bool_))
        budget, start = batch_bytes or self._batch_bytes(), 0
        while start < len(self):
            end = self._end(start, len(query), budget)
            try:
                scores, converged = self._solved(query_rows, start, end, scorer, settings)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                if end - start == 1:
                    raise self._full("One pair of papers", error) from error
                scores = None
            # Outside the except block, because the error's traceback keeps the tensors of the failed batch.
            if scores is None:
                budget //= 2
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()
                continue
            own = self._order[start:end]
            found.scores[own], found.converged[own] = scores.cpu().numpy(), converged.cpu().numpy()
            start = end
        return found

    def _solved(
        self,
        query: Float64[Tensor, "n_query dim"],
        start: int,
        end: int,
        scorer: Scorer,
        settings: TransportSettings,
    ) -> tuple[Float64[Tensor, " b"], Bool[Tensor, " b"]]:
        """Return the scores of papers ``start`` to ``end``, sorted by length, and whether each converged."""
        rows = self._rows[self._offsets[start] : self._offsets[end]].double()
        if scorer is Scorer.EXACT_OT:
            own = self._offsets[start : end + 1] - self._offsets[start]
            solved = score_papers(
                query.float().cpu().numpy(), rows.float().cpu().numpy(), own, scorer=scorer, settings=settings
            )
            return torch.from_numpy(solved.scores), torch.from_numpy(solved.converged)
        # By differences: with norms and dot products, close vectors would lose digits.
        distances = torch.cdist(rows, query, compute_mode="donot_use_mm_for_euclid_dist")  # (n_rows, n_query)
        if not distances.isfinite().all():
            raise InputError(
                "A distance between two sentences is not finite. Check the encoder that made them."
            )
        lengths = torch.from_numpy(self._lengths[start:end]).to(self.device)
        mask = torch.arange(int(self._lengths[end - 1]), device=self.device)[None] < lengths[:, None]
        cost = distances.new_zeros((*mask.shape, len(query)))
        cost[mask] = distances
        real = mask[:, None, :].expand(-1, len(query), -1)
        plans = plans_of(cost.mT.contiguous(), real, scorer=scorer, settings=settings)
        return plans.score, plans.converged

    def _end(self, start: int, n_query: int, budget: int) -> int:
        """Return the end of the batch from ``start`` that takes ``budget`` bytes: at least one pair."""
        ends = range(start + 1, len(self) + 1)
        fitting = bisect_right(
            ends,
            budget,
            key=lambda end: (end - start) * self._pair_bytes(n_query, int(self._lengths[end - 1])),
        )
        return ends[max(fitting, 1) - 1]

    def _pair_bytes(self, n_query: int, n_sentence: int) -> int:
        return _NUMBER_BYTES * n_sentence * (_NUMBERS_A_CELL * n_query + self._rows.shape[1])

    def _batch_bytes(self) -> int:
        if self.device.type != "cuda":
            return _CPU_BYTES
        free = free_bytes(self.device.index or 0)
        return _UNKNOWN_GPU_BYTES if free is None else int(_GPU_SHARE * free)

    def _full(self, what: str, error: RuntimeError) -> Exception:
        """Return the exception to raise for ``error``: DeviceFullError if the device is out of memory."""
        if not out_of_memory(error):
            return error
        return DeviceFullError(
            f"{what} do not fit into the memory of device {self.device}; free some, or use cpu."
        )
