"""Tests of corpus readers: one contract for every format, and the peculiarities of each."""

import gzip
import json
from functools import partial
from io import BufferedReader, BytesIO
from pathlib import Path

import pytest

from indexer.corpus.arrays import page_elements
from indexer.corpus.read import READERS, CorpusReader, CorpusReport, read_corpus
from indexer.corpus.source import Lines, open_source, read_head
from models.errors import BrokenFileError, BrokenRowError, CorpusFormatError
from models.registry import resolve
from models.types import Facet
from tests.support.examples.corpus_examples import CORPORA, EXAMPLES, WriteFn, paper, reasons, write_lines
from tests.support.outside_data import outside_data

WITH_PAPERS = [name for name in READERS if name not in EXAMPLES or EXAMPLES[name].papers]


@pytest.fixture
def write(tmp_path: Path) -> WriteFn:
    """Return a function that writes lines to a file and returns its path."""
    return partial(write_lines, tmp_path)


# The contract


def test_every_reader_has_an_example() -> None:
    """Every reader in the registry has an example file."""
    assert EXAMPLES.keys() == READERS.keys()


@pytest.mark.parametrize("name", READERS)
def test_a_reader_is_a_corpus_reader(name: str) -> None:
    """Every entry of the registry satisfies the protocol."""
    assert isinstance(resolve(READERS, name, "corpus format")(), CorpusReader)


@pytest.mark.parametrize("name", READERS)
def test_a_file_is_recognised_by_its_reader_alone(name: str) -> None:
    """A file is recognised by exactly one reader."""
    head = read_head(CORPORA / EXAMPLES[name].file)
    claiming = [other for other in READERS if resolve(READERS, other, "corpus format")().recognises(head)]
    assert [name] == claiming


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", READERS)
def test_papers_are_read_and_a_broken_row_is_reported(name: str, gzipped: bool, tmp_path: Path) -> None:
    """The format is detected, a broken row in the middle is reported, and the other papers are read."""
    example = EXAMPLES[name]
    path = CORPORA / example.file
    if gzipped:
        path = tmp_path / "no-telling-name"
        path.write_bytes(gzip.compress((CORPORA / example.file).read_bytes()))
    report = CorpusReport()
    assert example.papers == tuple(read_corpus(path, report=report))
    assert [example.broken_line] == [broken.line for broken in report.broken_rows]
    assert example.reason in report.broken_rows[0].reason
    assert str(path) == report.broken_rows[0].path
    assert (len(example.papers), example.without_abstract, 1, 0) == (
        report.papers,
        report.without_abstract,
        report.broken,
        report.duplicates,
    )


@pytest.mark.parametrize("name", WITH_PAPERS)
def test_a_broken_row_can_be_fatal(name: str) -> None:
    """With on_error="fail" the papers before the broken row are read, then an error is raised."""
    example = EXAMPLES[name]
    papers = read_corpus(CORPORA / example.file, on_error="fail")
    assert example.papers[0] == next(papers)
    with pytest.raises(BrokenRowError, match=example.reason) as caught:
        next(papers)
    assert example.broken_line == caught.value.line


@pytest.mark.parametrize("name", WITH_PAPERS)
def test_a_file_cut_short_gives_its_whole_papers(name: str, tmp_path: Path) -> None:
    """A truncated gzip file gives its complete papers, then an error or a report with the line."""
    content = (CORPORA / EXAMPLES[name].file).read_bytes()
    first_paper_ends = {
        "acl": b"</paper>",
        "pubmed": b"</PubmedArticle>",
        "csv": b"Control,x\r\n",
        "bibtex": b"bulbs.}\n}\n",
        "nbib": b"nbib.1.\n",
        "ris": b"ER  - \n",
        "zotero": b'"2017-03",""\n',
        "csl": b"},\n",
    }.get(name, b"\n")
    cut = content.index(first_paper_ends) + len(first_paper_ends) + 5
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(content[:cut], compresslevel=0)[:-8])
    papers = read_corpus(path, on_error="fail")
    assert EXAMPLES[name].papers[0] == next(papers)
    line = content[:cut].count(b"\n") + 1
    with pytest.raises(BrokenFileError, match=rf"cut\.gz:{line}: the gzip file is cut short"):
        list(papers)
    report = CorpusReport()
    assert [EXAMPLES[name].papers[0]] == list(read_corpus(path, report=report))
    assert [(str(path), line)] == [(broken.path, broken.line) for broken in report.broken_rows]
    assert report.broken_rows[0].reason.startswith("the file ends early here: the gzip file is cut short")


