"""TRECCOVID-RF (ASPIRE, section 4): TREC-COVID as queries by example, read or built by the paper's rule."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evaluation.collection import Collection, EvalQuery
from evaluation.sets.aspire.layout import MEASURES, SPLITS_NOTE, aspire_layout, load_aspire
from evaluation.sets.files import csv_rows, is_there, locate, text_lines
from evaluation.sets.papers import PaperText, notes_on, to_papers
from models.errors import BrokenRowError

# From the publishers' script: with these seeds Python draws the same queries and the same split.
QUERIES_SEED, SPLIT_SEED = 472945, 582
QUERIES_PER_TOPIC = 50
HIGHLY_RELEVANT = "2"
_QRELS = "qrels-covid_d5_j0.5-5.txt"
_METADATA = ("metadata-2021-06-21.csv", "metadata.csv")
# Cells that pandas, which the publishers used to read the metadata, treats as missing.
_MISSING = frozenset(
    "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN <NA> N/A NA NULL NaN n/a nan null".split()  # noqa: SIM905 - a list of words reads better
) | {"", "#N/A N/A"}


class TreccovidRfSet:
    """ASPIRE's prepared files if present, else the set built from TREC-COVID's judgements and CORD-19.

    The rule, from ASPIRE's ``get_qbe_pools``: only papers judged 2 for some topic and with a title and an
    abstract take part. Topics are processed in order, the one with the fewest such papers first: its papers
    are shuffled, and the first 50 judged 2 for that topic alone are queries. A query ranks all other papers;
    those judged 2 for its topic have grade 1, the rest 0. Topics, sorted as text and shuffled, are halved
    into dev and test. Shuffles are Python's with the publishers' seeds, so the same metadata gives the same
    queries and split; sentences come from our splitter, the publishers used scispaCy. Intervals resample
    topics, not queries: the 50 queries of a topic share all their judgements.
    """

    publisher = (
        "ASPIRE's authors (github.com/allenai/aspire, datasets.md: TRECCOVID-RF-Aspire on figshare), "
        "or for building it NIST (ir.nist.gov/trec-covid, round 5) and CORD-19 (release 2021-06-21)"
    )
    layout = f"""{aspire_layout("treccovid").rstrip()}
or, to build it from
<folder>/
  {_QRELS}     topic iteration cord_uid grade
  metadata-2021-06-21.csv       CORD-19: cord_uid, title, abstract, ... (or metadata.csv)
"""

    def load(self, path: Path) -> Collection:
        """Read or build the set; raises CollectionMissingError, BrokenRowError or CorpusFormatError."""
        if is_there(path, _QRELS) and not is_there(path, "abstracts-treccovid.jsonl"):
            return _build(locate(self, path, _QRELS), locate(self, path, *_METADATA))
        collection = load_aspire(self, path, name="treccovid", relevant_from=1)
        return replace(collection, name="treccovid-rf")


def _build(qrels_path: Path, metadata: Path) -> Collection:
    relevant = _highly_relevant(qrels_path)
    n_topics = Counter(paper_id for ids in relevant.values() for paper_id in ids)
    papers, blank = to_papers(_texts(metadata, n_topics))
    # The publishers' script treats a cell of white space as text, so such a paper takes part in the draw.
    known = papers.keys() | set(blank)
    present = {
        topic: kept for topic, ids in relevant.items() if (kept := [paper for paper in ids if paper in known])
    }
    drawn = draw_queries(present, n_topics)
    folds = split_topics([topic for topic, ids in drawn.items() if ids])
    queries, qrels = [], {}
    for topic, ids in drawn.items():
        for query_id in ids:
            if query_id in papers:
                query = EvalQuery(query_id, papers[query_id], (), f"topic:{topic}", fold=folds[topic])
                queries.append(query)
                qrels[query_id] = {
                    paper: 1 for paper in present[topic] if paper in papers and paper != query_id
                }
    return Collection(
        "treccovid-rf", papers, tuple(queries), qrels, 1, MEASURES, (*notes_on(blank), *SPLITS_NOTE)
    )


def draw_queries(relevant: Mapping[str, Sequence[str]], n_topics: Mapping[str, int]) -> dict[str, list[str]]:
    """Draw the queries of each topic from its papers; ``n_topics`` counts the topics of each paper."""
    draw = random.Random(QUERIES_SEED)  # noqa: S311 - a published draw, no secret
    drawn: dict[str, list[str]] = {}
    for topic, ids in sorted(relevant.items(), key=lambda item: len(item[1])):
        shuffled = list(ids)
        draw.shuffle(shuffled)
        drawn[topic] = [paper for paper in shuffled if n_topics[paper] == 1][:QUERIES_PER_TOPIC]
    return drawn


def split_topics(topics: Sequence[str]) -> dict[str, str]:
    """Return the fold of each topic."""
    order = sorted(topics)
    random.Random(SPLIT_SEED).shuffle(order)  # noqa: S311 - the same
    return {topic: "dev" if i < len(order) // 2 else "test" for i, topic in enumerate(order)}


def _highly_relevant(path: Path) -> dict[str, list[str]]:
    relevant: defaultdict[str, list[str]] = defaultdict(list)
    for number, line in text_lines(path):
        fields = line.split()
        if fields and len(fields) != 4:
            raise BrokenRowError(str(path), number, f"{len(fields)} fields; expected 4")
        if fields and fields[3] == HIGHLY_RELEVANT:
            relevant[fields[0]].append(fields[2])
    return relevant


def _texts(metadata: Path, wanted: Mapping[str, int]) -> list[PaperText]:
    """Return the first row of each wanted paper that has both a title and an abstract."""
    texts: dict[str, PaperText] = {}
    for _, row in csv_rows(metadata, "cord_uid", "title", "abstract", skip_longer=True):
        paper_id, title, abstract = row["cord_uid"], row["title"], row["abstract"]
        if paper_id in wanted and paper_id not in texts and not {title, abstract} & _MISSING:
            texts[paper_id] = PaperText(paper_id, title, abstract)
    return list(texts.values())
