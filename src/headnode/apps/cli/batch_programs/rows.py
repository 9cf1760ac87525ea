"""The jobs of this cluster as programs of other schedulers list them: rows of jobs and elements of arrays.

Source:  Slurm, squeue(1), "JOB STATE CODES" and "JOB REASON CODES".
"""

from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    Answer = dict[str, Any]

PAGE = 1000  # jobs in an answer
TASK_PAGE = 2000  # tasks in an answer
REMEMBERED = 300.0  # seconds for which squeue shows ended jobs: Slurm's MinJobAge
LIVING = ("Queued", "Running", "Suspended")
_STATES = {
    "Configuring": "PENDING",
    "Queued": "PENDING",
    "Running": "RUNNING",
    "Suspended": "SUSPENDED",
    "Finished": "COMPLETED",
    "Failed": "FAILED",
    "Canceled": "CANCELLED",
}
SHORT_STATES = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETING": "CG",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "OUT_OF_MEMORY": "OOM",
    "DEADLINE": "DL",
    "PREEMPTED": "PR",
    "BOOT_FAIL": "BF",
    "CONFIGURING": "CF",
    "REQUEUED": "RQ",
}
_ENDINGS = (  # what is in the message of a job or task -> its state in Slurm
    ("run time expired", "TIMEOUT"),
    ("run time limit of the task expired", "TIMEOUT"),
    ("deadline has passed", "DEADLINE"),
    ("needed more than the", "OUT_OF_MEMORY"),
    ("no memory left", "OUT_OF_MEMORY"),
)
_CAUSES = {"system": "NODE_FAIL", "request": "CANCELLED"}  # of the end of a task
_REASONS = {
    "priority": "Priority",
    "processors": "Resources",
    "node": "ReqNodeNotAvail",
    "licences": "Licenses",
    "reservation": "Priority",
    "policy": "Priority",
    "dependency": "Dependency",
    "filter": "Prolog",
    "preemption": "Resources",
    "alternative": "Resources",
    "share": "Resources",
    "reserved": "Reservation",
    "never-fits": "PartitionConfig",
    "staging": "BurstBufferStageIn",
    "switches": "Resources",
    "contiguous": "Resources",
}
_LIMITS = {  # how the key of a limit begins -> the limit of Slurm that does the same
    "user,jobs": "QOSMaxJobsPerUserLimit",
    "user,processors": "QOSMaxCpuPerUserLimit",
    "user,gpus": "QOSMaxGRESPerUser",
    "user,processor-minutes": "AssocGrpCPUMinutesLimit",
    "user,processor-minutes-per-job": "AssocMaxCpuMinutesPerJobLimit",
    "user,processor-minutes-running": "AssocGrpCPURunMinutesLimit",
    "user,gpu-minutes": "AssocGrpGRESMinutes",
    "user,gpu-minutes-per-job": "AssocMaxGRESMinutesPerJob",
    "user,gpu-minutes-running": "AssocGrpGRESRunMinutes",
    "project,jobs": "AssocGrpJobsLimit",
    "project,processors": "AssocGrpCpuLimit",
    "project,gpus": "AssocGrpGRES",
    "project,processor-minutes": "AssocGrpCPUMinutesLimit",
    "project,processor-minutes-per-job": "AssocMaxCpuMinutesPerJobLimit",
    "project,processor-minutes-running": "AssocGrpCPURunMinutesLimit",
    "project,gpu-minutes": "AssocGrpGRESMinutes",
    "project,gpu-minutes-per-job": "AssocMaxGRESMinutesPerJob",
    "project,gpu-minutes-running": "AssocGrpGRESRunMinutes",
    "group,jobs": "QOSGrpJobsLimit",
    "group,processors": "QOSGrpCpuLimit",
    "group,gpus": "QOSGrpGRES",
    "group,processor-minutes": "QOSGrpCPUMinutesLimit",
    "group,processor-minutes-per-job": "QOSMaxCpuMinutesPerJobLimit",
    "group,processor-minutes-running": "QOSGrpCPURunMinutesLimit",
    "group,gpu-minutes": "QOSGrpGRESMinutes",
    "group,gpu-minutes-per-job": "QOSMaxGRESMinutesPerJob",
    "group,gpu-minutes-running": "QOSGrpGRESRunMinutes",
}
COMMAND_ENDED = "the command of salloc ended with exit status "
"""How the message of a job begins that failed with its command."""
NOT_CONSIDERED = "waits for the next scheduling pass"


_OF_USERS = ("name", "project", "group", "command")


def on_one_line(answer: "Answer") -> "Answer":
    """Return an answer with the line ends in what users write as codes: a name must not look like a row."""
    for field in _OF_USERS:
        text = answer.get(field)
        if text and ("\n" in text or "\r" in text):
            answer[field] = text.replace("\n", "\\n").replace("\r", "\\r")
    return answer


