"""A job that comes back to a node has its prolog run, whatever an agent that died had left."""

import asyncio
import os
from pathlib import Path
from typing import cast

from headnode.adapters.wire.messages import FromAgent, Hooks, OpenJob
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.prolog_epilog import PrologEpilog
from headnode.core.model.quantities import Instant, JobId, Seconds


class Services:
    """What visits need of their node: to hear that they have come and gone."""

    def __init__(self) -> None:
        self.came, self.went = asyncio.Event(), asyncio.Event()

    def send(self, message: FromAgent) -> None:
        """Nobody hears it."""

    def entered(self, job: JobId) -> None:
        self.came.set()

    def left(self, job: JobId) -> None:
        self.went.set()


async def visit(folder: Path, opened: OpenJob) -> bytes:
    """Let a job come and go; return the outcome of its prolog."""
    services = Services()
    visits = PrologEpilog("boot", folder, cast(NodeServices, services))
    async with asyncio.timeout(30):
        visits.enter(opened, {})
        await services.came.wait()
        outcome = (folder / "7.prolog").read_bytes()
        visits.leave(opened.job)
        await services.went.wait()
    visits.close()
    return outcome


def test_the_prolog_runs_although_its_outcome_was_left_by_the_last_visit(tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "visits"
    folder.mkdir()
    program = tmp_path / "prolog"
    program.write_text(f"#!/bin/sh\necho prolog >> {log}\n")
    program.chmod(0o755)
    hooks = Hooks(prolog=str(program), prolog_timeout=Seconds(20.0))
    user = ("me", os.geteuid(), os.getegid())
    opened = OpenJob(JobId(7), *user, b"", (("n1", (0,)),), Instant(1e10), hooks=hooks)
    outcome = asyncio.run(visit(folder, opened))
    assert not list(folder.iterdir())
    (folder / "7.prolog").write_bytes(outcome)  # the agent died before it removed it
    asyncio.run(visit(folder, opened))
    assert log.read_text().split() == ["prolog", "prolog"]
