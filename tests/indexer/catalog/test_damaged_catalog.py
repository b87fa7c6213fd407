"""A damaged row of the catalog is found when read, never published, and mended by adding its paper again."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.reindex import prepare
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import CATALOG_FILE, KEEP
from models.encoder import Encoder
from models.errors import StorageError
from models.types import Facet, Paper, Sentence
from tests.support.annotators import annotated
from tests.support.builds import build_quietly, many_papers, paper_in, write_corpus

WHALES = Paper(
    "whales",
    "Whales",
    "Whales sing. We listen.",
    (Sentence("Whales sing.", 0, 12, Facet.BACKGROUND), Sentence("We listen.", 13, 23)),
    year=2020,
    authors=("A. Hab",),
)
SEALS = replace(WHALES, id="seals", title="Seals")
DAMAGE = [
    "UPDATE papers SET abstract = 'Whales sink. We listen.' WHERE paper_id = 'whales'",
    "UPDATE papers SET year = 2021 WHERE paper_id = 'whales'",
    "UPDATE papers SET authors = '7' WHERE paper_id = 'whales'",
    'UPDATE sentences SET "end" = 11 WHERE position = 0 AND paper_key = 1',
    "UPDATE sentences SET facet = 'backgrounds' WHERE position = 0 AND paper_key = 1",
    "DELETE FROM sentences WHERE position = 1 AND paper_key = 1",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_row_is_found_and_mended(catalog_place: str | Path, damage: str) -> None:
    """Reading a damaged paper raises an error with a remedy that works, and other papers stay readable."""
    with Catalog.open(catalog_place) as catalog:
        catalog.add([WHALES])
        catalog.add([SEALS])
        with catalog.database.writing() as connection:
            assert 1 == connection.execute(text(damage)).rowcount
        with pytest.raises(StorageError, match=r"damaged.*akin delete"):
            paper_in(catalog, "whales")
        assert SEALS == paper_in(catalog, "seals")
        catalog.delete(["whales"])
        assert (0, 1) == ((change := catalog.add([SEALS, WHALES])).n_new, change.n_changed)
        assert WHALES == paper_in(catalog, "whales")


def test_a_flipped_bit_in_the_file_is_not_published(tmp_path: Path, hashing: Encoder) -> None:
    """A reindex names a paper with a flipped bit instead of publishing it, and succeeds once it is mended."""
    data, corpus = tmp_path / "data", write_corpus(tmp_path / "c.jsonl", many_papers(20))
    build_quietly(corpus, data, hashing)
    content = (data / CATALOG_FILE).read_bytes()
    sentence = str(many_papers(20)[7]["abstract"][1]).encode()  # type: ignore[index]  # a list of sentences
    assert 1 == content.count(sentence)
    flipped = bytes([sentence[0] ^ 1]) + sentence[1:]
    (data / CATALOG_FILE).write_bytes(content.replace(sentence, flipped))
    annotator = annotated(hashing)

    def reindex(catalog: Catalog) -> int:
        arguments = BuildArguments("hashing", device="cpu", dtype="float32")
        done = prepare(data, annotator, catalog, arguments=arguments, on_progress=lambda *_: None)
        return len(done.snapshot)

    with Catalog.open(data / CATALOG_FILE) as catalog:
        with pytest.raises(StorageError, match="'p7' is damaged"):
            reindex(catalog)
        delete_papers(data, ["p7"], catalog, keep=KEEP)
        build_quietly(corpus, data, hashing)
        assert 20 == reindex(catalog)
