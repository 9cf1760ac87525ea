"""Slurm's queue, nodes, partitions and accounting as text: squeue, sinfo, scontrol, sacct, for all users.

A job may be called anything, also a line break and what looks like another row.  So every row begins with a
word that is new for each question, and the name of the job is its last cell.

Source:  Slurm, squeue(1), sinfo(1), scontrol(1), sacct(1); answers of Slurm 22.05.
"""

import re
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from math import inf
from typing import Final

from msgspec.structs import replace

from headnode.core.batch.dialect import CommandResult, ForeignState, seconds_since_1970
from headnode.core.batch.site import (
    MAX_ENDED,
    MAX_JOBS,
    MAX_NODES,
    MAX_TEXT,
    SiteFacts,
    SiteJob,
    SiteNode,
    SitePartition,
    importance,
    megabytes,
    plain,
)
from headnode.core.batch.slurm import FIELDS, STATES
from headnode.core.model.quantities import Seconds

IN_UTC: Final = False
_EPOCH: Final = ("env", "SLURM_TIME_FORMAT=%s")
_JOB_CELLS: Final = "iuTrQPVSelCDmhNfaj"
_NODE_CELLS: Final = "NRTCmf"
_MAX_PARTITIONS: Final = 1000
_MAX_ELEMENTS: Final = 1_000_000


def queue_words(word: str) -> Sequence[str]:
    """Return the command that lists the jobs of all users; `word` begins each row."""
    cells = [word, *(f"%{letter}" for letter in _JOB_CELLS)]
    return [*_EPOCH, "squeue", "-h", "-a", "-t", "all", "-o", FIELDS.join(cells)]


def read_queue(result: CommandResult, word: str) -> tuple[tuple[SiteJob, ...], int] | None:
    """Return the jobs, and how many more there are; None if the answer cannot be relied on.

    Beyond `MAX_JOBS` those that run are kept, then those of the highest priority.
    """
    if result.status != 0 or "error" in result.err:
        return None
    rows = _rows(result.out, word, len(_JOB_CELLS))
    jobs = [job for job in map(_job, rows) if job is not None]
    if len(jobs) <= MAX_JOBS:
        return tuple(jobs), 0
    return tuple(nsmallest(MAX_JOBS, jobs, key=importance)), len(jobs) - MAX_JOBS


def _rows(text: str, word: str, cells: int) -> Iterator[list[str]]:
    """Yield the cells of each row; lines that a name continues do not begin with the word."""
    for line in text.split("\n"):
        values = line.split(FIELDS, cells)
        if values[0] == word and len(values) == cells + 1:
            yield values[1:]


def _job(cells: list[str]) -> SiteJob | None:
    number, user, word, reason, priority, partitions, submitted, start, end, limit = cells[:10]
    processors, nodes, memory, shared, where, features, account, name = cells[10:]
    state = STATES.get(word)
    if state is None or not _ID.match(number):
        return None
    waits = state is ForeignState.WAITING
    return SiteJob(
        id=number if len(number) <= MAX_TEXT else number[: MAX_TEXT - 1] + "]",
        user=plain(user),
        name=plain(name),
        state=state,
        word=word,
        reason="" if reason == "None" else plain(reason),
        priority=_whole(priority),
        partitions=tuple(plain(each) for each in partitions.split(",")[:16]),
        submitted=seconds_since_1970(submitted),
        started=None if waits else seconds_since_1970(start),
        expected=seconds_since_1970(start) if waits else None,
        ended=seconds_since_1970(end) if state is ForeignState.ENDED else None,
        limit=time_limit(limit),
        processors=max(1, _whole(processors)),
        node_count=max(1, _whole(nodes.partition("-")[0])),
        memory=megabytes(memory),
        exclusive=shared == "NO",
        account="" if account == "(null)" else plain(account),
        nodes=where[:_MAX_NODE_SET],
        features=_features(features),
        elements=_elements(number) if waits else 1,
    )


_ID: Final = re.compile(r"\d+(_(\d+|\[.*\]))?\Z")
_MAX_NODE_SET: Final = 4096


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


_TIME = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}(?::\d{1,2}){0,2})")


def time_limit(text: str) -> Seconds:
    """Return a time limit as Slurm prints it in seconds; infinite if there is none.

    >>> time_limit("5:00"), time_limit("1-02:00:00"), time_limit("UNLIMITED")
    (300.0, 93600.0, inf)
    """
    match = _TIME.fullmatch(text)
    if match is None:
        return Seconds(inf)
    parts = [int(part) for part in match[2].split(":")]
    if match[1] is None:  # minutes and seconds
        parts = [0] * (3 - len(parts)) + parts
    else:  # hours first
        parts += [0] * (3 - len(parts))
    hours, minutes, rest = parts
    return Seconds(float(((int(match[1] or 0) * 24 + hours) * 60 + minutes) * 60 + rest))


def _features(text: str) -> tuple[tuple[str, ...], ...]:
    """Return plain constraints; what has brackets or counts is left out."""
    if text == "(null)" or not text or set(text) & set("[]()*"):
        return ()
    return tuple(tuple(map(plain, each.split("|"))) for each in text.split("&")[:16])


def _elements(number: str) -> int:
    """Return how many elements of an array wait in one row.

    >>> _elements("3_[1-6%2]"), _elements("3_[1,4-9:2]"), _elements("3")
    (6, 4, 1)
    """
    inside = number.partition("_[")[2].rstrip("]").partition("%")[0]
    count = 0
    for part in inside.split(",") if inside else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            return 1  # it is cut short, or a mask
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        count += max(0, last - first) // max(1, step) + 1
    return min(max(count, 1), _MAX_ELEMENTS)


_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def nodes_words(word: str) -> Sequence[str]:
    """Return the command that lists the nodes, each once for each of its partitions."""
    return ["sinfo", "-h", "-a", "-N", "-o", FIELDS.join([word, *(f"%{letter}" for letter in _NODE_CELLS)])]


def read_nodes(result: CommandResult, word: str) -> tuple[SiteNode, ...] | None:
    """Return the nodes; None if the answer cannot be relied on."""
    if result.status != 0 or "error" in result.err:
        return None
    nodes: dict[str, SiteNode] = {}
    for name, partition, state, processors, memory, features in _rows(result.out, word, len(_NODE_CELLS)):
        known = nodes.get(name)
        if known is None and len(nodes) < MAX_NODES and 0 < len(name) <= MAX_TEXT:
            allocated, _, _, total = (*(_whole(each) for each in processors.split("/")[:4]), 0, 0, 0, 0)[:4]
            nodes[name] = SiteNode(
                name=plain(name),
                partitions=(plain(partition),),
                state=plain(state),
                processors=total,
                allocated=allocated,
                memory=megabytes(memory),
                features=() if features == "(null)" else tuple(map(plain, features.split(",")[:64])),
                closed="" if state.rstrip("*$~#@+^-!%") in _OPEN and "*" not in state else plain(state),
            )
        elif known is not None and len(known.partitions) < 64:
            nodes[name] = replace(known, partitions=(*known.partitions, plain(partition)))
    return tuple(nodes.values())


_OPEN: Final = ("idle", "mixed", "allocated", "completing", "planned")


FACTS_WORDS: Final = ("sh", "-c", "scontrol show config && scontrol -o show partition")
"""One command for both: they are asked once an hour."""


def read_facts(result: CommandResult) -> SiteFacts | None:
    """Return what Slurm says of its configuration and partitions; None if it did not answer."""
    if result.status != 0:
        return None
    config: dict[str, str] = {}
    partitions: list[SitePartition] = []
    for line in result.out.splitlines():
        if line.startswith("PartitionName=") and len(partitions) < _MAX_PARTITIONS:
            partitions.append(_partition(line))
        elif " = " in line:
            key, _, value = line.partition("=")
            config[key.strip()] = value.strip()
    backfills = config.get("SchedulerType", "sched/backfill") != "sched/builtin"
    return SiteFacts(
        version=plain(config.get("SLURM_VERSION", "")),
        cluster=plain(config.get("ClusterName", "")),
        scheduler=plain(config.get("SchedulerType", "")),
        policy="easy" if backfills else "fcfs",
        counts_memory="MEMORY" in config.get("SelectTypeParameters", "").upper(),
        whole_nodes=config.get("SelectType", "") == "select/linear",
        hides_jobs="jobs" in config.get("PrivateData", "").split(","),
        partitions=tuple(partitions),
    )


def _partition(line: str) -> SitePartition:
    cells = dict(word.partition("=")[::2] for word in line.split())
    default = cells.get("DefaultTime", "NONE")
    return SitePartition(
        name=plain(cells["PartitionName"]),
        is_default=cells.get("Default") == "YES",
        state=plain(cells.get("State", "")),
        most_time=time_limit(cells.get("MaxTime", "")),
        default_time=None if default == "NONE" else time_limit(default),
        nodes=_whole(cells.get("TotalNodes", "")),
        processors=_whole(cells.get("TotalCPUs", "")),
    )


_HISTORY_CELLS: Final = (
    "JobID,User,State,Partition,Submit,Start,End,TimelimitRaw,NCPUS,NNodes,Account,NodeList,Priority,JobName"
)


def history_words(since: str) -> Sequence[str]:
    """Return the command that lists the jobs of all visible users that have ended since then."""
    return [
        *_EPOCH, "sacct", "-a", "-X", "-P", "-n", f"--delimiter={FIELDS}", "-S", since, "-E", "now",
        "-s", "CD,F,TO,OOM,CA,NF,PR,DL", "-o", _HISTORY_CELLS,
    ]  # fmt: skip


def read_history(result: CommandResult) -> tuple[SiteJob, ...] | None:
    """Return the newest jobs that have ended, oldest first; None if there is no accounting."""
    if result.status != 0 or "error" in result.err:
        return None
    columns = _HISTORY_CELLS.count(",")
    rows = (line.split(FIELDS, columns) for line in result.out.split("\n"))
    jobs = [job for cells in rows if len(cells) == columns + 1 and (job := _ended(cells)) is not None]
    return tuple(sorted(jobs, key=lambda job: job.ended or 0.0)[-MAX_ENDED:])


def _ended(cells: list[str]) -> SiteJob | None:
    number, user, word, partition, submitted, start, end, limit, processors, nodes, account, *rest = cells
    where, priority, name = rest
    word = word.split(" ")[0].rstrip("+")
    ended = seconds_since_1970(end)
    if STATES.get(word) is not ForeignState.ENDED or not _ID.match(number) or ended is None:
        return None
    minutes = _whole(limit)
    return SiteJob(
        id=number,
        user=plain(user),
        name=plain(name),
        state=ForeignState.ENDED,
        word=word,
        partitions=(plain(partition),),
        submitted=seconds_since_1970(submitted),
        started=seconds_since_1970(start),
        ended=ended,
        limit=Seconds(minutes * 60.0 if minutes else inf),
        processors=max(1, _whole(processors)),
        node_count=max(1, _whole(nodes)),
        account=plain(account),
        nodes="" if where == "None assigned" else plain(where),
        priority=_whole(priority),
    )


_GROUP = re.compile(r"([^\[\],]*)(?:\[([^\[\]]*)\]([^\[\],]*))?(?:,|\Z)")
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?\Z")


def node_names(text: str, most: int) -> Iterator[str]:
    """Yield the names of a node set, at most so many; sets of several dimensions are left out.

    >>> list(node_names("n[08-10,12],login", 100))
    ['n08', 'n09', 'n10', 'n12', 'login']
    """
    left = most
    for before, inside, after in _GROUP.findall(text):
        for name in _expanded(before, inside, after) if inside else filter(None, (before,)):
            if left == 0:
                return
            left -= 1
            yield name


def _expanded(before: str, inside: str, after: str) -> Iterator[str]:
    for part in inside.split(","):
        match = _SPAN.match(part)
        if match is not None:
            width = len(match[1])
            for number in range(int(match[1]), int(match[2] or match[1]) + 1):
                yield f"{before}{number:0{width}}{after}"
