"""The normal form of a request: alternatives, best first, each a conjunction of constraints.

They become what a job asks for and its alternatives, which the scheduler tries in that order.
Source: SSS 3.1.0, "Requested", attribute preference.
"""

from collections.abc import Sequence

import msgspec

from headnode.core.formats.sss.job_object import Scope
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.requests.constraint import Constraint, Facts, can_hold, holds
from headnode.core.formats.sss.requests.expression import All, Any, Expression, Leaf, Not, expression_of
from headnode.core.formats.sss.rows import Concern, Place
from headnode.core.formats.sss.tables import ROWS, SPELLINGS
from headnode.core.model.errors import BadRequest

MOST_ALTERNATIVES = 1_000
_CONCERNS = {row.name: row.concerns for row in ROWS if Place.REQUESTED in row.places}
_Conjunction = tuple[tuple[Constraint, ...], int]


class Alternative(msgspec.Struct, frozen=True):
    """Constraints that must hold together, and the sum of the preferences they fulfil."""

    constraints: tuple[Constraint, ...]
    weight: int = 0

    def about(self, *concerns: Concern) -> tuple[Constraint, ...]:
        """Return the constraints on nodes, counts, the cluster or the job."""
        return tuple(one for one in self.constraints if _CONCERNS[one.subject[0]] in concerns)

    def holds(self, facts: Facts) -> bool:
        """Whether all constraints hold."""
        return all(holds(one, facts) for one in self.constraints)


def alternatives_of(expression: Expression) -> tuple[Alternative, ...]:
    """Return the normal form: most preferred first, else in the order written.

    What contradicts itself is left out, so nothing at all can satisfy an empty result; an alternative
    without constraints is always satisfied.
    Raises:  BadRequest ``too-many-alternatives``.
    """
    found = [(tuple(dict.fromkeys(one)), weight) for one, weight in _normal(expression, denied=False)]
    best = sorted(found, key=lambda one: -one[1])
    ways: dict[frozenset[Constraint], Alternative] = {}
    for constraints, weight in best:
        if can_hold(constraints):
            ways.setdefault(frozenset(constraints), Alternative(constraints, weight))
    return tuple(ways.values())


def _normal(expression: Expression, *, denied: bool) -> list[_Conjunction]:
    """Return a disjunction of conjunctions of what `expression`, or its opposite, says."""
    match expression:
        case Leaf(constraint, weight):
            return [((constraint.denied,), 0)] if denied else [((constraint,), weight)]
        case Not(part):
            return _normal(part, denied=not denied)
        case All(parts) if not denied:
            return _all(parts, denied=denied)
        case Any(parts) if denied:
            return _all(parts, denied=denied)
        case All(parts) | Any(parts):
            return _bounded([one for part in parts for one in _normal(part, denied=denied)])


def _all(parts: Sequence[Expression], *, denied: bool) -> list[_Conjunction]:
    ways: list[_Conjunction] = [((), 0)]
    for part in parts:
        more = _normal(part, denied=denied)
        if len(ways) * len(more) > MOST_ALTERNATIVES:
            _refuse()
        ways = [(left + right, one + other) for left, one in ways for right, other in more]
    return ways


def _bounded(ways: list[_Conjunction]) -> list[_Conjunction]:
    if len(ways) > MOST_ALTERNATIVES:
        _refuse()
    return ways


def _refuse() -> None:
    raise BadRequest(
        code="too-many-alternatives",
        what=f"the request can be met in more than {MOST_ALTERNATIVES} ways",
        fix="write fewer preferences and conjunctions with Or",
    )


def asked(scope: Scope) -> tuple[Property, ...]:
    """Return what a job, task group or task asks for: its Requested, and what stands outside of categories.

    A property inside of Requested hides those of its name outside.
    Source:  SSS 3.1.0, "Requested": a category is needed only where both are to be told apart.
    """
    inside = scope.requested.properties if scope.requested else ()
    named = {one.name for one in inside}
    able = SPELLINGS[Place.REQUESTED]
    return (*(one for one in scope.properties if one.name in able and one.name not in named), *inside)


def request_of(scope: Scope) -> tuple[Alternative, ...]:
    """Return the normal form of what `scope` asks for.

    Raises:  BadRequest ``too-many-alternatives``, ``request``, ``groups``.

    >>> from headnode.core.formats.sss.job_object import Task
    >>> from headnode.core.formats.sss.properties import Envelope, Op
    >>> from headnode.core.formats.sss.consumables import Consumable
    >>> wish = Consumable(name="Processors", value=8, op=Op.GE)
    >>> [str(one) for one in request_of(Task(requested=Envelope(properties=(wish,))))[0].constraints]
    ['Processors >= 8']
    """
    count = len(scope.requested.properties) if scope.requested else 0
    properties = asked(scope)
    outside, inside = properties[: len(properties) - count], properties[len(properties) - count :]
    return alternatives_of(All((expression_of(outside), expression_of(inside))))


def best_of(alternatives: Sequence[Alternative], facts: Facts) -> Alternative | None:
    """Return the most preferred alternative that holds; None when none does."""
    return next((one for one in alternatives if one.holds(facts)), None)
