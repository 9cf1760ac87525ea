"""Regular expressions over names, matched in time that nobody can blow up.

A name matches when all of it does.  What is read: literals, ``.``, ``[a-z]``, ``[^a-z]``, ``\\d \\w \\s`` and
their opposites, ``\\`` before a sign, ``( )``, ``(?: )``, ``|``, ``* + ?``, ``{m}``, ``{m,}``, ``{m,n}``;
``^`` at the beginning and ``$`` at the end say nothing.  Back references and looking around are refused.
Source: SSS 3.1.0, aggregation Pattern; SSS 3.0.3, op match.  Neither says which regular expressions.
Cost:   O(size of the pattern * length of the name), unlike `re`, where a pattern like ``(a+)+`` can hang.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NoReturn

import msgspec

from headnode.core.model.errors import BadRequest

MAX_CHARACTERS = 500  # in a pattern
MAX_STATES = 5_000  # after {m,n} is written out
MAX_STATES_OF_JOB = 1_000  # of all patterns of a job or a task: each node is compared with them
_DEEPEST = 50  # parentheses inside of each other
_MAX_TIMES = 1_000
Test = Callable[[str], bool]
Fragment = Callable[["_Machine", int], int]
"""Adds states that lead from a state to the one returned."""

_KINDS: dict[str, Test] = {
    "d": str.isdecimal,
    "w": lambda sign: sign.isalnum() or sign == "_",
    "s": str.isspace,
}


class _Machine:
    """States: from each, the ones reached by a sign that passes a test, and those reached by nothing."""

    def __init__(self) -> None:
        self.steps: list[tuple[Test, int] | None] = []
        self.free: list[list[int]] = []

    def state(self) -> int:
        """Add a state."""
        if len(self.steps) >= MAX_STATES:
            _refuse("it is too large", "write a smaller one")
        self.steps.append(None)
        self.free.append([])
        return len(self.steps) - 1

    def reached(self, states: set[int]) -> set[int]:
        """Return `states` and all that nothing more is needed for."""
        todo = list(states)
        while todo:
            for state in self.free[todo.pop()]:
                if state not in states:
                    states.add(state)
                    todo.append(state)
        return states


class Pattern(msgspec.Struct, frozen=True):
    """A compiled pattern."""

    text: str
    machine: _Machine
    end: int

    def matches(self, name: str) -> bool:
        """Whether all of `name` matches."""
        states = self.machine.reached({0})
        for sign in name:
            steps = (self.machine.steps[state] for state in states)
            states = self.machine.reached({step[1] for step in steps if step and step[0](sign)})
            if not states:
                return False
        return self.end in states


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Return the pattern that `text` means.

    Raises:  BadRequest ``pattern``.

    >>> compile_pattern("fr15n.*").matches("fr15n03"), compile_pattern("node[1-5]").matches("node6")
    (True, False)
    """
    if len(text) > MAX_CHARACTERS:
        _refuse(f"it is longer than {MAX_CHARACTERS} characters", "write a shorter one")
    try:
        machine = _Machine()
        end = _Parser(text).parse()(machine, machine.state())
    except BadRequest as wrong:
        raise BadRequest(
            code=wrong.code, what=f"{text[:80]!r} is not a pattern: {wrong.what}", fix=wrong.fix
        ) from wrong
    return Pattern(text, machine, end)


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("^")
        if self._text.endswith("$") and not self._text.endswith("\\$"):
            self._text = self._text[:-1]
        self._at = 0
        self._depth = 0

    def parse(self) -> Fragment:
        """Return all of the pattern."""
        piece = self._alternatives()
        if self._at < len(self._text):
            _refuse("a ) has no opening (", "write \\) for the character")
        return piece

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _take(self) -> str:
        sign = self._peek()
        if not sign:
            _refuse("it ends too early", "complete it")
        self._at += 1
        return sign

    def _alternatives(self) -> Fragment:
        ways = [self._sequence()]
        while self._peek() == "|":
            self._take()
            ways.append(self._sequence())
        return ways[0] if len(ways) == 1 else _one_of(ways)

    def _sequence(self) -> Fragment:
        pieces = []
        while self._peek() not in ("", "|", ")"):
            pieces.append(self._repeated(self._atom()))
        return _all_of(pieces)

    def _atom(self) -> Fragment:
        sign = self._take()
        if sign == "(":
            return self._group()
        if sign in "*+?{}^$":
            _refuse(f"{sign!r} has no meaning here", f"write \\{sign} for the character")
        if sign == "[":
            return _sign(self._class())
        if sign == ".":
            return _sign(lambda _: True)
        return _sign(self._escaped() if sign == "\\" else _is(sign))

    def _group(self) -> Fragment:
        self._depth += 1
        if self._depth > _DEEPEST:
            _refuse("its parentheses are nested too deeply", "write a simpler one")
        if self._text.startswith("?:", self._at):
            self._at += 2
        elif self._peek() == "?":
            _refuse("(? is not supported, except (?:", "write it without lookaround and without named groups")
        piece = self._alternatives()
        if self._take() != ")":
            _refuse("a ( is not closed", "close it, or write \\( for the character")
        self._depth -= 1
        return piece

    def _escaped(self) -> Test:
        sign = self._take()
        if sign.lower() in _KINDS:
            kind = _KINDS[sign.lower()]
            return kind if sign.islower() else lambda one: not kind(one)
        if sign.isalnum():
            _refuse(f"\\{sign} is not supported", "write \\d, \\w, \\s, or \\ before a character")
        return _is(sign)

    def _class(self) -> Test:
        denied = self._peek() == "^"
        if denied:
            self._take()
        tests = [self._range()]
        while self._peek() != "]":
            tests.append(self._range())
        self._take()
        return lambda sign: any(test(sign) for test in tests) != denied

    def _range(self) -> Test:
        first = self._take()
        if first == "\\":
            return self._escaped()
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return _is(first)
        self._take()
        last = self._take()
        if last < first or last == "\\":
            _refuse(f"the range {first}-{last} is empty", "write the smaller character first")
        return lambda sign: first <= sign <= last

    def _repeated(self, piece: Fragment) -> Fragment:
        while self._peek() and self._peek() in "*+?{":
            sign = self._take()
            least, most = self._times() if sign == "{" else {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[sign]
            if self._peek() == "?":  # the shortest match, which is a match like any other
                self._take()
            piece = _times(piece, least, most)
        return piece

    def _times(self) -> tuple[int, int]:
        """Return the least and the most times in braces; most is -1 for any number."""
        close = self._text.find("}", self._at)
        least, comma, most = self._text[self._at : close].partition(",")
        if close < 0 or not _is_number(least) or (most and not _is_number(most)):
            _refuse(
                "a { is not followed by numbers and }", "write {2}, {2,} or {2,5}, or \\{ for the character"
            )
        self._at = close + 1
        return int(least), int(most) if most else -1 if comma else int(least)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:9]) <= _MAX_TIMES and len(text) < 9


