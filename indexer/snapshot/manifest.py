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
    """The entry of one segment in a manifest; ``files`` maps file names to their SHA-256 (hex).

    ``function_backend`` is ``None`` if there are no function vectors. ``n_deleted`` of the papers are deleted
    or replaced in this generation.
    """

    name: str
    n_papers: int
    n_rows: int
    backend: str
    function_backend: str | None
    files: dict[str, str]
    n_deleted: int = 0

    def size_in(self, folder: Path) -> int:
        """Return the bytes of its files, which are in ``folder``; raises StorageError."""
        with storage_errors(folder):
            return sum((folder / name).stat().st_size for name in self.files)

    def is_same_as(self, other: "SegmentEntry") -> bool:
        """Return whether both have the same name and files, whatever papers are deleted."""
        return self.name == other.name and self.files == other.files


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a snapshot and how it was made; ``created`` is UTC in ISO 8601.

    ``tagger`` made the facets that the corpus lacks, ``functions`` the function vectors. ``change`` is the
    last catalog change that the snapshot includes, ``catalog`` the id of that catalog, ``base`` the
    generation served before; older manifests lack ``catalog`` and ``base``. ``files`` are the files next to
    the manifest, with their SHA-256. ``effort`` multiplies the usual effort of searching approximate indexes.
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
        """The number of papers in all segments, without deleted ones."""
        return sum(segment.n_papers - segment.n_deleted for segment in self.segments)

    @property
    def n_rows(self) -> int:
        """The number of sentence vectors in all segments, including those of deleted papers."""
        return sum(segment.n_rows for segment in self.segments)

    @property
    def backends(self) -> str:
        """The names of the segments' indexes, joined by ``+``; "none" without any segment."""
        return "+".join(dict.fromkeys(segment.backend for segment in self.segments)) or "none"

    @property
    def models_key(self) -> str:
        """The SHA-256 (hex) of the models and number formats, which decide vectors and facets of papers."""
        functions = self.functions and self.functions.fingerprint
        formats = (Precision(self.arguments["precision"]).value, self.dtype)
        return digest_of({"models": (self.encoder.fingerprint, *formats, self.tagger.fingerprint, functions)})

    def has_models_of(self, other: "Manifest") -> bool:
        """Return whether both use the same models, so that a query is encoded once for both."""
        own, others = ((one.encoder, one.tagger, one.functions) for one in (self, other))
        return own == others

    def is_made_like(self, other: "Manifest") -> bool:
        """Return whether both have the same models and number formats, and so can share encoded papers."""
        same_formats = (self.dtype, self.arguments["precision"]) == (
            other.dtype,
            other.arguments["precision"],
        )
        return same_formats and self.has_models_of(other)

    def expect_encoder(self, spec: EncoderSpec) -> None:
        """Raise EncoderMismatchError for any encoder except the one that made the vectors."""
        made_by = self.encoder
        if spec.fingerprint != made_by.fingerprint:
            raise EncoderMismatchError(
                f"Generation {self.generation} was built with encoder {made_by.name!r} "
                f"({made_by.fingerprint[:12]}), not {spec.name!r} ({spec.fingerprint[:12]}); "
                f"use that encoder, index the corpus again with --replace, or change it with `akin reindex`"
            )

    def expect_functions(self, spec: FunctionSpec | None) -> None:
        """Raise EncoderMismatchError for any encoder of functions except the one that made the vectors.

        If there are no function vectors, any encoder is accepted.
        """
        made_by = self.functions
        if made_by is not None and (spec is None or spec.fingerprint != made_by.fingerprint):
            given = "but none is loaded" if spec is None else f"not {_named(spec)}"
            raise EncoderMismatchError(
                f"Generation {self.generation} got its function vectors from {_named(made_by)}, {given}; "
                "serve it with the version of Akin that built it or index the corpus again"
            )

    def expect_catalog(self, identity: str, last_change: int) -> None:
        """Raise StorageError for any catalog except the collection's own, or a later copy of it.

        ``identity`` and ``last_change`` are those of the given catalog.
        """
        if self.catalog and identity != self.catalog:
            wrong = f"Generation {self.generation} was made from another catalog"
        elif last_change < self.change:
            wrong = (
                f"Generation {self.generation} shows change {self.change} of its catalog, but the given "
                f"catalog ends at change {last_change}: it is another one, or an older copy"
            )
        else:
            return
        raise StorageError(
            f"{wrong}. Name the collection's own (--catalog, AKIN_CATALOG_URL), or copy it there first; "
            "if it is lost, use a backup, or make a new folder from the catalog given (`akin reindex "
            "--data NEW --catalog GIVEN --encoder NAME`) or from the corpus (`akin index CORPUS --data NEW`)."
        )

    def to_json(self) -> bytes:
        """Return the content of the file: indented JSON, with the SHA-256 of everything else in it."""
        content = asdict(self)
        return json.dumps({**content, "sha256": digest_of(content)}, indent=1, sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> "Manifest":
        """Read a manifest; raises SnapshotCorruptError if it differs from what was written."""
        try:
            fields = orjson.loads(content)
            stated = fields.pop("sha256")
            if stated != digest_of(fields):
                raise SnapshotCorruptError(f"{path}: its content does not match its own checksum; {REMEDY}")
            if fields["format_version"] != FORMAT_VERSION:
                raise SnapshotCorruptError(
                    f"{path}: format version {fields['format_version']}, this Akin reads {FORMAT_VERSION}; "
                    "open it with the version of Akin that wrote it, or run `akin reindex`, which rebuilds "
                    "all files from the catalog without loss"
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
