"""What ``scontrol`` does with jobs: hold, release, requeue, write and change them.

Source:  Slurm 22.05, scontrol(1).
"""

import sys

from headnode.apps.cli.batch_programs.rows import LIVING, BatchRow, JobSource
from headnode.apps.cli.batch_programs.squeue import job_numbers, own_user
from headnode.apps.cli.batch_programs.values import limit_of
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any


def _meant(arguments: "Sequence[str]", client: Client) -> "Iterable[int]":
    """Return the jobs of ids, or of ``jobname=NAME``: those of the user that have not ended."""
    first, equals, name = arguments[0].partition("=")
    if not equals:
        return job_numbers(part for word in arguments for part in word.split(",") if part)
    if first.lower() not in ("name", "jobname"):
        raise ProgramRefusal(f"Invalid job id: {arguments[0]}")
    return [int(job["id"]) for job in JobSource(client).pages(LIVING, owner=own_user(), name=name)]


def act_on_jobs(
    verb: str, failure: str, **fields: "Any"
) -> "Callable[[Sequence[str], Client, ProgramWords], int]":
    """Return what asks a verb for each job of a list; the worst exit status counts."""

    def act(arguments: "Sequence[str]", client: Client, args: ProgramWords) -> int:
        if not arguments:
            raise ProgramRefusal("too few arguments for keyword", prefix="bare")
        from headnode.core.model.errors import HeadnodeError

        status = 0
        for word in _words(arguments):
            try:
                if _numbers(word):
                    _act_on_elements(verb, word, client, fields)
                    continue
                for job in _meant([word], client):
                    client.ask(verb, job=job, **fields)
            except HeadnodeError as refusal:
                status = 1
                if not args.has("quiet"):
                    sys.stderr.write(f"{in_words(refusal)} for job {word}\n{failure}: {refusal.what}\n")
        return status

    return act


def _words(arguments: "Sequence[str]") -> "list[str]":
    """Return the jobs that were typed one by one; commas in brackets are of elements."""
    found: list[str] = []
    for word in arguments:
        for part in word.split(","):
            if found and "[" in found[-1] and "]" not in found[-1]:
                found[-1] += f",{part}"
            elif part:
                found.append(part)
    return found


def _numbers(word: str) -> str:
    """Return the numbers of elements in ``12_3`` and ``12_[3-5]``; "" where the whole job is meant."""
    return "" if "=" in word else word.partition("_")[2].strip("[]").partition("%")[0]


_OF_ELEMENTS = {"hold_job": "hold_task", "release_job": "release_task", "requeue_job": "requeue_task"}


def _act_on_elements(verb: str, word: str, client: Client, fields: "dict[str, Any]") -> None:
    """Hold, release or requeue elements of an array.

    Raises:  WrongState, HeadnodeError.
    """
    from headnode.apps.cli.batch_programs.qsub import elements_of
    from headnode.core.model.errors import NotFound, WrongState

    if verb not in _OF_ELEMENTS:
        raise WrongState(
            code="element", what="elements of an array are suspended and resumed with their job", fix=""
        )
    states = ("Queued", "Running", "Failed", "Canceled", "Finished")
    found = elements_of(JobSource(client), job_numbers([word])[0], _numbers(word), states)
    if not found:
        raise NotFound(code="no-such-job", what="Invalid job id specified", fix="")
    more = {"requeue": True} if fields.get("requeue") else {}
    for one in found:
        named = {"job": one["job"], "task": one["task"], "instance": one["instance"]}
        client.ask(_OF_ELEMENTS[verb], **named, **more)


def in_words(refusal: "Any") -> str:
    """Return what a refusal is in Slurm's words."""
    known = {
        "no-such-job": "Invalid job id specified",
        "job-over": "Job has already finished",
        "not-requeueable": "Requested operation is presently disabled",
    }
    return known.get(refusal.code, str(refusal.what))


def write_script(arguments: "Sequence[str]", client: Client, args: ProgramWords) -> int:
    """Write the script of a job: ``write batch_script 12 [FILE]``; ``-`` is standard output."""
    if not arguments or arguments[0].lower() != "batch_script" or len(arguments) not in (2, 3):
        raise ProgramRefusal("invalid or too few arguments for keyword:write", prefix="bare")
    from headnode.core.model.errors import HeadnodeError

    (job,) = job_numbers([arguments[1]])
    try:
        text = client.ask("export_job", job=job, dialect="submitted")["text"]
    except HeadnodeError as refusal:
        raise ProgramRefusal(f"job script retrieval failed: {in_words(refusal)}", prefix="bare") from None
    file = arguments[2] if len(arguments) == 3 else f"slurm-{job}.sh"
    if file == "-":
        sys.stdout.write(text)
        return 0
    try:
        with open(file, "w") as script:  # noqa: PTH123 (pathlib costs as much as a short command)
            script.write(text)
    except OSError as trouble:
        raise ProgramRefusal(f"failed to open file `{file}`: {trouble.strerror}", prefix="bare") from None
    if not args.has("quiet"):
        print(f"batch script for job {job} written to {file}")
    return 0


def update_job(jobs: str, parameters: "dict[str, str]", client: Client) -> int:
    """Change jobs: ``update jobid=12 timelimit=+30``."""
    from headnode.apps.cli.batch_programs.changes import terms_of

    for job in job_numbers(jobs.split(",")):
        client.ask("modify_job", job=job, terms=terms_of(_with_limit(parameters, job, client)))
    return 0


def _with_limit(parameters: "dict[str, str]", job: int, client: Client) -> "dict[str, str]":
    """Return changes with the whole time limit where minutes more or less were given."""
    found = {}
    for key, value in parameters.items():
        name, sign = key.rstrip("+-"), key[-1:] if key[-1:] in "+-" else value[:1]
        if name != "timelimit" or sign not in ("+", "-"):
            found[key] = value
            continue
        found[name] = str(_longer(sign, value.lstrip("+-"), job, client))
    return found


def _longer(sign: str, minutes: str, job: int, client: Client) -> int:
    source = JobSource(client)
    listed = source.listed([job])
    limit = limit_of(BatchRow(source, listed[0])) if listed else None
    if not (minutes.isascii() and minutes.isdigit() and len(minutes) < 9) or limit is None:
        raise ProgramRefusal(f"Invalid TimeLimit value: {sign}{minutes}", prefix="bare")
    return max(1, int(limit // 60) + (1 if sign == "+" else -1) * int(minutes))
