"""ClassAd expressions of submit files, as far as they are taken apart.

Source:  HTCondor 24, "HTCondor's ClassAd Mechanism": "ClassAd Syntax", "Expression Operators".
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

MAX_TOKENS = 500
_DEEPEST = 30
_MAX_NUMBER = 1e18
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGTkmgt]?[Bb]?(?![\w.]))"""
    r"""|"(?P<text>(?:[^"\\]|\\.)*)\"|(?P<name>[A-Za-z_][\w.]*)"""
    r"""|(?P<mark>=\?=|=!=|==|!=|<=|>=|&&|\|\||[-<>!+*/%(),?:]))"""
)
_SCOPES = ("target.", "my.")


class Expression(NamedTuple):
    """An expression: its operator and parts; a value or a name has no parts.

    Operators: ``&&``, ``||``, ``!``, comparisons, ``number``, ``text``, ``name``, ``truth``, ``call``, and
    ``+ - * / %`` where a part is no number.  Names are in lower case and without ``TARGET.`` and ``MY.``.
    """

    operator: str
    parts: tuple["Expression", ...] = ()
    value: str | float | bool = ""
    spelling: str = ""  # of a name

    @property
    def number(self) -> float | None:
        """The number that it is; None if it is none."""
        return self.value if self.operator == "number" and isinstance(self.value, float) else None

    @property
    def name(self) -> str:
        """The name that it is; "" if it is none."""
        return str(self.value) if self.operator == "name" else ""

    @property
    def text(self) -> str | None:
        """The text that it is; None if it is none."""
        return str(self.value) if self.operator == "text" else None

    @property
    def truth(self) -> bool | None:
        """Whether it is true or false; None if it is neither by itself."""
        if self.operator == "truth":
            return bool(self.value)
        return None if self.number is None else bool(self.number)


class NoExpression(Exception):
    """The text is no expression, or one that is not taken apart."""


