"""The vectors of the papers in an evaluation: encoded once, or read from a cache or a snapshot."""

import hashlib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from huggingface_hub import try_to_load_from_cache
from jaxtyping import Float32

from evaluation.collection import Collection
from indexer.files.durable import replace_file, storage_errors
from indexer.snapshot.snapshot import Snapshot
from models.checkpoints.checkpoints import CHECKPOINTS, WEIGHTS
from models.encoder import PAPERS_PER_CALL, Encoder
from models.errors import StorageError
from models.types import EncodedPaper, PackedVectors, Paper, ProgressFn, Unit

# Papers of one cache file, which is the most that an interrupted run loses.
_PAPERS_PER_FILE = 2_048


@dataclass(frozen=True, slots=True)
class CollectionVectors:
    """The vectors of a collection by one encoder, papers in the order of ``Collection.papers``.

    A paper in no query's pool has no rows and a document vector of zeros. ``queries`` maps a query's id to
    the vectors of its paper.
    """

    papers: PackedVectors
    documents: Float32[np.ndarray, "n_papers dim"]
    queries: dict[str, EncodedPaper]


class VectorSource:
    """The vectors of papers by ``encoder``; ``cache`` is a folder that keeps them between runs.

    ``name`` is what the names of systems call the encoder, such as a folder as it was given; its own if None.
    ``snapshot``, built with the same encoder, provides the sentence vectors of its papers as it stores them
    (float16 if vectors are normalised). Raises EncoderMismatchError if it was built with another encoder.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        name: str | None = None,
        cache: Path | None = None,
        snapshot: Snapshot | None = None,
        on_progress: ProgressFn,
    ) -> None:
        if snapshot is not None:
            snapshot.manifest.expect_encoder(encoder.spec)
        self.encoder = encoder
        self.name = name or encoder.spec.name
        self.snapshot = snapshot
        self._cache = None if cache is None else VectorCache(cache / encoder.spec.fingerprint[:16])
        self._on_progress = on_progress
        # Papers requested so far in each stage.
        self._n_requested: Counter[str] = Counter()

    def of(
        self, papers: Sequence[Paper], *, stage: str, layers: Sequence[int] = (), some: bool = False
    ) -> list[EncodedPaper]:
        """Return the vectors of ``papers``, in order; ``stage`` names the work in progress reports.

        ``some``: an unknown number of further papers will be requested, so progress has no total. Hidden
        ``layers``, which neither a cache nor a snapshot holds, are always encoded again.
        """
        if layers:
            self._n_requested[stage] += len(papers)
            done = self._n_requested[stage] - len(papers)
            return self._encode(papers, stage, done, layers=layers, some=some)
        digests = [digest_of(paper) for paper in papers]
        wanted = dict(zip(digests, papers, strict=True))
        known = self._stored(wanted)
        if self._cache is not None:
            known = self._cache.read(wanted.keys() - known.keys()) | known
        missing = [digest for digest in wanted if digest not in known]
        before = self._n_requested[stage] + len(wanted) - len(missing)
        self._n_requested[stage] += len(wanted)
        for start in range(0, len(missing), _PAPERS_PER_FILE):
            part = missing[start : start + _PAPERS_PER_FILE]
            encoded = self._encode([wanted[digest] for digest in part], stage, before + start, some=some)
            known |= zip(part, encoded, strict=True)
            if self._cache is not None:
                self._cache.write(dict(zip(part, encoded, strict=True)))
        return [known[digest] for digest in digests]

    def _encode(
        self, papers: Sequence[Paper], stage: str, done: int, *, layers: Sequence[int] = (), some: bool
    ) -> list[EncodedPaper]:
        encoded: list[EncodedPaper] = []
        for start in range(0, len(papers), PAPERS_PER_CALL):
            encoded += self.encoder.encode(papers[start : start + PAPERS_PER_CALL], layers=layers)
            self._on_progress(stage, done + len(encoded), None if some else self._n_requested[stage])
        return encoded

    def _stored(self, wanted: dict[str, Paper]) -> dict[str, EncodedPaper]:
        """Return the identical papers of the snapshot, with zero document vectors for sentence encoders."""
        if self.snapshot is None:
            return {}
        of_document = self.encoder.spec.unit is Unit.DOCUMENT
        stored = {}
        for digest, paper in wanted.items():
            position = self.snapshot.find(paper.id)
            if position is not None and digest_of(self.snapshot.paper(position)) == digest:
                rows = self.snapshot.vectors(position)
                document = rows[0] if of_document else np.zeros_like(rows[0])
                stored[digest] = EncodedPaper(rows, document, max(0, len(paper.sentences) - len(rows)))
        return stored


class VectorCache:
    """Encoded papers in files that are written once, found by a hash of the papers' content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The file that holds each paper.
        self._files = {
            digest: path
            for path in sorted(folder.glob("*.npz"))
            for digest in _load(path, "digests")["digests"].tolist()
        }

    def read(self, digests: Iterable[str]) -> dict[str, EncodedPaper]:
        """Return the cached papers among ``digests``; raises StorageError for a damaged file."""
        wanted = set(digests)
        found = {}
        for path in sorted({self._files[digest] for digest in wanted if digest in self._files}):
            kept = _load(path)
            offsets = kept["offsets"]
            for i, name in enumerate(kept["digests"].tolist()):
                if name in wanted:
                    rows = kept["rows"][offsets[i] : offsets[i + 1]]
                    found[name] = EncodedPaper(rows, kept["documents"][i], int(kept["dropped"][i]))
        return found

    def write(self, encoded: dict[str, EncodedPaper]) -> None:
        """Store ``encoded``, by digest, in one new file; raises StorageError."""
        packed = pack(list(encoded.values()))
        content = io.BytesIO()
        np.savez(
            content,
            digests=np.array(list(encoded)),
            offsets=packed.offsets,
            rows=packed.rows,
            documents=np.stack([paper.document for paper in encoded.values()]),
            dropped=np.array([paper.dropped_sentences for paper in encoded.values()]),
        )
        path = self._folder / f"{hashlib.sha256(''.join(encoded).encode()).hexdigest()[:16]}.npz"
        with storage_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, content.getvalue())
        self._files |= dict.fromkeys(encoded, path)


