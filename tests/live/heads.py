"""Real heads for live tests: processes of their own, in a directory of the test."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError
from testbed.answer_schemas import check_schema

TIMEOUT = 30.0  # seconds for anything that must happen


class RealHead:
    """A head process with nodes on this machine."""

    def __init__(
        self,
        state: Path,
        nodes: int = 1,
        processors: int | None = 2,
        listen: str = "",
        gateway_user: str = "",
    ) -> None:
        self.state = state
        state.mkdir(parents=True, exist_ok=True)
        self.options = ["--nodes", str(nodes)]
        self.options += ["--processors", str(processors)] if processors is not None else []
        self.options += ["--listen", listen] if listen else []
        self.options += ["--gateway-user", gateway_user] if gateway_user else []
        self.nodes = nodes
        self.client = Client(str(state))
        self.process = self._spawn()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "headnode.apps.server", "--state", str(self.state), *self.options]
        with (self.state.parent / "head.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def log(self) -> str:
        return (self.state.parent / "head.log").read_text()[-5000:]

    def ask(self, question: str, **fields: Any) -> dict[str, Any]:
        answer = self.client.ask(question, **fields)
        check_schema(question, answer)
        return answer

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            try:
                nodes = self.ask("nodes")["nodes"]
            except HeadnodeError:
                assert self.process.poll() is None, f"the head died:\n{self.log()}"
                time.sleep(0.01)
                continue
            if sum(node["state"] == "Ready" for node in nodes) >= self.nodes:
                return
            time.sleep(0.01)
        raise AssertionError(f"no ready node after {TIMEOUT} s:\n{self.log()}")

    def submit(self, *commands: str, terms: dict[str, str] | None = None, **task: Any) -> int:
        tasks = [{"command": command, **task} for command in commands]
        job: int = self.ask("submit_job", tasks=tasks, terms=terms or {})["job"]
        return job

    def wait(self, job: int) -> dict[str, Any]:
        """Wait for the end of a job; return it."""
        for answer in self.client.follow("watch_jobs", job=job):
            if answer["done"]:
                found: dict[str, Any] = answer["jobs"][0]
                return found
        raise AssertionError("the head hung up")

    def wait_for(self, job: int, state: str) -> None:
        """Wait until people see one of the job's tasks in a state."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if self.ask("tasks", job=job, states=[state])["tasks"]:
                return
            time.sleep(0.01)
        raise AssertionError(f"no task of job {job} became {state}:\n{self.log()}")

    def until(self, happened: Callable[[], object]) -> None:
        """Wait until something has happened."""
        deadline = time.monotonic() + TIMEOUT
        while not happened():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def task(self, job: int, task: int = 1, instance: int | None = None) -> dict[str, Any]:
        fields = {"instance": instance} if instance is not None else {}
        found: dict[str, Any] = self.ask("task", job=job, task=task, **fields)["task"]
        return found

    def output(self, job: int, task: int = 1, instance: int | None = None) -> str:
        fields = {"instance": instance} if instance is not None else {}
        path = Path(self.ask("task_output", job=job, task=task, **fields)["standard_output"])
        return path.read_text() if path.exists() else ""

    def cancel_all(self) -> None:
        """Cancel all jobs that have not ended, if the head still answers."""
        with suppress(HeadnodeError):
            for job in self.ask("jobs", states=["active"], limit=1000)["jobs"]:
                self.ask("cancel_job", job=job["id"], force=True)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.client.close()

    def start_again(self) -> None:
        self.process = self._spawn()
        self.wait_until_ready()

    def stop(self) -> None:
        """End everything of this head, also what runs."""
        if self.process.poll() is not None:
            self.start_again()
        self.ask("stop_head", cancel_jobs=True)
        self.client.close()
        self.process.wait(TIMEOUT)


@contextmanager
def real_head(
    directory: Path,
    nodes: int = 1,
    processors: int | None = 2,
    listen: str = "",
    gateway_user: str = "",
) -> Iterator[RealHead]:
    """Start a head, wait until its nodes are ready, and end it afterwards.

    `processors` of each node; None: those that it finds.
    """
    head = RealHead(directory / "state", nodes, processors, listen, gateway_user)
    try:
        head.wait_until_ready()
        yield head
    finally:
        head.stop()


def head_fixture(**options: Any) -> Callable[..., Iterator[RealHead]]:
    """Return a fixture: a head for each test, as `real_head` starts it in the directory of the test."""

    @pytest.fixture
    def head(tmp_path: Path) -> Iterator[RealHead]:
        with real_head(tmp_path, **options) as running:
            yield running

    return head


def shared_head_fixture(**options: Any) -> Callable[..., Iterator[RealHead]]:
    """Return a fixture: one head for all tests of a file, as `real_head` starts it."""

    @pytest.fixture(scope="module")
    def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
        with real_head(tmp_path_factory.mktemp("head"), **options) as running:
            yield running

    return head


def processes(*words: bytes) -> Iterator[int]:
    """Yield the processes that have all the words in their command line or environment."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                found = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if all(word in found for word in words):
                yield int(folder.name)
