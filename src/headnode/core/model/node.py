"""A node: a single named host in the cluster, what it may report, its processors, names of many nodes.

Source of `Affinity`: HPC Pack cluster parameter AffinityType.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Literal, get_args

import msgspec

from headnode.core.model import bounds as b
from headnode.core.model.bounds import Bound
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage, TransferUsage


class NodeState(StrEnum):
    """The state of a node."""

    PENDING = "pending"  # added, not yet approved by an administrator
    READY = "ready"  # takes jobs
    PAUSED = "paused"  # running jobs go on; no new ones but an administrator's
    UNREACHABLE = "unreachable"  # the head cannot talk to it; it was ready
    LOST_PAUSED = "lost-paused"  # the same; it was paused, and will be again
    REMOVED = "removed"


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The properties of a node, as its agent reports them.  Memory in MB, speed in MHz."""

    name: str
    processors: int
    sockets: int = 1
    memory: int = 0
    speed: int = 0
    groups: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    architecture: str = ""
    system: str = ""
    disk: int = 0  # MB where tasks may write; 0: not said
    swap: int = 0  # MB
    boot_id: str = ""
    only_user: str = ""  # the one user whose jobs it can run; empty: it runs those of everybody
    machine_processors: tuple[int, ...] = ()  # what the machine calls them, in order; empty: not known
    control_groups: str = ""  # v2, v1 or none; empty: not said
    enforced: tuple[str, ...] = ()  # what the system keeps for each task: memory, processes, processors
    version: str = ""  # of Headnode there; empty: not said
    gpus: int = 0
    address: str = ""  # where its agent dials from, as the head sees it; empty: the head's own machine
    cores_per_socket: int = 0  # that jobs can use, of the socket with the fewest; 0: not known
    threads_per_core: int = 0  # the same of the cores; 0: not known

    @property
    def whole_sockets(self) -> int:
        """How many sockets have a processor of their own."""
        return min(self.sockets, self.processors) or 1


TOPOLOGY_PARAMETER = "Topology"
"""The cluster parameter with the switches between nodes, see `model.topology`."""


