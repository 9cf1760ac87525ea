"""Requested properties as a logical expression: parentheses, conjunctions, ranges and alternatives.

Source: SSS 3.1.0, "Requested" and its four examples; SSSRMAP, conditions: And binds tighter than Or.
"""

from collections.abc import Iterator, Sequence

import msgspec

from headnode.core.formats.sss.properties import Conj, Kept, Op, Property
from headnode.core.formats.sss.requests.constraint import Comparison, Constraint, Subject
from headnode.core.formats.sss.requests.said import refuse_many, said
from headnode.core.formats.sss.selections import Aggregation, Selection
from headnode.core.model.errors import BadRequest
from headnode.core.model.patterns import literal

MOST_DENIALS = 50  # of Nand, Nor, AndNot and OrNot in one request


class Leaf(msgspec.Struct, frozen=True):
    """One constraint, with the weight of its preference."""

    constraint: Constraint
    weight: int = 0


class All(msgspec.Struct, frozen=True):
    """Every part must hold; without parts, it holds."""

    parts: tuple["Expression", ...] = ()


class Any(msgspec.Struct, frozen=True):
    """One part must hold; without parts, it does not."""

    parts: tuple["Expression", ...] = ()


class Not(msgspec.Struct, frozen=True):
    """The part must not hold."""

    part: "Expression"


Expression = Leaf | All | Any | Not

_TIGHT = (Conj.AND, Conj.NAND, Conj.AND_NOT)
_CHOSEN = (("Node",), ("Feature",), ("Architecture",), ("OperatingSystem",))
"""The facts of nodes of which one of several may be asked for."""
_DENYING = (Conj.NAND, Conj.NOR, Conj.AND_NOT, Conj.OR_NOT)


def expression_of(properties: Sequence[Property]) -> Expression:
    """Return what requested properties say together.

    Neighbours of one name without a conjunction are a range, or with preferences alternatives, or a list
    of nodes.  Properties that are not set, and those nobody understands, say nothing.
    Raises:  BadRequest ``groups`` when the parentheses do not match, ``request`` when it denies too much.
    """
    refuse_many(properties)
    denials = sum(one.conj in _DENYING for one in properties)
    if denials > MOST_DENIALS:
        raise BadRequest(
            code="request",
            what=f"the request has {denials} of Nand, Nor, AndNot and OrNot",
            fix=f"write at most {MOST_DENIALS}",
        )
    frames = [_Frame(Conj.AND)]
    for run in _runs(properties):
        opens, closes = max(run[0].group, 0), max(-run[-1].group, 0)
        conj = run[0].conj or Conj.AND
        frames += [_Frame(conj if number == 0 else Conj.AND) for number in range(opens)]
        frames[-1].join(Conj.AND if opens else conj, _operand(run))
        for _ in range(closes):
            _close(frames)
    if len(frames) != 1:
        _refuse_groups()
    return frames[0].value() or All()


class _Frame:
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


def _close(frames: list[_Frame]) -> None:
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
    part = Not(right) if conj in (Conj.AND_NOT, Conj.OR_NOT) else right
    if conj in _TIGHT:
        joined: Expression = All((*left.parts, part) if isinstance(left, All) else (left, part))
    else:
        joined = any_of((*left.parts, part) if isinstance(left, Any) else (left, part))
    return Not(joined) if conj in (Conj.NAND, Conj.NOR) else joined


def _runs(properties: Sequence[Property]) -> Iterator[list[Property]]:
    """Yield neighbours that are one operand: a set of preferences, a list of nodes, or one property."""
    run: list[Property] = []
    for one in properties:
        if run and _belongs(run, one):
            run.append(one)
            continue
        if run:
            yield run
        run = [one]
    if run:
        yield run


def _belongs(run: list[Property], one: Property) -> bool:
    last = run[-1]
    together = (
        last.name == one.name and one.group <= 0 and (last.group == 0 or (last is run[0] and last.group > 0))
    )
    if not together or isinstance(one, Kept):
        return False
    if one.preference or last.preference:
        return one.conj in (None, Conj.OR) and one.preference * last.preference > 0
    return one.name == "Node" and one.conj is None and _is_name(one) and _is_name(last)


def _is_name(one: Property) -> bool:
    return one.op in (None, Op.EQ)


def _operand(run: list[Property]) -> Expression | None:
    """Return what one operand says: one of the alternatives, a wish, or what the only property says."""
    if run[0].preference:
        ways = tuple(_weighted(said, abs(one.preference)) for one in run if (said := _said(one)) is not None)
        return Any((*ways, *((All(),) if run[0].preference < 0 else ()))) if ways else None
    if len(run) == 1:
        return _said(run[0])
    names = tuple(dict.fromkeys(name for one in run if not _is_pattern(one) for name in _names(one)))
    among = (Leaf(Constraint(("Node",), Comparison.IN, names)),) if names else ()
    patterns = (said for one in run if _is_pattern(one) and (said := _said(one)) is not None)
    return any_of((*among, *patterns)) if names or any(map(_is_pattern, run)) else None


def any_of(parts: Sequence[Expression]) -> Expression:
    """Return what holds when one part does; what is asked of one fact of a node is one constraint.

    A node may then have the one, its neighbour the other.  What has a preference stays an alternative.
    """
    alike: dict[Subject, list[Constraint]] = {}
    for one in parts:
        if isinstance(one, Leaf) and _is_choice(one):
            alike.setdefault(one.constraint.subject, []).append(one.constraint)
    found: dict[Expression, None] = {}
    for one in parts:
        among = alike.get(one.constraint.subject, []) if isinstance(one, Leaf) and _is_choice(one) else []
        found[Leaf(_choice(among)) if len(among) > 1 else one] = None
    return next(iter(found)) if len(found) == 1 else Any(tuple(found))


def _is_choice(one: Leaf) -> bool:
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


def _weighted(said: Expression, weight: int) -> Expression:
    """Return `said` with a weight, once, however many constraints it has."""
    if isinstance(said, Leaf):
        return Leaf(said.constraint, weight)
    if isinstance(said, All) and said.parts:
        return All((_weighted(said.parts[0], weight), *said.parts[1:]))
    return said


def _said(one: Property) -> Expression | None:
    """Return what a property says by itself; None when it is not set, or not understood."""
    found = said(one)
    if found is None:
        return None
    listed = isinstance(one, Selection) and one.aggregation is Aggregation.LIST and one.name != "Node"
    return All(tuple(map(Leaf, found))) if listed else Leaf(found[0])


def _is_pattern(one: Property) -> bool:
    return isinstance(one, Selection) and one.aggregation is Aggregation.PATTERN


def _names(one: Property) -> tuple[str, ...]:
    return one.names if isinstance(one, Selection) else ()
