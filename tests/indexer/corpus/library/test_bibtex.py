"""BibTeX: odd and broken files."""

import gzip
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.corpus.library.bibtex import BibtexReader
from indexer.corpus.library.chunks import MAX_ENTRY_BYTES, MAX_ENTRY_LINES
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.rows import RawPaper
from indexer.corpus.source import Lines
from models.errors import BrokenRowError, CorpusError, CorpusFormatError
from models.types import Paper
from tests.support.examples.corpus_examples import CORPORA, EXAMPLES, reasons


def entry(key: str = "a", **fields: str) -> str:
    """Return an entry that is whole unless ``fields`` break it."""
    given = {"title": "{A Title}", "abstract": "{An abstract.}"} | fields
    return f"@article{{{key},\n" + "".join(f"  {name} = {text},\n" for name, text in given.items()) + "}\n"


def read(folder: Path, content: str | bytes, name: str = "my.bib") -> tuple[list[Paper], CorpusReport]:
    """Return the papers of a file and the report of reading it."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    report = CorpusReport()
    return list(read_corpus(path, report=report)), report


words = st.text(st.sampled_from("abc é 中 ,;:.@#%&=_)\n"), min_size=1).map(lambda text: f"x{text}x")


@given(st.lists(words, min_size=1, max_size=5), st.sampled_from(["{}", '""']), st.booleans())
def test_what_is_written_is_read(texts: list[str], around: str, crlf: bool) -> None:
    """A title is read back as written, with BibTeX's special characters, line ends and other scripts."""
    content = "".join(entry(f"k{n}", title=around[0] + text + around[1]) for n, text in enumerate(texts))
    content = content.replace("\n", "\r\n") if crlf else content
    expected = [(f"k{n}", " ".join(text.split())) for n, text in enumerate(texts)]
    with TemporaryDirectory() as folder:
        assert expected == [(paper.id, paper.title) for paper in read(Path(folder), content)[0]]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            "@article{b,\n title = {Never {closed},\n",
            "Unexpectedly reached end of file. Check that its braces",
        ),
        ('@article{b,\n title = "Never closed,\n', "Unexpectedly reached end of file"),
        ("@article{b title = {No comma}}\n", "Expected comma after entry key"),
        ("@article{b,\n title}\n", "Expected a `=`"),
        (entry("b", title="{}"), "the title is empty"),
        (entry("b", abstract="{" + "x" * 100_001 + "}"), "the abstract has 100,001 characters"),
        (entry("b", note="{" + "x" * MAX_ENTRY_BYTES + "}"), "the entry has more than 1,048,576 bytes"),
        (entry("b", note="{" + "x\n" * MAX_ENTRY_LINES + "}"), "or 10,000 lines; shorten it"),
        (entry("b", note="{" + "x" * 9_000_000 + "}"), "the line is longer than 8,388,608 bytes"),
        (entry("a"), "duplicate id 'a', first seen at line 1"),
    ],
)
def test_a_broken_entry_is_passed_over(tmp_path: Path, broken: str, reason: str) -> None:
    """A broken entry is skipped and reported with line and reason; in fail mode it raises."""
    papers, report = read(tmp_path, entry("a") + broken + entry("c"))
    assert ["a", "c"] == [paper.id for paper in papers]
    ((line, given),) = [(each.line, each.reason) for each in report.broken_rows]
    assert 5 == line
    assert reason in given
    with pytest.raises(BrokenRowError, match=r"my\.bib:5: "):
        list(read_corpus(tmp_path / "my.bib", on_error="fail"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    """UTF-8, with or without a byte order mark, and Western European encodings are read."""
    papers, _ = read(tmp_path, entry(title="{Café Müller}").encode(encoding))
    assert ["Café Müller"] == [paper.title for paper in papers]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """Only the entry with bytes of no known encoding is refused."""
    papers, report = read(
        tmp_path, entry("a").encode() + b"@article{b, title = {\x81}}\n" + entry("c").encode()
    )
    assert ["a", "c"] == [paper.id for paper in papers]
    assert "neither UTF-8 nor Latin-1 at byte 22 of the entry" in report.broken_rows[0].reason


def test_line_ends_and_gzip(tmp_path: Path) -> None:
    """CRLF line ends and compression change nothing."""
    content = (CORPORA / "library.bib").read_bytes().replace(b"\n", b"\r\n")
    papers, _ = read(tmp_path, gzip.compress(content), name="no-telling-name")
    assert list(EXAMPLES["bibtex"].papers) == papers


def test_the_name_tells_where_the_beginning_does_not(tmp_path: Path) -> None:
    """Text may come before the first entry if the file name ends in .bib or .bib.gz."""
    content = "My papers\n" + entry("a")
    assert ["a"] == [paper.id for paper in read(tmp_path, content)[0]]
    gzipped = gzip.compress(content.encode())
    assert ["a"] == [paper.id for paper in read(tmp_path, gzipped, name="MY.BIB.GZ")[0]]
    with pytest.raises(CorpusFormatError, match="no known corpus format"):
        read(tmp_path, content, name="my.txt")


def test_an_empty_file(tmp_path: Path) -> None:
    """A file of blank lines is refused as empty."""
    with pytest.raises(CorpusError, match="is empty"):
        read(tmp_path, "\n \n")


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"title": 'abbr # " of " # {{La}mps}'}, "Journal of Lamps"),
        ({"title": "ABBR"}, "Journal"),
        ({"title": "unknown"}, "unknown"),
        ({"title": '"with a {"}quote{"} # inside"'}, 'with a "quote" # inside'),
        ({"TITLE": "{First}", "title": "{first}"}, "First"),
        ({"title": "{Main}", "subtitle": "{A sub}"}, "Main: A sub"),
        ({"title": "{Main: a sub}", "subtitle": "{A sub}"}, "Main: a sub"),
        ({"title": r"{$x\textasciicircum{}2$ and \textasciicircum{}}"}, r"$x\textasciicircum{}2$ and ^"),
    ],
)
def test_values(tmp_path: Path, fields: dict[str, str], title: str) -> None:
    """Parts of a value are joined, string names are replaced, and the first of two equal fields counts."""
    fields = {"title": fields.pop("TITLE"), "Title": fields["title"]} if "TITLE" in fields else fields
    papers, _ = read(tmp_path, '@string{abbr = "Journal"}\n' + entry(**fields))
    assert [title] == [paper.title for paper in papers]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"note": "{PMID: 12345678\nPMCID: PMC7}"}, "pmid:12345678"),
        ({"eprint": "{12345678}", "eprinttype": "{pubmed}"}, "pmid:12345678"),
        ({"note": "{arXiv:1706.03762 [cs]}"}, "arxiv:1706.03762"),
        ({"note": r"{Preprint at \url{https://arxiv.org/abs/1706.03762}}"}, "arxiv:1706.03762"),
        ({"note": "{Publisher: X\nDOI: 10.5555/a}"}, "doi:10.5555/a"),
        ({"note": "{Comment on doi:10.5555/other}"}, "a"),
        ({"note": r"{Data: \url{https://doi.org/10.5555/other}}"}, "a"),
        ({"note": "{Comment on PMID: 41\n41, Zenodo}"}, "a"),
        (
            {"note": r"{See \url{https://arxiv.org/abs/2001.00001}}", "eprint": "{1706.03762}"},
            "arxiv:1706.03762",
        ),
        ({"note": "{To appear}", "eprint": "{12345678}", "eprinttype": "{hal}"}, "a"),
    ],
)
def test_the_number_in_an_archive_names_the_paper(tmp_path: Path, fields: dict[str, str], name: str) -> None:
    """The number may be the eprint of arXiv or PubMed, or else in the note, as Zotero and JabRef write it."""
    ((paper,), _) = read(tmp_path, entry(**fields))
    assert name == paper.id


