"""Where ``srun`` starts the tasks of a step in its job, and which processors it has for them.

A step takes processors of its job from the other steps of the same program until it ends, as in Slurm.
Source:  Slurm 22.05, srun(1), "DESCRIPTION".
"""

import fcntl
import os
import re
import sys
import time
from typing import NamedTuple

from headnode.apps.cli.batch_programs.squeue import unfolded
from headnode.apps.cli.batch_programs.step_gpus import StepGpus, gpus_on_nodes, step_gpu_request
from headnode.apps.cli.batch_programs.step_slots import StepSlots, file_name, own_folder
from headnode.apps.cli.batch_programs.step_tasks import RunningStep, StepTask
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PAUSE = 0.05  # seconds between two looks for free processors
MAX_TASKS = 10_000
_LOST_WORDS = "Overflow"


class StepRequest(NamedTuple):
    """How many tasks there are, and how they are spread over nodes."""

    tasks: int
    nodes: int | None
    processors: int  # of each task
    per_node: int | None
    cyclic: bool
    most: "Mapping[str, int] | None" = None  # tasks of each node, if they fit so


def run_step(args: ProgramWords) -> int:
    """Start the tasks of a step and wait for them; return the highest exit code."""
    request, nodes = _request(args), job_nodes(os.environ)
    there = gpus_on_nodes(os.environ, os.environ.get("HEADNODE_NODE", ""))
    gpu_request = step_gpu_request(args, request.nodes or 1)
    shares = args.has("overlap") or args.has("overcommit")
    slots = None if shares else StepSlots()
    gpus = StepGpus(gpu_request, there, StepSlots() if slots and gpu_request.is_set else None)
    _refuse_too_many(request, nodes, gpus, args)
    try:
        free = _wait_for(slots, gpus, request, nodes, args) if slots else nodes
        if not slots:
            free = gpus.take_free(_chosen(nodes, args), request.processors)
        tasks = layout(request, free, overcommit=args.has("overcommit"))
        if slots:
            slots.keep(tasks, request.processors)
        gpus.deal(tasks)
        step = RunningStep(args, tasks, request.processors, cyclic=request.cyclic, number=next_step_number())
        step.gpus = gpus.of_tasks
        return step.run()
    finally:
        gpus.close()
        if slots:
            slots.close()


def _request(args: ProgramWords) -> StepRequest:
    nodes = _number(args, "nodes")
    per_node = _number(args, "ntasks-per-node") or _number(args, "tasks-per-node")
    tasks = _number(args, "ntasks")
    if tasks is None:
        spread = (nodes or 1) * (per_node or 1)
        tasks = spread if nodes or per_node else _own("SLURM_NTASKS") or 1
    if nodes is None and "SLURM_NNODES" in os.environ:
        nodes = _own("SLURM_NNODES")
    if nodes is not None and nodes > tasks:
        if args.has("nodes"):
            sys.stderr.write(
                f"srun: Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}\n"
            )
        nodes = tasks
    most = None
    if per_node is None and not any(args.has(name) for name in ("ntasks", "nodes")):
        most = _tasks_of_job(tasks)
    processors = _number(args, "cpus-per-task") or _own("SRUN_CPUS_PER_TASK") or 1
    order = (args.text("distribution") or "block").partition(":")[0].partition(",")[0]
    if order not in ("block", "cyclic", "*"):
        raise ProgramRefusal(f"--distribution={order[:40]} is not supported here: write block or cyclic")
    return StepRequest(tasks, nodes, processors, per_node, order == "cyclic", most)


_COUNTS = re.compile(r"(\d{1,5})(?:\(x(\d{1,5})\))?")


def _tasks_of_job(tasks: int) -> "Mapping[str, int] | None":
    """Return how many tasks of the job each of its nodes has; None if a step does not have all of them."""
    found = [_COUNTS.fullmatch(part) for part in os.environ.get("SLURM_TASKS_PER_NODE", "").split(",")]
    runs = [(int(each[1]), int(each[2] or 1)) for each in found if each]
    nodes = job_nodes(os.environ)
    if sum(count * times for count, times in runs) != tasks or sum(times for _, times in runs) != len(nodes):
        return None
    counts = (count for count, times in runs for _ in range(times))
    return {name: count for (name, _), count in zip(nodes, counts, strict=True)}


def _number(args: ProgramWords, name: str) -> int | None:
    text = (args.text(name) or "").partition("-")[0] if name == "nodes" else args.text(name)
    if not text:
        return None
    number = number_of(text, 6)
    if not number:
        raise ProgramRefusal(f'Invalid numeric value "{text[:40]}" for --{name}.')
    return number


def _own(name: str) -> int | None:
    return number_of(os.environ.get(name, ""), 6) or None


