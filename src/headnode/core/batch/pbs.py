"""The PBS family as text: OpenPBS, PBS Pro, Torque, and the programs of Slurm that speak as Torque.

They share qsub, qdel, qhold, qrls, qalter and qsig.  What qstat prints has three forms; `pbs_answers` reads
them.

Source:  OpenPBS, qsub(1B), qstat(1B), qalter(1B), pbs_error.h, job.h; Torque 6, qsub(1), qstat(1), "Job exit
status"; Debian, slurm-wlm-torque 22.05.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from headnode.core.batch.dialect import (
    CommandResult,
    Dialect,
    ForeignAction,
    Rows,
    Submission,
    SubmissionResult,
)
from headnode.core.batch.job_script import SCRIPT
from headnode.core.batch.pbs_answers import MARKER_VARIABLE, jobs_listed
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.signals import UNHEARD_BESIDE_A_SHELL, SignalTarget

_ID = re.compile(r"\d{1,12}(?:\[\])?(?:\.[A-Za-z0-9][\w.-]{0,253})?", re.ASCII)
_MIN_NAME: Final = 15  # characters that every PBS takes
_SUBMIT: Final = """marker=$1 short=$2; shift 2
said=$(qsub -N "$marker" "$@" 2>&1); status=$?
case $status:$said in
0:*) ;;
*"illegal -N value"*) said=$(qsub -N "$short" -v "{variable}=$marker" "$@" 2>&1); status=$? ;;
esac
printf '%s\\n' "$said"; exit $status"""
"""Old servers take names of 15 characters: they get the marker as a variable, which qstat shows too.

This name is refused by qsub itself, before it asks its server: nothing can be queued twice.
"""
_LIST: Final = """for form in '-F json' -x ''; do
  { complaint=$(qstat -f $form 2>&1 1>&3 3>&-); status=$?; } 3>&1
  [ $status = 2 ] || break
