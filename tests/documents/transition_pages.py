"""Print the states and transitions as diagrams and tables."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from headnode.core.model.node import NodeState
from headnode.core.state.advance_job import RULES
from headnode.core.state.transitions import (
    INSTANCE_TRANSITIONS,
    JOB_TRANSITIONS,
    NODE_TRANSITIONS,
    PHASE_TRANSITIONS,
    STATE_NAMES,
    JobState,
    NodePhase,
    TaskState,
)

_HEAD = """\
# The states of jobs, tasks and nodes

This page is printed from the tables in `headnode.core.state.transitions`. They are binding: an event without
a row here cannot be applied, and stops the head before anything wrong is written.

- A state MUST change only by an event of these tables. `headnode.core.state.events` describes each event.
- If a row has several states, the event names the new state.
- The head forgets an ended job. It accepts an event only after `JobUnarchived` has loaded it again.
- An instance is one run of a task's program. The attempt numbers of an instance MUST never be used twice.
"""
_JOB_NOTE = """
`ending` means that the result of the job is decided, but some of its processes still run. A job has ended
only when no process of it runs any more.

A suspended job (`suspending`, `suspended`, `resuming`) keeps its live instances. `JobSuspended` releases its
processors, when every node has reported that its processes are stopped. `JobResumed` takes as many processors
of the same nodes. Between the two events no task of the job is dispatched, and its time limit does not count
down.

The head itself suspends a job of which nothing runs but transfers to its nodes, for longer than
`TransferHoldTime` (`JobSuspending` with `staging`). The transfers continue. When the files of one of its
tasks are there, the job is resuming.
"""
_NODE_NOTE = """
`none` is a node that the head does not know. An unreachable node keeps its tasks until it is given up; see
[the node protocol](03-node-protocol.md).

A drain is not a state of a node. `NodeDrained` has the time and the reason, once for each cause (an
administrator, its health check, a fault), and `NodeDrainLifted` ends the drain. Neither changes a state. A
node with a drain date starts only jobs whose time limit ends before that date.
"""
_PHASE_NOTE = """
A running or suspended job has a phase on each of its nodes. A job without tasks that prepare or release nodes
is only `assigned`, or `cleaning` while the epilog runs. Nothing of the job is on a node that is cleaned; the
node leaves the job when its epilog has ended or is overdue.

A prolog that has not ended is not a phase: a node can boot at any time, and must then run the prolog again
before anything more is dispatched to it.
"""
_RULES_NOTE = """
After each change of a job the head tries the rules of its state, in this order. The first that applies
decides what follows. Its events change the job again, so the first rule is tried again until nothing follows.
A queued job has one rule: it is canceled if it waits for something that can never happen.
"""

Rows = Mapping[tuple[Any, type], frozenset[Any]]


def states_page() -> str:
    """Return the page docs/contracts/02-job-task-node-states.md."""
    return (
        _HEAD
        + _chapter("Jobs", JOB_TRANSITIONS, JobState, _JOB_NOTE)
        + _chapter("Instances of tasks", INSTANCE_TRANSITIONS, TaskState, "")
        + _chapter("The phase of a job on a node", PHASE_TRANSITIONS, NodePhase, _PHASE_NOTE)
        + _chapter("Nodes", NODE_TRANSITIONS, NodeState, _NODE_NOTE)
        + _rules()
    )


def _chapter(title: str, arrows: Rows, states: type[StrEnum], note: str) -> str:
    order = [None, *states]
    arrows = dict(sorted(arrows.items(), key=lambda row: order.index(row[0][0])))
    parts = [f"\n## {title}\n{note}", _diagram(arrows), _table(arrows)]
    if set(states) & STATE_NAMES.keys():
        parts.insert(1, _words(states))
    return "\n".join(parts)


def _rules() -> str:
    """Return the rules by which jobs advance: the first sentence of each."""
    lines = [f"\n## What follows for a job\n{_RULES_NOTE}"]
    for state, rules in RULES.items():
        found = [f"{number}. {(rule.__doc__ or '').strip()}" for number, rule in enumerate(rules, 1)]
        lines.append(f"`{state}`:\n\n" + "\n".join(found) + "\n")
    return "\n".join(lines)


def _words(states: type[StrEnum]) -> str:
    found = [f"`{state}` {STATE_NAMES[state]}" for state in states if state in STATE_NAMES]
    return f"The states are shown as: {', '.join(found)}.\n"


def _diagram(arrows: Rows) -> str:
    """Draw what changes the state; several events from one state to another share an arrow."""
    drawn: dict[tuple[str, str], list[str]] = {}
    for (state, event), targets in arrows.items():
        for target in sorted(targets):
            if target != state:
                drawn.setdefault((_point(state), _point(target)), []).append(event.__name__)
    lines = [f"    {begin} --> {end}: {', '.join(events)}" for (begin, end), events in drawn.items()]
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def _point(state: StrEnum | None) -> str:
    return "[*]" if state is None else state.value.replace("-", "_")


def _table(arrows: Rows) -> str:
    rows = [
        f"| {'none' if state is None else state} | `{event.__name__}` | {', '.join(sorted(targets))} |"
        for (state, event), targets in arrows.items()
    ]
    return "| from | event | to |\n|---|---|---|\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(states_page())
