"""The options of qsub that may stand in a script, and the resources of ``-l``: of PBS and of Grid Engine.

Source:  PBS Professional, qsub(1B) and pbs_resources(7B); Torque, qsub(1B); Grid Engine 8.1, qsub(1) and
         complex(5).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn

import headnode.core.formats.batch.qsub as r
from headnode.core.formats.batch.draft import (
    BatchDraft,
    Reader,
    ScriptOption,
    ignored,
    job_field,
    read_hold,
    refused,
)
from headnode.core.formats.batch.lines import BatchSystem, Word
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.batch.site_resources import SITE_GRID_ENGINE, SITE_PBS, read_chunk_attribute
from headnode.core.formats.fidelity import Fidelity

_NOTE = Fidelity.NOTE


_LESS = "processor time has no limit of its own: the run time limit is -l walltime or -l h_rt"
PBS_RESOURCES: Final[Mapping[str, Reader]] = {
    "walltime": r.read_seconds,
    "max_walltime": r.read_seconds,
    "min_walltime": r.read_least_seconds,
    "nodes": r.read_torque_nodes,
    "ncpus": r.read_processors,
    "procs": r.read_processors,
    "select": partial(r.read_select, of_site=read_chunk_attribute),
    "place": r.read_place,
    "mem": r.read_job_memory,
    "pmem": r.read_slot_memory,
    "pvmem": r.read_slot_memory,
    "host": r.read_host,
    "cput": ignored(_LESS),
    "pcput": ignored(_LESS),
    "vmem": ignored("memory with swap is not limited"),
    "file": ignored("the size of files is not limited"),
    "nice": ignored("the nice value is the node's"),
    "ngpus": r.read_gpus,
    "filesystems": ignored("file systems are not selected"),
    **SITE_PBS,
}
GRID_ENGINE_RESOURCES: Final[Mapping[str, Reader]] = {
    "h_rt": r.read_seconds,
    "s_rt": r.read_soft_seconds,
    "h_cpu": ignored(_LESS),
    "h_vmem": r.read_slot_memory,
    "mem_free": r.read_slot_memory,
    "virtual_free": r.read_slot_memory,
    "rmem": r.read_slot_memory,
    "mem": r.read_slot_memory,
    "hostname": r.read_host,
    "h": r.read_host,
    "gpu": r.read_gpus_of_slots,
    "exclusive": r.read_alone,
    **SITE_GRID_ENGINE,
}


def _resources(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read a list of resources; one that is not known could decide where the job runs, and is refused."""
    table = GRID_ENGINE_RESOURCES if draft.system is BatchSystem.GRID_ENGINE else PBS_RESOURCES
    for part in text.split(","):
        name, _, value = part.partition("=")
        inner = place.named(f"-l {name}")
        if name not in table:
            inner.refuse(
                "this resource is not supported", f"the supported ones are {', '.join(table)}", "resource"
            )
        table[name](draft, inner, value)


_TOOL = "it is for the qsub command, not for the job"
_COMMON: Final[Mapping[str, ScriptOption]] = {
    "A": ScriptOption(job_field("project", "it is the project of the job")),
    "N": ScriptOption(job_field("name", "it is the name of the job")),
    "M": ScriptOption(job_field("email", "it is the address for messages")),
    "P": ScriptOption(job_field("project", "it is the project of the job")),
    "S": ScriptOption(r.read_shell),
    "V": ScriptOption(r.read_all_variables, argument=False),
    "a": ScriptOption(r.read_begin),
    "e": ScriptOption(r.read_error),
    "j": ScriptOption(r.read_join),
    "l": ScriptOption(_resources),
    "m": ScriptOption(r.read_mail),
    "o": ScriptOption(r.read_output),
    "p": ScriptOption(r.read_priority),
    "q": ScriptOption(r.read_queue),
    "r": ScriptOption(r.read_rerunnable),
    "v": ScriptOption(r.read_variables),
}
PBS_OPTIONS: Final[Mapping[str, ScriptOption]] = {
    **_COMMON,
    "I": ScriptOption(refused("an interactive job has no script", "use: hn job shell"), argument=False),
    "J": ScriptOption(r.read_array),
    "W": ScriptOption(r.read_attributes),
    "X": ScriptOption(ignored("windows are not forwarded"), argument=False),
    "b": ScriptOption(ignored(_TOOL, _NOTE)),
    "c": ScriptOption(ignored("jobs have no checkpoints")),
    "d": ScriptOption(r.read_work_directory),
    "h": ScriptOption(read_hold, argument=False),
    "k": ScriptOption(ignored("-o and -e name the files of output", _NOTE)),
    "t": ScriptOption(r.read_array),
    "w": ScriptOption(r.read_work_directory),
    "z": ScriptOption(ignored(_TOOL, _NOTE), argument=False),
}
GRID_ENGINE_OPTIONS: Final[Mapping[str, ScriptOption]] = {
    **_COMMON,
    "R": ScriptOption(ignored("processors are always kept for the first jobs of the queue", _NOTE)),
    "b": ScriptOption(refused("this script would be a command", "leave -b out")),
    "ac": ScriptOption(ignored("the job has no context")),
    "binding": ScriptOption(ignored("processors are bound as the cluster is set")),
    "cwd": ScriptOption(r.read_submit_directory, argument=False),
    "h": ScriptOption(read_hold, argument=False),
    "hard": ScriptOption(ignored("all resources are required", _NOTE), argument=False),
    "hold_jid": ScriptOption(r.read_held_for),
    "hold_jid_ad": ScriptOption(r.read_held_for_each),
    "i": ScriptOption(r.read_input),
    "notify": ScriptOption(r.read_notify, argument=False),
    "now": ScriptOption(ignored("the job waits in the queue")),
    "pe": ScriptOption(r.read_parallel),
    "shell": ScriptOption(ignored("a shell runs the script", _NOTE)),
    "soft": ScriptOption(refused("optional requests are not supported", "leave -soft out"), argument=False),
    "sync": ScriptOption(ignored("use: hn job submit --wait", _NOTE)),
    "t": ScriptOption(r.read_array),
    "w": ScriptOption(ignored(_TOOL, _NOTE)),
    "tc": ScriptOption(r.read_at_once),
    "terse": ScriptOption(ignored(_TOOL, _NOTE), argument=False),
    "wd": ScriptOption(r.read_work_directory),
}


def qsub_options(
    system: BatchSystem, words: Sequence[Word], refuse: Callable[[Word, str, str], NoReturn]
) -> Iterator[tuple[Reader, str, str, int]]:
    """Yield each option of a line: its reader, its name, its argument, where it stands."""
    table = GRID_ENGINE_OPTIONS if system is BatchSystem.GRID_ENGINE else PBS_OPTIONS
    left = list(words)
    while left:
        word = left.pop(0)
        name, value = word.text.removeprefix("-"), ""
        if name not in table and system is BatchSystem.PBS and name[:1] in table:
            name, value = name[0], name[1:]  # glued, as getopt reads it
        if not word.text.startswith("-") or name not in table:
            refuse(word, f"{word.text[:60]!r} is not an option of qsub", "see: qsub --help")
        option = table[name]
        count = 0 if value or not option.argument else 2 if name == "pe" else 1
        if len(left) < count:
            refuse(word, f"{word.text[:60]} has no value", f"write {word.text[:60]} VALUE")
        value = value or " ".join(each.text for each in left[:count])
        del left[:count]
        yield option.read, f"-{name}", value, word.start
