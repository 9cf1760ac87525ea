"""Jobs that come in one file: all are made in one step, or none.

Source:  SSS 3.1.0, "JobGroup": its jobs depend on one another.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headnode.apps.server.desk import Desk
from headnode.apps.server.named_users import users_named
from headnode.core.formats.fidelity import Awareness, Item
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.events import JobCreated
from headnode.core.model.dependencies import Link
from headnode.core.model.job import JobSpec
from headnode.core.model.user import User


class Described(NamedTuple):
    """What a client describes: its jobs, and which of them wait for which."""

    specs: Sequence[JobSpec]
    links: Sequence[Link]
    report: tuple[Item, ...]
    awareness: Awareness | None = None  # the policy that the file names for what has no effect here


def creation(desk: Desk, by: User, described: Described, *, submit: bool) -> c.CreateJobs:
    """Return the wish to make all jobs in one step."""
    ended = desk.lookups.ended_parents(*described.specs)
    return c.CreateJobs(
        by=by,
        specs=tuple(described.specs),
        links=tuple(described.links),
        submit=submit,
        parents=ended,
        known=users_named(by, described.specs),
    )


async def create_all(desk: Desk, by: User, described: Described, *, submit: bool) -> list[int]:
    """Make all jobs in one step; return their ids in the order in which they are described.

    Raises:  what refuses one of them; then none is made.
    """
    made = await desk.ask(creation(desk, by, described, submit=submit))
    return [event.job for event in made if isinstance(event, JobCreated)]
