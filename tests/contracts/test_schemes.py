"""Tests of the contract of every scheme in SCHEMES, which reads other services' names of papers."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.resolve.identifiers import SCHEMES, Names, names_of

# A name in each scheme, and an id or DOI that the paper may have in a collection.
GIVEN = {
    "doi": ("10.1000/A.b", "10.1000/a.b"),
    "arxiv": ("2106.15928v3", "arxiv:2106.15928"),
    "acl": ("2020.acl-main.447", "acl:2020.acl-main.447"),
    "corpusid": ("77490025", "s2:77490025"),
    "mag": ("112218234", "mag:112218234"),
    "pmid": ("19872477", "pmid:19872477"),
    "pmcid": ("2323736", "pmcid:PMC2323736"),
    "s2": ("77490025", "s2:77490025"),
    "openalex": ("W112218234", "openalex:W112218234"),
    "url": ("https://arxiv.org/abs/2106.15928", "arxiv:2106.15928"),
}


def test_every_scheme_is_tested() -> None:
    """Every scheme has a name in ``GIVEN``."""
    assert set(GIVEN) == set(SCHEMES)


@pytest.mark.parametrize("scheme", SCHEMES)
class TestEveryScheme:
    def test_its_names_are_read(self, scheme: str) -> None:
        """Names are read with the prefix in any case and with blanks around the name."""
        name, meant = GIVEN[scheme]
        read = names_of(f"{scheme}:{name}")
        assert meant in {*read.ids, read.doi, read.address}
        assert read == names_of(f" {scheme.upper()}:  {name} ")

    def test_without_a_name_it_calls_no_paper(self, scheme: str) -> None:
        """A prefix without a name gives no names."""
        assert Names() == names_of(f"{scheme}:  ")

    @settings(max_examples=20)
    @given(name=st.text(max_size=40))
    @example(name="http://[no address")
    def test_any_text_is_read_without_an_error(self, scheme: str, name: str) -> None:
        """Any text is read without an error, and always with the same result."""
        assert SCHEMES[scheme](name) == SCHEMES[scheme](name)
