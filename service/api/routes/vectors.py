"""``POST /v1/embed`` and ``GET /v1/papers/{id}/vectors``: vectors for programs that compare them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from indexer.corpus.rows import MAX_TITLE_CHARS
from service.access.policy import READ, requires
from service.api.dependencies.engine import EngineDep
from service.api.json_body import JSONBodyRoute
from service.api.middleware.routing import PATH_PATTERN
from service.api.routes.papers import paper
from service.api.schemas.base import PaperAnswerOut
from service.api.schemas.vectors import (
    EmbedIn,
    EmbedOut,
    EncoderOut,
    PaperVectorsAnswerOut,
    PaperVectorsOut,
    VectorEncoding,
)
from service.resolve.embedding import embed
from service.search.lookup import paper_vectors

router = APIRouter(prefix="/v1", tags=["vectors"], route_class=JSONBodyRoute)
_PaperName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=MAX_TITLE_CHARS,
        pattern=PATH_PATTERN,
        description="The id, DOI, arXiv id, address or title of a paper.",
    ),
]


@router.post("/embed")
@requires(READ)
def embed_papers(body: EmbedIn, engine: EngineDep) -> EmbedOut:
    """Return the vectors of abstracts, of each sentence and of the whole; nothing is stored."""
    embedding = embed(engine.annotator.encoder, [paper.to_paper() for paper in body.papers])
    return EmbedOut.of(embedding, body.encoding)


@router.get("/papers/{paper_id:path}/vectors", response_model=PaperVectorsAnswerOut | PaperAnswerOut)
@requires(READ)
def vectors(
    paper_id: _PaperName,
    engine: EngineDep,
    request: Request,
    response: Response,
    encoding: Annotated[VectorEncoding, Query(description="Numbers, or base64.")] = VectorEncoding.FLOAT,
) -> PaperVectorsAnswerOut | PaperAnswerOut | Response:
    """Return the vectors of a paper's sentences as they are indexed, and that of the whole paper."""
    own = f"{paper_id}/vectors"
    if engine.names.identifiers.position(own) is not None:  # the id of a paper may end like this address
        return paper(own, engine, request, response)
    found = paper_vectors(engine, engine.names.position(paper_id))
    return PaperVectorsAnswerOut(
        encoder=EncoderOut.of(engine.snapshot.manifest.encoder),
        paper=PaperVectorsOut.of(found, encoding),
        generation=engine.snapshot.generation,
    )
