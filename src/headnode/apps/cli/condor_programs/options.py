"""Read the command line of a program of HTCondor by a table of its options.

Options have one dash, or two; they can be shortened, and some have qualifiers: ``-af:jr``.
Source:  HTCondor 24, the manual pages of its programs.
"""

import sys

from headnode.apps.cli.batch_programs.words import ProgramRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    CondorOptions: TypeAlias = "Mapping[str, CondorOption]"

REST = -1  # an option takes all words up to the next that begins with a dash


class CondorOption:
    """An option: how many values it has; `refused`, `ignored`: why it is refused, or has no effect."""

    __slots__ = ("ignored", "refused", "takes")

    def __init__(self, takes: int = 0, *, refused: str = "", ignored: str = "") -> None:
        self.takes, self.refused, self.ignored = takes, refused, ignored


def _listed(names: str, make: "Callable[[int], CondorOption]") -> "dict[str, CondorOption]":
    found = {}
    for name in names.split():
        bare = name.rstrip("=+")
        found[bare] = make(REST if name.endswith("+") else name.count("="))
    return found


def acted_on(names: str) -> "dict[str, CondorOption]":
    """Return options; an ``=`` behind a name is a value, a ``+`` any number of them.

    >>> {name: one.takes for name, one in acted_on("long format== attributes= af+").items()}
    {'long': 0, 'format': 2, 'attributes': 1, 'af': -1}
    """
    return _listed(names, CondorOption)


def ignored(names: str, why: str) -> "dict[str, CondorOption]":
    """Return options without effect, written as for `acted_on`."""
    return _listed(names, lambda takes: CondorOption(takes, ignored=why))


def refused(names: str, why: str) -> "dict[str, CondorOption]":
    """Return options that are refused, written as for `acted_on`."""
    return _listed(names, lambda takes: CondorOption(takes, refused=why))


class CondorLine:
    """A command line: options in their order, with qualifiers and values, and the other words."""

    def __init__(self) -> None:
        self.options: list[tuple[str, str, list[str]]] = []
        self.words: list[str] = []

    def has(self, name: str) -> bool:
        """Return whether an option was given."""
        return any(each == name for each, _, _ in self.options)

    def values(self, name: str) -> "list[str]":
        """Return the values of an option, of all its uses."""
        return [value for each, _, values in self.options for value in values if each == name]

    def text(self, name: str) -> "str | None":
        """Return the last value of an option; None if it was not given."""
        found = self.values(name)
        return found[-1] if found else None

    def number(self, name: str) -> "int | None":
        """Return a value that is a number; None if the option was not given.

        Raises:  ProgramRefusal.
        """
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            raise refusal(f"-{name} needs a number, not {text[:60]!r}")
        return int(text)


def refusal(*lines: str, status: int = 1) -> ProgramRefusal:
    """Return a refusal in the words of HTCondor."""
    first, *rest = lines
    return ProgramRefusal(f"ERROR: {first}", *rest, status=status, prefix="bare")


def read_line(program: str, words: "Sequence[str]", table: "CondorOptions") -> CondorLine:
    """Return a command line read; options without effect are told on standard error.

    Raises:  ProgramRefusal for an unknown option, a refused one, and one whose values are missing.
    """
    found, left = CondorLine(), list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            found.words.append(word)
            continue
        spelling, _, qualifiers = word.lstrip("-").partition(":")
        name = _whole(program, spelling.lower(), word, table)
        option = table[name]
        values = _values(word, option.takes, left)
        if option.refused:
            raise refusal(f"{word} is not supported here: {option.refused}")
        if option.ignored:
            sys.stderr.write(f"{program}: {word} has no effect here: {option.ignored}\n")
        else:
            found.options.append((name, qualifiers, values))
    return found


def _whole(program: str, spelling: str, word: str, table: "CondorOptions") -> str:
    """Return the whole name of an option; of several that begin so the first in the table."""
    if spelling in table:
        return spelling
    meant = [name for name in table if spelling and name.startswith(spelling)]
    if not meant:
        known = " ".join(f"-{name}" for name, one in table.items() if not one.refused and not one.ignored)
        raise refusal(f"Unrecognized option {word}", f"here {program} has {known}")
    return meant[0]


def _values(word: str, takes: int, left: "list[str]") -> "list[str]":
    if takes == REST:
        count = next((at for at, each in enumerate(left) if each.startswith("-")), len(left))
        count = max(count, 1)
    else:
        count = takes
    if len(left) < count:
        raise refusal(f"{word} requires {'an argument' if count < 2 else f'{count} arguments'}")
    values = left[:count]
    del left[:count]
    return values