@pytest.mark.parametrize(
    ("name", "until"),
    [
        ("csv", 'b,Two,"We'),
        ("csv", "b,Tw"),
        ("zotero", '"K2","Two","We'),
        ("bibtex", "@article{b, title={Two}, abstract={We"),
        ("bibtex", "@article{b, title={Two},\n  abstract={We fit.}\n"),
        ("nbib", "PMID- 2\nTI  - Two\nAB  - We"),
        ("nbib", "PMID- 2\nTI  - Two\nAB  - We fit.\n"),
        ("ris", "TY  - JOUR\nID  - b\nTI  - Two\nAB  - We fit.\n"),
    ],
)
def test_a_plain_file_cut_short_gives_no_half_paper(name: str, until: str, tmp_path: Path) -> None:
    """A file that is cut within an entry gives those before it, and an error or a report with its line."""
    whole = {
        "csv": "id,title,abstract\na,One,We fit.\n",
        "zotero": '"Key","Title","Abstract Note"\n"K1","One","We fit."\n',
        "bibtex": "@article{a, title={One}, abstract={We fit.}}\n",
        "nbib": "PMID- 1\nTI  - One\nAB  - We fit.\nSO  - J.\n",
        "ris": "TY  - JOUR\nID  - a\nTI  - One\nAB  - We fit.\nER  - \n",
    }[name]
    path = tmp_path / "cut"
    path.write_text(whole + until)
    line = whole.count("\n") + 1
    papers = read_corpus(path, on_error="fail")
    assert "One" == next(papers).title
    with pytest.raises(BrokenFileError, match=rf"cut:{line}: .*Fetch the file again"):
        next(papers)
    report = CorpusReport()
    assert ["One"] == [paper.title for paper in read_corpus(path, report=report)]
    assert [(line, 1)] == [(each.line, report.broken) for each in report.breaks]


