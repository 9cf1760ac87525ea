"""The health check of a node: a program of the administrators that the agent runs now and then, as itself."""

import asyncio
from collections.abc import Callable

from headnode.adapters.processes.site_programs import run_site_program

PATIENCE = 60.0  # seconds that a check may take
MOST_OUTPUT = 4096  # bytes that are kept of what it says

Tell = Callable[[bool, str], None]
"""Whether the node is well, and if not, why."""


class HealthCheck:
    """Runs one program, again and again, until another is ordered.  A check that hangs is one that fails."""

    def __init__(self, node: str, tell: Tell, patience: float = PATIENCE) -> None:
        self._node, self._tell, self._patience = node, tell, patience
        self._work: asyncio.Task[None] | None = None
        self.ordered = ("", 0.0)  # the program, and after how many seconds it runs again

    def order(self, program: str, every: float) -> None:
        """Check at once, and then every so many seconds; without a program the node is well."""
        self.stop()
        self.ordered = program, every
        if program:
            self._work = asyncio.ensure_future(self._go_on(program, every))
        else:
            self._tell(True, "")

    def stop(self) -> None:
        """Check no longer."""
        if self._work is not None:
            self._work.cancel()
            self._work = None

    async def _go_on(self, program: str, every: float) -> None:
        while True:
            trouble = await self._trouble(program)
            self._tell(not trouble, trouble)
            await asyncio.sleep(every)

    async def _trouble(self, program: str) -> str:
        """Return why the node is not well, or an empty string."""
        where = {"HEADNODE_NODE": self._node}
        ran = await run_site_program(program, "the health check", where, self._patience, MOST_OUTPUT)
        return (ran.line or ran.trouble) if ran.trouble else ""