def _load(path: Path, *names: str) -> dict[str, np.ndarray]:
    """Load all or the named arrays of a cache file; raises StorageError if it is damaged."""
    with storage_errors(path):
        try:
            with path.open("rb") as stream, np.load(stream) as kept:
                return {name: kept[name] for name in names or kept.files}
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise StorageError(f"{path} is damaged ({error}); delete it and run again.") from error


def digest_of(paper: Paper) -> str:
    """Return the SHA-256 (hex) of the encoder's input from ``paper``: title and sentences."""
    content = [paper.title, [sentence.text for sentence in paper.sentences]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def pack(encoded: Sequence[EncodedPaper]) -> PackedVectors:
    """Concatenate sentence vectors."""
    offsets = np.cumsum([0, *(len(paper.sentences) for paper in encoded)], dtype=np.int64)
    return PackedVectors(np.concatenate([paper.sentences for paper in encoded]), offsets)


def encode_collection(collection: Collection, source: VectorSource, *, alone: bool) -> CollectionVectors:
    """Encode every paper that some query ranks, and every query's paper.

    ``alone`` encodes each sentence by itself, without title or neighbours; the document vectors are then
    zeros.
    """
    pools = {id(query.pool): query.pool for query in collection.queries}  # queries may share one
    pooled = set().union(*pools.values())
    if any(not query.pool for query in collection.queries):
        pooled = set(collection.papers)
    ranked = [paper for paper_id, paper in collection.papers.items() if paper_id in pooled]
    papers = [*ranked, *(query.paper for query in collection.queries)]
    name = source.encoder.spec.name
    encoded = (
        encode_alone(papers, source, stage=f"{name}, sentences alone")
        if alone
        else source.of(papers, stage=name)
    )
    of_ranked = dict(zip((paper.id for paper in ranked), encoded, strict=False))
    dim = source.encoder.spec.dim
    nothing = EncodedPaper(np.empty((0, dim), np.float32), np.zeros(dim, np.float32), 0)
    in_order = [of_ranked.get(paper_id, nothing) for paper_id in collection.papers]
    return CollectionVectors(
        pack(in_order),
        np.stack([paper.document for paper in in_order]),
        dict(zip((query.id for query in collection.queries), encoded[len(ranked) :], strict=True)),
    )


def encode_alone(
    papers: Sequence[Paper], source: VectorSource, *, stage: str, layers: Sequence[int] = ()
) -> list[EncodedPaper]:
    """Encode every sentence as a paper of one sentence without a title."""
    singles = [
        replace(paper, title="", abstract=sentence.text, sentences=(sentence,))
        for paper in papers
        for sentence in paper.sentences
    ]
    encoded = iter(source.of(singles, stage=stage, layers=layers))
    return [_end_to_end([next(encoded) for _ in paper.sentences]) for paper in papers]


def _end_to_end(sentences: Sequence[EncodedPaper]) -> EncodedPaper:
    """Merge papers of one sentence into one paper, with a document vector of zeros."""
    layers = [sentence.layers for sentence in sentences if sentence.layers is not None]
    return EncodedPaper(
        np.concatenate([sentence.sentences for sentence in sentences]),
        np.zeros_like(sentences[0].document),
        0,
        np.concatenate(layers, axis=1) if layers else None,
    )


def present_encoders() -> list[str]:
    """List the named checkpoints with weights on this machine; nothing is downloaded."""
    return [
        name
        for name, checkpoint in CHECKPOINTS.items()
        if checkpoint.package is not None
        or isinstance(
            try_to_load_from_cache(checkpoint.repository, WEIGHTS, revision=checkpoint.revision), str
        )
    ]
