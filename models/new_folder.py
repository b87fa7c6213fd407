"""Creates a folder completely or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors import SafetensorError

from models.errors import StorageError


def expect_new(target: Path) -> None:
    """Raise StorageError if ``target`` is a file or a folder with files."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StorageError(f"{target} is not empty; give a new folder.")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder next to ``target`` to write to; rename it to ``target`` if the block ends without error.

    Raises StorageError if ``target`` holds files or cannot be written; nothing is left behind then.
    """
    expect_new(target)
    target = target.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as aside:
            prepared = Path(aside, target.name)
            prepared.mkdir()
            yield prepared
            prepared.rename(target)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{target} cannot be written: {error}.") from error
