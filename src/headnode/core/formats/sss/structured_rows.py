"""The rows of consumables and of the properties with a structure or attributes of their own.

Source: SSS 3.1.0, Table 25-4 and the sections of each element.
"""

from typing import Any

from headnode.core.formats.sss.conditions import Dependency, Distribution, Extension, Limit
from headnode.core.formats.sss.consumables import Consumable, Resource
from headnode.core.formats.sss.rows import ANYWHERE, CATEGORIES, WORK, Concern, Need, Place, Row
from headnode.core.formats.sss.selections import Selection
from headnode.core.formats.sss.streams import Environment, Notifications, Stream
from headnode.core.formats.sss.value_types import AMOUNT, COUNT

_MAY, _SHOULD, _MUST = Need.MAY, Need.SHOULD, Need.MUST


def _consumable(name: str, support: Need, becomes: str, **more: Any) -> Row:
    """Return the row of a consumable; several with different metrics may stand together."""
    fields = {
        "shape": Consumable,
        "type": AMOUNT,
        "places": WORK | CATEGORIES,
        "many": True,
        "shared": True,
        "concerns": Concern.NODE,
        "source": "SSS 3.1.0, Table 25-4",
        **more,
    }
    return Row(name=name, compliance=support, becomes=becomes, **fields)


def _section(name: str, becomes: str, **more: Any) -> Row:
    """Return the row of an element that has a section, not a line in a table."""
    fields = {"places": WORK, "shared": True, "source": f"SSS 3.1.0, {name} Element", **more}
    return Row(name=name, becomes=becomes, **fields)


CONSUMABLE_ROWS = (
    _consumable("Disk", _SHOULD, "disk of each task; the model has no place yet"),
    _consumable("Memory", _SHOULD, "JobSpec.minimum_memory; delivered, the memory really used"),
    _consumable(
        "Processors", _MUST, "minimum and maximum of the job or task", type=COUNT, concerns=Concern.COUNT
    ),
    _consumable("Swap", _MAY, "swap of each task; the model has no place yet", also=("NodeSwap",)),
    _consumable(
        "Resource",
        _MAY,
        "type License: JobSpec.licences; others a consumable of the cluster, without a place yet",
        shape=Resource,
        concerns=Concern.CLUSTER,
        source="SSS 3.1.0, Resource Element",
    ),
)

NETWORK = _consumable("Network", _MAY, "kept: an amount of network is nobody's to give yet")
"""Network with a number, a unit or a metric is a consumable."""

ADAPTER = Row(
    name="Network",
    places=WORK | CATEGORIES,
    shared=True,
    concerns=Concern.NODE,
    becomes="a fact that nodes must have; the model has no place yet",
    source="SSS 3.1.0, Table 25-2",
)
"""Network with a word is the type of adapter."""

STRUCTURED_ROWS = (
    _section(
        "Node",
        "requested, JobSpec.requested_nodes, without patterns yet; delivered, the nodes of the allocation",
        name_3_0="Name",
        shape=Selection,
        concerns=Concern.NODE,
        places=WORK | CATEGORIES,
        many=True,
        wrapped=True,
        compliance=_MUST,
        source="SSS 3.1.0, Node Element and Table 25-6",
    ),
    _section(
        "Feature",
        "a property that nodes must have; the model has node groups only",
        shape=Selection,
        concerns=Concern.NODE,
        places=WORK | CATEGORIES,
        many=True,
        wrapped=True,
    ),
    _section("InputFile", "TaskSpec.standard_input", shape=Stream),
    _section("OutputFile", "TaskSpec.standard_output", shape=Stream),
    _section("ErrorFile", "TaskSpec.standard_error", shape=Stream),
    _section(
        "NotificationList",
        "JobSpec.notify_on_start, notify_on_completion and email",
        shape=Notifications,
        also=("Notification",),
        many=True,
        shared=False,
    ),
    _section(
        "ResourceLimit",
        "a limit of each process; the model has no place yet",
        shape=Limit,
        many=True,
    ),
    _section("Environment", "environment of the job or task", shape=Environment, many=True),
    _section(
        "TaskDistribution",
        "how tasks are spread over nodes; the model has no place yet",
        shape=Distribution,
        places=frozenset({Place.JOB, Place.TASK_GROUP}),
    ),
    _section(
        "Dependency",
        "OnSuccess by id, JobSpec.parents; other conditions and names without a place yet",
        shape=Dependency,
        many=True,
        shared=False,
        compliance=_SHOULD,
    ),
    _section(
        "Extension",
        "extensions of the job or task",
        shape=Extension,
        places=ANYWHERE,
        many=True,
        shared=False,
    ),
)
