"""How the entries of a library are named."""

import pytest

from indexer.corpus.library.names import EntryNames, entry_names, reference_of, usual_order


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("10.5555/A(1)b", "doi:10.5555/a(1)b"),
        ("doi:10.5555/a.", "doi:10.5555/a"),
        ("https://doi.org/10.5555/a%2Fb", "doi:10.5555/a/b"),
        ("https://dx.doi.org/10.48550/arXiv.2212.11867", "arxiv:2212.11867"),
        ("2212.11867", "arxiv:2212.11867"),
        ("arXiv: 2212.11867v12", "arxiv:2212.11867"),
        ("https://arxiv.org/pdf/2212.11867v2.pdf", "arxiv:2212.11867"),
        ("hep-th/9901001v1", "arxiv:hep-th/9901001"),
        ("arxiv:math.GT/0309136", "arxiv:math.gt/0309136"),
        ("31452104", "pmid:31452104"),
        ("PMID: 31452104", "pmid:31452104"),
        ("https://pubmed.ncbi.nlm.nih.gov/31452104/", "pmid:31452104"),
        ("123456789", None),
        ("https://example.org/10", None),
        ("floods", None),
    ],
)
def test_a_line_names_a_paper(line: str, name: str | None) -> None:
    """DOIs, arXiv ids and PubMed numbers, bare, prefixed or as addresses; versions do not count."""
    assert name == reference_of(line)


def names(**given: str | None) -> EntryNames:
    """The names of an entry with these fields."""
    fields: dict[str, str | None] = {"doi": None, "arxiv": None, "pmid": None, "key": "quill2019"} | given
    url = fields.pop("url", None)
    return entry_names(**fields, others=(url,))  # type: ignore[arg-type]  # fields of it


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, EntryNames("quill2019", None, None)),
        ({"key": None}, EntryNames(None, None, None)),
        ({"doi": "10.5555/A"}, EntryNames("doi:10.5555/a", "10.5555/A", "doi:10.5555/a")),
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
    """By its DOI, else its number in an archive, else its key; looked up where abstracts are."""
    assert expected == names(**given)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Quill, Ada", "Ada Quill"),
        ("Rask, Bo, Jr", "Bo Rask Jr"),
        ("The Lamp Group", "The Lamp Group"),
        ("Quill,", "Quill"),
    ],
)
def test_names_of_people(name: str, expected: str) -> None:
    """The first name comes first."""
    assert expected == usual_order(name)