def test_an_export_without_sources_is_read(tmp_path: Path) -> None:
    """Not every program that writes NBIB ends its entries as PubMed does."""
    path = tmp_path / "own"
    one = "PMID- 1\nTI  - One\nAB  - We fit.\n\n"
    two = one.replace("1", "2").replace("One", "Two")
    for content in (one + two, "PMID- 3\nTI  - Three\nAB  - A.\nSO  - J.\n" + one + two + "SO  - J.\n"):
        path.write_text(content)
        found = [paper.title for paper in read_corpus(path, on_error="fail")]
        assert ["One", "Two"] == found[-2:]


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", [name for name in READERS if not EXAMPLES[name].file.endswith(".xml")])
def test_utf_16_is_read_as_utf_8_is(name: str, encoding: str, gzipped: bool, tmp_path: Path) -> None:
    """A file with a byte order mark of UTF-16 gives the same papers and broken rows as in UTF-8."""
    text = (CORPORA / EXAMPLES[name].file).read_bytes().decode("utf-8-sig")
    content = f"\ufeff{text}".encode(encoding)
    path = tmp_path / "no-telling-name"
    path.write_bytes(gzip.compress(content) if gzipped else content)
    report = CorpusReport()
    assert EXAMPLES[name].papers == tuple(read_corpus(path, report=report))
    assert [EXAMPLES[name].broken_line] == [broken.line for broken in report.broken_rows]


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_utf_16_that_is_cut_within_a_character_is_read_to_there(cut: int, tmp_path: Path) -> None:
    """Truncated UTF-16 is read up to the last whole character, and half a character becomes U+FFFD."""
    text = "10.5555/a\n" * 3 + "# 😀中é " * 40_000 + "\n10.5555/b"
    content = f"\ufeff{text}".encode("utf-16-le")
    path = tmp_path / "ids.txt"
    path.write_bytes(content[: len(content) - cut])
    with open_source(path) as stream:
        read = stream.read().decode()
    whole = text[: len(text) - (cut + 1) // 2]
    assert whole + ("\ufffd" if cut % 2 else "") == read


# The peculiarities of a format


def test_semantic_scholar_datasets() -> None:
    """A merged record of the datasets is read; an abstract without its paper is told to be merged."""
    report = CorpusReport()
    (fern,) = read_corpus(CORPORA / "s2-datasets.jsonl", report=report)
    expected = paper(
        "s2:21",
        "Ferns in Shade",
        "Ferns like shade.",
        year=2020,
        venue="Fern World",
        authors=("Cy Umber",),
        url="https://www.semanticscholar.org/paper/21",
        doi="10.5555/fern.1",
        fields=("Biology",),
    )
    assert expected == fern
    assert "merge the abstracts dataset" in report.broken_rows[0].reason


def api_paper(number: int, **rest: object) -> dict[str, object]:
    """Return a paper as in the API of Semantic Scholar."""
    return {
        "paperId": f"{number:040x}",
        "externalIds": {"DOI": f"10.5555/f.{number}", "CorpusId": number},
        "title": "Ferns",
        "abstract": 'Ferns [like] "shade".',
        "year": 2020,
        "venue": "Fern World",
        "authors": [{"authorId": "1", "name": "Cy Umber"}],
        "s2FieldsOfStudy": [{"category": "Biology", "source": "external"}],
        "url": "https://www.semanticscholar.org/paper/x",
        **rest,
    }


def test_answers_of_semantic_scholar(write: WriteFn) -> None:
    """Search pages, on one or many lines, and lists of papers are read, whatever the size of the reads."""
    expected = paper(
        "s2:21",
        "Ferns",
        'Ferns [like] "shade".',
        year=2020,
        venue="Fern World",
        authors=("Cy Umber",),
        url="https://www.semanticscholar.org/paper/x",
        doi="10.5555/f.21",
        fields=("Biology",),
    )
    papers = [api_paper(21), api_paper(22, externalIds=None), api_paper(23, abstract=None)]
    page = {"total": 3, "offset": 0, "next": 3, "data": papers}
    more = {"total": 3, "token": None, "data": [api_paper(24)]}
    for lines in (
        [page, more],
        [json.dumps(page, indent=2), json.dumps(more, indent=2)],
        [json.dumps(page) + json.dumps(more)],
    ):
        report = CorpusReport()
        path = write(*lines)
        found = list(read_corpus(path, report=report))
        assert ["s2:21", f"s2:{22:040x}", "s2:24"] == [each.id for each in found]
        assert expected == found[0]
        assert (1, 0) == (report.without_abstract, report.broken)
    assert [expected] == list(read_corpus(write([api_paper(21), None])))
    text = json.dumps(page) + "\n" + json.dumps(more)
    pieces = list(page_elements(Lines(BufferedReader(BytesIO(text.encode())), Path()), piece_bytes=7))
    assert [*papers, *more["data"]] == [json.loads(bytes(each)) for _, each in pieces]  # type: ignore[arg-type,misc]


def test_answers_of_openalex_and_crossref(write: WriteFn) -> None:
    """Pages of both APIs are read, and a list of results that does not end is reported."""
    work = {"id": "https://openalex.org/W1", "title": "Ferns", "abstract_inverted_index": {"Shade.": [0]}}
    page = {"meta": {"count": 2, "per_page": 25}, "results": [work, {**work, "id": None}], "group_by": []}
    for text in (json.dumps(page), json.dumps(page, indent=1)):
        report = CorpusReport()
        (found,) = read_corpus(write(text), report=report)
        assert ("openalex:W1", "Shade.") == (found.id, found.abstract)
        assert ["no id"] == [each.reason for each in report.broken_rows]
    item = {
        "DOI": "10.5555/x",
        "type": "journal-article",
        "title": ["Ferns"],
        "issued": {},
        "abstract": "Shade.",
    }
    answer = {"status": "ok", "message-type": "work-list", "message": {"facets": {}, "items": [item]}}
    assert ["doi:10.5555/x"] == [each.id for each in read_corpus(write(answer))]
    cut = json.dumps(page)[: -len('}], "group_by": []}')]
    (_, reason), *_ = reasons(write(cut))[-1:]
    assert "the list that begins here does not end" in reason


def test_semantic_scholar_full_texts() -> None:
    """Titles (annotated twice) and abstracts (in two pieces) are cut out of the text by character offsets."""
    report = CorpusReport()
    path = CORPORA / "s2orc-fulltext.jsonl"
    (lichen,) = read_corpus(path, report=report)
    expected = paper(
        "s2:31",
        "Lichen on Büchner Funnels",
        "Lichen grows on glass.",
        "We grew it on seven funnels.",
        doi="10.5555/lichen.1",
    )
    assert expected == lichen
    assert [(str(path), 2)] == report.rows_without_abstract
    assert ["the annotation abstract has a span outside the text, or without start and end"] == [
        broken.reason for broken in report.broken_rows
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"text": "T", "annotations": {"title": "[{"}}, "the annotation title is not valid JSON"),
        ({"text": "T", "annotations": {"title": "{}"}}, "the annotation title is not a list of spans"),
        ({"text": "T", "annotations": {"title": "[1]"}}, "the annotation title has a span outside"),
        (
            {"text": "T", "annotations": {"title": '[{"start":-1,"end":1}]'}},
            "the annotation title has a span",
        ),
        ({"text": "T", "annotations": {"title": 7}}, "the annotation title is not text"),
        ({"text": None, "annotations": {"title": "[]"}}, "the text or the annotation title is not text"),
        ({"text": "T", "annotations": {"title": None, "abstract": '[{"start":0,"end":1}]'}}, "no title"),
    ],
)
def test_unusable_annotations_are_broken_rows(write: WriteFn, content: object, reason: str) -> None:
    """A full text with an unusable annotation is a broken row with a reason."""
    ((line, given),) = reasons(write({"corpusid": 1, "content": content}))
    assert 1 == line
    assert reason in given


