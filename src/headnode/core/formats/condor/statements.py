"""The statements of a submit file, in order: values, conditions, and what each `queue` asks for.

Source:  HTCondor 24, condor_submit(1): "queue"; "Submitting a Job": "Using Conditionals in the Submit
Description File", "Submitting many similar jobs with one queue command"; "Configuration File Macros":
comments, continuation lines, multi-line values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from headnode.core.formats.condor.expressions import whole_number
from headnode.core.formats.condor.macros import MacroTable, ReadingBudget
from headnode.core.formats.text.source_text import SourceText, nearest_name
from headnode.core.model.bounds import QUEUE_COMMANDS, TASKS_OF_FILE
from headnode.core.model.task import ScriptOrigin

_BLOCK = re.compile(r"(?P<name>[+\w.]+)\s*@=\s*(?P<tag>\w+)\s*\Z")


class SubmitLine(NamedTuple):
    """A line as it is meant, without white space around it, and where it begins in the file."""

    text: str
    start: int


class SubmitLines:
    """The lines of a file, one after the other."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._physical = self._each()

    def __iter__(self) -> Iterator[SubmitLine]:
        """Yield the lines that say something; a value of several lines is one with newlines.

        Raises:  BadRequest ``block`` for a value of several lines that does not end.
        """
        for line in self._joined():
            block = _BLOCK.match(line.text)
            yield SubmitLine(self._value(line, block), line.start) if block else line

    def listed(self, start: int) -> Iterator[SubmitLine]:
        """Yield the lines of a list in parentheses, up to the line that closes it.

        Raises:  BadRequest ``queue`` if none does.
        """
        for line in self._joined():
            if line.text.startswith(")"):
                return
            yield line
        self._source.refuse(start, "queue", "the list of queue has no end", "close it with a line: )")

    def _each(self) -> Iterator[SubmitLine]:
        text, start = self._source.text, 0
        while start < len(text):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            line = text[start:end]
            yield SubmitLine(line.strip(), start + len(line) - len(line.lstrip()))
            start = end + 1

    def _joined(self) -> Iterator[SubmitLine]:
        parts: list[str] = []
        start = 0
        for line in self._physical:
            if line.text.startswith("#"):
                continue
            start = start if parts else line.start
            if line.text.endswith("\\"):
                parts.append(line.text[:-1])
                continue
            parts.append(line.text)
            if whole := "".join(parts).strip():
                yield SubmitLine(whole, start)
            parts = []
        if whole := "".join(parts).strip():
            yield SubmitLine(whole, start)

    def _value(self, line: SubmitLine, block: "re.Match[str]") -> str:
        found: list[str] = []
        end = f"@{block['tag']}"
        for each in self._physical:
            found.append(each.text)
            if each.text == end:
                break
        if found[-1:] != [end]:
            what = f"the value of {block['name'][:60]!r} has no end"
            self._source.refuse(line.start, "block", what, f"end it with a line: {end}")
        return f"{block['name']} = " + "\n".join(found[:-1])


_VALUE = re.compile(r"(?P<name>[+]?[A-Za-z_][\w.]*)\s*=(?!=)\s*(?P<text>.*)\Z", re.DOTALL)
_WORD = re.compile(r"(?P<word>[A-Za-z_]+)\b\s*(?P<rest>.*)\Z", re.DOTALL)
_KEYWORD = re.compile(r"(?:^|(?<=[\s,)]))(?P<word>in|from|matching)(?=[\s(\[]|$)", re.IGNORECASE)
# Possessive: a line may be as long as a file, and two runs of spaces side by side are tried in all ways.
_VARIABLES = re.compile(r"(?P<count>[^A-Za-z_]*+)(?P<names>(?:[A-Za-z_]\w*+[\s,]*+)*+)\Z")
_SLICE = re.compile(r"\[\s*+(-?\d{0,9})\s*+(?:(:)\s*+(-?\d{0,9})\s*+(?::\s*+(\d{0,9})\s*+)?)?\]\s*")
_VERSION: Final = (24, 0, 0)
"""The version of HTCondor that conditions of a file compare with: that of the manual that is read here."""
_REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "include": ("the file includes another, which is not sent with it", "put the lines of that file here"),
    "use": ("templates are in the configuration of a pool", "write the lines that the template has"),
}
ITEM: Final = "Item"
PATTERNS: Final = "//"
"""What the key of patterns begins with; that of a file is a path below a directory."""


