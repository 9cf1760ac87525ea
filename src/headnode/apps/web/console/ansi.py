"""Output of tasks with the colours of ANSI sequences, as pieces of text with style sheet classes.

Nothing of the output reaches the page but as text: sequences that are no colours are left out, and control
and direction characters are spelt out.
"""

import re
from typing import Final, NamedTuple

from headnode.apps.cli.table import printable


class StyledText(NamedTuple):
    """A piece of output; `classes` are names such as ``a1 a32``, one for each attribute that is on."""

    classes: str
    text: str


_SEQUENCE: Final = re.compile(
    r"\x1b\[([0-9;:]{0,64})m"  # a colour or another attribute
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # another control sequence
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # a command for the terminal, such as its title
    r"|\x1b[@-Z\\-_]?"
)
_ATTRIBUTES: Final = frozenset((1, 2, 3, 4, 7, 9))
_ENDS: Final = {22: (1, 2), 23: (3,), 24: (4,), 27: (7,), 29: (9,)}


Attributes = dict[str, int]
"""The attributes that are on: ``attribute 1`` and the like, and ``colour``, each with its number."""


def attributes(words: str) -> Attributes:
    """Return the attributes of numbers with points between, such as ``1.32``; others are left out."""
    on: Attributes = {}
    for number in (int(each) for each in words[:64].split(".") if each.isascii() and each.isdigit()):
        _apply(on, str(number))
    return on


def styled(output: str, on: Attributes | None = None) -> list[StyledText]:
    """Return the pieces of an output, in order; those without an attribute have no class.

    `on` has the attributes at its beginning, and afterwards those at its end.
    """
    pieces: list[StyledText] = []
    on = {} if on is None else on
    at = 0
    for sequence in _SEQUENCE.finditer(output):
        _add(pieces, on, output[at : sequence.start()])
        if sequence[1] is not None:
            _apply(on, sequence[1])
        at = sequence.end()
    _add(pieces, on, output[at:])
    return pieces


def _add(pieces: list[StyledText], on: Attributes, text: str) -> None:
    if not text:
        return
    classes = " ".join(f"a{number}" for number in sorted(on.values()))
    clean = "\n".join(_line(line) for line in text.split("\n"))
    if pieces and pieces[-1].classes == classes:
        pieces[-1] = StyledText(classes, pieces[-1].text + clean)
    else:
        pieces.append(StyledText(classes, clean))


def _line(line: str) -> str:
    """Return a line as a terminal leaves it: what follows a carriage return replaces what was before it."""
    kept = line.removesuffix("\r").rpartition("\r")[2]
    return "\t".join(printable(part) for part in kept.split("\t"))


def _apply(on: Attributes, parameters: str) -> None:
    """Change the attributes that are on; those that the console has no style for are left out."""
    numbers = [int(part) if part else 0 for part in re.split("[;:]", parameters)]
    while numbers:
        number = numbers.pop(0)
        if number in (38, 48):  # a colour of 256, or of three parts
            del numbers[: 4 if numbers[:1] == [2] else 2]
        elif number == 0:
            on.clear()
        elif number in _ATTRIBUTES:
            on[f"attribute {number}"] = number
        elif number in _ENDS:
            for ended in _ENDS[number]:
                on.pop(f"attribute {ended}", None)
        elif 30 <= number <= 37 or 90 <= number <= 97:
            on["colour"] = number
        elif number == 39:
            on.pop("colour", None)
