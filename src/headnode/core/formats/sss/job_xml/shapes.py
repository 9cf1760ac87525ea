"""What is particular to the structs: from what stands in an element to the fields, and back.

Source: SSS 3.1.0 and SSS 3.0.3, their examples and tables: Match and Pattern, the two Networks.
"""

from typing import Any

from headnode.core.formats.nearest import nearest
from headnode.core.formats.sss.conditions import (
    LIMITS,
    Dependency,
    Distribution,
    Limit,
    check_distribution,
    kind_of,
)
from headnode.core.formats.sss.consumables import MEASURED_IN_BYTES, Consumable, Unit
from headnode.core.formats.sss.properties import Op, Property
from headnode.core.formats.sss.rows import Row
from headnode.core.formats.sss.selections import Aggregation, Selection
from headnode.core.formats.sss.value_types import STRING, parse_float
from headnode.core.model.errors import BadRequest
from headnode.core.model.patterns import compile_pattern

Fields = dict[str, Any]
_LIMITS = {name.lower(): name for name in LIMITS}
_OF_CONSUMABLES = ("units", "metric", "duration", "consumptionRate")


def finished(row: Row, fields: Fields) -> Fields:
    """Return the fields of the struct of a row as they are kept.

    Raises:  BadRequest for a value that cannot be.
    """
    shape = row.shape
    if fields.get("op") is Op.MATCH:
        _check_match(row, str(fields["value"]))
    if issubclass(shape, Selection):
        return _selection(fields)
    if row.name in MEASURED_IN_BYTES:
        _check_unit(fields.get("units", ""))
    if issubclass(shape, Limit):
        return {**fields, "called": _LIMITS.get(fields["called"].lower(), fields["called"])}
    if issubclass(shape, Distribution):
        kind = fields.get("kind") or kind_of(fields["value"])
        return {**fields, "kind": kind, "value": check_distribution(kind, fields["value"])}
    if issubclass(shape, Dependency) and not fields["value"]:
        raise BadRequest(code="empty", what="no job is named", fix="write the id of the job, or its name")
    return fields


def _check_match(row: Row, text: str) -> None:
    if row.type is not STRING:
        raise BadRequest(
            code="comparison", what="a number cannot be matched", fix="write EQ, NE, LT, LE, GT or GE"
        )
    compile_pattern(text)


def _check_unit(unit: str) -> None:
    if unit and unit not in Unit.__members__:
        meant = nearest(unit, map(str, Unit))
        hint = f"did you mean {meant!r}? " if meant else ""
        raise BadRequest(
            code="unit", what=f"{unit!r} is no unit of bytes", fix=f"{hint}write {', '.join(Unit)}"
        )


def _selection(fields: Fields) -> Fields:
    """Return a comparison by regular expression as the pattern that it is."""
    aggregation, op = fields.get("aggregation"), fields.get("op")
    if aggregation is Aggregation.PATTERN:
        compile_pattern(str(fields["value"]))
    if op is not Op.MATCH:
        return fields
    if aggregation is Aggregation.LIST:
        raise BadRequest(
            code="aggregation", what="a List cannot be a Match", fix="write aggregation Pattern without op"
        )
    return {**fields, "aggregation": Aggregation.PATTERN, "op": None}


def is_amount(text: str, attributes: Any) -> bool:
    """Whether a Network element with this text and these attributes is a consumable."""
    if any(name in attributes for name in _OF_CONSUMABLES):
        return True
    try:
        parse_float(text)
    except BadRequest:
        return False
    return True


def matches_by_op(found: Property) -> bool:
    """Whether 3.0.3 writes the pattern of `found` as a comparison, as its examples do."""
    return isinstance(found, Selection) and found.aggregation is Aggregation.PATTERN and found.op is None


def reads_back_otherwise(found: Property) -> bool:
    """Whether `found` would be read as something else than it is: a network adapter called 10."""
    adapter = found.name == "Network" and not isinstance(found, Consumable)
    return adapter and is_amount(str(found.value or ""), ())
