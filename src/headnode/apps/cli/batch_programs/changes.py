"""What ``scontrol update`` changes of a job, as terms of this cluster.

Source:  Slurm 22.05, scontrol(1), "SPECIFICATIONS FOR UPDATE COMMAND, JOBS".
"""

import time

from headnode.apps.cli.batch_programs.values import ALL_NODES
from headnode.apps.cli.batch_programs.words import ProgramRefusal, moment, utc_time
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.batch.slurm import slurm_time
from headnode.core.formats.text.source_text import SourceText
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HIGHEST = 4000  # priority


def unknown_parameter(name: str) -> ProgramRefusal:
    """Return the refusal of a parameter that cannot be changed."""
    return ProgramRefusal(
        f"Update of this parameter is not supported: {name}", "Request aborted", prefix="bare"
    )


def run_time(text: str) -> float | None:
    """Return a time limit in seconds; None: no limit.

    Raises:  ProgramRefusal.
    """
    try:
        seconds = slurm_time(OptionPlace(SourceText(text), 0, "TimeLimit", []), text)
    except BadRequest:
        raise ProgramRefusal(f"Invalid TimeLimit value: {text}", prefix="bare") from None
    return None if seconds == FOREVER else seconds


def _run_time(text: str) -> str:
    limit = run_time(text)
    return "Infinite" if limit is None else f"{int(limit // 60)}m"


def _priority(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= HIGHEST):
        raise ProgramRefusal(f"Invalid Priority value: {text}; here it is 0 to {HIGHEST}", prefix="bare")
    return text


def _start(text: str) -> str:
    return utc_time(moment(text, time.time(), ahead=True))


_TERMS: "Mapping[str, tuple[str, Callable[[str], str]]]" = {
    "account": ("projectname", str),
    "comment": ("description", str),
    "deadline": ("endby", _start),
    "eligibletime": ("holduntil", _start),
    "excnodelist": ("excludednodes", str),
    "features": ("feature", str),
    "jobname": ("jobname", str),
    "mailuser": ("emailaddress", str),
    "name": ("jobname", str),
    "nodelist": ("onlynodes", str),
    "numcpus": ("numprocessors", str),
    "partition": ("nodegroup", lambda text: "" if text == ALL_NODES else text),
    "priority": ("priority", _priority),
    "qos": ("jobtemplate", str),
    "reqnodelist": ("onlynodes", str),
    "reservationname": ("reservation", str),
    "starttime": ("holduntil", _start),
    "timelimit": ("runtime", _run_time),
    "timemin": ("minimumruntime", _run_time),
}


def _dependency_terms(text: str) -> "dict[str, str]":
    """Return the terms of all dependencies of a job: those that it had before are replaced.

    Raises:  ProgramRefusal.
    """
    from headnode.core.formats.batch.dependencies import read_slurm
    from headnode.core.formats.batch.draft import BatchDraft
    from headnode.core.formats.batch.lines import BatchSystem
    from headnode.core.formats.hpc_values import format_dependencies

    draft = BatchDraft(BatchSystem.SLURM)
    try:
        if text:
            read_slurm(draft, OptionPlace(SourceText(text), 0, "Dependency", []), text)
    except BadRequest as error:
        raise ProgramRefusal(f"Job dependency problem: {error.what}; {error.fix}", prefix="bare") from None
    if draft.job.get("singleton") or draft.job.get("after_corresponding"):
        what = "singleton and aftercorr are set when the job is submitted"
        raise ProgramRefusal(f"Job dependency problem: {what}", prefix="bare")
    ids = {name: ",".join(map(str, draft.job.get(field, ()))) for name, field in _IDS.items()}
    others = format_dependencies(draft.job.get("dependencies", ()))
    any_one = str(bool(draft.job.get("any_dependency"))).lower()
    return {**ids, "dependencies": others, "anydependency": any_one}


_IDS = {
    "parentjobids": "parents",
    "afterfailure": "after_failure",
    "afterexit": "after_exit",
    "afterstart": "after_start",
}


def terms_of(parameters: "Mapping[str, str]") -> "dict[str, str]":
    """Return the terms of what is to change.

    Raises:  ProgramRefusal for what cannot be changed.
    """
    found: dict[str, str] = {}
    for name, value in parameters.items():
        if name == "dependency":
            found |= _dependency_terms(value)
            continue
        if name not in _TERMS:
            raise unknown_parameter(f"{name}={value}")
        term, convert = _TERMS[name]
        found[term] = convert(value)
    return found
