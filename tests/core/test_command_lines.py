"""A command line has the words that a shell would give it."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.model.task import words_of

SIGNS = "ab'\"\\# \t\r\n\x0b\x1c\x85\xa0\u2003ü=$-"


@given(st.text(alphabet=SIGNS, max_size=12))
def test_the_words_are_those_of_a_shell(text: str) -> None:
    try:
        words = shlex.split(text)
    except ValueError:
        with pytest.raises(ValueError):
            words_of(text)
    else:
        assert words_of(text) == words
