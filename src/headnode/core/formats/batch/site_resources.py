"""Resources of ``qsub -l`` that sites define, under the names that are common; and node attributes of chunks.

Source:  Univa Grid Engine 8, complex(5), "m_mem_free"; the user guides of UCL and UCLA (Grid Engine), of NCI
         and MetaCentrum (PBS Professional); Moab, "Job Submission", "FEATURE" and "SOFTWARE".
"""

import re
from collections.abc import Mapping
from typing import Final

import headnode.core.formats.batch.qsub as r
from headnode.core.formats.batch.draft import BatchDraft, Reader, add_feature, ignored, refused
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.job import Licence


def read_disk(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.needs["minimum_disk"] = place.megabytes(text, plain="b")
    place.report(
        Fidelity.APPROXIMATED,
        "nodes with this disk in total; the job does not reserve it, nor has a directory",
    )


def read_feature(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read features of nodes: ``a:b`` are both, ``a|b`` is one of them."""
    for part in re.split("[:&]", text.strip("'\"")):
        choices = [each.strip() for each in part.split("|")]
        if not all(re.fullmatch(r"[\w.+-]+", each) for each in choices):
            place.refuse(f"{text[:60]!r} is not a feature", "write NAME, NAME:NAME for both, or 'NAME|NAME'")
        add_feature(draft, *choices)
    place.report(Fidelity.TRANSLATED, "nodes with this feature")


def _read_software(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    name, _, amount = re.sub("[+%]", ":", text).partition(":")
    if not name:
        place.refuse("it has no name", "write software=NAME, or software=NAME:NUMBER")
    licence = Licence(name, place.number(amount, 1) if amount else 1)
    others = (each for each in draft.job.get("licences", ()) if each.feature != name)
    draft.job["licences"] = (*others, licence)
    place.report(Fidelity.TRANSLATED, "the job holds this licence")


_OF_SLOTS = """h_data h_rss m_mem_free mem_req mem_requested mem_token s_vmem tmem"""
SITE_GRID_ENGINE: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(_OF_SLOTS.split(), r.read_slot_memory),
    **dict.fromkeys(("gpus", "ngpus", "gpu_card"), r.read_gpus_of_slots),
    **dict.fromkeys(("gpu_type", "gpu_model", "cpu_type", "cpu_model"), read_feature),
    **dict.fromkeys(("tmpfs", "tmp_free", "tmpspace"), read_disk),
    "excl": r.read_alone,
    "slots": refused("slots are those of a parallel environment", "write -pe smp N"),
}
SITE_PBS: Final[Mapping[str, Reader]] = {
    "feature": read_feature,
    "jobfs": read_disk,
    "software": _read_software,
    "storage": ignored("file systems are not selected"),
    "wd": r.read_submit_directory,
    "qos": refused("a QOS is a job template here", "write -q NAME"),
}

_DISKS: Final = ("scratch_local", "scratch_ssd", "local_scratch", "jobfs", "tmpfs")
_KINDS: Final = ("model", "gpu_model", "gpu_type", "cpu_model", "cpu_type", "cputype", "cluster")


def read_chunk_attribute(draft: BatchDraft, place: OptionPlace, name: str, value: str) -> bool:
    """Read what a chunk asks of its node besides processors and memory; return False if it is not known."""
    if name in _DISKS:
        read_disk(draft, place.named(f"-l select:{name}"), value)
    elif name in _KINDS:
        read_feature(draft, place.named(f"-l select:{name}"), value)
    else:
        return (name, value) == ("arch", "linux")  # every node
    return True
