"""Examples without citations: two crops of an abstract, or a sentence and the rest (semantics 4.3)."""

import zlib
from collections.abc import Mapping

import numpy as np

from models.text.sentences import sentences_from_list
from models.training.examples import Example
from models.training.pairs.citing import short_text
from models.types import Paper

_MIN_CROP_WORDS = 10
_LEFT_IN = 0.1  # of the queries of inverse cloze, as in ASPIRE's data, stay in the rest: words count, too


def independent_crops(papers: Mapping[str, Paper], *, seed: int) -> tuple[list[Example], dict[str, Paper]]:
    """Return two spans of words of each abstract, drawn independently: independent cropping (Zeta Alpha).

    A span has at least 10 words and at most half of the abstract's, or exactly 10 if half is less. Papers
    with fewer than 10 words are left out. The crops are also returned, as texts.
    """
    examples, texts = [], {}
    for name in sorted(papers):
        words = papers[name].abstract.split()
        if len(words) < _MIN_CROP_WORDS:
            continue
        rng = np.random.default_rng([seed, 3, _number(name)])
        crops = []
        for side in ("a", "b"):
            longest = max(_MIN_CROP_WORDS, len(words) // 2)
            length = int(rng.integers(_MIN_CROP_WORDS, longest + 1))
            start = int(rng.integers(len(words) - length + 1))
            crop = f"crop:{name}:{side}"
            texts[crop] = short_text(crop, " ".join(words[start : start + length]))
            crops.append(crop)
        examples.append(Example(crops[0], crops[1]))
    return examples, texts


def inverse_cloze(papers: Mapping[str, Paper], *, seed: int) -> tuple[list[Example], dict[str, Paper]]:
    """Return a sentence of each abstract as the query, with the rest of the paper: inverse cloze (ICT).

    One sentence in ten is left in the rest. Papers with fewer than three sentences are left out. Queries and
    rests are also returned, as texts.
    """
    examples, texts = [], {}
    for name in sorted(papers):
        paper = papers[name]
        if len(paper.sentences) < 3:
            continue
        rng = np.random.default_rng([seed, 4, _number(name)])
        chosen = int(rng.integers(len(paper.sentences)))
        query, rest = f"cloze:{name}", f"rest:{name}"
        texts[query] = short_text(query, paper.sentences[chosen].text)
        is_left_in = rng.random() < _LEFT_IN
        kept = [own.text for i, own in enumerate(paper.sentences) if i != chosen or is_left_in]
        abstract, sentences = sentences_from_list(kept)
        texts[rest] = Paper(id=rest, title=paper.title, abstract=abstract, sentences=sentences)
        examples.append(Example(query, rest))
    return examples, texts


def _number(name: str) -> int:
    """Return a seed for a name, the same in every process."""
    return zlib.crc32(name.encode())
