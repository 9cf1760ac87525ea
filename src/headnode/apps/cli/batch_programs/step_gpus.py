"""Which GPUs of its job a step of ``srun`` has, and which of them each of its tasks.

A step takes GPUs from the other steps as it takes processors.  One that names no number has all of its job.
Source:  Slurm 22.05, srun(1), "--gpus-per-task", "--gres".
"""

from typing import NamedTuple

from headnode.apps.cli.batch_programs.step_slots import StepSlots
from headnode.apps.cli.batch_programs.step_tasks import StepTask
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NOT_OF_STEPS = ("ntasks-per-gpu", "gpus-per-socket", "mem-per-gpu")


class StepGpuRequest(NamedTuple):
    """What a step asks for: GPUs for each task, or on each node for all tasks there; None: not said."""

    each: int | None
    on_node: int | None

    @property
    def is_set(self) -> bool:
        """Whether the step names a number."""
        return self.each is not None or self.on_node is not None


def step_gpu_request(args: ProgramWords, nodes: int) -> StepGpuRequest:
    """Return what the options ask for; `nodes` is how many the step has.

    Raises:  ProgramRefusal.
    """
    for name in _NOT_OF_STEPS:
        if args.has(name):
            raise ProgramRefusal(f"--{name} is not supported in a job: write --gpus-per-task or --gres")
    if args.has("gpus-per-task") and args.has("overcommit"):
        raise ProgramRefusal("--gpus-per-task is not supported with --overcommit")
    each, total = _number(args, "gpus-per-task"), _number(args, "gpus")
    on_node = _number(args, "gpus-per-node")
    if on_node is None:
        on_node = _of_gres(args)
    if each is None and on_node is None and total is not None:
        if total % nodes:
            raise ProgramRefusal(f"--gpus={total} on {nodes} nodes: write --gpus-per-node or --gpus-per-task")
        on_node = total // nodes
    return StepGpuRequest(each, None if each is not None else on_node)


def _of_gres(args: ProgramWords) -> int | None:
    text = args.text("gres")
    if text is None:
        return None
    found = [part for part in text.split(",") if part.partition(":")[0] == "gpu"]
    return _counted(found[0].partition(":")[2] or "1", "gres") if found else 0


def _number(args: ProgramWords, name: str) -> int | None:
    text = args.text(name)
    return None if text is None else _counted(text, name)


def _counted(text: str, name: str) -> int:
    """Return the number of ``2``, ``a100:2`` or ``a100``."""
    model, _, number = text.rpartition(":")
    if not model and number and not number[0].isdigit():
        return 1
    if not (number.isascii() and number.isdigit() and len(number) < 5):
        raise ProgramRefusal(f'Invalid numeric value "{text[:40]}" for --{name}.')
    return int(number)


def gpus_on_nodes(environ: "Mapping[str, str]", node: str) -> "dict[str, int]":
    """Return how many GPUs our task has on each of its nodes.

    >>> gpus_on_nodes({"HEADNODE_GPUS": "0,3", "CCP_NODES": "2 a 2 b 1"}, "a")
    {'a': 2, 'b': 1}
    """
    own = len([number for number in environ.get("HEADNODE_GPUS", "").split(",") if number])
    words = environ.get("CCP_NODES", "").split()
    counts = {words[at]: int(words[at + 1]) for at in range(1, len(words) - 1, 2)} if len(words) > 2 else {}
    return counts if own and counts.get(node) == own else {node: own}


class StepGpus:
    """The GPUs of one step: taken together with its processors, and dealt to its tasks."""

    def __init__(self, request: StepGpuRequest, there: "Mapping[str, int]", slots: StepSlots | None) -> None:
        self._request, self._there, self._slots = request, there, slots
        self.of_tasks: dict[int, tuple[int, ...]] | None = None  # by rank; None: all

    def all_room(self, nodes: "Sequence[tuple[str, int]]", processors: int) -> "list[tuple[str, int]]":
        """Return how many processors of each node a step can use that has all GPUs of the job there."""
        return self._room(nodes, processors, self._there)

    def take_free(self, nodes: "Sequence[tuple[str, int]]", processors: int) -> "list[tuple[str, int]]":
        """Take all free GPUs; return how many processors of each node tasks can use with them."""
        if not self._request.is_set:
            return list(nodes)
        return self._room(nodes, processors, {node: len(self._free(node)) for node, _ in nodes})

    def _room(
        self, nodes: "Sequence[tuple[str, int]]", processors: int, gpus: "Mapping[str, int]"
    ) -> "list[tuple[str, int]]":
        each, on_node = self._request
        if each:
            return [(node, min(count, gpus.get(node, 0) // each * processors)) for node, count in nodes]
        return [(node, count if gpus.get(node, 0) >= (on_node or 0) else 0) for node, count in nodes]

    def _free(self, node: str) -> "list[int]":
        count = self._there.get(node, 0)
        if self._slots is None:
            return list(range(count))
        return self._slots.take_all(f"{node}.gpu", count)

    def deal(self, tasks: "Sequence[StepTask]") -> None:
        """Deal the GPUs that were taken to tasks, and release the others."""
        if not self._request.is_set:
            return
        each, on_node = self._request
        free = {task.node: self._held(task.node) for task in tasks}
        found = {}
        for task in tasks:
            there = free[task.node]
            begin, size = (task.local * each, each) if each is not None else (0, on_node or 0)
            found[task.rank] = tuple(there[begin : begin + size])
        self.of_tasks = found
        if self._slots is not None:
            used = {(f"{task.node}.gpu", number) for task in tasks for number in found[task.rank]}
            self._slots.keep_only(used)

    def _held(self, node: str) -> "list[int]":
        if self._slots is None:
            return list(range(self._there.get(node, 0)))
        return self._slots.held(f"{node}.gpu")

    def release(self) -> None:
        """Release all GPUs."""
        if self._slots is not None:
            self._slots.release()

    def close(self) -> None:
        """Release all GPUs, and forget them."""
        if self._slots is not None:
            self._slots.close()
