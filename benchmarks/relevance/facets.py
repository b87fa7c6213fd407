"""Accuracy of taggers on openings, clinical and biological abstracts: 201 sentences written by us.

python -m benchmarks.relevance.facets [WEIGHTS ...] [--encoder minilm]

facets.jsonl next to this file holds 60 invented abstracts in CSAbstruct's layout, so `akin evaluate facets`
can read it too; we wrote and labelled them before any tagger was run. ``also`` lists other labels that count
as right: "In this paper, we propose ..." is an objective as well as a method, and never background. The first
weights are compared with each of the others, or with the shipped weights if only one file is given.
"""

import argparse
import json
from pathlib import Path

from evaluation.sets.functions import FunctionsSet
from evaluation.statistics.bootstrap import Interval, difference, interval
from models.annotator import Annotator
from models.encoder import Encoder, load_encoder
from models.facets import FACETS, FacetTagger, facet_codes, load_tagger, read_tagger

FILE = Path(__file__).with_suffix(".jsonl")
ALL, FIRST = "all", "first sentences"


def right_of(encoder: Encoder, tagger: FacetTagger) -> dict[str, float]:
    """Return 100 for each sentence that gets one of its labels, else 0, by line and sentence number."""
    papers = list(FunctionsSet().load(FILE).papers.values())
    right = {}
    for (line, row), annotated in zip(
        enumerate(rows()), Annotator(encoder, tagger=tagger).annotate(papers), strict=True
    ):
        found = [FACETS[code] for code in facet_codes(annotated.probabilities)]
        for number, labels in enumerate(zip(row["labels"], row["also"], strict=True)):
            right[f"{line}:{number}"] = 100.0 * (found[number] in {labels[0], *labels[1]})
    return right


def rows() -> list[dict[str, list[str]]]:
    """Return the abstracts of the file."""
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def parts() -> dict[str, list[str]]:
    """Group sentences by the kind of abstract, with all and first sentences, named as in ``right_of``."""
    found: dict[str, list[str]] = {ALL: [], FIRST: []}
    for line, row in enumerate(rows()):
        own = [f"{line}:{number}" for number in range(len(row["sentences"]))]
        found[ALL] += own
        found[FIRST] += own[:1]
        found.setdefault(str(row["kind"]), []).extend(own)
    return found


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("weights", type=Path, nargs="*", help="files that akin train facets wrote")
    parser.add_argument("--encoder", default="minilm")
    arguments = parser.parse_args()
    encoder = load_encoder(arguments.encoder, device="cpu")
    taggers = [read_tagger(path) for path in arguments.weights]
    if len(taggers) < 2:
        taggers.append(load_tagger(encoder.spec))
    right = [right_of(encoder, tagger) for tagger in taggers]
    clusters = {name: name.partition(":")[0] for name in right[0]}
    print(f"{'tagger':24}{'sentences':18}{'n':>4}  right, percent; the first less this one")
    for tagger, own in zip(taggers, right, strict=True):
        for part, names in parts().items():
            some, first = ({name: each[name] for name in names} for each in (own, right[0]))
            line = f"{tagger.spec.name:24}{part:18}{len(names):4}  {_with_interval(interval(some, clusters))}"
            print(
                line + ("" if own is right[0] else f"; {_with_interval(difference(first, some, clusters))}")
            )


def _with_interval(figure: Interval) -> str:
    return f"{figure.value:.1f} [{figure.low:.1f}, {figure.high:.1f}]"


if __name__ == "__main__":
    main()
