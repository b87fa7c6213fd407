"""The manifest: what a snapshot says of itself, written last and checked first."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from models.errors import SnapshotCorruptError
from models.types import EncoderSpec, FunctionSpec, TaggerSpec, Unit

FORMAT_VERSION = 2
REMEDY = "run `akin snapshot rollback` to serve the previous generation, or index the corpus again"


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """What the manifest says of one segment; ``files`` maps a name to its SHA-256 (hex).

    ``function_backend`` is ``None`` where no sentence has a function vector.
    """

    name: str
    n_papers: int
    n_rows: int
    backend: str
    function_backend: str | None
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot holds and how it was made; ``created`` is UTC in ISO 8601.

    ``tagger`` gave the facets that the corpus did not, ``functions`` the function vectors.
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
    arguments: dict[str, Any]
    format_version: int = FORMAT_VERSION

    @property
    def n_papers(self) -> int:
        """Papers in all segments."""
        return sum(segment.n_papers for segment in self.segments)

    @property
    def n_rows(self) -> int:
        """Sentence vectors in all segments."""
        return sum(segment.n_rows for segment in self.segments)

    def to_json(self) -> bytes:
        """The file's content: readable, and carrying the SHA-256 of everything else in it."""
        content = asdict(self)
        return json.dumps({**content, "sha256": _digest(content)}, indent=1, sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> "Manifest":
        """Read a manifest; raises SnapshotCorruptError when it is not what was written."""
        try:
            fields = orjson.loads(content)
            stated = fields.pop("sha256")
            if stated != _digest(fields):
                raise SnapshotCorruptError(f"{path}: its content and its own checksum differ; {REMEDY}")
            if fields["format_version"] != FORMAT_VERSION:
                raise SnapshotCorruptError(
                    f"{path}: format version {fields['format_version']}, this Akin reads {FORMAT_VERSION}; "
                    "index the corpus again"
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


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
