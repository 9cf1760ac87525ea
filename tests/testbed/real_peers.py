"""Schedulers of Debian, started without systemd in a directory of the test: what they have in common.

`slurm_peer` and `gridengine_peer` start them.  Both need root, to start programs as their users.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from testbed.debian_packages import CannotInstall, install
from testbed.rude_programs import RudePrograms

TIMEOUT = 90.0  # seconds until a program must answer
ENDING = 20.0  # seconds until a daemon is killed
_WITHOUT_SERVICES = Path("/usr/sbin/policy-rc.d")


class RealPeer(RudePrograms):
    """The daemons of one scheduler, and the variables by which its programs find it."""

    def __init__(
        self,
        directory: Path,
        packages: tuple[str, ...],
        real: Mapping[str, str],
        variables: Mapping[str, str],
    ) -> None:
        super().__init__(directory, real)
        self.packages, self.programs = packages, directory / "programs"
        self.environment = {**os.environ, **variables}
        self.controller: subprocess.Popen[bytes] | None = None  # the daemon that its programs ask
        self._running = ExitStack()

    def make(self) -> None:
        """Make the directory of a scheduler without jobs, and start its daemons."""
        raise NotImplementedError

    def cancel_all(self) -> None:
        """Cancel the jobs of all users, and wait until nothing of them runs; not for ever."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Return the names of all jobs that it ever had."""
        raise NotImplementedError

    def in_queue(self) -> list[str]:
        """Return the names of the jobs that wait or run."""
        raise NotImplementedError

    def freeze(self, seconds: float) -> None:
        """Let the daemon that its programs ask stand still for a while."""
        assert self.controller is not None
        self.controller.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.controller.send_signal(signal.SIGCONT)

    def start(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        """Start a daemon in the foreground; it is stopped at the end, the last first."""
        with (self.directory / f"{name}.out").open("ab") as log:
            process = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._running.callback(_stop, process)
        return process

    def run(self, *words: str, check: bool = True, **more: str) -> str:
        """Return what a program prints; `more` are variables.

        Raises:  CalledProcessError.
        """
        done = subprocess.run(
            words,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=check,
        )
        return done.stdout

    def until(self, happened: Callable[[], object]) -> None:
        """Wait for a condition."""
        until = time.monotonic() + TIMEOUT
        while not happened():
            assert time.monotonic() < until, f"it did not come within {TIMEOUT:.0f} s; see {self.directory}"
            time.sleep(0.05)

    def close(self) -> None:
        """Stop all daemons."""
        self._running.close()


Peer = TypeVar("Peer", bound=RealPeer)


@contextmanager
def started_or_skip(peer: Peer) -> Iterator[Peer]:
    """Start a scheduler; skip the test where there can be none."""
    with ExitStack() as stack:
        try:
            stack.enter_context(started(peer))
        except CannotInstall as error:
            pytest.skip(f"there is no {type(peer).__name__}: {error}")
        yield peer


@contextmanager
def started(peer: Peer) -> Iterator[Peer]:
    """Install a scheduler, start it, and stop it with all its jobs.

    Raises:  CannotInstall.
    """
    if os.geteuid() != 0:
        raise CannotInstall("a scheduler of the test needs root")
    install_packages(*peer.packages)
    peer.directory.mkdir()
    peer.directory.chmod(0o755)
    try:
        peer.make()
        peer.write()
        try:
            yield peer
        finally:
            peer.cancel_all()
    finally:
        peer.close()


def install_packages(*packages: str) -> None:
    """Install packages of daemons, and start none of them.

    Raises:  CannotInstall.
    """
    missing = [package for package in packages if not _is_installed(package)]
    if not missing:
        return
    ours = not _WITHOUT_SERVICES.exists()
    if ours:
        _WITHOUT_SERVICES.write_text("#!/bin/sh\nexit 101\n")
        _WITHOUT_SERVICES.chmod(0o755)
    try:
        install(*missing)
    finally:
        if ours:
            _WITHOUT_SERVICES.unlink(missing_ok=True)


def _is_installed(package: str) -> bool:
    result = subprocess.run(["dpkg-query", "-W", "-f=${Status}", package], capture_output=True, text=True)
    return "ok installed" in result.stdout


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nothing listens at."""
    with ExitStack() as doors:
        found = [doors.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [door.getsockname()[1] for door in found]


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