class JobSource:
    """Asks the head for jobs, and remembers what it has answered about each."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._details: dict[int, Answer] = {}
        self._tasks: dict[int, list[Answer]] = {}
        self._usage: dict[int, list[Answer]] = {}

    def detail(self, job: int) -> "Answer":
        """Return everything about a job."""
        if job not in self._details:
            self._details[job] = on_one_line(self.client.ask("job", job=job)["job"])
        return self._details[job]

    def tasks(self, job: int) -> "list[Answer]":
        """Return the tasks of a job; of a sweep its instances."""
        if job not in self._tasks:
            found: list[Answer] = []
            for task in self._pages(job, None):
                found += self._pages(job, task["task"]) if task.get("instances") else [task]
            self._tasks[job] = found
        return self._tasks[job]

    def usage(self, job: int) -> "list[Answer]":
        """Return what the tasks of a job use now.

        Raises:  WrongState if it does not run; Unavailable if no node answers.
        """
        if job not in self._usage:
            self._usage[job] = self.client.ask("job_usage", job=job)["tasks"]
        return self._usage[job]

    def _pages(self, job: int, expand: int | None) -> "Iterator[Answer]":
        after: int | None = 0
        while after is not None:
            answer = self.client.ask("tasks", job=job, after=after, limit=TASK_PAGE, expand=expand)
            yield from map(on_one_line, answer["tasks"])
            after = answer["more"]

    def listed(self, ids: "Sequence[int]") -> "list[Answer]":
        """Return the jobs of these ids as lists show them; those that are unknown are left out."""
        wanted, found = set(ids), []
        for job in sorted(wanted, reverse=True):
            if job not in wanted:
                continue
            for each in self.client.ask("jobs", before=job + 1, limit=min(2 * len(wanted), PAGE))["jobs"]:
                if each["id"] in wanted:
                    found.append(on_one_line(each))
                    wanted.discard(each["id"])
            wanted.discard(job)
        return found

    def pages(
        self,
        states: "Sequence[str]",
        *,
        owner: str | None,
        name: str = "",
        since: float | None = None,
        most: int | None = None,
    ) -> "Iterator[Answer]":
        """Yield jobs, newest id first, of at most `most` answers; `name` without * and ? in it."""
        before: int | None = None
        asked = 0
        while most is None or asked < most:
            answer = self.client.ask(
                "jobs",
                states=list(states),
                owner=owner,
                name="" if any(mark in name for mark in "*?[") else name,
                since=since,
                before=before,
                limit=PAGE,
            )
            yield from map(on_one_line, answer["jobs"])
            before, asked = answer["more"], asked + 1
            if before is None:
                return


class BatchRow:
    """A job, an element of an array with its `number`, or with `numbers` all that wait of an array."""

    __slots__ = ("job", "number", "numbers", "source", "task")

    def __init__(
        self,
        source: JobSource,
        job: "Answer",
        number: int | None = None,
        task: "Answer | None" = None,
        numbers: str = "",
    ) -> None:
        self.source, self.job, self.number, self.task, self.numbers = source, job, number, task, numbers

    @property
    def id(self) -> int:
        """The number of the job."""
        return int(self.job["id"])

    @property
    def state(self) -> str:
        """The state in Slurm's word."""
        if self.numbers:
            return "PENDING"
        word = self.job["state"] if self.task is None else self.task["state"]
        if self.job["state"] == "Suspended" and word in ("Running", "Suspended"):
            return "PENDING" if self.job.get("pending_kind") == "staging" else "SUSPENDED"
        if word == "Failed" and self.job["message"].startswith(COMMAND_ENDED):
            return "FAILED"
        if word in ("Failed", "Canceled"):
            course = self.job if word == "Canceled" else self.course
            known = _CAUSES.get(course.get("cause", ""), _STATES[word])
            return next((state for part, state in _ENDINGS if part in course["message"]), known)
        return _STATES.get(word, "PENDING")

    @property
    def course(self) -> "Answer":
        """The task: of a job of several, the first that failed, or else the last."""
        if self.task is not None:
            return self.task
        tasks = self.source.tasks(self.id)
        if not tasks:
            return {"message": self.job["message"], "exit_code": None, "signal": None}
        return next((task for task in tasks if task["state"] == "Failed"), tasks[-1])

    @property
    def reason(self) -> str:
        """The reason in Slurm's word why it waits, or has failed."""
        state = self.state
        if state == "PENDING":
            return self._reason_to_wait()
        return {
            "FAILED": "NonZeroExitCode",
            "TIMEOUT": "TimeLimit",
            "OUT_OF_MEMORY": "OutOfMemory",
            "NODE_FAIL": "NodeDown",
            "DEADLINE": "DeadLine",
        }.get(state, "None")

    def _reason_to_wait(self) -> str:
        job = self.job
        if job["state"] == "Running":
            return "JobArrayTaskLimit" if "%" in job["array"] else "Resources"
        if job["pending_kind"] == "hold":
            return "JobHeldUser" if job.get("held_until") is None else "BeginTime"
        if job["pending_reason"] == NOT_CONSIDERED:
            return "None"
        limit = ",".join(job.get("pending_limit", "").split(",")[:2])
        return _LIMITS.get(limit) or _REASONS.get(job["pending_kind"], "None")

    def usage(self) -> "list[Answer]":
        """Return what its tasks use now on their nodes; raises as `JobSource.usage` does."""
        measured = self.source.usage(self.id)
        if self.task is None:
            return measured
        own = self.task["task"], self.task["instance"]
        return [task for task in measured if (task["task"], task["instance"]) == own]

    @property
    def started(self) -> float | None:
        """When it started."""
        if self.numbers:
            return None
        at: float | None = (self.job if self.task is None else self.task)["started"]
        return at

    @property
    def ended(self) -> float | None:
        """When it ended; None while it has not."""
        if self.state in ("PENDING", "RUNNING", "SUSPENDED"):
            return None
        at: float | None = (self.task or self.job)["ended"] or self.job["ended"]
        return at


