"""Output of tasks becomes text with classes; nothing of it is interpreted by the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.apps.web.console.job_output import StyledText, styled


@pytest.mark.parametrize(
    ("output", "pieces"),
    [
        ("plain", [("", "plain")]),
        ("\x1b[32mgreen\x1b[0m after", [("a32", "green"), ("", " after")]),
        ("\x1b[1;31mboth\x1b[22mred\x1b[39m.", [("a1 a31", "both"), ("a31", "red"), ("", ".")]),
        ("\x1b[38;5;196mmany\x1b[48;2;1;2;3mcolours", [("", "manycolours")]),
        ("\x1b]0;a title\x07text", [("", "text")]),
        ("\x1b[2Jcleared\x1b[10;10Hmoved", [("", "clearedmoved")]),
        ("10 %\r50 %\r100 %\nnext", [("", "100 %\nnext")]),
        ("a\tb\r\nc", [("", "a\tb\nc")]),
        ("bell\x07 and \u202edirection", [("", "bell\\x07 and \\u202edirection")]),
    ],
)
def test_colours_are_kept_and_every_other_sequence_has_no_effect(
    output: str, pieces: list[tuple[str, str]]
) -> None:
    assert styled(output) == [StyledText(*piece) for piece in pieces]


@given(
    st.text(alphabet=st.sampled_from("ab \n\r\t\x1b[]0123456789;:mHJ\x07\u202e<&\"'\x00\x9b"), max_size=200)
)
def test_no_control_or_direction_character_comes_through(output: str) -> None:
    for classes, text in styled(output):
        assert all(char.isprintable() or char in "\n\t" for char in text)
        assert all(part[0] == "a" and part[1:].isdigit() for part in classes.split())
