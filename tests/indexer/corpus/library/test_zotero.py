"""Zotero's tables: odd shapes."""

from pathlib import Path

from indexer.corpus.read import read_corpus


def test_a_table_of_zotero_with_marks_and_other_delimiters(tmp_path: Path) -> None:
    """Its own names of columns tell it, whatever stands between them."""
    path = tmp_path / "z.csv"
    path.write_text('\ufeff"Key";"Title";"Abstract Note";"Author"\r\n"K";"T";"A.";"Quill, Ada"\r\n', "utf-8")
    (found,) = read_corpus(path)
    assert ("K", ("Ada Quill",)) == (found.id, found.authors)
