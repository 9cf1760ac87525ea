"""The life cycles for readers: diagrams and tables printed from `arrows`.

Write the page anew:
python -c 'from headnode.core.lifecycle.arrow_pages import states_page as p; print(p(), end="")' \
    > docs/contracts/02-job-task-node-states.md
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from headnode.core.lifecycle.arrows import INSTANCE_ARROWS, JOB_ARROWS, NODE_ARROWS
from headnode.core.lifecycle.states import PEOPLE_SAY, JobState, TaskState
from headnode.core.model.node import NodeState

_HEAD = """\
# The states of jobs, tasks and nodes

Printed from the tables in `headnode.core.lifecycle.arrows`, which are the law: an event that has no row here
cannot be applied, and ends the head before anything wrong is written down.

- A state MUST change only by an event of these tables. What one means is in `headnode.core.lifecycle.events`.
- Where a row offers several states, the event says which.
- A job that is over leaves the memory of the head; it takes an event only after `JobRevived` brought it back.
- An instance is one run of a task's program; the attempt numbers of an instance MUST never be used twice.
"""
_JOB_NOTE = """
`ending` means: how the job ends is decided, and something of it still runs. A job is over only when nothing
of it runs any more.

A suspended job (`suspending`, `suspended`, `resuming`) keeps its live instances. It gives back what it holds
by `JobSuspended`, when every node has said that all stands still, and takes as many processors of the same
nodes by `JobResumed`. Between the two nothing of it is dispatched, and its run time limit stands still.
"""
_NODE_NOTE = """
`none` is a node nobody has heard of. An unreachable node keeps its tasks until it is given up; see
[the node protocol](03-node-protocol.md).

Whether a node drains is no state of it: `NodeDrained` says when it closes and why, once for each cause (an
administrator, its health check, a fault), and `NodeDrainLifted` takes that back. Both leave every state as it
is. A node that will close is given only what is surely over by then.
"""

Rows = Mapping[tuple[Any, type], frozenset[Any]]


def states_page() -> str:
    """Return the page docs/contracts/02-job-task-node-states.md."""
    return (
        _HEAD
        + _chapter("Jobs", JOB_ARROWS, JobState, _JOB_NOTE)
        + _chapter("Instances of tasks", INSTANCE_ARROWS, TaskState, "")
        + _chapter("Nodes", NODE_ARROWS, NodeState, _NODE_NOTE)
    )


def _chapter(title: str, arrows: Rows, states: type[StrEnum], note: str) -> str:
    parts = [f"\n## {title}\n{note}", _diagram(arrows), _table(arrows)]
    if states is not NodeState:
        parts.insert(1, _words(states))
    return "\n".join(parts)


def _words(states: type[StrEnum]) -> str:
    said = [f"`{state}` {PEOPLE_SAY[state]}" for state in states if state in PEOPLE_SAY]
    return f"People read: {', '.join(said)}.\n"


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
