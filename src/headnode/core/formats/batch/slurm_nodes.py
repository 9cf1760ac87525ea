"""What options of sbatch ask of nodes: their disk, processors, threads and switches.

Source:  Slurm, sbatch(1), "OPTIONS".
"""

from headnode.core.formats.batch.draft import BatchDraft
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.batch.slurm import slurm_seconds
from headnode.core.formats.fidelity import Fidelity


def read_hint(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    """Read ``multithread``, as every job runs here: all threads of a core are processors."""
    if text != "multithread":
        place.refuse(
            f"{text[:60]!r} is not supported: the threads of a core are processors of their own",
            "leave it out, or write --cpus-per-task=N for processes with N processors each",
        )
    place.report(Fidelity.TRANSLATED, "the threads of a core are processors")


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