def test_a_full_text_without_annotations_is_passed_over(write: WriteFn) -> None:
    """A full text without annotations counts as without an abstract, not as broken."""
    report = CorpusReport()
    assert [] == list(read_corpus(write({"corpusid": 1, "content": None}), report=report))
    assert (1, 0) == (report.without_abstract, report.broken)


def test_pubmed_labels_and_dates_that_the_library_has_not_sorted(write: WriteFn) -> None:
    """A section label gives the facet if NLM has no category, and a date may begin with a season."""
    path = write(
        "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>5</PMID><Article><Journal><JournalIssue>"
        "<PubDate><MedlineDate>Winter 1999</MedlineDate></PubDate></JournalIssue></Journal>"
        "<ArticleTitle>Baths.</ArticleTitle><Abstract>"
        '<AbstractText Label="INTRODUCTION">Aches abound.</AbstractText>'
        '<AbstractText Label="PATIENTS AND METHODS:">We bathed.</AbstractText>'
        '<AbstractText Label="METHODS AND RESULTS">None complained.</AbstractText>'
        '<AbstractText Label="CONCLUSION">Baths help.</AbstractText>'
        '<AbstractText Label="METHODS" NlmCategory="UNASSIGNED">Salt was given.</AbstractText>'
        "</Abstract></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"
    )
    (found,) = read_corpus(path)
    assert 1999 == found.year
    facets = [Facet.BACKGROUND, Facet.METHOD, None, Facet.RESULT, None]
    assert facets == [sentence.facet for sentence in found.sentences]


def test_pubmed_texts_without_markup_and_authors_with_initials(write: WriteFn) -> None:
    """Markup that is written as text is removed, and initials stand for a first name that is missing."""
    path = write(
        "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>5</PMID><Article>"
        "<Journal><Title>Salt &amp;amp; Baths</Title></Journal>"
        "<ArticleTitle>H&lt;sub&gt;2&lt;/sub&gt;O</ArticleTitle>"
        "<Abstract><AbstractText>A &amp;amp; H&lt;sub&gt;2&lt;/sub&gt;O, p &lt; 1.</AbstractText></Abstract>"
        "<AuthorList><Author><LastName>Quill</LastName><Initials>AB</Initials></Author></AuthorList>"
        "</Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"
    )
    (found,) = read_corpus(path)
    assert ("H2O", "A & H2O, p < 1.", "Salt & Baths") == (found.title, found.abstract, found.venue)
    assert ("AB Quill",) == found.authors


def test_formulas_of_pubmed(write: WriteFn) -> None:
    """The signs of a formula stand together, however its elements are indented."""
    path = write(
        "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>5</PMID><Article>"
        "<ArticleTitle>Baths</ArticleTitle><Abstract><AbstractText>At "
        '<m:math xmlns:m="http://www.w3.org/1998/Math/MathML">\n  <m:msub>\n    <m:mi>VO</m:mi>\n'
        "    <m:mrow><m:mn>2</m:mn>\n<m:mtext> max</m:mtext></m:mrow>\n  </m:msub>"
        " = x<m:sup>2</m:sup></m:math> we bathed."
        "</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"
    )
    assert ["At VO2 max = x2 we bathed."] == [found.abstract for found in read_corpus(path)]


