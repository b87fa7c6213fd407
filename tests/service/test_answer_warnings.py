"""Tests of the warnings in answers: one sentence each, and values for programs."""

from dataclasses import asdict

import pytest

from service.answer_warnings import WarningCode, warning
from tests.support.answers import warned


@pytest.mark.parametrize("code", WarningCode)
def test_every_code_has_a_sentence_that_says_what_to_do(code: WarningCode) -> None:
    """Every warning has its values in the sentence, followed by a remedy, with no template left unfilled."""
    made = warning(code, 1234)
    assert [(code, ("1234",))] == warned({"warnings": [asdict(made)]})
    assert "1,234" in made.message
    found, remedy = made.message.split("; ")
    assert found
    assert remedy


def test_several_values_are_listed() -> None:
    """Several facets are listed by name; of several unread sentences only the first is named."""
    assert "the facet method or other," in warning(WarningCode.FACET_MISSING, "method", "other").message
    past = warning(WarningCode.UNLIKE_SENTENCES_PAST_TOKEN_LIMIT, 3, 5)
    assert ("3", "5") == past.about
    assert "ends before sentence 3 (counted from 0), so sentences chosen to be unlike from" in past.message
