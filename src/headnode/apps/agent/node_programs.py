"""Programs of the site that the agent runs: the health check, node filters, trials; and their environment."""

import asyncio
import os
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.processes.site_programs import ask_site_program, base_environment, run_site_program
from headnode.adapters.wire import messages as m
from headnode.adapters.wire.agent_messages import ProgramChecked
from headnode.adapters.wire.messages import CheckProgram, FromAgent
from headnode.core.launching.environment import node_list
from headnode.core.launching.node_filters import (
    FILTERS,
    NodeFilterInput,
    NodeFilterResult,
    apply_answer,
    question_at_start,
    why_exit,
)
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.core.model.node import NodeFacts, machine_numbers
from headnode.core.state.job_record import decode_spec

MAX_VALUE = 4096  # characters of a value that a user has chosen


def hook_environment(opened: m.OpenJob, facts: NodeFacts, head: m.Welcome) -> dict[str, str]:
    """Return the variables for a job, as it is on this node: `opened` has the numbers of its user here."""
    spec, held = decode_spec(opened.spec), dict(opened.allocation).get(facts.name, ())
    counts = {node: len(numbers) for node, numbers in opened.allocation}
    user = base_environment(opened.uid)
    directory = next((task.work_directory for task in spec.tasks), "") or user["HOME"]
    return {
        "HEADNODE_JOB": str(opened.job),
        "HEADNODE_NODE": facts.name,
        "HEADNODE_USER": user["USER"],
        "HEADNODE_UID": str(opened.uid),
        "HEADNODE_GID": str(opened.gid),
        "HEADNODE_PROCESSORS": str(len(held)),
        "HEADNODE_MEMORY": str((spec.process_memory or 0) * len(held)),
        "HEADNODE_TEMPLATE": _plain(spec.template or "Default"),
        "HEADNODE_PROJECT": _plain(spec.project),
        "HEADNODE_WORK_DIRECTORY": _plain(directory),
        "CCP_CLUSTER_NAME": head.cluster,
        "CCP_SCHEDULER": head.host or socket.gethostname(),
        "CCP_JOBID": str(opened.job),
        "CCP_JOBNAME": _plain(spec.name),
        "CCP_JOBTEMPLATE": _plain(spec.template or "Default"),
        "CCP_JOBTYPE": "Batch",
        "CCP_NODES": node_list(opened.allocation, counts),
        "CCP_NODES_CORES": node_list(opened.allocation, counts),
        "CCP_NUMCPUS": str(sum(counts.values())),
        "CCP_COREIDS": " ".join(map(str, machine_numbers(held, facts.machine_processors))),
        "CCP_WORKDIR": _plain(directory),
    }


def _plain(text: str) -> str:
    """Return a text of a user as a variable can hold it: no job may keep a hook from running."""
    return text.replace("\0", "")[:MAX_VALUE]


MAX_FILTER_OUTPUT = 1 << 20  # bytes of a filter's answer
MAX_WORDS = 500  # characters of its last words that are told


def registered(directory: str) -> dict[str, str]:
    """Return the paths of the filters in a directory, by the event that each is for; it need not exist.

    Raises:  Unavailable ``node-filters`` if another user could have written one.
    """
    folder = Path(directory)
    variables: dict[str, str] = {}
    for name in FILTERS:
        for path in (folder / f"{name}.sh", folder / name):
            if not os.path.lexists(path):
                continue
            if why_not := why_not_run([str(path)]):
                raise Unavailable(
                    code="node-filters",
                    what=f"the node filter {str(path)!r} cannot be run: {why_not}",
                    fix="an administrator can correct it",
                )
            variables.setdefault(name, str(path))
    return variables


async def ask_filter(
    path: str, filter_input: NodeFilterInput, environment: dict[str, str], timeout: float
) -> NodeFilterResult:
    """Return a task as a filter wants it.

    Raises:  Unavailable ``node-filter`` when the filter does not let it start, with the reason.
    """
    called, text = "the node filter", question_at_start(filter_input).encode()
    ran = await ask_site_program(shlex.quote(path), called, environment, timeout, MAX_FILTER_OUTPUT, text)
    if ran.trouble:
        why = why_exit(ran.status or 0)
        message = "; ".join(filter(None, (ran.trouble + (f": {why}" if why else ""), ran.line[-MAX_WORDS:])))
        raise Unavailable(code="node-filter", what=message)
    try:
        return apply_answer(filter_input, ran.output)
    except BadRequest as error:
        raise Unavailable(
            code="node-filter", what=f"{called} {path!r} {error.what}", fix="an administrator can correct it"
        ) from None


class ProgramTrials:
    """The trials that are not over.  A file system that does not answer delays nothing else."""

    def __init__(self, send: Callable[[FromAgent], None]) -> None:
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, message: CheckProgram) -> None:
        """Look at the program or the filters, and answer the head."""
        task = asyncio.get_running_loop().create_task(self._try(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try(self, message: CheckProgram) -> None:
        trouble = await asyncio.to_thread(why_not, message.program, message.filters)
        self._send(ProgramChecked(number=message.number, problem=trouble))


def why_not(program: str, filters: str) -> str:
    """Return why this agent cannot run a program, or a filter of a directory; empty if it can."""
    try:
        if filters:
            registered(filters)
        return why_not_run(shlex.split(program)) if program else ""
    except (Unavailable, ValueError) as error:
        return str(error)


TIMEOUT = 60.0  # seconds that a check may take
MAX_CHECK_OUTPUT = 4096  # bytes that are kept of what it says

Tell = Callable[[bool, str], None]
"""Whether the node is well, and if not, why."""


class HealthCheck:
    """Runs one program, again and again, until another is ordered.  A check that hangs is one that fails."""

    def __init__(self, node: str, report: Tell, timeout: float = TIMEOUT) -> None:
        self._node, self._report, self._timeout = node, report, timeout
        self._work: asyncio.Task[None] | None = None
        self.ordered = ("", 0.0)  # the program, and after how many seconds it runs again

    def order(self, program: str, every: float) -> None:
        """Check at once, and then every so many seconds; without a program the node is well."""
        self.stop()
        self.ordered = program, every
        if program:
            self._work = asyncio.ensure_future(self._go_on(program, every))
        else:
            self._report(True, "")

    def stop(self) -> None:
        """Check no longer."""
        if self._work is not None:
            self._work.cancel()
            self._work = None

    async def _go_on(self, program: str, every: float) -> None:
        while True:
            trouble = await self._trouble(program)
            self._report(not trouble, trouble)
            await asyncio.sleep(every)

    async def _trouble(self, program: str) -> str:
        """Return why the node is not well, or an empty string."""
        where = {"HEADNODE_NODE": self._node}
        ran = await run_site_program(program, "the health check", where, self._timeout, MAX_CHECK_OUTPUT)
        return (ran.line or ran.trouble) if ran.trouble else ""
