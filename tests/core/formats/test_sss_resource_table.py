"""The table of requested resources: what is written of a request asks for the same when it is read."""

from itertools import combinations
from typing import Any

import pytest

from headnode.core.formats.sss.conversion.resource_table import (
    RESOURCES,
    UNDERSTOOD_IN,
    Request,
    clauses_of,
    resources_of,
    without_effect,
)
from headnode.core.formats.sss.expressions import RequestProperties, ways_of
from headnode.core.formats.sss.properties import Consumable, Selection, SssProperty
from headnode.core.formats.sss.property_rows import ElementPlace
from headnode.core.model.job import Licence
from headnode.core.model.quantities import Seconds
from headnode.core.model.value_checks import MAX_CODE

VALUES: dict[str, Any] = {
    "run_time": Seconds(60.0),
    "processors": (2, 4),
    "nodes": (3, 3),
    "minimum_memory": 100,
    "maximum_memory": 200,
    "minimum_disk": 5,
    "minimum_swap": 6,
    "names": ("n1", "n2"),
    "excluded": ("n3",),
    "patterns": ("n.*",),
    "excluded_patterns": (".*4",),
    "features": (("a", "b"), ("c",)),
    "feature_patterns": ("f.*",),
    "lacking": ("d",),
    "architectures": ("x86", "arm"),
    "systems": ("Linux",),
    "partition": "old",
    "licences": (Licence("x", 2), Licence("tool:y", 1)),
    "project": "p",
    "reservation": "r",
    "run_as": "amy",
    "template": "long",
}
OF_A_RANGE = {"run_time": Seconds(3600.0), "minimum_run_time": Seconds(600.0)}
"""Fields of which the second is nothing without the first."""
AS_READ = ("quality", "machine", "manager")
"""Fields that are written as they were read."""

EXACT: dict[str, SssProperty] = {
    "Processors": Consumable(name="Processors", value=4.0),
    "Memory": Consumable(name="Memory", value=2.0, units="gb"),
    "Disk": Consumable(name="Disk", value=100.0),
    "Swap": Consumable(name="Swap", value=1.0),
    "NodeCount": SssProperty(name="NodeCount", value=2),
    "Duration": SssProperty(name="Duration", value=60.0),
    "Node": Selection(name="Node", value="n1"),
    "Feature": Selection(name="Feature", value="fast"),
}
"""Exact amounts and names; the other properties are texts."""


def exact_value(one: SssProperty) -> object:
    """Return what a property asks for when it is read without its constraints."""
    return RESOURCES[one.name].exact(one.quantity if isinstance(one, Consumable) else one.value)


def asked_again(request: Request) -> Request:
    """Return what the properties that ask for `request` ask for."""
    found = [
        tuple(one for clause in clauses_of(request, outside=outside) for one in clause)
        for outside in (True, False)
    ]
    (way,) = ways_of(RequestProperties(*found))
    assert not without_effect(way.constraints, ElementPlace.JOB)
    return resources_of(way.constraints)[0]


def test_every_field_is_known() -> None:
    assert {field for row in RESOURCES.values() for field in row.fields} == {*VALUES, *OF_A_RANGE, *AS_READ}


@pytest.mark.parametrize("count", [1, 2, len(VALUES)])
def test_what_is_written_of_fields_asks_for_them_when_it_is_read(count: int) -> None:
    for fields in combinations(VALUES, count):
        request = {field: VALUES[field] for field in fields}
        assert asked_again(request) == request


def test_a_range_of_times_is_written_as_its_bounds() -> None:
    assert asked_again(OF_A_RANGE) == OF_A_RANGE
    assert asked_again(VALUES | OF_A_RANGE) == VALUES | OF_A_RANGE


def test_every_property_that_has_an_effect_is_read_when_it_is_alone_and_exact() -> None:
    for place, names in UNDERSTOOD_IN.items():
        for name in set(RESOURCES) - {"Resource"}:
            one = EXACT.get(name, SssProperty(name=name, value="word"))
            (way,) = ways_of(RequestProperties((one,), ()))
            lost = without_effect(way.constraints, ElementPlace(place))
            assert (name not in names) == bool(lost)
            assert resources_of(way.constraints) == ({RESOURCES[name].field: exact_value(one)}, ())


@pytest.mark.parametrize(
    "one",
    [
        Consumable(name="Processors", value=1.5),
        Consumable(name="Processors", value=MAX_CODE + 1.0),
        Consumable(name="Memory", value=1.0, units="KB"),
        Consumable(name="Memory", value=1.0, units="XB"),
        Consumable(name="Disk", value=0.0),
        SssProperty(name="Duration", value=0.0),
    ],
)
def test_a_value_that_is_no_whole_amount_is_left_to_the_constraints(one: SssProperty) -> None:
    assert not exact_value(one)
