"""Past jobs as somebody would submit them today."""

from functools import cache
from typing import NamedTuple

from headnode.apps.simulate.asking import AS_LOGGED, NORMAL, Asking
from headnode.apps.simulate.machine import Machine
from headnode.core.formats.swf import Fits
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.requests import request_of
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Priority, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.user import User
from headnode.core.model.workload import Workload
from headnode.core.scheduling.placement import place
from headnode.core.scheduling.view import NodeView

# Whose jobs the log does not name an owner for.  Everybody may have every priority, as operators can give it.
_SOMEBODY = User(name="somebody", uid=1, gid=0, operator=True)
_COMMAND = "as in the log"


class _Asked(NamedTuple):
    """What a job asks for; equal ones share a spec."""

    processors: int
    estimate: float
    memory: int = 0  # MB for each processor
    priority: Priority = NORMAL
    once: bool = False


class Submissions:
    """Makes the command that submits a job of the workload, known by its row.

    A job belongs to its user in the log; its estimate is its run time limit.  What the log says of memory
    counts where nodes have memory.  It has one task on all its processors; if it is content with fewer,
    a sweep of tasks of one processor each, and the limit that these need then.
    """

    def __init__(self, workload: Workload, machine: Machine, asking: Asking = AS_LOGGED) -> None:
        self._workload = workload
        self._machine = machine
        self._asking = asking
        self._owners = {"": _SOMEBODY}
        self._specs: dict[_Asked, JobSpec] = {}

    def create(self, row: int) -> c.CreateJob:
        """Return the command for one job."""
        return c.CreateJob(by=self._owner(row), spec=self.spec(row), submit=True)

    def spec(self, row: int) -> JobSpec:
        """Return what one job asks for; equal jobs share it."""
        work, asking = self._workload, self._asking
        asked = _Asked(
            work.processors[row],
            work.estimates[row],
            self._memory(row),
            asking.priority(work, row),
            asking.runs_once(work, row),
        )
        spec = self._specs.get(asked)
        if spec is None:
            spec = self._specs[asked] = _spec(asked, asking, whole_nodes=self._machine.whole_nodes)
        return spec

    def _owner(self, row: int) -> User:
        number = self._workload.users[row] if self._workload.users else ""
        owner = self._owners.get(number)
        if owner is None:
            owner = User(name=f"user{number}", uid=len(self._owners) + 1, gid=0, operator=True)
            self._owners[number] = owner
        return owner

    def _memory(self, row: int) -> int:
        """Return the MB for each processor; 0 if they do not count."""
        memories = self._workload.memories
        return memories[row] if memories and self._machine.counts_memory else 0


def _spec(asked: _Asked, asking: Asking, *, whole_nodes: bool) -> JobSpec:
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
        tasks=(task,),
    )


def fits(machine: Machine, asking: Asking = AS_LOGGED) -> Fits:
    """Return what says whether a job could run on the machine if nothing else did: placement itself."""
    idle = {facts.name: NodeView(facts, facts.processors) for facts in machine.nodes}

    @cache
    def fits_when_idle(processors: int, memory: int) -> bool:
        asked = _Asked(processors, 1.0, memory if machine.counts_memory else 0)
        spec = _spec(asked, asking, whole_nodes=machine.whole_nodes)
        return place(request_of(spec), idle) is not None

    return fits_when_idle