class ItemSource(NamedTuple):
    """Where the items of a queue command come from: a file, or the names of files that match patterns."""

    kind: str  # from; matching, matching files, matching dirs, matching any
    text: str  # the file, or the patterns

    @property
    def key(self) -> str:
        """The name under which the items are given to the reader."""
        return self.text if self.kind == "from" else f"{PATTERNS}{self.kind}: {self.text}"


class QueueCommand(NamedTuple):
    """What a queue command asks for: so many processes for each item."""

    times: int
    variables: tuple[str, ...]
    items: Sequence[str] | None  # None: no items, or those of `source`
    source: ItemSource | None
    chosen: slice
    start: int

    def chosen_of(self, items: Sequence[str]) -> Sequence[str]:
        """Return the items that its slice chooses."""
        return items[self.chosen]


class SubmitStatements:
    """The statements of a file, read one by one; `macros` has the values as they are after the last."""

    def __init__(self, source: SourceText, origin: ScriptOrigin, budget: ReadingBudget) -> None:
        self.source, self.macros = source, MacroTable(source, origin, budget)
        self._attributes = 0
        self.commands: dict[
            str, tuple[str, str, int]
        ] = {}  # by name in lower case: its spelling, text, start
        self.warnings: list[tuple[str, int]] = []
        self._lines = SubmitLines(source)
        self._branches = _Branches(self)

    def queues(self) -> Iterator[QueueCommand]:
        """Yield every queue command, when the values before it have been read.

        Raises:  BadRequest ``statement``, ``queue``, ``not-supported``, ``too-many-tasks``, and for macros.
        """
        number = 0
        for line in self._lines:
            self.macros.spend(len(line.text), line.start)
            word = _WORD.match(line.text)
            name = word["word"].lower() if word else ""
            if word and self._branches.take(name, word["rest"], line):
                continue
            if not self._branches.active:
                continue
            value = _VALUE.match(line.text)
            if value is not None:
                self._set(value["name"], value["text"], line.start)
            elif word and name == "queue":
                number += 1
                if number > QUEUE_COMMANDS.most:
                    fix = "write one queue command with a list"
                    self.refuse(line.start, "too-many-tasks", f"the file has more than {QUEUE_COMMANDS}", fix)
                yield self._queue(word["rest"], line.start)
            else:
                self._other(name, word["rest"] if word else "", line)
        self._branches.end()

    def define(self, name: str, text: str, *, is_command: bool) -> None:
        """Set a value before the first line: of a command, or of a macro that need not be used."""
        if is_command:
            self._set(name, text, 0)
        else:
            self.macros.define(name, text, 0)

    def refuse(self, start: int, code: str, what: str, fix: str) -> NoReturn:
        """Refuse the file.

        Raises:  BadRequest, always.
        """
        self.source.refuse(start, code, what, fix)

    def _set(self, name: str, text: str, start: int) -> None:
        lower = name.lower()
        if lower.startswith("my."):
            name, lower = f"+{name[3:]}", f"+{lower[3:]}"
        if lower.startswith("+") and lower not in self.commands:
            self._attributes += 1
            if self._attributes > _MAX_ATTRIBUTES:
                what = f"the file sets more than {_MAX_ATTRIBUTES} attributes of the job"
                self.refuse(start, "too-large", what, "leave some out")
        self.macros.define(lower.removeprefix("+") if lower.startswith("+") else name, text, start)
        known = self.macros.value(lower.removeprefix("+"))
        self.macros.used.discard(lower.removeprefix("+"))
        self.commands[lower] = (name, known.text if known else text, start)

    def _other(self, name: str, rest: str, line: SubmitLine) -> None:
        if name in _REFUSED:
            what, fix = _REFUSED[name]
            self.refuse(line.start, "not-supported", f"{name}: {what}", fix)
        if name in ("error", "warning") and rest.startswith(":"):
            message = self.macros.expand(rest[1:].strip(), line.start, {})
            if name == "error":
                self.refuse(line.start, "statement", f"the file says: {message[:200]}", "do what it says")
            self.warnings.append((message, line.start))
            return
        meant = nearest_name(name, ("queue", "if", "elif", "else", "endif")) if name else ""
        hint = f"did you mean {meant!r}? " if meant else ""
        what = f"{line.text[:60]!r} is no statement of a submit file"
        self.refuse(line.start, "statement", what, f"{hint}write NAME = VALUE, or queue")

    def _queue(self, rest: str, start: int) -> QueueCommand:
        text = self.macros.expand(rest, start, {})
        keyword = _KEYWORD.search(text)
        before = (text[: keyword.start()] if keyword else text).strip()
        match = _VARIABLES.match(before)
        if match is None or (match["names"] and keyword is None):
            fix = "write queue N, queue NAME in (...), queue NAME from FILE, or queue NAME matching PATTERN"
            self.refuse(start, "queue", f"{before[:60]!r} is not understood", fix)
        times = match["count"].rstrip()
        count = whole_number(times) if times else 1
        if count is None or count < 0:
            self.refuse(
                start,
                "queue",
                f"{times[:60]!r} is not a number of processes",
                "write queue, or queue 10",
            )
        names = tuple(re.split(r"[\s,]+", match["names"].strip(" \t,"))) if match["names"] else (ITEM,)
        if keyword is None:
            return QueueCommand(count, (), None, None, slice(None), start)
        chosen, items = self._slice(text[keyword.end() :].strip(), start)
        return self._with_items(count, names, keyword["word"].lower(), items, chosen, start)

    def _with_items(
        self, count: int, names: tuple[str, ...], word: str, rest: str, chosen: slice, start: int
    ) -> QueueCommand:
        if word == "matching":
            kind, _, patterns = rest.partition(" ")
            if kind.lower() in ("files", "dirs", "any"):
                again, rest = self._slice(patterns.strip(), start)
                chosen = again if again != slice(None) else chosen
                word = f"matching {kind.lower()}"
            source = ItemSource(word, rest.strip("() "))
            return QueueCommand(count, names, None, source, chosen, start)
        if word == "from" and not rest.startswith("("):
            if rest.endswith("|"):
                what = "the items come from a program, which is not run for a submission"
                self.refuse(start, "not-supported", what, "write its output into a file, and name that file")
            if not rest:
                self.refuse(start, "queue", "queue from names no file", "write queue NAME from FILE")
            return QueueCommand(count, names, None, ItemSource("from", rest), chosen, start)
        return QueueCommand(count, names, self._listed(word, rest, start), None, chosen, start)

    def _listed(self, word: str, rest: str, start: int) -> Sequence[str]:
        """Return the items of a list: words of `in`, lines of `from`."""
        if rest.startswith("(") and ")" in rest:
            lines = [rest[1 : rest.rindex(")")]]
        elif rest.startswith("("):
            lines = [rest[1:], *(line.text for line in self._lines.listed(start))]
        else:
            lines = [rest]
        texts = [text for line in lines if (text := line.strip())]
        if word == "from":
            return texts
        return [item for text in texts for item in re.split(r"[\s,]+", text.strip(" \t,")) if item]

    def _slice(self, text: str, start: int) -> tuple[slice, str]:
        match = _SLICE.match(text)
        if match is None:
            return slice(None), text
        first, colon, last, step = match.groups()
        if step and not int(step):
            self.refuse(start, "queue", f"{match[0].strip()!r} has the step 0", "write a step of 1 or more")
        if not colon:
            if not first:
                self.refuse(start, "queue", "the slice is empty", "write [FIRST:LAST:STEP]")
            one = int(first)
            return slice(one, one + 1 if one != -1 else None), text[match.end() :]
        chosen = slice(*(int(part) if part and part != "-" else None for part in (first, last, step)))
        return chosen, text[match.end() :]


