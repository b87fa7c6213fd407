"""The base class of encoders that pool hidden states of a checkpoint: loading and specification."""

from typing import ClassVar

from models.checkpoints.checkpoints import LocalCheckpoint
from models.encoders.transformer import Transformer
from models.types import EncoderSpec, Precision, Unit


class PooledEncoder:
    """An encoder of up to ``max_tokens``; a subclass defines the unit of a row and implements ``encode``.

    ``max_tokens`` counts the WordPieces of title, middle ``[SEP]`` and abstract, as in ``Transformer``.
    """

    max_tokens: ClassVar[int]
    unit: ClassVar[Unit]

    def __init__(
        self,
        checkpoint: LocalCheckpoint,
        *,
        device: str = "auto",
        precision: Precision = Precision.FLOAT32,
        batch_tokens: int | None = None,
    ) -> None:
        self._transformer = Transformer(
            checkpoint,
            max_tokens=self.max_tokens,
            device=device,
            precision=precision,
            batch_tokens=batch_tokens,
        )

    @property
    def spec(self) -> EncoderSpec:
        """The properties of this encoder that a snapshot stores."""
        return self._transformer.spec(self.unit)
