"""Pages of jobs that fulfil conditions, alive and over, newest id first."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from headnode.apps.server import answers_jobs as show
from headnode.apps.server.desk import Desk
from headnode.apps.server.expecting import expected_object
from headnode.apps.server.lookups import Found
from headnode.apps.server.wishes import ListWish
from headnode.core.lifecycle.states import JobState
from headnode.core.model.bounds import PAGE, PAGE_BYTES
from headnode.core.model.node_runs import as_counted, runs_of

Object = dict[str, Any]

MOST_LOOKED_AT: Final = 5_000  # jobs, for one page; the answer says where the next one begins


class Page(msgspec.Struct, frozen=True):
    """A page: its jobs, and the id to pass as `before` for the next; None: there are no more."""

    jobs: list[Found]
    more: int | None


def page_of(desk: Desk, wish: ListWish, owner: str | None, states: set[JobState]) -> Page:
    """Return the jobs that a wish asks for, after a look at no more than the bounds let it.

    A page ends early where much would have to be read for the next job.
    """
    limit = min(max(1, wish.limit), PAGE.most)
    sifts = bool(wish.name or wish.project or wish.since is not None or wish.until is not None)
    most = MOST_LOOKED_AT if sifts else limit
    chosen: list[Found] = []
    fits, looked_at, read, last = _condition(desk, wish), 0, 0, wish.before
    for found in desk.lookups.newest(owner, states, wish.before, most + 1):
        if wish.since is not None and found.record.created < wish.since:
            return Page(chosen, None)  # ids are given in the order of creation
        read += desk.briefs.weight(found)
        full = len(chosen) == limit or looked_at == most
        if full or (looked_at and read > PAGE_BYTES.most):
            return Page(chosen, last)
        looked_at, last = looked_at + 1, found.record.id
        if fits(found):
            chosen.append(found)
    return Page(chosen, None)


def _condition(desk: Desk, wish: ListWish) -> Callable[[Found], bool]:
    name, project = wish.name.lower(), wish.project.lower()

    def fits(found: Found) -> bool:
        if wish.until is not None and found.record.created >= wish.until:
            return False
        if not (name or project):
            return True
        brief = desk.briefs.of(found)
        if project and brief.shown["project"].lower() != project:
            return False
        return not name or fnmatchcase((brief.shown["name"] or brief.command).lower(), name)

    return fits


def short(desk: Desk, found: Found) -> Object:
    """Return a job without its command and nodes."""
    return show.job_object(found.record, desk.briefs.of(found), desk.pending_reason(found.record))


def listed(desk: Desk, found: Found) -> Object:
    """Return a job as lists show it: with its command, its nodes and its expected start."""
    command = desk.briefs.of(found).command
    more = {"command": command, "nodes": _nodes(found), "expected": expected_object(desk, found.record)}
    return short(desk, found) | more


def _nodes(found: Found) -> str:
    """Return the nodes that a job has, or had when it ended, as a node set."""
    run = found.record.run
    if run is None:
        return ""
    return ",".join(runs_of(sorted(run.allocation or run.usage.nodes, key=as_counted)))
