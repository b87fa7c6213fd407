"""Tests of data that we may not ship: it is found in the configured folder, or its tests are skipped."""

from pathlib import Path

import pytest

from tests.support.outside_data import BESIDE, HOW_TO_GET, VARIABLE, outside_data


@pytest.mark.parametrize("name", HOW_TO_GET)
def test_what_is_not_there_is_skipped_with_the_way_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the path, the publisher's address and the variable that sets the folder."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(pytest.skip.Exception) as skipped:
        outside_data(name)
    message = str(skipped.value)
    assert f"no {tmp_path / name}: " in message
    assert "https://" in HOW_TO_GET[name]
    assert HOW_TO_GET[name] in message
    assert VARIABLE in message


def test_the_folder_is_the_one_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the variable, the folder is next to the project."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (tmp_path / "scifact").mkdir()
    assert tmp_path / "scifact" == outside_data("scifact")
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr("tests.support.outside_data.BESIDE", tmp_path)
    assert tmp_path / "scifact" == outside_data("scifact")
    assert ("shared", "data") == BESIDE.parts[-2:]
