"""Properties that request no resources and have a field of their own, and how they are written."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.constraints import Bounds
from headnode.core.formats.sss.conversion.extensions import (
    PROPERTY,
    ConversionFindings,
    TextLosses,
    is_own_extension,
)
from headnode.core.formats.sss.expressions import request_properties
from headnode.core.formats.sss.job_object import SssScope
from headnode.core.formats.sss.properties import (
    DistributionKind,
    Environment,
    Extension,
    Notifications,
    SssDistribution,
    SssProperty,
    UnknownElement,
    Value,
    Variable,
)
from headnode.core.formats.sss.property_rows import (
    OUTCOMES,
    ROWS,
    SPELLINGS,
    WORK,
    ElementPlace,
    PropertyRole,
    meaning_of,
)
from headnode.core.formats.sss.value_types import MAX_SECONDS
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import FOREVER, HIGHEST, LOWEST, Instant, Priority, Seconds
from headnode.core.model.task import Distribution as Placed


class Asker(NamedTuple):
    """The host and the user that submit a job; empty: not known."""

    machine: str = ""
    user: str = ""
    resources: tuple[tuple[str, str], ...] = ()  # to which the cluster hands jobs over, and their schedulers


NOBODY = Asker()

_ASKING = SPELLINGS[ElementPlace.REQUESTED]
_NOT_INPUT = "a result of the job on another system; not an input"


def _is_quiet(name: str, place: ElementPlace) -> bool:
    """Whether nothing is to be told or kept of a property called `name`: others act on it."""
    meaning = meaning_of(name, place)
    if name in _ASKING and meaning.role not in OUTCOMES:
        return True
    return meaning.role is PropertyRole.ACTED_ON and (place is ElementPlace.JOB or meaning.tasks)


_QUIET = {place: frozenset(row.name for row in ROWS if _is_quiet(row.name, place)) for place in WORK}
_BY_TYPE = (UnknownElement, Extension, SssDistribution)


class SortedScope:
    """The properties of a job, task group or task, each sorted once by what becomes of it.

    `requests` is what it requests, `kept` what must be written back.
    """

    def __init__(
        self,
        scope: SssScope,
        place: ElementPlace,
        policy: Awareness,
        findings: ConversionFindings,
        asker: Asker = NOBODY,
    ) -> None:
        self.scope, self.place, self.findings, self.asker = scope, place, findings, asker
        self.policy = scope.awareness or policy
        self.requests = request_properties(scope)
        self.values = values = dict[str, Value]()  # of several of a name that of the first
        self.structured: dict[type[SssProperty], list[Any]] = {}
        self.kept: list[SssProperty] = []
        quiet = _QUIET[place]
        for one in scope.properties:
            name, shape = one.name, type(one)
            if name not in values:
                values[name] = one.value
            if shape is not SssProperty:
                self.structured.setdefault(shape, []).append(one)
            if name not in quiet or shape in _BY_TYPE:
                self._one(one)
        if scope.delivered:
            findings.note(f"Delivered: {_NOT_INPUT}")

    def unsaid(self, one: SssProperty, why: str) -> None:
        """Keep a property, and say that it has no effect."""
        self.kept.append(one)
        policy = one.awareness or self.policy
        self.findings.unsupported(policy, f"{_as_text(one)}: {why}", one.name)

    def _one(self, one: SssProperty) -> None:
        if isinstance(one, UnknownElement):
            self.kept.append(one)  # the reader of the document has told it
        elif isinstance(one, Extension):
            self._extension(one)
        elif isinstance(one, SssDistribution):
            if not is_understood(one):
                self.unsaid(one, "tasks may run on any node of the job")
        else:
            self._by_role(one)

    def _extension(self, one: Extension) -> None:
        if not is_own_extension(one):
            self.kept.append(one)
            self.findings.kept(f"Extension {one.called!r} of type {one.type!r}: it is kept")

    def _by_role(self, one: SssProperty) -> None:
        meaning = meaning_of(one.name, self.place)
        if one.value is None and meaning.role is not PropertyRole.ACTED_ON:
            return  # an empty element: the property is not set
        if meaning.role in OUTCOMES:
            self.findings.note(f"{one.name}: {_NOT_INPUT}")
        elif meaning.role is PropertyRole.KEPT or (
            meaning.role is PropertyRole.UNSUPPORTED and one.value is False
        ):
            self.kept.append(one)
            self.findings.kept(f"{one.name}: it is kept; {meaning.becomes}")
        elif meaning.role is PropertyRole.UNSUPPORTED:
            self.unsaid(one, meaning.becomes)
        elif one.name in _DECIDE_WHEN:
            if one.value:
                _refuse_in_part(one, self.findings.where)
        else:
            self.unsaid(one, "it only has an effect in a job, not in a part of one")


_DECIDE_WHEN = ("Dependency", "EligibleTime", "Hold", "DeadlineTime", "Reservation")
"""Properties that no policy leaves out: without them the job would run when or where it must not."""


def _refuse_in_part(one: SssProperty, where: str) -> NoReturn:
    """Refuse what decides when tasks may run, in a part of a job.

    Raises:  BadRequest ``part``, always.
    """
    raise BadRequest(
        code="part",
        what=f"{where}: {_as_text(one)}: it applies to whole jobs, and all tasks of a job start together",
        fix=f"write {one.name} in the Job, or write the tasks as a job of their own",
        path=(one.name,),
    )


def _as_text(one: SssProperty) -> str:
    if isinstance(one, SssDistribution):
        return f"{one.name} {one.kind} {one.value}"
    called = getattr(one, "called", "")
    return f"{one.name} {called} {one.value}" if called else f"{one.name} {one.value}"


ROUND_ROBIN = "RoundRobin"


_MAX_PER_NODE = 1_000_000


def is_understood(one: SssDistribution) -> bool:
    """Whether Headnode can lay tasks so: any distribution but a rule that it does not know."""
    return one.kind is not DistributionKind.RULE or str(one.value).lower() == ROUND_ROBIN.lower()


def _distribution(properties: Iterable[SssProperty]) -> SssDistribution | None:
    return next((one for one in properties if isinstance(one, SssDistribution)), None)


def each_of(properties: Iterable[SssProperty]) -> Bounds | None:
    """Return the processors of each task, when a TaskDistribution says so."""
    one = _distribution(properties)
    return (one.number, one.number) if one and one.kind is DistributionKind.PROCESSORS_PER_TASK else None


def numbered(properties: Iterable[SssProperty]) -> int:
    """Return how many tasks a geometry numbers; 0 without one."""
    one = _distribution(properties)
    return sum(map(len, one.geometry)) if one else 0


def distribution_of(properties: Iterable[SssProperty]) -> Placed | None:
    """Return how tasks are laid on nodes; None: anyhow."""
    one = _distribution(properties)
    if one is None or not is_understood(one) or one.kind is DistributionKind.PROCESSORS_PER_TASK:
        return None
    if one.kind is DistributionKind.RULE:
        return Placed(round_robin=True)
    return Placed(per_node=min(one.number, _MAX_PER_NODE), geometry=one.geometry)


def distribution_back(placed: Placed | None, findings: ConversionFindings) -> Iterator[SssProperty]:
    """Yield the TaskDistribution that says the same; a number of nodes is said by NodeCount."""
    if placed is None:
        return
    if placed.round_robin and (placed.per_node or placed.geometry):
        findings.lost("distribution: one TaskDistribution is written, so its round robin is left out")
    if placed.per_node:
        yield _task_distribution(DistributionKind.TASKS_PER_NODE, str(placed.per_node))
    elif placed.geometry:
        blocks = ("{" + ",".join(map(str, group)) + "}" for group in placed.geometry)
        yield _task_distribution(DistributionKind.GEOMETRY, "".join(blocks))
    elif placed.round_robin:
        yield _task_distribution(DistributionKind.RULE, ROUND_ROBIN)


def _task_distribution(kind: DistributionKind, value: str) -> SssDistribution:
    return SssDistribution(name="TaskDistribution", kind=kind, value=value)


EVENTS = {"jobstart": "notify_on_start", "jobend": "notify_on_completion"}
"""The events of NotificationList that Headnode tells, in small letters."""

Fields = dict[str, Any]


def priority_of(scope: SortedScope) -> Fields:
    """Return the priority when it is of Headnode's scale; else it is kept, and the job is Normal."""
    value = scope.values.get("Priority")
    if not isinstance(value, int):
        return {}
    if LOWEST <= value <= HIGHEST:
        scope.findings.translated(f"Priority: a number from {LOWEST} to {HIGHEST}")
        return {"priority": Priority(value)}
    scope.kept.extend(scope.scope.all("Priority"))
    other = f"the priority is on another scale than {LOWEST} to {HIGHEST}: it is Normal"
    scope.findings.approximated(f"Priority {value}: {other}")
    return {}


