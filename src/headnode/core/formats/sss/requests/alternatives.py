"""The normal form of a request: alternatives, best first, each a conjunction of constraints.

They become what a job asks for and its alternatives, which the scheduler tries in that order.
Source: SSS 3.1.0, "Requested", attribute preference.
"""

from collections.abc import Sequence

import msgspec

from headnode.core.formats.sss.job_object import Scope
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.requests.constraint import Constraint, can_hold
from headnode.core.formats.sss.requests.expression import All, Any, Expression, Leaf, Not, expression_of
from headnode.core.formats.sss.requests.said import constraints_in, is_list
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.model.errors import BadRequest

MOST_ALTERNATIVES = 1_000
_ABLE = SPELLINGS[Place.REQUESTED]
_Conjunction = tuple[tuple[Constraint, ...], int]


class Alternative(msgspec.Struct, frozen=True, gc=False):
    """Constraints that must hold together, and the sum of the preferences they fulfil."""

    constraints: tuple[Constraint, ...]
    weight: int = 0


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


def _only_way(constraints: Sequence[Constraint]) -> tuple[Alternative, ...]:
    """Return the one way to meet all of `constraints`; none when they contradict each other."""
    if len({one.subject for one in constraints}) < len(constraints):
        constraints = tuple(dict.fromkeys(constraints))
        if not can_hold(constraints):
            return ()
    return (Alternative(tuple(constraints)),)


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


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What a scope asks for outside of categories, and in its Requested."""

    outside: tuple[Property, ...]
    inside: tuple[Property, ...]


def asked(scope: Scope) -> Asked:
    """Return what a job, task group or task asks for: its Requested, and what stands outside of categories.

    A property inside of Requested hides those of its name outside.
    Source:  SSS 3.1.0, "Requested": a category is needed only where both are to be told apart.
    """
    if scope.requested is None:
        return Asked(tuple([one for one in scope.properties if one.name in _ABLE]), ())
    inside = scope.requested.properties
    named = {one.name for one in inside}
    outside = [one for one in scope.properties if one.name in _ABLE and one.name not in named]
    return Asked(tuple(outside), inside)


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
    return ways_of(asked(scope))


def ways_of(found: Asked) -> tuple[Alternative, ...]:
    """Return the normal form of what is asked for, as `request_of`.

    What only lists its wishes is its own normal form, and needs no algebra.
    """
    if is_list(found.outside) and is_list(found.inside):
        return _only_way([*constraints_in(found.outside), *constraints_in(found.inside)])
    return alternatives_of(All((expression_of(found.outside), expression_of(found.inside))))
