"""Tests of the log: only on stderr, fit for its reader, and silent below its level."""

import io
import json
import logging
import subprocess
import sys

import pytest
import structlog

from service.observability.logging import configure_logging, tracebacks_of

# Made like the logger of an encoder, whose module takes seconds to load.
LOG = structlog.get_logger("models.encoders.transformer")


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return true."""
        return True


@pytest.fixture(autouse=True)
def _unconfigured(log_left_alone: None) -> None:
    """Restore the logging configuration after each test."""


def test_an_encoders_warning_leaves_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A logger made at import, before any configuration, writes JSON to stderr and nothing to stdout."""
    configure_logging("warning")
    LOG.warning("encoder_batch_halved", batch_tokens=512)
    out, err = capsys.readouterr()
    entry = json.loads(err)
    assert "" == out
    assert {"timestamp"} == entry.keys() - {"event", "level", "batch_tokens"}
    assert ("encoder_batch_halved", "warning", 512) == (entry["event"], entry["level"], entry["batch_tokens"])


def test_what_is_below_the_level_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    """An info is dropped at ``warning`` and written after configuring ``info``."""
    for level, n_lines in (("warning", 0), ("info", 1)):
        configure_logging(level)
        LOG.info("loaded")
        assert n_lines == len(capsys.readouterr().err.splitlines())


def failure() -> ValueError:
    """Return an error with a traceback, a two-line message and a local variable that must not be logged."""

    def fail(abstract: str) -> None:
        raise ValueError(f"no room\nfor {len(abstract)}")

    with pytest.raises(ValueError, match="no room") as caught:
        fail("unpublished " + "words")
    return caught.value


def test_an_error_keeps_its_traceback_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An error is one line of the log, with the traceback and the error's class but not its message."""
    configure_logging("info")
    LOG.error("unexpected_error", exc_info=failure())
    (line,) = capsys.readouterr().err.splitlines()
    exception = json.loads(line)["exception"]
    assert "in fail\n" in exception
    assert exception.endswith("ValueError\n")


def test_what_libraries_log_has_the_same_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning of the standard library's logging is also one JSON object, its traceback without messages."""
    configure_logging("info")
    logging.getLogger("a.library").warning("lost %s", "3 batches", exc_info=failure())
    entry = json.loads(capsys.readouterr().err)
    assert ("lost 3 batches", "warning", "a.library") == (entry["event"], entry["level"], entry["logger"])
    assert "for 17" not in entry["exception"]
    logging.getLogger("a.library").info("chatter")
    assert "" == capsys.readouterr().err


def test_causes_come_first_and_a_ring_of_them_ends() -> None:
    """A cause precedes the error raised from it, and errors in a cycle of causes appear once each."""
    cause, error = ValueError("secret"), KeyError("secret")
    error.__cause__, cause.__context__ = cause, error
    assert "ValueError\nKeyError\n" == tracebacks_of(error)


def test_a_person_at_a_terminal_reads_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the log is plain text, with tracebacks that show no variables."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    configure_logging("info")
    LOG.error("unexpected_error", exc_info=failure())
    written = terminal.getvalue()
    assert "unexpected_error" in written
    assert "in fail\n" in written
    assert "ValueError" in written
    assert "for 17" not in written
    assert "unpublished words" not in written
    assert not written.startswith("{")


def test_the_stream_is_that_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log goes to the current stderr, not to a replaced and closed one."""
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    configure_logging("info")
    LOG.info("one")
    monkeypatch.setattr(sys, "stderr", second)
    first.close()
    LOG.info("two")
    assert "two" == json.loads(second.getvalue())["event"]


def test_importing_configures_nothing() -> None:
    """Importing the module does not configure structlog."""
    script = "import structlog, sys, service.observability.logging; sys.exit(structlog.is_configured())"
    assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode
