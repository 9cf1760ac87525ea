"""``qsub`` and ``qdel`` of PBS and of Grid Engine.

Source:  PBS Professional 22, qsub(1B), qdel(1B); Grid Engine 8.1, qsub(1), qdel(1).
"""

import os
import sys
import time
from functools import partial

from headnode.apps.cli.batch_programs.rows import LIVING, JobSource, numbers_of, typed_numbers
from headnode.apps.cli.batch_programs.sbatch import (
    exit_code_of,
    limited_scope,
    script_at,
    script_request,
    submitted,
)
from headnode.apps.cli.batch_programs.squeue import own_user
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    acted_on,
    ignored,
    number_of,
    of_scripts,
    read_pbs_words,
    refused,
)
from headnode.apps.client.client import Client
from headnode.apps.client.submitter import quoted_line
from headnode.core.formats.batch.qsub_options import GRID_ENGINE_OPTIONS, PBS_OPTIONS
from headnode.core.model.errors import BadRequest, HeadnodeError, NotFound, Unavailable, WrongState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Answer = TypeVar("Answer")

UNKNOWN_JOB, HISTORY, ABOVE_LIMIT = 153, 35, 38  # exit statuses of PBS: last bytes of 15001, 15139, 15142
UNKNOWN_QUEUE = 170  # the last byte of 15018
_OWN_OF_PBS = ("z",)
_OWN_OF_GRID_ENGINE = ("b", "now", "shell", "sync", "terse", "w")
_OF_SCRIPTS = {
    "pbs": of_scripts(PBS_OPTIONS, _OWN_OF_PBS),
    "gridengine": of_scripts(GRID_ENGINE_OPTIONS, _OWN_OF_GRID_ENGINE),
}
_OF_QDEL = {
    **ignored("f! x!", "a job that ended has left the queue"),
    **refused("W t", "write the tasks behind the job: 12.3"),
}
OPTIONS = {"qsub": _OF_SCRIPTS, "qdel": {"pbs": _OF_QDEL, "gridengine": acted_on("u") | _OF_QDEL}}
_UNREADABLE = 2


class QsubLine:
    """A command line of qsub: options for the job, options for the program, and what is submitted."""

    def __init__(self, system: str) -> None:
        self.system = system
        self.options: list[str] = []
        self.own: dict[str, str] = {}
        self.words: list[str] = []


def run(program: str, argv: "Sequence[str]", client: Client, system: str) -> int:
    """Submit a job to a system, ``pbs`` or ``gridengine``, or end jobs."""
    return _delete(argv, client, system) if program == "qdel" else _submit(read_line(argv, system), client)


def read_line(argv: "Sequence[str]", system: str) -> QsubLine:
    """Return a command line read; the options of the program are taken out.

    Raises:  ProgramRefusal with status 2 for an unknown option.
    """
    line, left = QsubLine(system), list(argv)
    while left and left[0].startswith("-") and len(left[0]) > 1:
        word = left.pop(0)
        if word == "--":
            line.own["b"] = "y"
            break
        name, value = option_of(word, left, system)
        _take(line, name, value)
    line.words = left
    return line


def option_of(word: str, left: "list[str]", system: str) -> "tuple[str, list[str]]":
    """Return the name of an option and its values, which are taken from `left`.

    Raises:  ProgramRefusal with status 2 for an unknown option.
    """
    name, glued = word[1:], ""
    if system == "pbs" and len(name) > 1:
        name, glued = name[0], name[1:]
    known = _OF_SCRIPTS[system].get(name)
    if known is None:
        what = (
            f'invalid option argument "{word}"' if system == "gridengine" else f"invalid option -- '{name}'"
        )
        raise ProgramRefusal(what, status=_UNREADABLE, prefix="")
    if glued and known.takes == "always":
        return name, [glued]
    count = 0 if known.takes == "never" else 2 if name == "pe" else 1
    if len(left) < count:
        raise ProgramRefusal(f'invalid option argument "{word}"', status=_UNREADABLE, prefix="")
    values = [left.pop(0) for _ in range(count)]
    if glued:
        left.insert(0, f"-{glued}")
    return name, values


