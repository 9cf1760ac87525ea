"""A real Slurm on this machine, started without systemd in a directory of the test, and a rude go-between.

Source:  Slurm, slurm.conf(5); slurmd(8), option -N.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from testbed.debian_packages import CannotInstall, install

PATIENCE = 60.0  # seconds
CANCEL_PATIENCE = 15.0  # seconds until the daemons are ended though something still runs
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
RUDE = """#!/bin/sh
# {name}, of which answers are lost, late, or wrong: {directory}/rude says how many of 256.
exec 3>> {directory}/faults
number=$(od -An -N1 -tu1 /dev/urandom)
rude=$(cat {directory}/rude)
[ $number -ge $rude ] && exec {real} "$@"
case $((number % 5)) in
  0) echo {name} lost >&3; echo '{name}: error: Socket timed out on send/recv operation' >&2; exit 1;;
  1) echo {name} unanswered >&3; {real} "$@" > /dev/null 2>&1
     echo '{name}: error: Socket timed out on send/recv operation' >&2; exit 1;;
  2) echo {name} late >&3; (sleep 1; exec {real} "$@") > /dev/null 2>&1 &
     echo '{name}: error: Socket timed out on send/recv operation' >&2; exit 1;;
  3) echo {name} slow >&3; sleep 1; exec {real} "$@";;
  4) echo {name} killed >&3; {real} "$@" > /dev/null 2>&1; kill -9 $$;;
esac
"""


class SlurmPeer:
    """The daemons of one Slurm with two nodes of so many processors each."""

    def __init__(self, directory: Path, processors: int = 4) -> None:
        self.directory, self._processors = directory, processors
        self.settings = directory / "slurm.conf"
        self.programs = directory / "programs"
        self.environment = {**os.environ, "SLURM_CONF": str(self.settings)}

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        return done.stdout

    def names(self) -> list[str]:
        """Return the names of all jobs that it knows."""
        return self.run("squeue", "-h", "-a", "-r", "-t", "all", "-o", "%j").split()

    def be_rude(self, share: float) -> None:
        """Lose or delay this share of the answers from now on."""
        (self.directory / "rude").write_text(str(round(share * 256)))

    def faults(self) -> int:
        """Return how many answers were lost, late or wrong."""
        return len((self.directory / "faults").read_text().splitlines())

    def write(self) -> None:
        host = socket.gethostname().split(".")[0]
        here, ports = self.directory, free_ports(3)
        for name in ("state", "spool1", "spool2", "programs"):
            (here / name).mkdir()
        key = here / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        lines = {
            "ClusterName": "peer", "SlurmctldHost": f"{host}(127.0.0.1)", "SlurmctldPort": ports[0],
            "SlurmUser": "root", "SlurmdUser": "root", "AuthType": "auth/munge", "CredType": "cred/munge",
            "AuthInfo": f"socket={here}/munge.socket", "StateSaveLocation": here / "state",
            "SlurmdSpoolDir": f"{here}/spool%n", "SlurmctldPidFile": here / "ctld.pid",
            "SlurmdPidFile": f"{here}/%n.pid", "SlurmctldLogFile": here / "ctld.log",
            "SlurmdLogFile": f"{here}/%n.log", "SwitchType": "switch/none", "MpiDefault": "none",
            "ReturnToService": 2, "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CPU",
            "ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none", "KillWait": 1,
            "JobAcctGatherType": "jobacct_gather/none", "SlurmdParameters": "config_overrides",
            "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=2,sched_interval=1,bf_interval=2",
        }  # fmt: skip
        nodes = [
            f"NodeName={number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} RealMemory=1000 "
            f"CPUs={self._processors}"
            for number, port in enumerate(ports[1:], 1)
        ]
        partition = "PartitionName=batch Nodes=1,2 Default=YES MaxTime=INFINITE State=UP"
        text = [*(f"{name}={value}" for name, value in lines.items()), *nodes, partition, ""]
        self.settings.write_text("\n".join(text))
        self.write_programs()

    def cancel_all(self) -> None:
        """Cancel the jobs of all users, and wait until nothing of them runs; not for ever."""
        until = time.monotonic() + CANCEL_PATIENCE
        try:
            while jobs := self.run("squeue", "-h", "-a", "-o", "%A").split():
                self.run("scancel", *jobs)
                if time.monotonic() > until:
                    return
                time.sleep(0.2)
        except subprocess.CalledProcessError:
            return  # it is gone

    def write_programs(self) -> None:
        """Write the commands that lose answers; they do not before `be_rude`."""
        here = self.directory
        for name in ("sbatch", "squeue", "scancel", "sacct"):
            path = self.programs / name
            path.write_text(RUDE.format(name=name, directory=here, real=shutil.which(name)))
            path.chmod(0o755)
        for name in ("faults", "rude"):
            (here / name).write_text("")
            (here / name).chmod(0o666)
        self.be_rude(0.0)

    def ready(self) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                states = self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()
            except subprocess.CalledProcessError:
                states = []
            if len(states) == 2:
                return
            assert time.monotonic() < until, (self.directory / "ctld.log").read_text()[-3000:]
            time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    with ExitStack() as doors:
        found = [doors.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [door.getsockname()[1] for door in found]


@contextmanager
def daemon(*words: str, environment: Mapping[str, str]) -> Iterator[None]:
    with subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def slurm_peer(directory: Path, processors: int = 4) -> Iterator[SlurmPeer]:
    """Start a Slurm; skip the test where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("a Slurm of the test needs root")
    try:
        install(*[package for package in PACKAGES if shutil.which(_PROGRAMS[package]) is None])
    except CannotInstall as error:
        pytest.skip(f"there is no Slurm: {error}")
    directory.mkdir()
    directory.chmod(0o755)
    peer = SlurmPeer(directory, processors)
    peer.write()
    with ExitStack() as running:

        def start(*words: str) -> None:
            running.enter_context(daemon(*words, environment=peer.environment))

        start(
            "munged", "--foreground", "--force", f"--key-file={directory}/munge.key",
            f"--socket={directory}/munge.socket", f"--pid-file={directory}/munge.pid",
            f"--log-file={directory}/munge.log", f"--seed-file={directory}/munge.seed",
        )  # fmt: skip
        start("slurmctld", "-D")
        start("slurmd", "-D", "-N", "1")
        start("slurmd", "-D", "-N", "2")
        peer.ready()
        try:
            yield peer
        finally:
            peer.cancel_all()


_PROGRAMS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "slurm-client": "sbatch", "munge": "munged"}
