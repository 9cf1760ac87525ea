"""What templates have rules for: each property with its names and values, here and in HPC Pack."""

from collections.abc import Mapping

import msgspec

from headnode.core.formats import values as hpc_values
from headnode.core.formats.compute_cluster_xml.job_rows import JOB_ROWS as HPC_ROWS
from headnode.core.formats.native_form import values as native
from headnode.core.formats.native_form.keys import JOB_ROWS as NATIVE_ROWS
from headnode.core.formats.native_form.quantities import refuse, shown
from headnode.core.formats.native_form.rows import Value
from headnode.core.formats.values import Words
from headnode.core.model.job import UnitType

_UNITS = {unit.value: unit for unit in UnitType}


def _unit_named(value: object) -> UnitType:
    if value not in _UNITS:
        refuse("value", f"{shown(value)} is not a unit", f"write {', '.join(_UNITS)}")
    return _UNITS[str(value)]


_UNIT = Value(
    f"units: {', '.join(_UNITS)}",
    _unit_named,
    lambda unit: unit.value,
    {"enum": list(_UNITS)},
)
_PLAIN = (
    "name", "description", "project", "priority", "run_time", "exclusive", "single_node",
    "run_until_canceled", "requested_nodes", "excluded_nodes", "node_groups", "node_group_op", "order_by",
    "licences", "process_memory", "suspendable", "preemptable", "valid_exit_codes",
    "fail_on_task_failure", "fail_dependent_tasks", "task_retry_limit", "notify_on_start",
    "notify_on_completion", "email",
)  # fmt: skip
_HPC_SIZES = {"processor": "Cores", "socket": "Sockets", "node": "Nodes"}
_NUMBERS = frozenset({"run_time", "priority", "process_memory", "task_retry_limit", "minimum", "maximum"})


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a template has a rule for."""

    key: str  # in TOML
    field: str  # of JobSpec
    value: Value  # in TOML
    hpc: tuple[str, ...] = ()  # names in HPC Pack; the first is written
    words: Words | None = None  # values in HPC Pack
    unit: UnitType | None = None

    @property
    def is_number(self) -> bool:
        """Whether there are least and most values."""
        return self.field in _NUMBERS or "memory" in self.field or "per_node" in self.field


def _plain(key: str) -> Property:
    rows = [row for row in HPC_ROWS if row.field == key and row.hpc]
    names = tuple(row.hpc for row in rows)
    also = {"run_time": ("Runtime", "RunTime"), "name": ("JobName",)}.get(key, ())
    return Property(
        key=key,
        field=key,
        value=NATIVE_ROWS[key].value,
        hpc=(*names, *also) if names else (),
        words=rows[0].value if rows else None,
    )


def _size(bound: str, unit: UnitType) -> Property:
    return Property(
        key=f"{bound}_{unit.value}s",
        field=bound,
        unit=unit,
        value=native.WHOLE,
        hpc=(f"{bound[:3].capitalize()}{_HPC_SIZES[unit.value]}",),
        words=hpc_values.COUNT,
    )


PROPERTIES: Mapping[str, Property] = {
    one.key: one
    for one in (
        *map(_plain, _PLAIN),
        Property(key="unit", field="unit", value=_UNIT, hpc=("UnitType",), words=hpc_values.UNIT),
        *(_size(bound, unit) for unit in UnitType for bound in ("minimum", "maximum")),
        *(
            Property(
                key=f"{bound}_{what}",
                field=f"{bound}_{field}",
                value=value,
                hpc=(f"{bound[:3].capitalize()}{name}",),
                words=hpc_values.LEAST,
            )
            for bound in ("minimum", "maximum")
            for what, field, value, name in (
                ("memory_per_node", "memory", native.MEMORY, "Memory"),
                ("processors_per_node", "processors_per_node", native.WHOLE, "CoresPerNode"),
            )
        ),
    )
}
"""Every property by its key, in the order in which templates are written."""

BY_HPC_NAME: Mapping[str, Property] = {name.lower(): one for one in PROPERTIES.values() for name in one.hpc}
"""Every property that HPC Pack has, by its names in small letters."""


def property_of(field: str, unit: UnitType | None) -> Property:
    """Return the property of a rule."""
    return next(one for one in PROPERTIES.values() if one.field == field and one.unit is unit)
