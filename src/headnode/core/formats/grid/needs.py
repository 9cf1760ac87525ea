"""Requirements of a job and of its tasks, and what of them the model can say.

The requirements of a task are those of the job, replaced key by key by its own.
Source: grid, "Resource requirements".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Kind

Needs = dict[str, Any]
Tell = Callable[[Kind, int, str, str], None]
"""Adds a finding about a key of the requirements of a task (by its number from 0; -1 is the job)."""

AMOUNTS = {"smp_size": "minimum_processors_per_node", "ram_size": "minimum_memory"}
"""Requirements that are amounts, and their fields in a job."""


class Folded(msgspec.Struct):
    """What typed fields can say of the requirements.  `left` is what they cannot, for each task."""

    requested_nodes: tuple[str, ...] = ()
    required_nodes: list[tuple[str, ...]] = []
    amounts: dict[str, int] = {}
    left: list[Needs] = []


def merged(job: Needs, task: Needs) -> Needs:
    """Return the requirements of a task: its own, and the job's where it has none.

    >>> merged({"lrms": "Cleo"}, {"queue": "long"})
    {'lrms': 'Cleo', 'queue': 'long'}
    """
    return {**job, **task}


def fold(job: Needs, tasks: Sequence[Needs | None], tell: Tell) -> Folded:
    """Put the requirements that the model knows into its fields.

    A task whose definition is still to come (None) has no say, unless all are such.
    """
    folded = Folded(required_nodes=[()] * len(tasks), left=[{} for _ in tasks])
    defined = {number: merged(job, task) for number, task in enumerate(tasks) if task is not None}
    _fold_hosts(folded, job, defined, tell)
    for key, field in AMOUNTS.items():
        wanted = {number: needs.get(key, 0) for number, needs in defined.items()}
        _fold_amount(folded, key, field, wanted or {-1: job.get(key, 0)}, tell)
    return folded


def _fold_hosts(folded: Folded, job: Needs, defined: Mapping[int, Needs], tell: Tell) -> None:
    """Take the nodes of the job from all that are named, if every task names some."""
    wanted = {
        number: _different(needs.get("hostname", ())) for number, needs in (defined or {-1: job}).items()
    }
    if all(wanted.values()):
        used = _different(host for hosts in wanted.values() for host in hosts)
        every = _different([*job.get("hostname", ()), *used])
        folded.requested_nodes = tuple(host for host in every if host in used)
        tell(Kind.TRANSLATED, -1, "hostname", "the job's nodes come from the hosts that are named")
    for number, hosts in wanted.items():
        if not hosts or set(hosts) == set(folded.requested_nodes):
            continue
        if len(hosts) == 1:
            folded.required_nodes[number] = hosts
            tell(Kind.TRANSLATED, number, "hostname", "the task requires the node of that name")
        else:
            folded.left[number]["hostname"] = list(hosts)
            what = "several hosts that are not those of all tasks: the task may run on any node of the job"
            tell(Kind.APPROXIMATED, number, "hostname", what)


def _fold_amount(folded: Folded, key: str, field: str, wanted: Mapping[int, int], tell: Tell) -> None:
    """Ask of every node of the job what the most demanding task asks of its own."""
    most = max(wanted.values())
    if not most:
        return
    folded.amounts[field] = most
    if min(wanted.values()) == most:
        tell(Kind.TRANSLATED, -1, key, "every node of the job has at least so much")
        return
    for number, amount in wanted.items():
        if amount != most:
            what = f"every node of the job has the most that a task asks for: {most}"
            tell(Kind.APPROXIMATED, number, key, what)
            if amount:
                folded.left[number][key] = amount


def _different(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
