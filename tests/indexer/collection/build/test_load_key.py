"""The key that tells one load from another."""

from pathlib import Path

from indexer.collection.staging import load_key
from indexer.corpus.lookup.found import FoundPapers
from indexer.corpus.rows import RawPaper
from indexer.encoding.arguments import BuildArguments
from tests.support.examples.corpus_examples import write_lines


def test_what_was_looked_up_makes_another_load(tmp_path: Path) -> None:
    """A lookup that found something changes the key of a load, because its files then hold more papers."""
    corpus, lookups, read_by = [write_lines(tmp_path, "41")], tmp_path / "lookups", BuildArguments("hashing")
    before = load_key(corpus, lookups, read_by, replace=False)
    assert before == load_key(corpus, lookups, read_by, replace=False)
    FoundPapers(lookups).add({"pmid:41": RawPaper("pmid:41", "T", "A.")})
    assert before != load_key(corpus, lookups, read_by, replace=False)