def switches_above(node: str, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return the switches above a node, its leaf switch first, by the parameters of its cluster."""
    text = parameters.get(TOPOLOGY_PARAMETER)
    if not text:
        return ()
    from headnode.core.model.topology import switch_paths  # few clusters have switches

    return switch_paths(text).get(node.casefold(), ())


LATEST_AHEAD = 86400.0  # seconds that the clock of a node may be ahead of the head's
_SHOWN = 40  # characters of a wrong text


def facts_objection(facts: NodeFacts) -> str:
    """Return what is impossible in what a machine says of itself; empty if nothing is."""
    numbers = (
        ("processors", facts.processors, b.PROCESSORS),
        ("sockets", facts.sockets, b.SOCKETS),
        ("cores of a socket", facts.cores_per_socket, b.CORES),
        ("threads of a core", facts.threads_per_core, b.THREADS),
        ("MB of memory", facts.memory, b.MEMORY),
        ("MB of disk", facts.disk, b.MEMORY),
        ("MB of swap", facts.swap, b.MEMORY),
        ("MHz", facts.speed, b.SPEED),
        ("GPUs", facts.gpus, b.GPUS),
    )
    for what, amount, bound in numbers:
        if problem := _number(what, amount, bound):
            return problem
    if facts.sockets > facts.processors:
        return f"it has {facts.sockets} sockets for {facts.processors} processors"
    if facts.sockets * facts.cores_per_socket > facts.processors:
        cores = f"{facts.sockets} sockets of {facts.cores_per_socket} cores"
        return f"it has {cores} for {facts.processors} processors"
    return next(filter(None, chain(_list_problems(facts), _text_problems(facts))), "")


def _list_problems(facts: NodeFacts) -> Iterator[str]:
    for what, entries, most in (
        ("groups", facts.groups, b.NODE_LIST.most),
        ("features", facts.features, b.NODE_LIST.most),
        ("kinds of limits", facts.enforced, b.NODE_LIST.most),
        ("numbers of processors", facts.machine_processors, b.PROCESSORS.most),
    ):
        if len(entries) > most:
            yield f"it has {len(entries):,} {what}, not {most:,} at most"
    if any(not 0 <= number < 64 * b.PROCESSORS.most for number in facts.machine_processors):
        yield "it has a processor number that is not valid"


def _text_problems(facts: NodeFacts) -> Iterator[str]:
    own = (facts.name, facts.architecture, facts.system, facts.boot_id, facts.only_user, facts.control_groups)
    for text in chain(own, (facts.version, facts.address), facts.groups, facts.features, facts.enforced):
        if len(text) > b.NAME.most:
            yield f"{text[:_SHOWN]!r}... has {len(text):,} characters, not {b.NAME.most} at most"


_TIMES_AND_MEMORY = {
    "user_time": ("seconds of processor time", b.TIME_USED),
    "system_time": ("seconds of processor time", b.TIME_USED),
    "peak_memory": ("kB of memory", b.MEMORY_USED),
    "average_memory": ("kB of memory", b.MEMORY_USED),
}
_USAGE = tuple(
    _TIMES_AND_MEMORY.get(name, (name.replace("_", " "), b.BYTES_MOVED)) for name in ResourceUsage._fields
)
_POSSIBLE_USAGE = min(bound.most for _, bound in _USAGE)  # of every kind


def outcome_objection(outcome: AttemptOutcome, now: float) -> str:
    """Return what is impossible in what a node says of an attempt that is over; empty if nothing is."""
    if outcome.exit_code is not None and (problem := _number("exit code", outcome.exit_code, b.CODE)):
        return problem
    if outcome.signal is not None and (problem := _number("signal", outcome.signal, b.SIGNAL)):
        return problem
    return (
        usage_objection(outcome.usage)
        or (outcome.transfers is not None and _transfers_objection(outcome.transfers))
        or time_objection(outcome.started, now)
        or time_objection(outcome.ended, now)
    )


def usage_objection(usage: ResourceUsage) -> str:
    """Return what is impossible in what a node says was used; empty if nothing is."""
    if math.isfinite(sum(usage)) and min(usage) >= 0 and max(usage) <= _POSSIBLE_USAGE:
        return ""  # as of most tasks, without a look at each amount
    for (what, bound), amount in zip(_USAGE, usage, strict=True):
        if problem := _number(what, amount, bound):
            return problem
    return ""


def _transfers_objection(usage: TransferUsage) -> str:
    for span, size in ((usage.in_time, usage.in_bytes), (usage.out_time, usage.out_bytes)):
        problem = _number("time of transfers", span, b.RUN_TIME) or _number("bytes", size, b.BYTES_MOVED)
        if problem:
            return problem
    return ""


def time_objection(at: float | None, now: float) -> str:
    """Return why a node cannot have done something at this time; empty if it can."""
    if at is None or (math.isfinite(at) and 0 <= at <= now + LATEST_AHEAD):
        return ""
    return f"the time {at:g} is not valid, or is in the future"


def _number(what: str, amount: float, bound: Bound) -> str:
    least = bound.least or 0
    if math.isfinite(amount) and least <= amount <= bound.most:
        return ""
    return f"{what}: {amount:g} is not between {least:,} and {bound.most:,}"


_SPECIAL = re.compile(r"([\[\]\\,\s])")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,8})\Z", re.DOTALL)


def is_plain(name: str) -> bool:
    """Return whether a name stands for itself alone where sets of names are read."""
    return bool(name) and not _SPECIAL.search(name)


def natural_order(name: str) -> tuple[int, str]:
    """Return what to sort names by, so that node2 comes before node10.

    >>> list(folded_names(sorted(("n10", "n9", "n8"), key=natural_order)))
    ['n[8-10]']
    """
    return len(name), name


def folded_names(names: Iterable[str]) -> Iterator[str]:
    """Yield one text for each run of names that differ only in a number that grows by one.

    >>> list(folded_names(("n1", "n2", "n3", "b", "r09", "r10")))
    ['n[1-3]', 'b', 'r[09-10]']
    """
    run: list[str] = []
    for name in names:
        if run and not _continues(run, name):
            yield _written(run)
            run = []
        run.append(name)
    if run:
        yield _written(run)


def _continues(run: Sequence[str], name: str) -> bool:
    """Whether `name` is the next of a run, which its first name begins."""
    first = _NUMBERED.match(run[0])
    if first is None:
        return False
    width = len(first[2]) if first[2].startswith("0") else 0
    return name == first[1] + str(int(first[2]) + len(run)).zfill(width)


def _written(run: Sequence[str]) -> str:
    first, last = _NUMBERED.match(run[0]), _NUMBERED.match(run[-1])
    if len(run) == 1 or first is None or last is None:
        return _SPECIAL.sub(r"\\\1", run[0])
    stem = _SPECIAL.sub(r"\\\1", first[1])
    return f"{stem}[{first[2]}-{last[2]}]"


Affinity = Literal["NonExclusiveJobs", "AllJobs", "NoJobs"]
"""Whose tasks are bound: those of jobs that share their nodes, of all jobs, or none, as CCS has it."""

AFFINITIES: tuple[Affinity, ...] = get_args(Affinity)


def binds(affinity: str, *, exclusive: bool) -> bool:
    """Tell whether the tasks of a job are bound.

    >>> binds("NonExclusiveJobs", exclusive=True), binds("AllJobs", exclusive=True)
    (False, True)
    """
    return affinity == "AllJobs" or (affinity == "NonExclusiveJobs" and not exclusive)


def machine_numbers(numbers: Sequence[int], machine: Sequence[int]) -> tuple[int, ...]:
    """Return what the machine calls these processors of a node; their own numbers where that is not known.

    `machine` has the machine's number for each processor of the node, or nothing.

    >>> machine_numbers((0, 2), (4, 5, 6)), machine_numbers((0, 2), ()), machine_numbers((0, 3), (4, 5, 6))
    ((4, 6), (0, 2), (0, 3))
    """
    if any(number >= len(machine) for number in numbers):
        return tuple(numbers)
    return tuple(machine[number] for number in numbers)


def bound_to(numbers: Sequence[int], machine: Sequence[int]) -> tuple[int, ...]:
    """Return the machine's processors that a task is bound to; none: it is not, as it has them all.

    >>> bound_to((1,), (4, 5)), bound_to((0, 1), (4, 5)), bound_to((1,), ()), bound_to((2,), (4, 5))
    ((5,), (), (), ())
    """
    if len(numbers) >= len(machine) or any(number >= len(machine) for number in numbers):
        return ()
    return machine_numbers(numbers, machine)