done
[ -z "$complaint" ] || printf '%s\\n' "$complaint" >&2
exit $status"""
"""As JSON (OpenPBS), as XML (Torque), as text: a qstat ends with status 2 if it has no such option."""
_HISTORY: Final = '[ $# -gt 0 ] || exit 2; exec qstat -x -f "$@"'
_NO_OPTION: Final = 2  # the status of qstat
_NOTHING: Final = 153  # the status of qstat for unknown jobs: 15001 of 256
_UNKNOWN_JOBS = re.compile(r"qstat: (?:Unknown Job Id|Job has finished|Unknown Job)\b.*")
_REFUSALS = re.compile(
    r"Unknown queue|Unknown resource|[Ii]llegal|Job exceeds|Job violates|Bad UID|Bad GID|Unauthorized"
    r"|Access to queue is denied|Invalid (?:account|partition|qos|feature|credential for)|invalid option"
    r"|cannot be used with|Resource invalid|Group is not|is not valid|Unknown option|error: Invalid"
    r"|LOG_ERROR::validate|not allowed to|Requested node configuration is not available",
)
INFINITE: Final = 10**9  # seconds: qalter cannot take a limit away


class Pbs(Dialect):
    """OpenPBS, PBS Pro and Torque; where they differ, what all of them understand."""

    system = ResourceSystem.PBS

    def submit(self, submission: Submission) -> Sequence[str]:
        """Directives are read until the first command: there are none in our scripts before that.

        Without -S the login shell of the user would run the script.
        """
        short = submission.marker.replace(submission.marker[3:12], "")[:_MIN_NAME]
        argv = ["sh", "-c", _SUBMIT.format(variable=MARKER_VARIABLE), "qsub", submission.marker, short]
        argv += ["-S", "/bin/sh", "-j", "oe", "-o", "scheduler.log", "-r", "n", "-m", "n"]
        for option, value in (("-q", submission.queue), ("-A", submission.project)):
            argv += [option, value] if value else []
        return [*argv, "-l", ",".join(_sizes(submission)), SCRIPT]

    def submitted(self, result: CommandResult) -> SubmissionResult:
        """Warnings may stand before the id.  What is not clearly refused may be queued."""
        ids = [line for line in result.lines if _ID.fullmatch(line)]
        if result.status == 0 and ids:
            return SubmissionResult("queued", ids[-1])
        text = result.err or result.out
        if result.status and _REFUSALS.search(text):
            message = next(line for line in text.splitlines() if _REFUSALS.search(line))
            return SubmissionResult("refused", message=message.strip())
        return SubmissionResult("doubtful", message=result.complaint)

    def poll(self, users: Sequence[str]) -> Sequence[str]:  # noqa: ARG002  (-u and -f exclude each other)
        """List all jobs that are not over: of several ids, some versions print only the first as JSON."""
        return ["sh", "-c", _LIST]

    def polled(self, result: CommandResult) -> Rows | None:
        """A server that is away gives a whole JSON document without jobs: only the status tells."""
        if result.status == _NOTHING and not (result.out + result.err).strip():
            return {}  # how the programs of Slurm say that there is no job at all
        return jobs_listed(result.out) if result.status == 0 else None

    def history(self, markers: Sequence[str], jobs: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """Ask by id, as text or XML: JSON of several jobs is not whole in some versions."""
        return ["sh", "-c", _HISTORY, "qstat", *jobs]

    def remembered(self, result: CommandResult) -> Rows | None:
        """Jobs that are unknown are complained of, the others are printed; without a history all fails."""
        if result.status is None or result.status == _NO_OPTION:
            return None
        complaints = [line for line in result.err.splitlines() if line.strip()]
        if result.status and not complaints:
            return None
        if not all(_UNKNOWN_JOBS.fullmatch(line.strip()) for line in complaints):
            return None
        return jobs_listed(result.out)

    def act(self, action: ForeignAction, jobs: Sequence[str], submission: Submission) -> Sequence[str]:
        """A job that is over cannot be deleted, the others are."""
        limit = ["-l", _walltime(INFINITE if submission.limit is None else submission.limit)]
        return [*_ACTIONS[action], *(limit if action is ForeignAction.LIMIT else ()), *jobs]

    def signal(self, jobs: Sequence[str], number: int, target: SignalTarget) -> Sequence[str]:
        """All processes of a job get it; names of signals differ between versions."""
        received = target == "all" and number not in UNHEARD_BESIDE_A_SHELL
        return ["qsig", "-s", str(number), *jobs] if received else ()


_ACTIONS: Final = {
    ForeignAction.CANCEL: ("qdel",),
    ForeignAction.HOLD: ("qhold", "-h", "u"),
    ForeignAction.RELEASE: ("qrls", "-h", "u"),
    ForeignAction.LIMIT: ("qalter",),
}


def _walltime(seconds: int) -> str:
    minutes, rest = divmod(max(1, seconds), 60)
    return f"walltime={minutes // 60}:{minutes % 60:02}:{rest:02}"


def _sizes(submission: Submission) -> Iterator[str]:
    """Yield what is asked for in the words that all of the family understand: ``nodes`` and ``ppn``.

    GPUs have no such words: a job with GPUs is asked for in the words of OpenPBS and PBS Pro.
    """
    if submission.gpus:
        yield from _gpu_sizes(submission)
        return
    chunks = _chunks(submission)
    features = "".join(f":{choice[0]}" for choice in submission.features)
    yield "nodes=" + "+".join(f"{count}:ppn={each}{features}" for count, each in chunks)
    if submission.limit is not None:
        yield _walltime(submission.limit)
    if submission.memory:
        yield f"mem={submission.memory * sum(count for count, _ in chunks)}mb"
    if submission.memory_each:
        yield f"pmem={submission.memory_each}mb"


def _gpu_sizes(submission: Submission) -> Iterator[str]:
    """Yield chunks with GPUs, each on a node of its own; memory of a chunk is that of all its processors."""
    per_gpu = submission.processors_per_gpu
    sizes = []
    features = "".join(f":{choice[0]}=true" for choice in submission.features)
    counted = submission._replace(processors=submission.gpus, per_node=submission.per_node // per_gpu)
    for count, gpus in _chunks(counted):
        memory = submission.memory + submission.memory_each * gpus * per_gpu
        held = f":mem={memory}mb" if memory else ""
        sizes.append(f"{count}:ncpus={gpus * per_gpu}:ngpus={gpus}{held}{features}")
    yield "select=" + "+".join(sizes)
    yield "place=scatter"
    if submission.limit is not None:
        yield _walltime(submission.limit)


def _chunks(submission: Submission) -> list[tuple[int, int]]:
    """Return how many nodes with how many processors each; one node if nothing else is said.

    >>> _chunks(Submission("m", processors=7, nodes=2)), _chunks(Submission("m", processors=7, per_node=3))
    ([(1, 4), (1, 3)], [(2, 3), (1, 1)])
    """
    if submission.per_node:
        whole, rest = divmod(submission.processors, submission.per_node)
        chunks = [(whole, submission.per_node), (1 if rest else 0, rest)]
    else:
        nodes = max(1, submission.nodes)
        each, more = divmod(submission.processors, nodes)
        chunks = [(more, each + 1), (nodes - more, each)]
    return [(count, each) for count, each in chunks if count]