def _take(line: QsubLine, name: str, values: "list[str]") -> None:
    if line.system == "gridengine" and name in _OWN_OF_GRID_ENGINE:
        line.own[name] = values[0].lower() if values else "y"
        return
    if name == "N" and line.system == "gridengine" and values[0][:1].isdigit():
        what = f'denied: "{values[0]}" is not a valid object name (cannot start with a digit)'
        raise ProgramRefusal(f"Unable to run job: {what}", "Exiting.", prefix="bare")
    if line.system == "pbs":
        if name in _OWN_OF_PBS:
            line.own[name] = "y"
            return
        if name == "W" and values[0].replace(" ", "").lower() == "block=true":
            line.own["sync"] = "y"
            return
    line.options += [f"-{name}", *values]


def _submit(line: QsubLine, client: Client) -> int:
    if line.own.get("now", "n") in ("y", "yes"):
        raise ProgramRefusal("-now y is not supported here: a job waits in the queue until there is room")
    script, names = _script(line)
    request = script_request(client, line.system, script, names, line.options)
    if line.own.get("w") == "v":
        return _verify(request, client)
    in_words = partial(in_words_of, line.system)
    job = submitted("qsub", client, request, in_words=in_words)
    _print_submitted(line, job, request, client)
    if line.own.get("sync") not in ("y", "yes"):
        return 0
    status = exit_code_of(job, client)
    if line.system == "gridengine":
        print(f"Job {job} exited with exit code {status}.")
    return status


def _script(line: QsubLine) -> "tuple[str, list[str]]":
    """Return the script, and its name and arguments."""
    if line.own.get("b") in ("y", "yes"):
        if not line.words:
            raise ProgramRefusal("command required for a binary job", prefix="")
        return f"#!/bin/sh\nexec {quoted_line(line.words)}\n", [os.path.basename(line.words[0])]  # noqa: PTH119
    if not line.words or line.words[0] == "-":
        text = script_at("-")
        return text or "\n", ["STDIN", *line.words[1:]]
    path = line.words[0]
    if not os.path.isfile(path):  # noqa: PTH113 (pathlib costs 6 ms)
        if line.system == "pbs":
            raise ProgramRefusal(f"script file:: No such file or directory: {path}", prefix="")
        raise ProgramRefusal(
            f"Unable to read script file because of error: error opening {path}: No such file or directory",
            status=14,
            prefix="bare",
        )
    return script_at(path), list(line.words)


def in_words_of(system: str, refused: HeadnodeError) -> ProgramRefusal:
    """Return the refusal of a job as qsub of a system says it."""
    if system == "pbs" and refused.code == "limit":
        first = f"would exceed complex's per-{limited_scope(refused)} limit"
        return ProgramRefusal(first, refused.what, refused.fix, status=ABOVE_LIMIT, prefix="")
    no_queue = refused.code == "no-such-template"
    if system == "pbs":
        first, status = ("Unknown queue", UNKNOWN_QUEUE) if no_queue else (refused.what, 1)
        return ProgramRefusal(first, refused.fix, status=status, prefix="")
    what = "Job was rejected because job requests an unknown queue" if no_queue else refused.what
    unknown = isinstance(refused, BadRequest) and refused.code == "option"
    lines = (f"Unable to run job: {what}; {refused.fix}", "Exiting.")
    return ProgramRefusal(*lines, status=_UNREADABLE if unknown else 1, prefix="bare")


def _verify(request: "dict[str, Any]", client: Client) -> int:
    try:
        explanation = client.ask("check_job", **request)["explanation"]
    except HeadnodeError as refused:
        raise in_words_of("gridengine", refused) from None
    if explanation["refused"] is not None:
        raise ProgramRefusal(
            f"Unable to run job: {explanation['refused']['what']}",
            "verification: no suitable queues",
            "Exiting.",
            prefix="bare",
        )
    print("verification: found suitable queue(s)")
    return 0


def _print_submitted(line: QsubLine, job: int, request: "dict[str, Any]", client: Client) -> None:
    (listed,) = _patiently(job, lambda: JobSource(client).listed([job]))
    if line.system == "pbs":
        if "z" not in line.own:
            behind = _patiently(job, lambda: server(client))
            print(f"{job}{'[]' if listed['array'] else ''}.{behind}")
    else:
        number = f"{job}.{spans(listed['array'])}" if listed["array"] else str(job)
        kind = "job-array" if listed["array"] else "job"
        named = f'Your {kind} {number} ("{listed["name"]}") has been submitted'
        print(number if "terse" in line.own or _has(request["jobfile"], "-terse") else named)
    sys.stdout.flush()


