"""Commands on many nodes at once, outside the queue.

One connection holds the run: when it ends, so does all that the run has started.  The part on each node has a
connection of its own, so the client decides how many run at once, and who reads slowly holds up nobody else.
Source:  HPC Pack, clusrun.
"""

import asyncio
import contextlib
import pwd
from collections.abc import AsyncIterator

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.sessions import BESIDE
from headnode.adapters.nodes.streams import Stream
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.node_choice import chosen_nodes
from headnode.apps.server.runs import Run
from headnode.apps.server.streaming import NOT_RUN, Channel, Ended, Talk, pass_through
from headnode.core.lifecycle.permission import must_administer
from headnode.core.model.errors import BadRequest, NotFound
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User

_GRACE = 1.5  # seconds that commands have to end when they are told to, before all that is left is killed
_LONGEST_TIMEOUT = 10 * 365 * 86400.0  # seconds


async def run_everywhere(desk: Desk, by: User, wish: w.RunEverywhereWish) -> Talk:
    """Begin a run; it lasts as long as the connection."""
    must_administer(by, "run commands on nodes")
    if not wish.command.strip():
        raise BadRequest(
            code="command", what="there is no command to run", fix="give a command and its arguments"
        )
    if wish.timeout is not None and not 0 < wish.timeout <= _LONGEST_TIMEOUT:
        raise BadRequest(
            code="timeout",
            what=f"a time limit of {wish.timeout:g} s is not possible",
            fix="give seconds above 0",
        )
    same_numbers = desk.engine.settings.text("UserMapping") == "name-and-number"
    run = Run(by, _user(wish.user, by), chosen_nodes(desk, wish), wish, same_numbers=same_numbers)

    async def hold(channel: Channel) -> None:
        desk.runs[run.number] = run
        try:
            await channel.say(run=run.number, nodes=run.nodes)
            while await channel.hear() is not None:
                pass
        finally:
            run.over.set()
            del desk.runs[run.number]

    return hold


def _user(name: str | None, by: User) -> User:
    if name is None or name == by.name:
        return by
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise NotFound(
            code="no-such-user",
            what=f"the head knows no user {name!r}",
            fix="name a user that `id NAME` knows on the head's machine",
        ) from None
    return User(name=found.pw_name, uid=found.pw_uid, gid=found.pw_gid)


async def run_here(desk: Desk, by: User, wish: w.RunHereWish) -> Talk:
    """Do the part of a run on one of its nodes."""
    run = desk.runs.get(JobId(wish.run))
    if run is None or run.asker.uid != by.uid:
        raise NotFound(code="no-such-run", what=f"there is no run {wish.run} of yours", fix="begin one first")
    if wish.node not in run.nodes:
        raise NotFound(
            code="no-such-node", what=f"node {wish.node!r} is none of the run", fix="ask for one of its nodes"
        )

    async def talk(channel: Channel) -> None:
        ended = await _on_node(desk, run, wish.node, channel)
        if ended is not None:
            await channel.say(exit=ended.code, problem=ended.problem, done=True)

    return talk


async def _on_node(desk: Desk, run: Run, node: str, channel: Channel) -> Ended | None:
    """Run the command on a node; return how it ended, or None when nobody wants to know any more."""
    if node not in desk.links:
        return Ended(NOT_RUN, f"node {node} is unreachable")
    async with _opened(desk, run, node) as stream:
        passing = asyncio.ensure_future(pass_through(stream, channel, run.wish.timeout))
        ending = asyncio.ensure_future(run.over.wait())
        try:
            await asyncio.wait((passing, ending), return_when=asyncio.FIRST_COMPLETED)
            return passing.result() if passing.done() else None
        finally:
            passing.cancel()
            ending.cancel()
            await asyncio.gather(passing, ending, return_exceptions=True)


@contextlib.asynccontextmanager
async def _opened(desk: Desk, run: Run, node: str) -> AsyncIterator[Stream]:
    """Let a node be ready for the run as long as its part there lasts."""
    desk.links[node].send(run.open_on(node))
    stream = desk.sessions.begin(node, run.number, BESIDE, run.launch)
    try:
        yield stream
    finally:
        left_early = not stream.over
        await desk.sessions.end(stream)

        def close() -> None:
            if node in desk.links:
                desk.links[node].send(m.CloseJob(job=run.number))

        if left_early:
            asyncio.get_running_loop().call_later(_GRACE, close)
        else:
            close()
