"""The options of sbatch for nodes: their disk, processors, sockets, threads and switches.

Source:  Slurm, sbatch(1), "OPTIONS".
"""

from collections.abc import Iterator
from typing import Final

from headnode.core.formats.batch.draft import BatchDraft, Reader
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.batch.slurm import slurm_seconds
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.batch_variables import processors_of_process
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import TaskSpec

_THREADS: Final = "tasks may run on two threads of one core: each thread is a processor"
_SOCKETS, _CORES, _HARDWARE_THREADS = (
    "minimum_sockets",
    "minimum_cores_per_socket",
    "minimum_threads_per_core",
)


def read_hint(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    """Read whether threads of a core are used: all are processors, and no node is chosen by that."""
    if text == "multithread":
        place.report(Fidelity.TRANSLATED, "the threads of a core are processors")
    elif text == "nomultithread":
        place.report(Fidelity.APPROXIMATED, _THREADS)
    else:
        place.refuse(
            f"{text[:60]!r} is not supported: jobs get processors, whichever cores and sockets these are of",
            "leave it out, or write --cpus-per-task=N for processes with N processors each",
        )


def _layout(*fields: str) -> Reader:
    """Return the reader of the least number of each of these fields of needs: every node has 1 of each."""

    def read(draft: BatchDraft, place: OptionPlace, text: str) -> None:
        parts = text.split(":")
        if len(parts) > len(fields):
            place.refuse(
                f"{text[:60]!r} has {len(parts)} numbers, not {len(fields)} at most",
                "write sockets:cores:threads, for example 2:16:1" if fields[1:] else "write one number",
            )
        asked = {
            field: 1 if part == "*" else place.number(part, 1)
            for field, part in zip(fields, parts, strict=False)
        }
        for field in fields:
            draft.needs.pop(field, None)  # of a script, where the command line counts more
        draft.needs |= {field: least for field, least in asked.items() if least > 1}
        what = "nodes with at least so many" if max(asked.values()) > 1 else "every node has that"
        if _HARDWARE_THREADS in asked:
            place.report(Fidelity.APPROXIMATED, f"{what}; {_THREADS}")
        else:
            place.report(Fidelity.TRANSLATED, what)

    return read


read_sockets = _layout(_SOCKETS)
read_cores = _layout(_CORES)
read_threads = _layout(_HARDWARE_THREADS)
read_all = _layout(_SOCKETS, _CORES, _HARDWARE_THREADS)


def read_tasks_of_core(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    """Read how many tasks run on a core at most: 1, as without the option, but for threads."""
    if text != "1":
        place.refuse(
            f"{text[:60]!r}: how many tasks run on a core is not bounded", "write --ntasks-per-node=N"
        )
    place.report(Fidelity.APPROXIMATED, _THREADS)


def read_tasks_of_socket(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.tasks_per_socket = place, place.number(text, 1)


def settle_sockets(draft: BatchDraft) -> None:
    """Settle how many sockets the nodes have on which so many tasks run on each, after all options.

    Raises:  BadRequest if the number of tasks on a node is open.
    """
    if draft.tasks_per_socket is None:
        return
    place, most = draft.tasks_per_socket
    on_node = draft.tasks_per_node
    if on_node is None and (draft.nodes is not None or (draft.tasks or 1) <= most):
        on_node = -(-(draft.tasks or draft.nodes or 1) // (draft.nodes or 1))
    if on_node is None:
        place.refuse("how many tasks run on a node is not said", "write --ntasks-per-node=N, too")
    sockets = -(-on_node // most)
    if sockets == 1:
        place.report(Fidelity.TRANSLATED, "a node has no more tasks than that")
        return
    draft.needs[_SOCKETS] = max(sockets, draft.needs.get(_SOCKETS, 1))
    what = f"nodes with at least {sockets} sockets; the tasks are not bound to sockets"
    place.report(Fidelity.APPROXIMATED, what)


def read_contiguous(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    draft.job["contiguous"] = True
    place.report(Fidelity.TRANSLATED, "the nodes stand beside each other, in the order of their names")


def read_disk(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.needs["minimum_disk"] = place.megabytes(text)
    place.report(Fidelity.TRANSLATED, "nodes with at least this disk")


def read_switches(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    count, at, wait = text.partition("@")
    draft.job["switches"] = place.number(count, 1)
    if at:
        draft.job["switches_wait"] = slurm_seconds(place, wait)
    place.report(Fidelity.TRANSLATED, "the job waits for so few leaf switches, and no longer than it says")


def read_least_processors(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["minimum_processors_per_node"] = place.number(text, 1)
    place.report(Fidelity.TRANSLATED, "each node of the job has at least so many processors")


def lines_of_tasks(spec: JobSpec, task: TaskSpec) -> Iterator[str]:
    """Yield how many processes a job without GPUs has, and the processors of each."""
    each = processors_of_process(spec, task)
    yield f"--ntasks={task.minimum // each}"
    if each > 1:
        yield f"--cpus-per-task={each}"


def lines_of_nodes(spec: JobSpec, task: TaskSpec) -> Iterator[str]:
    """Yield the options that say on how many nodes a job runs, and what these have at least."""
    one, layout = spec.single_node or (task.distribution is None and task.minimum == 1), task.distribution
    if layout is not None and layout.nodes:
        yield f"--nodes={layout.nodes}"
    elif layout is not None and layout.per_node:
        if spec.unit is not UnitType.GPU:
            yield f"--ntasks-per-node={max(1, layout.per_node // processors_of_process(spec, task))}"
    elif one and (task.minimum > 1 or spec.unit is UnitType.GPU):
        yield "--nodes=1"
    needs = spec.needs
    for option, least in (
        ("--sockets-per-node", needs.minimum_sockets),
        ("--cores-per-socket", needs.minimum_cores_per_socket),
        ("--threads-per-core", needs.minimum_threads_per_core),
    ):
        if least:
            yield f"{option}={least}"
