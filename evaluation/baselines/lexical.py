"""Lexical baselines: BM25 and tf-idf over words, which every table of sentence vectors must include."""

import re
from collections.abc import Sequence

import bm25s
import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN
from jaxtyping import Float64
from sklearn.feature_extraction.text import TfidfVectorizer

from models.types import Paper

# Lucene's defaults except k1 (1.2 there): both are bm25s's, chosen before any figure was seen.
K1, B = 1.5, 0.75
STOP_WORDS = frozenset(STOPWORDS_EN)  # Lucene's 33
_WORD = re.compile(r"\w\w+")

Words = list[str]


def words(text: str) -> Words:
    """Return the lower-cased, stemmed (Snowball English) words of two or more characters; no stop words."""
    found = [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]
    # A new stemmer each time: it keeps a cache and is not safe to share between threads.
    stems: Words = Stemmer.Stemmer("english").stemWords(found)
    return stems


def paper_text(paper: Paper, selected: Sequence[int] | None = None) -> str:
    """Return title and abstract, or only the ``selected`` sentences."""
    if selected is None:
        return f"{paper.title} {paper.abstract}"
    return " ".join(paper.sentences[number].text for number in selected)


class Bm25:
    """BM25 as Lucene computes it (bm25s), k1 1.5, b 0.75; a word that a query repeats counts again."""

    def __init__(self, documents: Sequence[Words]) -> None:
        self._n_documents = len(documents)
        self._index = bm25s.BM25(k1=K1, b=B, method="lucene")
        self._index.index(documents, show_progress=False)

    def scores(self, query: Words) -> Float64[np.ndarray, " n_papers"]:
        """Return the score of every document; 0 if it shares no word with ``query``."""
        known = self._index.get_tokens_ids(query)
        if not known:
            return np.zeros(self._n_documents)
        return np.asarray(self._index.get_scores_from_ids(known), dtype=np.float64)


class TfIdf:
    """Cosine of tf-idf vectors, with idf smoothed as in scikit-learn and raw tf."""

    def __init__(self, documents: Sequence[Words]) -> None:
        self._vectorizer = TfidfVectorizer(analyzer=_as_is)
        self._documents = self._vectorizer.fit_transform(documents)

    def scores(self, query: Words) -> Float64[np.ndarray, " n_papers"]:
        """Return the cosine of every document with ``query``."""
        vector = self._vectorizer.transform([query])
        cosines: Float64[np.ndarray, " n_papers"] = (self._documents @ vector.T).toarray()[:, 0]
        return cosines


def _as_is(document: Words) -> Words:
    return document
