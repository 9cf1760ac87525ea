"""The rows of consumables and of the properties with a structure or attributes of their own.

Source: SSS 3.1.0, Table 25-4 and the sections of each element.
"""

from typing import Any

from headnode.core.formats.sss.conditions import Dependency, Distribution, Extension, Limit
from headnode.core.formats.sss.consumables import Consumable, Resource
from headnode.core.formats.sss.rows import ANYWHERE, CATEGORIES, WORK, Need, Place, Row
from headnode.core.formats.sss.selections import Selection
from headnode.core.formats.sss.streams import Environment, Notifications, Stream
from headnode.core.formats.sss.value_types import AMOUNT, COUNT

_MAY, _SHOULD, _MUST = Need.MAY, Need.SHOULD, Need.MUST


def _consumable(name: str, support: Need, **more: Any) -> Row:
    """Return the row of a consumable; several with different metrics may stand together."""
    fields = {
        "shape": Consumable,
        "type": AMOUNT,
        "places": WORK | CATEGORIES,
        "many": True,
        "shared": True,
        "source": "SSS 3.1.0, Table 25-4",
        **more,
    }
    return Row(name=name, compliance=support, **fields)


def _section(name: str, **more: Any) -> Row:
    """Return the row of an element that has a section, not a line in a table."""
    fields = {"places": WORK, "shared": True, "source": f"SSS 3.1.0, {name} Element", **more}
    return Row(name=name, **fields)


CONSUMABLE_ROWS = (
    _consumable("Disk", _SHOULD),
    _consumable("Memory", _SHOULD),
    _consumable("Processors", _MUST, type=COUNT),
    _consumable("Swap", _MAY, also=("NodeSwap",)),
    _consumable(
        "Resource",
        _MAY,
        shape=Resource,
        source="SSS 3.1.0, Resource Element",
    ),
)

NETWORK = _consumable("Network", _MAY)
"""Network with a number, a unit or a metric is a consumable."""

ADAPTER = Row(
    name="Network",
    places=WORK | CATEGORIES,
    shared=True,
    source="SSS 3.1.0, Table 25-2",
)
"""Network with a word is the type of adapter."""

STRUCTURED_ROWS = (
    _section(
        "Node",
        name_3_0="Name",
        shape=Selection,
        places=WORK | CATEGORIES,
        many=True,
        wrapped=True,
        compliance=_MUST,
        source="SSS 3.1.0, Node Element and Table 25-6",
    ),
    _section(
        "Feature",
        shape=Selection,
        places=WORK | CATEGORIES,
        many=True,
        wrapped=True,
    ),
    _section("InputFile", shape=Stream),
    _section("OutputFile", shape=Stream),
    _section("ErrorFile", shape=Stream),
    _section(
        "NotificationList",
        shape=Notifications,
        also=("Notification",),
        many=True,
        shared=False,
    ),
    _section(
        "ResourceLimit",
        shape=Limit,
        many=True,
    ),
    _section("Environment", shape=Environment, many=True),
    _section(
        "TaskDistribution",
        shape=Distribution,
        places=frozenset({Place.JOB, Place.TASK_GROUP}),
    ),
    _section(
        "Dependency",
        shape=Dependency,
        many=True,
        shared=False,
        compliance=_SHOULD,
    ),
    _section(
        "Extension",
        shape=Extension,
        places=ANYWHERE,
        many=True,
        shared=False,
    ),
)
