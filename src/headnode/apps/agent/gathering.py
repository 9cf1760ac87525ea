"""What an attempt used on its other nodes: asked of them when it is over, and added to its result.

Its result waits for that a moment, and not for ever: a node may be away.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from headnode.adapters.nodes import messages as m
from headnode.adapters.processes.job_journal import Key
from headnode.core.model.quantities import JobId, Seconds

log = logging.getLogger("headnode.agent")

PATIENCE = 6.0  # seconds for all the nodes to answer
REPEAT = 2.0  # seconds until those that have not are asked again


class Gathering:
    """The attempts of this node that have launched something on others, and what is known of them there."""

    def __init__(
        self,
        node: str,
        say: Callable[[m.FromAgent], None],
        repeat: float = REPEAT,
        patience: float = PATIENCE,
    ) -> None:
        """`repeat` and `patience` in seconds."""
        self._node, self._say = node, say
        self._repeat, self._patience = repeat, patience
        self._targets: dict[tuple[JobId, Key], set[str]] = {}
        self._answers: dict[tuple[JobId, Key], dict[str, m.UsedThere]] = {}
        self._arrived = asyncio.Event()

    def launches(self, job: JobId, key: Key, target: str) -> None:
        """An attempt launches something on a node."""
        self._targets.setdefault((job, key), set()).add(target)

    def targets(self, job: JobId, key: Key) -> frozenset[str]:
        """Return the nodes on which an attempt has launched something; asked once, when it is over."""
        return frozenset(self._targets.pop((job, key), ()))

    def hear(self, message: m.LaunchesOver) -> None:
        """Take in an answer."""
        route = message.route
        answers = self._answers.get((route.job, (route.task, route.instance, route.attempt)))
        if answers is not None and message.used is not None:
            answers[route.target] = message.used
            self._arrived.set()

    async def used(self, job: JobId, key: Key, targets: Iterable[str]) -> dict[str, m.UsedThere]:
        """Let what an attempt has left on these nodes end; return what it used there, by node.

        A node that does not answer in time is left out.
        """
        answers = self._answers[job, key] = {}
        until = asyncio.get_running_loop().time() + self._patience
        missing = set(targets)
        while missing and (left := until - asyncio.get_running_loop().time()) > 0:
            for node in sorted(missing):
                self._say(m.LaunchesOver(m.Route(job, *key, "", self._node, node)))
            await self._wait_for(missing, answers, min(left, self._repeat))
        if missing:
            log.warning("the resource use of job %d on %s is unknown", job, ", ".join(sorted(missing)))
        del self._answers[job, key]
        return answers

    async def _wait_for(self, missing: set[str], answers: Mapping[str, m.UsedThere], patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                while missing:
                    self._arrived.clear()
                    await self._arrived.wait()
                    missing.difference_update(answers)
        except TimeoutError:
            return


def together(result: m.Result, elsewhere: Mapping[str, m.UsedThere]) -> m.Result:
    """Return the result of an attempt with what it used on its other nodes, by node.

    The peak of its memory is the sum of those of its nodes, though they may not have been at the same moment.
    """
    used = elsewhere.values()
    why = next((f"on node {node}: {each.why}" for node, each in sorted(elsewhere.items()) if each.why), "")
    failed = result.kind == "exited" and bool(result.exit_code or result.signal)
    return replace(
        result,
        user_time=Seconds(result.user_time + sum(each.user_time for each in used)),
        system_time=Seconds(result.system_time + sum(each.system_time for each in used)),
        peak_memory=result.peak_memory + sum(each.peak_memory for each in used),
        average_memory=result.average_memory + sum(each.average_memory for each in used),
        bytes_read=result.bytes_read + sum(each.bytes_read for each in used),
        bytes_written=result.bytes_written + sum(each.bytes_written for each in used),
        message=result.message or (why if failed else ""),
    )
