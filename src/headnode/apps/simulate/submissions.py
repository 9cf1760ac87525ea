"""Past jobs as somebody would submit them today."""

from functools import cache

from headnode.apps.simulate.machine import Machine
from headnode.core.formats.swf import Fits
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.requests import request_of
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.model.workload import Workload
from headnode.core.scheduling.placement import place
from headnode.core.scheduling.view import NodeView

_SOMEBODY = User(name="somebody", uid=1, gid=0)  # whose jobs the log does not name an owner for


class Submissions:
    """Makes the command that submits a job of the workload, known by its row.

    A job has one task on all its processors and belongs to its user in the log; its estimate is its run
    time limit.  What the log says of memory counts where nodes have memory.
    """

    def __init__(self, workload: Workload, machine: Machine) -> None:
        self._workload = workload
        self._machine = machine
        self._owners = {"": _SOMEBODY}
        self._specs: dict[tuple[int, float, int], JobSpec] = {}

    def create(self, row: int) -> c.CreateJob:
        """Return the command for one job."""
        return c.CreateJob(by=self._owner(row), spec=self.spec(row), submit=True)

    def spec(self, row: int) -> JobSpec:
        """Return what one job asks for; equal jobs share it."""
        asked = self._workload.processors[row], self._workload.estimates[row], self._memory(row)
        spec = self._specs.get(asked)
        if spec is None:
            spec = self._specs[asked] = _spec(*asked, whole_nodes=self._machine.whole_nodes)
        return spec

    def _owner(self, row: int) -> User:
        number = self._workload.users[row] if self._workload.users else ""
        owner = self._owners.get(number)
        if owner is None:
            owner = User(name=f"user{number}", uid=len(self._owners) + 1, gid=0)
            self._owners[number] = owner
        return owner

    def _memory(self, row: int) -> int:
        """Return the MB for each processor; 0 if they do not count."""
        memories = self._workload.memories
        return memories[row] if memories and self._machine.counts_memory else 0


def _spec(processors: int, estimate: float, memory: int, *, whole_nodes: bool) -> JobSpec:
    return JobSpec(
        minimum=processors,
        maximum=processors,
        run_time=Seconds(estimate),
        exclusive=whole_nodes,
        process_memory=memory or None,
        tasks=(TaskSpec(command="as in the log", minimum=processors, maximum=processors),),
    )


def fits(machine: Machine) -> Fits:
    """Return what says whether a job could run on the machine if nothing else did: placement itself."""
    idle = {facts.name: NodeView(facts, facts.processors) for facts in machine.nodes}

    @cache
    def fits_when_idle(processors: int, memory: int) -> bool:
        counted = memory if machine.counts_memory else 0
        spec = _spec(processors, 1.0, counted, whole_nodes=machine.whole_nodes)
        return place(request_of(spec), idle) is not None

    return fits_when_idle
