"""The vectors of invented papers by ASPIRE's own code, with the weights of ``write_frozen_bert``.

``aspire_vectors.json`` is the output of ``AspireConSent`` and ``prepare_abstracts`` of
https://github.com/allenai/aspire, examples/ex_aspire_consent.py, on the folder of ``write_frozen_bert`` and
each of PAPERS alone, rounded to 6 digits. Their code was only changed for the dimension of 32 and for [CLS]
and [SEP], which newer versions of transformers no longer add at its call.
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
    """Return ASPIRE's vectors of one of PAPERS: kept sentences (n_sentences, dim) and document (dim,)."""
    return np.array(_STORED[name]["sentences"]), np.array(_STORED[name]["cls"])
