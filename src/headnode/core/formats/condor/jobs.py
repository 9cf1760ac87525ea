"""The jobs of a submit file: processes that ask for the same share one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from headnode.core.formats.condor.draft import SubmitDraft, name_of
from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.model.bounds import JOBS
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import HeldAmounts, JobSpec, Licence, UnitType
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.quantities import FOREVER, Priority
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec

_NORMAL = 2000


class QueuedProcess(NamedTuple):
    """A process, or a sweep of them: what it asks for, its task, and its number, or that of the first.

    `gang` is the number of the job of the parallel universe that it belongs to.
    """

    draft: SubmitDraft
    task: TaskSpec
    number: int
    gang: int | None = None


class JobMaker:
    """Makes jobs of processes; what it cannot say is added to the findings."""

    def __init__(self, processes: Sequence[QueuedProcess], items: dict[str, ReportItem]) -> None:
        self._processes, self._items = processes, items

    def jobs(self) -> tuple[JobSpec, ...]:
        """Return the jobs, in the order of their first processes.

        Raises:  BadRequest ``too-many-jobs``, and what cannot be said of several processes together.
        """
        groups: dict[object, list[QueuedProcess]] = {}
        fields: dict[object, dict[str, Any]] = {}
        for process in self._processes:
            asked = self._fields(process)
            key = repr(asked)
            groups.setdefault(key, []).append(process)
            fields[key] = asked
        if len(groups) > JOBS.most:
            raise BadRequest(
                code="too-many-jobs",
                what=f"the processes ask for {len(groups):,} different things; the limit is {JOBS} in a file",
                fix="divide it into several files",
            )
        if len(groups) > 1:
            what = f"{len(groups)} jobs, since processes ask for different things; $(Cluster) is that of each"
            self._items["queue"] = ReportItem(Fidelity.NOTE, "queue", what)
        return tuple(self._job(fields[key], group) for key, group in groups.items())

    def _fields(self, process: QueuedProcess) -> dict[str, Any]:
        """Return what the process asks of its job, as far as processes of one job ask for the same."""
        draft = process.draft
        fields = dict(draft.job)
        if draft.properties:
            fields["properties"] = draft.properties
        if draft.priority or draft.is_nice:
            value = 0 if draft.is_nice else max(0, min(2 * _NORMAL, _NORMAL + draft.priority))
            fields["priority"] = Priority(value)
        if retries := _retries(draft):
            fields["task_retry_limit"] = retries
        codes = {draft.success, draft.success if draft.until is None else draft.until}
        if codes != {0}:
            fields["valid_exit_codes"] = tuple((code, code) for code in sorted(codes))
        if draft.core_size is not None:
            fields["resource_limits"] = (ResourceLimit("core", draft.core_size, draft.core_size),)
        if draft.gpus:
            fields |= {"unit": UnitType.GPU, "processors_per_gpu": -(-draft.processors // draft.gpus)}
        fields |= {"_memory": draft.memory, "_disk": draft.disk, "_needs": draft.needs}
        fields |= {"_licences": draft.licences, "_at_once": draft.at_once, "_units": draft.units}
        fields |= {"_processors": draft.processors, "_gang": process.gang}
        return fields | {"name": draft.job.get("name") or name_of(draft.executable)}

    def _job(self, fields: dict[str, Any], group: Sequence[QueuedProcess]) -> JobSpec:
        draft, count = group[0].draft, sum(process.task.instances for process in group)
        asked = {name: value for name, value in fields.items() if not name.startswith("_")}
        needs = dict(draft.needs)
        if draft.memory or draft.disk:
            asked |= self._amounts(draft, count, needs)
        if draft.licences:
            asked["licences"] = self._licences(draft, count)
        if needs:
            asked["needs"] = replace(ANY_NODE, **needs)
        if draft.at_once is not None and draft.at_once < count:
            asked |= {"minimum": draft.units, "maximum": draft.units * draft.at_once}
        if group[0].gang is not None:
            asked["together"] = True
            self._report_gang(draft)
        elif count == 1:
            asked["single_node"] = True
            if "task_retry_limit" not in asked:  # else it is the limit of each attempt
                asked["run_time"] = draft.run_time
        tasks = tuple(self._task(process, alone=count == 1) for process in group)
        if "run_time" in asked:  # the scheduler plans with it
            tasks = tuple(replace(task, run_time=FOREVER) for task in tasks)
        return JobSpec(tasks=tasks, dialect="htcondor", **asked)

    def _task(self, process: QueuedProcess, *, alone: bool) -> TaskSpec:
        task = process.task
        if alone:
            return task
        if task.minimum > 1:
            task = replace(task, distribution=Distribution(nodes=1))
        return task if process.task.instances > 1 else replace(task, name=str(process.number))

    def _amounts(self, draft: SubmitDraft, count: int, needs: dict[str, Any]) -> dict[str, Any]:
        """Return memory and disk: held by the one process, or for each processor of several."""
        if count == 1:
            return {"held": HeldAmounts(memory=draft.memory, disk=draft.disk)}
        if draft.disk:
            needs["minimum_disk"] = max(needs.get("minimum_disk", 0), draft.disk)
            what = "a node has this disk in all: it is not reserved for each process"
            draft.places["request_disk"].report(Fidelity.APPROXIMATED, what)
        if not draft.memory:
            return {}
        processors = -(-draft.processors // draft.gpus) * draft.gpus if draft.gpus else draft.processors
        if draft.memory % processors:
            what = f"the memory of a process is rounded up for each of its {processors} processors"
            draft.places["request_memory"].report(Fidelity.APPROXIMATED, what)
        return {"process_memory": -(-draft.memory // processors)}

    def _licences(self, draft: SubmitDraft, count: int) -> tuple[Licence, ...]:
        """Return the licences of the job: of one process, or one for each processor of several.

        Raises:  BadRequest ``not-supported``.
        """
        if count == 1:
            return tuple(Licence(name, amount) for name, amount in draft.licences)
        if draft.processors > 1 or draft.gpus or any(amount > 1 for _, amount in draft.licences):
            what = "processes of one job hold licences one for each processor, and these ask for others"
            fix = "queue each process from a file of its own, with queue 1"
            draft.places["concurrency_limits"].refuse(what, fix, "not-supported")
        return tuple(Licence(name, None) for name, _ in draft.licences)

    def _report_gang(self, draft: SubmitDraft) -> None:
        if draft.waits_for_all or (draft.machines or 1) == 1:
            return
        what = "the job ends with the last of its processes; HTCondor ends it with the first one, node 0"
        draft.places["universe"].report(Fidelity.APPROXIMATED, what)


def _retries(draft: SubmitDraft) -> int:
    """Return how often a task that fails is tried again.

    Raises:  BadRequest ``not-supported`` if jobs would be released that are never held.
    """
    found = [draft.retries or 0]
    if draft.starts is not None:
        found.append(max(draft.starts - 1, 0))
    if draft.released_starts is not None:
        if draft.holds_on_failure is None:
            what = (
                "it releases jobs that are held, and only a failure with on_exit_hold is read as such a hold"
            )
            fix = "write max_retries = N, or leave it out"
            draft.places["periodic_release"].refuse(what, fix, "not-supported")
        found.append(max(draft.released_starts - 1, 0))
    return max(found)
