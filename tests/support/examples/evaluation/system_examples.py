"""Four invented papers, queries on them, a counting encoder and a simple tagger."""

from collections.abc import Sequence

import numpy as np

from evaluation.collection import Collection, EvalQuery
from models.encoder import Encoder
from models.facets import FACETS, TaggerSpec
from models.text.sentences import sentences_from_list
from models.types import EncodedPaper, EncoderSpec, Facet, Paper, Unit


def ignore(stage: str, done: int, total: int | None) -> None:
    """Ignore progress."""


class Counting:
    """An encoder that counts the papers it receives."""

    def __init__(self, encoder: Encoder, spec: EncoderSpec | None = None) -> None:
        self._encoder = encoder
        self.spec = spec or encoder.spec
        self.n_papers = 0

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode with the wrapped encoder; return one row for each paper if the unit is a document."""
        self.n_papers += len(papers)
        encoded = self._encoder.encode(papers, layers=layers)
        if self.spec.unit is Unit.DOCUMENT:
            return [EncodedPaper(paper.document[None], paper.document, 0) for paper in encoded]
        return encoded


def paper(paper_id: str, title: str, *sentences: str) -> Paper:
    """Return an invented paper."""
    abstract, split = sentences_from_list(sentences)
    return Paper(id=paper_id, title=title, abstract=abstract, sentences=split)


PAPERS = {
    each.id: each
    for each in (
        paper("q", "Flood forecasting", "Floods threaten river towns.", "A kernel regression reads gauges."),
        paper("same-topic", "River floods", "Floods threaten river towns each year.", "We ask their mayors."),
        paper(
            "same-method", "Bread", "Bakers guess oven heat.", "A kernel regression reads gauges of ovens."
        ),
        paper("neither", "Moths", "Moths sing.", "We listen at night."),
    )
}
OTHERS = ("same-topic", "same-method", "neither")


def collection(*queries: EvalQuery) -> Collection:
    """Return the invented papers with these queries; the judgements do not matter."""
    qrels = {query.id: {"same-topic": 1} for query in queries}
    return Collection("invented", PAPERS, queries, qrels, 1, ("P@1", "MAP"))


METHOD = EvalQuery("q:method", PAPERS["q"], OTHERS, "q", selected=(1,), facet="method")
WHOLE = EvalQuery("q:whole", PAPERS["q"], OTHERS, "q")


class LastIsMethod:
    """A tagger that tags the last sentence as method, and all others as background."""

    spec = TaggerSpec("last", "0" * 64, None, ())

    def tag(self, papers: Sequence[Paper], states: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the facets with probability 1."""
        rows = np.eye(len(FACETS), dtype=np.float32)
        background, method = rows[FACETS.index(Facet.BACKGROUND)], rows[FACETS.index(Facet.METHOD)]
        return [np.stack([background] * (len(each.sentences) - 1) + [method]) for each in papers]
