"""Constraints on a fact of a node, a count, or a resource of the cluster; what those on one property ask for.

Source: SSS 3.1.0, "Requested", attribute op; Tables 25-2 to 25-4.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

import msgspec

from headnode.core.formats.sss.properties import (
    Aggregation,
    Consumable,
    Extension,
    Op,
    Resource,
    Selection,
    SssProperty,
    Unit,
    UnknownElement,
)
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Licence
from headnode.core.model.patterns import matching
from headnode.core.model.quantities import Seconds
from headnode.core.model.value_checks import MAX_CODE

Subject = tuple[str, ...]
"""What is constrained: the name of the property; of a Resource also its name and type."""

Number = int | float | Fraction
Fact = Number | str | frozenset[str]
"""A number (bytes where bytes are counted), a text, or all of a node's texts of a kind, such as features."""

Facts = Mapping[Subject, Fact]

SETS: Collection[Subject] = frozenset({("Feature",)})
"""What a node may have many of, so that several of them contradict nothing."""


class Comparison(StrEnum):
    """How a fact is compared.  Each has its opposite, so that nothing needs a Not."""

    EQ = "=="
    NE = "!="
    LT = "<"
    GE = ">="
    LE = "<="
    GT = ">"
    MATCH = "matches"
    NO_MATCH = "does not match"
    IN = "in"
    NOT_IN = "not in"

    @property
    def opposite(self) -> "Comparison":
        """The comparison that holds where this one does not."""
        return _OPPOSITES[self]


_PAIRS = (
    (Comparison.EQ, Comparison.NE),
    (Comparison.LT, Comparison.GE),
    (Comparison.LE, Comparison.GT),
    (Comparison.MATCH, Comparison.NO_MATCH),
    (Comparison.IN, Comparison.NOT_IN),
)
_OPPOSITES = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_DENIALS = frozenset({Comparison.NE, Comparison.NO_MATCH, Comparison.NOT_IN})


class Constraint(msgspec.Struct, frozen=True, gc=False):
    """One comparison.  The value of IN and NOT_IN is a tuple, of the others one number or text.

    That of MATCH and NO_MATCH may be a tuple, too: of patterns of which one matches, or none.
    """

    subject: Subject
    comparison: Comparison
    value: Number | str | tuple[str, ...]

    def __str__(self) -> str:
        value = ", ".join(self.value) if isinstance(self.value, tuple) else self.value
        return f"{' '.join(self.subject)} {self.comparison.value} {value}"

    @property
    def denied(self) -> "Constraint":
        """The constraint that holds where this one does not."""
        return Constraint(self.subject, self.comparison.opposite, self.value)


def holds(constraint: Constraint, facts: Facts) -> bool:
    """Whether constraint holds; about what is not known, only denials do."""
    fact = facts.get(constraint.subject)
    if fact is None:
        return constraint.comparison in _DENIALS
    comparison = constraint.comparison
    if comparison in _DENIALS:
        return not _agrees(comparison.opposite, fact, constraint.value)
    return _agrees(comparison, fact, constraint.value)


def _agrees(comparison: Comparison, fact: Fact, value: Number | str | tuple[str, ...]) -> bool:
    if isinstance(fact, frozenset):
        return _agrees_set(comparison, fact, value)
    if comparison is Comparison.EQ:
        return fact == value
    if comparison is Comparison.IN:
        return isinstance(value, tuple) and fact in value
    if comparison is Comparison.MATCH:
        return isinstance(fact, str) and any(matching(one, [fact]) for one in _patterns(value))
    return _in_order(comparison, fact, value)


def _agrees_set(comparison: Comparison, fact: frozenset[str], value: Number | str | tuple[str, ...]) -> bool:
    if comparison is Comparison.MATCH:
        return any(matching(one, fact) for one in _patterns(value))
    wanted = value if isinstance(value, tuple) else (value,)
    return comparison in (Comparison.EQ, Comparison.IN) and not fact.isdisjoint(map(str, wanted))


def _patterns(value: Number | str | tuple[str, ...]) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()


def _in_order(comparison: Comparison, fact: Number | str, value: Number | str | tuple[str, ...]) -> bool:
    """Compare two numbers, or two texts; of different kinds, none is before the other."""
    if isinstance(value, tuple) or isinstance(fact, str) is not isinstance(value, str):
        return False
    before, same = fact < value, fact == value  # type: ignore[operator]  # both are numbers, or both texts
    return {
        Comparison.LT: before,
        Comparison.LE: before or same,
        Comparison.GT: not before and not same,
        Comparison.GE: not before,
    }[comparison]


class CountRange(NamedTuple):
    """Whole numbers from `least` to `most`, which is infinite when nothing bounds them above."""

    least: int
    most: float


def whole_range(constraints: Sequence[Constraint], name: str) -> CountRange:
    """Return the counts of `name` that `constraints` leave, from 0 up.

    >>> whole_range([Constraint(("Processors",), Comparison.GT, 8)], "Processors")
    CountRange(least=9, most=inf)
    """
    least, most = 0, math.inf
    for one in constraints:
        if one.subject == (name,):
            low, high = _ends(one)
            least, most = max(least, low), min(most, high)
    return CountRange(least, most)


