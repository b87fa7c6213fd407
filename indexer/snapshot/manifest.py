"""The manifest of a snapshot, written last and checked first."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from indexer.files.durable import storage_errors
from models.checksums import digest_of
from models.errors import EncoderMismatchError, SnapshotCorruptError, StorageError
from models.facets import TaggerSpec
from models.functions import FunctionSpec
from models.types import EncoderSpec, Precision, Unit

FORMAT_VERSION = 3
REMEDY = (
    "run `akin reindex`, which rebuilds all files from the catalog without loss, or restore the file from a "
    "backup; `akin snapshot rollback` and `akin index CORPUS --replace` lose papers that were added since"
)


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """What the manifest says of one segment; ``files`` maps a name to its SHA-256 (hex).

    ``function_backend`` is ``None`` where no sentence has a function vector. ``n_deleted`` of the papers are
    deleted or replaced in this generation.
    """

    name: str
    n_papers: int
    n_rows: int
    backend: str
    function_backend: str | None
    files: dict[str, str]
    n_deleted: int = 0

    def size_in(self, folder: Path) -> int:
        """The bytes of its files, which stand in ``folder``; raises StorageError."""
        with storage_errors(folder):
            return sum((folder / name).stat().st_size for name in self.files)

    def is_same_as(self, other: "SegmentEntry") -> bool:
        """Whether both are the same files, whatever is deleted."""
        return self.name == other.name and self.files == other.files


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot holds and how it was made; ``created`` is UTC in ISO 8601.

    ``tagger`` gave the facets that the corpus did not, ``functions`` the function vectors. ``change`` is the
    last change of the catalog that is in it, ``catalog`` the id of that catalog, ``base`` the generation that
    was served before; older manifests have neither of the two. ``files`` are those beside the manifest, with
    their SHA-256. ``effort`` is how many times as hard as usual its approximate indexes are searched.
    """

    generation: str
    created: str
    encoder: EncoderSpec
    tagger: TaggerSpec
    functions: FunctionSpec | None
    dtype: str
    metric: str
    splitter: str
    segments: tuple[SegmentEntry, ...]
    files: dict[str, str]
    change: int
    arguments: dict[str, Any]
    catalog: str | None = None
    base: str | None = None
    effort: float = 1.0
    format_version: int = FORMAT_VERSION

    @property
    def n_papers(self) -> int:
        """Papers in all segments but the deleted ones."""
        return sum(segment.n_papers - segment.n_deleted for segment in self.segments)

    @property
    def n_rows(self) -> int:
        """Sentence vectors in all segments, those of deleted papers included."""
        return sum(segment.n_rows for segment in self.segments)

    @property
    def models_key(self) -> str:
        """SHA-256 (hex) of all that decides vectors and facets besides the paper: models, number formats."""
        functions = self.functions and self.functions.fingerprint
        formats = (Precision(self.arguments["precision"]).value, self.dtype)
        return digest_of({"models": (self.encoder.fingerprint, *formats, self.tagger.fingerprint, functions)})

    def has_models_of(self, other: "Manifest") -> bool:
        """Whether the same models read a query for both."""
        own, others = ((one.encoder, one.tagger, one.functions) for one in (self, other))
        return own == others

    def is_made_like(self, other: "Manifest") -> bool:
        """Whether papers encoded for the one can stand in the other: the same models and number formats."""
        same_formats = (self.dtype, self.arguments["precision"]) == (
            other.dtype,
            other.arguments["precision"],
        )
        return same_formats and self.has_models_of(other)

    def expect_encoder(self, spec: EncoderSpec) -> None:
        """Refuse any encoder but the one that made the vectors; raises EncoderMismatchError."""
        made_by = self.encoder
        if spec.fingerprint != made_by.fingerprint:
            raise EncoderMismatchError(
                f"Generation {self.generation} was built with encoder {made_by.name!r} "
                f"({made_by.fingerprint[:12]}), not {spec.name!r} ({spec.fingerprint[:12]}); "
                f"use that encoder, index the corpus again with --replace, or change it with `akin reindex`"
            )

    def expect_functions(self, spec: FunctionSpec | None) -> None:
        """Refuse any encoder of functions but the one that made the function vectors, where there are some.

        Raises EncoderMismatchError.
        """
        made_by = self.functions
        if made_by is not None and (spec is None or spec.fingerprint != made_by.fingerprint):
            given = "but none is loaded" if spec is None else f"not {_named(spec)}"
            raise EncoderMismatchError(
                f"Generation {self.generation} got its function vectors from {_named(made_by)}, {given}; "
                "serve it with the version of Akin that built it or index the corpus again"
            )

    def expect_catalog(self, identity: str, last_change: int) -> None:
        """Refuse any catalog but the collection's own, or a later copy of it; raises StorageError.

        ``identity`` and ``last_change`` are those of the catalog given.
        """
        if self.catalog and identity != self.catalog:
            wrong = f"Generation {self.generation} was made from another catalog"
        elif last_change < self.change:
            wrong = (
                f"Generation {self.generation} shows change {self.change} of its catalog, the one given has "
                f"come to {last_change} only: it is another, or an older copy"
            )
        else:
            return
        raise StorageError(
            f"{wrong}. Name the collection's own (--catalog, AKIN_CATALOG_URL), or copy it there first; "
            "if it is lost, make a new folder from this one with `akin reindex`."
        )

    def to_json(self) -> bytes:
        """The file's content: readable, and carrying the SHA-256 of everything else in it."""
        content = asdict(self)
        return json.dumps({**content, "sha256": digest_of(content)}, indent=1, sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> "Manifest":
        """Read a manifest; raises SnapshotCorruptError when it is not what was written."""
        try:
            fields = orjson.loads(content)
            stated = fields.pop("sha256")
            if stated != digest_of(fields):
                raise SnapshotCorruptError(f"{path}: its content does not match its own checksum; {REMEDY}")
            if fields["format_version"] != FORMAT_VERSION:
                raise SnapshotCorruptError(
                    f"{path}: format version {fields['format_version']}, this Akin reads {FORMAT_VERSION}; "
                    "run `akin index CORPUS --replace`"
                )
            encoder, tagger, functions = (fields.pop(name) for name in ("encoder", "tagger", "functions"))
            segments = tuple(SegmentEntry(**segment) for segment in fields.pop("segments"))
            return cls(
                encoder=EncoderSpec(**{**encoder, "unit": Unit(encoder["unit"])}),
                tagger=TaggerSpec(**{**tagger, "layers": tuple(tagger["layers"])}),
                functions=functions and FunctionSpec(**{**functions, "layers": tuple(functions["layers"])}),
                segments=segments,
                **fields,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SnapshotCorruptError(f"{path}: not a manifest ({error}); {REMEDY}") from error


def _named(spec: FunctionSpec) -> str:
    return f"{spec.name!r} ({spec.fingerprint[:12]})"