def parse(text: str) -> Expression:
    """Return the expression that a text is.

    Raises:  NoExpression.
    """
    parser = _ExpressionParser(_tokens(text))
    found = parser.either(0)
    if parser.peek() is not None:
        raise NoExpression
    return found


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is or calculates; None if it is none.

    >>> whole_number("4 * (60 + 1)"), whole_number("x"), whole_number("7/2")
    (244, None, 3)
    """
    try:
        number = parse(text).number
    except NoExpression:
        return None
    return int(number) if number is not None and abs(number) < 2**53 and number == int(number) else None


def linear(text: str, name: str) -> tuple[int, int] | None:
    """Return factor and offset of an expression that is linear in a name; None if it is not.

    >>> linear("2 * (n + 1) - 1", "n"), linear("n * n", "n")
    ((2, 1), None)
    """
    try:
        return _line(parse(text), name)
    except NoExpression:
        return None


def _line(expression: Expression, name: str) -> tuple[int, int] | None:
    if expression.name == name:
        return 1, 0
    if expression.number is not None:
        return (0, int(expression.number)) if expression.number == int(expression.number) else None
    if expression.operator not in _ARITHMETIC:
        return None
    left, right = (_line(part, name) for part in expression.parts)
    if left is None or right is None:
        return None
    if expression.operator == "*":
        if left[0] and right[0]:
            return None
        return left[0] * right[1] + right[0] * left[1], left[1] * right[1]
    sign = -1 if expression.operator == "-" else 1
    return left[0] + sign * right[0], left[1] + sign * right[1]


_Token = tuple[str, str]  # its kind, its text


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or len(found) >= MAX_TOKENS:
            raise NoExpression
        kind = token.lastgroup or ""
        if kind == "unit":
            if token["unit"]:  # 4G means megabytes in one command and kilobytes in another
                raise NoExpression
            kind = "number"
        found.append((kind, token[kind]))
        at = token.end()
    return found


_COMPARISONS = ("==", "!=", "=?=", "=!=", "<", "<=", ">", ">=")
_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}


class _ExpressionParser:
    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens, self._at = tokens, 0

    def peek(self) -> str | None:
        """Return the next mark; None at the end, "" for another kind."""
        if self._at >= len(self._tokens):
            return None
        kind, text = self._tokens[self._at]
        return text if kind == "mark" else ""

    def _take(self, *marks: str) -> str:
        """Return the next mark if it is one of these, and pass it; else ""."""
        mark = self.peek()
        if not mark or mark not in marks:
            return ""
        self._at += 1
        return mark

    def either(self, depth: int) -> Expression:
        if depth > _DEEPEST:
            raise NoExpression
        return self._joined("||", lambda: self._joined("&&", lambda: self._compared(depth)))

    def _joined(self, mark: str, read: Callable[[], Expression]) -> Expression:
        parts = [read()]
        while self._take(mark):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Expression(mark, tuple(parts))

    def _compared(self, depth: int) -> Expression:
        left = self._sum(depth)
        while mark := self._take(*_COMPARISONS):
            left = Expression(mark, (left, self._sum(depth)))
        return left

    def _sum(self, depth: int) -> Expression:
        return self._calculated(("+", "-"), lambda: self._product(depth))

    def _product(self, depth: int) -> Expression:
        return self._calculated(("*", "/", "%"), lambda: self._single(depth))

    def _calculated(self, marks: tuple[str, ...], read: Callable[[], Expression]) -> Expression:
        left = read()
        while mark := self._take(*marks):
            left = _result(mark, left, read())
        return left

    def _single(self, depth: int) -> Expression:
        if self._take("!"):
            return _negated(self._single(depth + 1) if depth < _DEEPEST else _too_deep())
        if self._take("-"):
            inner = self._single(depth + 1) if depth < _DEEPEST else _too_deep()
            return _result("-", Expression("number", value=0.0), inner)
        if self._take("("):
            inner = self.either(depth + 1)
            if not self._take(")"):
                raise NoExpression
            return inner
        if self.peek() != "":
            raise NoExpression
        kind, text = self._tokens[self._at]
        self._at += 1
        return self._named(text, depth) if kind == "name" else _constant(kind, text)

    def _named(self, text: str, depth: int) -> Expression:
        lower = text.lower()
        if lower in ("true", "false"):
            return Expression("truth", value=lower == "true")
        if self._take("("):
            return Expression("call", tuple(self._arguments(depth)), lower)
        for scope in _SCOPES:
            lower, text = (
                (lower[len(scope) :], text[len(scope) :]) if lower.startswith(scope) else (lower, text)
            )
        return Expression("name", value=lower, spelling=text)

    def _arguments(self, depth: int) -> Iterator[Expression]:
        if self._take(")"):
            return
        while True:
            yield self.either(depth + 1)
            if self._take(")"):
                return
            if not self._take(","):
                raise NoExpression


def _too_deep() -> Expression:
    raise NoExpression


def _constant(kind: str, text: str) -> Expression:
    if kind == "number":
        if len(text) > 18:
            raise NoExpression
        return Expression("number", value=float(text))
    return Expression("text", value=re.sub(r"\\(.)", r"\1", text))


def _negated(inner: Expression) -> Expression:
    if inner.truth is not None:
        return Expression("truth", value=not inner.truth)
    return Expression("!", (inner,))


def _result(mark: str, left: Expression, right: Expression) -> Expression:
    one, other = left.number, right.number
    if one is None or other is None:
        return Expression(mark, (left, right))
    if max(abs(one), abs(other)) > _MAX_NUMBER:
        raise NoExpression
    if mark in _ARITHMETIC:
        return Expression("number", value=_ARITHMETIC[mark](one, other))
    if not other:
        raise NoExpression
    whole = one == int(one) and other == int(other)
    if mark == "/":
        return Expression("number", value=float(int(one / other)) if whole else one / other)
    return Expression("number", value=float(int(one) % int(other)))
