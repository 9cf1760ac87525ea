"""Macros of submit files: ``$(name)``, ``$(name:default)`` and functions, expanded within bounds.

Three things are not known while a file is read: the number of a process of a sweep, the id of the job, and
chance.  For the first two a sign stands in the text, which becomes what Headnode replaces later.  Signs are
made of halves of surrogate pairs, which no file has.
Source:  HTCondor 24, "Submitting a Job": "Variables in the Submit Description File", "Function Macros in
the Submit Description File".
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

from headnode.core.formats.text.source_text import SourceText
from headnode.core.model.bounds import SUBMIT_TEXT, SUBMIT_VALUE, TASKS_OF_FILE
from headnode.core.model.task import ScriptOrigin

PROCESS_SIGN: Final = re.compile("\ud800(\\d+)\ud803(\\d+)\ud803(-?\\d+)\ud801")
JOB_ID = "\ud802"
_STEP_COST = 16  # characters that putting in one macro counts as
_DEEPEST = 32
_MACRO = re.compile(r"\$\$?([A-Za-z_]*)\(")
_NAME = re.compile(r"[A-Za-z_][\w.]*\Z")
_FORMAT = re.compile(r"%(?:0(\d))?d\Z")
_RANDOM = ("RANDOM_CHOICE", "RANDOM_INTEGER")


class OneByOne(Exception):
    """The processes of a queue command differ by more than a sweep can say: each is read for itself."""


class SweptNumber(NamedTuple):
    """A number that a sweep replaces: that of the process times `factor` plus `offset`, in `digits`.

    With 0 digits it is none that a sweep can say.
    """

    digits: int = 1
    factor: int = 1
    offset: int = 0

    def __str__(self) -> str:
        """Return its sign in a text."""
        return f"\ud800{self.digits}\ud803{self.factor}\ud803{self.offset}\ud801"


def swept_number(sign: str) -> SweptNumber | None:
    """Return the number that a sign stands for; None for any other text."""
    match = PROCESS_SIGN.fullmatch(sign)
    return None if match is None else SweptNumber(*map(int, match.groups()))


def without_signs(text: str) -> str:
    """Return a text for a message, with macros in place of signs."""
    return PROCESS_SIGN.sub("$(Process)", text).replace(JOB_ID, "$(Cluster)")


class ReadingBudget:
    """What is left of the bounds of one reading: of a submit file, or of all nodes of a flow."""

    def __init__(self) -> None:
        self.characters = SUBMIT_TEXT.most
        self.tasks = TASKS_OF_FILE.most


class Definition(NamedTuple):
    """A value, as it is written, and where it stands."""

    text: str
    start: int


class MacroTable:
    """The values of the file so far, by names in lower case."""

    def __init__(self, source: SourceText, origin: ScriptOrigin, budget: ReadingBudget) -> None:
        self._source, self._origin, self._budget = source, origin, budget
        self._table: dict[str, Definition] = {}
        self.used: set[str] = set()

    def define(self, name: str, text: str, start: int) -> None:
        """Set a value; where it names itself, its value before is put in.

        Raises:  BadRequest ``macro``.
        """
        if f"$({name.lower()}" in text.lower():
            text = self._with_itself(name, text, start)
        self._refuse_long(len(text), start)
        self._table[name.lower()] = Definition(text, start)

    def _with_itself(self, name: str, text: str, start: int) -> str:
        """Return a text with the value before in place of the name that gets it."""
        itself = re.compile(rf"\$\({re.escape(name)}(?::[^()$]*)?\)", re.IGNORECASE)
        before = self._table.get(name.lower())
        old = before.text if before else ""
        self._refuse_long(len(text) + len(old) * text.count("$("), start)
        found, times = itself.subn(lambda _: old, text)
        if times:
            self.used.add(name.lower())
        return found

    def defined(self, name: str) -> bool:
        """Return whether a name has a value."""
        self.used.add(name.lower())
        return name.lower() in self._table

    def spend(self, characters: int, start: int) -> None:
        """Count what the file expands to.

        Raises:  BadRequest ``too-large``.
        """
        self._budget.characters -= characters + _STEP_COST
        if self._budget.characters < 0:
            what = f"the macros of the file expand to more than {SUBMIT_TEXT}"
            self._source.refuse(start, "too-large", what, "divide the file, or shorten its macros")

    def expand(self, text: str, start: int, live: Mapping[str, str]) -> str:
        """Return a text with its macros expanded; `live` are those of the process, in lower case.

        Raises:  BadRequest ``macro``, ``not-supported``, ``too-large``; OneByOne for a process of a sweep.
        """
        self.spend(len(text), start)
        if "$" not in text:
            return text
        return _Expansion(self, start, live).text(text, 0)

    def _refuse_long(self, length: int, start: int) -> None:
        if length > SUBMIT_VALUE.most:
            what = f"the value has more than {SUBMIT_VALUE}"
            self._source.refuse(start, "macro", what, "shorten it")

    def refuse(self, start: int, what: str, fix: str, code: str = "macro") -> NoReturn:
        """Refuse the file for a macro.

        Raises:  BadRequest, always.
        """
        self._source.refuse(start, code, what, fix)

    def value(self, name: str) -> Definition | None:
        """Return the value of a name, which is used now."""
        self.used.add(name.lower())
        return self._table.get(name.lower())

    def variable(self, name: str) -> str | None:
        """Return a variable of the shell in which the file was submitted."""
        return self._origin.environment.get(name)

    @property
    def file(self) -> str:
        """The name of the file."""
        return self._origin.words[0] if self._origin.words else ""


class _Expansion:
    """One text being expanded."""

    def __init__(self, table: MacroTable, start: int, live: Mapping[str, str]) -> None:
        self._table, self._start, self._live = table, start, live

    def text(self, text: str, depth: int) -> str:
        parts: list[str] = []
        size = at = 0
        while match := _MACRO.search(text, at):
            end = self._closing(text, match.end())
            parts += text[at : match.start()], self._value(match, text[match.end() : end], depth)
            self._table.spend(len(parts[-1]), self._start)
            size += len(parts[-1]) + len(parts[-2])
            if size > SUBMIT_VALUE.most:
                self._refuse(f"the value expands to more than {SUBMIT_VALUE}", "shorten its macros")
            at = end + 1
        return "".join((*parts, text[at:]))

    def _refuse(self, what: str, fix: str, code: str = "macro") -> NoReturn:
        self._table.refuse(self._start, what, fix, code)

    def _closing(self, text: str, at: int) -> int:
        depth, place = 1, at
        while depth and place < len(text):
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            place += 1
        if depth:
            self._refuse("a macro has no closing parenthesis", "close it: $(NAME)")
        return place - 1

    def _value(self, match: "re.Match[str]", body: str, depth: int) -> str:
        if depth > _DEEPEST:
            self._refuse("macros refer to each other in a circle", "let one of them have a plain value")
        if match[0].startswith("$$"):
            what = "$$() is a property of the machine that is found, which is not known before the job starts"
            self._refuse(what, "leave it out; $CCP_NODES in the program names its nodes", "not-supported")
        function = match[1]
        if not function:
            return self._named(body, depth)
        if function in _RANDOM:
            what = f"${function} has another value at each reading, so the job would not be what is checked"
            self._refuse(what, "choose in the program", "not-supported")
        if re.fullmatch(r"F[a-z]*", function):
            return self._file_name(function[1:], body, depth)
        called = _FUNCTIONS.get(function)
        if called is None:
            self._refuse(
                f"${function[:40]}() is no function of submit files that is supported", "leave it out"
            )
        return called(self, body, depth)

    def _named(self, body: str, depth: int) -> str:
        name, colon, default = body.partition(":")
        name = name.strip()
        if not _NAME.match(name):
            self._refuse(f"{name[:60]!r} is not the name of a macro", "write $(NAME) or $(NAME:DEFAULT)")
        lower = name.lower().removeprefix("my.")
        if lower in self._live:
            self._table.value(lower)
            return self.text(self._live[lower], depth + 1)
        if lower == "dollar":
            return "$"
        if lower == "submit_file":
            return self._table.file
        known = self._table.value(lower)
        if known is None and not colon:
            what = f"$({name[:60]}) is not defined in the file, and the configuration of a pool is not known"
            self._refuse(what, f"define it before it is used, or write $({name[:60]}:DEFAULT)")
        return self.text(default if known is None else known.text, depth + 1)

    def _argument(self, body: str, depth: int) -> str:
        """Return what a function is about: the value of a macro, by its name, or a text with macros."""
        text = body.strip()
        name = text.lower().removeprefix("my.")
        if _NAME.match(name) and (name in self._live or self._table.value(name) is not None):
            return self._named(name, depth)
        return self.text(text, depth + 1)

    def _environment(self, body: str, depth: int) -> str:
        name, colon, default = body.partition(":")
        value = self._table.variable(name.strip())
        if value is None and not colon:
            what = f"the variable {name.strip()[:60]!r} is not set where the file is submitted"
            self._refuse(what, "set it, or write $ENV(NAME:DEFAULT)")
        return self.text(default, depth + 1) if value is None else value

    def _integer(self, body: str, depth: int) -> str:
        text, comma, form = body.partition(",")
        value, form = self._argument(text, depth).strip(), form.strip()
        width = _FORMAT.match(form) if comma else _FORMAT.match("%d")
        if width is None:
            self._refuse(f"the format {form[:20]!r} is not supported", "write %d or %05d")
        digits = int(width[1] or 1)
        from headnode.core.formats.condor.expressions import linear, whole_number

        if PROCESS_SIGN.search(value):
            self._refuse_sign(PROCESS_SIGN.sub("", value))
            signs = {found[0] for found in PROCESS_SIGN.finditer(value)}
            line = linear(PROCESS_SIGN.sub(" _process ", value), "_process") if len(signs) == 1 else None
            inner = swept_number(signs.pop())
            if line is None or line[0] < 1 or inner is None or inner.digits != 1:
                raise OneByOne
            factor, offset = line
            return str(SweptNumber(digits, factor * inner.factor, factor * inner.offset + offset))
        self._refuse_sign(value)
        number = whole_number(value)
        if number is None:
            self._refuse(f"{value[:60]!r} is not a whole number", "write numbers, +, - and *")
        return f"{number:0{digits}d}" if digits > 1 else str(number)

    def _choice(self, body: str, depth: int) -> str:
        index, *items = body.split(",")
        if len(items) == 1 and (listed := self._table.value(items[0].strip())) is not None:
            items = self.text(listed.text, depth + 1).split(",")
        number = self._argument(index, depth).strip()
        self._refuse_sign(number)
        if not number.isdecimal() or not int(number[:9]) < len(items):
            self._refuse(f"{number[:20]!r} is no place in the list of $CHOICE", "count from 0")
        return self.text(items[int(number)].strip(), depth + 1)

    def _base_name(self, body: str, depth: int) -> str:
        return posixpath.basename(self._argument(body.partition(",")[0], depth))

    def _directory_name(self, body: str, depth: int) -> str:
        path = posixpath.dirname(self._argument(body, depth))
        return f"{path.rstrip('/')}/" if path else "./"

    def _file_name(self, parts: str, body: str, depth: int) -> str:
        """Return parts of a path: ``p`` its directory, ``n`` its name, ``x`` its ending, ``d`` the last
        directory; ``q`` puts quotes around it, and without it those of the path are left out.
        """
        if set(parts) - set("pnxdq"):
            self._refuse(f"$F{parts[:20]}() is not supported", "use the letters p, n, x, d and q")
        path = self._argument(body, depth).strip()
        if len(path) > 1 and path[0] == path[-1] == '"':
            path = path[1:-1]
        if not set(parts) & set("pnxd"):
            return f'"{path}"' if "q" in parts else path
        directory, name = posixpath.split(path)
        stem, ending = posixpath.splitext(name)
        found = ""
        if "p" in parts:
            found += f"{directory.rstrip('/')}/" if directory else ""
        elif "d" in parts:
            found += f"{posixpath.basename(directory)}/" if directory else ""
        found += (stem if "n" in parts else "") + (ending if "x" in parts else "")
        return f'"{found}"' if "q" in parts else found

    def _refuse_sign(self, text: str) -> None:
        if PROCESS_SIGN.search(text):
            raise OneByOne
        if JOB_ID in text:
            self._refuse("the id of the job is not known before it is submitted", "leave $(Cluster) out")


_FUNCTIONS: Final[Mapping[str, Callable[[_Expansion, str, int], str]]] = {
    "ENV": _Expansion._environment,
    "INT": _Expansion._integer,
    "CHOICE": _Expansion._choice,
    "BASENAME": _Expansion._base_name,
    "DIRNAME": _Expansion._directory_name,
}