def test_names_of_names_are_bounded(tmp_path: Path) -> None:
    """String names that expand to too much text are refused, in @string definitions and in entries."""
    doubling = "".join(f"@string{{s{n + 1} = s{n} # s{n}}}\n" for n in range(60))
    papers, report = read(tmp_path, '@string{s0 = "xx"}\n' + doubling + entry("a"))
    assert ["a"] == [paper.id for paper in papers]
    assert "all @string together have more than 1,048,576 characters" in report.broken_rows[0].reason
    content = '@string{s = "' + "x" * 500_000 + '"}\n' + entry("b", note="s # s # s") + entry("a")
    papers, report = read(tmp_path, content)
    assert (["a"], [2]) == ([paper.id for paper in papers], [each.line for each in report.broken_rows])
    assert "its names replaced" in report.broken_rows[0].reason


def test_a_field_given_twice(tmp_path: Path) -> None:
    """If a field is given twice, the first one counts and the entry is used."""
    papers, report = read(tmp_path, "@misc{a, title={One}, title={Two}, abstract={A.}}")
    assert (["One"], 0) == ([paper.title for paper in papers], report.broken)


def test_two_papers_of_an_issue_whose_dois_hold_angle_brackets(tmp_path: Path) -> None:
    """DOIs with angle brackets, also written in LaTeX, stay whole and tell two papers apart."""
    first = "10.1002/(SICI)1097-4571(199009)41:6<391::AID-ASI1>3.0.CO;2-9"
    second = "10.1002/(SICI)1097-4571(199009)41:6<408::AID-ASI2>3.0.CO;2-X"
    written = second.replace("<", "$<$").replace(">", "$>$")
    papers, report = read(tmp_path, entry("a", doi=f"{{{first}}}") + entry("b", doi=f"{{{written}}}"))
    assert ([first, second], 0) == ([paper.doi for paper in papers], report.broken)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r"{\"O}zg{\"u}r, Arzucan", "Arzucan Özgür"),
        (r"{\'A}lvarez Quill, Jr., {\'E}tienne", "Étienne Álvarez Quill Jr."),
        ("{Quill}, {Ada}", "Ada Quill"),
        ("{Quill, Rask, and Sons}", "Quill, Rask, and Sons"),
        ("{The {L}amp, and Oil} Group", "The Lamp, and Oil Group"),
        ("{Quill, Inc.}, Ada", "Ada Quill, Inc."),
        ("Maurice J. Pescitelli, Jr.", "Maurice J. Pescitelli Jr."),
    ],
)
def test_names_of_people_and_groups(tmp_path: Path, written: str, name: str) -> None:
    """A name is split at its commas, except those inside braces."""
    papers, _ = read(tmp_path, entry(author=f"{{{written} and Bo Rask}}"))
    assert [(name, "Bo Rask")] == [paper.authors for paper in papers]


