"""Fetches a checkpoint from the Hugging Face cache of this machine, else from the hub."""

from pathlib import Path

import huggingface_hub

# HTTPError is that of whichever HTTP library the hub's client is built on.
from huggingface_hub.errors import (  # type: ignore[attr-defined] # it is imported there, not re-exported
    HfHubHTTPError,
    HTTPError,
    LocalEntryNotFoundError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars

from models.errors import WeightsError

# Never *.bin (pickles) and never *.py: a checkpoint is data here.
PATTERNS = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
REACH_TIMEOUT_S = 5.0


def fetch_from_hub(name: str, repository: str, *, revision: str | None) -> Path:
    """The folder holding ``repository``'s safetensors weights, configuration and tokenizer.

    The cache is asked first, so a machine without a network needs no setting. Raises WeightsError, saying
    what to do instead, where the hub cannot be reached or publishes no safetensors.
    """
    cached = _cached(repository, revision)
    if cached is not None:
        return cached
    try:
        # One request without retries: snapshot_download alone retries for 20 s and more when offline.
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
        # All files are of the commit that the revision names now. Asked for by name, not by that commit: only
        # then does the cache note which commit the name stands for, and the next call finds it offline.
        return Path(huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=PATTERNS))
    except (HTTPError, OSError) as error:
        raise WeightsError(f"Downloading {repository} for {name} failed: {error}. Try again.") from error


def _cached(repository: str, revision: str | None) -> Path | None:
    try:
        # The patterns again: without them a cache that lists all files counts as incomplete.
        folder = Path(
            huggingface_hub.snapshot_download(
                repository, revision=revision, allow_patterns=PATTERNS, local_files_only=True
            )
        )
    except LocalEntryNotFoundError:
        return None
    # A snapshot that another program fetched in part (or as .bin only) is no use.
    return folder if (folder / "model.safetensors").is_file() else None
