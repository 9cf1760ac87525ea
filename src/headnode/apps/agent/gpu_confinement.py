"""Keeps the tasks of each job from opening the GPUs of others, by the control groups of their shepherds."""

import logging
from collections.abc import Callable, Mapping

from headnode.adapters.processes import cgroups
from headnode.adapters.processes.device_filter import Device, deny, why_no_filter
from headnode.adapters.processes.gpus import MachineGpus
from headnode.apps.agent.gpu_assignments import GpuAssignment, GpuAssignments
from headnode.apps.agent.job_table import JobTable, NodeJob
from headnode.apps.agent.places import Places
from headnode.apps.agent.shepherd_handle import ShepherdPhase
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.agent")


class GpuConfinement:
    """What each group of a shepherd may not open now."""

    def __init__(self, gpus: MachineGpus, table: JobTable) -> None:
        """Look whether this agent can confine tasks, and write it into the log."""
        self._gpus, self._table = gpus, table
        self._denied: dict[str, frozenset[Device]] = {}  # by group
        self._assigned: Mapping[JobId, frozenset[int]] = {}
        self._place = cgroups.find().unified if gpus.devices else None
        if gpus.names:
            why_not = self._why_not()
            if why_not:
                self._place = None
            what = f"all GPUs: {why_not}" if why_not else "the GPUs of their jobs alone"
            log.info("tasks can open %s", what)

    def _why_not(self) -> str:
        if not self._gpus.devices:
            return "their device files are not known; name them with hn agent --gpu-files"
        return why_no_filter() if self._place is not None else "there are no control groups of version 2"

    def keep_apart(self, job: JobId, assigned: Mapping[JobId, frozenset[int]]) -> None:
        """Let what runs of a job open its GPUs, and no others; and take from the other jobs what they had.

        A command outside jobs, with an id below 0, may open all.
        Raises:  OSError.
        """
        if self._place is None:
            return
        changed, self._assigned = assigned != self._assigned, assigned
        own = self._table.jobs.get(job)
        for each in self._table.jobs.values() if changed else [own] if own is not None else []:
            if each is not own:
                self._confine(each, required=False)
        if own is not None:
            self._confine(own, required=True)

    def _confine(self, job: NodeJob, *, required: bool) -> None:
        for tended in job.herd.values():
            if tended.phase is not ShepherdPhase.GONE:
                self._deny(tended.place.group, required=required)

    def _deny(self, group: str, *, required: bool) -> None:
        """Deny a group the GPUs that none of its jobs has; with `required` it is made if it is not there."""
        denied = self._denied_to(group)
        if self._place is None or self._denied.get(group) == denied:
            return
        directory = self._place / cgroups.name_of(group)
        if required:
            directory.mkdir(exist_ok=True)
        try:
            deny(directory, denied)
        except FileNotFoundError:
            if required:
                raise
            return
        self._denied[group] = denied
        if len(self._denied) > 2 * len(self._table.jobs) + 64:
            self._forget_the_gone()

    def _denied_to(self, group: str) -> frozenset[Device]:
        """Return the devices of GPUs that no job in a group has; a shepherd may leave one for the next."""
        jobs = [
            job.id
            for job in self._table.jobs.values()
            if any(tended.place.group == group for tended in job.herd.values())
        ]
        if any(job < 0 for job in jobs):
            return frozenset()
        allowed = {number for job in jobs for number in self._assigned.get(job, ())}
        others = (each for number, each in enumerate(self._gpus.devices) if number not in allowed)
        return frozenset((*self._gpus.other_devices, *(device for devices in others for device in devices)))

    def _forget_the_gone(self) -> None:
        groups = {tended.place.group for job in self._table.jobs.values() for tended in job.herd.values()}
        self._denied = {name: denied for name, denied in self._denied.items() if name in groups}


def gpu_assignments(
    gpus: MachineGpus, places: Places, table: JobTable, in_use: Callable[[GpuAssignment], bool]
) -> GpuAssignments:
    """Return the GPUs of a node, each for the job that has it alone, as far as the system lets us."""
    return GpuAssignments(gpus, places.state / "gpus", in_use, GpuConfinement(gpus, table).keep_apart)
