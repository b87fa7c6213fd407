"""The settings of BERT's tokenizer for a checkpoint that has ``vocab.txt`` and no ``tokenizer.json``."""

from dataclasses import dataclass
from pathlib import Path

from models.checkpoints.checkpoints import CONFIG, TOKENIZERS, VOCABULARY, read_json
from models.errors import WeightsError

TOKENIZER_SETTINGS = "tokenizer_config.json"
# MPNet's vocabulary also holds BERT's tokens, which its model never saw around a text.
_MPNET = "mpnet"
_MPNET_ENDS = ("<s>", "</s>")
# The classes of transformers that read vocab.txt as BERT's does, without the suffix "Fast".
_LIKE_BERT = (
    "BertTokenizer",
    "ConvBertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "LayoutLMTokenizer",
    "MobileBertTokenizer",
    "MPNetTokenizer",
    "SqueezeBertTokenizer",
)


@dataclass(frozen=True, slots=True)
class VocabularySettings:
    """What ``tokenizer_config.json`` says; the values shown are BERT's.

    ``strip_accents`` removes accents; ``None`` removes them exactly if texts are lower-cased.
    ``split_chinese`` makes a word of every Chinese character. ``ends`` begin and end a text; ``None`` if the
    vocabulary decides.
    """

    lowercase: bool = True
    strip_accents: bool | None = None
    split_chinese: bool = True
    ends: tuple[str, str] | None = None


def vocabulary_settings(folder: Path) -> VocabularySettings:
    """Return the settings for ``vocab.txt`` in ``folder``; raises WeightsError if it is not like BERT's."""
    path = folder / TOKENIZER_SETTINGS
    settings = read_json(path) if path.is_file() else {}
    config = read_json(folder / CONFIG)
    stated = settings.get("tokenizer_class") or config.get("tokenizer_class")
    if stated is not None and str(stated).removesuffix("Fast") not in _LIKE_BERT:
        raise WeightsError(
            f"{folder / VOCABULARY} is for the tokenizer {stated!r}, but Akin reads it only as "
            f"{_LIKE_BERT[0]} does; add its {TOKENIZERS[0]} to the folder."
        )
    accents = settings.get("strip_accents")
    return VocabularySettings(
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=None if accents is None else bool(accents),
        split_chinese=bool(settings.get("tokenize_chinese_chars", True)),
        ends=_MPNET_ENDS if config.get("model_type") == _MPNET else None,
    )
