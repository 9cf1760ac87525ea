"""SSS documents of every kind, for round trips: made from the rows, so that a new row is tried at once."""

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.job_object import (
    File,
    JobGroup,
    JobGroupRef,
    JobRef,
    SssDocument,
    SssJob,
    Task,
    TaskGroup,
    TaskGroupRef,
    TaskRef,
)
from headnode.core.formats.sss.properties import (
    LIMITS,
    MEASURED_IN_BYTES,
    Aggregation,
    Charge,
    Conj,
    Consumable,
    Dependency,
    Designator,
    DistributionKind,
    Environment,
    Extension,
    LimitKind,
    Notifications,
    Op,
    Redirect,
    Resource,
    Selection,
    SssCategory,
    SssDistribution,
    SssLimit,
    SssProperty,
    SssStream,
    Unit,
    UnknownElement,
    Variable,
)
from headnode.core.formats.sss.property_rows import ADAPTER, ROWS, ElementPlace, SssRow
from headnode.core.formats.sss.value_types import BOOLEAN, STRING, SssVersion
from headnode.core.model.dependency import Condition
from headnode.core.model.quantities import Seconds

from .specs import names, texts, trimmed

policies = st.sampled_from([None, Awareness.WARN, Awareness.IGNORE])
kept_attributes = st.lists(
    st.tuples(names.map(lambda name: f"Strange{name}"), texts), max_size=1, unique_by=lambda one: one[0]
).map(tuple)
kept_elements = st.sampled_from(
    [
        UnknownElement(name="Odd", xml="<Odd></Odd>"),
        UnknownElement(name="Odd", xml='<Odd a="1">x<Inner></Inner> y</Odd>'),
        UnknownElement(name="Odd", xml='<ns:Odd xmlns:ns="urn:odd"></ns:Odd>'),
        UnknownElement(name="NodeProperties", xml='<NodeProperties a="1"></NodeProperties>'),
        UnknownElement(name="NodeProperties", xml="<NodeProperties><Speed>9</Speed></NodeProperties>"),
    ]
)
spans = st.none() | st.integers(0, 2**32 - 1).map(lambda whole: Seconds(float(whole)))
amounts = st.none() | st.floats(0, 1e30, allow_nan=False) | st.integers(0, 10**6).map(float)
by_type: dict[str, st.SearchStrategy[Any]] = {
    "String": trimmed,
    "Float": amounts,
    "DateTime": spans,
    "Duration": spans,
    "Integer": st.none() | st.integers(0, 2**63 - 1),
    "Boolean": st.none() | st.booleans(),
}
byte_units = st.sampled_from(["", *Unit])
other_units = trimmed.filter(lambda text: text.upper() not in Unit.__members__)  # "b" would be read as "B"
words = names.map(lambda name: f"w{name}")  # no number, and no name of another thing
patterns = st.sampled_from(["fr15n.*", "node[1-5]", "(a|b)+", "x{2,3}"])


def values(row: SssRow) -> st.SearchStrategy[Any]:
    """What a property of `row` may hold."""
    return by_type[row.type.name]


def own_fields(row: SssRow) -> st.SearchStrategy[dict[str, Any]]:
    """The fields that the struct of `row` has besides those of every property."""
    consumable = {
        "value": values(row),
        "units": byte_units if row.name in MEASURED_IN_BYTES else other_units,
        "metric": st.sampled_from(["", "Total", "Average", "Min", "Max", "KX"]),
        "duration": spans,
        "consumption_rate": amounts,
    }
    fields: dict[type[SssProperty], dict[str, st.SearchStrategy[Any]]] = {
        SssProperty: {"value": values(row)},
        Charge: {"value": values(row), "units": trimmed},
        Consumable: consumable,
        Resource: {**consumable, "called": words, "type": trimmed},
        SssStream: {
            "value": trimmed,
            "redirects": st.lists(st.sampled_from(Redirect), max_size=3).map(tuple),
        },
        Notifications: {"value": trimmed, "uri": trimmed},
        SssLimit: {
            "value": trimmed,
            "called": st.sampled_from(LIMITS) | words,
            "kind": st.none() | st.sampled_from(LimitKind),
        },
        Dependency: {
            "value": words.map(lambda name: f"other-{name}"),  # no job of the group, and so no circle
            "condition": st.none() | st.sampled_from(Condition),
            "designator": st.none() | st.sampled_from(Designator),
        },
        Extension: {"value": trimmed, "called": trimmed, "type": trimmed},
    }
    if row is ADAPTER or row.name == "Executable":  # a number would be an amount, a # a file
        return st.fixed_dictionaries({"value": words})
    if row.shape is Selection:
        return selections
    if row.shape is SssDistribution:
        return distributions
    if row.shape is Environment:
        return st.fixed_dictionaries({"variables": environments})
    if row.name == "Network":  # with an attribute or a value: else it would be no amount
        return st.fixed_dictionaries({**consumable, "units": words})
    return st.fixed_dictionaries(fields[row.shape])


selections = st.one_of(
    st.fixed_dictionaries({"value": words}),
    st.fixed_dictionaries({"value": st.just("a, b"), "aggregation": st.just(Aggregation.LIST)}),
    st.fixed_dictionaries({"value": patterns, "aggregation": st.just(Aggregation.PATTERN)}),
)
distributions = st.sampled_from(
    [
        {"kind": DistributionKind.TASKS_PER_NODE, "value": "2"},
        {"kind": DistributionKind.PROCESSORS_PER_TASK, "value": "4"},
        {"kind": DistributionKind.RULE, "value": "RoundRobin"},
        {"kind": DistributionKind.GEOMETRY, "value": "{1,4}{2}{3,5}"},
    ]
)
variables = st.builds(Variable, name=words, value=texts, awareness=policies, kept=kept_attributes)
environments = st.lists(variables, min_size=1, max_size=3, unique_by=lambda one: one.name).map(tuple)