def _is(wanted: str) -> Test:
    return lambda sign: sign == wanted


def _sign(test: Test) -> Fragment:
    def build(machine: _Machine, start: int) -> int:
        end = machine.state()
        machine.steps[start] = (test, end)
        return end

    return build


def _all_of(pieces: list[Fragment]) -> Fragment:
    def build(machine: _Machine, start: int) -> int:
        for piece in pieces:
            start = piece(machine, start)
        return start

    return build


def _one_of(ways: list[Fragment]) -> Fragment:
    def build(machine: _Machine, start: int) -> int:
        end = machine.state()
        for way in ways:
            machine.free[way(machine, _after(machine, start))].append(end)
        return end

    return build


def _times(piece: Fragment, least: int, most: int) -> Fragment:
    if 0 <= most < least:
        _refuse(f"{{{least},{most}}} is empty", "write the smaller number first")

    def build(machine: _Machine, start: int) -> int:
        for _ in range(least):
            start = piece(machine, start)
        end = machine.state()
        machine.free[start].append(end)
        if most < 0:
            again = _after(machine, start)
            machine.free[piece(machine, again)].extend((again, end))
        for _ in range(most - least):
            start = piece(machine, _after(machine, start))
            machine.free[start].append(end)
        return end

    return build


def _after(machine: _Machine, start: int) -> int:
    """Return a new state that is reached from `start` by nothing."""
    state = machine.state()
    machine.free[start].append(state)
    return state


def _refuse(what: str, fix: str) -> NoReturn:
    raise BadRequest(code="pattern", what=what, fix=fix)


def literal(name: str) -> str:
    """Return the pattern that matches `name` alone.

    >>> literal("node[1]")
    'node\\\\[1\\\\]'
    """
    return "".join(sign if sign.isalnum() or sign in "-_" else f"\\{sign}" for sign in name)


def add_pattern(states: int, text: str) -> int:
    """Return the states of the patterns before and of this one.

    Raises:  BadRequest ``pattern``, also if they are too many together.
    """
    states += len(compile_pattern(text).machine.steps)
    if states > MAX_STATES_OF_JOB:
        _refuse("it is too large, with the patterns before it", "write fewer or smaller ones")
    return states


def matching(text: str, names: Iterable[str]) -> bool:
    """Whether any of `names` matches the pattern `text`."""
    pattern = compile_pattern(text)
    return any(pattern.matches(name) for name in names)