def job_nodes(environ: "Mapping[str, str]") -> "list[tuple[str, int]]":
    """Return the nodes of the task that we belong to, and how many processors it has on each.

    >>> job_nodes({"CCP_NODES_CORES": "2 n1 2 n2 1"})
    [('n1', 2), ('n2', 1)]
    """
    variable = environ.get("CCP_NODES_CORES", "")
    words = variable.split()
    if variable == _LOST_WORDS and (path := environ.get("CCP_MPI_HOSTFILE")):
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            pairs = [line.strip().rpartition(":") for line in file]
        found: dict[str, int] = {}
        for name, _, count in pairs:
            found[name] = found.get(name, 0) + int(count)
        return list(found.items())
    if len(words) < 3:
        raise ProgramRefusal("the nodes of this job are not known: CCP_NODES_CORES is missing")
    return [(words[at], int(words[at + 1])) for at in range(1, len(words) - 1, 2)]


def _refuse_too_many(
    request: StepRequest, nodes: "Sequence[tuple[str, int]]", gpus: StepGpus, args: ProgramWords
) -> None:
    chosen = _chosen(nodes, args)
    usable = [node for node in gpus.all_room(chosen, request.processors) if node[1]]
    room = sum(count // request.processors for _, count in chosen)
    if request.tasks > MAX_TASKS or (request.tasks > room and not args.has("overcommit")):
        what = "More processors requested than permitted"
    elif request.nodes is not None and request.nodes > len(chosen):
        what = "Requested node configuration is not available"
    elif sum(count // request.processors for _, count in usable) < request.tasks and not args.has(
        "overcommit"
    ):
        what = "Invalid generic resource (gres) specification"
    else:
        return
    raise ProgramRefusal(f"Unable to create step for job {os.environ.get('HEADNODE_JOB', '')}: {what}")


def _chosen(nodes: "Sequence[tuple[str, int]]", args: ProgramWords) -> "list[tuple[str, int]]":
    only = {name for value in args.options.get("nodelist", ()) for name in unfolded(value)}
    never = {name for value in args.options.get("exclude", ()) for name in unfolded(value)}
    return [(name, count) for name, count in nodes if name not in never and (not only or name in only)]


def layout(
    request: StepRequest, nodes: "Sequence[tuple[str, int]]", *, overcommit: bool = False
) -> "list[StepTask]":
    """Return the tasks with their nodes: one on each node first, then node by node; empty if they do not fit.

    >>> [task.node for task in layout(StepRequest(3, 2, 1, None, False), [("a", 2), ("b", 2)])]
    ['a', 'a', 'b']
    """
    room = [count // request.processors for _, count in nodes]
    if overcommit:
        room = [request.tasks for _ in nodes]
    if request.per_node is not None:
        room = [min(each, request.per_node) for each in room]
    if request.most is not None:
        most = [min(each, request.most.get(name, each)) for each, (name, _) in zip(room, nodes, strict=True)]
        room = most if sum(most) >= request.tasks else room
    usable = [at for at, each in enumerate(room) if each]
    if request.nodes is not None:
        usable = usable[: request.nodes]
        if len(usable) < request.nodes:
            return []
        counts = dict.fromkeys(usable, 1)
    else:
        counts = dict.fromkeys(usable, 0)
    left = request.tasks - sum(counts.values())
    while left > 0 and any(counts[at] < room[at] for at in usable):
        for at in usable:
            more = min(left, 1 if request.cyclic else room[at] - counts[at], room[at] - counts[at])
            counts[at], left = counts[at] + more, left - more
    if left > 0:
        return []
    return _numbered([(nodes[at][0], counts[at]) for at in usable if counts[at]], cyclic=request.cyclic)


def _numbered(counts: "Sequence[tuple[str, int]]", *, cyclic: bool) -> "list[StepTask]":
    places = [(number, local) for number, (_, count) in enumerate(counts) for local in range(count)]
    if cyclic:
        places.sort(key=lambda place: (place[1], place[0]))
    return [StepTask(rank, counts[number][0], number, local) for rank, (number, local) in enumerate(places)]


def _wait_for(
    slots: StepSlots,
    gpus: StepGpus,
    request: StepRequest,
    nodes: "Sequence[tuple[str, int]]",
    args: ProgramWords,
) -> "list[tuple[str, int]]":
    """Return nodes with so many free processors that the step fits; other steps of the job end meanwhile."""
    printed = False
    while True:
        free = gpus.take_free(slots.take_free(_chosen(nodes, args)), request.processors)
        if layout(request, free):
            return free
        slots.release()
        gpus.release()
        if not printed and not args.has("quiet"):
            printed = True
            sys.stderr.write(
                f"srun: Job {os.environ.get('HEADNODE_JOB', '')} step creation temporarily disabled, "
                "retrying (Requested nodes are busy)\n"
            )
        time.sleep(PAUSE)


FORGOTTEN = 30 * 86400.0  # seconds after its last step until the counter of a task is removed


def next_step_number() -> int:
    """Return the number of the step: how many the task of the job has had before."""
    folder = own_folder()
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(file_name("steps"), flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = os.read(file, 12).decode("ascii", "replace")
            number = int(text) if text.isdigit() else 0
            os.pwrite(file, str(number + 1).encode(), 0)
        finally:
            os.close(file)
        if number == 0:
            _forget_old(folder)
        return number
    finally:
        os.close(folder)


def _forget_old(folder: int) -> None:
    for name in os.listdir(folder):
        if not name.endswith(".steps"):
            continue
        try:
            if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > FORGOTTEN:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:  # another step was first
            continue
