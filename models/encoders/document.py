"""One vector per paper, the ``[CLS]`` of title ``[SEP]`` abstract, as in SPECTER (semantics 3.12, 4.2)."""

from collections.abc import Sequence

from models.encoder import refuse_layers
from models.encoders.pooled import PooledEncoder
from models.types import EncodedPaper, Paper, Unit

# WordPieces of title, middle [SEP] and abstract; [CLS] and the last [SEP] make it BERT's 512 (SPECTER).
MAX_TOKENS = 510


class DocumentEncoder(PooledEncoder):
    """One vector per paper, returned both as its only row and as its document vector.

    It is pooled from the last layer: its ``[CLS]``, or the mean over all tokens if the checkpoint says so. In
    ASPIRE's bi-encoders a learned mix of all layers replaces the last layer, if the checkpoint has one.
    """

    max_tokens = MAX_TOKENS
    unit = Unit.DOCUMENT

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode ``papers``, in order; ``dropped_sentences`` counts those wholly beyond the token limit."""
        refuse_layers(self.spec, layers)
        return [
            EncodedPaper(rows, rows[0], tokens.dropped)
            for tokens, (rows,) in self._transformer.vectors(papers, with_sentences=False)
        ]