def test_pubmed_books(write: WriteFn) -> None:
    """A chapter of a book is a paper whose venue is the book."""
    path = write(
        "<PubmedArticleSet><PubmedBookArticle><BookDocument><PMID>6</PMID>"
        "<Book><BookTitle>Bath Reviews</BookTitle><PubDate><Year>1993</Year></PubDate>"
        '<AuthorList Type="editors"><Author><LastName>Rask</LastName></Author></AuthorList></Book>'
        "<ArticleTitle>Aches</ArticleTitle>"
        '<AuthorList Type="authors">'
        "<Author><LastName>Quill</LastName><ForeName>Ada</ForeName></Author></AuthorList>"
        "<Abstract><AbstractText>Aches abound.</AbstractText></Abstract></BookDocument>"
        "<PubmedBookData/></PubmedBookArticle></PubmedArticleSet>"
    )
    url = "https://pubmed.ncbi.nlm.nih.gov/6/"
    book = paper(
        "pmid:6", "Aches", "Aches abound.", year=1993, venue="Bath Reviews", authors=("Ada Quill",), url=url
    )
    assert [book] == list(read_corpus(path))


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_the_delimiter_of_a_table_is_found(write: WriteFn, delimiter: str) -> None:
    """Commas, tabs, semicolons and bars all separate columns, in any order of columns."""
    path = write(delimiter.join(["ABSTRACT", "id", "Title"]), delimiter.join(["Short.", "t1", "T"]))
    assert [paper("t1", "T", "Short.")] == list(read_corpus(path))


def test_broken_rows_of_a_table_have_their_line(write: WriteFn) -> None:
    """Line numbers count line breaks in quotes, and a row with another number of values is broken."""
    path = write("id,title,abstract", 'a,"T\n\nU",Short.', "b,T,too,many", b"c,T,\x81\n", "d,T,Last.")
    assert [
        (5, "4 values for 3 columns; check for a delimiter that is not quoted"),
        (6, "neither UTF-8 nor Latin-1 at byte 5 of the line; save the file as UTF-8"),
    ] == reasons(path)


def test_a_quote_never_closed_is_a_broken_row(write: WriteFn) -> None:
    """A quote that is never closed is reported at the line where it opens."""
    path = write("id,title,abstract", 'a,"T,An abstract.', *["b,T,An abstract."] * 10_000)
    line, reason = reasons(path)[0]
    assert 2 == line
    assert "check for a quote that is not closed" in reason


def test_a_quote_that_swallows_rows_of_a_table_with_tabs_is_reported(write: WriteFn) -> None:
    """In a tab-separated table, a cell whose quote spans rows is reported, not lost silently."""
    rows = ['a\t"Tides" of the sea\tShort.', 'b\t"Tides\tShort.', 'c\tof gauges"\tShort.', "d\tT\tLast."]
    path = write("id\ttitle\tabstract", *rows)
    assert [(3, "a quote that is not closed before line 4")] == reasons(path)
    assert ["a", "d"] == [each.id for each in read_corpus(path)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (['a,"T,abs', 'b,"T,abs', "c,T,Last."], [(2, "',' expected after '\"'")]),
        (["a,T,Short.", 'b,T,"abs', "c,T,Last."], [(3, "a quote that is not closed")]),
        (['a,"Tides" of the sea,Short.', 'b,"T\nU","x ""y""\nz"'], []),
    ],
)
def test_a_stray_quote_that_merges_rows_is_reported(
    write: WriteFn, rows: list[str], expected: list[tuple[int, str]]
) -> None:
    """A row of several lines is refused if its quotes are not those of whole cells; other rows are read."""
    found = reasons(write("id,title,abstract", *rows))
    assert [line for line, _ in expected] == [line for line, _ in found]
    for (_, words), (_, reason) in zip(expected, found, strict=True):
        assert words in reason
        assert "check for a quote that is not closed" in reason


def test_the_first_of_two_columns_of_one_field_counts(write: WriteFn) -> None:
    """Two names of the id, or one name twice; a later column counts if the first is empty."""
    path = write("id,title,abstract,paper_id,title", "a,T,Short.,b,U", ",,Short.,b,U")
    assert [("a", "T"), ("b", "U")] == [(found.id, found.title) for found in read_corpus(path)]


