"""Configures the log."""

import logging
import sys
import traceback
from types import TracebackType

import structlog
from structlog.typing import Processor

_OTHERS_LEVEL = logging.WARNING  # from which on what libraries log is of interest


def configure_logging(level: str) -> None:
    """Send what is logged at ``level`` (``debug`` ... ``error``) and above to stderr, never to stdout.

    What libraries log comes out in the same shape, from warnings on.
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
        # A logger kept from its first use would keep that moment's stderr, which may be closed by now.
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=_OTHERS_LEVEL, force=True)


def raised_at(error: BaseException) -> str:
    """The traceback of an error and of those that led to it, innermost cause first, without their messages.

    A message may hold what a reader sent, as that of a failed conversion does; so may variables.
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
    """Passes on what libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info
        )


def _exception(exc_info: tuple[type[BaseException], BaseException, TracebackType | None]) -> str:
    return raised_at(exc_info[1])


def _renderer() -> Processor:
    """Coloured lines for a person at a terminal, one JSON object a line for whatever else reads the log."""
    return structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()


def _stderr_logger(*_: object) -> structlog.PrintLogger:
    """A logger to what stderr is now."""
    return structlog.PrintLogger(sys.stderr)
