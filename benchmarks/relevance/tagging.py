"""The cost of facets and functions at indexing: papers a second with and without them, runs interleaved.

python -m benchmarks.relevance.tagging ../shared/data/corpus.jsonl.gz --papers 512 --threads 1
"""

import argparse
from functools import partial
from pathlib import Path

import torch

from benchmarks.suite.encoders import CLOCKS, medians, read_papers
from indexer.encoding.embed import embed
from models.annotator import Annotator, load_annotator
from models.encoder import PAPERS_PER_CALL

BASE = "encoder alone"


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--papers", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: seconds of all threads summed")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    papers = read_papers(arguments.corpus, arguments.papers)
    full = load_annotator(arguments.encoder, device="cpu")
    tagging = Annotator(full.encoder, tagger=full.tagger)
    layers = full.tagger.spec.layers

    def encode(layers: tuple[int, ...] = ()) -> None:
        for start in range(0, len(papers), PAPERS_PER_CALL):
            full.encoder.encode(papers[start : start + PAPERS_PER_CALL], layers=layers)

    def index(annotator: Annotator) -> None:
        embed(papers, annotator, dtype="float16", on_progress=lambda _: None)

    actions = {BASE: encode, f"with hidden layers {layers}": partial(encode, layers)}
    actions["with layers and facets"] = partial(index, tagging)
    if full.functions is not None:
        actions["with layers, facets and functions"] = partial(index, full)
    for action in actions.values():  # run once what is compiled or loaded at first use
        action()
    spent = medians(actions, arguments.repeats, CLOCKS[arguments.clock])

    print(
        f"{len(papers)} papers, {sum(len(paper.sentences) for paper in papers)} sentences, "
        f"{arguments.threads} thread(s), {arguments.clock} clock, median of {arguments.repeats} in turn"
    )
    print(f"{'':36}{'papers/s':>10}{'added':>9}")
    for label, seconds in spent.items():
        print(f"{label:36}{len(papers) / seconds:10.1f}{seconds / spent[BASE] - 1:9.1%}")


if __name__ == "__main__":
    main()
