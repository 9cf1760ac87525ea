"""Run the agent of a node until it is told to end."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence

from headnode import __version__
from headnode.adapters.files.owners import FILE_MODE_MASK, warn_of_unsafe_code
from headnode.adapters.processes import cgroups
from headnode.adapters.processes.job_journal import UnknownRecordError
from headnode.adapters.wire.frames import read_by_pieces
from headnode.apps.agent.agent import Agent
from headnode.apps.agent.joining import find_head
from headnode.apps.agent.machine import (
    AgentOptions,
    facts_of_this_machine,
    gpus_of_this_machine,
    read_options,
)
from headnode.apps.agent.places import Places
from headnode.core.model.errors import HeadnodeError

log = logging.getLogger("headnode.agent")


def main(argv: Sequence[str]) -> int:
    """Run an agent; return the exit status: 0 ended as told, 1 refused."""
    options = read_options(argv)
    logging.raiseExceptions = False  # a log that cannot be written must not be filled with that
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.umask(FILE_MODE_MASK)
    warn_of_unsafe_code(log)
    read_by_pieces()
    try:
        asyncio.run(_run(options))
    except UnknownRecordError as error:
        print(f"headnode agent: {error}; start the newer version that wrote it", file=sys.stderr)
        return 1
    except HeadnodeError as error:
        print(f"headnode agent: {error}", file=sys.stderr)
        return error.exit_status
    return 0


async def _run(options: AgentOptions) -> None:
    places = Places(options.state)
    cgroups.switch_on()
    transport, options = await find_head(options)
    if options.only_join:
        return
    gpus = gpus_of_this_machine(options)
    facts = facts_of_this_machine(options, gpus)
    if not facts.machine_processors:
        log.info("processors are declared, not found on the machine: tasks are not bound to processors")
    log.info("the agent of node %s starts: Headnode %s, process %d", facts.name, __version__, os.getpid())
    agent = Agent(places, facts, transport, allocation=options.allocation, gpus=gpus)
    loop = asyncio.get_running_loop()
    for what in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(what, agent.leave)
    await agent.run()
