"""The sets of ``benchmarks.relevance.objectives``: what rows learn from, and what measures them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

import akin
from akin.cli.training import data as recipes_of
from akin.cli.training.sets import HELD_OUT, write_set
from benchmarks.relevance.objectives.rows import SEED, Budget
from evaluation.collection import Collection
from evaluation.measurement import load_collection
from evaluation.sets.pairs import read_set
from models.encoder import load_encoder
from models.training.examples import TrainingSet
from models.training.pairs.alignment import AlignBy, align

DEMO = Path(akin.__file__).parent / "demo" / "papers.jsonl"
ENCODER = "minilm"
N_HELD_OUT = 150
# SciFact: the number of claims, and of papers added to those judged for the claims.
N_CLAIMS, N_OTHERS = 100, 200

# The systems measured on each set, and the measures, the first of which is shown.
_PAIRS = ("ot", "single", "mean_min", "document"), ("RR",)
MEASURED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "held-out": _PAIRS,
    "citations": _PAIRS,
    "contexts": (("ot", "single", "document"), ("RR",)),
    "csfcube": (("ot", "single", "mean_min", "document", "ot:focus:words"), ("NDCG%20", "MAP")),
    "scifact": (("ot", "single", "document", "ot:words"), ("nDCG@10",)),
    "demo": (("ot", "single", "mean_min", "document", "ot:focus:words"), ("MAP",)),
}


def make_sets(data: Path, csfcube: Path, scifact: Path, work: Path, budget: Budget) -> None:
    """Write the training and held-out sets of all rows, unless they exist; none shares held-out texts."""
    papers, alike = [data / "papers.jsonl.gz"], {"held_out": N_HELD_OUT, "seed": SEED}
    leave_out = [f"csfcube={csfcube}", f"beir={scifact}"]
    lists, whole, sentences = (work / f"all-{name}" for name in ("citations", "cocited", "contexts"))
    if not (lists / "report.json").exists():
        edges = [data / "citation_pairs.jsonl.gz"]
        recipes_of.citations(papers, edges, lists, leave_out=leave_out, **alike)
    leave_out.append(f"pairs={lists / HELD_OUT}")
    if not (whole / "report.json").exists():
        found = [data / "cocitation_contexts.jsonl.gz"]
        recipes_of.cocited(papers, found, whole, leave_out=leave_out, **alike)
    leave_out.append(f"pairs={whole / HELD_OUT}")
    if not (sentences / "report.json").exists():
        found = [data / "single_citation_contexts.jsonl.gz"]
        recipes_of.contexts(papers, found, sentences, leave_out=leave_out, **alike)
    held_out = {name for made in (lists, whole, sentences) for name in read_set(made / HELD_OUT).texts}
    drawn_from = {"citations": lists, "cocited": whole, "contexts": sentences, "strict": whole}
    drawn_from["abstracts"] = whole  # the same pairs as ``cocited``, with other sentences aligned
    for name, source in drawn_from.items():
        to, least_contexts = work / name, 2 * (name == "strict")
        if (to / "report.json").exists():
            continue
        made = read_set(source)
        left = [own for own in made.examples if held_out.isdisjoint(own.named)]
        left = [own for own in left if len(own.contexts) >= least_contexts]
        drawn = np.random.default_rng(SEED).permutation(len(left))[: budget.n_examples]
        examples = [left[i] for i in drawn]
        if source == whole:
            encoder = load_encoder(ENCODER, device=budget.device)
            by = AlignBy.ABSTRACTS if name == "abstracts" else AlignBy.CONTEXTS
            examples = align(examples, made.texts, encoder, by=by, on_progress=lambda *_: None)
        texts = {name: made.texts[name] for own in examples for name in own.named}
        write_set(to, TrainingSet(to.name, texts, examples), {"drawn": len(examples), "seed": SEED})


def measured_on(csfcube: Path, scifact: Path, work: Path) -> dict[str, Collection]:
    """Load the sets that every row is measured on."""
    return {
        "held-out": load_collection("pairs", work / "all-cocited" / HELD_OUT),
        "citations": load_collection("pairs", work / "all-citations" / HELD_OUT),
        "contexts": load_collection("pairs", work / "all-contexts" / HELD_OUT),
        "csfcube": load_collection("csfcube", csfcube),
        "scifact": _part(load_collection("beir", scifact)),
        "demo": load_collection("demo", DEMO),
    }


def _part(collection: Collection) -> Collection:
    """Draw some claims at random, with the papers judged for them and some others."""
    drawn = np.random.default_rng(SEED)
    chosen = sorted(drawn.permutation(len(collection.queries))[:N_CLAIMS].tolist())
    queries = tuple(collection.queries[i] for i in chosen)
    judged = {paper for query in queries for paper in collection.qrels[query.id]}
    rest = sorted(collection.papers.keys() - judged)
    kept = judged | {rest[i] for i in drawn.permutation(len(rest))[:N_OTHERS].tolist()}
    papers = {name: paper for name, paper in collection.papers.items() if name in kept}
    qrels = {query.id: collection.qrels[query.id] for query in queries}
    return replace(collection, papers=papers, queries=queries, qrels=qrels)
