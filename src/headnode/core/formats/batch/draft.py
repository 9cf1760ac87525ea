"""What the options of a batch script ask for, collected; and the job that follows from all of them."""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from headnode.core.formats.batch.gpus import AskedProcesses, GpuDraft, GpuSize
from headnode.core.formats.batch.lines import RULES, BatchSystem
from headnode.core.formats.batch.node_memory import fewest_on_a_node, memory_fields
from headnode.core.formats.batch.option_place import MAX_NUMBER, OptionPlace
from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.model.bounds import TASKS_OF_FILE
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.signals import (
    MAX_TIME,
    USUAL_TIME,
    LimitSignal,
    read_limit_signal,
    signal_number,
)
from headnode.core.model.task import ARRAY_INDEX, Distribution, TaskSpec, TaskType, substitute

_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?\Z")


class BatchDraft:
    """What was asked for so far; the last word on an option holds."""

    def __init__(self, system: BatchSystem) -> None:
        self.system, usual = system, RULES[system]
        self.job: dict[str, Any] = {}  # fields of the job
        self.task: dict[str, Any] = {"rerunnable": usual.rerunnable}  # of its task
        self.needs: dict[str, Any] = {}  # of every node; `features` is a list
        self.nodes: int | None = None
        self.tasks: int | None = None
        self.most_tasks: int | None = None  # None: as many as `tasks`
        self.tasks_per_node: int | None = None
        self.processors_per_task = 1
        self.chunk_processes: int | None = None  # of MPI, in each chunk of PBS
        self.threads: int | None = None  # of OpenMP, of each of these processes
        self.round_robin = False
        self.memory: int | None = None  # MB of each node
        self.slot_memory: dict[str, int] = {}  # MB of each processor, by the resources of qsub
        self.tasks_per_socket: tuple[OptionPlace, int] | None = None
        self.run_time: Seconds = FOREVER
        self.least_time: tuple[OptionPlace, Seconds] | None = None
        self.array: tuple[tuple[int, int, int], ...] = ()  # first, last, step
        self.at_once: int | None = None  # instances of the array
        self.output: str | None = None
        self.error: str | None = None
        self.merged = usual.merged  # errors go where output goes
        self.own_directory = usual.of_shell  # the job runs where it was submitted
        self.variables: dict[str, str] = {}
        self.all_variables = usual.of_shell  # those of the submitter's shell
        self.named_variables: list[str] = []  # of these those of the shell
        self.shell = ""  # that runs the script; "": the one in its first line
        self.total_memory: int | None = None  # MB of all nodes together
        self.scattered = False  # each process has a node of its own
        self.packed = False  # all processors are on one node
        self.soft_limit: tuple[OptionPlace, Seconds] | None = None  # when Grid Engine sends SIGUSR1
        self.notify: OptionPlace | None = None  # Grid Engine sends SIGUSR2 before SIGKILL
        self.warning: tuple[OptionPlace, str] | None = None  # what LSF does before the run time limit
        self.warning_time: tuple[OptionPlace, Seconds] | None = None  # how long before it
        self.gpus = GpuDraft()
        self.gpu_size: GpuSize | None = None  # set when all options have been read
        self.items: list[ReportItem] = []

    def count_gpus(self) -> None:
        """Settle how many GPUs the job has, after all options have been read.

        Raises:  BadRequest where the options contradict each other.
        """
        memory = self.gpus.memory
        if memory is not None and (self.memory or self.job.get("process_memory")):
            memory[1].refuse("memory is given in another way, too", "leave one of the options out")
        nodes = 1 if self.packed else self.nodes
        asked = AskedProcesses(
            self.tasks,
            nodes,
            self.tasks_per_node,
            self.processors_per_task,
            self.scattered and not self.packed,
        )
        self.gpu_size = self.gpus.size(asked)

    def settle_time(self) -> None:
        """Settle the lowest limit of the job and the signal before its end, after all options have been read.

        Raises:  BadRequest for the lowest limit of an array: it is one job here, each task has the limit.
        """
        if self.least_time is not None:
            place, least = self.least_time
            if self.array:
                place.refuse("the tasks of an array have one run time limit", "leave it out, or the array")
            self.job["minimum_run_time"] = least
        if self.soft_limit is not None:
            place, soft = self.soft_limit
            before = self.run_time - soft
            if 1 <= before <= MAX_TIME:
                self.job["signal"] = str(LimitSignal(signal_number("USR1"), Seconds(before)))
                place.report(Fidelity.TRANSLATED, f"SIGUSR1 comes {before:g} s before the run time limit")
            else:
                place.report(Fidelity.NOT_SUPPORTED, "no signal is sent: h_rt is not a little longer")
        if self.notify is not None:
            self._settle_notice(self.notify)
        self._settle_warning()

    def _settle_notice(self, place: OptionPlace) -> None:
        """Settle which signal of ``-notify`` is sent: that of the run time limit, if the job has no other.

        Grid Engine sends SIGUSR2 at the limit, and kills after the time of its queue; its default is 60 s.
        """
        others = "none comes before qdel (SIGTERM) and before a suspension"
        if "signal" in self.job:
            place.report(Fidelity.NOT_SUPPORTED, f"the job has another signal: s_rt; {others}")
        elif USUAL_TIME < self.run_time < FOREVER:
            self.job["signal"] = str(LimitSignal(signal_number("USR2"), USUAL_TIME))
            what = f"SIGUSR2 comes {USUAL_TIME:g} s before the run time limit, not at it; {others}"
            place.report(Fidelity.APPROXIMATED, what)
        else:
            place.report(Fidelity.NOT_SUPPORTED, f"no signal is sent without h_rt above 60 s; {others}")

    def _settle_warning(self) -> None:
        """Settle which signal LSF sends before the run time limit."""
        not_sent = None
        if self.warning is not None and self.warning_time is not None:
            place, action = self.warning
            try:
                asked = read_limit_signal(f"{action}@{self.warning_time[1]:.0f}")
            except BadRequest:
                not_sent = "no signal is sent: it is not a signal, or the time before the limit is too long"
            else:
                self.job["signal"] = str(asked)
                for each in (place, self.warning_time[0]):
                    each.report(Fidelity.TRANSLATED, "the signal comes this long before the run time limit")
        elif self.warning is not None or self.warning_time is not None:
            not_sent = "no signal is sent: -wa and -wt belong together"
        for warning in (self.warning, self.warning_time) if not_sent else ():
            if warning is not None:
                warning[0].report(Fidelity.NOT_SUPPORTED, not_sent or "")

    @property
    def processors(self) -> int:
        """How many processors the program of the job, or of an instance, has."""
        return self.processes * self.processors_per_task

    @property
    def units(self) -> int:
        """The size of the program in the unit of the job: its processors, or its GPUs."""
        return self.processors if self.gpu_size is None else self.gpu_size.gpus

    @property
    def processes(self) -> int:
        """How many processes were asked for."""
        if self.gpu_size is not None:
            return self.gpu_size.processes
        if self.tasks is not None:
            return self.tasks
        return (self.nodes or 1) * (self.tasks_per_node or 1)

    def spec(self, script: str, argv: Sequence[str]) -> JobSpec:
        """Return the job that runs the script; `argv` are its name and arguments.

        Raises:  nothing; what is wrong with the whole is found where every job is checked.
        """
        command = shlex.join(argv)
        task = TaskSpec(
            **self.task,
            command=command,
            script=script,
            minimum=self.units,
            maximum=self._most_units(),
            environment=self.variables,
        )
        tasks = self._array(task) if self.array else (replace(task, distribution=self._distribution()),)
        fields = {"run_time": FOREVER if self.array else self.run_time, **self.job}
        if not self.array and self._is_on_one_node():
            fields["single_node"] = True
        size = self.gpu_size
        if size is not None:
            fields |= {"unit": UnitType.GPU, "processors_per_gpu": size.processors_per_gpu}
            add_features(self, size.models)
            if size.memory is not None:
                fields["process_memory"] = size.memory
        nodes = (self.nodes if size is None else size.nodes) or 1
        memory = self.memory or -(-(self.total_memory or 0) // nodes)
        of_node = (self.tasks_per_node or 0) * self.processors_per_task
        processors = self.units * (1 if size is None else size.processors_per_gpu)
        fewest = fewest_on_a_node(processors, nodes, of_node if size is None and self.nodes is None else 0)
        fields |= memory_fields(memory, array=bool(self.array), processors=fewest)
        if self.needs:
            features = tuple(self.needs.get("features", ()))
            fields["needs"] = replace(ANY_NODE, **self.needs | {"features": features})
        if self.array and self.at_once is not None:
            fields |= {"minimum": self.units, "maximum": self.units * self.at_once}
        return JobSpec(tasks=tasks, dialect=self.system.value, **fields)

    def _most_units(self) -> int:
        if self.gpu_size is not None:
            return self.gpu_size.gpus
        return (self.most_tasks or self.processes) * self.processors_per_task

    def _is_on_one_node(self) -> bool:
        """Whether all processors of the program must be on one node."""
        if self.gpu_size is not None:
            return self.gpu_size.nodes == 1
        return self.packed or self.nodes == 1 or (self.nodes is None and self.processes == 1)

    def _distribution(self) -> Distribution | None:
        """Return how the processors are distributed over nodes; None where the job is on one node."""
        if self._is_on_one_node():
            return None
        if self.gpu_size is not None:
            return self._distribution_of_gpus(self.gpu_size)
        if self.scattered and self.processes > 1:
            return Distribution(nodes=self.processes)
        if self.nodes is not None and self.nodes > 1:
            return Distribution(nodes=self.nodes, round_robin=self.round_robin)
        if self.tasks_per_node is not None:
            return Distribution(
                per_node=self.tasks_per_node * self.processors_per_task, round_robin=self.round_robin
            )
        return Distribution(round_robin=True) if self.round_robin else None

    def _distribution_of_gpus(self, size: GpuSize) -> Distribution | None:
        if size.per_node:
            return Distribution(per_node=size.per_node, round_robin=self.round_robin)
        if size.nodes:
            return Distribution(nodes=size.nodes, round_robin=self.round_robin)
        return Distribution(round_robin=True) if self.round_robin else None

    def _array(self, task: TaskSpec) -> tuple[TaskSpec, ...]:
        """Return the tasks of an array: a sweep for each range, or a task for each number.

        An instance of a sweep may have its processors on several nodes, so one with several is a task.
        """
        timed = replace(task, run_time=self.run_time)
        if self.units > 1:
            numbers = (value for first, last, step in self.array for value in range(first, last + 1, step))
            return tuple(self._of_array(timed, number) for number in numbers)
        return tuple(
            replace(
                timed,
                command=_escaped(task.command),
                kind=TaskType.SWEEP,
                start=first,
                end=last,
                increment=step,
            )
            for first, last, step in self.array
        )

    def _of_array(self, task: TaskSpec, number: int) -> TaskSpec:
        files = {
            field: substitute(getattr(task, field), number)
            for field in ("standard_input", "standard_output", "standard_error")
        }
        return replace(
            task,
            **files,
            name=str(number),
            distribution=self._distribution() or Distribution(nodes=1),
            environment={**task.environment, ARRAY_INDEX[self.system.value]: str(number)},
        )


Reader = Callable[[BatchDraft, OptionPlace, str], None]
"""Reads the value of an option into a draft."""


def job_field(field: str, what: str) -> Reader:
    """Return the reader of a text that is a field of the job."""

    def read(draft: BatchDraft, place: OptionPlace, text: str) -> None:
        draft.job[field] = text
        place.report(Fidelity.TRANSLATED, what)

    return read


class IgnoredReader:
    """The reader of an option that has no effect, and why."""

    def __init__(self, why: str, kind: Fidelity) -> None:
        self.why, self.kind = why, kind

    def __call__(self, draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG002
        """Report that the option has no effect."""
        place.report(self.kind, self.why)


class RefusingReader:
    """The reader of an option that decides when or where a job runs and has no equivalent."""

    def __init__(self, what: str, fix: str) -> None:
        self.what, self.fix = what, fix

    def __call__(self, draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG002
        """Refuse the option."""
        place.refuse(self.what, self.fix, "not-supported")


class ScriptOption(NamedTuple):
    """An option of ``qsub`` or ``bsub``: how it is read, and whether it takes an argument."""

    read: Reader
    argument: bool = True

    @property
    def ignored(self) -> str:
        """Why the option has no effect; empty if it has one."""
        return self.read.why if isinstance(self.read, IgnoredReader) else ""

    @property
    def refused(self) -> str:
        """Why the option is refused, and what to write instead; empty if it is accepted."""
        return f"{self.read.what}; {self.read.fix}" if isinstance(self.read, RefusingReader) else ""


def ignored(why: str, kind: Fidelity = Fidelity.NOT_SUPPORTED) -> Reader:
    """Return the reader of an option that has no effect, and why."""
    return IgnoredReader(why, kind)


def refused(what: str, fix: str) -> Reader:
    """Return the reader of an option that is refused."""
    return RefusingReader(what, fix)


def read_hold(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    """Hold the job until it is released."""
    draft.job["holds"] = ("user",)
    place.report(Fidelity.TRANSLATED, "the job is held until: hn job release ID")


def add_features(draft: BatchDraft, names: Sequence[str]) -> None:
    """Require that each node has all of these features."""
    for name in names:
        add_feature(draft, name)


def add_feature(draft: BatchDraft, *names: str) -> None:
    """Require that each node has a feature, or one of several."""
    draft.needs.setdefault("features", []).append(names)


def array_ranges(place: OptionPlace, text: str) -> tuple[tuple[int, int, int], ...]:
    """Return the ranges of an array, ``1,3-7:2,9``; numbers with equal steps are one range.

    Raises:  BadRequest ``value``.
    """
    ranges: list[tuple[int, int, int]] = []
    for part in text.split(","):
        match = _RANGE.match(part.strip())
        if match is None:
            place.refuse(f"{text[:60]!r} is not an array", "write numbers and ranges: 1,3-7:2,9")
        first, last, step = int(match[1][:10]), int((match[2] or match[1])[:10]), int((match[3] or "1")[:10])
        if last < first or step < 1 or last > MAX_NUMBER:
            place.refuse(f"{part[:60]!r} is an empty range", "write FIRST-LAST or FIRST-LAST:STEP")
        ranges.append((first, last, step))
    if (count := sum((last - first) // step + 1 for first, last, step in ranges)) > TASKS_OF_FILE.most:
        place.refuse(f"the array has {count:,} numbers; the limit is {TASKS_OF_FILE}", "write several arrays")
    return _joined(ranges)


def _joined(ranges: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Join single numbers and ranges that go on with one step.

    >>> _joined([(1, 1, 1), (3, 7, 2), (9, 9, 1)])
    ((1, 9, 2),)
    """
    joined: list[tuple[int, int, int]] = []
    for first, last, step in ranges:
        if joined:
            begin, end, before = joined[-1]
            gap = first - end
            fits = (begin == end or gap == before) and (first == last or gap == step)
            if gap > 0 and fits:
                joined[-1] = (begin, last, gap)
                continue
        joined.append((first, last, step))
    return tuple(joined)


_STARS = re.compile(r"[*^]")


def _escaped(text: str) -> str:
    """Return a text in which a sweep replaces nothing."""
    return _STARS.sub(lambda match: f"^{match[0]}", text)
