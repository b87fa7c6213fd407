"""The names of library entries."""

import pytest

from indexer.corpus.library.names import (
    EntryNames,
    doi_in,
    entry_names,
    name_of,
    reference_of,
    usual_order,
    year_in,
)

SICI = "10.1002/(SICI)1097-4571(199009)41:6<391::AID-ASI1>3.0.CO;2-9"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("10.5555/A(1)b", "doi:10.5555/a(1)b"),
        ("doi:10.5555/a.", "doi:10.5555/a"),
        ("https://doi.org/10.5555/a%2Fb", "doi:10.5555/a/b"),
        (SICI, f"doi:{SICI.lower()}"),
        ("https://doi.org/" + SICI.replace("<", "%3C").replace(">", "%3E"), f"doi:{SICI.lower()}"),
        ("<i>10.5555/a</i>", "doi:10.5555/a"),
        ("10.5555/a<https://example.org/1>", "doi:10.5555/a"),
        ("https://dx.doi.org/10.48550/arXiv.2212.11867", "arxiv:2212.11867"),
        ("2212.11867", "arxiv:2212.11867"),
        ("arXiv: 2212.11867v12", "arxiv:2212.11867"),
        ("https://arxiv.org/pdf/2212.11867v2.pdf", "arxiv:2212.11867"),
        ("hep-th/9901001v1", "arxiv:hep-th/9901001"),
        ("arXiv:q-bio/0401001", "arxiv:q-bio/0401001"),
        ("https://arxiv.org/abs/alg-geom/9202004", "arxiv:alg-geom/9202004"),
        ("arxiv:math.GT/0309136", "arxiv:math.gt/0309136"),
        ("31452104", "pmid:31452104"),
        ("PMID: 31452104", "pmid:31452104"),
        ("https://pubmed.ncbi.nlm.nih.gov/31452104/", "pmid:31452104"),
        ("https://www.ncbi.nlm.nih.gov/pubmed/31452104", "pmid:31452104"),
        ("http://www.ncbi.nlm.nih.gov/pubmed/?term=31452104", "pmid:31452104"),
        ("http://www.ncbi.nlm.nih.gov/pubmed/?term=2019+floods", None),
        ("123456789", None),
        ("https://example.org/10", None),
        ("floods", None),
    ],
)
def test_a_line_names_a_paper(line: str, name: str | None) -> None:
    """DOIs, arXiv ids and PubMed numbers are found bare, prefixed or as addresses; versions are dropped."""
    assert name == reference_of(line)


@pytest.mark.parametrize(
    ("address", "doi"),
    [
        ("https://onlinelibrary.wiley.com/doi/full/10.5555/asi.2#abstract", "10.5555/asi.2"),
        ("https://onlinelibrary.wiley.com/doi/10.5555/asi.2/abstract?x=1", "10.5555/asi.2"),
        ("https://www.frontiersin.org/articles/10.5555/f.2019.1/full/html", "10.5555/f.2019.1"),
        ("http://www.tandfonline.com/doi/pdf/10.5555/a.PDF", "10.5555/a"),
        ("https://link.springer.com/content/pdf/10.5555/s1-2.pdf.", "10.5555/s1-2"),
        ("https://www.biorxiv.org/content/10.5555/2020.1.2v2.full.pdf+html", "10.5555/2020.1.2"),
        ("https://www.biorxiv.org/content/10.5555/2020.1.2v1", "10.5555/2020.1.2"),
        ("https://journals.plos.org/plosone/article/file?id=10.5555/p.1&type=printable", "10.5555/p.1"),
        ("Read at https://iopscience.iop.org/article/10.5555/b/meta today", "10.5555/b"),
        ("https://academic.oup.com/mind/article/doi/10.5555/mind/fzab1/6279134", "10.5555/mind/fzab1"),
        ("https://academic.oup.com/mind/article-pdf/doi/10.5555/mind/fzab1/42/f.pdf", "10.5555/mind/fzab1"),
        ("https://academic.oup.com/mind/article-lookup/doi/10.5555/mind/fzab1", "10.5555/mind/fzab1"),
        ("https://example.org/10.5555/mind/6279134", "10.5555/mind/6279134"),
        ("https://doi.org/10.5555/a.pdf?source=b", "10.5555/a.pdf"),
        ("https://doi.org/10.5555/a;2-#", "10.5555/a;2-#"),
        ("10.5555/a?b#c/full", "10.5555/a?b#c/full"),
    ],
)
def test_an_address_adds_nothing_to_a_doi(address: str, doi: str) -> None:
    """Query, fragment and publisher suffix of an address are dropped; a DOI given as such stays whole."""
    assert doi == doi_in(address)


