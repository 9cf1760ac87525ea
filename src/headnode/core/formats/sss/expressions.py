"""Requested properties as a logical expression, and its normal form: alternatives, best first."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from headnode.core.formats.sss.constraints import (
    MAX_PROPERTIES,
    Comparison,
    Constraint,
    Subject,
    can_hold,
    constraint_of,
    refuse_many,
)
from headnode.core.formats.sss.job_object import SssScope
from headnode.core.formats.sss.properties import Aggregation, Conj, Op, Selection, SssProperty, UnknownElement
from headnode.core.formats.sss.property_rows import SPELLINGS, ElementPlace
from headnode.core.model.errors import BadRequest
from headnode.core.model.patterns import literal

MAX_DENIALS = 50  # of Nand, Nor, AndNot and OrNot in one request


class ConstraintLeaf(msgspec.Struct, frozen=True):
    """One constraint, with the weight of its preference."""

    constraint: Constraint
    weight: int = 0


class AllOf(msgspec.Struct, frozen=True):
    """Every part must hold; without parts, it holds."""

    parts: tuple["Expression", ...] = ()


class AnyOf(msgspec.Struct, frozen=True):
    """One part must hold; without parts, it does not."""

    parts: tuple["Expression", ...] = ()


class NotOf(msgspec.Struct, frozen=True):
    """The part must not hold."""

    part: "Expression"


Expression = ConstraintLeaf | AllOf | AnyOf | NotOf

_TIGHT = (Conj.AND, Conj.NAND, Conj.AND_NOT)
_CHOSEN = (("Node",), ("Feature",), ("Architecture",), ("OperatingSystem",))
"""The facts of nodes of which one of several may be asked for."""
_DENYING = (Conj.NAND, Conj.NOR, Conj.AND_NOT, Conj.OR_NOT)


def expression_of(properties: Sequence[SssProperty]) -> Expression:
    """Return what requested properties say together.

    Neighbours of one name without a conjunction are a range, or with preferences alternatives, or a list
    of nodes.  Properties that are not set, and those nobody understands, say nothing.
    Raises:  BadRequest ``groups`` when the parentheses do not match, ``request`` when it denies too much.
    """
    refuse_many(properties)
    denials = sum(one.conj in _DENYING for one in properties)
    if denials > MAX_DENIALS:
        raise BadRequest(
            code="request",
            what=f"the request has {denials} of Nand, Nor, AndNot and OrNot",
            fix=f"write at most {MAX_DENIALS}",
        )
    frames = [_Parenthesis(Conj.AND)]
    for run in _runs(properties):
        opens, closes = max(run[0].group, 0), max(-run[-1].group, 0)
        conj = run[0].conj or Conj.AND
        frames += [_Parenthesis(conj if number == 0 else Conj.AND) for number in range(opens)]
        frames[-1].join(Conj.AND if opens else conj, _operand(run))
        for _ in range(closes):
            _close(frames)
    if len(frames) != 1:
        _refuse_groups()
    return frames[0].value() or AllOf()


class _Parenthesis:
    """What stands between two parentheses, as far as it is read; `conj` joins it to what is before them."""

    def __init__(self, conj: Conj) -> None:
        self.conj = conj
        self._term: Expression | None = None
        self._before: tuple[Expression, Conj] | None = None  # what the term will be joined to by an Or

    def join(self, conj: Conj, part: Expression | None) -> None:
        """Add a part; one that says nothing takes its conjunction with it."""
        if part is None:
            return
        if self._term is None:
            self._term = part
        elif conj in _TIGHT:
            self._term = _joined(self._term, conj, part)
        else:
            self._before = self._joined(self._term), conj
            self._term = part

    def value(self) -> Expression | None:
        """Return all of it; None when it says nothing."""
        return None if self._term is None else self._joined(self._term)

    def _joined(self, term: Expression) -> Expression:
        return term if self._before is None else _joined(*self._before, term)


def _close(frames: list[_Parenthesis]) -> None:
    if len(frames) < 2:
        _refuse_groups()
    frame = frames.pop()
    frames[-1].join(frame.conj, frame.value())


def _refuse_groups() -> None:
    raise BadRequest(
        code="groups",
        what="the parentheses that group opens and closes do not match",
        fix='open with group="1" on the first property and close with group="-1" on the last',
    )


def _joined(left: Expression, conj: Conj, right: Expression) -> Expression:
    part = NotOf(right) if conj in (Conj.AND_NOT, Conj.OR_NOT) else right
    if conj in _TIGHT:
        joined: Expression = AllOf((*left.parts, part) if isinstance(left, AllOf) else (left, part))
    else:
        joined = any_of((*left.parts, part) if isinstance(left, AnyOf) else (left, part))
    return NotOf(joined) if conj in (Conj.NAND, Conj.NOR) else joined


def _runs(properties: Sequence[SssProperty]) -> Iterator[list[SssProperty]]:
    """Yield neighbours that are one operand: a set of preferences, a list of nodes, or one property."""
    run: list[SssProperty] = []
    for one in properties:
        if run and _belongs(run, one):
            run.append(one)
            continue
        if run:
            yield run
        run = [one]
    if run:
        yield run


def _belongs(run: list[SssProperty], one: SssProperty) -> bool:
    last = run[-1]
    together = (
        last.name == one.name and one.group <= 0 and (last.group == 0 or (last is run[0] and last.group > 0))
    )
    if not together or isinstance(one, UnknownElement):
        return False
    if one.preference or last.preference:
        return one.conj in (None, Conj.OR) and one.preference * last.preference > 0
    return one.name == "Node" and one.conj is None and _is_name(one) and _is_name(last)


def _is_name(one: SssProperty) -> bool:
    return one.op in (None, Op.EQ)


def _operand(run: list[SssProperty]) -> Expression | None:
    """Return what one operand says: one of the alternatives, a wish, or what the only property says."""
    if run[0].preference:
        ways = tuple(
            _weighted(expression, abs(one.preference))
            for one in run
            if (expression := _leaf_of(one)) is not None
        )
        return AnyOf((*ways, *((AllOf(),) if run[0].preference < 0 else ()))) if ways else None
    if len(run) == 1:
        return _leaf_of(run[0])
    names = tuple(dict.fromkeys(name for one in run if not _is_pattern(one) for name in _names(one)))
    among = (ConstraintLeaf(Constraint(("Node",), Comparison.IN, names)),) if names else ()
    patterns = (expression for one in run if _is_pattern(one) and (expression := _leaf_of(one)) is not None)
    return any_of((*among, *patterns)) if names or any(map(_is_pattern, run)) else None


def any_of(parts: Sequence[Expression]) -> Expression:
    """Return what holds when one part does; what is asked of one fact of a node is one constraint.

    A node may then have the one, its neighbour the other.  What has a preference stays an alternative.
    """
    alike: dict[Subject, list[Constraint]] = {}
    for one in parts:
        if isinstance(one, ConstraintLeaf) and _is_choice(one):
            alike.setdefault(one.constraint.subject, []).append(one.constraint)
    found: dict[Expression, None] = {}
    for one in parts:
        among = (
            alike.get(one.constraint.subject, [])
            if isinstance(one, ConstraintLeaf) and _is_choice(one)
            else []
        )
        found[ConstraintLeaf(_choice(among)) if len(among) > 1 else one] = None
    return next(iter(found)) if len(found) == 1 else AnyOf(tuple(found))


def _is_choice(one: ConstraintLeaf) -> bool:
    among = (
        Comparison.EQ,
        Comparison.IN,
        *((Comparison.MATCH,) if one.constraint.subject == ("Node",) else ()),
    )
    return not one.weight and one.constraint.subject in _CHOSEN and one.constraint.comparison in among


def _choice(among: Sequence[Constraint]) -> Constraint:
    """Return the constraint that holds when one of several on the same fact does."""
    values = [
        (one.comparison, one.value if isinstance(one.value, tuple) else (str(one.value),)) for one in among
    ]
    if all(comparison is not Comparison.MATCH for comparison, _ in values):
        every = dict.fromkeys(name for _, names in values for name in names)
        return Constraint(among[0].subject, Comparison.IN, tuple(every))
    patterns = dict.fromkeys(
        name if comparison is Comparison.MATCH else literal(name)
        for comparison, names in values
        for name in names
    )
    return Constraint(among[0].subject, Comparison.MATCH, tuple(patterns))


def _weighted(expression: Expression, weight: int) -> Expression:
    """Return an expression with a weight, once, however many constraints it has."""
    if isinstance(expression, ConstraintLeaf):
        return ConstraintLeaf(expression.constraint, weight)
    if isinstance(expression, AllOf) and expression.parts:
        return AllOf((_weighted(expression.parts[0], weight), *expression.parts[1:]))
    return expression


def _leaf_of(one: SssProperty) -> Expression | None:
    """Return what a property says by itself; None when it is not set, or not understood."""
    constraint = constraint_of(one)
    if constraint is None:
        return None
    listed = isinstance(one, Selection) and one.aggregation is Aggregation.LIST and one.name != "Node"
    return AllOf(tuple(map(ConstraintLeaf, constraint))) if listed else ConstraintLeaf(constraint[0])


def _is_pattern(one: SssProperty) -> bool:
    return isinstance(one, Selection) and one.aggregation is Aggregation.PATTERN


def _names(one: SssProperty) -> tuple[str, ...]:
    return one.names if isinstance(one, Selection) else ()


MAX_ALTERNATIVES = 1_000
_ABLE = SPELLINGS[ElementPlace.REQUESTED]
_Conjunction = tuple[tuple[Constraint, ...], int]


class ConstraintSet(msgspec.Struct, frozen=True, gc=False):
    """Constraints that must hold together, and the sum of the preferences they fulfil."""

    constraints: tuple[Constraint, ...]
    weight: int = 0


def alternatives_of(expression: Expression) -> tuple[ConstraintSet, ...]:
    """Return the normal form: most preferred first, else in the order written.

    What contradicts itself is left out, so nothing at all can satisfy an empty result; an alternative
    without constraints is always satisfied.
    Raises:  BadRequest ``too-many-alternatives``.
    """
    found = [(tuple(dict.fromkeys(one)), weight) for one, weight in _normal(expression, denied=False)]
    best = sorted(found, key=lambda one: -one[1])
    ways: dict[frozenset[Constraint], ConstraintSet] = {}
    for constraints, weight in best:
        if can_hold(constraints):
            ways.setdefault(frozenset(constraints), ConstraintSet(constraints, weight))
    return tuple(ways.values())


def _normal(expression: Expression, *, denied: bool) -> list[_Conjunction]:
    """Return a disjunction of conjunctions of what expression, or its opposite, says."""
    match expression:
        case ConstraintLeaf(constraint, weight):
            return [((constraint.denied,), 0)] if denied else [((constraint,), weight)]
        case NotOf(part):
            return _normal(part, denied=not denied)
        case AllOf(parts) if not denied:
            return _all(parts, denied=denied)
        case AnyOf(parts) if denied:
            return _all(parts, denied=denied)
        case AllOf(parts) | AnyOf(parts):
            return _bounded([one for part in parts for one in _normal(part, denied=denied)])


def _all(parts: Sequence[Expression], *, denied: bool) -> list[_Conjunction]:
    ways: list[_Conjunction] = [((), 0)]
    for part in parts:
        more = _normal(part, denied=denied)
        if len(ways) * len(more) > MAX_ALTERNATIVES:
            _refuse()
        ways = [(left + right, one + other) for left, one in ways for right, other in more]
    return ways


def _bounded(ways: list[_Conjunction]) -> list[_Conjunction]:
    if len(ways) > MAX_ALTERNATIVES:
        _refuse()
    return ways


def _refuse() -> None:
    raise BadRequest(
        code="too-many-alternatives",
        what=f"the request can be met in more than {MAX_ALTERNATIVES} ways",
        fix="write fewer preferences and conjunctions with Or",
    )


class RequestProperties(msgspec.Struct, frozen=True, gc=False):
    """What a scope asks for outside of categories, and in its Requested."""

    outside: tuple[SssProperty, ...]
    inside: tuple[SssProperty, ...]


def request_properties(scope: SssScope) -> RequestProperties:
    """Return what a job, task group or task asks for: its Requested, and what stands outside of categories.

    A property inside of Requested hides those of its name outside.
    Source:  SSS 3.1.0, "Requested": a category is needed only where both are to be told apart.
    """
    if scope.requested is None:
        return RequestProperties(tuple([one for one in scope.properties if one.name in _ABLE]), ())
    inside = scope.requested.properties
    named = {one.name for one in inside}
    outside = [one for one in scope.properties if one.name in _ABLE and one.name not in named]
    return RequestProperties(tuple(outside), inside)


def request_of(scope: SssScope) -> tuple[ConstraintSet, ...]:
    """Return the normal form of what `scope` asks for.

    Raises:  BadRequest ``too-many-alternatives``, ``request``, ``groups``.

    >>> from headnode.core.formats.sss.job_object import Task
    >>> from headnode.core.formats.sss.properties import SssCategory, Op
    >>> from headnode.core.formats.sss.properties import Consumable
    >>> wish = Consumable(name="Processors", value=8, op=Op.GE)
    >>> [str(one) for one in request_of(Task(requested=SssCategory(properties=(wish,))))[0].constraints]
    ['Processors >= 8']
    """
    return ways_of(request_properties(scope))


def ways_of(properties: RequestProperties) -> tuple[ConstraintSet, ...]:
    """Return the normal form of what is asked for, as `request_of`.

    What only lists what it asks for is its own normal form, and needs no algebra.
    """
    every = (*properties.outside, *properties.inside)
    if len(every) > MAX_PROPERTIES or not (_is_list(properties.outside) and _is_list(properties.inside)):
        return alternatives_of(AllOf((expression_of(properties.outside), expression_of(properties.inside))))
    listed = tuple(dict.fromkeys(constraint for one in every for constraint in constraint_of(one) or ()))
    return (ConstraintSet(listed),) if can_hold(listed) else ()


def _is_list(properties: Sequence[SssProperty]) -> bool:
    """Whether nothing joins or groups properties; nodes beside each other are one list, which does."""
    if any(one.conj or one.group or one.preference for one in properties):
        return False
    return not any(one.name == after.name == "Node" for one, after in pairwise(properties))
