"""Requirements of a job and of its tasks, as what is demanded of nodes.

The requirements of a task are those of the job, replaced key by key by its own.
Source: grid, "Resource requirements"; the Pilot service for those that its schema has besides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.software import packages
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds

Needs = dict[str, Any]
Wishes = dict[str, Any]
"""Fields of `NodeNeeds` with their values."""

OF_JOB = -1
"""The job where it stands beside its tasks, which have numbers from 0."""

Tell = Callable[[Kind, int, str, str], None]
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


class Folded(msgspec.Struct):
    """What the model says of the requirements: of the job, and of each task.

    `left` is what it cannot, by the number of the task, or `OF_JOB`.
    """

    fields: dict[str, Any] = {}
    needs: list[NodeNeeds] = []
    left: dict[int, Needs] = {}


def merged(job: Needs, task: Needs) -> Needs:
    """Return the requirements of a task: its own, and the job's where it has none.

    >>> merged({"lrms": "Cleo"}, {"queue": "long"})
    {'lrms': 'Cleo', 'queue': 'long'}
    """
    return {**job, **task}


def fold(job: Needs, tasks: Sequence[Needs | None], tell: Tell) -> Folded:
    """Put the requirements into fields: of the job, what all its tasks ask for; else of the tasks.

    A task whose definition is still to come (None) has no say, unless all are such.
    """
    folding = _Folding(job, tell)
    wishes = {number: folding.wishes(number, task) for number, task in enumerate(tasks) if task is not None}
    return folding.folded(wishes, len(tasks))


class _Folding:
    """Folds the requirements of one job."""

    def __init__(self, job: Needs, tell: Tell) -> None:
        self._job, self._tell = job, tell
        self._distinct: list[Wishes] = []
        self._of_job: int | None = None
        self._left: dict[int, Needs] = {}

    def wishes(self, number: int, own: Needs) -> int:
        """Return the place of what a task demands of nodes; those that say nothing of their own share one."""
        if own:
            return self._noted(self._read(number, merged(self._job, own)))
        if self._of_job is None:
            self._of_job = self._noted(self._read(OF_JOB, self._job))
        return self._of_job

    def _noted(self, wishes: Wishes) -> int:
        self._distinct.append(wishes)
        return len(self._distinct) - 1

    def _read(self, number: int, needs: Needs) -> Wishes:
        found: Wishes = {}
        for key, value in needs.items():
            if value and key in _READERS:
                _READERS[key](found, value)
                self._tell(Kind.TRANSLATED, number, key, _CHOSEN)
        if "cpu_hz" in needs and needs["cpu_hz"] % HERTZ and needs["cpu_hz"] >= HERTZ:
            self._tell(Kind.NOTE, number, "cpu_hz", "whole MHz, rounded up")
        self._instruction_set(number, needs, found)
        self._software(number, needs, found)
        return found

    def _instruction_set(self, number: int, needs: Needs, found: Wishes) -> None:
        wanted = needs.get("cpu_instruction_set", "")
        if not wanted:
            return
        platform = found.setdefault("architectures", (wanted,))
        if platform == (wanted,):
            self._tell(Kind.TRANSLATED, number, "cpu_instruction_set", _CHOSEN)
            return
        what = f"nodes are of platform {platform[0]!r}: these instructions are not checked"
        self._tell(Kind.APPROXIMATED, number, "cpu_instruction_set", what)
        self._keep(number, "cpu_instruction_set", wanted)

    def _software(self, number: int, needs: Needs, found: Wishes) -> None:
        software = needs.get("software", "")
        if not software:
            return
        understood = packages(software)
        if understood is None:
            what = "it is kept, but it is not a list of packages: it does not select nodes"
            self._tell(Kind.NOT_SUPPORTED, number, "software", what)
            self._keep(number, "software", software)
            return
        features, versions = understood
        found["features"] = features
        if versions:
            what = "nodes have a feature of each name; versions are kept, but not compared"
            self._tell(Kind.APPROXIMATED, number, "software", what)
            self._keep(number, "software", software)
        else:
            self._tell(Kind.TRANSLATED, number, "software", "nodes have a feature of each name")

    def _keep(self, number: int, key: str, value: str) -> None:
        """Keep what a job says with the job, and what a task says itself with the task."""
        whose = OF_JOB if self._job.get(key) == value else number
        self._left.setdefault(whose, {})[key] = value

    def folded(self, wishes: Mapping[int, int], tasks: int) -> Folded:
        """Return the fields of the job and the needs of `tasks` tasks, by the places of what they demand."""
        if not wishes:
            self.wishes(OF_JOB, {})
        distinct = self._distinct
        of_all = {
            field: value
            for field, value in distinct[0].items()
            if field != "names" and all(one.get(field) == value for one in distinct)
        }
        nodes = self._requested(distinct)
        rest = [_without(one, of_all, nodes) for one in distinct]
        return Folded(
            fields=_job_fields(of_all, nodes),
            needs=[rest[wishes[number]] if number in wishes else ANY_NODE for number in range(tasks)],
            left=self._left,
        )

    def _requested(self, distinct: Iterable[Wishes]) -> tuple[str, ...]:
        """Return all hosts that are named, if every task names some: the nodes of the job are among them."""
        named = [one.get("names", ()) for one in distinct]
        if not all(named):
            return ()
        used = {host for hosts in named for host in hosts}
        every = _different([*self._job.get("hostname", ()), *(host for hosts in named for host in hosts)])
        return tuple(host for host in every if host in used)


def _job_fields(of_all: Wishes, nodes: tuple[str, ...]) -> dict[str, Any]:
    own = {OF_JOBS[field]: value for field, value in of_all.items() if field in OF_JOBS}
    needs = NodeNeeds(**{field: value for field, value in of_all.items() if field not in OF_JOBS})
    return own | {"requested_nodes": nodes, "needs": needs}


def _without(wishes: Wishes, of_all: Wishes, nodes: tuple[str, ...]) -> NodeNeeds:
    """Return what a task demands beside what its job does."""
    own = {field: value for field, value in wishes.items() if field not in of_all}
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


def _taken(field: str, read: Callable[[Any], Any]) -> Callable[[Wishes, Any], None]:
    def put(found: Wishes, value: Any) -> None:
        found[field] = read(value)

    return put


_READERS: Mapping[str, Callable[[Wishes, Any], None]] = {
    "hostname": _taken("names", _different),
    "platform": _taken("architectures", lambda value: (value,)),
    "os_name": _taken("systems", lambda value: (value,)),
    "cpu_hz": _taken("minimum_speed", megahertz),
    **{key: _taken(field, int) for key, field in AMOUNTS.items()},
}
