"""The requirements of a job and of its tasks as node requirements of the model."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.grid.keys import REQUIREMENT_ROWS
from headnode.core.formats.grid.source import GridObject, as_extension
from headnode.core.model.job import JobSpec
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.task import TaskSpec

_PACKAGE = re.compile(r"\s*([^\s<>=!,]+)\s*(?:(<=|>=|==|!=|<|>)\s*([^\s<>=!,]+)\s*)?\Z")
Features = tuple[tuple[str, ...], ...]


def packages(software: str) -> tuple[Features, bool] | None:
    """Return packages as features, and whether versions are left out; None when it is no list of packages.

    >>> packages("gcc >= 4.1, python")
    ((('gcc',), ('python',)), True)
    """
    match = [_PACKAGE.match(piece) for piece in software.split(",")]
    names = dict.fromkeys((piece[1],) for piece in match if piece)
    if not all(match):
        return None
    return tuple(names), any(piece[2] for piece in match if piece)


def software_of(needs: NodeNeeds) -> str | None:
    """Return features as a list of packages; None when it cannot say them.

    >>> software_of(NodeNeeds(features=(("gcc",), ("python",))))
    'gcc, python'
    """
    text = ", ".join(choice[0] for choice in needs.features if len(choice) == 1)
    if not needs.features:
        return ""
    return text if packages(text) == (needs.features, False) else None


Needs = dict[str, Any]
NeedValues = dict[str, Any]
"""Fields of `NodeNeeds` with their values."""

OF_JOB = -1
"""The job where it stands beside its tasks, which have numbers from 0."""

Tell = Callable[[Fidelity, int, str, str], None]
"""Adds a finding about a key of the requirements of a task, or `OF_JOB`."""

AMOUNTS = {
    "smp_size": "minimum_processors",
    "ram_size": "minimum_memory",
    "virtual_size": "minimum_virtual",
}
"""Requirements that are amounts, and their fields in what is demanded of nodes."""

OF_JOBS = {"minimum_processors": "minimum_processors_per_node", "minimum_memory": "minimum_memory"}
"""Amounts for which a job has fields of its own, for all of its nodes."""

HERTZ = 1_000_000
"""A speed of at least so much is in Hz; no processor is that fast in MHz, nor that slow in Hz."""

_CHOSEN = "it selects nodes"


class RequirementFields(msgspec.Struct):
    """What the model says of the requirements: of the job, and of each task.

    `unread` is what it cannot, by the number of the task, or `OF_JOB`.
    """

    fields: dict[str, Any] = {}
    needs: list[NodeNeeds] = []
    unread: dict[int, Needs] = {}


def merged(job: Needs, task: Needs) -> Needs:
    """Return the requirements of a task: its own, and the job's where it has none.

    >>> merged({"lrms": "Cleo"}, {"queue": "long"})
    {'lrms': 'Cleo', 'queue': 'long'}
    """
    return {**job, **task}


def requirement_fields(job: Needs, tasks: Sequence[Needs | None], report: Tell) -> RequirementFields:
    """Put the requirements into fields: of the job, what all its tasks ask for; else of the tasks.

    A task whose definition is still to come (None) has no say, unless all are such.
    """
    folding = _RequirementReader(job, report)
    needs_found = {
        number: folding.needs_found(number, task) for number, task in enumerate(tasks) if task is not None
    }
    return folding.folded(needs_found, len(tasks))


class _RequirementReader:
    """Folds the requirements of one job."""

    def __init__(self, job: Needs, report: Tell) -> None:
        self._job, self._report = job, report
        self._distinct: list[NeedValues] = []
        self._of_job: int | None = None
        self._left: dict[int, Needs] = {}

    def needs_found(self, number: int, own: Needs) -> int:
        """Return the place of what a task demands of nodes; those that say nothing of their own share one."""
        if own:
            return self._noted(self._read(number, merged(self._job, own)))
        if self._of_job is None:
            self._of_job = self._noted(self._read(OF_JOB, self._job))
        return self._of_job

    def _noted(self, needs_found: NeedValues) -> int:
        self._distinct.append(needs_found)
        return len(self._distinct) - 1

    def _read(self, number: int, needs: Needs) -> NeedValues:
        found: NeedValues = {}
        for key, value in needs.items():
            if value and key in _READERS:
                _READERS[key](found, value)
                self._report(Fidelity.TRANSLATED, number, key, _CHOSEN)
        if "cpu_hz" in needs and needs["cpu_hz"] % HERTZ and needs["cpu_hz"] >= HERTZ:
            self._report(Fidelity.NOTE, number, "cpu_hz", "whole MHz, rounded up")
        self._instruction_set(number, needs, found)
        self._software(number, needs, found)
        return found

    def _instruction_set(self, number: int, needs: Needs, found: NeedValues) -> None:
        wanted = needs.get("cpu_instruction_set", "")
        if not wanted:
            return
        platform = found.setdefault("architectures", (wanted,))
        if platform == (wanted,):
            self._report(Fidelity.TRANSLATED, number, "cpu_instruction_set", _CHOSEN)
            return
        what = f"nodes are of platform {platform[0]!r}: these instructions are not checked"
        self._report(Fidelity.APPROXIMATED, number, "cpu_instruction_set", what)
        self._keep(number, "cpu_instruction_set", wanted)

    def _software(self, number: int, needs: Needs, found: NeedValues) -> None:
        software = needs.get("software", "")
        if not software:
            return
        understood = packages(software)
        if understood is None:
            what = "it is kept, but it is not a list of packages: it does not select nodes"
            self._report(Fidelity.NOT_SUPPORTED, number, "software", what)
            self._keep(number, "software", software)
            return
        features, versions = understood
        found["features"] = features
        if versions:
            what = "nodes have a feature of each name; versions are kept, but not compared"
            self._report(Fidelity.APPROXIMATED, number, "software", what)
            self._keep(number, "software", software)
        else:
            self._report(Fidelity.TRANSLATED, number, "software", "nodes have a feature of each name")

    def _keep(self, number: int, key: str, value: str) -> None:
        """Keep what a job says with the job, and what a task says itself with the task."""
        whose = OF_JOB if self._job.get(key) == value else number
        self._left.setdefault(whose, {})[key] = value

    def folded(self, needs_found: Mapping[int, int], tasks: int) -> RequirementFields:
        """Return the fields of the job and the needs of `tasks` tasks, by the places of what they demand."""
        if not needs_found:
            self.needs_found(OF_JOB, {})
        distinct = self._distinct
        of_all = {
            field: value
            for field, value in distinct[0].items()
            if field != "names" and all(one.get(field) == value for one in distinct)
        }
        nodes = self._requested(distinct)
        rest = [_without(one, of_all, nodes) for one in distinct]
        return RequirementFields(
            fields=_job_fields(of_all, nodes),
            needs=[
                rest[needs_found[number]] if number in needs_found else ANY_NODE for number in range(tasks)
            ],
            unread=self._left,
        )

    def _requested(self, distinct: Iterable[NeedValues]) -> tuple[str, ...]:
        """Return all hosts that are named, if every task names some: the nodes of the job are among them."""
        named = [one.get("names", ()) for one in distinct]
        if not all(named):
            return ()
        used = {host for hosts in named for host in hosts}
        every = _different([*self._job.get("hostname", ()), *(host for hosts in named for host in hosts)])
        return tuple(host for host in every if host in used)


def _job_fields(of_all: NeedValues, nodes: tuple[str, ...]) -> dict[str, Any]:
    own = {OF_JOBS[field]: value for field, value in of_all.items() if field in OF_JOBS}
    needs = NodeNeeds(**{field: value for field, value in of_all.items() if field not in OF_JOBS})
    return own | {"requested_nodes": nodes, "needs": needs}


def _without(needs_found: NeedValues, of_all: NeedValues, nodes: tuple[str, ...]) -> NodeNeeds:
    """Return what a task demands beside what its job does."""
    own = {field: value for field, value in needs_found.items() if field not in of_all}
    if set(own.get("names", ())) == set(nodes):
        own.pop("names", None)
    return NodeNeeds(**own) if own else ANY_NODE


def megahertz(speed: int) -> int:
    """Return a speed that is in Hz, or in MHz when it is small, in MHz.

    >>> megahertz(2_000_000_001), megahertz(2400)
    (2001, 2400)
    """
    return speed if speed < HERTZ else -(-speed // HERTZ)


def _different(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _taken(field: str, read: Callable[[Any], Any]) -> Callable[[NeedValues, Any], None]:
    def put(needs: NeedValues, value: Any) -> None:
        needs[field] = read(value)

    return put


_READERS: Mapping[str, Callable[[NeedValues, Any], None]] = {
    "hostname": _taken("names", _different),
    "platform": _taken("architectures", lambda value: (value,)),
    "os_name": _taken("systems", lambda value: (value,)),
    "cpu_hz": _taken("minimum_speed", megahertz),
    **{key: _taken(field, int) for key, field in AMOUNTS.items()},
}


KEY = "requirements"
FORK = "Fork"
LRMS = "lrms"
JOB_PREFIX, TASK_PREFIX = f"{KEY}.", f"definition.{KEY}."
"""Before the names of requirements, in the extensions of a job and of a task."""

Fields = dict[str, Any]


def with_tasks(
    spec: JobSpec, job: GridObject, definitions: Sequence[GridObject | None], tasks: Iterable[Fields]
) -> JobSpec:
    """Return the job with its `tasks`; what they require is in typed fields, or in extensions."""
    wanted = [_needs(source) if source else None for source in definitions]
    folded = requirement_fields(_needs(job), wanted, _RequirementReport(job, definitions).report)
    kept = _kept(job, JOB_PREFIX) | _extensions(folded.unread.get(OF_JOB, {}), JOB_PREFIX)
    queue = _queue(job, definitions, wanted)
    kept |= _batch(job, JOB_PREFIX, queue)
    specs = tuple(
        _task(fields, source, folded, number, queue)
        for number, (fields, source) in enumerate(zip(tasks, definitions, strict=True))
    )
    return msgspec.structs.replace(
        spec, tasks=specs, template=queue, extensions=spec.extensions | kept, **folded.fields
    )


def _task(
    fields: Fields, source: GridObject | None, folded: RequirementFields, number: int, queue: str
) -> TaskSpec:
    if source and KEY in source.values:
        left = _extensions(folded.unread.get(number, {}), TASK_PREFIX)
        fields["extensions"] |= _kept(source, TASK_PREFIX) | _batch(source, TASK_PREFIX, queue) | left
    return TaskSpec(**fields, needs=folded.needs[number])


def _queue(job: GridObject, definitions: Sequence[GridObject | None], wanted: Sequence[Needs | None]) -> str:
    """Return the queue that all tasks ask for; "" when there is none."""
    of_job = _needs(job)
    of_all: str = of_job.get("queue", "")
    asked: set[str] = {needs.get("queue") or of_all for needs in wanted if needs is not None} or {of_all}
    queue = asked.pop() if len(asked) == 1 else ""
    where = next((one for one in (job, *definitions) if one and _needs(one).get("queue")), None)
    if where:
        inside = where._replace(path=(*where.path, KEY))
        if queue:
            inside.report(Fidelity.TRANSLATED, "queue", "it becomes the job template; there are no queues")
        else:
            inside.report(Fidelity.NOT_SUPPORTED, "queue", "it is kept; all tasks of a job are in one queue")
    return queue


def _batch(source: GridObject, prefix: str, queue: str) -> dict[str, str]:
    """Return the extensions for the batch system and its queue, unless it is the `queue` of all tasks."""
    needs = _needs(source)
    found: dict[str, str] = {}
    if needs.get("queue") and not queue:
        found[f"{prefix}queue"] = needs["queue"]
    if needs.get("lrms"):
        found[f"{prefix}lrms"] = needs["lrms"]
        inside = GridObject(source.page, (*source.path, KEY), source.whose, needs, source.findings)
        if needs["lrms"] == FORK:
            inside.report(Fidelity.KEPT, "lrms", "Headnode itself starts the tasks, as Fork does")
        else:
            inside.report(
                Fidelity.NOT_SUPPORTED, "lrms", "own nodes do not run it: only a resource of that kind does"
            )
    return found


def _extensions(left: Needs, prefix: str) -> dict[str, str]:
    return {prefix + key: as_extension(value) for key, value in left.items()}


def _needs(source: GridObject | None) -> Needs:
    needs: Needs = source.values.get(KEY, {}) if source else {}
    return needs


def _kept(source: GridObject, prefix: str) -> dict[str, str]:
    """Return the extensions for requirements that no field can say."""
    needs = _needs(source)
    if not needs:
        return {}
    inside = GridObject(source.page, (*source.path, KEY), source.whose, needs, source.findings)
    return inside.kept(REQUIREMENT_ROWS, prefix)


class _RequirementReport:
    """Says what became of a requirement, at its own place or at the job's."""

    def __init__(self, job: GridObject, definitions: Sequence[GridObject | None]) -> None:
        self._job, self._definitions = job, definitions

    def report(self, kind: Fidelity, number: int, key: str, what: str) -> None:
        """Add a finding about a requirement of task `number` (from 0), or of the job (-1)."""
        findings, alike = self._job.findings, (kind, key, what)
        if findings.again(alike):
            return
        source = self._definitions[number] if number >= 0 else self._whose(key)
        source = source or self._job
        at = source if key in _needs(source) else self._job
        path = (*at.path, KEY, key)
        findings.add_at(at.page, kind, source.whose, f"{key}: {what}", path, alike)

    def _whose(self, key: str) -> GridObject:
        """Return who says it: the job, or the first task that does."""
        if key in _needs(self._job):
            return self._job
        return next((task for task in self._definitions if task and key in _needs(task)), self._job)
