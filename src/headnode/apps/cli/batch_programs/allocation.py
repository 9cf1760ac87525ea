"""The connection of ``salloc`` with its job: the head ends the job some time after it is gone.

A head that is away is asked again until it is back; the job goes on meanwhile.
Source:  docs/contracts/01-local-protocol.md, "Conversations".
"""

import os
import select
import time

from headnode.apps.cli.batch_programs.words import errors_of_ours
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.client.conversation import ClientConversation
    from headnode.core.model.errors import HeadnodeError

PAUSE = 1.0  # seconds between two attempts to reach the head
END_TIMEOUT = 5.0  # seconds to wait for the end of the job, which the head has promised
_NOT_OF_COMMANDS = frozenset(
    f"SLURM_{name}" for name in ("CPUS_ON_NODE", "JOB_USER", "LOCALID", "NODEID", "PROCID", "RESTART_COUNT")
)
"""Variables of a program on a node; the command of salloc is on none."""


class HeldJob:
    """A job that holds processors for us.  `node` is its first node once it has any."""

    def __init__(self, client: Client, job: int) -> None:
        self.job, self.node, self.queued, self.over = job, "", False, False
        self.notices: list[str] = []  # sentences for the user that were not shown yet
        self._client, self._retry_at, self._refused = client, 0.0, ""
        self._conversation: ClientConversation | None = None

    def look(self, timeout: float | None, others: "tuple[int, ...]" = ()) -> "list[int]":
        """Wait until the head says something; return which of other descriptors became readable.

        Unit:    seconds (`timeout`; None waits for ever).
        """
        self._connect()
        conversation = self._conversation
        if conversation is None:
            left = max(0.0, self._retry_at - time.monotonic())
            return _readable(others, left if timeout is None else min(left, timeout))
        if conversation.pending:
            self._receive(conversation)
            return _readable(others, 0.0)
        ready = _readable((conversation.fileno(), *others), timeout)
        if conversation.fileno() in ready:
            ready.remove(conversation.fileno())
            self._receive(conversation)
        return ready

    def _connect(self) -> None:
        if self._conversation is not None or self.over or time.monotonic() < self._retry_at:
            return
        try:
            self._conversation = self._client.begin("shell", job=self.job, holds=True)
        except errors_of_ours() as trouble:
            self._lost(trouble)

    def _receive(self, conversation: "ClientConversation") -> None:
        try:
            answer = conversation.receive()
        except errors_of_ours() as trouble:
            self._lost(trouble)
            return
        if "waits" in answer:
            self.queued = answer["waits"]["state"] == "Queued"
        elif "node" in answer:
            self.node = str(answer["node"])
        elif "notice" in answer:
            self.notices.append(str(answer["notice"]))
        elif answer.get("done"):
            self.over = True

    def _lost(self, trouble: "HeadnodeError") -> None:
        """The connection is gone, or refused: try again, unless the job is over."""
        from headnode.apps.client.failures import is_away

        self.close()
        self._retry_at = time.monotonic() + PAUSE
        self.over = self.over or trouble.code in ("job-over", "no-such-job")
        if not self.over and not is_away(trouble) and trouble.what != self._refused:
            self._refused = trouble.what
            self.notices.append(trouble.what)

    def close(self) -> None:
        """Hang up."""
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None

    def variables(self) -> "dict[str, str]":
        """Return the variables of Slurm that a command with this allocation has.

        Raises:  HeadnodeError.
        """
        found = dict(line.partition("=")[::2] for line in self._output("env -0").split("\0"))
        return {
            name: value
            for name, value in found.items()
            if name.startswith("SLURM_") and name not in _NOT_OF_COMMANDS
        }

    def _output(self, command: str) -> str:
        """Return what a command prints that runs as a part of the job."""
        from headnode.apps.client.conversation import from_base64

        conversation, output = self._client.begin("shell", job=self.job, in_task=True, command=command), b""
        try:
            while not (answer := conversation.receive()).get("done"):
                output += from_base64(answer.get("out", ""))
        finally:
            conversation.close()
        return output.decode(errors="surrogateescape")

    def end(self, verb: str, **fields: "Any") -> None:
        """End the job by this verb, and wait a while for its end.

        Raises:  HeadnodeError.
        """
        self._client.ask(verb, job=self.job, **fields)
        until = time.monotonic() + END_TIMEOUT
        while not self.over and (left := until - time.monotonic()) > 0:
            self.look(left)


def _readable(files: "tuple[int, ...]", timeout: float | None) -> "list[int]":
    poller = select.poll()
    for file in files:
        poller.register(file, select.POLLIN)
    return [file for file, _ in poller.poll(None if timeout is None else timeout * 1000)]


def shell_of_user() -> str:
    """Return the login shell of the user."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return os.environ.get("SHELL") or "/bin/sh"
