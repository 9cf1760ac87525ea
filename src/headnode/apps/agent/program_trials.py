"""Looks at programs of the site for the head, before they are set: can this agent run them?"""

import asyncio
import shlex
from collections.abc import Callable

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.nodes import messages as m
from headnode.apps.agent.node_filters import registered
from headnode.core.model.errors import Unavailable


class ProgramTrials:
    """The trials that are not over.  A file system that does not answer delays nothing else."""

    def __init__(self, say: Callable[[m.FromAgent], None]) -> None:
        self._say = say
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, message: m.TryProgram) -> None:
        """Look at the program or the filters, and answer the head."""
        task = asyncio.get_running_loop().create_task(self._try(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try(self, message: m.TryProgram) -> None:
        trouble = await asyncio.to_thread(why_not, message.program, message.filters)
        self._say(m.ProgramTried(number=message.number, trouble=trouble))


def why_not(program: str, filters: str) -> str:
    """Return why this agent cannot run a program, or a filter of a directory; empty if it can."""
    try:
        if filters:
            registered(filters)
        return why_not_run(shlex.split(program)) if program else ""
    except (Unavailable, ValueError) as error:
        return str(error)
