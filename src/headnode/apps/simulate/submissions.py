"""Submits the jobs of a log to a head: in whose name, in which project, and what they request."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from headnode.apps.simulate.machine import SimulatedMachine
from headnode.apps.simulate.scenario import AS_LOGGED, NORMAL, RequestOverrides
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.quantities import Priority, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.user import User
from headnode.core.model.workload import Workload
from headnode.core.scheduling.node_view import NodeView
from headnode.core.state.job_request import request_of
from headnode.core.state.submit import CreateJob

SOMEBODY = "somebody"
"""The user of jobs for which the log has none."""

_COMMAND = "as in the log"
_NO_NAMES: Mapping[str, str] = MappingProxyType({})


class LogOwners(NamedTuple):
    """The names of users and projects by their numbers in the log; without one it is user7, or group3."""

    users: Mapping[str, str] = _NO_NAMES
    groups: Mapping[str, str] = _NO_NAMES

    def user(self, number: str) -> str:
        """Return the name of a user."""
        return self.users.get(number, f"user{number}") if number else SOMEBODY

    def project(self, number: str) -> str:
        """Return the project of a group; "" if it is unknown."""
        return self.groups.get(number, f"group{number}") if number else ""


BY_NUMBERS = LogOwners()


def groups_in_log(workload: Workload, owners: LogOwners) -> dict[str, tuple[str, ...]]:
    """Return the groups of each user: a user is in all groups in which the log has jobs of it."""
    found: dict[str, set[str]] = {}
    for user, group in set(zip(workload.users or (), workload.groups or (), strict=False)):
        if group:
            found.setdefault(owners.user(user), set()).add(owners.project(group))
    return {user: tuple(sorted(groups)) for user, groups in found.items()}


class _ReplayRequest(NamedTuple):
    """What a job asks for; equal ones share a spec."""

    processors: int
    estimate: float
    memory: int = 0  # MB for each processor
    priority: Priority = NORMAL
    once: bool = False
    project: str = ""


class ReplaySubmissions:
    """Makes the command that submits a job of the workload, known by its row.

    A job belongs to its user in the log, and if `by_project`, its group is its project; its estimate is its
    run time limit.  What the log says of memory counts where nodes have memory.  It has one task on all its
    processors; if it is content with fewer, a sweep of tasks of one processor each, and the limit that these
    need then.
    """

    def __init__(
        self,
        workload: Workload,
        machine: SimulatedMachine,
        asking: RequestOverrides = AS_LOGGED,
        owners: LogOwners = BY_NUMBERS,
        *,
        by_project: bool = False,
    ) -> None:
        self._workload = workload
        self._machine = machine
        self._asking = asking
        self._names, self._by_project = owners, by_project
        # Everybody may have every priority, as operators can give it.
        self._owners = {"": User(name=SOMEBODY, uid=1, gid=0, operator=True)}
        self._specs: dict[_ReplayRequest, JobSpec] = {}

    def create(self, row: int) -> CreateJob:
        """Return the command for one job."""
        return CreateJob(by=self._owner(row), spec=self.spec(row), submit=True)

    def spec(self, row: int) -> JobSpec:
        """Return what one job asks for; equal jobs share it."""
        work, asking = self._workload, self._asking
        asked = _ReplayRequest(
            work.processors[row],
            work.estimates[row],
            self._memory(row),
            asking.priority(work, row),
            asking.runs_once(work, row),
            self.project(row),
        )
        spec = self._specs.get(asked)
        if spec is None:
            spec = self._specs[asked] = _spec_of_request(asked, asking, whole_nodes=self._machine.whole_nodes)
        return spec

    def size(self, row: int) -> tuple[int, int]:
        """Return the processors of a job, and the MB for each; 0 if they do not count."""
        return self._workload.processors[row], self._memory(row)

    def estimate(self, row: int) -> float:
        """Return the seconds that a job asks for on all its processors."""
        return self._workload.estimates[row]

    def owner(self, row: int) -> str:
        """Return the name of the user of a job."""
        return self._owner(row).name

    def project(self, row: int) -> str:
        """Return the project of a job; "" if it has none, or if projects do not count."""
        return self.group(row) if self._by_project else ""

    def group(self, row: int) -> str:
        """Return the group of a job; "" if it is unknown."""
        groups = self._workload.groups
        return self._names.project(groups[row]) if groups else ""

    def _owner(self, row: int) -> User:
        number = self._workload.users[row] if self._workload.users else ""
        owner = self._owners.get(number)
        if owner is None:
            owner = User(name=self._names.user(number), uid=len(self._owners) + 1, gid=0, operator=True)
            self._owners[number] = owner
        return owner

    def _memory(self, row: int) -> int:
        memories = self._workload.memories
        return memories[row] if memories and self._machine.counts_memory else 0


def _spec_of_request(asked: _ReplayRequest, asking: RequestOverrides, *, whole_nodes: bool) -> JobSpec:
    processors, minimum = asked.processors, asking.minimum(asked.processors)
    if minimum == processors:
        task = TaskSpec(command=_COMMAND, minimum=processors, maximum=processors, rerunnable=not asked.once)
    else:
        task = TaskSpec(
            command=_COMMAND, kind=TaskType.SWEEP, start=1, end=processors, rerunnable=not asked.once
        )
    return JobSpec(
        minimum=minimum,
        maximum=processors,
        run_time=Seconds(asked.estimate * -(-processors // minimum)),
        priority=asked.priority,
        exclusive=whole_nodes,
        process_memory=asked.memory or None,
        project=asked.project,
        tasks=(task,),
    )


def sized_request(
    processors: int, memory: int, machine: SimulatedMachine, asking: RequestOverrides, estimate: float = 1.0
) -> JobRequest:
    """Return the request of jobs of one size; most limits do not depend on their estimates, in seconds."""
    asked = _ReplayRequest(processors, estimate, memory if machine.counts_memory else 0)
    return request_of(_spec_of_request(asked, asking, whole_nodes=machine.whole_nodes))


def idle_nodes(machine: SimulatedMachine) -> dict[str, NodeView]:
    """Return the nodes of a machine on which nothing runs."""
    return {facts.name: NodeView(facts, facts.processors) for facts in machine.nodes}
