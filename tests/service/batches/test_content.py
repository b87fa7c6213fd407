"""Tests of the compressed content of stored batches."""

import os

import pyarrow as pa
import pytest

from service.batches.content import packed, unpacked


@pytest.mark.parametrize("content", [b"", b"{}", b"abc" * 100_000, os.urandom(300_000)])
def test_stored_batches_are_read_by_every_version(content: bytes) -> None:
    """Earlier versions compressed in a stream; either version reads what the other wrote."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    assert content == unpacked(sink.getvalue().to_pybytes()) == unpacked(packed(content))
    with pa.CompressedInputStream(pa.BufferReader(packed(content)), "zstd") as stream:
        assert content == stream.read()
