"""Read the command line of a program of HTCondor by a table of its options.

Options have one dash, or two; they can be shortened, and some have qualifiers: ``-af:jr``.
Source:  HTCondor 24, the manual pages of its programs.
"""

import sys

from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords, names_here, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headnode.apps.cli.batch_programs.words import OptionTable

_COUNTS = {"never": 0, "always": 1, "two": 2}


class CondorWords(ProgramWords):
    """What was typed; `uses` has every option in its order, with its qualifiers and values."""

    __slots__ = ("uses",)

    def __init__(self) -> None:
        super().__init__()
        self.uses: list[tuple[str, str, list[str]]] = []

    def values(self, name: str) -> "list[str]":
        """Return the values of an option, of all its uses."""
        return self.options.get(name, [])

    def number(self, name: str) -> "int | None":
        """Return a value that is a number; None if the option was not given.

        Raises:  ProgramRefusal.
        """
        text = self.text(name)
        if text is None:
            return None
        number = number_of(text, 11)
        if number is None:
            raise refusal(f"-{name} needs a number, not {text[:60]!r}")
        return number


NOT_THERE: "Mapping[str, str]" = {
    "condor_transfer_data": "output is copied back at the end of each job: hn task output ID",
    "condor_ssh_to_job": "use: hn job shell ID",
    "condor_qedit": "use: hn job modify ID, or condor_prio",
    "condor_tail": "use: hn task output ID --follow",
}
"""Programs that are refused by name."""


def refuse_program(program: str) -> None:
    """Refuse a program that is not there, with what to use instead.

    Raises:  ProgramRefusal.
    """
    if program in NOT_THERE:
        raise refusal(f"{program} is not supported here; {NOT_THERE[program]}")


def refusal(*lines: str, status: int = 1) -> ProgramRefusal:
    """Return a refusal in the words of HTCondor."""
    first, *rest = lines
    return ProgramRefusal(f"ERROR: {first}", *rest, status=status, prefix="bare")


def read_line(program: str, argv: "Sequence[str]", table: "OptionTable") -> CondorWords:
    """Return a command line read; options without effect are told on standard error.

    Raises:  ProgramRefusal for an unknown option, a refused one, and one whose values are missing.
    """
    found, left = CondorWords(), list(argv)
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
            found.uses.append((name, qualifiers, values))
            found.options.setdefault(name, []).extend(values)
    return found


def _whole(program: str, spelling: str, word: str, table: "OptionTable") -> str:
    """Return the whole name of an option; of several that begin so the first in the table."""
    if spelling in table:
        return spelling
    meant = [name for name in table if spelling and name.startswith(spelling)]
    if not meant:
        raise refusal(f"Unrecognized option {word}", names_here(program, table))
    return meant[0]


def _values(word: str, takes: str, left: "list[str]") -> "list[str]":
    if takes == "several":
        count = next((at for at, each in enumerate(left) if each.startswith("-")), len(left))
        count = max(count, 1)
    else:
        count = _COUNTS[takes]
    if len(left) < count:
        raise refusal(f"{word} requires {'an argument' if count < 2 else f'{count} arguments'}")
    values = left[:count]
    del left[:count]
    return values
