"""Counts of licences that a program prints: they become the cluster parameter Licences."""

import asyncio
import logging

from headnode.apps.server.command_batcher import CommandBatcher
from headnode.core.model.errors import BadRequest, Refused, Unavailable
from headnode.core.model.user import User
from headnode.core.state import nodes as c
from headnode.engine.engine import Engine
from headnode.engine.settings import read_licences

log = logging.getLogger("headnode.licences")

PATIENCE = 60.0  # seconds that the program may take
MOST_OUTPUT = 65_536  # bytes of what it prints
WITHOUT = 5.0  # seconds between two looks whether there is a program
BY = User(name="LicenceProgram", uid=0, gid=0, administrator=True)


class LicenceCounts:
    """Runs the program again and again.  While it fails the last counts hold, and `problem` says why."""

    def __init__(self, engine: Engine, batcher: CommandBatcher) -> None:
        self._engine, self._batcher = engine, batcher
        self.problem = ""

    async def keep(self) -> None:
        """Keep the counts as the program tells them, for ever."""
        while True:
            settings = self._engine.settings
            program = settings.text("LicenceProgram")
            if program:
                await self._look(program)
                rest = settings.number("LicenceInterval")
            else:
                self.problem, rest = "", WITHOUT
            await self._rest(program, rest)

    async def _rest(self, program: str, seconds: float) -> None:
        """Wait for the next turn, or until another program is set."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until and self._engine.settings.text("LicenceProgram") == program:
            await asyncio.sleep(min(WITHOUT, until - loop.time()))

    async def _look(self, program: str) -> None:
        from headnode.adapters.processes.site_programs import run_site_program

        ran = await run_site_program(program, "the licence program", {}, PATIENCE, MOST_OUTPUT)
        before = self.problem
        self.problem = f"{ran.trouble}: {ran.line}".rstrip(": ") if ran.trouble else ""
        if not self.problem:
            await self._set(
                ",".join(filter(None, map(str.strip, ran.said.decode(errors="replace").split("\n"))))
            )
        if self.problem and self.problem != before:
            log.warning("%s; the counts stay as they are", self.problem)

    async def _set(self, told: str) -> None:
        try:
            read_licences(told)
            if told != self._engine.settings.text("Licences"):
                await self._batcher.ask(c.SetParameter(by=BY, name="Licences", value=told))
        except (BadRequest, Refused, Unavailable) as error:
            self.problem = f"the output of the licence program is not valid: {error}"
