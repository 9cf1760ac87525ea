"""Agents that belong to a head over the network, as on another machine: with TLS, and their own directory."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from heads import TIMEOUT, RealHead


class JoinedNode:
    """The agent of a node, a process of its own."""

    def __init__(self, directory: Path, name: str, processors: int = 2) -> None:
        self.state, self.name = directory / name, name
        self.state.mkdir(parents=True, exist_ok=True)
        self._options = ["--name", name, "--processors", str(processors)]
        self.process: subprocess.Popen[bytes] | None = None

    def _command(self, *more: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "headnode.apps.agent",
            "--state",
            str(self.state),
            *self._options,
            *more,
        ]

    def join(self, invitation: str) -> "subprocess.CompletedProcess[str]":
        """Join and end, as ``hn agent --join`` does before it starts the agent."""
        words = self._command("--only-join", "--join", invitation)
        return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def start(self) -> None:
        """Start the agent."""
        with (self.state / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(self._command(), stdout=log, stderr=log)

    def ended(self) -> int:
        """Wait until the agent ends by itself; return its status."""
        assert self.process is not None
        return self.process.wait(TIMEOUT)

    def log(self) -> str:
        """Return what the agent said."""
        return (self.state / "agent.log").read_text()[-3000:]

    def stop(self) -> None:
        """End the agent, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(TIMEOUT)


def invite(head: RealHead, **wish: Any) -> str:
    """Return an invitation of the head."""
    invitation: str = head.ask("invite_node", **wish)["invitation"]
    return invitation


def wait_for_state(head: RealHead, node: str, state: str) -> dict[str, Any]:
    """Wait until people see the node in a state; return it."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for found in head.ask("nodes")["nodes"]:
            if found["name"] == node and found["state"] == state:
                return dict(found)
        time.sleep(0.01)
    raise AssertionError(f"node {node} did not become {state}: {head.ask('nodes')}\n{head.log()}")