def test_a_name_alone_may_be_an_old_doi() -> None:
    """An old DOI with angle brackets is a name, bare or prefixed; with a word after it, it is not."""
    assert [f"doi:{SICI}"] * 2 + [None] == [name_of(text) for text in (SICI, f"doi: {SICI}", f"{SICI} a")]


def names(**given: str | None) -> EntryNames:
    """Return the names of an entry with these fields."""
    fields: dict[str, str | None] = {"doi": None, "arxiv": None, "pmid": None, "key": "quill2019"} | given
    url = fields.pop("url", None)
    return entry_names(**fields, others=(url,))  # type: ignore[arg-type]  # fields of it


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, EntryNames("quill2019", None, None)),
        ({"key": None}, EntryNames(None, None, None)),
        ({"doi": "10.5555/A"}, EntryNames("doi:10.5555/a", "10.5555/A", "doi:10.5555/a")),
        ({"doi": SICI}, EntryNames(f"doi:{SICI.lower()}", SICI, f"doi:{SICI.lower()}")),
        (
            {"doi": SICI.replace("<", "&lt;").replace(">", "&gt;")},
            EntryNames(f"doi:{SICI.lower()}", SICI, f"doi:{SICI.lower()}"),
        ),
        ({"doi": "doi:10.5555/a<b>"}, EntryNames("doi:10.5555/a<b>", "10.5555/a<b>", "doi:10.5555/a<b>")),
        ({"doi": "see 10.5555/a<b>"}, EntryNames("doi:10.5555/a", "10.5555/a", "doi:10.5555/a")),
        ({"arxiv": "2212.11867v2"}, EntryNames("arxiv:2212.11867", None, "arxiv:2212.11867")),
        (
            {"doi": "10.48550/arXiv.2212.11867"},
            EntryNames("arxiv:2212.11867", "10.48550/arXiv.2212.11867", "arxiv:2212.11867"),
        ),
        (
            {"doi": "10.5555/a", "arxiv": "2212.11867"},
            EntryNames("doi:10.5555/a", "10.5555/a", "arxiv:2212.11867"),
        ),
        ({"pmid": "41"}, EntryNames("pmid:41", None, "pmid:41")),
        ({"url": "https://doi.org/10.5555/a"}, EntryNames("doi:10.5555/a", "10.5555/a", "doi:10.5555/a")),
        ({"url": "https://aclanthology.org/P18-1001.pdf"}, EntryNames("acl:P18-1001", None, None)),
        (
            {"url": "https://www.aclweb.org/anthology/2020.acl-main.447/"},
            EntryNames("acl:2020.acl-main.447", None, None),
        ),
    ],
)
def test_an_entry_is_named(given: dict[str, str | None], expected: EntryNames) -> None:
    """An entry is named by its DOI, archive number or key, in this order, with the name to look up if any."""
    assert expected == names(**given)


@pytest.mark.parametrize(
    ("texts", "year"),
    [
        (["2020a"], "2020"),
        (["c1999"], "1999"),
        (["20200105"], "2020"),
        (["2021/03/01"], "2021"),
        (["in press", None, "2021, 2022"], "2021"),
        (["1499 or 2100"], None),
        (["120200", "20201", "20209901"], None),
        ([None, ""], None),
    ],
)
def test_the_first_year_counts(texts: list[str | None], year: str | None) -> None:
    """Letters may stand beside a year, and digits that make it a date; texts without a year are skipped."""
    assert year == year_in(*texts)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Quill, Ada", "Ada Quill"),
        ("Rask, Bo, Jr", "Bo Rask Jr"),
        ("The Lamp Group", "The Lamp Group"),
        ("Quill,", "Quill"),
        ("Maurice J. Pescitelli, Jr.", "Maurice J. Pescitelli Jr."),
    ],
)
def test_names_of_people(name: str, expected: str) -> None:
    """The first name of a person comes first."""
    assert expected == usual_order(name)
