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
from testbed.rude_programs import RudePrograms

PATIENCE = 60.0  # seconds
CANCEL_PATIENCE = 15.0  # seconds until the daemons are ended though something still runs
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
RUDE_PROGRAMS = ("sbatch", "squeue", "scancel", "sacct")


class SlurmPeer(RudePrograms):
    """The daemons of one Slurm with two nodes of so many processors each."""

    def __init__(self, directory: Path, processors: int = 4) -> None:
        super().__init__(directory, {name: shutil.which(name) or name for name in RUDE_PROGRAMS})
        self._processors = processors
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

    def make(self) -> None:
        """Make the directory of a controller without jobs."""
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
        self.write()

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
    peer.make()
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
