"""``sstat``: what the steps of running jobs use now.

Source:  Slurm 22.05, sstat(1).
"""

import sys

from headnode.apps.cli.batch_programs.columns import TableField, field_names, fields_of, table
from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource, refuse_other_clusters, rows_of
from headnode.apps.cli.batch_programs.squeue import job_numbers, means
from headnode.apps.cli.batch_programs.values import FIELDS, processor_time
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, ignored, read_words, refused
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

OPTIONS = {
    **acted_on(
        "format/o fields helpformat/e! help/h! jobs/j noheader/n! parsable/p! parsable2/P! usage! version/V!"
    ),
    **ignored("allsteps/a! noconvert! verbose/v!", "all steps are shown, and values are whole"),
    **refused("pidformat/i!", "numbers of processes are not known; see ps on the node"),
}
_BATCH = ("", "batch", "0")
_USUAL = (
    "jobid,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,"
    "maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,avecpufreq,reqcpufreqmin,"
    "reqcpufreqmax,reqcpufreqgov,consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,"
    "maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,tresusageinave,tresusageinmax,"
    "tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,"
    "tresusageintot,tresusageoutave,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutmin,"
    "tresusageoutminnode,tresusageoutmintask,tresusageouttot"
)


class StepUsage:
    """What a step uses now: the measured tasks on their nodes, at least one."""

    __slots__ = ("row", "tasks")

    def __init__(self, row: BatchRow, tasks: "list[dict[str, Any]]") -> None:
        self.row, self.tasks = row, tasks

    def largest(self) -> int:
        """Return which task has the largest peak of memory."""
        return max(range(len(self.tasks)), key=lambda index: int(self.tasks[index]["peak_memory"]))

    def least_time(self) -> int:
        """Return which task has used the least processor time."""
        return min(range(len(self.tasks)), key=lambda index: _time(self.tasks[index]))


def _time(task: "dict[str, Any]") -> float:
    return float(task["user_time"] + task["system_time"])


def _mean(step: StepUsage, of_task: "Callable[[dict[str, Any]], float]") -> float:
    return sum(map(of_task, step.tasks)) / len(step.tasks)


def _resources(step: StepUsage, of_task: "Callable[[list[float]], float]") -> str:
    """Write processor time and memory as one value, such as ``cpu=00:00:12,mem=2048K``."""
    time = of_task([_time(task) for task in step.tasks])
    memory = of_task([float(task["memory"]) for task in step.tasks])
    return f"cpu={processor_time(time)},mem={memory:.0f}K"


_SHOWN: "dict[str, tuple[int, Callable[[StepUsage], str]]]" = {
    "AveCPU": (10, lambda step: processor_time(_mean(step, _time))),
    "AveRSS": (10, lambda step: f"{_mean(step, lambda task: task['memory']):.0f}K"),
    "JobID": (-12, lambda step: f"{FIELDS['jobid'](step.row)}.batch"),
    "MaxRSS": (10, lambda step: f"{step.tasks[step.largest()]['peak_memory']}K"),
    "MaxRSSNode": (10, lambda step: str(step.tasks[step.largest()]["node"])),
    "MaxRSSTask": (10, lambda step: str(step.largest())),
    "MinCPU": (10, lambda step: processor_time(_time(step.tasks[step.least_time()]))),
    "MinCPUNode": (10, lambda step: str(step.tasks[step.least_time()]["node"])),
    "MinCPUTask": (10, lambda step: str(step.least_time())),
    "Nodelist": (20, lambda step: FIELDS["nodes"](step.row) or ""),
    "NTasks": (8, lambda step: str(len(step.tasks))),
    "TRESUsageInAve": (14, lambda step: _resources(step, lambda all_of: sum(all_of) / len(all_of))),
    "TRESUsageInMax": (14, lambda step: _resources(step, max)),
    "TRESUsageInMin": (14, lambda step: _resources(step, min)),
    "TRESUsageInTot": (14, lambda step: _resources(step, sum)),
}
"""Title -> width, below 0 for a field that stands left, and what it shows."""
_EMPTY = {
    "AveCPUFreq": 10, "AveDiskRead": 12, "AveDiskWrite": 12, "AvePages": 10, "AveVMSize": 10,
    "ConsumedEnergy": 14, "ConsumedEnergyRaw": 17, "MaxDiskRead": 12, "MaxDiskReadNode": 15,
    "MaxDiskReadTask": 15, "MaxDiskWrite": 12, "MaxDiskWriteNode": 16, "MaxDiskWriteTask": 16, "MaxPages": 8,
    "MaxPagesNode": 12, "MaxPagesTask": 14, "MaxVMSize": 10, "MaxVMSizeNode": 14, "MaxVMSizeTask": 14,
    "Pids": 20, "ReqCPUFreq": 10, "ReqCPUFreqMin": 13, "ReqCPUFreqMax": 13, "ReqCPUFreqGov": 13,
    "TRESUsageInMaxNode": 18, "TRESUsageInMaxTask": 18, "TRESUsageInMinNode": 18, "TRESUsageInMinTask": 18,
    "TRESUsageOutAve": 15, "TRESUsageOutMax": 15, "TRESUsageOutMaxNode": 19, "TRESUsageOutMaxTask": 19,
    "TRESUsageOutMin": 15, "TRESUsageOutMinNode": 19, "TRESUsageOutMinTask": 19, "TRESUsageOutTot": 15,
}  # fmt: skip
"""Those that nothing is known of here: title -> width.  The column is empty, so that no program fails."""
FIELDS_OF_SSTAT = sorted(
    (
        *(TableField(title, *shown) for title, shown in _SHOWN.items()),
        *(TableField(title, width, lambda _: "") for title, width in _EMPTY.items()),
    ),
    key=lambda field: field.name,
)


def run(argv: "Sequence[str]", client: Client) -> int:
    """Show what steps use."""
    args = read_words(argv, OPTIONS)
    args.merge("fields", "format")
    refuse_other_clusters(args, client)
    if args.has("helpformat"):
        sys.stdout.write(field_names(FIELDS_OF_SSTAT, 19))
        return 0
    names = [*args.parts("jobs"), *args.jobs()]
    if not names:
        raise ProgramRefusal("You didn't give me any jobs to stat.")
    fields = fields_of(args.text("format") or _USUAL, FIELDS_OF_SSTAT, _refuse_field)
    source = JobSource(client)
    steps = [step for name in names for step in _steps(name, source)]
    sys.stdout.write(table(args, fields, steps))
    return 0


def _refuse_field(name: str) -> ProgramRefusal:
    return ProgramRefusal(f'Invalid field requested: "{name.strip()}"')


def _steps(name: str, source: JobSource) -> "list[StepUsage]":
    """Return the steps of a job or an element that run, each of which has one step here.

    Raises:  ProgramRefusal when none runs.
    """
    from headnode.core.model.errors import WrongState

    job, _, step = name.partition(".")
    if step not in _BATCH:
        raise ProgramRefusal(f"StepId={name} not found running.")
    found = source.listed(job_numbers([job]))
    rows = [row for one in found for row in rows_of(source, one, expand=True) if means(job, row)]
    running = [row for row in rows if row.state in ("RUNNING", "SUSPENDED")]
    try:
        steps = [StepUsage(row, tasks) for row in running if (tasks := row.usage())]
    except WrongState:  # it has ended meanwhile
        steps = []
    if not steps:
        raise ProgramRefusal(f"No steps running for job {job}")
    return steps
