"""Zotero's tables in odd shapes."""

import csv
from pathlib import Path

from indexer.corpus.read import CorpusReport, read_corpus


def test_a_table_of_zotero_with_marks_and_other_delimiters(tmp_path: Path) -> None:
    """A table is recognised by Zotero's column names, with a byte order mark and any delimiter."""
    path = tmp_path / "z.csv"
    path.write_text('\ufeff"Key";"Title";"Abstract Note";"Author"\r\n"K";"T";"A.";"Quill, Ada"\r\n', "utf-8")
    (found,) = read_corpus(path)
    assert ("K", ("Ada Quill",)) == (found.id, found.authors)


def test_long_notes_lose_no_paper(tmp_path: Path) -> None:
    """A long cell of notes loses no paper, and the field size limit of ``csv`` is unchanged afterwards."""
    path = tmp_path / "z.csv"
    note = "<p>n</p>\n" * 200_000
    head = '"Key","Title","Abstract Note","Notes"\n'
    path.write_text(f'{head}"K","T","A.","{note}"\n"L","T","A.",""\n', "utf-8")
    before = csv.field_size_limit()
    report = CorpusReport()
    assert ["K", "L"] == [paper.id for paper in read_corpus(path, report=report)]
    assert (0, before) == (report.broken, csv.field_size_limit())


def test_a_year_that_is_none_loses_no_paper(tmp_path: Path) -> None:
    """A paper whose year is "n.d." or "in press" is read."""
    path = tmp_path / "z.csv"
    head = '"Key","Title","Abstract Note","Publication Year"\n'
    path.write_text(f'{head}"K","T","A.","n.d."\n"L","T","A.","in press (2024)"\n"M","T","A.",""\n', "utf-8")
    assert [None, 2024, None] == [paper.year for paper in read_corpus(path)]


def test_a_table_may_be_in_windows_1252(tmp_path: Path) -> None:
    """A table in Windows-1252, as programs for Windows save it, is read without losing a row."""
    path = tmp_path / "z.csv"
    path.write_bytes('"Key","Title","Abstract Note"\n"K","Café – un été","A."\n'.encode("cp1252"))
    assert ["Café – un été"] == [paper.title for paper in read_corpus(path)]


def test_the_date_counts_without_a_year(tmp_path: Path) -> None:
    """If the column of the year is empty, the year comes from the column of the date."""
    path = tmp_path / "z.csv"
    head = '"Key","Title","Abstract Note","Publication Year","Date"\n'
    path.write_text(f'{head}"K","T","A.","","2020-05"\n"L","T","A.","2019","2020"\n', "utf-8")
    assert [2020, 2019] == [paper.year for paper in read_corpus(path)]
