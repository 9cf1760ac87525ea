"""Pages of jobs that fulfil conditions, alive and over, newest id first."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from headnode.apps.server import answers_jobs as show
from headnode.apps.server.desk import Desk
from headnode.apps.server.expecting import expected_object
from headnode.apps.server.lookups import LONGEST_PAGE, Found
from headnode.apps.server.wishes import ListWish
from headnode.core.lifecycle.states import JobState
from headnode.core.model.node_runs import as_counted, runs_of

Object = dict[str, Any]

MOST_LOOKED_AT: Final = 5_000  # jobs, for one page; the answer says where the next one begins
_PIECE: Final = 500  # jobs that are read from the archive at once
LONGEST_COMMAND: Final = 120  # characters


class Page(msgspec.Struct, frozen=True):
    """A page: its jobs, and the id to pass as `before` for the next; None: there are no more."""

    jobs: list[Found]
    more: int | None


def page_of(desk: Desk, wish: ListWish, owner: str | None, states: set[JobState]) -> Page:
    """Return the jobs that a wish asks for, after a look at no more than `MOST_LOOKED_AT`."""
    limit = min(max(1, wish.limit), LONGEST_PAGE)
    if not (wish.name or wish.project or wish.since is not None or wish.until is not None):
        return Page(*desk.lookups.page(owner, states, wish.before, limit))
    chosen: list[Found] = []
    fits, looked_at, last = _condition(wish), 0, wish.before
    for found in _newest(desk, owner, states, wish.before):
        if wish.since is not None and found.record.created < wish.since:
            return Page(chosen, None)  # ids are given in the order of creation
        if len(chosen) == limit or looked_at == MOST_LOOKED_AT:
            return Page(chosen, last)
        looked_at, last = looked_at + 1, found.record.id
        if fits(found):
            chosen.append(found)
    return Page(chosen, None)


def _newest(desk: Desk, owner: str | None, states: set[JobState], before: int | None) -> Iterator[Found]:
    at = before
    while True:
        piece, at = desk.lookups.page(owner, states, at, _PIECE)
        yield from piece
        if at is None:
            return


def _condition(wish: ListWish) -> Callable[[Found], bool]:
    name, project = wish.name.lower(), wish.project.lower()

    def fits(found: Found) -> bool:
        if wish.until is not None and found.record.created >= wish.until:
            return False
        if project and found.spec.project.lower() != project:
            return False
        return not name or fnmatchcase((found.spec.name or command_of(found)).lower(), name)

    return fits


def command_of(found: Found) -> str:
    """Return the command line of the first task, cut; "" of a job without tasks."""
    tasks = found.spec.tasks
    command = tasks[0].command if tasks else ""
    return command if len(command) <= LONGEST_COMMAND else f"{command[: LONGEST_COMMAND - 1]}…"


def listed(desk: Desk, found: Found) -> Object:
    """Return a job as lists show it: with its command, its nodes and its expected start."""
    record = found.record
    shown = show.job_object(record, found.spec, desk.pending_reason(record))
    more = {"command": command_of(found), "nodes": _nodes(found), "expected": expected_object(desk, record)}
    return shown | more


def _nodes(found: Found) -> str:
    """Return the nodes that a job has, or had when it ended, as a node set."""
    run = found.record.run
    if run is None:
        return ""
    return ",".join(runs_of(sorted(run.allocation or run.usage.nodes, key=as_counted)))
