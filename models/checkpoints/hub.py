"""Fetches a checkpoint from the Hugging Face cache of this machine, or else from the hub."""

from pathlib import Path

import huggingface_hub

# HTTPError is the one of the HTTP library that the hub's client is built on.
from huggingface_hub.errors import (  # type: ignore[attr-defined] # it is imported there, not re-exported
    HfHubHTTPError,
    HTTPError,
    LocalEntryNotFoundError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars

from models.errors import WeightsError

# Never *.bin (pickles) and never *.py: a checkpoint is data here.
PATTERNS = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
# One file of each is needed.
NEEDED = (("model.safetensors",), ("config.json",), ("tokenizer.json", "vocab.txt"))
REACH_TIMEOUT_S = 5.0


def fetch_from_hub(name: str, repository: str, *, revision: str | None) -> Path:
    """Return the folder with the safetensors weights, configuration and tokenizer of ``repository``.

    The cache is searched first, so a machine without a network needs no setting. Raises WeightsError, which
    says what to do instead, if the hub cannot be reached or has no safetensors of this repository.
    """
    cached = _cached(repository, revision)
    if cached is not None:
        return cached
    try:
        # One request without retries: snapshot_download alone retries for 20 s or more if offline.
        found = huggingface_hub.HfApi().model_info(repository, revision=revision, timeout=REACH_TIMEOUT_S)
    except HfHubHTTPError as error:
        raise WeightsError(f"The hub refused {repository} for {name}: {error}") from error
    except (HTTPError, OSError) as error:
        raise WeightsError(
            f"{name} is not on this machine and the hub cannot be reached ({error}). Download {repository} "
            f"elsewhere and give its folder instead of the name; if it holds only pytorch_model.bin, first "
            f"run: akin convert FOLDER TARGET --like {name}."
        ) from error
    if "model.safetensors" not in {file.rfilename for file in found.siblings or []}:
        raise WeightsError(
            f"{repository} publishes no model.safetensors, and Akin does not load pickles. Download it, "
            f"run: akin convert FOLDER TARGET --like {name}, then give TARGET as the encoder."
        )
    disable_progress_bars()
    try:
        # All files are of the commit that the revision names now. Requested by name, not by commit, because
        # only then the cache stores which commit the name stands for, and the next call finds it offline.
        return Path(huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=PATTERNS))
    except (HTTPError, OSError) as error:
        raise WeightsError(f"Downloading {repository} for {name} failed: {error}. Try again.") from error


def _cached(repository: str, revision: str | None) -> Path | None:
    try:
        # The same patterns: without them a cache that lists all files counts as incomplete.
        folder = Path(
            huggingface_hub.snapshot_download(
                repository, revision=revision, allow_patterns=PATTERNS, local_files_only=True
            )
        )
    except LocalEntryNotFoundError:
        return None
    # A snapshot that another program fetched in part (or only as .bin) is of no use.
    complete = all(any((folder / name).is_file() for name in names) for names in NEEDED)
    return folder if complete else None
