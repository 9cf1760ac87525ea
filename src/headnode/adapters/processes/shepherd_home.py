"""What the process of a shepherd keeps from one job to the next job of the same user.

Standard library only: this is loaded by the shepherd factory."""

import os
import select
import time
from typing import Any, NamedTuple

from headnode.adapters import process_tree
from headnode.adapters.processes.agent_link import AgentLink, clear_signals, signal_socket
from headnode.adapters.processes.attempt_limits import CgroupPlacement
from headnode.adapters.processes.cgroup_helper import TaskCgroups
from headnode.adapters.processes.cgroups import Freezer
from headnode.adapters.processes.job_journal import Header, Writer

WITHOUT_JOB = 10.0  # seconds until a shepherd without a job ends by itself; the agent ends it sooner


class HomeDirectories(NamedTuple):
    """Descriptors of directories and files that only the agent's user can walk to.

    `outputs` has the directories of captured output of all jobs, `output` is that of this job, `slots` the
    file of transfer slots.
    """

    run: int
    outputs: int
    output: int
    slots: int


class ShepherdHome:
    """The journal, the connection to the agent, the control groups, and the directories."""

    def __init__(
        self,
        order: dict[str, Any],
        journal: Writer,
        directories: HomeDirectories,
        freezer: Freezer | None = None,
        groups: TaskCgroups | None = None,
    ) -> None:
        self.journal, self.directories = journal, directories
        self.freezer, self.groups = freezer, groups
        self.poller = select.poll()
        self.link = AgentLink(directories.run, (0, order["agent_uid"]), self.poller)
        self.placement = CgroupPlacement(directories.output, groups)
        self.wakeup = signal_socket()
        self.children = process_tree.ChildList()
        self.orders: list[list[Any]] = []  # which came with that of the next job
        self.poller.register(self.wakeup, select.POLLIN)

    def next_order(self) -> dict[str, Any] | None:
        """Tell the agent that nothing of the last job is left; return the order of the next job.

        None: there is none, or it cannot be served, and the process ends.
        """
        try:
            self.journal.clear()
            self.link.send(["vacant"])
            order = self._wait()
            moved_in = order is not None and self._move_in(order)
        except OSError:
            return None  # the agent hears that this process ends, and orders another
        return order if moved_in else None

    def _wait(self) -> dict[str, Any] | None:
        until = time.monotonic() + WITHOUT_JOB
        while self.link.up and (left := until - time.monotonic()) > 0:
            for descriptor, events in self.poller.poll(left * 1000):
                if descriptor == self.wakeup.fileno():
                    clear_signals(self.wakeup)
                elif events & select.POLLOUT:
                    self.link.flush()
            received = self.link.receive()
            for place, message in enumerate(received):
                match message:
                    case ["serve", dict(order)] if order["uid"] == os.getuid():
                        self.orders = received[place + 1 :]
                        return order
                    case ["serve" | "close", *_]:
                        return None
                    case _:  # about the last job, such as what the head knows of its results
                        pass
        return None

    def _move_in(self, order: dict[str, Any]) -> bool:
        """Use the directory of captured output of the next job, which the agent has made, and its journal.

        The agent has begun the journal, so that it knows of this process whatever becomes of the agent.
        Return False where the journal is not of this job.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        output = os.open(str(int(order["job"])), flags, dir_fd=self.directories.outputs)
        try:  # whoever has the number uses the next directory from now on
            os.dup2(output, self.directories.output, inheritable=False)
        finally:
            os.close(output)
        return self.journal.has_begun(header_of(order))


def header_of(order: dict[str, Any]) -> Header:
    """Return the first record of the journal of this process for a job."""
    return Header(order["job"], order["marker"], order["boot"], os.getpid(), order["uid"])
