"""Preparation of a pasted paper: split into sentences, cut to a maximum, with warnings."""

from dataclasses import replace

from indexer.corpus.rows import MAX_SENTENCES
from models.text.language import other_language
from models.text.sentences import split_sentences
from models.types import Paper
from service.answer_warnings import AnswerWarning, WarningCode, warning


def read_pasted(paper: Paper) -> tuple[Paper, tuple[AnswerWarning, ...]]:
    """Return ``paper`` with its first MAX_SENTENCES sentences, and warnings of cut ones and other languages.

    A paper without sentences is split. No encoder reads that many sentences of a paper; more would only make
    the answer longer.
    """
    language = other_language(paper.abstract)
    warnings = () if language is None else (warning(WarningCode.ABSTRACT_NOT_ENGLISH, language),)
    paper = paper if paper.sentences else replace(paper, sentences=split_sentences(paper.abstract))
    if (n_cut := len(paper.sentences) - MAX_SENTENCES) <= 0:
        return paper, warnings
    kept = replace(paper, sentences=paper.sentences[:MAX_SENTENCES])
    return kept, (*warnings, warning(WarningCode.SENTENCES_CUT, n_cut))
