"""What options of sbatch ask of nodes: their disk, processors, threads and switches.

Source:  Slurm, sbatch(1), "OPTIONS".
"""

from typing import Final

from headnode.core.formats.batch.draft import BatchDraft
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.batch.slurm import slurm_seconds
from headnode.core.formats.fidelity import Fidelity

_THREADS: Final = "tasks may run on two threads of one core: each thread is a processor"


def read_hint(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    """Read whether threads of a core are used: all are processors, and no node is chosen by that."""
    if text == "multithread":
        place.report(Fidelity.TRANSLATED, "the threads of a core are processors")
    elif text == "nomultithread":
        place.report(Fidelity.APPROXIMATED, _THREADS)
    else:
        place.refuse(
            f"{text[:60]!r} is not supported: the cores of a node are not known",
            "leave it out, or write --cpus-per-task=N for processes with N processors each",
        )


def read_layout(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    """Read the least number of sockets, cores of each and threads of each: every node has 1 of each."""
    if any(part not in ("1", "*") for part in text.split(":")):
        place.refuse(
            f"{text[:60]!r}: the cores and threads of the sockets of a node are not known",
            "leave it out, or write --mincpus=N for nodes with at least N processors",
        )
    if place.name in ("--threads-per-core", "--extra-node-info"):
        place.report(Fidelity.APPROXIMATED, f"every node has that; {_THREADS}")
    else:
        place.report(Fidelity.TRANSLATED, "every node has that")


def read_tasks_of_core(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    """Read how many tasks run on a core at most: 1, as without the option, but for threads."""
    if text != "1":
        place.refuse(f"{text[:60]!r}: the cores of a node are not known", "write --ntasks-per-node=N")
    place.report(Fidelity.APPROXIMATED, _THREADS)


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
