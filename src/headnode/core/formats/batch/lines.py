"""The lines of a batch script that are options for its scheduler, and the words in them.

Source:  Slurm, sbatch(1), "DESCRIPTION"; Grid Engine, qsub(1), "-C"; PBS, qsub(1B), "Directive Prefix"; LSF,
         bsub(1), "command" and "job_script"; and what Slurm 22.05 and Grid Engine 8.1 do with scripts.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, NoReturn

from headnode.core.formats.option_words import SCRIPT_MARKS
from headnode.core.formats.text.source_text import SourceText
from headnode.core.model.bounds import SCRIPT_OPTIONS
from headnode.core.model.errors import BadRequest, Path


class BatchSystem(StrEnum):
    """A scheduler whose scripts are read; the value is the name of the dialect."""

    SLURM = "slurm"
    PBS = "pbs"
    GRID_ENGINE = "gridengine"
    LSF = "lsf"


class ScriptRules(NamedTuple):
    """How a scheduler reads its scripts, and what its jobs have if no option says otherwise."""

    title: str
    mark: str  # of the lines with options
    directive: re.Pattern[str]  # the beginning of such a line
    whole: bool  # option lines are read behind the first command, too
    of_shell: bool  # the job has the directory and all variables of the shell that submits it
    merged: bool  # errors go where output goes
    rerunnable: bool
    prefixes: tuple[str, ...]  # of the variables that the scheduler sets


RULES: Final[Mapping[BatchSystem, ScriptRules]] = {
    BatchSystem.SLURM: ScriptRules(
        title="Slurm batch script",
        mark=SCRIPT_MARKS[BatchSystem.SLURM],
        directive=re.compile(r"#SBATCH(?=[ \t]|$)"),
        whole=False,
        of_shell=True,
        merged=True,
        rerunnable=True,
        prefixes=("SLURM_",),
    ),
    BatchSystem.PBS: ScriptRules(
        title="PBS job script",
        mark=SCRIPT_MARKS[BatchSystem.PBS],
        directive=re.compile(r"#PBS(?=[ \t]|$)"),
        whole=False,
        of_shell=False,
        merged=False,
        rerunnable=True,
        prefixes=("PBS_",),
    ),
    BatchSystem.GRID_ENGINE: ScriptRules(
        title="Grid Engine job script",
        mark=SCRIPT_MARKS[BatchSystem.GRID_ENGINE],
        directive=re.compile(r"#\$(?=[ \t]*-)"),
        whole=True,
        of_shell=False,
        merged=False,
        rerunnable=False,
        prefixes=("SGE_",),
    ),
    BatchSystem.LSF: ScriptRules(
        title="batch script of LSF",
        mark=SCRIPT_MARKS[BatchSystem.LSF],
        directive=re.compile(r"#BSUB(?=[ \t]|$)"),
        whole=True,
        of_shell=True,
        merged=True,
        rerunnable=False,
        prefixes=("LSB_", "LS_"),
    ),
}
LIMIT_OPTIONS: Final = {"core": "-C", "data": "-D", "fsize": "-F", "stack": "-S"}
"""Limits of processes, and the options of bsub for them."""
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""")
_QUOTED = re.compile(r"""\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'""")


class Word(NamedTuple):
    """A word of a directive, without its quotes, and where it begins in the script."""

    text: str
    start: int


class Directive(NamedTuple):
    """A line with options."""

    system: BatchSystem
    words: tuple[Word, ...]


def system_of(text: str) -> BatchSystem | None:
    """Return whose options are in a script: of the first directive that its scheduler reads; None: nobody's.

    >>> system_of("#!/bin/sh\\n#SBATCH -n 2\\n"), system_of("#!/bin/sh\\ntrue\\n#SBATCH -n 2\\n")
    (<BatchSystem.SLURM: 'slurm'>, None)
    """
    for system in BatchSystem:
        if any(line.system is system for line in directives(SourceText(text), system)):
            return system
    return None


def read_by(system: BatchSystem) -> tuple[BatchSystem, ...]:
    """Return the schedulers whose lines one reads: Slurm also those of PBS."""
    return (system, BatchSystem.PBS) if system is BatchSystem.SLURM else (system,)


def directives(script: SourceText, system: BatchSystem) -> Iterator[Directive]:
    """Yield the lines with options in the order in which the scheduler reads them.

    Raises:  BadRequest ``quote`` for a quote without its partner, ``options`` beyond `SCRIPT_OPTIONS`.
    """
    read = read_by(system)
    at = length = 0
    for line in script.text.splitlines(keepends=True):
        if not RULES[system].whole and line.strip() and not line.lstrip().startswith("#"):
            return
        for each in read:
            if match := RULES[each].directive.match(line):
                length += len(line)
                refuse_long_options(script, at, length)
                yield Directive(each, tuple(_words(script, line.rstrip("\r\n"), match.end(), at)))
                break
        at += len(line)


def refuse_long_options(script: SourceText, at: int, length: int) -> None:
    """Refuse options that are too long to be read in a moment.

    Raises:  BadRequest ``options``.
    """
    if length > SCRIPT_OPTIONS.most:
        script.refuse(at, "options", f"the options are longer than {SCRIPT_OPTIONS}", "shorten them")


class OptionsText(SourceText):
    """The options of a command line: nobody looks for a line and a column of them."""

    def refuse(self, start: int, code: str, what: str, fix: str, about: Path = ("options",)) -> NoReturn:  # noqa: ARG002
        raise BadRequest(code=code, what=what, fix=fix, path=about)


def command_words(options: Sequence[str]) -> tuple[Word, ...]:
    """Return the options of a command line, each with its place in the line as a shell would quote it."""
    words, at = [], 0
    for text in options:
        words.append(Word(text, at))
        at += len(shlex.quote(text)) + 1
    return tuple(words)


def _words(script: SourceText, line: str, start: int, at: int) -> Iterator[Word]:
    """Yield the words of a line up to a comment."""
    while True:
        start += len(line) - start - len(line[start:].lstrip())
        if start >= len(line) or line[start] == "#":
            return
        match = _WORD.match(line, start)
        if match is None:
            script.refuse(at + start, "quote", "this quote is not closed", "close the quote in this line")
        yield Word(_QUOTED.sub(_unquoted, match[0]), at + start)
        start = match.end()
        if start < len(line) and not line[start].isspace():
            script.refuse(at + start, "quote", "this quote is not closed", "close the quote in this line")


def _unquoted(match: re.Match[str]) -> str:
    plain, double, single = match.groups()
    if double is not None:
        return re.sub(r'\\(["\\$`])', r"\1", double)
    return plain if plain is not None else single
