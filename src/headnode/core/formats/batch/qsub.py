"""The effect of each option of qsub, of PBS and of Grid Engine.

Source:  PBS Professional, qsub(1B) and pbs_resources(7B); Torque, qsub(1B); Grid Engine 8.1, qsub(1) and
         complex(5).
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from headnode.core.formats.batch.dependencies import read_grid_engine, read_pbs
from headnode.core.formats.batch.draft import BatchDraft, add_feature, array_ranges
from headnode.core.formats.batch.gpus import GpuScope
from headnode.core.formats.batch.lines import BatchSystem
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.dependency import Condition
from headnode.core.model.quantities import Instant, Priority, Seconds

_NOT, _KEPT, _NOTE = Fidelity.NOT_SUPPORTED, Fidelity.KEPT, Fidelity.NOTE
_TRANSLATED, _APPROXIMATED = Fidelity.TRANSLATED, Fidelity.APPROXIMATED


def read_queue(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["template"] = text.partition("@")[0]
    place.report(_TRANSLATED, "a queue is a job template here")


def read_output(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.output = _without_host(text)
    place.report(_TRANSLATED, "it is the file of standard output")


def read_error(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.error = _without_host(text)
    place.report(_TRANSLATED, "it is the file of standard error")


def _without_host(text: str) -> str:
    """Return the path of ``host:path``."""
    host, colon, path = text.partition(":")
    return path if colon and "/" not in host else text


def read_join(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    if text not in ("oe", "eo", "n", "y", "yes", "no"):
        place.refuse(f"{text[:60]!r} is not known", "write -j oe for PBS, -j y for Grid Engine")
    draft.merged = text in ("oe", "eo", "y", "yes")
    place.report(_TRANSLATED, "it sets whether errors go into the file of the output")


def read_variables(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    for part in re.split(r",(?=[A-Za-z_]\w*(?:=|,|$))", text):
        name, equals, value = part.partition("=")
        if equals:
            draft.variables[name] = value
        else:
            draft.named_variables.append(name)
    place.report(_TRANSLATED, "these variables are in the environment of the program")


def read_all_variables(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    draft.all_variables = True
    place.report(_TRANSLATED, "the variables of the shell are in the environment of the program")


def read_mail(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["notify_on_start"] = "b" in text
    draft.job["notify_on_completion"] = bool(set("ea") & set(text)) and text != "n"
    place.report(_TRANSLATED, "messages are sent at the start, at the end, or both")


def read_array(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    numbers, _, limit = text.partition("%")
    draft.array = array_ranges(place, numbers)
    if draft.system is BatchSystem.GRID_ENGINE and draft.array[0][0] < 1:
        place.refuse("0 is an invalid task id", "begin with 1")
    draft.at_once = place.number(limit, 1) if limit else draft.at_once
    place.report(_TRANSLATED, "an array is a sweep of one job")


def read_at_once(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.at_once = place.number(text, 1)
    place.report(_TRANSLATED, "at most this many tasks of the array run at once")


def read_rerunnable(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.task["rerunnable"] = text.lower() in ("y", "yes")
    place.report(_TRANSLATED, "it sets whether the task may be requeued after a node failure")


def read_begin(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    digits, _, seconds = text.partition(".")
    known = {12: "%Y%m%d%H%M", 10: "%y%m%d%H%M"}.get(len(digits))
    try:
        if known is None:
            raise ValueError
        at = datetime.strptime(f"{digits}{seconds or '00'}", f"{known}%S").astimezone()
    except ValueError:
        place.refuse(f"{text[:60]!r} is not a date with a year", "write CCYYMMDDhhmm")
    draft.job["hold_until"] = Instant(at.timestamp())
    place.report(_TRANSLATED, "the job waits until then")


def read_priority(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    if not re.fullmatch(r"[+-]?\d{1,4}", text):
        place.refuse(f"{text[:60]!r} is not a priority", "write a number from -1024 to 1023")
    draft.job["priority"] = Priority(max(0, min(4000, 2000 + int(text) * 2000 // 1024)))
    place.report(
        _APPROXIMATED,
        "it is written as a priority from 0 to 4000 here; neighbouring numbers may become the same",
    )


def read_attributes(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    name, _, value = text.partition("=")
    if name == "umask":
        place.report(_NOT, "the umask is the node's")
        return
    if name == "group_list":
        place.report(_NOT, "the job has the groups of its owner")
        return
    if name == "x" and (match := re.fullmatch(r"(?:FLAGS:)?ADVRES:([\w.-]+)", value, re.IGNORECASE)):
        draft.job["reservation"] = match[1]
        place.report(_TRANSLATED, "the job runs in this reservation")
        return
    if name != "depend":
        place.refuse(f"attribute {name[:60]!r} is not supported", "leave it out", "not-supported")
    read_pbs(draft, place, value)


def read_held_for(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    read_grid_engine(draft, place, text, Condition.ON_EXIT)
    place.report(_TRANSLATED, "the job waits for the end of those jobs")


def read_held_for_each(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    read_grid_engine(draft, place, text, Condition.ON_CORRESPONDING)
    place.report(_APPROXIMATED, "a task waits until the task of its number there has finished, and succeeded")


def read_shell(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.shell = _without_host(text)
    place.report(_TRANSLATED, "it runs the script")


def read_work_directory(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.task["work_directory"] = text
    place.report(_TRANSLATED, "it is the work directory")


def read_submit_directory(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    draft.own_directory = True
    place.report(_TRANSLATED, "it runs where it was submitted")


def read_input(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.task["standard_input"] = _without_host(text)
    place.report(_KEPT, "it is the file of standard input")


_SHARED_MEMORY: Final = re.compile(
    r"smp|shared|shm|omp|openmp|thread|serial|multicore|local|(?:one|single|1)_?node|def_slot", re.IGNORECASE
)
_MESSAGES: Final = re.compile(r"mpi", re.IGNORECASE)
"""Open MPI is no shared memory: ``ompi`` and ``openmpi`` begin as the names of OpenMP."""


def read_parallel(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    name, _, slots = text.partition(" ")
    least, _, most = slots.partition("-")
    draft.tasks = place.number(least, 1)
    if _SHARED_MEMORY.search(name) and not _MESSAGES.search(name):
        draft.nodes = 1
        what = "the slots are processors of one node"
    else:
        what = f"the slots are processors of any nodes: the parallel environment {name!r} has no equivalent"
    if most and most != least:
        place.report(_APPROXIMATED, f"{what}; the job has {least}, and never more")
    else:
        place.report(_TRANSLATED if draft.nodes == 1 else _APPROXIMATED, what)


def read_seconds(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.run_time = _seconds(draft, place, text)
    place.report(_TRANSLATED, "it is the run time limit")


def read_least_seconds(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read the lowest limit of a shrink-to-fit job of PBS Professional."""
    draft.least_time = place, _seconds(draft, place, text)
    place.report(_TRANSLATED, "the run time limit may be lowered to this if the job starts earlier then")


