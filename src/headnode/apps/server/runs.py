"""Commands on many nodes outside the queue, while somebody holds them."""

import asyncio

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.sessions import number_outside
from headnode.apps.server.wishes import RunEverywhereWish
from headnode.core.lifecycle.records import encode_spec
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import NEVER
from headnode.core.model.user import User


class Run:
    """One of them; its part on a node is a job outside the queue."""

    def __init__(
        self, asker: User, user: User, nodes: list[str], wish: RunEverywhereWish, *, same_numbers: bool
    ) -> None:
        """`same_numbers`: as in `OpenJob`."""
        self.same_numbers = same_numbers
        self.number = number_outside()
        self.asker, self.user, self.nodes, self.wish = asker, user, nodes, wish
        self.over = asyncio.Event()

    def open_on(self, node: str) -> m.OpenJob:
        """Return what makes a node ready for it."""
        return m.OpenJob(
            job=self.number,
            owner=self.user.name,
            uid=self.user.uid,
            gid=self.user.gid,
            spec=encode_spec(JobSpec(environment=self.wish.environment)),
            allocation=((node, ()),),
            deadline=NEVER,
            memory_limited=False,
            same_numbers=self.same_numbers,
        )

    def launch(self, route: m.Route) -> m.Launch:
        """Return what starts it on a node."""
        return m.Launch(route, self.wish.command, self.wish.work_directory, {})
