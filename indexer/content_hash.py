"""The hash of a paper's content."""

import hashlib
import json

from models.types import Paper


def content_hash(paper: Paper) -> str:
    """Return the SHA-256 (hex) of all fields of a paper, including sentence offsets and facets.

    Equal papers have equal hashes in every process and version of Python.
    """
    content = [
        paper.id,
        paper.title,
        paper.abstract,
        [(sentence.start, sentence.end, sentence.facet) for sentence in paper.sentences],
        paper.year,
        paper.venue,
        paper.authors,
        paper.url,
        paper.doi,
        paper.fields,
    ]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest()
