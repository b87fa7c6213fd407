"""Tests of which authors are the person of a profile, by written names and by ids of OpenReview."""

import unicodedata
from dataclasses import replace

import pytest

from models.errors import InputError
from service.match.program.names import MAX_NAME_CHARS, NameIndex, check_name
from tests.support.examples.corpus_examples import paper

WRITTEN = paper("s", "Moss", "Moss grows.")


@pytest.mark.parametrize(
    ("profile", "author"),
    [
        ("Ada Quill", "Ada Quill"),
        ("ADA  QUILL", "ada quill"),
        (unicodedata.normalize("NFD", "José Muñoz"), "José Muñoz"),
        ("Jose Munoz", "José Muñoz"),
        ("Søren Łukasz", "Soren Lukasz"),
        ("Quill, Ada", "Ada Quill"),
        ("Ada Quill", "Quill, Ada M."),
        ("Ada M. Quill", "Ada Quill"),
        ("Ada Mary Quill", "Ada J. Quill"),
        ("A. Quill", "Ada Quill"),
        ("Ada Quill", "A.M. Quill"),
        ("Ada Quill", "AM Quill"),
        ("Ada Quill", "Quill, AM"),
        ("AM Quill", "Ada Mary Quill"),
        ("BO QUILL", "Bo Quill"),
        ("Ada Quill", "Dr. Ada Quill, PhD"),
        ("Ada Quill", "Ada Quill, Ph.D."),
        ("Ada Quill", "Ada Quill, Jr."),
        ("Ada Quill III", "Quill, Ada"),
        ("Ada Quill", "Ada Quill 0002"),
        ("~Ada_Quill1", "Ada Quill"),
        ("~Ada_M_Quill1", "Quill, Ada"),
        ("Jean-Paul Quill", "Jeanpaul Quill"),
        ("Jean Paul Quill", "Jean-Luc Quill"),
        ("Ada O'Quill", "Ada O’Quill"),
        ("Quill", "quill"),
        ("王小明", "王小明"),
        ("राम शर्मा", "राम कुमार शर्मा"),
        ("ada@example.org", "Ada@example.org"),
    ],
)
def test_one_person(profile: str, author: str) -> None:
    """Case, accents, order, middle names, initials and suffixes do not distinguish people."""
    assert {profile} == NameIndex([profile, "Bo Rask"]).of(replace(WRITTEN, authors=("Cy Umber", author)))


@pytest.mark.parametrize(
    ("profile", "author"),
    [
        ("Ada Quill", "Bo Quill"),
        ("Ada Quill", "Ada Rask"),
        ("A. Quill", "B. Quill"),
        ("Quill", "Ada Quill"),
        ("ada.quill@example.org", "Ada Org"),
        ("ada@example.org", "ada@example.com"),
        ("王小明", "王小红"),
        ("राम शर्मा", "रीना वर्मा"),
        ("~1", "2"),
    ],
)
def test_two_people(profile: str, author: str) -> None:
    """Other names and addresses are other people."""
    assert set() == NameIndex([profile]).of(replace(WRITTEN, authors=(author,)))


def test_a_short_name_in_capitals_is_not_taken_for_initials_of_somebody_known() -> None:
    """An author whose name may be initials of a known person may also be somebody else."""
    both = replace(WRITTEN, authors=("Lin Wang", "LI WANG"), author_ids=("~Lin_Wang1", "li@example.org"))
    assert {"~Li_Wang1", "Li M. Wang"} <= NameIndex(["~Li_Wang1", "Li M. Wang"]).of(both)


def test_ids_tell_people_of_one_name_apart() -> None:
    """An id belongs to the profile with it; other numbers are excluded, other spellings may be the person."""
    people = NameIndex(["~Ada_Quill1", "~Ada_Quill2", "~Ada_M_Quill1", "Ada Quill", "ada@example.org"])
    one = replace(WRITTEN, authors=("Ada Quill",), author_ids=("~Ada_Quill2",))
    assert {"~Ada_Quill2", "~Ada_M_Quill1", "Ada Quill"} == people.of(one)
    by_address = replace(WRITTEN, author_ids=("Ada@example.org", "https://example.org/ada_quill"))
    assert {"ada@example.org"} == people.of(by_address)
    others = replace(WRITTEN, authors=("Bo Rask", "Ada Quill"), author_ids=("~Bo_Rask1",))
    assert {"~Ada_Quill1", "~Ada_Quill2", "~Ada_M_Quill1", "Ada Quill"} == people.of(others)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0", "a\udcff", "x" * (MAX_NAME_CHARS + 1)])
def test_a_name_is_printable_and_not_too_long(name: str) -> None:
    """A name has 1 to 300 printable characters."""
    with pytest.raises(InputError, match="1 to 300 printable characters"):
        check_name(name)
    check_name("x" * MAX_NAME_CHARS)
