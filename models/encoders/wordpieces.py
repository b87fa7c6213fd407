"""Tokenises papers to WordPieces (semantics 3.1), and groups sequences into batches under a token budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from models.checkpoints.checkpoints import VOCABULARY, tokenizer_file
from models.checkpoints.vocabulary import vocabulary_settings
from models.counts import counted
from models.errors import EncoderError, WeightsError
from models.types import Paper

UNKNOWN = "[UNK]"
# Of BERT and related models, then of RoBERTa and related models (MPNet also has "[UNK]").
SPECIAL_TOKENS = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]", "<s>", "<pad>", "</s>", "<unk>", "<mask>")
# The tokens that begin and end a text, for tokenizers that do not define them.
_ENDS = (("[CLS]", "[SEP]"), ("<s>", "</s>"))


@dataclass(frozen=True, slots=True)
class PaperTokens:
    """One paper as the model reads it: ``[CLS] title [SEP] sentence sentence ... [SEP]``.

    ``[CLS]`` and ``[SEP]`` stand for the tokens that begin and end a text in the model's own tokenizer, such
    as RoBERTa's ``<s>`` and ``</s>``. ``sentences[i] = (start, stop)`` are the positions in ``ids`` of
    sentence i's WordPieces, for the sentences that fit; ``dropped`` counts the other sentences.
    """

    ids: tuple[int, ...]
    sentences: tuple[tuple[int, int], ...]
    dropped: int


class WordPieces:
    """The tokenizer (``tokenizer.json`` or ``vocab.txt``) of a folder, which makes ``PaperTokens`` of papers.

    ``max_tokens`` bounds title, middle ``[SEP]`` and sentences together, without ``[CLS]`` and the last
    ``[SEP]``. Raises WeightsError for a tokenizer that cannot be read or adds no tokens around a text.
    """

    def __init__(self, folder: Path, *, max_tokens: int) -> None:
        self._tokenizer = _read_tokenizer(folder)
        # Some tokenizer.json files set truncation and padding (all-MiniLM-L6-v2: both to 128).
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.max_tokens = max_tokens
        self._cls, self._sep = self._ends(folder)
        unknown = (self._tokenizer.token_to_id(token) for token in (UNKNOWN, "<unk>"))
        # Byte-level tokenizers can encode any text and have no unknown token.
        self._unknown = next((number for number in unknown if number is not None), self._sep)

    @property
    def vocabulary_size(self) -> int:
        """The number of different token ids."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def tokenise(self, papers: Sequence[Paper]) -> list[PaperTokens]:
        """Tokenise the title and every sentence of every paper separately, in one bulk call.

        Raises EncoderError for a text that cannot be tokenised.
        """
        texts = [text for paper in papers for text in (paper.title, *(s.text for s in paper.sentences))]
        try:
            encodings = iter(self._tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        except Exception as error:  # as in _read_tokenizer
            raise EncoderError(
                f"The texts of {counted(len(papers), 'paper')} cannot be tokenised: {error}"
            ) from error
        tokenised = []
        for paper in papers:
            title = next(encodings).ids
            tokenised.append(self._assemble(title, [next(encodings).ids for _ in paper.sentences]))
        return tokenised

    def _assemble(self, title: list[int], sentences: list[list[int]]) -> PaperTokens:
        if len(title) + 1 >= self.max_tokens:
            # ASPIRE's code stops with an assertion here. Half of the tokens are more than any real title
            # needs, and leave the other half to the abstract, which the search is about.
            title = title[: self.max_tokens // 2 - 1]
        ids = [self._cls, *title, self._sep]
        end = self.max_tokens + 1  # +1: [CLS] stands before the counted tokens
        spans: list[tuple[int, int]] = []
        for sentence in sentences:
            if len(ids) == end:
                break
            # A sentence of control characters has no WordPiece; its zero vector would be near everything.
            pieces = (sentence or [self._unknown])[: end - len(ids)]
            spans.append((len(ids), len(ids) + len(pieces)))
            ids += pieces
        ids.append(self._sep)
        return PaperTokens(tuple(ids), tuple(spans), len(sentences) - len(spans))

    def _ends(self, folder: Path) -> tuple[int, int]:
        """Return the tokens that begin and end a text; raises WeightsError without them."""
        around = self._tokenizer.encode("", add_special_tokens=True).ids
        if len(around) == 2:
            return around[0], around[1]
        for begin, end in _ENDS:
            numbers = self._tokenizer.token_to_id(begin), self._tokenizer.token_to_id(end)
            if numbers[0] is not None and numbers[1] is not None:
                return numbers[0], numbers[1]
        named = " or ".join(f"{begin} and {end}" for begin, end in _ENDS)
        raise WeightsError(
            f"The tokenizer in {folder} does not put two special tokens around a text, and has none named "
            f"{named}; expected the tokenizer of an encoder."
        )


def plan_batches(lengths: Sequence[int], *, batch_tokens: int) -> list[list[int]]:
    """Group sequences of similar length: in each batch, count times longest is at most ``batch_tokens``.

    The longest come first, so that memory runs out at the start or never; a sequence longer than the budget
    gets its own batch. Sorting saves time: in random order, padding was 52 % of the work.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def _read_tokenizer(folder: Path) -> Tokenizer:
    path = tokenizer_file(folder)
    try:
        return _from_vocabulary(folder) if path.name == VOCABULARY else Tokenizer.from_file(str(path))
    except WeightsError:
        raise
    except Exception as error:  # tokenizers raises bare Exception from Rust, nothing narrower
        raise WeightsError(f"{path} cannot be read as a tokenizer: {error}") from error


def _from_vocabulary(folder: Path) -> Tokenizer:
    """Return BERT's tokenizer from ``vocab.txt``."""
    vocabulary = WordPiece.read_file(str(folder / VOCABULARY))
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token=UNKNOWN))
    settings = vocabulary_settings(folder)
    tokenizer.normalizer = BertNormalizer(
        lowercase=settings.lowercase,
        strip_accents=settings.strip_accents,
        handle_chinese_chars=settings.split_chinese,
    )
    tokenizer.pre_tokenizer = BertPreTokenizer()
    # So that a literal "[SEP]" in a text becomes the token, as in ASPIRE's tokenizer (semantics 3.1).
    tokenizer.add_special_tokens([token for token in SPECIAL_TOKENS if token in vocabulary])
    if settings.ends is not None:
        begin, end = settings.ends
        numbers = [(token, vocabulary[token]) for token in settings.ends]
        tokenizer.post_processor = TemplateProcessing(single=f"{begin} $A {end}", special_tokens=numbers)
    return tokenizer