def rows_of(source: JobSource, job: "Answer", *, expand: bool) -> "list[BatchRow]":
    """Return the rows of a job.  What waits of an array is one row, with `expand` a row for each."""
    if not job["array"]:
        return [BatchRow(source, job)]
    untouched = job["state"] != "Running" and job["tasks"]["total"] == job["tasks"]["queued"]
    if job["state"] == "Queued" and untouched and not expand:
        return [BatchRow(source, job, numbers=job["array"])]
    numbers = numbers_of(job["array"])
    if untouched:
        return [BatchRow(source, job, number) for number in numbers]
    rows = [
        BatchRow(source, job, number, task)
        for number, task in zip(numbers, source.tasks(job["id"]), strict=False)
    ]
    if expand:
        return rows
    waiting = [row.number for row in rows if row.state == "PENDING" and row.number is not None]
    others = [row for row in rows if row.state != "PENDING"]
    if not waiting:
        return others
    limit = job["array"].partition("%")[2]
    indices = folded(waiting) + (f"%{limit}" if limit else "")
    return [BatchRow(source, job, numbers=indices), *others]


def numbers_of(array: str) -> "list[int]":
    """Return the numbers of an array.

    >>> numbers_of("1,3-7:2,9%2")
    [1, 3, 5, 7, 9]
    """
    found: list[int] = []
    for part in array.partition("%")[0].split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def refuse_other_clusters(args: ProgramWords, client: Client) -> None:
    """Refuse ``--clusters`` with another name than that of this cluster.

    Raises:  ProgramRefusal.
    """
    for name in {*args.parts("clusters"), *args.parts("cluster")} - {"all"}:
        if name != client.ask("cluster")["cluster"]["name"]:
            raise ProgramRefusal(f"'{name[:60]}' is an invalid entry for --clusters: it is not this cluster")


MAX_NUMBERS = 100_000  # elements that a command line can name in one word


def typed_numbers(text: str) -> "set[int]":
    """Return the numbers of elements that were typed: ``3``, ``1-4``, ``[1,3-7:2]``.

    Raises:  ProgramRefusal for what is none, and for more than an array can have.
    """
    ranges: list[range] = []
    for part in text.strip("[]").partition("%")[0].split(","):
        ends, colon, step = part.partition(":")
        first, dash, last = ends.partition("-")
        fields = (first, last if dash else first, step if colon else "1")
        if not all(field.isascii() and field.isdigit() and len(field) < 11 for field in fields):
            raise ProgramRefusal(f"Invalid job id: {text[:60]!r} is no element of an array")
        begin, end, every = map(int, fields)
        ranges.append(range(begin, end + 1, max(1, every)))
    if sum(map(len, ranges)) > MAX_NUMBERS:
        raise ProgramRefusal(f"Invalid job id: {text[:60]!r} are more than {MAX_NUMBERS} elements")
    return {number for each in ranges for number in each}


def folded(numbers: "Sequence[int]") -> str:
    """Return increasing numbers as ranges.

    >>> folded([1, 2, 3, 7])
    '1-3,7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def folded_nodes(names: "Iterable[str]") -> str:
    """Return nodes as Slurm folds them: ``n[1-3],x``."""
    from headnode.core.model.node import folded_names

    return ",".join(folded_names(sorted(names)))
