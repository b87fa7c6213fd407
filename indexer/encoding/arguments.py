"""The arguments that a collection was built with, the models they name, and checks that both still match."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from indexer.files.data_folder import DataFolder
from indexer.files.progress_notes import read_note, write_note
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.manifest import Manifest
from models.annotator import Annotator, load_annotator
from models.checkpoints.checkpoints import absolute_name
from models.errors import EncoderMismatchError, SnapshotCorruptError, SnapshotMissingError
from models.text.sentences import SPLITTER_VERSION
from models.types import EncoderSpec, Precision

# The arguments that a collection keeps, however papers are added later.
_OF_COLLECTION: Final = ("encoder", "backend", "dtype", "precision", "tagger", "functions")


@dataclass(frozen=True, slots=True)
class BuildArguments:
    """The arguments that decide the content of a snapshot, in addition to the corpus and the models.

    ``encoder`` is the name or folder to load for queries; ``limit`` counts papers; ``dtype`` ``auto`` stores
    unit vectors as float16 (error about 3e-4 of a distance) and all others as float32; ``tagger`` and
    ``functions`` are files of weights, ``None`` for the shipped weights.
    """

    encoder: str
    format_name: str = "auto"
    on_error: Literal["skip", "fail"] = "skip"
    limit: int | None = None
    backend: str = "auto"
    dtype: Literal["auto", "float16", "float32"] = "auto"
    device: str = "auto"
    precision: Precision = Precision.FLOAT32
    tagger: str | None = None
    functions: str | None = None


def built_with(data: Path) -> BuildArguments | None:
    """Return the arguments that the collection in ``data`` was built with; ``None`` if there is none yet.

    Raises SnapshotCorruptError; SnapshotMissingError if there is one, but CURRENT names no generation of it.
    """
    if not DataFolder(data).has_collection:
        return None
    arguments = read_manifest(data, current_generation(data)).arguments
    return BuildArguments(**{**arguments, "precision": Precision(arguments["precision"])})


def note_begun(data: Path, arguments: BuildArguments) -> None:
    """Store the arguments of a first build until it is finished, so that its repetition takes them too."""
    begun = DataFolder(data).begun
    begun.parent.mkdir(parents=True, exist_ok=True)
    write_note(begun, {name: getattr(arguments, name) for name in _OF_COLLECTION})


def _begun_with(data: Path) -> dict[str, Any]:
    """Return the arguments of a first build that was interrupted; empty if there is none."""
    note = read_note(DataFolder(data).begun)
    return {**note, "precision": Precision(note["precision"])} if note else {}


def arguments_for(data: Path, *, replace: bool = False, **given: Any) -> BuildArguments:
    """Return the arguments ``given`` (not ``None`` or empty), completed by those of the collection.

    The folder of an encoder becomes absolute. If the first build was interrupted, those of that build
    complete them.

    A corpus that is to ``replace`` the collection takes its arguments too, unless the served generation is
    damaged or lost, which the corpus then repairs. Without ``replace``, raises SnapshotCorruptError or
    SnapshotMissingError in that case.
    """
    try:
        usual = built_with(data)
    except (SnapshotCorruptError, SnapshotMissingError):
        if not replace:
            raise
        usual = None
    kept = _begun_with(data) if usual is None else {name: getattr(usual, name) for name in _OF_COLLECTION}
    chosen = {name: value for name, value in given.items() if value not in {None, ""}}
    if "encoder" in chosen:
        chosen["encoder"] = absolute_name(chosen["encoder"])
    return BuildArguments(**{"encoder": "minilm", **kept, **chosen})


def load_models(arguments: BuildArguments, *, device: str | None = None) -> Annotator:
    """Load the models of a collection, on its device or on ``device``; raises EncoderError, WeightsError."""
    return load_annotator(
        arguments.encoder,
        device=device or arguments.device,
        precision=arguments.precision,
        tagger=_path(arguments.tagger),
        functions=_path(arguments.functions),
    )


def _path(named: str | None) -> Path | None:
    return None if named is None else Path(named)


def new_manifest(annotator: Annotator, arguments: BuildArguments) -> Manifest:
    """Return the manifest of an empty collection made with these models."""
    encoder = annotator.encoder.spec
    return Manifest(
        generation="",
        created="",
        encoder=encoder,
        tagger=annotator.tagger.spec,
        functions=annotator.function_spec,
        dtype=dtype_of(arguments, encoder),
        metric="L2",
        splitter=SPLITTER_VERSION,
        segments=(),
        files={},
        change=0,
        arguments=asdict(arguments),
    )


def dtype_of(arguments: BuildArguments, encoder: EncoderSpec) -> str:
    """Return the type that vectors are stored in: ``float16`` or ``float32``."""
    if arguments.dtype != "auto":
        return arguments.dtype
    return "float16" if encoder.normalised else "float32"


def expect_models(manifest: Manifest, annotator: Annotator) -> None:
    """Raise EncoderMismatchError if ``annotator`` has other models than the collection."""
    manifest.expect_encoder(annotator.encoder.spec)
    pairs = {
        "facet weights": (manifest.tagger, annotator.tagger.spec),
        "function weights": (manifest.functions, annotator.function_spec),
    }
    for what, (built_with, given) in pairs.items():
        _expect_same(what, built_with, given)


def _expect_same(what: str, built_with: object, given: object) -> None:
    """Raise EncoderMismatchError if ``given`` differs, which would make added papers incomparable."""
    if built_with != given:
        raise EncoderMismatchError(
            f"The collection was built with another {what}, so added papers would not be comparable; leave "
            "out the option or setting, or change the whole collection with `akin reindex` (or --replace)."
        )


def expect_made_like(manifest: Manifest, annotator: Annotator, arguments: BuildArguments) -> None:
    """Raise EncoderMismatchError if the models, the stored type of vectors or the precision differ."""
    expect_models(manifest, annotator)
    _expect_same("dtype", manifest.dtype, dtype_of(arguments, manifest.encoder))
    _expect_same("precision", manifest.arguments["precision"], arguments.precision)
