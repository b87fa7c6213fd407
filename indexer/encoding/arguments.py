"""What a collection is made with: the arguments that began it, and the models that they name."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.manifest import Manifest
from models.annotator import Annotator, load_annotator
from models.errors import EncoderMismatchError, SnapshotCorruptError, SnapshotMissingError
from models.text.sentences import SPLITTER_VERSION
from models.types import EncoderSpec, Precision

# What a collection keeps, however papers come into it later.
_OF_COLLECTION: Final = ("encoder", "backend", "dtype", "precision", "tagger", "functions")


@dataclass(frozen=True, slots=True)
class BuildArguments:
    """What decides the content of a snapshot besides the corpus and the models.

    ``encoder`` is the name or folder to load for queries; ``limit`` counts papers; ``dtype`` ``auto`` stores
    unit vectors as float16 (error about 3e-4 of a distance) and all others as float32; ``tagger`` and
    ``functions`` are files of weights, ``None`` for the shipped ones.
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
    """The arguments that began the collection in ``data``; ``None`` where there is none yet.

    Raises SnapshotCorruptError.
    """
    try:
        arguments = read_manifest(data, current_generation(data)).arguments
    except SnapshotMissingError:
        return None
    return BuildArguments(**{**arguments, "precision": Precision(arguments["precision"])})


def arguments_for(data: Path, *, replace: bool = False, **given: Any) -> BuildArguments:
    """Those that are ``given``, not ``None`` and not empty, and else those that began the collection.

    A corpus that is to ``replace`` the collection is built like it, too, unless what is served is damaged:
    that it mends. Raises SnapshotCorruptError.
    """
    try:
        usual = built_with(data)
    except SnapshotCorruptError:
        if not replace:
            raise
        usual = None
    kept = {} if usual is None else {name: getattr(usual, name) for name in _OF_COLLECTION}
    chosen = {name: value for name, value in given.items() if value not in {None, ""}}
    return BuildArguments(**{"encoder": "minilm", **kept, **chosen})


def load_models(arguments: BuildArguments, *, device: str | None = None) -> Annotator:
    """What a collection is made with, on its device or another; raises EncoderError, WeightsError."""
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
    """That of a collection without a paper, made with these models."""
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
    """How vectors are stored: ``float16`` or ``float32``."""
    if arguments.dtype != "auto":
        return arguments.dtype
    return "float16" if encoder.normalised else "float32"


def expect_models(manifest: Manifest, annotator: Annotator) -> None:
    """Refuse to add papers that would not be read as those that are there; raises EncoderMismatchError."""
    manifest.expect_encoder(annotator.encoder.spec)
    pairs = {
        "facet weights": (manifest.tagger, annotator.tagger.spec),
        "function weights": (manifest.functions, annotator.function_spec),
    }
    for what, (built_with, given) in pairs.items():
        _expect_same(what, built_with, given)


def _expect_same(what: str, built_with: object, given: object) -> None:
    """Refuse what would make the papers added incomparable; raises EncoderMismatchError."""
    if built_with != given:
        raise EncoderMismatchError(
            f"The collection was built with another {what}, so added papers would not be comparable; leave "
            "out the option or setting, or change the whole collection with `akin reindex` (or --replace)."
        )


def expect_made_like(manifest: Manifest, annotator: Annotator, arguments: BuildArguments) -> None:
    """The same of a whole corpus, which is also stored and computed as those that are there."""
    expect_models(manifest, annotator)
    _expect_same("dtype", manifest.dtype, dtype_of(arguments, manifest.encoder))
    _expect_same("precision", manifest.arguments["precision"], arguments.precision)
