"""Who holds the processors of a busy node, and until when at the latest."""

from collections.abc import Sequence
from typing import Any

from headnode.apps.server.desk import Desk
from headnode.apps.server.what_if import known
from headnode.core.model.job import JobRequest
from headnode.core.scheduling.decision import Reason, Why
from headnode.core.scheduling.suitability import objection, rules_of
from headnode.core.scheduling.view import View

Object = dict[str, Any]
MOST_HOLDERS = 5  # of one node that are named; of the others their number is told
MOST_NODES = 50  # of one explanation whose holders are named


def holders_of(
    desk: Desk, view: View, request: JobRequest, reasons: Sequence[Reason]
) -> dict[str, tuple[list[Object], int]]:
    """Return by node the jobs that hold processors there, the largest first, and how many more there are.

    Only nodes of the reasons that would serve the request if they were free.
    Cost:  O(nodes + shares of running jobs).
    """
    busy = _busy(view, request, reasons)
    found: dict[str, list[Object]] = {name: [] for name in busy}
    for running in view.running if busy else ():
        for node, processors in running.allocation:
            if node in found:
                found[node].append(
                    {"job": running.job, "processors": processors, "until": known(running.end)}
                )
    return {node: (_named(desk, jobs), max(0, len(jobs) - MOST_HOLDERS)) for node, jobs in found.items()}


def _busy(view: View, request: JobRequest, reasons: Sequence[Reason]) -> list[str]:
    rules = rules_of(request)
    busy: list[str] = []
    for reason in reasons:
        node = view.nodes.get(reason.what) if reason.why is Why.NODE and len(busy) < MOST_NODES else None
        if node is not None and not node.closed and node.jobs and not objection(rules, node.facts):
            busy.append(reason.what)
    return busy


def _named(desk: Desk, jobs: list[Object]) -> list[Object]:
    """Return the first of the holders, with their owners."""
    first = sorted(jobs, key=lambda each: (-each["processors"], each["job"]))[:MOST_HOLDERS]
    there = desk.cluster.jobs
    return [each | {"owner": there[each["job"]].owner} for each in first if each["job"] in there]
