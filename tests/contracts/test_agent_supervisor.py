"""The agents of the head's machine: each node gets one as soon as that is possible."""

import asyncio
import logging
from pathlib import Path

import pytest

from headnode.apps.server import agent_supervisor
from headnode.apps.server.agent_supervisor import AgentSupervisor


def test_an_agent_that_could_not_be_started_is_started_later_and_the_others_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(agent_supervisor, "BETWEEN_AGENT_CHECKS", 0.01)
    in_the_way = tmp_path / "nodes" / "red" / "agent.log"
    in_the_way.mkdir(parents=True)

    async def logged(text: str) -> None:
        while text not in caplog.text:
            await asyncio.sleep(0.001)

    async def look_after() -> None:
        supervisor = AgentSupervisor(tmp_path, ["red", "green"], 1)
        keeping = asyncio.create_task(supervisor.keep(set()))
        try:
            async with asyncio.timeout(20):
                await logged("the agent of node red cannot be started")
                await logged("starting the agent of node green")
                in_the_way.rmdir()
                while not in_the_way.is_file():
                    await asyncio.sleep(0.001)
        finally:
            keeping.cancel()
            supervisor.dismiss(set())
            for agent in supervisor._started.values():
                agent.wait()

    asyncio.run(look_after())
    assert caplog.text.count("cannot be started") < 20
