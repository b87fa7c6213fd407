"""Sentence vectors in the context of title and abstract, as ASPIRE computes them (semantics 3.1, 3.2)."""

from collections.abc import Sequence

from models.checkpoints import LocalCheckpoint
from models.encoders.transformer import Transformer
from models.types import EncodedPaper, EncoderSpec, Paper, Precision, Unit

# WordPieces of title, middle [SEP] and sentences: 500, not 512 (ASPIRE, src/learning/batchers.py:569).
MAX_TOKENS = 500


class ContextualEncoder:
    """One vector per sentence: the mean of its WordPieces' last hidden states, read with title and abstract.

    Title, ``[CLS]`` and ``[SEP]`` act through attention only and enter no sentence vector. The document
    vector is the last layer's ``[CLS]``, or the mean over all tokens where the checkpoint says so
    (``minilm``).
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
        return self._transformer.spec(Unit.SENTENCE)

    def encode(self, papers: Sequence[Paper]) -> list[EncodedPaper]:
        """Encode ``papers``, in order; a sentence cut by the token limit is kept, later ones are counted."""
        return [
            EncodedPaper(rows[1:], rows[0], tokens.dropped)
            for tokens, rows in self._transformer.vectors(papers, with_sentences=True)
        ]
