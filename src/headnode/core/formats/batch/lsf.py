"""What each option of bsub asks for, but the resources of -R, which are in `lsf_options`.

Source:  IBM Spectrum LSF 10.1, bsub(1), "Options"; "Job arrays"; "Job dependency scheduling".
"""

import re
from datetime import datetime
from typing import Final

from headnode.core.formats.batch.draft import BatchDraft, Reader, array_ranges
from headnode.core.formats.batch.gpus import GpuScope
from headnode.core.formats.batch.lines import LIMIT_OPTIONS
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import ResourceLimit

_KEPT, _TRANSLATED, _APPROXIMATED = Fidelity.KEPT, Fidelity.TRANSLATED, Fidelity.APPROXIMATED
_NAMED: Final = re.compile(r"([^\[\]%]*)(?:\[([^\]]*)\](?:%(\d+))?)?")


def read_name(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read a name, with the numbers of an array: ``sim[1-10:2]%5``."""
    match = _NAMED.fullmatch(text)
    if match is None:
        place.refuse(f"{text[:60]!r} is not a name", "write NAME, or NAME[1-10]%5 for an array")
    name, numbers, limit = match.groups()
    draft.job["name"] = name
    draft.array = array_ranges(place, numbers) if numbers is not None else ()
    if draft.array and draft.array[0][0] < 1:
        place.refuse("an array begins with 1", "write NAME[1-10]")
    draft.at_once = place.number(limit, 1) if limit else None
    place.report(
        _TRANSLATED if draft.array else _KEPT,
        "an array is a sweep of one job" if draft.array else f"the name of the job is {name!r}",
    )


def read_processors(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    least, comma, most = text.partition(",")
    draft.tasks = place.number(least, 1)
    draft.most_tasks = place.number(most, draft.tasks) if comma else None
    place.report(_TRANSLATED, "a processor for each task of LSF")


def read_nodes(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read a number of whole hosts."""
    draft.nodes, draft.job["exclusive"] = place.number(text, 1), True
    place.report(_TRANSLATED, "the job has this many nodes exclusively")


def read_run_time(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read ``[hour:]minute[/host]``."""
    clock, slash, _ = text.partition("/")
    draft.run_time = _minutes(place, clock)
    if not draft.run_time:
        place.refuse("a run time limit is at least 1 minute", "write minutes, or HOURS:MINUTES")
    if slash:
        place.report(_APPROXIMATED, "it is the run time limit; it is the same on slow and fast nodes")
    else:
        place.report(_TRANSLATED, "it is the run time limit")


def read_queue(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    names = text.split()
    draft.job["template"] = names[0] if names else ""
    if len(names) > 1:
        place.report(_APPROXIMATED, f"the job template is {names[0]!r}; the other queues are left out")
    else:
        place.report(_TRANSLATED, "a queue is a job template here")


def output_file(*, append: bool) -> Reader:
    """Return the reader of ``-o`` and ``-oo``."""

    def read(draft: BatchDraft, place: OptionPlace, text: str) -> None:
        draft.output, draft.task["append_output"] = text, append
        if draft.merged:
            draft.task["append_error"] = append
        place.report(_TRANSLATED, "it is the file of standard output")

    return read


def error_file(*, append: bool) -> Reader:
    """Return the reader of ``-e`` and ``-eo``."""

    def read(draft: BatchDraft, place: OptionPlace, text: str) -> None:
        draft.error, draft.task["append_error"], draft.merged = text, append, False
        place.report(_TRANSLATED, "it is the file of standard error")

    return read


def lsf_file(draft: BatchDraft, text: str) -> str:
    """Return the name of a file as ours: with our variables in place of ``%J`` and ``%I``."""
    stars = text.replace("*", "^*") if draft.array else text
    return stars.replace("%J", "%CCP_JOBID%").replace("%I", "*" if draft.array else "0")


def _minutes(place: OptionPlace, text: str) -> Seconds:
    """Read ``[hour:]minute``.

    Raises:  BadRequest ``value``.
    """
    fields = text.split(":")
    if len(fields) > 2 or not all(re.fullmatch(r"[0-9]{1,15}", field) for field in fields):
        place.refuse(f"{text[:60]!r} is not a time", "write minutes, or HOURS:MINUTES")
    hours, minutes = (["0", *fields])[-2:]
    return Seconds(float((place.number(hours) * 60 + place.number(minutes)) * 60))


def read_warning(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read what is done before the run time limit: a signal, or a command, which is not run here."""
    draft.warning = place, text.strip("'")


def read_warning_time(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read how long before the run time limit it is done: ``[hour:]minute``."""
    draft.warning_time = place, _minutes(place, text.strip("'"))


def read_input(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.task["standard_input"] = lsf_file(draft, text)
    place.report(_KEPT, "it is the file of standard input")


def read_directory(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    if "%" in text:
        place.refuse(f"name patterns such as {text[:60]!r} are not supported", "write a plain path")
    draft.task["work_directory"] = text
    place.report(_TRANSLATED, "it is the work directory")


def read_variables(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read ``none``, or names and values; with ``all`` those of the shell, too."""
    draft.all_variables, draft.named_variables = False, []
    for part in re.split(r",\s*(?=(?:~?[A-Za-z_]\w*)\s*(?:=|,|$))", text.strip()):
        name, equals, value = part.partition("=")
        if name == "all":
            draft.all_variables = True
        elif name.startswith("~"):
            place.refuse("a variable cannot be left out here", "name those that the program needs")
        elif equals:
            quoted = len(value) > 1 and value[0] == value[-1] == "'"
            draft.variables[name] = value[1:-1] if quoted else value
        elif name != "none":
            draft.named_variables.append(name)
    place.report(_TRANSLATED, "these variables are in the environment of the program")


def read_notice(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    draft.job["notify_on_start" if place.name == "-B" else "notify_on_completion"] = True
    place.report(_TRANSLATED, "a message is sent")


def read_exclusive(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    draft.job["exclusive"] = True
    place.report(_TRANSLATED, "the job has its nodes exclusively")


def read_rerunnable(draft: BatchDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
    draft.task["rerunnable"] = place.name == "-r"
    place.report(_TRANSLATED, "it sets whether the task may be requeued after a node failure")


def read_hosts(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read the hosts from which those of the job are taken."""
    names = [re.sub(r"\+\d*\Z", "", name) for name in text.split()]
    others = [name for name in names if re.search(r"[!~@+]", name) or name in ("all", "others", "allremote")]
    if others or not names:
        place.refuse(f"{text[:60]!r} has no equivalent in Headnode", "write names of nodes")
    draft.job["requested_nodes"] = tuple(names)
    if "+" in text:
        place.report(_APPROXIMATED, "the job runs on some of these nodes; none of them is preferred")
    else:
        place.report(_TRANSLATED, "the job runs on some of these nodes")


_HOW_GPUS_ARE_USED: Final = ("mode", "mps", "j_exclusive", "aff", "block", "gpack")


def read_gpus(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read ``num=2/task:gmodel=A100:mode=shared``; ``-`` is one GPU.  A number is that of each host."""
    values = dict(
        part.strip().partition("=")[::2] for part in ("" if text == "-" else text).split(":") if part
    )
    number, _, method = values.pop("num", "1").partition("/")
    model = values.pop("gmodel", "")
    for name in values:
        if name not in _HOW_GPUS_ARE_USED:
            place.refuse(
                f"{name[:60]!r} is not supported", "write num and gmodel: num=2:gmodel=A100", "resource"
            )
    if method not in ("", "host", "task"):
        place.refuse(f"{method[:60]!r} is not supported", "write num=N, or num=N/task", "resource")
    scope = GpuScope.PROCESS if method == "task" else GpuScope.NODE
    draft.gpus.ask("gpu", scope, place, ":".join(filter(None, (model, str(place.number(number))))))
    if values.get("mps", "no") != "no":
        place.report(_APPROXIMATED, f"the job counts GPUs, this many {scope}; no other job shares them")


def read_begin(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["hold_until"] = _date(place, text)
    place.report(_TRANSLATED, "the job waits until then")


def read_end(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    draft.job["end_by"] = _date(place, text)
    place.report(_TRANSLATED, "it is the latest end of the job")


def _date(place: OptionPlace, text: str) -> Instant:
    """Return an instant; without a year it would depend on the day on which the script is read.

    Raises:  BadRequest ``value``.
    """
    try:
        at = datetime.strptime(text, "%Y:%m:%d:%H:%M").astimezone()
    except ValueError:
        place.refuse(f"{text[:60]!r} is not a date with a year", "write YEAR:MONTH:DAY:HOUR:MINUTE")
    return Instant(at.timestamp())


_LIMITS: Final = {option: name for name, option in LIMIT_OPTIONS.items()}


def read_limit(draft: BatchDraft, place: OptionPlace, text: str) -> None:
    """Read the limit of a process; a number without a unit is KB."""
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text, re.IGNORECASE)
    if match is None:
        place.refuse(f"{text[:60]!r} is not an amount of memory", "write a number with K, M, G or T: 4G")
    size = int(match[1]) * 1024 ** (" KMGT".index(match[2].upper() or "K"))
    limit = ResourceLimit(_LIMITS[place.name], soft=size)
    draft.job["resource_limits"] = (*draft.job.get("resource_limits", ()), limit)
    place.report(_TRANSLATED, f"it is the limit {limit.name!r} of every process; a plain number is KB")
