"""The log: on stderr alone, readable by whoever is there, and quiet below its level."""

import io
import json
import logging
import subprocess
import sys

import pytest
import structlog

from service.observability.logging import configure_logging, raised_at

# As an encoder makes its own, whose module takes seconds to load.
LOG = structlog.get_logger("models.encoders.transformer")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Always."""
        return True


@pytest.fixture(autouse=True)
def _unconfigured(log_left_alone: None) -> None:
    """Leave logging to the other tests as it was."""


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
    """At ``warning`` an info is dropped; configured anew at ``info`` it is written."""
    for level, n_lines in (("warning", 0), ("info", 1)):
        configure_logging(level)
        LOG.info("loaded")
        assert n_lines == len(capsys.readouterr().err.splitlines())


def failure() -> ValueError:
    """An error with a traceback, two lines of message and a variable nobody should read in a log."""

    def fail(abstract: str) -> None:
        raise ValueError(f"no room\nfor {len(abstract)}")

    with pytest.raises(ValueError, match="no room") as caught:
        fail("unpublished " + "words")
    return caught.value


def test_an_error_keeps_its_traceback_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A log that is read line by line has the traceback inside the entry, where and what, not the message."""
    configure_logging("info")
    LOG.error("unexpected_error", exc_info=failure())
    (line,) = capsys.readouterr().err.splitlines()
    exception = json.loads(line)["exception"]
    assert "in fail\n" in exception
    assert exception.endswith("ValueError\n")


def test_what_libraries_log_has_the_same_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning of the standard library's logging is one JSON object too, its traceback without messages."""
    configure_logging("info")
    logging.getLogger("a.library").warning("lost %s", "3 batches", exc_info=failure())
    entry = json.loads(capsys.readouterr().err)
    assert ("lost 3 batches", "warning", "a.library") == (entry["event"], entry["level"], entry["logger"])
    assert "for 17" not in entry["exception"]
    logging.getLogger("a.library").info("chatter")
    assert "" == capsys.readouterr().err


def test_causes_come_first_and_a_ring_of_them_ends() -> None:
    """An error raised from another shows both; errors that name each other as causes are shown once each."""
    cause, error = ValueError("secret"), KeyError("secret")
    error.__cause__, cause.__context__ = cause, error
    assert "ValueError\nKeyError\n" == raised_at(error)


def test_a_person_at_a_terminal_reads_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the event stands in plain words, and a traceback shows no variables."""
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
    """A stderr that was replaced and closed is not written to again."""
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    configure_logging("info")
    LOG.info("one")
    monkeypatch.setattr(sys, "stderr", second)
    first.close()
    LOG.info("two")
    assert "two" == json.loads(second.getvalue())["event"]


def test_importing_configures_nothing() -> None:
    """Only the call changes how a program logs."""
    script = "import structlog, sys, service.observability.logging; sys.exit(structlog.is_configured())"
    assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode
