"""Grid Engine's queue, hosts, queues and accounting as text: qstat, qhost, qconf, qacct, for all users.

Grid Engine replaces what is XML in the names of users by entities, so a cell ends where it seems to.  All
times are asked for in UTC.  A queue is a partition here; the part of a queue on a host gives the host its
processors, which are its slots.

Source:  Grid Engine, qstat(1), qhost(1), qconf(1), qacct(1), accounting(5), queue_conf(5); answers of Grid
Engine 8.1.9.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from heapq import nsmallest
from math import inf
from typing import Final

from msgspec.structs import replace

from headnode.core.batch.dialect import CommandResult, ForeignState
from headnode.core.batch.gridengine import ACCOUNTING_RECORDS, RUNNING_LETTERS, WHOLE_ANSWER, reason_of
from headnode.core.batch.site import (
    MAX_ENDED,
    MAX_JOBS,
    MAX_NODES,
    SiteFacts,
    SiteJob,
    SiteNode,
    SitePartition,
    importance,
    megabytes,
    plain,
)
from headnode.core.model.quantities import Instant, Seconds

IN_UTC: Final = True
_UTC: Final = ("env", "TZ=UTC", "LC_ALL=C")
_QUEUE_LIST = re.compile(r"<Queue-List>(.*?)</Queue-List>", re.DOTALL)
_NAME = re.compile(r"<name>([^<]*)</name>")
_JOB_LIST = re.compile(r'<job_list state="\w+">(.*?)</job_list>', re.DOTALL)
_CELL = re.compile(r'<(\w+)(?: name="([^"<]*)")?[^<>]*>([^<]*)</\1>')
_PRIORITY_UNIT: Final = 100_000  # priorities are from 0 to 1 there
_MAX_QUEUES: Final = 1000
_MAX_NODE_SET: Final = 4096
_MAX_ELEMENTS: Final = 1_000_000


def queue_words(word: str) -> Sequence[str]:  # noqa: ARG001
    """Return the command that lists the jobs of all users, below the queues where they run."""
    return [*_UTC, "qstat", "-f", "-r", "-pri", "-u", "*", "-xml"]


def read_queue(result: CommandResult, word: str) -> tuple[tuple[SiteJob, ...], int] | None:  # noqa: ARG001
    """Return the jobs, and how many more there are; None if the answer cannot be relied on."""
    if result.status != 0 or not result.out.rstrip().endswith(WHOLE_ANSWER):
        return None
    queues: dict[str, None] = {}
    found: dict[str, SiteJob] = {}
    for part in _QUEUE_LIST.findall(result.out):
        name = _NAME.search(part)
        queue, _, host = (name[1] if name is not None else "").partition("@")
        queues.setdefault(plain(queue))
        for job in _jobs(part, (plain(queue),), plain(host)):
            known = found.get(job.id)
            found[job.id] = job if known is None else _on_one_more_host(known, job)
    waiting = _QUEUE_LIST.sub("", result.out)
    for job in _jobs(waiting, tuple(queues)[:64], ""):
        found.setdefault(job.id, job)
    jobs = tuple(found.values())
    if len(jobs) <= MAX_JOBS:
        return jobs, 0
    return tuple(nsmallest(MAX_JOBS, jobs, key=importance)), len(jobs) - MAX_JOBS


def _on_one_more_host(known: SiteJob, job: SiteJob) -> SiteJob:
    nodes = f"{known.nodes},{job.nodes}"[:_MAX_NODE_SET]
    return replace(known, nodes=nodes, node_count=known.node_count + 1)


def _unescaped(text: str) -> str:
    """Return the text of a cell; Grid Engine 8.1.9 writes ``%lt;`` for ``<``.

    >>> _unescaped("a%lt;b&amp;c&amp;lt;")
    'a<b&c&lt;'
    """
    return _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)


_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"[&%](lt|gt|amp|quot|apos);")


def _jobs(text: str, queues: tuple[str, ...], host: str) -> Iterator[SiteJob]:
    for part in _JOB_LIST.findall(text):
        cells = [(tag, name, _unescaped(value)) for tag, name, value in _CELL.findall(part)]
        job = _job(cells, queues, host)
        if job is not None:
            yield job


def _job(cells: Sequence[tuple[str, str, str]], queues: tuple[str, ...], host: str) -> SiteJob | None:
    plainly = {tag: value for tag, _, value in cells}
    limits = {name: value for tag, name, value in cells if tag == "hard_request"}
    number, letters, tasks = (
        plainly.get("JB_job_number", ""),
        plainly.get("state", ""),
        plainly.get("tasks", ""),
    )
    if not _ID.fullmatch(number):
        return None
    runs = bool(host) and bool(RUNNING_LETTERS & set(letters))
    asked = (value for tag, _, value in cells if tag == "hard_req_queue")
    wanted = tuple(plain(each) for each in asked if _QUEUE.fullmatch(each))
    slots = _whole(plainly.get("granted_pe", "")) or _whole(plainly.get("slots", ""))
    return SiteJob(
        id=number if not tasks else f"{number}.{tasks}"[:64],
        user=plain(plainly.get("JB_owner", "")),
        name=plain(plainly.get("full_job_name", "") or plainly.get("JB_name", "")),
        state=ForeignState.RUNNING if runs else ForeignState.WAITING,
        word=plain(letters),
        reason="" if runs else plain(reason_of(letters)),
        priority=_priority(plainly.get("JAT_prio", "")),
        partitions=queues if runs or not wanted else wanted,
        submitted=_instant(plainly.get("JB_submission_time", "")),
        started=_instant(plainly.get("JAT_start_time", "")) if runs else None,
        limit=_seconds(limits.get("h_rt", "")),
        processors=max(1, slots),
        nodes=host if runs else "",
        elements=1 if runs else _elements(tasks),
    )


_ID = re.compile(r"[0-9]{1,18}")
_QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _priority(text: str) -> int:
    match = re.fullmatch(r"[0-9](?:\.[0-9]{1,9})?", text)
    return round(float(text) * _PRIORITY_UNIT) if match is not None else 0


def _seconds(text: str) -> Seconds:
    """Return a time limit in seconds; infinite if there is none.

    >>> _seconds("600"), _seconds("1:00:00"), _seconds("INFINITY")
    (600.0, 3600.0, inf)
    """
    parts = text.partition(",")[0].split(":")
    if len(parts) not in (1, 3) or not all(part.isascii() and part.isdigit() for part in parts):
        return Seconds(inf)
    total = 0
    for part in parts:
        total = total * 60 + _whole(part)
    return Seconds(float(total))


def _instant(text: str, form: str = "%Y-%m-%dT%H:%M:%S") -> Instant | None:
    try:
        return Instant(datetime.strptime(text[:64], form).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def _elements(tasks: str) -> int:
    """Return how many tasks of an array wait in one row.

    >>> _elements("2-5:1"), _elements("3,7-9:2"), _elements("")
    (4, 3, 1)
    """
    count = 0
    for part in tasks.split(",") if tasks else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            return 1
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        count += max(0, last - first) // max(1, step) + 1
    return min(max(count, 1), _MAX_ELEMENTS)


_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")


def nodes_words(word: str) -> Sequence[str]:  # noqa: ARG001
    """Return the command that lists the hosts with their queues."""
    return ["env", "LC_ALL=C", "qhost", "-q", "-xml"]


def read_nodes(result: CommandResult, word: str) -> tuple[SiteNode, ...] | None:  # noqa: ARG001
    """Return the hosts that have queues; None if the answer cannot be relied on."""
    if result.status != 0 or not result.out.rstrip().endswith("</qhost>"):
        return None
    hosts = (_node(name, part) for name, part in _HOST.findall(result.out))
    nodes = [each for each in hosts if each is not None]
    return tuple(nodes[:MAX_NODES])


_HOST = re.compile(r"<host name=['\"]([^'\"<>]{1,64})['\"]>(.*?)</host>", re.DOTALL)
_VALUE = re.compile(r"<hostvalue name=['\"]mem_total['\"]>([^<]*)<")
_OF_QUEUE = re.compile(r"<queuevalue qname=['\"]([^'\"<>]*)['\"] name=['\"](\w+)['\"]>([^<]*)<")
_CLOSED: Final = frozenset("auACdDsSEo")


def _node(name: str, part: str) -> SiteNode | None:
    queues: dict[str, dict[str, str]] = {}
    for queue, key, value in _OF_QUEUE.findall(part):
        queues.setdefault(plain(_unescaped(queue)), {})[key] = value
    if not queues:
        return None
    opened = {each: row for each, row in queues.items() if not _CLOSED & set(row.get("state_string", ""))}
    letters = "".join(sorted({each for row in queues.values() for each in row.get("state_string", "")}))
    memory = _VALUE.search(part)
    slots = max(_whole(row.get("slots", "")) for row in (opened or queues).values())
    used = sum(_whole(row.get("slots_used", "")) for row in queues.values())
    usable = "allocated" if used >= slots else "mixed" if used else "idle"
    return SiteNode(
        name=plain(name),
        partitions=tuple(opened or queues)[:64],
        state=usable if opened else plain(letters),
        processors=slots,
        allocated=used,
        memory=megabytes(memory[1]) if memory is not None else 0,
        closed="" if opened else plain(letters),
    )


FACTS_WORDS: Final = ("sh", "-c", "qstat -help | head -n 1 && qconf -sq '*'")
"""One command for both: they are asked once an hour."""


def read_facts(result: CommandResult) -> SiteFacts | None:
    """Return the version and the queues; None if Grid Engine did not answer."""
    if result.status != 0:
        return None
    lines = result.out.splitlines()
    queues: list[SitePartition] = []
    name = ""
    for line in lines[1:]:
        key, _, value = line.partition(" ")
        if key == "qname":
            name = plain(value.strip())
        elif key == "h_rt" and name and len(queues) < _MAX_QUEUES:
            queues.append(SitePartition(name=name, most_time=_seconds(value.strip())))
    version = lines[0].strip().rpartition(" ")[2] if lines else ""
    return SiteFacts(version=plain(version), partitions=tuple(queues))


def history_words(since: str) -> Sequence[str]:
    """Return the command that lists the jobs of all users that have ended since then."""
    digits = "".join(letter for letter in since if letter.isdigit())
    span = ["-b", digits[:12]] if len(digits) >= len("202611291315") else ["-d", "1"]
    return [*_UTC, "qacct", *span, "-j", "*"]


def read_history(result: CommandResult) -> tuple[SiteJob, ...] | None:
    """Return the newest jobs that have ended, oldest first; None if there is no accounting."""
    if result.status != 0:
        return () if "not found" in result.err + result.out else None
    jobs = [job for record in ACCOUNTING_RECORDS.split(result.out) if (job := _ended(record)) is not None]
    return tuple(sorted(jobs, key=lambda job: job.ended or 0.0)[-MAX_ENDED:])


_TIMES: Final = "%a %b %d %H:%M:%S %Y"
_LIMIT = re.compile(r"(?:^|[ ,])h_rt=([0-9:]{1,20})")


def _ended(record: str) -> SiteJob | None:
    cells = {key: value.strip() for key, _, value in (line.partition(" ") for line in record.splitlines())}
    number, ended = cells.get("jobnumber", ""), _instant(cells.get("end_time", ""), _TIMES)
    if not _ID.fullmatch(number) or ended is None:
        return None
    failed = plain(cells.get("failed", "").split(" ")[0])
    task, limit = cells.get("taskid", ""), _LIMIT.search(cells.get("category", ""))
    return SiteJob(
        id=f"{number}.{task}" if task.isdigit() else number,
        user=plain(cells.get("owner", "")),
        name=plain(cells.get("jobname", "")),
        state=ForeignState.ENDED,
        word="done" if failed == "0" else f"failed {failed}",
        partitions=(plain(cells.get("qname", "")),),
        submitted=_instant(cells.get("qsub_time", ""), _TIMES),
        started=_instant(cells.get("start_time", ""), _TIMES),
        ended=ended,
        limit=_seconds(limit[1]) if limit is not None else Seconds(inf),
        processors=max(1, _whole(cells.get("slots", ""))),
        nodes=plain(cells.get("hostname", "")),
    )