def _patiently(job: int, ask: "Callable[[], Answer]") -> "Answer":
    """Ask the head about a job that it has; it may be started anew meanwhile.

    Raises:  ProgramRefusal with the id: a user who thinks that there is no job submits it again.
    """
    from headnode.apps.cli.commands.job_wait import PAUSE, TIMEOUT

    until = time.monotonic() + TIMEOUT
    while True:
        try:
            return ask()
        except Unavailable as away:
            if time.monotonic() > until:
                raise ProgramRefusal(f"job {job} was submitted, but {away.what}", prefix="") from None
            time.sleep(PAUSE)


def _has(script: str, option: str) -> bool:
    return any(line.startswith("#$") and option in line.split() for line in script.splitlines())


def spans(array: str) -> str:
    """Return the numbers of an array as Grid Engine writes them: ``1-6:1``.

    >>> spans("1-6%2"), spans("3")
    ('1-6:1', '3-3:1')
    """
    found = []
    for part in array.partition("%")[0].split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        found.append(f"{first}-{last or first}:{step or 1}")
    return ",".join(found)


def server(client: Client) -> str:
    """Return the name of the server behind the ids of PBS: that of the cluster."""
    return str(client.ask("cluster")["cluster"]["name"])


def ids_of(users: "Sequence[str]", source: JobSource, states: "Sequence[str]") -> "list[str]":
    """Return the ids of the jobs of users that are in one of the states; ``*`` is every user."""
    owners = [None if user == "*" else user for user in users]
    return [str(job["id"]) for owner in owners for job in source.pages(states, owner=owner)]


def _delete(argv: "Sequence[str]", client: Client, system: str) -> int:
    """End jobs, or elements of arrays."""
    args = read_pbs_words("qdel", argv, OPTIONS["qdel"][system], status=1)
    targets, users = args.jobs(), args.parts("u")
    source = JobSource(client)
    targets += ids_of(users, source, LIVING)
    if not targets and not users:
        raise ProgramRefusal("no job was named", prefix="")
    return max([_delete_one(target, source, system) for target in targets], default=0)


def _delete_one(target: str, source: JobSource, system: str) -> int:
    job, numbers = job_address(target, system)
    if job is None:
        print(f"The job {target} of user(s) {own_user()} does not exist")
        return 1
    waits = system == "gridengine" and any(each["state"] == "Queued" for each in source.listed([job]))
    try:
        _stop(source, job, numbers)
    except (NotFound, WrongState) as refused:
        return _not_there(target, refused, system)
    except HeadnodeError as refused:
        sys.stderr.write(f"qdel: {refused.what}\n")
        return 1
    if system == "gridengine":
        what = f"job-array task {job}.{numbers}" if numbers else f"job {job}"
        gone = f"deleted {what}" if waits else f"registered the {what} for deletion"
        print(f"{own_user()} has {gone}")
    return 0


def job_address(target: str, system: str) -> "tuple[int | None, str]":
    """Return the job and the numbers of its array of ``12``, ``12.3-4``, ``12[3].server``."""
    if system == "pbs":
        job, _, rest = target.partition(".")[0].partition("[")
        numbers = rest.rstrip("]")
    else:
        job, _, numbers = target.partition(".")
    number = number_of(job)
    return (None, "") if number is None else (number, numbers)


def _stop(source: JobSource, job: int, numbers: str) -> None:
    if not numbers:
        source.client.ask("cancel_job", job=job)
        return
    for task in elements_of(source, job, numbers, ("Queued", "Running")):
        source.client.ask("cancel_task", job=job, task=task["task"], instance=task["instance"])


def elements_of(source: JobSource, job: int, numbers: str, states: "Sequence[str]") -> "list[dict[str, Any]]":
    """Return the elements of an array with these numbers that are in one of the states."""
    wanted = typed_numbers(numbers)
    return [
        task
        for listed in source.listed([job])
        for number, task in zip(numbers_of(listed["array"]), source.tasks(job), strict=False)
        if number in wanted and task["state"] in states
    ]


def _not_there(target: str, refused: HeadnodeError, system: str) -> int:
    if system == "gridengine":
        print(f'denied: job "{target}" does not exist')
        return 1
    if isinstance(refused, NotFound):
        sys.stderr.write(f"qdel: Unknown Job Id {target}\n")
        return UNKNOWN_JOB
    sys.stderr.write(f"qdel: Job has finished {target}\n")
    return HISTORY