def read_soft_seconds(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read when the program gets SIGUSR1."""
    draft.soft_limit = place, _seconds(draft, place, text)


def read_notify(draft: BatchDraft, place: OptionPlace, _text: str) -> None:
    """Read that the program gets a signal before it is killed."""
    draft.notify = place


def _seconds(draft: BatchDraft, place: OptionPlace, text: str) -> Seconds:
    if draft.system is BatchSystem.GRID_ENGINE and text.count(":") == 1:
        place.refuse(f"{text[:60]!r} is not a time", "write seconds, or HOURS:MINUTES:SECONDS")
    return place.clock(text)


def read_slot_memory(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.slot_memory[place.name] = place.megabytes(text, plain="b")
    draft.job["process_memory"] = max(draft.slot_memory.values())
    place.report(_TRANSLATED, "the job reserves this memory for each of its processors")


def read_job_memory(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.total_memory = place.megabytes(text, plain="b")
    place.report(_TRANSLATED, "the nodes of the job share it evenly")


def read_processors(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.processors_per_task = place.number(text, 1)
    place.report(_TRANSLATED, "they are processors of one node" if place.name == "-l ncpus" else "processors")
    if place.name == "-l procs":
        draft.tasks, draft.processors_per_task = draft.processors_per_task, 1


_GPU_MODES: Final = ("shared", "exclusive_process", "exclusive_thread", "default", "reseterr")


def read_torque_nodes(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    if "+" in text:
        place.refuse("nodes of several kinds are not supported", "write one kind: nodes=2:ppn=8")
    first, *more = text.split(":")
    if first.isdigit():
        draft.nodes = place.number(first, 1)
    else:
        draft.nodes, draft.task["required_nodes"] = 1, (first,)
    draft.gpus.counts.pop("nodes", None)
    for part in more:
        name, equals, value = part.partition("=")
        if name == "ppn":
            draft.tasks_per_node = place.number(value, 1)
        elif name == "gpus":
            draft.gpus.ask("nodes", GpuScope.NODE, place, str(place.number(value)))
        elif part in _GPU_MODES and "nodes" in draft.gpus.counts:
            continue  # a GPU has one task at a time
        elif equals:
            place.refuse(f"{part[:60]!r} is not supported", "write ppn=N")
        else:
            add_feature(draft, part)
    place.report(_TRANSLATED, "this many nodes, with ppn processors each")


OfSite = Callable[[BatchDraft, OptionPlace, str, str], bool]
"""Reads an attribute of a chunk, its name and its value; returns False if it is not known."""


def read_select(draft: BatchDraft, place: OptionPlace, text: str, of_site: OfSite) -> None:
    """Read chunks: each has its processors on a node; `place` says whether several share one."""
    if "+" in text:
        place.refuse("chunks of several kinds are not supported", "write one kind: select=2:ncpus=8")
    first, *more = text.split(":")
    numbered = first.isdigit()
    draft.tasks, draft.tasks_per_node = place.number(first, 1) if numbered else 1, 1
    draft.chunk_processes, draft.threads = 1, None
    draft.gpus.counts.pop("select", None)
    for part in more if numbered else [first, *more]:
        name, _, value = part.partition("=")
        match name:
            case "ncpus":
                draft.processors_per_task = place.number(value, 1)
            case "mem":
                draft.memory = place.megabytes(value, plain="b")
            case "host" | "vnode":
                draft.task["required_nodes"] = (value,)
            case "ngpus":
                draft.gpus.ask("select", GpuScope.PROCESS, place, str(place.number(value)))
            case "mpiprocs":
                draft.chunk_processes = place.number(value, 1)
            case "ompthreads":
                draft.threads = place.number(value, 1)
            case _ if value.lower() in ("true", "1", "t"):
                add_feature(draft, name)
            case _ if not of_site(draft, place, name, value):
                place.refuse(f"{part[:60]!r} is not supported", "write ncpus, mem, host or NAME=true")
    place.report(_TRANSLATED, "each chunk has its processors, GPUs and memory on a node of its own")


def read_place(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    for part in text.split(":"):
        match part:
            case "excl" | "exclhost":
                draft.job["exclusive"] = True
            case "pack":
                draft.packed = True
            case "scatter" | "vscatter":
                draft.scattered = True
            case "free" | "shared":
                pass  # chunks have nodes of their own
            case _:
                place.refuse(f"{part[:60]!r} is not supported", "write free, pack, scatter, excl")
    place.report(_TRANSLATED, "it sets whether chunks share a node, and whether other jobs may use it")


def read_host(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.task["required_nodes"] = (text,)
    place.report(_TRANSLATED, "the job has this node")


def read_gpus(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.gpus.ask("ngpus", GpuScope.JOB, place, str(place.number(text)))


def read_gpus_of_slots(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read a consumable resource: Grid Engine counts it for each slot."""
    number = place.number(text)
    draft.gpus.ask("gpu", GpuScope.PROCESS, place, str(number))
    if number:
        place.report(_APPROXIMATED, "this many GPUs for each slot, also where a site counts them for the job")


def read_alone(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["exclusive"] = text.lower() in ("true", "1", "t", "")
    place.report(_TRANSLATED, "it sets whether the job has its nodes exclusively")


_GRID_ENGINE_NAMES: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def grid_engine_file(draft: BatchDraft, text: str, name: str) -> str:
    """Return the name of a file as ours: with our variables in place of Grid Engine's."""
    values = {
        "JOB_ID": "%CCP_JOBID%",
        "TASK_ID": "*" if draft.array else "undefined",
        "JOB_NAME": name,
        "HOSTNAME": "%HEADNODE_NODE%",
    }
    stars = text.replace("*", "^*") if draft.array else text
    return _GRID_ENGINE_NAMES.sub(lambda match: values.get(match[1] or match[2], match[0]), stars)