def moments_of(scope: SortedScope) -> Fields:
    """Return what holds the job, from when on it may start, and by when it must have ended."""
    fields: Fields = {}
    holds = [str(one.value) for one in scope.scope.all("Hold") if one.value] if "Hold" in scope.values else []
    if holds:
        fields["holds"] = tuple(dict.fromkeys(name.casefold() for name in holds))
        if fields["holds"] != tuple(holds):
            scope.findings.translated("Hold: names of holds are in lower case, each once")
    for name, field, becomes in _MOMENTS:
        value = scope.values.get(name)
        if value is not None:
            scope.findings.translated(f"{name}: {becomes}")
            fields[field] = Instant(float(value))
    return fields


_MOMENTS = (
    ("EligibleTime", "hold_until", "the job is held until then"),
    ("DeadlineTime", "end_by", "the job must have ended by then"),
)
_HOLDS = {"system": "System", "user": "User", "operator": "Operator", "batch": "Batch"}


def holds_back(names: Sequence[str], findings: ConversionFindings) -> Iterator[SssProperty]:
    """Yield the holds; the usual ones with the capitals of the documents."""
    if any(name != name.casefold() for name in names):
        findings.translated("holds: their names are read back in lower case")
    yield from (SssProperty(name="Hold", value=_HOLDS.get(name, name)) for name in names)


