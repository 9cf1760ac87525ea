"""An executable and its arguments as a command line, and back."""

import re
import shlex
from collections.abc import Sequence

from headnode.core.formats.grid.keys import MAX_COUNT
from headnode.core.model.task import words_of

SHELL = "/bin/sh"
_MPI = ("mpiexec", "-n")
_VARIABLE = re.compile(r"%(?=[A-Za-z_][A-Za-z0-9_.()]*%)")
_PLAIN = re.compile(r"[\w@+:,./-]+", re.ASCII)  # a word that means itself
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[\w@%+=:,./-]*")  # a word that a shell would not run
_ACTED_ON = re.compile(r"%[A-Za-z_][A-Za-z0-9_.()]*%")


def join(argv: Sequence[str]) -> str:
    """Return a command line that runs `argv`, whatever is in them.

    >>> join(["/bin/echo", "a b", "%HOME%", "$HOME"])
    "/bin/echo 'a b' %''HOME% '$HOME'"
    """
    return " ".join(map(_quoted, argv))


def _quoted(word: str) -> str:
    """Quote a word; a pair of quotes inside keeps a name between percent signs from being one."""
    if _PLAIN.fullmatch(word):
        return word
    quoted = f"'{word}'" if _ASSIGNMENT.fullmatch(word) else shlex.quote(word)
    return _VARIABLE.sub("%''", quoted) if "%" in word else quoted


def with_directory(executable: str) -> str:
    """Return an executable as a path: one without a slash is in the directory of the task, not in PATH."""
    return executable if "/" in executable else f"./{executable}"


def mpi(count: int, argv: Sequence[str]) -> list[str]:
    """Return the words that start an MPI program on `count` processors."""
    return [*_MPI, str(count), *argv]


def split(command: str, count: int) -> tuple[list[str], bool, str]:
    """Return executable and arguments of a command line, whether it is an MPI program, and what is lost.

    Only what `join` wrote is taken apart; all else is handed to a shell, which does the same with it.
    """
    words = _words(command)
    is_mpi = 1 < count <= MAX_COUNT and len(words) > 3 and words[:3] == [*_MPI, str(count)]
    if is_mpi and "/" in words[3]:
        return words[3:], True, ""
    if words and "/" in words[0]:
        return words, False, ""
    names = _ACTED_ON.findall(command)
    lost = f"{names[0]} is not replaced there: it is not shell syntax" if names else ""
    return [SHELL, "-c", command], False, lost


def _words(command: str) -> list[str]:
    """Return the words of a command line that `join` could have written; none of any other."""
    try:
        words = words_of(command)
    except ValueError:
        return []
    return words if join(words) == command else []