def test_an_accent_at_the_beginning_of_a_name_stays(tmp_path: Path) -> None:
    """Each name after the first may begin with a macro; "and" in braces divides no names."""
    written = r"A B and \'Emile Zola and \O{}ystein Aasen AND \v{S}vec Z and {Quill and Sons} and and others"
    papers, _ = read(tmp_path, entry(author=f"{{{written}}}"))
    assert [("A B", "Émile Zola", "Øystein Aasen", "Švec Z", "Quill and Sons")] == [
        paper.authors for paper in papers
    ]


@pytest.mark.parametrize(
    ("fields", "year"),
    [
        ({"year": "{2020a}"}, 2020),
        ({"year": "{in press}", "date": "{2021-05}"}, 2021),
        ({"year": r'"{\noopsort{1973c}}1981"'}, 1981),
        ({"year": "{forthcoming}"}, None),
    ],
)
def test_the_year_is_in_the_first_field_that_has_one(
    tmp_path: Path, fields: dict[str, str], year: int | None
) -> None:
    """Words and keys for sorting are no years; the date counts if ``year`` holds none."""
    assert [year] == [paper.year for paper in read(tmp_path, entry(**fields))[0]]


@pytest.mark.parametrize(
    "written",
    [
        "title={T} year={2000}, abstract={A.}",
        'title="T" year="2000", abstract={A.}',
        "abstract={A.}, year=2000\n title={T}",
        "abstract={A.}, title={T}year={2000}",
    ],
)
def test_a_comma_that_is_missing_is_reported(tmp_path: Path, written: str) -> None:
    """The next field is not taken for a part of the value, as it would be lost."""
    papers, report = read(tmp_path, f"@article{{b, {written}}}\n" + entry("c"))
    assert ["c"] == [paper.id for paper in papers]
    (reason,) = (each.reason for each in report.broken_rows)
    assert reason.startswith("no comma before the field ")