def test_a_table_may_be_in_windows_1252(write: WriteFn) -> None:
    """Excel saves it so; a line with both encodings keeps the characters of each."""
    path = write(
        "id,title,abstract", "a,Café,Short.\n".encode("cp1252"), "b,Éé – ".encode() + b"\xe9,Short.\n"
    )
    assert ["Café", "Éé – é"] == [found.title for found in read_corpus(path)]


def test_names_of_columns_may_hold_the_delimiter_and_a_line_for_excel(write: WriteFn) -> None:
    """A quoted column name may contain the delimiter, and Excel's ``sep=`` line is skipped."""
    expected = [paper("t1", "T", "Short.")]
    assert expected == list(read_corpus(write('id,"Notes, mine",title,abstract', "t1,N,T,Short.")))
    assert expected == list(read_corpus(write("sep=;", "id;title;abstract", "t1;T;Short.")))
    assert expected == list(read_corpus(write('"sep=,"', "id,title,abstract", "t1,T,Short.")))


def test_a_table_without_a_needed_column(write: WriteFn) -> None:
    """The error for a missing column names it."""
    with pytest.raises(CorpusFormatError, match="no column abstract and no id"):
        list(read_corpus(write("title,year", "T,2001"), format_name="csv"))


@pytest.mark.parametrize(
    ("collection", "volume", "number", "expected"),
    [
        ("2021.eacl", "main", "7", "2021.eacl-main.7"),
        ("J10", "1", "2", "J10-1002"),
        ("W05", "1", "3", "W05-0103"),
        ("D19", "50", "4", "D19-5004"),
    ],
)
def test_anthology_ids_are_derived(
    write: WriteFn, collection: str, volume: str, number: str, expected: str
) -> None:
    """A paper without a url gets the id that the Anthology derives."""
    path = write(
        f'<collection id="{collection}"><volume id="{volume}"><paper id="{number}">'
        "<title>T</title><abstract>Short.</abstract></paper></volume></collection>"
    )
    assert [f"acl:{expected}"] == [found.id for found in read_corpus(path)]


def test_authors_of_the_anthology_are_their_names(write: WriteFn) -> None:
    """Neither affiliation nor spelling in another script belongs to a name; one part of it may be missing."""
    path = write(
        '<collection id="2021.x"><volume id="1"><paper id="1"><title>T</title><abstract>Short.</abstract>'
        "<author><first>Jane</first><last>Doe</last><affiliation>MIT, Boston</affiliation>"
        '<variant script="hani"><first>简</first><last>多</last></variant></author>'
        "<author><first/><last>Quill</last></author></paper></volume></collection>"
    )
    assert [("Jane Doe", "Quill")] == [found.authors for found in read_corpus(path)]


@pytest.mark.parametrize(
    "authors",
    [
        {"authors": r"P\'eter Bal\'azs, B. Rask"},
        {"authors_parsed": [[r"Bal\'azs", r"P\'eter", ""], ["Rask", "B."]]},
    ],
)
def test_latex_in_metadata_of_arxiv(write: WriteFn, authors: dict[str, object]) -> None:
    """Accents and signs become characters in titles, abstracts and names; formulas stay."""
    record = {
        "id": "9912.00001",
        "title": r"Schr\"{o}dinger operators",
        "abstract": r"In 5\% of ~20 cases, $k \leq 3$.",
        "categories": "math.PR",
        "submitter": "A",
        "doi": "10.5555/a 10.5555/b",
        **authors,
    }
    (found,) = read_corpus(write(json.dumps(record)))
    assert "10.5555/a" == found.doi  # the other is of another version
    assert ("Schrödinger operators", r"In 5% of ~20 cases, $k \leq 3$.") == (found.title, found.abstract)
    assert ("Péter Balázs", "B. Rask") == found.authors


# Real files


@pytest.mark.parametrize(
    ("file", "papers", "without_abstract"),
    [
        ("2021.eacl.xml", 396, 0),
        ("2022.scil.xml", 0, 26),
        ("J10.xml", 0, 46),
        ("s2orc-metadata-sample.jsonl", 488, 512),
        ("unarxive-sample.jsonl", 3, 0),
    ],
)
def test_real_files(file: str, papers: int, without_abstract: int) -> None:
    """Files as published are read without a broken row."""
    report = CorpusReport()
    for found in read_corpus(outside_data(f"formats/{file}"), report=report):
        assert all(found.abstract[s.start : s.end] == s.text for s in found.sentences)
    assert (papers, without_abstract, 0) == (report.papers, report.without_abstract, report.broken)
