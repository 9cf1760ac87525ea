"""What ClassAd expressions are worth, given the attributes of a job or a machine.

Source:  HTCondor 24, "HTCondor's ClassAd Mechanism": "Evaluation Semantics", "Predefined Functions".
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headnode.core.formats.condor.expressions import Expression, NoExpression, parse

Value = str | int | float | bool | None
"""A value of an attribute; None is undefined."""
Attributes = Callable[[str], Value]
"""Returns the value of an attribute, by its name in lower case; None if there is none."""


class NoSuchFunction(Exception):
    """An expression calls a function that is not known here: its argument is the name."""


class ErrorValue(Exception):
    """An expression is an error: it compares or calculates what cannot be."""


def evaluate(expression: Expression, attributes: Attributes, now: float) -> Value:
    """Return the value of an expression; `now` is what ``time()`` returns, in seconds since 1970.

    Raises:  NoSuchFunction, ErrorValue.
    """
    return _Evaluation(attributes, now, _FUNCTIONS).value(expression)


_DEEPEST: Final = 4  # attributes that are calculated from each other
_INTEGER_BOUND: Final = 2**63  # whole numbers of ClassAds have 64 bits


def calculated(text: str, expression: Callable[[str], str | None]) -> str:
    """Return the number that a text is, calculated from attributes; the text itself if it is none.

    The head does this for files of strangers: each attribute is calculated once, and only functions of
    numbers are known.

    expression:  returns what an attribute is calculated by, by its name in lower case

    >>> calculated("floor(MY.Size / 1024)", {"size": "4097"}.get), calculated("4 GB", {}.get)
    ('4', '4 GB')
    """

    known: dict[str, Value] = {}

    def attribute(name: str, depth: int) -> Value:
        if name not in known:
            known[name] = None  # of one that is calculated from itself
            found = expression(name) if depth < _DEEPEST else None
            known[name] = None if found is None else value_of(found, depth + 1)
        return known[name]

    def value_of(text: str, depth: int) -> Value:
        try:
            return _Evaluation(lambda name: attribute(name, depth), 0.0, _OF_NUMBERS).value(parse(text))
        except (NoExpression, NoSuchFunction, ErrorValue, OverflowError):
            return None

    value = value_of(text, 0)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else text


def unknown_function(expression: Expression) -> str:
    """Return the name of a function in an expression that is not known here; "" if there is none."""
    name = str(expression.value) if expression.operator == "call" else ""
    if name and name not in _FUNCTIONS and name not in _SPECIAL:
        return name
    return next(filter(None, map(unknown_function, expression.parts)), "")


class _Evaluation:
    def __init__(
        self, attributes: Attributes, now: float, functions: Mapping[str, Callable[..., Value]]
    ) -> None:
        self._attributes, self._now, self._functions = attributes, now, functions

    def value(self, expression: Expression) -> Value:
        """Return the value of an expression.

        Long sums and the like nest to the left: they are walked through in a loop, so that they are no deep
        recursion.
        """
        behind = []
        while expression.operator in _CALCULATES:
            left, right = expression.parts
            behind.append((expression.operator, right))
            expression = left
        value = self._single(expression)
        for operator, right in reversed(behind):
            value = _calculated(operator, value, self.value(right))
        return value

    def _single(self, expression: Expression) -> Value:
        operator = expression.operator
        if operator == "number":
            number = float(expression.value)
            return int(number) if number == int(number) else number
        if operator in ("text", "truth"):
            return expression.value
        if operator == "name":
            return None if expression.name == "undefined" else self._attributes(expression.name)
        if operator == "call":
            return self._called(str(expression.value), expression.parts)
        if operator in ("&&", "||"):
            return self._joined(expression.parts, ends=operator == "||")
        inner = _truth(self.value(expression.parts[0]))  # of "!"
        return None if inner is None else not inner

    def _joined(self, parts: Sequence[Expression], *, ends: bool) -> Value:
        """Return the value of parts between ``&&``, or ``||``: one that `ends` it counts before undefined."""
        result: bool | None = not ends
        for part in parts:
            one = _truth(self.value(part))
            if one is ends:
                return ends
            result = None if one is None else result
        return result

    def _called(self, name: str, parts: Sequence[Expression]) -> Value:
        if name == "time" and not parts:
            return int(self._now)
        if name == "ifthenelse" and len(parts) == 3:
            chosen = _truth(self.value(parts[0]))
            return None if chosen is None else self.value(parts[1 if chosen else 2])
        if name == "isundefined" and len(parts) == 1:
            return self.value(parts[0]) is None
        function = self._functions.get(name)
        if function is None:
            raise NoSuchFunction(name)
        values = [self.value(part) for part in parts]
        if any(value is None for value in values):
            return None
        try:
            return function(*values)
        except (TypeError, ValueError, OverflowError, re.error):
            raise ErrorValue from None


def _truth(value: Value) -> bool | None:
    if isinstance(value, str):
        raise ErrorValue
    return None if value is None else bool(value)


def _same(left: Value, right: Value) -> bool:
    """Return whether two values are of one kind and equal, with the case of letters."""
    return isinstance(left, bool) is isinstance(right, bool) and type(left) is type(right) and left == right


_ORDERS: Final[Mapping[str, Callable[[int], bool]]] = {
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


_CALCULATES: Final = frozenset({*_ORDERS, "=?=", "=!=", "+", "-", "*", "/", "%"})


def _calculated(operator: str, left: Value, right: Value) -> Value:
    if operator in ("=?=", "=!="):
        return _same(left, right) is (operator == "=?=")
    if left is None or right is None:
        return None
    return _compared(operator, left, right) if operator in _ORDERS else _sum(operator, left, right)


def _compared(operator: str, left: str | float, right: str | float) -> bool:
    """Return what a comparison says; texts are compared without the case of letters."""
    if isinstance(left, str) and isinstance(right, str):
        one, other = left.lower(), right.lower()
        return _ORDERS[operator]((one > other) - (one < other))
    if isinstance(left, str) or isinstance(right, str):
        raise ErrorValue
    return _ORDERS[operator]((left > right) - (left < right))


def _sum(operator: str, left: str | float, right: str | float) -> Value:
    if isinstance(left, str) or isinstance(right, str):
        raise ErrorValue
    if operator in "+-*":
        result = left + right if operator == "+" else left - right if operator == "-" else left * right
        if abs(result) > _INTEGER_BOUND:
            raise ErrorValue
        return result
    if not right:
        raise ErrorValue
    whole = isinstance(left, int) and isinstance(right, int)
    if operator == "/":
        return math.trunc(left / right) if whole else left / right
    if not whole:
        raise ErrorValue
    return int(math.fmod(left, right))


def _member(word: str, words: str, marks: str = " ,", *, same: Callable[[str], str]) -> bool:
    listed = re.split(f"[{re.escape(marks)}]+", words)
    return same(word) in [same(each) for each in listed if each]


def _matches(pattern: str, text: str, options: str = "") -> bool:
    flags = re.IGNORECASE if "i" in options.lower() else re.NOFLAG
    return re.search(pattern, text, flags) is not None


def _substring(text: str, start: int, length: int | None = None) -> str:
    begin = max(len(text) + start, 0) if start < 0 else start
    end = len(text) if length is None else len(text) + length if length < 0 else begin + length
    return text[begin:end]


_SPECIAL: Final = ("time", "ifthenelse", "isundefined")
_OF_NUMBERS: Final[Mapping[str, Callable[..., Value]]] = {
    "floor": lambda value: math.floor(float(value)),
    "ceiling": lambda value: math.ceil(float(value)),
    "round": lambda value: round(float(value)),
    "int": lambda value: int(float(value)),
    "real": float,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    **_OF_NUMBERS,
    "string": lambda value: written(value),
    "strcat": lambda *values: "".join(map(written, values)),
    "substr": _substring,
    "size": lambda text: len(text),
    "tolower": lambda text: written(text).lower(),
    "toupper": lambda text: written(text).upper(),
    "regexp": _matches,
    "stringlistmember": lambda *texts: _member(*texts, same=str),
    "stringlistimember": lambda *texts: _member(*texts, same=str.lower),
}


def written(value: Value) -> str:
    """Return a value as text, a text without quotes.

    >>> written(True), written(None), written(2.5), written("a")
    ('true', 'undefined', '2.5', 'a')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _real(value)
    return "undefined" if value is None else str(value)


def _real(value: float) -> str:
    """Return a real number as ClassAds write it: with a point, in at most 16 digits."""
    text = f"{value:.16G}"
    return text if any(mark in text for mark in ".EN") else f"{text}.0"


def quoted(value: Value) -> str:
    r"""Return a value as an expression: a text with quotes.

    >>> quoted('say "hi"'), quoted(3)
    ('"say \\"hi\\""', '3')
    """
    if not isinstance(value, str):
        return written(value)
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'"{escaped}"'