@st.composite
def properties(draw: st.DrawFn, place: ElementPlace) -> tuple[SssProperty, ...]:
    """Properties as they may stand in `place`, with those it must have."""
    here = [row for row in ROWS if place in row.places]
    once = [row for row in here if row.appearance != "MUST"]
    chosen = draw(st.lists(st.sampled_from(once), max_size=4, unique_by=lambda row: (row.name, row.shape)))
    found = [draw(one_property(row, place)) for row in chosen]
    found += [SssProperty(name=row.name, value=draw(words)) for row in here if row.appearance == "MUST"]
    if draw(st.integers(0, 4)) == 0:
        found.append(draw(kept_elements))
    return tuple(found)


@st.composite
def one_property(draw: st.DrawFn, row: SssRow, place: ElementPlace) -> SssProperty:
    """A property of `row`; in Requested with a comparison and more."""
    fields = draw(own_fields(row))
    if draw(st.integers(0, 3)) == 0:
        fields = {**fields, "awareness": draw(policies), "kept": draw(kept_attributes)}
    if place is ElementPlace.REQUESTED and draw(st.booleans()):
        numbers = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]
        matchable = row.type is STRING and row.shape is not Selection and row.type is not BOOLEAN
        fields = {
            **fields,
            "op": draw(st.none() | st.sampled_from(numbers)),
            "conj": draw(st.none() | st.sampled_from(Conj)),
        }
        if matchable and fields["op"] is Op.EQ:
            fields = {**fields, "op": Op.MATCH, "value": draw(patterns)}
        fields["preference"] = draw(st.integers(-3, 3))
        fields["performance"] = draw(st.none() | st.floats(-10, 10, allow_nan=False))
    return row.shape(name=row.name, **fields)


@st.composite
def envelopes(draw: st.DrawFn, place: ElementPlace) -> SssCategory | None:
    """A category with at least one property in it, or none; in Requested, some in parentheses."""
    found = list(draw(properties(place)))
    if not found:
        return None
    if place is ElementPlace.REQUESTED and draw(st.booleans()):
        bare = [one for one in found if not isinstance(one, UnknownElement)]
        if len(bare) == len(found) > 1:
            depth = draw(st.integers(1, 2))
            found[0] = with_group(found[0], depth)
            found[-1] = with_group(found[-1], -depth)
    return SssCategory(properties=tuple(found), awareness=draw(policies), kept=draw(kept_attributes))


def with_group(one: SssProperty, group: int) -> SssProperty:
    """The same property, opening or closing parentheses."""
    return replace(one, group=group)


def parts(place: ElementPlace) -> dict[str, st.SearchStrategy[Any]]:
    """The fields of a job, task group or task."""
    return {
        "properties": properties(place),
        "requested": st.none() | envelopes(ElementPlace.REQUESTED),
        "delivered": st.none() | envelopes(ElementPlace.DELIVERED),
        "awareness": policies,
        "kept": kept_attributes,
    }


references = {"id": words, "awareness": policies, "kept": kept_attributes}
tasks = st.builds(Task, **parts(ElementPlace.TASK)).filter(
    lambda one: one.properties or one.requested or one.delivered
)


def distinct(found: list[Any]) -> bool:
    """Whether no two parts have the same id."""
    ids = [one.id for one in found if one.id]
    return len(set(ids)) == len(ids)


task_lists = st.lists(tasks | st.builds(TaskRef, **references), max_size=2).filter(distinct).map(tuple)
task_groups = st.builds(
    TaskGroup,
    **parts(ElementPlace.TASK_GROUP),
    tasks=task_lists,
    task_defaults=st.lists(tasks, max_size=1).map(tuple),
).filter(
    lambda one: (
        (one.properties or one.requested or one.delivered or one.tasks)
        and len(one.tasks) <= int(str(one.value("TaskCount") if one.value("TaskCount") is not None else 9))
    )
)
jobs = st.builds(
    SssJob,
    **parts(ElementPlace.JOB),
    task_groups=st.lists(task_groups | st.builds(TaskGroupRef, **references), max_size=2)
    .filter(distinct)
    .map(tuple),
    task_group_defaults=st.lists(task_groups, max_size=1).map(tuple),
)
job_groups = st.builds(
    JobGroup,
    properties=properties(ElementPlace.JOB_GROUP),
    awareness=policies,
    kept=kept_attributes,
    jobs=st.lists(jobs | st.builds(JobRef, **references), min_size=1, max_size=2).filter(distinct).map(tuple),
    job_defaults=st.none() | jobs,
)
files = st.lists(
    st.builds(File, id=words, body=texts, awareness=policies, kept=kept_attributes),
    max_size=2,
    unique_by=lambda one: one.id,
).map(tuple)
alone = st.builds(
    SssDocument,
    entries=st.tuples(jobs | job_groups),
    in_data=st.booleans(),
    namespace=st.sampled_from(["", "urn:sss"]),
)
several = st.builds(
    SssDocument,
    entries=st.tuples(
        jobs, job_groups, st.builds(JobRef, **references) | st.builds(JobGroupRef, **references)
    ),
    files=files,
    awareness=policies,
    kept=kept_attributes,
    unknown=st.lists(kept_elements.filter(lambda one: one.name == "Odd"), max_size=1).map(tuple),
).filter(lambda one: distinct([entry for entry in one.entries if isinstance(entry, SssJob)]))
documents = alone | several
versions = st.sampled_from(SssVersion)
