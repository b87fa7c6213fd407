"""RELISH (Brown et al. 2019), as ASPIRE's authors prepared it: biomedical papers, judged by their authors."""

from dataclasses import replace
from pathlib import Path

from evaluation.collection import Collection
from evaluation.sets.aspire.layout import aspire_layout, load_aspire


class RelishSet:
    """About 3,200 queries with some 60 judged candidates each: 0, 1 (partial), 2 (relevant).

    Binary measures count only grade 2 (semantics 3.7).
    """

    publisher = (
        "ASPIRE's authors (github.com/allenai/aspire, datasets/datasets.md: RELISH-Aspire on figshare)"
    )
    layout = aspire_layout("relish")

    def load(self, path: Path) -> Collection:
        """Read the collection; raises CollectionMissingError, BrokenRowError or CorpusFormatError."""
        collection = load_aspire(self, path, name="relish", relevant_from=2)
        return replace(collection, id_prefixes=("", "pmid:"))
