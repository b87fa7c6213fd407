"""One vector per paper, the ``[CLS]`` of title ``[SEP]`` abstract, as in SPECTER (semantics 3.12, 4.2)."""

from collections.abc import Sequence

from models.checkpoints import LocalCheckpoint
from models.encoders.transformer import Transformer
from models.types import EncodedPaper, EncoderSpec, Paper, Precision, Unit

# WordPieces of title, middle [SEP] and abstract; [CLS] and the last [SEP] make it BERT's 512 (SPECTER).
MAX_TOKENS = 510


class DocumentEncoder:
    """One vector per paper, given both as its only row and as its document vector.

    The last layer's ``[CLS]``; for ASPIRE's bi-encoders that of the learned mix of all layers, where the
    checkpoint carries one.
    """

    def __init__(
        self,
        checkpoint: LocalCheckpoint,
        *,
        device: str = "auto",
        precision: Precision = Precision.FLOAT32,
        batch_tokens: int | None = None,
    ) -> None:
        self._transformer = Transformer(
            checkpoint, max_tokens=MAX_TOKENS, device=device, precision=precision, batch_tokens=batch_tokens
        )

    @property
    def spec(self) -> EncoderSpec:
        """What a snapshot must remember of this encoder."""
        return self._transformer.spec(Unit.DOCUMENT)

    def encode(self, papers: Sequence[Paper]) -> list[EncodedPaper]:
        """Encode ``papers``, in order; ``dropped_sentences`` are those wholly past the token limit."""
        return [
            EncodedPaper(rows, rows[0], tokens.dropped)
            for tokens, rows in self._transformer.vectors(papers, with_sentences=False)
        ]
