"""Where the log goes and how it looks; nothing is configured before ``configure_logging`` is called."""

import sys

import structlog
from structlog.typing import Processor


def configure_logging(level: str) -> None:
    """Send what is logged at ``level`` (``debug`` ... ``error``) and above to stderr, never to stdout."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_rendering(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_stderr_logger,
        # A logger kept from its first use would keep that moment's stderr, which may be closed by now.
        cache_logger_on_first_use=False,
    )


def _rendering() -> list[Processor]:
    """Coloured lines for a person at a terminal, one JSON object a line for whatever else reads the log."""
    if sys.stderr.isatty():
        # Plain tracebacks: the default shows local variables, which hold readers' abstracts.
        return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _stderr_logger(*_: object) -> structlog.PrintLogger:
    """A logger to what stderr is now."""
    return structlog.PrintLogger(sys.stderr)
