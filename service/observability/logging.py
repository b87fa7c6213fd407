"""Configuration of the log."""

import logging
import sys
import traceback
from types import TracebackType

import structlog
from structlog.typing import Processor

_OTHERS_LEVEL = logging.WARNING  # the least level of messages from libraries


def configure_logging(level: str) -> None:
    """Send messages of ``level`` (``debug`` ... ``error``) and above to stderr, never to stdout.

    Warnings and errors of libraries are logged in the same format.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(_exception),
            _renderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_stderr_logger,
        # A logger cached on first use would keep the stderr of that moment, which may be closed later.
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=_OTHERS_LEVEL, force=True)


def tracebacks_of(error: BaseException) -> str:
    """Return the tracebacks of an error and its causes, innermost cause first, without their messages.

    A message may contain a user's text, such as that of a failed conversion; so may variables.
    """
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "".join(
        f"{''.join(traceback.format_tb(each.__traceback__))}{type(each).__qualname__}\n"
        for each in reversed(chain)
    )


class _ToStructlog(logging.Handler):
    """Forwards the messages of libraries to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info
        )


def _exception(exc_info: tuple[type[BaseException], BaseException, TracebackType | None]) -> str:
    return tracebacks_of(exc_info[1])


def _renderer() -> Processor:
    """Return a renderer: coloured lines for a terminal, otherwise one JSON object per line."""
    return structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()


def _stderr_logger(*_: object) -> structlog.PrintLogger:
    """Return a logger to the current stderr."""
    return structlog.PrintLogger(sys.stderr)