def _ends(one: Constraint) -> tuple[int, float]:
    if isinstance(one.value, str | tuple):
        return 0, math.inf
    up, down = math.ceil(one.value), math.floor(one.value)
    comparison = one.comparison
    if comparison is Comparison.EQ:
        return up, down
    if comparison in (Comparison.GE, Comparison.GT):
        return (up if comparison is Comparison.GE else down + 1), math.inf
    if comparison in (Comparison.LE, Comparison.LT):
        return 0, (down if comparison is Comparison.LE else up - 1)
    return 0, math.inf


def can_hold(constraints: Sequence[Constraint]) -> bool:
    """Whether `constraints` do not contradict each other; one alone never does."""
    by: dict[Subject, list[Constraint]] = {}
    for one in constraints:
        by.setdefault(one.subject, []).append(one)
    return all(len(alike) < 2 or subject in SETS or _can_hold(alike) for subject, alike in by.items())


def _can_hold(constraints: list[Constraint]) -> bool:
    """Whether one fact can satisfy all of the constraints on it."""
    named = list(_named(constraints))
    if named:
        return any(all(holds(one, {one.subject: fact}) for one in constraints) for fact in named)
    numbers = [one for one in constraints if not isinstance(one.value, str | tuple)]
    low = max(
        (_strict(one) for one in numbers if one.comparison in (Comparison.GE, Comparison.GT)), default=None
    )
    high = min(
        (_strict(one) for one in numbers if one.comparison in (Comparison.LE, Comparison.LT)), default=None
    )
    return low is None or high is None or low[0] < high[0] or (low[0] == high[0] and low[1] == high[1] == 0)


def _named(constraints: list[Constraint]) -> Iterator[Fact]:
    """Yield the facts that a constraint asks for by name, those of the first that does."""
    for one in constraints:
        if one.comparison in (Comparison.EQ, Comparison.IN):
            yield from one.value if isinstance(one.value, tuple) else (one.value,)
            return


def _strict(one: Constraint) -> tuple[Number, int]:
    """Return a bound so that the narrower of two is the last of lower ones, the first of upper ones."""
    value = one.value if not isinstance(one.value, str | tuple) else 0
    return value, {Comparison.GT: 1, Comparison.LT: -1}.get(one.comparison, 0)


MAX_PROPERTIES = 5000  # in one request: joining them takes time by the square of their number

_COMPARISONS = {
    None: Comparison.EQ,
    Op.EQ: Comparison.EQ,
    Op.NE: Comparison.NE,
    Op.LT: Comparison.LT,
    Op.LE: Comparison.LE,
    Op.GT: Comparison.GT,
    Op.GE: Comparison.GE,
    Op.MATCH: Comparison.MATCH,
}


def refuse_many(properties: Sequence[SssProperty]) -> None:
    """Refuse a request of very many properties.

    Raises:  BadRequest ``request``.
    """
    if len(properties) > MAX_PROPERTIES:
        raise BadRequest(
            code="request",
            what=f"the request has {len(properties)} properties",
            fix=f"write at most {MAX_PROPERTIES}",
        )


def constraint_of(one: SssProperty) -> tuple[Constraint, ...] | None:
    """Return what a property says by itself; None when it is not set, or not understood."""
    value = one.value
    if value is None or value == "" or isinstance(one, UnknownElement):
        return None
    if type(one) is SssProperty:
        return (Constraint((one.name,), _COMPARISONS[one.op], value),)
    if isinstance(one, Consumable):
        quantity = one.quantity
        return None if quantity is None else (Constraint(_subject(one), _COMPARISONS[one.op], quantity),)
    if isinstance(one, Selection):
        return _selected(one)
    return None if isinstance(one, Extension) else (Constraint((one.name,), _COMPARISONS[one.op], value),)


def _selected(one: Selection) -> tuple[Constraint, ...]:
    denied = one.op is Op.NE
    if one.aggregation is Aggregation.PATTERN:
        match = Comparison.NO_MATCH if denied else Comparison.MATCH
        return (Constraint((one.name,), match, str(one.value)),)
    if one.aggregation is not Aggregation.LIST:
        return (Constraint((one.name,), _COMPARISONS[one.op], str(one.value)),)
    if one.name == "Node":
        return (Constraint(("Node",), Comparison.NOT_IN if denied else Comparison.IN, one.names),)
    return tuple(Constraint((one.name,), _COMPARISONS[one.op], name) for name in one.names)


def _subject(one: Consumable) -> Subject:
    return (one.name, one.called, one.type) if isinstance(one, Resource) else (one.name,)


Bounds = tuple[int, int]
Words = tuple[str, ...]
Found = Sequence[Constraint]
"""The constraints on one property, in their order."""

