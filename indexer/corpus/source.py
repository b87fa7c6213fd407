"""Reads the bytes of a corpus file, plain or gzipped: its head, to detect the format, and its lines."""

import codecs
import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from indexer.files.durable import storage_errors
from models.errors import BrokenFileError, CorpusFormatError, InputError, StorageError

# The part of a file that readers see to recognise its format.
HEAD_BYTES = 64 * 1024
# The longest record worth holding: 40 times the longest full text of our sample of unarXive (211 kB).
MAX_LINE_BYTES = 8 * 1024 * 1024
# A few large reads cost less than many small ones; larger buffers than this gain nothing.
_BUFFER_BYTES = 1024 * 1024

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ASCII = bytes(range(128))
_STRAY_BYTES = "akin.stray-bytes"  # the name of an error handler of codecs
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Pieces(io.RawIOBase):
    """A stream of the bytes that ``read(size)`` returns from ``source``; closing it closes ``source`` too."""

    def __init__(self, source: io.BufferedIOBase, read: Callable[[int], bytes]) -> None:
        self._source = source
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # the type of a buffer has no name before Python 3.12
        piece = self._read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._source.close()
        super().close()


def _decompressed(file: gzip.GzipFile) -> _Pieces:
    """Return a stream that, unlike GzipFile, yields all data of a truncated file before it raises."""
    return _Pieces(file, file.read1)


def _as_utf8(stream: io.BufferedReader) -> _Pieces:
    """Return a stream of UTF-16 as UTF-8; bytes that are no character become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    ready, ended = b"", False

    def read(size: int) -> bytes:  # not a generator: a generator ends when it raises
        nonlocal ready, ended
        while not ready and not ended:
            piece = stream.read1(_BUFFER_BYTES)
            ended = not piece
            ready = decoder.decode(piece, final=ended).encode()
        given, ready = ready[:size], ready[size:]
        return given

    return _Pieces(stream, read)


def _with_line_feeds(stream: io.BufferedReader) -> _Pieces:
    """Return a stream with line feeds instead of the carriage returns that end lines on old Macs."""
    return _Pieces(stream, lambda size: stream.read1(size).replace(b"\r", b"\n"))


def _ends_lines_with_returns(begin: bytes) -> bool:
    """Return whether a file with this beginning ends lines with carriage returns, as old Macs do.

    The first line has one, and most lines have. A quoted cell may hold line feeds.
    """
    begin = b"".join(begin.split(b'"')[::2]).rstrip(b"\r")
    n_returns, n_feeds = begin.count(b"\r"), begin.count(b"\n")
    return n_returns - begin.count(b"\r\n") > n_feeds and b"\r" in begin.split(b"\n", 1)[0].rstrip(b"\r")


def as_utf8(content: bytes) -> bytes:
    """Return the content of a file that is not gzipped as ``open_source`` yields it.

    That is UTF-8 without a byte order mark, with line feeds instead of lone carriage returns.
    """
    if content.startswith(_UTF_16):
        return content.decode("utf-16", errors="replace").encode()
    content = content.removeprefix(_BYTE_ORDER_MARK)
    return content.replace(b"\r", b"\n") if _ends_lines_with_returns(content) else content


def _stray_byte(error: UnicodeError) -> tuple[str, int]:
    """Return the Windows-1252 characters of bytes that are not UTF-8, and where to continue."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    try:
        return error.object[error.start : error.end].decode("cp1252"), error.end
    except UnicodeDecodeError:
        raise error from None


codecs.register_error(_STRAY_BYTES, _stray_byte)


def decoded(text: bytes, what: str) -> str:
    """Return ``text`` decoded as UTF-8 or, if it is not valid, as Windows-1252, which includes Latin-1.

    If most of its bytes beyond ASCII are valid UTF-8, only the others are read as Windows-1252. Raises
    InputError, which names the text as ``what``, for bytes that are neither.
    """
    with suppress(UnicodeDecodeError):
        return text.decode()
    valid = text.decode(errors="ignore").encode()
    n_valid, n_beyond = (len(each.translate(None, _ASCII)) for each in (valid, text))
    try:
        return text.decode("utf-8", _STRAY_BYTES) if 2 * n_valid > n_beyond else text.decode("cp1252")
    except UnicodeDecodeError as error:
        raise InputError(
            f"neither UTF-8 nor Latin-1 at byte {error.start + 1} of {what}; save the file as UTF-8"
        ) from error


@contextmanager
def open_source(path: Path) -> Iterator[io.BufferedReader]:
    """Open ``path`` for reading, without its byte order mark, decompressed if its first bytes say gzip.

    UTF-16 with a byte order mark, as some programs for Windows write it, is converted to UTF-8. Carriage
    returns that end lines alone become line feeds.

    Raises StorageError if ``path`` is not a readable file, BrokenFileError if it is a damaged gzip file.
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
    """Turn errors of reading ``path`` into BrokenFileError or StorageError, which name ``line``."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"the gzip file is cut short or damaged here ({error})"
        raise BrokenFileError(str(path), line, reason) from error
    except OSError as error:
        raise StorageError(f"{path}:{line}: cannot be read on ({error}). Check the disk.") from error


def read_head(path: Path) -> str:
    """Return the first HEAD_BYTES of ``path``, decompressed, as text; bytes not in UTF-8 become U+FFFD.

    Raises StorageError if ``path`` is not a readable file, CorpusFormatError if it is empty or binary, and
    BrokenFileError if nothing of a gzip file can be read.
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
                break  # the reader will reach the same place and report it
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
    """An iterator over the lines of ``stream``, with their line ends; ``number`` is the last one's, from 1.

    A line over MAX_LINE_BYTES is skipped without being held and raises InputError; iteration can continue
    after it. Raises BrokenFileError or StorageError if the bytes cannot be read to the end.

    ``path`` is only a name for messages and is never opened, since the sender of an uploaded file chooses its
    name. ``reopen`` opens the stream again from its beginning; ``None`` if it can be read only once.
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
        """Yield all lines again from the first, independent of these; none if they can be read only once."""
        if self._reopen is None:
            yield Lines(io.BufferedReader(io.BytesIO()), self.path)
            return
        with self._reopen() as stream:
            yield Lines(stream, self.path)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def peek(self) -> bytes:
        """Return some of the next bytes without consuming them."""
        with read_errors(self.path, line=self.number + 1):
            return self._stream.peek()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes of a line: for XML and JSON lists, whose lines can have any length."""
        number = self.number + self._at_line_start
        with read_errors(self.path, line=number):
            piece = self._stream.readline(size)
        if piece:  # at the end, ``number`` stays that of the last line
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