@pytest.mark.parametrize("url", ["{http://a.b/?c=d}", "http://a.b/?c=d", '"http://a.b/?c=d" # "&e=f"'])
def test_an_equals_sign_in_a_value_is_no_field(tmp_path: Path, url: str) -> None:
    """Braces, quotes or nothing may enclose an address with a query; all of it is read."""
    ((paper,), report) = read(tmp_path, entry(url=url, abstract='{We set {"}a{"} = b.}'))
    assert (0, 'We set "a" = b.') == (report.broken, paper.abstract)
    assert paper.url is not None
    assert paper.url.startswith("http://a.b/?c=d")


def test_an_entry_without_a_key_is_named_by_its_title_year_and_author(tmp_path: Path) -> None:
    """An entry without a key gets the same id at each reading, and different papers get different ids."""
    text = "@article{, title = {%s}, abstract = {We sing.}, year = 2020, author = {Quill, Ada}}\n"
    papers, report = read(tmp_path, text % "A Draft" + text % "Another")
    again, _ = read(tmp_path, text % "a  draft")
    assert [] == report.broken_rows
    assert 2 == len({paper.id for paper in papers})
    assert [True, True] == [paper.id.startswith("bibtex:") for paper in papers]
    assert papers[0].id == again[0].id


def test_what_is_no_entry(tmp_path: Path) -> None:
    """Comments and preambles are skipped; blanks after the @ and round brackets are accepted."""
    content = "@preamble{ {x} }\n@comment{jabref-meta: y;}\n% c\n@ article (a, title={T}, abstract={A.})\nz\n"
    papers, report = read(tmp_path, content)
    assert (["a"], 0) == ([paper.id for paper in papers], report.broken)


def test_entries_without_an_abstract_are_listed(tmp_path: Path) -> None:
    """Entries without an abstract are listed with their lines, and with the DOI to look up if any."""
    content = "@misc{a, title={T}}\n@misc{b, title={\\'E}, doi={10.5555/b}}\n"
    papers, report = read(tmp_path, content)
    path = str(tmp_path / "my.bib")
    assert ([], 2, 0) == (papers, report.without_abstract, report.broken)
    assert [(path, 1), (path, 2)] == report.rows_without_abstract
    assert [("doi:10.5555/b", "É", path, 2)] == [
        (each.lookup, each.title, each.path, each.line) for each in report.unresolved
    ]


def test_an_export_that_is_cut_short(tmp_path: Path) -> None:
    """The incomplete end of a file that is cut short is reported once, as a break."""
    path = tmp_path / "cut.bib"
    whole = (entry("a") + entry("b")).encode()
    path.write_bytes(gzip.compress(whole + b"@article{c,\n  title = {T},\n", compresslevel=0)[:-8])
    assert [(11, True)] == [(line, "ends early" in reason) for line, reason in reasons(path)]


VOLUME = """@proceedings{Vol:18, title = begin # { of {K}ites}, year = 2018,
  editor = {Ann Editor}, doi = {10.5555/volume}, url = {https://example.org/v}}
"""
PAPER = "@inproceedings{%s, title = {T}, abstract = {A.}, author = {Bo Rask}, %s}\n"


