"""Tables of recurring jobs as `scrontab` has them: times with commands, and options of sbatch before them.

Source:  Slurm 22.05, scrontab(1).
"""

import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from headnode.core.model.bounds import SCRIPT_OPTIONS, SHORT_LIST
from headnode.core.model.errors import BadRequest, TextPosition
from headnode.core.model.schedule import FIELDS, WORDS

MARK: Final = "#SCRON"
ZONE_VARIABLE: Final = "CRON_TZ"
_SETTING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


class TableEntry(NamedTuple):
    """An entry of a table: when, what, and with which options of sbatch."""

    line: int  # from 1
    schedule: str
    command: str
    options: tuple[str, ...]
    environment: dict[str, str]
    zone: str  # "": none is set


def read_table(text: str, most: int = 1000) -> Iterator[TableEntry]:
    """Yield the entries of a table, `most` at most.

    Options of ``#SCRON`` lines are those of the next entry alone; a variable is that of all entries below it.
    ``CRON_TZ`` is the time zone of the entries below it.
    Raises:  BadRequest ``crontab`` with the line.

    >>> [entry[1:4] for entry in read_table("#SCRON -t 5\\n0 4 * * * ./nightly -x\\n")]
    [('0 4 * * *', './nightly -x', ('-t', '5'))]
    """
    options: list[str] = []
    environment: dict[str, str] = {}
    number = length = entries = 0
    for number, whole in enumerate(text.splitlines(), 1):
        line = whole.strip()
        if line.startswith(MARK) and line[len(MARK) :][:1] in ("", " ", "\t"):
            length += len(line)
            if length > SCRIPT_OPTIONS.most:
                _refuse(number, f"the table has more than {SCRIPT_OPTIONS} of options", "shorten it")
            options += _options(number, line[len(MARK) :])
        elif not line or line.startswith("#"):
            continue
        elif (setting := _SETTING.fullmatch(line)) is not None:
            environment[setting[1]] = _unquoted(setting[2])
            if len(environment) > SHORT_LIST.most:
                _refuse(number, f"the table sets more than {SHORT_LIST.most:,} variables", "set fewer")
        else:
            entries += 1
            if entries > most:
                _refuse(number, f"this is entry {entries:,}, and {most:,} are possible", "remove some")
            schedule, command = _divided(number, line)
            variables = {name: value for name, value in environment.items() if name != ZONE_VARIABLE}
            zone = environment.get(ZONE_VARIABLE, "")
            yield TableEntry(number, schedule, command, tuple(options), variables, zone)
            options = []
    if options:
        _refuse(number, f"the options of {MARK} have no entry below them", "remove them, or add an entry")


def _options(number: int, text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        _refuse(number, f"the options cannot be read: {error}", "close each quotation mark")


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _divided(number: int, line: str) -> tuple[str, str]:
    """Return schedule and command of an entry."""
    first = line.split(None, 1)[0].lower()
    count = FIELDS if not first.startswith("@") else 2 if first == "@every" else 1
    words = line.split(None, count)
    if len(words) <= count:
        known = ", ".join(sorted(WORDS))
        fix = f"write five fields, or one of {known}, and then a command"
        _refuse(number, "this is no entry: it has no time, or no command", fix)
    return " ".join(words[:count]), words[count]


def _refuse(line: int, what: str, fix: str) -> NoReturn:
    raise BadRequest(code="crontab", what=what, fix=fix, place=TextPosition(line, 0))
