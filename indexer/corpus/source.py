"""A corpus file as bytes: plain or gzipped, its head for looking at, and its lines."""

import codecs
import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from indexer.files.durable import storage_errors
from models.errors import BrokenFileError, CorpusFormatError, InputError, StorageError

# What readers see of a file to recognise it.
HEAD_BYTES = 64 * 1024
# The longest record worth holding: 40 times the longest full text of our sample of unarXive (211 kB).
MAX_LINE_BYTES = 8 * 1024 * 1024
# A few large reads cost less than many small ones; more than this gains nothing.
_BUFFER_BYTES = 1024 * 1024

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Pieces(io.RawIOBase):
    """A stream of what ``read`` makes of ``source``, so many bytes at most; closing it closes both."""

    def __init__(self, source: io.BufferedIOBase, read: Callable[[int], bytes]) -> None:
        self._source = source
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # what a buffer is has a name from Python 3.12 on
        piece = self._read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._source.close()
        super().close()


def _decompressed(file: gzip.GzipFile) -> _Pieces:
    """A gzip file that gives all it holds before it raises for being cut short, as GzipFile does not."""
    return _Pieces(file, file.read1)


def _as_utf8(stream: io.BufferedReader) -> _Pieces:
    """A stream of UTF-16, given as UTF-8; what is no character becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    ready, ended = b"", False

    def read(size: int) -> bytes:  # no generator: one that raises has ended
        nonlocal ready, ended
        while not ready and not ended:
            piece = stream.read1(_BUFFER_BYTES)
            ended = not piece
            ready = decoder.decode(piece, final=ended).encode()
        given, ready = ready[:size], ready[size:]
        return given

    return _Pieces(stream, read)


def _with_line_feeds(stream: io.BufferedReader) -> _Pieces:
    """A stream whose lines end as those of old Macs do, with line feeds instead."""
    return _Pieces(stream, lambda size: stream.read1(size).replace(b"\r", b"\n"))


def _ends_lines_with_returns(begin: bytes) -> bool:
    """Whether a file that begins so has the line ends of old Macs, a carriage return each."""
    return b"\n" not in begin and b"\r" in begin.rstrip(b"\r")


def as_utf8(content: bytes) -> bytes:
    """The content of a file, as ``open_source`` gives it: without its mark, UTF-16 as UTF-8."""
    if content.startswith(_UTF_16):
        return content.decode("utf-16", errors="replace").encode()
    content = content.removeprefix(_BYTE_ORDER_MARK)
    return content.replace(b"\r", b"\n") if _ends_lines_with_returns(content) else content


@contextmanager
def open_source(path: Path) -> Iterator[io.BufferedReader]:
    """Open ``path`` for reading, decompressed where its first bytes say gzip, without a byte order mark.

    UTF-16, as some programs for Windows write it, is given as UTF-8 where its mark tells; lines end with line
    feeds also where carriage returns alone end them.

    Raises StorageError for what is no readable file.
    """
    try:
        with storage_errors(path):
            if not stat.S_ISREG(path.stat().st_mode):
                raise StorageError(f"{path} is not a file; give the corpus files one by one.")
            with path.open("rb") as file:
                gzipped = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    except ValueError as error:  # a NUL in the path
        raise StorageError(f"Cannot read {path}: {error}. Check the path and its permissions.") from error
    raw = _decompressed(gzip.open(path)) if gzipped else path.open("rb", buffering=0)  # noqa: SIM115 - see below
    stream: io.BufferedReader = io.BufferedReader(raw, _BUFFER_BYTES)
    with stream:  # closing it closes what it reads
        with read_errors(path, line=1):
            begin = stream.peek(len(_BYTE_ORDER_MARK))
            if begin.startswith(_BYTE_ORDER_MARK):
                stream.read(len(_BYTE_ORDER_MARK))
        if begin.startswith(_UTF_16):
            stream = io.BufferedReader(_as_utf8(stream), _BUFFER_BYTES)
        elif _ends_lines_with_returns(begin):
            stream = io.BufferedReader(_with_line_feeds(stream), _BUFFER_BYTES)
        yield stream


@contextmanager
def read_errors(path: Path, *, line: int) -> Iterator[None]:
    """Translate what reading bytes of ``path`` can raise, saying that ``line`` was being read."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"the gzip file is cut short or damaged here ({error})"
        raise BrokenFileError(str(path), line, reason) from error
    except OSError as error:
        raise StorageError(f"{path}:{line}: cannot be read on ({error}). Check the disk.") from error


def read_head(path: Path) -> str:
    """Return the first HEAD_BYTES of ``path``, decompressed, as text; bytes that are no UTF-8 become U+FFFD.

    Raises StorageError for what is no readable file, CorpusFormatError for an empty or a binary one.
    """
    head = b""
    with open_source(path) as stream:
        while len(head) < HEAD_BYTES:
            try:
                with read_errors(path, line=head.count(b"\n") + 1):
                    piece = stream.read1(HEAD_BYTES - len(head))
            except BrokenFileError:
                if not head:
                    raise
                break  # the reader will come to the same place and report it
            if not piece:
                break
            head += piece
    if not head.strip():
        raise CorpusFormatError(f"{path} is empty; give a file with papers in it.")
    if b"\0" in head:
        raise CorpusFormatError(
            f"{path} is not text (it has NUL bytes); give UTF-8 text, plain or gzipped (PDF is not "
            "supported)."
        )
    return head.decode(errors="replace")


class Lines:
    """The lines of ``stream`` in turn, with their line ends; ``number`` is that of the last one, from 1.

    A line over MAX_LINE_BYTES is read past without being held, and raises InputError; iteration can go on
    behind it. Raises BrokenFileError or StorageError where the bytes themselves end too early.

    ``path`` is a name for messages, and nothing to open: a file that was sent has a name of the sender's
    making. What can be read from its beginning once more is so by ``reopen``.
    """

    def __init__(
        self,
        stream: io.BufferedReader,
        path: Path,
        *,
        reopen: Callable[[], AbstractContextManager[io.BufferedReader]] | None = None,
    ) -> None:
        self.number = 0
        self.path = path
        self._stream = stream
        self._reopen = reopen
        self._at_line_start = True

    @contextmanager
    def again(self) -> Iterator["Lines"]:
        """All lines from the first on, beside these; none where they can be read only once."""
        if self._reopen is None:
            yield Lines(io.BufferedReader(io.BytesIO()), self.path)
            return
        with self._reopen() as stream:
            yield Lines(stream, self.path)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def peek(self) -> bytes:
        """Return some bytes of what comes next, without going on."""
        with read_errors(self.path, line=self.number + 1):
            return self._stream.peek()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes of a line, whole or not: for XML, whose lines have no bounds."""
        number = self.number + self._at_line_start
        with read_errors(self.path, line=number):
            piece = self._stream.readline(size)
        if piece:  # at the end the last line stays the last
            self.number, self._at_line_start = number, piece.endswith(b"\n")
        return piece

    def __next__(self) -> bytes:
        self.number += 1
        with read_errors(self.path, line=self.number):
            line = self._stream.readline(MAX_LINE_BYTES + 1)
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = self._stream.readline(MAX_LINE_BYTES)
                raise InputError(f"the line is longer than {MAX_LINE_BYTES:,} bytes; shorten or split it")
        if not line:
            raise StopIteration
        return line
