"""Sentence vectors in the context of title and abstract, as ASPIRE computes them (semantics 3.1, 3.2)."""

from collections.abc import Sequence

from models.encoders.pooled import PooledEncoder
from models.types import EncodedPaper, Paper, Unit

# WordPieces of title, middle [SEP] and sentences: 500, not 512 (ASPIRE, src/learning/batchers.py:569).
MAX_TOKENS = 500


class ContextualEncoder(PooledEncoder):
    """One vector per sentence: the mean of its WordPieces' last hidden states, in the context of the paper.

    Title, ``[CLS]`` and ``[SEP]`` act only through attention and enter no sentence vector. The document
    vector is the last layer's ``[CLS]``, or the mean over all tokens if the checkpoint says so
    (``minilm``). Hidden layers are pooled over the same WordPieces.
    """

    max_tokens = MAX_TOKENS
    unit = Unit.SENTENCE

    @property
    def n_layers(self) -> int:
        """The number of the transformer's last layer; 0 is the embeddings."""
        return self._transformer.n_layers

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode ``papers``, in order; a sentence cut by the token limit is kept, later ones are dropped.

        ``dropped_sentences`` counts the dropped ones. Raises EncoderError for layers the model does not have.
        """
        encoded = []
        for tokens, states in self._transformer.vectors(papers, with_sentences=True, layers=layers):
            after = 1 + len(tokens.sentences)
            hidden = (states[1:, 1:after], states[1:, after:]) if layers else (None, None)
            encoded.append(EncodedPaper(states[0, 1:after], states[0, 0], tokens.dropped, *hidden))
        return encoded