def events_of(scope: SortedScope) -> Fields:
    """Return what the owner is told, and where; other events and other ways are kept without effect."""
    fields: Fields = {}
    for one in scope.structured.get(Notifications, ()):
        words = [word.strip() for word in str(one.value or "").split(",") if word.strip()]
        address = one.uri.removeprefix("mailto:")
        if one.uri and "://" in address:
            scope.unsaid(one, f"no notice is sent: {one.uri!r} is not an e-mail address")
            continue
        if fields.get("email", address) != address:
            scope.unsaid(one, f"no notice is sent to {one.uri!r}: a job has one address")
            continue
        fields |= {EVENTS[word.lower()]: True for word in words if word.lower() in EVENTS}
        if address:
            fields["email"] = address
        strange = [word for word in words if word.lower() not in EVENTS]
        if strange:
            scope.unsaid(one, f"no notice is sent of {', '.join(strange)}")
    return fields


_PLACE_OF = {name: number for number, name in enumerate(dict.fromkeys(row.name for row in ROWS))}


def ordered(properties: Iterable[SssProperty]) -> tuple[SssProperty, ...]:
    """Return properties in the order of the tables; what is not in them comes last."""
    return tuple(sorted(properties, key=lambda one: _PLACE_OF.get(one.name, len(_PLACE_OF))))


def environment(variables: Mapping[str, str]) -> Iterator[SssProperty]:
    """Yield the Environment of `variables`, if there are any."""
    if variables:
        found = tuple(Variable(name=name, value=value) for name, value in variables.items())
        yield Environment(variables=found)


def own_words(properties: Mapping[str, str], findings: ConversionFindings) -> Iterator[SssProperty]:
    """Yield the user's own properties as Extensions."""
    if properties:
        findings.translated(f"properties: they are Extensions of type {PROPERTY}")
    TextLosses(findings).report("properties", [*properties, *properties.values()])
    for name, value in properties.items():
        if not name.strip() or name.startswith("<"):
            findings.lost(f"properties: {name!r} is not a name of an Extension: it is left out")
        else:
            yield Extension(name="Extension", type=PROPERTY, called=name, value=value)


def span(field: str, limit: Seconds, findings: ConversionFindings) -> Seconds:
    """Return a limit as it can be written: in whole seconds, which are rounded up."""
    if limit == FOREVER:
        return limit
    whole = Seconds(float(math.ceil(limit)))
    if whole > MAX_SECONDS:
        findings.lost(f"{field}: more than {MAX_SECONDS} s cannot be written: no limit is written")
        return FOREVER
    if whole != limit:
        findings.approximated(f"{field}: whole seconds, rounded up")
    return whole
