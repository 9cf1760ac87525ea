"""What each option of sbatch asks for.

Source:  Slurm, sbatch(1), "OPTIONS" and "filename pattern"; the long names are those of version 22.05.
"""

import re

from headnode.core.formats.batch.draft import BatchDraft, Reader, add_features, array_ranges
from headnode.core.formats.batch.gpus import GpuScope
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.text.quantities import parse_date_time, parse_nodes
from headnode.core.model.batch_variables import ALL_NODES
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Licence
from headnode.core.model.quantities import FOREVER, Instant, Priority, Seconds
from headnode.core.model.signals import read_limit_signal

_NOT, _KEPT, _TRANSLATED, _APPROXIMATED, _NOTE = (
    Fidelity.NOT_SUPPORTED,
    Fidelity.KEPT,
    Fidelity.TRANSLATED,
    Fidelity.APPROXIMATED,
    Fidelity.NOTE,
)


def read_name(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["name"] = text
    place.report(_KEPT, f"the name of the job is {text!r}")


def slurm_time(place: OptionPlace, text: str) -> Seconds:
    """Return a time limit, rounded up to whole minutes as sbatch does.

    Raises:  BadRequest ``value``.
    """
    seconds = slurm_seconds(place, text)
    return seconds if seconds == FOREVER else Seconds(float(-(-int(seconds) // 60) * 60))


def slurm_seconds(place: OptionPlace, text: str) -> Seconds:
    """Return a time.

    Raises:  BadRequest ``value``.
    """
    seconds = written_seconds(text)
    if seconds is None:
        place.refuse(
            f"{text[:60]!r} is not a time", "write minutes, MINUTES:SECONDS, H:M:S, or DAYS-HOURS:M:S"
        )
    return seconds


def written_seconds(text: str) -> Seconds | None:
    """Return the time that Slurm reads in a text; None if it is none.

    >>> written_seconds("90"), written_seconds("1-12"), written_seconds("UNLIMITED"), written_seconds("soon")
    (5400.0, 129600.0, inf, None)
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "0", "-1"):
        return FOREVER
    days, dash, clock = text.rpartition("-")
    fields = clock.split(":")
    if not all(field.isascii() and field.isdigit() for field in (*fields, days or "0")) or len(fields) > 3:
        return None
    numbers = [int(field[:9]) for field in fields]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    else:
        hours, minutes, seconds = ((0, numbers[0], 0), (0, *numbers), numbers)[len(numbers) - 1]
    whole = ((int(days[:6] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return FOREVER if whole == 0 else Seconds(float(whole))


def read_time(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.run_time = slurm_time(place, text)
    place.report(_TRANSLATED, "it is the run time limit")


def read_least_time(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    least = slurm_time(place, text)
    if least == FOREVER:
        place.refuse("the lowest run time limit of a job is a time", "write minutes: --time-min=30")
    draft.least_time = place, least
    place.report(_TRANSLATED, "the run time limit may be lowered to this if the job starts earlier then")


def read_nodes(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    least, _, most = text.partition("-")
    draft.nodes = place.number(least, 1)
    if most and place.number(most, 1) != draft.nodes:
        place.report(_APPROXIMATED, f"the job has {least} nodes, and never more")
    else:
        place.report(_TRANSLATED, "the processors are on this many nodes")


def read_processes(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.tasks = place.number(text, 1)
    place.report(_TRANSLATED, "a processor, or --cpus-per-task, for each process")


def read_per_node(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.tasks_per_node = place.number(text, 1)
    place.report(_TRANSLATED, "this many processes run on each node")


def read_per_task(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.processors_per_task = place.number(text, 1)
    place.report(_TRANSLATED, "the processors are counted for the whole job")


_OF_NODES = "the job reserves this memory on each of its nodes, an array for each element"


def read_memory(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.memory = place.megabytes(text, whole=True)
    if draft.memory:
        place.report(_TRANSLATED, _OF_NODES)
    else:
        draft.job["exclusive"] = True
        place.report(_TRANSLATED, "all memory of a node: the job has its nodes exclusively")


def read_memory_per_processor(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["process_memory"] = place.megabytes(text, whole=True)
    place.report(_TRANSLATED, "the job reserves this memory for each of its processors")


def read_groups(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    names = [name for name in text.split(",") if name and name != ALL_NODES]
    draft.job["node_groups"] = tuple(names[:1])
    if len(names) > 1:
        place.report(_APPROXIMATED, f"the job runs on nodes of group {names[0]!r}; the others are left out")
    else:
        place.report(_TRANSLATED, "a partition is a node group here")


def read_project(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["project"] = text
    place.report(_TRANSLATED, "it is the project of the job")


def read_template(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["template"] = text
    place.report(_TRANSLATED, "a quality of service is a job template here")


def read_directory(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.task["work_directory"] = text
    draft.own_directory = not text.startswith("/")
    place.report(_TRANSLATED, "it is the work directory")


def read_input(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.task["standard_input"] = text
    place.report(_KEPT, "it is the file of standard input")


def read_output(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.output = text
    place.report(_TRANSLATED, "it is the file of standard output")


def read_error(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.error, draft.merged = text, False
    place.report(_TRANSLATED, "it is the file of standard error")


def read_open_mode(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    if text not in ("append", "truncate"):
        place.refuse(f"{text[:60]!r} is not append or truncate", "write one of them")
    draft.task["append_output"] = draft.task["append_error"] = text == "append"
    place.report(_TRANSLATED, "it sets whether output replaces the files or is appended")


def read_array(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    numbers, _, limit = text.partition("%")
    draft.array = array_ranges(place, numbers)
    draft.at_once = place.number(limit, 1) if limit else None
    place.report(_TRANSLATED, "an array is a sweep of one job")


def read_begin(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["hold_until"] = _date(place, text)
    place.report(_TRANSLATED, "the job waits until then")


def read_deadline(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["end_by"] = _date(place, text)
    place.report(_TRANSLATED, "it is the latest end of the job")


def _date(place: OptionPlace, text: str) -> Instant:
    """Return an instant; without a time zone the date is local, as for sbatch.

    Raises:  BadRequest ``value``.
    """
    try:
        return parse_date_time(text, local=True)
    except BadRequest:
        place.refuse(f"{text[:60]!r} is not a date", "write YYYY-MM-DDTHH:MM:SS")


def read_exclusive(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["exclusive"] = True
    if text:
        place.report(_APPROXIMATED, f"{text[:60]!r}: the job has its nodes exclusively")
    else:
        place.report(_TRANSLATED, "the job has its nodes exclusively")


def read_shared(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    draft.job["exclusive"] = False
    place.report(_TRANSLATED, "nodes may have other jobs too")


def read_features(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    if not re.fullmatch(r"[\w.|&,-]+", text):
        place.refuse(
            f"{text[:60]!r} has no equivalent in Headnode", "write names with & and |: intel&(no brackets)"
        )
    draft.needs["features"] = [tuple(part.split("|")) for part in re.split("[&,]", text)]
    place.report(_TRANSLATED, "they are features of the nodes")


def gpus_of(option: str, scope: GpuScope) -> Reader:
    """Return the reader of an option that counts GPUs: ``2``, ``a100:2``."""

    def read(draft: BatchDraft, place: OptionPlace, text: str) -> None:
        draft.gpus.ask(option, scope, place, text)

    return read


def read_gres(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read resources of each node: ``gpu:a100:2``, ``gpu,ssd``; others than GPUs are features."""
    parts = [part for part in text.split(",") if part.lower() not in ("", "none")]
    gpus = [part for part in parts if part.partition(":")[0].lower() == "gpu"]
    if len(gpus) > 1:
        place.refuse(f"{text[:60]!r} asks for GPUs twice", "write one of them: gpu:2")
    draft.gpus.ask("gres", GpuScope.NODE, place, gpus[0][4:] or "1" if gpus else "0")
    others = [name for name in (part.partition(":")[0] for part in parts) if name.lower() != "gpu"]
    add_features(draft, others)
    if others:
        listed = ", ".join(map(repr, others))
        place.report(_APPROXIMATED, f"nodes with the features {listed}, which are not counted")


def read_processors_per_gpu(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.gpus.processors = place.number(text, 1), place
    place.report(_TRANSLATED, "each GPU comes with this many processors of its node")


def read_memory_per_gpu(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.gpus.memory = max(1, place.megabytes(text, whole=True)), place
    place.report(_TRANSLATED, "the job reserves this memory for the processors of each GPU")


def read_processes_per_gpu(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.gpus.processes = place.number(text, 1), place
    place.report(_TRANSLATED, "this many processes for each GPU")


def read_only(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.task["required_nodes"] = _node_names(place, text)
    place.report(_TRANSLATED, "the job has these nodes")


def read_excluded(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["excluded_nodes"] = _node_names(place, text)
    place.report(_TRANSLATED, "the job has none of these nodes")


def _node_names(place: OptionPlace, text: str) -> tuple[str, ...]:
    try:
        return parse_nodes(text)
    except BadRequest as wrong:
        place.refuse(wrong.what, wrong.fix)


def read_licences(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    licences = []
    for part in text.split(","):
        name, _, amount = part.partition(":")
        licences.append(Licence(name.partition("@")[0], place.number(amount, 1) if amount else 1))
    draft.job["licences"] = tuple(licences)
    place.report(_TRANSLATED, "the job holds these licences")


def read_reservation(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["reservation"] = text
    place.report(_TRANSLATED, "the job runs in this reservation")


def read_requeue(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    draft.task["rerunnable"] = place.name == "--requeue"
    place.report(_TRANSLATED, "it sets whether the task may be requeued after a node failure")


def read_mail(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    kinds = {kind.strip().upper() for kind in text.split(",")}
    draft.job["notify_on_start"] = bool(kinds & {"BEGIN", "ALL"})
    draft.job["notify_on_completion"] = bool(kinds & {"END", "FAIL", "ALL"})
    others = sorted(kinds - {"BEGIN", "END", "FAIL", "ALL", "NONE"})
    if others:
        place.report(_NOT, f"no message is sent for {', '.join(others)}")
    else:
        place.report(_TRANSLATED, "messages are sent at the start, at the end, or both")


def read_address(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["email"] = text
    place.report(_TRANSLATED, "it is the address for messages")


def read_signal(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read ``B:USR1@120``; without ``B:`` Slurm signals the steps, and not the script."""
    prefix, _, rest = text.rpartition(":")
    letters = prefix.upper()
    if "R" in letters:
        place.refuse("a job does not run into a reservation here", "leave out R:", "signal")
    if letters not in ("", "B"):
        place.refuse(f"{text[:60]!r} is not known", "write SIGNAL@SECONDS or B:SIGNAL@SECONDS", "signal")
    try:
        asked = read_limit_signal(f"{'B' if letters else 'S'}:{rest}")
    except BadRequest as wrong:
        place.refuse(wrong.what, wrong.fix, "signal")
    draft.job["signal"] = str(asked)
    whom = "the script gets it" if letters else "the steps that srun starts get it, and not the script"
    place.report(_TRANSLATED, f"{whom}, this long before the run time limit")


def read_comment(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["description"] = text
    place.report(_TRANSLATED, "it is the description of the job")


def read_nice(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    if not re.fullmatch(r"[+-]?\d{0,10}", text):
        place.refuse(f"{text[:60]!r} is not a number", "write --nice, or a number such as --nice=100")
    low = text.startswith("-")
    draft.job["priority"] = Priority(2000 if low else 1000)
    place.report(_APPROXIMATED, "the priority is Normal" if low else "the priority is BelowNormal")


def read_distribution(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    first = text.split(":")[0].split(",")[0]
    if first not in ("block", "cyclic", "*"):
        place.refuse(f"{text[:60]!r} has no equivalent in Headnode", "write block or cyclic")
    draft.round_robin = first == "cyclic"
    place.report(_TRANSLATED, "it is the order of processes over nodes")


def read_export(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.all_variables, draft.named_variables = False, []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if name == "ALL":
            draft.all_variables = True
        elif equals:
            draft.variables[name] = value
        elif name not in ("NONE", "NIL"):
            draft.named_variables.append(name)
    place.report(_TRANSLATED, "these variables are in the environment of the program")
