"""The GPUs that a batch script asks for, what its job has of them, and how each scheduler writes them.

A script counts them for the job, for each node or for each process; a job of ours counts them in all.
Source:  Slurm 22.05, sbatch(1), "--gpus"; PBS Professional, "Requesting GPUs"; LSF 10.1, bsub(1), "-gpu".
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.fidelity import Fidelity, LossReport
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec, asked_processes


class GpuScope(StrEnum):
    """What an option counts GPUs for."""

    JOB = "in all"
    NODE = "on each node"
    PROCESS = "for each process"


class GpuCount(NamedTuple):
    """The GPUs that an option asks for; an empty model is any."""

    scope: GpuScope
    number: int
    model: str
    place: OptionPlace


class AskedProcesses(NamedTuple):
    """What a script says of its processes; None: nothing."""

    processes: int | None
    nodes: int | None
    per_node: int | None
    processors: int  # of each process
    scattered: bool = False  # each process has a node of its own


class GpuSize(NamedTuple):
    """The size of a job with GPUs."""

    gpus: int
    processors_per_gpu: int
    processes: int
    nodes: int  # 0: any number
    per_node: int  # GPUs on each node; 0: as evenly as possible
    memory: int | None  # MB of each processor
    models: tuple[str, ...]


class GpuDraft:
    """What was asked for so far; the last word on an option holds."""

    def __init__(self) -> None:
        self.counts: dict[str, GpuCount] = {}
        self.processors: tuple[int, OptionPlace] | None = None  # of each GPU
        self.memory: tuple[int, OptionPlace] | None = None  # MB of each GPU
        self.processes: tuple[int, OptionPlace] | None = None  # on each GPU
        self._losses: list[str] = []

    def ask(self, option: str, scope: GpuScope, place: OptionPlace, text: str) -> None:
        """Read ``[MODEL:]NUMBER`` or ``MODEL``; 0 takes back what the option asked for.

        Raises:  BadRequest ``value``.
        """
        model, colon, number = text.rpartition(":")
        if not colon and text and not text[0].isdigit():
            model, number = text, "1"
        if ":" in model or "," in text:
            place.refuse(f"{text[:60]!r} asks for GPUs of several models", "write one: a100:2")
        count = place.number(number or "1")
        if count:
            self.counts[option] = GpuCount(scope, count, model, place)
            place.report(Fidelity.TRANSLATED, f"the job counts GPUs: this many {scope}")
        else:
            self.counts.pop(option, None)
            place.report(Fidelity.TRANSLATED, "no GPUs")

    def size(self, counts: AskedProcesses) -> GpuSize | None:
        """Return the size of the job; None if it has no GPUs.

        Raises:  BadRequest where the options contradict each other.
        """
        self._losses = []
        job, node, each = (self._number(scope) for scope in GpuScope)
        if job is node is each is None:
            if self.processes is None:
                self._refuse_alone()
                return None
            job = self._of_processes(counts)
        nodes = self._nodes(counts, job, node, each)
        if job is None and node is not None and nodes is not None:
            job = node * nodes
        processes = self._processes(counts, nodes, job, each)
        total = job if job is not None else (each or 1) * processes
        self._refuse_contradictions(total, processes, nodes)
        if counts.scattered:
            nodes = processes
        if nodes is None:
            nodes = self._any_nodes(total, processes)
        if nodes > total:
            what = f"{_gpus(total)} cannot be on {nodes} nodes"
            self._last.refuse(what, "ask for fewer nodes, or for more GPUs")
        processors = self._processors(counts, total, processes)
        memory = self._memory(processors)
        if self._losses:
            self._last.report(Fidelity.APPROXIMATED, "; ".join(self._losses))
        return GpuSize(total, processors, processes, nodes, node or 0, memory, self._models())

    @property
    def _last(self) -> OptionPlace:
        """The option that asked last."""
        if self.counts:
            return list(self.counts.values())[-1].place
        assert self.processes is not None
        return self.processes[1]

    def _number(self, scope: GpuScope) -> int | None:
        matching = [count for count in self.counts.values() if count.scope is scope]
        if len({count.number for count in matching}) > 1:
            what = f"the options ask for different numbers of GPUs {scope}"
            matching[-1].place.refuse(what, "write the number once")
        return matching[-1].number if matching else None

    def _models(self) -> tuple[str, ...]:
        models = {count.model.lower(): count.model for count in self.counts.values() if count.model}
        if len(models) > 1:
            self._last.refuse("the options ask for GPUs of several models", "write one model")
        return tuple(models.values())

    def _refuse_alone(self) -> None:
        """Refuse memory of GPUs in a job without them; processors of GPUs have no effect there."""
        if self.memory is not None:
            self.memory[1].refuse("the job asks for no GPUs", "write --gpus=N, or --mem-per-cpu")
        if self.processors is not None:
            self.processors[1].report(Fidelity.NOT_SUPPORTED, "the job asks for no GPUs")

    def _of_processes(self, counts: AskedProcesses) -> int:
        """Return how many GPUs the processes need that share one."""
        assert self.processes is not None
        ratio, place = self.processes
        if counts.processes is None:
            place.refuse("it needs a number of GPUs or of processes", "write --gpus=N")
        return -(-counts.processes // ratio)

    def _nodes(
        self, counts: AskedProcesses, job: int | None, node: int | None, each: int | None
    ) -> int | None:
        """Return how many nodes the job has; None if that is left open."""
        if counts.nodes is not None:
            return counts.nodes
        if counts.per_node and counts.processes is not None:
            return -(-counts.processes // counts.per_node)
        if node is None:
            return None
        if job is not None:
            if job % node:
                what = f"{_gpus(job)} in all cannot be {node} on each node"
                self._last.refuse(what, "write numbers that agree")
            return job // node
        if each is not None and counts.processes is not None:
            return -(-each * counts.processes // node)
        if (counts.processes or 1) > 1:
            self._losses.append("the job has 1 node, because no number of nodes is given")
        return 1

    def _processes(self, counts: AskedProcesses, nodes: int | None, job: int | None, each: int | None) -> int:
        if counts.processes is not None:
            return counts.processes
        if self.processes is not None and job is not None:
            return job * self.processes[0]
        if each is not None and job is not None and counts.per_node is None:
            return max(1, job // each)
        return (nodes or 1) * (counts.per_node or 1)

    def _refuse_contradictions(self, total: int, processes: int, nodes: int | None) -> None:
        for count in self.counts.values():
            several = {GpuScope.NODE: nodes, GpuScope.PROCESS: processes}.get(count.scope) or 1
            if count.number * several != total:
                times = "" if several == 1 else f", {several} times"
                what = f"{_gpus(count.number)} {count.scope}{times}: the job has {total}"
                count.place.refuse(what, "write numbers that agree, or leave one of the options out")
        if self.processes is not None and -(-processes // self.processes[0]) != total:
            what = f"{processes} processes, {self.processes[0]} on each GPU, do not use {_gpus(total)}"
            self.processes[1].refuse(what, "write numbers that agree, or leave one of the options out")

    def _any_nodes(self, total: int, processes: int) -> int:
        """Return the number of nodes that nothing says: 0 if the processes can be where GPUs are free."""
        if processes == 1:
            return 1
        if processes % total and total % processes:
            self._losses.append(f"{processes} processes share {_gpus(total)}, so the job has 1 node")
            return 1
        if total > processes:
            self._losses.append("the GPUs of one process may be on several nodes; write --nodes")
        return 0

    def _processors(self, counts: AskedProcesses, total: int, processes: int) -> int:
        """Return how many processors a GPU comes with."""
        wanted = processes * counts.processors
        if self.processors is None:
            each = -(-wanted // total)
            if each * total != wanted:
                self._losses.append(
                    f"the job has {each * total} processors, not {wanted}: {each} for each GPU"
                )
            return each
        each, place = self.processors
        if counts.processors > 1:
            place.refuse("the processors of a process are given, too", "leave one of the options out")
        if wanted > each * total:
            what = f"{processes} processes need more than {each * total} processors"
            place.refuse(what, "write more processors, or fewer processes")
        return each

    def _memory(self, processors: int) -> int | None:
        """Return the MB of each processor."""
        if self.memory is None:
            return None
        size, place = self.memory
        each = -(-size // processors)
        if each * processors != size:
            place.report(Fidelity.APPROXIMATED, f"{each} MB for each of the {processors} processors of a GPU")
        return each


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def slurm_gpus(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    """Yield processes, GPUs and their processors, and the GPUs of each node if the job says so."""
    per_node = task.distribution.per_node if task.distribution is not None else 0
    yield f"--ntasks={asked_processes(task, spec.dialect) or task.minimum}"
    yield f"--gpus={task.minimum}"
    yield f"--cpus-per-gpu={spec.processors_per_gpu}"
    if per_node and task.minimum % per_node:
        what = f"distribution: {task.minimum} GPUs on as many nodes as {per_node} on each need"
        losses.add(Fidelity.APPROXIMATED, "task", what)
        yield f"--nodes={-(-task.minimum // per_node)}"
    elif per_node:
        yield f"--gpus-per-node={per_node}"
        yield f"--nodes={task.minimum // per_node}"


def grid_engine_gpus(spec: JobSpec, losses: LossReport) -> Iterator[str]:
    """Yield a GPU for each slot, which is all that a consumable resource can say."""
    if spec.processors_per_gpu > 1:
        losses.add(Fidelity.NOT_SUPPORTED, "job", "gpus: Grid Engine counts GPUs for each slot")
        return
    losses.add(Fidelity.APPROXIMATED, "job", "gpus: -l gpu: the name of the resource is that of the site")
    yield "-l gpu=1"


def _gpus_of_node(spec: JobSpec, task: TaskSpec) -> int:
    """Return how many GPUs are on each node; 1 where that is left open."""
    layout = task.distribution
    if layout is not None and layout.nodes:
        return -(-task.minimum // layout.nodes)
    if layout is not None and layout.per_node:
        return layout.per_node
    return task.minimum if spec.single_node else 1


def lsf_gpus(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    """Yield the processors of the GPUs, and the GPUs of each node, which is how LSF counts them."""
    each = _gpus_of_node(spec, task)
    yield f"-n {task.minimum * spec.processors_per_gpu}"
    yield f"-gpu num={each}"
    if task.minimum % each or (task.distribution is None and not spec.single_node and task.minimum > 1):
        what = f"gpus: {each} on each node; LSF counts them for each node"
        losses.add(Fidelity.APPROXIMATED, "task", what)


def lsf_span(spec: JobSpec, task: TaskSpec) -> str:
    """Return how many processors are on each node, so that the nodes have the GPUs of the job."""
    each = _gpus_of_node(spec, task)
    return "span[hosts=1]" if each == task.minimum else f"span[ptile={each * spec.processors_per_gpu}]"