class _Branches:
    """The conditions around a statement: if, elif, else, endif."""

    def __init__(self, statements: SubmitStatements) -> None:
        self._statements = statements
        self._open: list[tuple[bool, bool, bool, int]] = []  # active, one was taken, else was seen, start

    @property
    def active(self) -> bool:
        return all(active for active, _, _, _ in self._open)

    def take(self, word: str, rest: str, line: SubmitLine) -> bool:
        """Read a statement of conditions; return False for another one."""
        if rest.startswith("=") or word not in ("if", "elif", "else", "endif"):
            return False
        if word == "if":
            if len(self._open) >= _MAX_OPEN:
                self._refuse(line.start, "conditions are inside each other too deeply", "use elif")
            met = self.active and self._condition(rest, line.start)
            self._open.append((met, met, False, line.start))
            return True
        if not self._open:
            self._refuse(line.start, f"{word} has no if", "begin the condition with if")
        _, taken, closed, start = self._open.pop()
        if word == "endif":
            return True
        if closed:
            self._refuse(line.start, f"{word} follows else", "write else last")
        around = self.active and not taken
        met = around and (word == "else" or self._condition(rest, line.start))
        self._open.append((met, taken or met, word == "else", start))
        return True

    def end(self) -> None:
        """Refuse a condition that does not end."""
        if self._open:
            self._refuse(self._open[-1][3], "the condition has no end", "end it with a line: endif")

    def _refuse(self, start: int, what: str, fix: str) -> NoReturn:
        self._statements.refuse(start, "condition", what, fix)

    def _condition(self, text: str, start: int) -> bool:
        text = text.strip()
        if text.startswith("!"):
            return not self._condition(text[1:], start)
        word, _, rest = text.partition(" ")
        if word.lower() == "defined":
            name = rest.strip()
            if name.startswith("$("):
                name = self._statements.macros.expand(name, start, {}).strip()
                return bool(name)
            return self._statements.macros.defined(name)
        expanded = self._statements.macros.expand(text, start, {}).strip().lower()
        if expanded.startswith("version"):
            return self._version(expanded[len("version") :].strip(), start)
        if expanded in ("true", "yes", "t", "y"):
            return True
        if expanded in ("false", "no", "f", "n", ""):
            return False
        number = whole_number(expanded)
        if number is None:
            what = f"the condition {text[:60]!r} is not supported"
            self._refuse(start, what, "write defined NAME, version >= N, true, false, or a number")
        return number != 0

    def _version(self, text: str, start: int) -> bool:
        match = re.match(r"(>=|<=|==|!=|>|<)\s*(\d{1,4})(?:\.(\d{1,4}))?(?:\.(\d{1,4}))?\Z", text)
        if match is None:
            self._refuse(start, f"version {text[:40]!r} is not understood", "write version >= 23.0")
        other = tuple(int(match[part] or 0) for part in (2, 3, 4))
        return {
            ">=": other <= _VERSION,
            "<=": other >= _VERSION,
            "==": other == _VERSION,
            "!=": other != _VERSION,
            ">": other < _VERSION,
            "<": other > _VERSION,
        }[match[1]]


_MAX_OPEN = 30
_MAX_ATTRIBUTES = 200


def spend_tasks(statements: SubmitStatements, budget: ReadingBudget, tasks: int, start: int) -> None:
    """Count tasks; refuse more than a file may have.

    Raises:  BadRequest ``too-many-tasks``.
    """
    budget.tasks -= tasks
    if budget.tasks < 0:
        what = f"the file has more than {TASKS_OF_FILE} of processes that are no sweep"
        fix = "divide the file, or let them differ by $(Process) alone in arguments and names of files"
        statements.refuse(start, "too-many-tasks", what, fix)
