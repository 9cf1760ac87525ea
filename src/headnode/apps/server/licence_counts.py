"""Counts of licences that a program prints: they become the cluster parameter Licences."""

import asyncio
import logging

from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, Refused, Unavailable
from headnode.core.model.user import User
from headnode.core.state import nodes as c
from headnode.engine.settings import read_licences

log = logging.getLogger("headnode.licences")

TIMEOUT = 60.0  # seconds that the program may take
MAX_OUTPUT = 65_536  # bytes of what it prints
WITHOUT = 5.0  # seconds between two looks whether there is a program
BY = User(name="LicenceProgram", uid=0, gid=0, administrator=True)


class LicenceCounts:
    """Runs the program again and again.  While it fails, the last counts stay, and the context knows why."""

    def __init__(self, context: ServerContext) -> None:
        self._context, self._engine, self._batcher = context, context.engine, context.batcher

    async def keep(self) -> None:
        """Keep the counts as the program tells them, for ever."""
        while True:
            settings = self._engine.settings
            program = settings.text("LicenceProgram")
            if program:
                await self._look(program)
                rest = settings.number("LicenceInterval")
            else:
                self._context.licence_problem, rest = "", WITHOUT
            await self._rest(program, rest)

    async def _rest(self, program: str, seconds: float) -> None:
        """Wait for the next turn, or until another program is set."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until and self._engine.settings.text("LicenceProgram") == program:
            await asyncio.sleep(min(WITHOUT, until - loop.time()))

    async def _look(self, program: str) -> None:
        from headnode.adapters.processes.site_programs import run_site_program

        ran = await run_site_program(program, "the licence program", {}, TIMEOUT, MAX_OUTPUT)
        before = self._context.licence_problem
        self._context.licence_problem = f"{ran.trouble}: {ran.line}".rstrip(": ") if ran.trouble else ""
        if not self._context.licence_problem:
            await self._set(
                ",".join(filter(None, map(str.strip, ran.output.decode(errors="replace").split("\n"))))
            )
        if self._context.licence_problem and self._context.licence_problem != before:
            log.warning("%s; the counts stay as they are", self._context.licence_problem)

    async def _set(self, text: str) -> None:
        try:
            read_licences(text)
            if text != self._engine.settings.text("Licences"):
                await self._batcher.ask(c.SetParameter(by=BY, name="Licences", value=text))
        except (BadRequest, Refused, Unavailable) as error:
            self._context.licence_problem = f"the output of the licence program is not valid: {error}"
