"""A job as JSON: the names of JobSpec and TaskSpec, only what differs from the defaults.

A run time limit that does not exist is null; reading takes "infinite" for it too.  Everything else is
as in `headnode.core.model.job`: seconds, MB, inclusive ranges of exit codes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, GroupEdge, JobSpec, Licence, OrderKey, TaskAlternative
from headnode.core.model.limits import ResourceLimit
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import Distribution, TaskSpec

_INSIDE: Mapping[tuple[type, str], type[msgspec.Struct]] = {
    (JobSpec, "tasks"): TaskSpec,
    (JobSpec, "licences"): Licence,
    (JobSpec, "order_by"): OrderKey,
    (JobSpec, "group_edges"): GroupEdge,
    (JobSpec, "needs"): NodeNeeds,
    (JobSpec, "resource_limits"): ResourceLimit,
    (JobSpec, "alternatives"): Alternative,
    (TaskSpec, "needs"): NodeNeeds,
    (TaskSpec, "distribution"): Distribution,
    (TaskSpec, "resource_limits"): ResourceLimit,
    (Alternative, "licences"): Licence,
    (Alternative, "needs"): NodeNeeds,
    (Alternative, "tasks"): TaskAlternative,
    (TaskAlternative, "needs"): NodeNeeds,
    (TaskAlternative, "distribution"): Distribution,
}
"""Fields that hold an object, or a list of objects."""


def write_job_json(spec: JobSpec) -> dict[str, Any]:
    """Return the job as what JSON can hold."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))  # JSON has null for no limit
    return found


def read_job_json(found: Any) -> JobSpec:
    """Return the job that an object of JSON describes.

    Raises:  BadRequest ``unknown-field`` (with the nearest right name) and ``field`` for a wrong value.
    """
    prepared = _prepared(found, JobSpec, "job")
    try:
        return msgspec.convert(prepared, JobSpec)
    except msgspec.ValidationError as wrong:
        raise BadRequest(
            code="field", what=f"the job is wrong: {wrong}", fix="see the reference of the native form"
        ) from wrong


def _prepared(found: Any, kind: type[msgspec.Struct], where: str) -> Any:
    """Check the names in an object, and put the number for no limit where there is none."""
    if not isinstance(found, Mapping):
        return found
    prepared: dict[str, Any] = {}
    for name, value in found.items():
        if name not in kind.__struct_fields__:
            _refuse_name(str(name), kind, where)
        inside = _INSIDE.get((kind, name))
        if inside and isinstance(value, Mapping):
            prepared[name] = _prepared(value, inside, f"{where}.{name}")
        elif inside and isinstance(value, Sequence) and not isinstance(value, str):
            prepared[name] = [
                _prepared(part, inside, f"{where}.{name}[{number}]") for number, part in enumerate(value)
            ]
        elif name == "run_time" and (value is None or value == "infinite"):
            prepared[name] = FOREVER
        else:
            prepared[name] = value
    return prepared


def _refuse_name(name: str, kind: type[msgspec.Struct], where: str) -> None:
    meant = nearest(name, kind.__struct_fields__)
    raise BadRequest(
        code="unknown-field",
        what=f"{where} has no field {name!r}",
        fix=f"did you mean {meant!r}?" if meant else f"choose one of {', '.join(kind.__struct_fields__)}",
    )
