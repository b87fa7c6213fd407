"""What ASPIRE's own code computes for invented papers under ``write_frozen_bert``.

``aspire_vectors.json`` was derived by running ``AspireConSent`` and ``prepare_abstracts`` of
https://github.com/allenai/aspire, examples/ex_aspire_consent.py, unaltered but for the dimension of 32 and
for [CLS] and [SEP], which newer transformers no longer add at its call, over the folder that
``write_frozen_bert`` writes and each of PAPERS alone; rounded to 6 digits.
"""

import json
from pathlib import Path

import numpy as np

from tests.support.examples.models.tiny_bert import LONG, paper
from tests.support.examples.models.tiny_bert import PAPERS as TINY_PAPERS

_FIXED = ("plain", "sep in title", "single words", "empty title", "cut in a sentence", "exactly full")
PAPERS = {
    **{name: TINY_PAPERS[name] for name in _FIXED},
    "one huge sentence": paper("Neural cell", " ".join([LONG] * 6)),
    "long title": paper(" ".join([LONG] * 2), LONG, LONG, LONG, "A cell."),
}
_STORED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def of(name):
    """ASPIRE's vectors of the kept sentences and of the whole of one of PAPERS, (n_sentences dim), (dim)."""
    return np.array(_STORED[name]["sentences"]), np.array(_STORED[name]["cls"])
