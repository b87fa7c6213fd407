"""Steps of long work: the files that were finished stay finished when the process is stopped.

Of a folder FOLDER that is being filled:
  FOLDER.steps/steps.json    the key that says of what, and the SHA-256 of each finished file
  FOLDER.steps/saved-N       how far the file that is being made had come
"""

from collections.abc import Callable
from pathlib import Path

from indexer.files.durable import discard_folder, sync
from indexer.files.notes import read_note, write_note
from models.checksums import is_whole, sha256_of


class Steps:
    """The files of ``folder``, made one after another: those that an earlier run finished are not made again.

    ``key`` says what decides their content; what was made under another is thrown away. Without ``lasting``
    every run begins anew, which is quicker where all of it takes a moment.
    """

    def __init__(self, folder: Path, key: str, *, lasting: bool) -> None:
        self._folder = folder
        self._side = _side(folder)
        self._key = key
        self._lasting = lasting
        note = read_note(self._side / "steps.json") if lasting else {}
        if note.get("key") != key:
            note = {"files": {}, "saved": {}}
            discard_steps(folder)
            discard_folder(folder)
        self._files: dict[str, str] = note["files"]
        self._saved: dict[str, dict[str, str]] = note["saved"]
        self._folder.mkdir(parents=True, exist_ok=True)

    def make(self, name: str, write: Callable[[Path], object]) -> None:
        """Have ``write`` write the file ``name``, unless an earlier run had, and it is whole."""
        path = self._folder / name
        if name in self._files and is_whole(path, self._files[name]):
            return
        write(path)
        self._saved.pop(name, None)
        if self._lasting and path.is_file():
            sync(path)
            self._files[name] = sha256_of(path)
            self._note()

    def files(self) -> dict[str, str]:
        """The SHA-256 (hex) of every file, by its name."""
        names = sorted(path.name for path in self._folder.iterdir())
        return {name: self._files.get(name) or sha256_of(self._folder / name) for name in names}

    def saved(self, name: str) -> Path | None:
        """What an earlier run saved last of the file ``name`` that it had not finished, if it is whole."""
        if name not in self._saved:
            return None
        path = self._side / self._saved[name]["file"]
        return path if is_whole(path, self._saved[name]["sha256"]) else None

    def save(self, name: str, write: Callable[[Path], object]) -> None:
        """Have ``write`` write how far the file ``name`` has come, in place of what was saved last."""
        if not self._lasting:
            return
        self._side.mkdir(exist_ok=True)
        last = self._saved.get(name, {}).get("file")
        path = self._side / ("saved-1" if last == "saved-0" else "saved-0")
        write(path)
        sync(path)
        self._saved = {name: {"file": path.name, "sha256": sha256_of(path)}}
        self._note()

    def _note(self) -> None:
        self._side.mkdir(exist_ok=True)
        content = {"key": self._key, "files": self._files, "saved": self._saved}
        write_note(self._side / "steps.json", content)


def discard_steps(folder: Path) -> None:
    """Forget the steps by which a folder was filled; it stays."""
    discard_folder(_side(folder))


def _side(folder: Path) -> Path:
    return folder.with_name(folder.name + ".steps")
