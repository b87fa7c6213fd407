"""DORIS-MAE (Wang et al., NeurIPS Datasets 2023): long questions of several separately judged aspects."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.collection import Collection, EvalQuery
from evaluation.sets.files import json_document, locate
from evaluation.sets.papers import PaperText, notes_on, text_of, text_query, to_papers
from models.errors import CorpusFormatError, InputError

# The grade of a paper with an average score of 1 per aspect; divisible by all numbers of aspects up to 16.
RELEVANT_FROM = 720_720
_FILES = ("DORIS-MAE_dataset_v1.json", "DORIS_MAE_dataset_v1.json", "DORIS_MAE_dataset_v0.json")


class DorisMaeSet:
    """A question of about 170 words ranks its pool of about a hundred abstracts.

    Each aspect and sub-aspect of a question was scored 0, 1 or 2 for each abstract. As in the authors'
    script, an abstract's gain is the sum of its scores over the question's aspects, and it is relevant if
    that sum is at least the number of aspects. Grades here are that ratio times RELEVANT_FROM, so that one
    threshold serves all questions; this does not change nDCG. The authors' NDCG at 10 % of a pool of 100 is
    nDCG@10.
    """

    publisher = "its authors (github.com/Real-Doris-Mae/Doris-Mae-Dataset, which links to Zenodo 8299749)"
    layout = """
<folder>/
  DORIS-MAE_dataset_v1.json      {"Corpus": [{"title", "original_abstract"}],
                                  "Query": [{"query_text", "candidate_pool": [numbers of the corpus],
                                             "aspects": {aspect id: [sub-aspect ids]}}],
                                  "Annotation": [{"aspect_id", "abstract_id", "score"}]}
"""

    def load(self, path: Path) -> Collection:
        """Read the collection; raises CollectionMissingError or CorpusFormatError."""
        file = locate(self, path, *_FILES)
        document = json_document(file)
        try:
            return _collection(document["Corpus"], document["Query"], document["Annotation"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise CorpusFormatError(
                f"{file} is not in the published format ({type(error).__name__}: {error}). Fetch it again."
            ) from error


def _collection(
    corpus: Sequence[Mapping[str, Any]],
    questions: Sequence[Mapping[str, Any]],
    annotations: Sequence[Mapping[str, Any]],
) -> Collection:
    scores: defaultdict[int, dict[str, int]] = defaultdict(dict)  # abstract -> aspect -> score
    for each in annotations:
        scores[int(each["abstract_id"])][str(each["aspect_id"])] = max(int(each["score"]), 0)
    pooled = dict.fromkeys(int(number) for question in questions for number in question["candidate_pool"])
    papers, blank = to_papers(
        PaperText(str(number), text_of(corpus[number], "title"), text_of(corpus[number], "original_abstract"))
        for number in pooled
    )
    queries, qrels = [], {}
    for number, question in enumerate(questions):
        aspects = _aspects(question["aspects"])
        name = f"question:{number}"
        pool = [int(each) for each in question["candidate_pool"] if str(each) in papers]
        if not pool:
            continue
        gains = {each: sum(scores[each].get(aspect, 0) for aspect in aspects) for each in pool}
        qrels[name] = {str(each): gain * RELEVANT_FROM // len(aspects) for each, gain in gains.items()}
        paper = text_query(name, question["query_text"])
        queries.append(EvalQuery(name, paper, tuple(map(str, pool)), name, is_text=True))
    return Collection(
        name="doris-mae",
        papers=papers,
        queries=tuple(queries),
        qrels=qrels,
        relevant_from=RELEVANT_FROM,
        measures=("nDCG@10", "MAP", "Rprec", "R@5", "R@20"),
        notes=notes_on(blank, without_candidates=len(questions) - len(queries)),
        id_prefixes=("doris-mae:",),  # numbers of a list, which may be the ids of other papers
    )


def _aspects(given: Mapping[str, Sequence[object]]) -> set[str]:
    """Return the aspects of a question and their sub-aspects, each once."""
    aspects = {str(name) for name in given} | {str(sub) for subs in given.values() for sub in subs}
    if not aspects:
        raise InputError("A question has no aspects; fetch the collection again.")
    return aspects
