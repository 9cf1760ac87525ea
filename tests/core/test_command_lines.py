"""A command line has the words that a shell would give it."""

import shlex
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headnode.core.model.task import SHELL, argv_of, words_of

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


@given(st.text(alphabet="ab'\"\\$;*` ", max_size=12).filter(str.strip))
@example("\"a 'b$HOME' c\"")
@example("'a'\"$HOME\"")
def test_what_needs_no_shell_gets_the_words_that_a_shell_would_give_it(text: str) -> None:
    """The shell of this machine is asked: it prints its words, each ended by NUL."""
    command = f"w {text}"
    words = argv_of(command)
    if words[0] == SHELL:
        return
    result = subprocess.run(
        [SHELL, "-c", f"w() {{ printf '%s\\0' \"$@\"; }}; {command}"], capture_output=True, check=True
    )
    assert "".join(f"{word}\0" for word in words[1:]) == result.stdout.decode() or words == ("w",)


def test_the_signal_that_ends_a_program_is_its_own_whatever_its_arguments_are() -> None:
    killed = argv_of("/bin/sh -c 'kill -9 $$'")
    assert subprocess.run(killed, check=False).returncode == -9
