"""Tests of the vectors that systems share: encoded once, cached, or taken from a snapshot."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.systems.system import DENSE
from evaluation.systems.systems import Systems
from evaluation.systems.vectors import VectorCache, VectorSource, digest_of, encode_collection
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.errors import EncoderMismatchError, InputError, StorageError
from tests.support.examples.evaluation.system_examples import (
    METHOD,
    PAPERS,
    WHOLE,
    Counting,
    collection,
    ignore,
    paper,
)


def test_a_paper_is_encoded_once(hashing: Encoder, tmp_path: Path) -> None:
    """All systems of an encoder share its vectors, and with a cache the next run encodes nothing.

    The query papers of tagged systems are an exception, as they are encoded again for their hidden layers.
    """
    counts = []
    for _ in range(2):
        encoder = Counting(hashing)
        source = VectorSource(encoder, cache=tmp_path, on_progress=ignore)
        ranked = Systems(collection(METHOD, WHOLE), lambda _, source=source: source)
        shared = [suffix for suffix, system in DENSE.items() if not system.tagged]
        runs = [ranked.rank(f"hashing:{suffix}").scores for suffix in shared]
        counts.append((encoder.n_papers, runs))
    n_sentences = len({s.text for each in PAPERS.values() for s in each.sentences})
    assert [len(PAPERS) + n_sentences, 0] == [n_papers for n_papers, _ in counts]
    assert counts[0][1] == counts[1][1]


def test_only_what_some_query_ranks_is_encoded(hashing: Encoder) -> None:
    """Papers in no pool are not encoded and have no rows."""
    encoder = Counting(hashing)
    source = VectorSource(encoder, on_progress=ignore)
    vectors = encode_collection(collection(replace(WHOLE, pool=("neither",))), source, alone=False)
    assert 2 == encoder.n_papers
    assert [0, 0, 0, 2] == np.diff(vectors.papers.offsets).tolist()


def test_sentences_alone_know_nothing_of_their_paper(hashing: Encoder) -> None:
    """A sentence encoded alone has its vector as a separate paper, and another one in context."""
    source = VectorSource(hashing, on_progress=ignore)
    single = hashing.encode([paper("x", "", PAPERS["q"].sentences[1].text)])[0].sentences[0]
    alone = encode_collection(collection(WHOLE), source, alone=True).queries["q:whole"]
    context = encode_collection(collection(WHOLE), source, alone=False).queries["q:whole"]
    np.testing.assert_array_equal(alone.sentences[1], single)
    assert not np.allclose(context.sentences[1], single)


def test_progress_counts_every_paper(hashing: Encoder) -> None:
    """Progress names the encoder and counts papers over all calls of a stage."""
    seen: list[tuple[str, int, int | None]] = []
    source = VectorSource(hashing, on_progress=lambda *progress: seen.append(progress))
    source.of([PAPERS["q"]], stage="hashing")
    source.of(list(PAPERS.values()), stage="hashing")
    source.of([replace(PAPERS["q"], title="Another title")], stage="hashing", some=True)
    assert [("hashing", 1, 1), ("hashing", 5, 5), ("hashing", 6, None)] == seen


def test_a_changed_paper_is_not_found_in_the_cache(hashing: Encoder, tmp_path: Path) -> None:
    """The cache finds a paper by content, not by id, and the error for a damaged file says to delete it."""
    encoded = hashing.encode([PAPERS["q"]])[0]
    VectorCache(tmp_path).write({digest_of(PAPERS["q"]): encoded})
    changed = replace(PAPERS["q"], title="Another title")
    kept = VectorCache(tmp_path).read([digest_of(PAPERS["q"]), digest_of(changed)])
    assert [digest_of(PAPERS["q"])] == list(kept)
    np.testing.assert_array_equal(encoded.sentences, kept[digest_of(PAPERS["q"])].sentences)
    (file,) = tmp_path.glob("*.npz")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(StorageError, match="delete it"):
        VectorCache(tmp_path)


def test_a_snapshot_stands_in_for_encoding(hashed_snapshot: Snapshot, hashing: Encoder) -> None:
    """Papers that a snapshot holds unchanged are not encoded, and another encoder's snapshot is refused."""
    encoder = Counting(hashing)
    source = VectorSource(encoder, snapshot=hashed_snapshot, on_progress=ignore)
    held = hashed_snapshot.paper(3)
    changed = replace(hashed_snapshot.paper(4), title="Another title")
    found = source.of([held, changed], stage="x")
    assert 1 == encoder.n_papers
    np.testing.assert_array_equal(hashed_snapshot.vectors(3), found[0].sentences)
    np.testing.assert_array_equal(hashing.encode([changed])[0].sentences, found[1].sentences)
    with pytest.raises(EncoderMismatchError):
        VectorSource(
            Counting(hashing, replace(hashing.spec, fingerprint="other")),
            snapshot=hashed_snapshot,
            on_progress=ignore,
        )
    ranked = Systems(collection(WHOLE), lambda _: source)
    assert "hashing:document" not in ranked.names(["hashing"])
    with pytest.raises(InputError, match="no document vectors"):
        ranked.rank("hashing:document")
