"""The conditions of a request: Where elements as one logical expression, tried on objects.

Conditions are joined in their order, as in SQL: And binds tighter than Or, and `group` sets brackets.  Not
negates one condition, inside of the brackets that begin before it.  A property that an object does not have
fulfils no comparison.
Source:  SSSRMAP Message Format 3.0.4, "Where"; Gold's server for groups and Match.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Generic, TypeVar

from headnode.core.formats.sss.sssrmap.messages import RmapField
from headnode.core.formats.sss.sssrmap.paths import Respell, as_written, find, read_path, respelled
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import PATTERN

Tried = TypeVar("Tried")
Condition = Callable[[XmlElement], bool]

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})\Z")
_UNITS: Final[Mapping[str, int]] = {f"{word}B": 1024**power for power, word in enumerate(("", *"KMGTPEZY"))}
_OPS: Final[Mapping[str, str]] = {
    **{op.lower(): op for op in ("EQ", "NE", "GT", "LT", "GE", "LE", "Match")},
    **{"": "EQ", "g": "GT", "l": "LT"},  # the last two are those of Slurm's client
}
_CONJS: Final[Mapping[str, tuple[str, bool]]] = {
    **{"": ("and", False), "and": ("and", False), "or": ("or", False)},
    **{"andnot": ("and", True), "ornot": ("or", True)},
}
_DEEPEST: Final = 32
STATES: Final = frozenset(("State", "JobState", "jobState", "NodeState", "JobGroupState", "JobClass"))
"""The properties whose words are compared in any case: peers differ in it."""


def as_number(text: str) -> int | float | None:
    """Return the number that a text is, or None.

    >>> as_number("007"), as_number("1.5"), as_number("nan")
    (7, 1.5, None)
    """
    if not _NUMBER.match(text):
        return None
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def amount(text: str, units: str, assumed: str) -> int | float | None:
    """Return a number of `units` as bytes; of none if neither side has units.

    Raises:  MessageFault 317 for an unknown unit.
    """
    number = as_number(text)
    if number is None or not (units or assumed):
        return number
    factor = _UNITS.get((units or assumed).upper())
    if factor is None:
        raise MessageFault(
            StatusCode.WRONG_VALUE, f"the unit {units[:40]!r} is not known", "use B, KB, MB, GB"
        )
    return number * factor


def condition_of(wheres: Sequence[RmapField], respell: Respell = as_written) -> Condition:
    """Return the function that tells whether an object fulfils all conditions of a request.

    Raises:  MessageFault 310, 316, 318.
    """
    return joined_conditions(wheres, partial(comparison, respell=respell))


def joined_conditions(
    wheres: Sequence[RmapField], compare: Callable[[RmapField], Callable[[Tried], bool]]
) -> Callable[[Tried], bool]:
    """Return the function that tells whether something fulfils all conditions.

    compare:  returns the function that tells whether it fulfils one of them
    Raises:  MessageFault 310, 318; what `compare` raises.
    """
    if not wheres:
        return lambda _: True
    return _ConditionReader(wheres, compare).read()


class _ConditionReader(Generic[Tried]):
    """Reads conditions from left to right."""

    def __init__(
        self, wheres: Sequence[RmapField], compare: Callable[[RmapField], Callable[[Tried], bool]]
    ) -> None:
        self._tokens: list[str | Callable[[Tried], bool]] = []
        for number, where in enumerate(wheres):
            joined, negated = _joint(where)
            self._tokens += [joined] if number else []
            self._tokens += ["("] * max(0, min(where.group, _DEEPEST + 1))
            self._tokens += ["not"] if negated else []
            self._tokens.append(compare(where))
            self._tokens += [")"] * max(0, min(-where.group, _DEEPEST + 1))
        self._at = 0

    def read(self) -> Callable[[Tried], bool]:
        condition = self._either(0)
        if self._at < len(self._tokens):
            raise _unbalanced()
        return condition

    def _take(self, word: str) -> bool:
        taken = self._at < len(self._tokens) and self._tokens[self._at] == word
        self._at += taken
        return taken

    def _either(self, depth: int) -> Callable[[Tried], bool]:
        parts = [self._both(depth)]
        while self._take("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else lambda one: any(part(one) for part in parts)

    def _both(self, depth: int) -> Callable[[Tried], bool]:
        parts = [self._single(depth)]
        while self._take("and"):
            parts.append(self._single(depth))
        return parts[0] if len(parts) == 1 else lambda one: all(part(one) for part in parts)

    def _single(self, depth: int) -> Callable[[Tried], bool]:
        if self._take("not"):
            inner = self._single(depth)
            return lambda one: not inner(one)
        if self._take("("):
            if depth >= _DEEPEST:
                raise _unbalanced()
            inner = self._either(depth + 1)
            if not self._take(")"):
                raise _unbalanced()
            return inner
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if isinstance(token, str):
            raise _unbalanced()
        self._at += 1
        return token


def _unbalanced() -> MessageFault:
    return MessageFault(
        StatusCode.COMBINATION,
        "the brackets of the conditions do not match",
        f'for each group="+1" write a later group="-1"; at most {_DEEPEST} inside each other',
    )


def _joint(where: RmapField) -> tuple[str, bool]:
    if where.conj.lower() not in _CONJS:
        raise MessageFault(
            StatusCode.OPERATOR, f"conj {where.conj[:40]!r} is not known", "use And, Or, AndNot or OrNot"
        )
    return _CONJS[where.conj.lower()]


def op_of(where: RmapField) -> str:
    """Return the op of a condition, as the page writes it.

    Raises:  MessageFault 310.
    """
    op = _OPS.get(where.op.lower())
    if op is None:
        raise MessageFault(
            StatusCode.OPERATOR, f"op {where.op[:40]!r} is not known", "use EQ, NE, GT, LT, GE, LE or Match"
        )
    return op


def comparison(where: RmapField, respell: Respell = as_written) -> Condition:
    """Return the function that tells whether an object fulfils one condition, whatever joins it.

    Raises:  MessageFault 310, 316.
    """
    op = op_of(where)
    path = respelled(read_path(where.name), respell)
    wanted = f"{where.subject}.{where.value}" if where.subject else where.value
    folds = path.steps[-1].name in STATES

    def holds(one: XmlElement) -> bool:
        return any(
            compares(
                match.text,
                op,
                wanted,
                units=(match.element.attributes.get("units", ""), where.units),
                folds=folds,
            )
            for match in find(one, path)
        )

    return holds


def compares(
    found: str, op: str, wanted: str, units: tuple[str, str] = ("", ""), *, folds: bool = False
) -> bool:
    """Return whether a value stands in the relation `op` to another: as numbers, if both are.

    units:  of the value and of the other; without, memory counts in MB
    folds:  words are compared in any case
    """
    if folds:
        found, wanted = found.lower(), wanted.lower()
    if op == "Match":
        return _glob(wanted).fullmatch(found) is not None
    assumed = "MB" if any(units) else ""
    left, right = amount(found, units[0], assumed), amount(wanted, units[1], assumed)
    if left is not None and right is not None:
        return _ORDER[op]((left > right) - (left < right))
    return _ORDER[op]((found > wanted) - (found < wanted))


_ORDER: Final[Mapping[str, Callable[[int], bool]]] = {
    "EQ": lambda order: order == 0,
    "NE": lambda order: order != 0,
    "GT": lambda order: order > 0,
    "LT": lambda order: order < 0,
    "GE": lambda order: order >= 0,
    "LE": lambda order: order <= 0,
}


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    """Return a pattern with * and ?, or % and _ as Gold's clients send them.

    What follows a * is found at its first place, so no text takes long.
    """
    if len(pattern) > PATTERN.most:
        raise MessageFault(StatusCode.WRONG_VALUE, f"the pattern is longer than {PATTERN}")
    first, *others = (
        "".join("." if each in "?_" else re.escape(each) for each in part)
        for part in re.split(r"[*%]+", pattern)
    )
    if not others:
        return re.compile(first, re.DOTALL)
    inside = "".join(f"(?>.*?{part})" for part in others[:-1])
    return re.compile(f"{first}{inside}.*{others[-1]}", re.DOTALL)
