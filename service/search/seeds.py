"""Seeds resolved: the papers to start from, their vectors, and why some of them cannot be used."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float32

from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.errors import PaperNotFoundError, SentenceSelectionError
from models.types import Paper
from service.answer_warnings import AnswerWarning, WarningCode, warning
from service.context import check_deadline, stage
from service.resolve.near_ids import near_ids
from service.resolve.pasted import read_pasted
from service.resolve.text_query import text_paper, text_warnings
from service.search.aspect import Aspect, Part, facets_missing, query_parts, select_sentences
from service.search.query import (
    AskedSeed,
    SearchQuery,
    Seed,
    SeedReason,
    Suggestion,
    UnresolvedSeed,
    facet_warnings,
    limit_warnings,
)

_MAX_SUGGESTIONS = 3
# Looking for what was meant reads every id of the collection, so a list of strangers gets no more than this.
_MAX_SUGGESTED_FOR = 16
# A name with a space is taken for a title; shorter ones stand in too many.
_MIN_TITLE_CHARS = 8

_NOTHING_TO_CHOOSE = (
    "A query by text counts as one sentence without a facet, so there is nothing to choose in it: leave out "
    "sentences, facet, unlike and focus, or give the text as an abstract."
)


@dataclass(frozen=True, slots=True)
class ResolvedSeed:
    """A seed as it was understood, and its parts: none where no sentence has a facet that was chosen.

    ``position`` is ``None`` for what was pasted. ``missing`` says which facets were asked for in vain.
    """

    asked: AskedSeed
    parts: tuple[Part, ...]
    position: int | None
    warnings: tuple[AnswerWarning, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class _Read:
    """A paper with its vectors, before anything is chosen of it."""

    paper: Paper
    vectors: Float32[np.ndarray, "n_sentence dim"]
    position: int | None = None
    dropped_sentences: int = 0
    warnings: tuple[AnswerWarning, ...] = ()


class SeedReader:
    """Reads the seeds of queries to one collection.

    Args:
        snapshot: the collection.
        position: where the paper with a name stands; raises PaperNotFoundError.
        annotator: loads the encoder, and what reads its layers, when first called.
    """

    def __init__(
        self, snapshot: Snapshot, position: Callable[[str], int], annotator: Callable[[], Annotator]
    ) -> None:
        self._snapshot = snapshot
        self._position = position
        self._annotator = annotator

    def resolve(self, query: SearchQuery) -> tuple[list[ResolvedSeed], list[UnresolvedSeed]]:
        """The seeds and then the negatives that can be used, in order, and those that cannot.

        Raises DeadlineError; PaperNotFoundError and SentenceSelectionError unless ``query.skip_unresolved``.
        """
        given = [(number, False, seed) for number, seed in enumerate(query.seeds)]
        given += [(number, True, seed) for number, seed in enumerate(query.negatives)]
        resolved: list[ResolvedSeed] = []
        unresolved: list[UnresolvedSeed] = []
        for number, negative, seed in given:
            check_deadline()
            try:
                seen = self._resolve(seed, number, negative=negative)
            except (PaperNotFoundError, SentenceSelectionError) as error:
                if not query.skip_unresolved:
                    raise
                unresolved.append(self._unresolved(number, negative, seed, error, among=unresolved))
                continue
            if query.skip_unresolved and not seen.parts:
                reason = SeedReason.NO_SENTENCE_OF_THAT_FACET
                unresolved.append(UnresolvedSeed(number, negative, reason, seen.missing))
            else:
                resolved.append(seen)
        return resolved, unresolved

    def _resolve(self, seed: Seed, number: int, *, negative: bool) -> ResolvedSeed:
        read = self._read(seed)
        n_vectors, unit = len(read.vectors), self._snapshot.manifest.encoder.unit
        selection = select_sentences(seed.aspect, read.paper, n_vectors=n_vectors, unit=unit)
        asked = AskedSeed(
            number, negative, read.paper, selection.like, selection.unlike, read.dropped_sentences
        )
        present = frozenset(sentence.facet for sentence in read.paper.sentences[:n_vectors])
        warnings = (
            *read.warnings,
            *facet_warnings(seed.aspect, selection, present),
            *limit_warnings(seed.aspect, n_vectors),
        )
        if not selection.like:
            missing = facets_missing(seed.aspect, read.paper, n_vectors=n_vectors)
            return ResolvedSeed(asked, (), read.position, warnings, missing)
        parts = query_parts(
            seed.aspect,
            selection,
            read.paper,
            read.vectors,
            unit=unit,
            weight=seed.weight,
            seed=number,
            negative=negative,
        )
        return ResolvedSeed(asked, tuple(parts), read.position, warnings)

    def _read(self, seed: Seed) -> _Read:
        snapshot = self._snapshot
        if seed.paper_id is not None:
            position = self._position(seed.paper_id)
            paper, vectors = snapshot.paper(position), snapshot.vectors(position)
            return _Read(paper, vectors, position, snapshot.dropped_sentences(position))
        if seed.text is not None:
            paper = text_paper(seed.text)
            if seed.aspect != Aspect():
                raise SentenceSelectionError(_NOTHING_TO_CHOOSE)
            with stage("encode"):
                (encoded,) = self._annotator().encoder.encode([paper])
            return _Read(paper, encoded.sentences, warnings=text_warnings(paper.abstract))
        if seed.paper is None:
            raise SentenceSelectionError("The query is empty; give an id, a title and abstract, or a text.")
        paper, warnings = read_pasted(seed.paper)
        annotator, built_with = self._annotator(), snapshot.manifest.tagger
        # One at a time: on processors that is as fast as together, and as precise to stop as it gets.
        with stage("encode"):
            (annotated,) = annotator.annotate([paper])
        if seed.aspect.names_facets and annotator.tagger.spec.fingerprint != built_with.fingerprint:
            warnings += (warning(WarningCode.INDEXED_WITH_OTHER_TAGGER, built_with.name),)
        encoded = annotated.encoded
        return _Read(annotated.paper, encoded.sentences, None, encoded.dropped_sentences, warnings)

    def _unresolved(
        self, number: int, negative: bool, seed: Seed, error: Exception, *, among: list[UnresolvedSeed]
    ) -> UnresolvedSeed:
        if isinstance(error, SentenceSelectionError):
            return UnresolvedSeed(number, negative, SeedReason.SELECTION_IMPOSSIBLE, str(error))
        n_strangers = sum(other.reason is SeedReason.NOT_INDEXED for other in among)
        near = tuple(self._suggestions(seed.paper_id or "")) if n_strangers < _MAX_SUGGESTED_FOR else ()
        detail = "No paper of this collection has this id" + (
            "; did_you_mean lists what comes near." if near else "."
        )
        return UnresolvedSeed(number, negative, SeedReason.NOT_INDEXED, detail, near)

    def _suggestions(self, given: str) -> Iterator[Suggestion]:
        snapshot = self._snapshot
        positions = near_ids(snapshot.column("id"), given, limit=_MAX_SUGGESTIONS)
        title = " ".join(given.split())
        if not positions and " " in title and len(title) >= _MIN_TITLE_CHARS:
            found = pc.match_substring(snapshot.column("title"), title, ignore_case=True)
            positions = np.flatnonzero(pc.fill_null(found, False))[:_MAX_SUGGESTIONS].tolist()
        for position in positions:
            if snapshot.living[position]:
                paper = snapshot.paper(position)
                yield Suggestion(paper.id, paper.title)