@pytest.mark.parametrize("first", [False, True], ids=["behind", "before"])
@pytest.mark.parametrize("written", ["crossref = {vol:18}", 'CROSSREF = "Vol:18"', "crossref = vol:18"])
def test_a_volume_gives_venue_and_year(tmp_path: Path, written: str, *, first: bool) -> None:
    """A volume, before or after its papers, gives the venue and year they lack, but no ids or authors."""
    papers = PAPER % ("a", written) + PAPER % ("b", f"{written}, year = 2020, booktitle = {{Other}}")
    volume = '@string{begin = "Proceedings"}\n' + VOLUME
    read_papers, report = read(tmp_path, volume + papers if first else papers + volume)
    assert [
        ("a", "Proceedings of Kites", 2018, ("Bo Rask",)),
        ("b", "Other", 2020, ("Bo Rask",)),
    ] == [(paper.id, paper.venue, paper.year, paper.authors) for paper in read_papers]
    assert [None, None] == [paper.doi for paper in read_papers]
    assert [None, None] == [paper.url for paper in read_papers]
    assert (1, 0) == (report.without_abstract, report.broken)  # the volume itself is not a paper


def test_a_volume_may_be_missing_broken_or_the_paper_itself(tmp_path: Path) -> None:
    """A paper whose volume is missing, broken or the paper itself is read without a venue."""
    content = "".join(PAPER % (key, f"crossref = {{{parent}}}") for key, parent in ("an", "bx", "cc"))
    papers, report = read(tmp_path, content + "@proceedings{x, title = {Never closed}\n@article{c, title}\n")
    assert [("a", None), ("b", None), ("c", None)] == [(paper.id, paper.venue) for paper in papers]
    assert report.broken == 2


def test_a_file_that_breaks_off_has_volumes_before_the_break(tmp_path: Path) -> None:
    """A paper gets the venue of a volume before the point at which the file is cut short."""
    volume = '@string{begin = "Proceedings"}\n' + VOLUME
    content = f"{volume}{PAPER % ('a', 'crossref = {vol:18}')}@article{{cut,\n title".encode()
    (tmp_path / "my.bib").write_bytes(gzip.compress(content, compresslevel=0)[:-8])
    report = CorpusReport()
    (paper,) = read_corpus(tmp_path / "my.bib", report=report)
    assert ("Proceedings of Kites", 1) == (paper.venue, report.broken)


def test_a_file_that_was_sent_is_not_opened_by_its_name(tmp_path: Path) -> None:
    """The file named like an uploaded one is never opened, not even to look for volumes."""
    secret = VOLUME.replace("begin", "{Secret}") + PAPER % ("b", "crossref = {vol:18}")
    (tmp_path / "secret.bib").write_text(secret, encoding="utf-8")
    sent = (PAPER % ("a", "crossref = {vol:18}")).encode()
    lines = Lines(io.BufferedReader(io.BytesIO(sent)), tmp_path / "secret.bib")
    (row,) = BibtexReader().rows(lines)
    assert isinstance(row.content, RawPaper)
    assert ("a", None, None) == (row.content.id, row.content.venue, row.content.year)


def test_a_stray_byte_does_not_change_other_characters(tmp_path: Path) -> None:
    """An entry of UTF-8 with a byte of Windows-1252 keeps its characters, and the byte becomes one."""
    path = tmp_path / "my.bib"
    path.write_bytes("@misc{a, title={Über Öle}, abstract={“Très” cher, ".encode() + b"caf\xe9.}}")
    (paper,) = read_corpus(path)
    assert ("Über Öle", "“Très” cher, café.") == (paper.title, paper.abstract)


def test_a_long_line_of_many_entries_says_what_to_do(tmp_path: Path) -> None:
    """None of its entries is read, whatever follows in the next lines; later entries are."""
    path = tmp_path / "my.bib"
    entry = "@misc{a, title={T}, abstract={A.}} "
    path.write_text(
        entry * (MAX_ENTRY_BYTES // len(entry) + 1) + "\n\n@misc{b, title={T}, abstract={A.}}", "utf-8"
    )
    report = CorpusReport()
    assert ["b"] == [paper.id for paper in read_corpus(path, report=report)]
    assert [
        (
            1,
            "the line has more than 1,048,576 bytes, so no entry in it is read; begin each on a new line",
        )
    ] == [(broken.line, broken.reason) for broken in report.broken_rows]