LICENSE = "License"
"""How a Resource that is a licence is called; another consumable is a licence called ``name:type``."""

MEGABYTE = Unit.MB.size
EXACT = frozenset({Comparison.EQ})
LOWER = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT})
UPPER = frozenset({Comparison.LE, Comparison.LT})
_AT_LEAST = frozenset({Comparison.GE, Comparison.GT})
AMONG = frozenset({Comparison.EQ, Comparison.IN})
NOT_AMONG = frozenset({Comparison.NE, Comparison.NOT_IN})
MATCH, NO_MATCH = frozenset({Comparison.MATCH}), frozenset({Comparison.NO_MATCH})


def number_of(one: Constraint) -> Number:
    """Return the number that something is compared with; no text is one."""
    return 0 if isinstance(one.value, str | tuple) else one.value


def _texts(one: Constraint) -> Words:
    return one.value if isinstance(one.value, tuple) else (str(one.value),)


def text_in(constraints: Found) -> str:
    """Return the text of the last constraint."""
    return str(constraints[-1].value)


def among(constraints: Found) -> Words:
    """Return the words of which one is wanted, each once; several lists narrow each other."""
    lists = [_texts(one) for one in constraints if one.comparison in AMONG]
    every = dict.fromkeys(word for words in lists for word in words)
    return tuple(word for word in every if all(word in words for words in lists))


def every_of(comparisons: frozenset[Comparison], constraints: Found) -> Words:
    """Return the words of all constraints that compare so, each once."""
    return tuple(
        dict.fromkeys(word for one in constraints if one.comparison in comparisons for word in _texts(one))
    )


def choices_in(constraints: Found) -> tuple[Words, ...]:
    """Return the lists of words, of each of which one is wanted."""
    return tuple(dict.fromkeys(_texts(one) for one in constraints if one.comparison in AMONG))


def bounds_in(constraints: Found) -> Bounds:
    """Return how many.  Where no upper bound is given, the lower one is it: nobody else is kept out.

    Raises:  BadRequest ``size`` when it is none, or more than any cluster has.
    """
    name = constraints[0].subject[0]
    least, most = whole_range(constraints, name)
    least = max(least, 1)
    if least > MAX_CODE:
        what = f"{name} {least} is more than any cluster has"
        raise BadRequest(code="size", what=what, fix=f"ask for {MAX_CODE} or less", path=(name,))
    high = least if math.isinf(most) else min(int(most), MAX_CODE)
    if high < 1:
        what = f"{name} {high}: a job needs at least one"
        raise BadRequest(code="size", what=what, fix=f"ask for 1 or more, or leave {name} out", path=(name,))
    return (least, high)


def least_in(constraints: Found) -> int:
    """Return the megabytes that a node must have; a bare amount is one that is needed."""
    return max([_megabytes(one, up=True) for one in constraints if one.comparison in LOWER], default=0)


def most_in(constraints: Found) -> int | None:
    """Return the most megabytes that a node may have; None when that is not said."""
    upper = [_megabytes(one, up=False) for one in constraints if one.comparison in UPPER]
    return max(min(upper), 1) if upper else None


def _megabytes(one: Constraint, *, up: bool) -> int:
    """Return the bytes of a constraint as whole megabytes, none of which it excludes."""
    amount, rest = divmod(number_of(one), MEGABYTE)
    if rest:
        return int(amount) + (1 if up else 0)
    if one.comparison is Comparison.GT or one.comparison is Comparison.LT:
        return int(amount) + (1 if up else -1)
    return int(amount)


def run_time_in(constraints: Found) -> Seconds | None:
    """Return the limit: of a range its upper bound, of several times the shortest; None: there is none."""
    found = [one for one in constraints if one.comparison not in _AT_LEAST]
    spans = [Seconds(float(number_of(one))) for one in found or constraints]
    return min([span for span in spans if span > 0], default=None)


def least_run_time_in(constraints: Found) -> Seconds | None:
    """Return the lower bound of a range of times; None: there is no range."""
    limit = run_time_in(constraints)
    spans = [Seconds(float(number_of(one))) for one in constraints if one.comparison in _AT_LEAST]
    least = max(spans, default=Seconds(0.0))
    return least if limit is not None and 0 < least < limit else None


def licences_in(constraints: Found) -> tuple[Licence, ...]:
    """Return the licences by name, each with the most that is asked for."""
    amounts: dict[str, int] = {}
    for one in constraints:
        least = (
            math.floor(number_of(one)) + 1 if one.comparison is Comparison.GT else math.ceil(number_of(one))
        )
        name = licence_name(one.subject)
        amounts[name] = max(amounts.get(name, 0), least)
    return tuple(Licence(feature, amount) for feature, amount in amounts.items() if amount)


def licence_name(subject: Subject) -> str:
    """Return how the licence is called that a Resource is; "" when it can be none."""
    _, called, kind = subject
    if called.lower() == LICENSE.lower():
        name = kind
    else:
        name = f"{called}:{kind}" if kind else called
    return "" if "," in name else name.strip()
