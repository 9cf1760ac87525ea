"""What one requested property says by itself, and requests that are no more than a list of such.

Source: SSS 3.1.0, "Requested".
"""

from collections.abc import Sequence

from headnode.core.formats.sss.conditions import Extension
from headnode.core.formats.sss.consumables import Consumable, Resource
from headnode.core.formats.sss.properties import Kept, Op, Property
from headnode.core.formats.sss.requests.constraint import Comparison, Constraint, Subject
from headnode.core.formats.sss.selections import Aggregation, Selection
from headnode.core.model.errors import BadRequest

MOST_PROPERTIES = 5000  # in one request: joining them takes time by the square of their number

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


def refuse_many(properties: Sequence[Property]) -> None:
    """Refuse a request of very many properties.

    Raises:  BadRequest ``request``.
    """
    if len(properties) > MOST_PROPERTIES:
        raise BadRequest(
            code="request",
            what=f"the request has {len(properties)} properties",
            fix=f"write at most {MOST_PROPERTIES}",
        )


def is_list(properties: Sequence[Property]) -> bool:
    """Whether nothing joins or groups properties, so that each counts by itself, and all of them together.

    Nodes beside each other may be one list of which one is asked for.
    """
    before = ""
    for one in properties:
        if one.conj is not None or one.group or one.preference or before == one.name == "Node":
            return False
        before = one.name
    return True


def constraints_in(properties: Sequence[Property]) -> list[Constraint]:
    """Return what all of `properties`, which are a list, say.

    Raises:  BadRequest ``request``.
    """
    if not properties:
        return []
    refuse_many(properties)
    return [constraint for one in properties for constraint in said(one) or ()]


def said(one: Property) -> tuple[Constraint, ...] | None:
    """Return what a property says by itself; None when it is not set, or not understood."""
    value = one.value
    if value is None or value == "" or isinstance(one, Kept):
        return None
    if type(one) is Property:
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
