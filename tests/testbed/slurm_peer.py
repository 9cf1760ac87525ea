"""A real Slurm on this machine, in a directory of the test, with a rude go-between.

Source:  Slurm, slurm.conf(5), slurmdbd.conf(5); slurmd(8), option -N.
"""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.real_peers import RealPeer, free_ports, started_or_skip

CANCEL_TIMEOUT = 15.0  # seconds until the daemons are ended though something still runs
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
ACCOUNTING_PACKAGES = ("slurmdbd", "mariadb-server-core", "mariadb-client-core", "slurm-wlm-mysql-plugin")
RUDE_PROGRAMS = ("sbatch", "squeue", "scancel", "sacct", "dd")  # dd reads the exit files
NODES = 2
_ENDED = re.compile(r"^JobId=(\d+) .*? Name=(\S+) JobState=", re.MULTILINE)


class SlurmPeer(RealPeer):
    """The daemons of one Slurm: two nodes of so many processors each, in the partition ``main``."""

    def __init__(self, directory: Path, processors: int = 4, *, accounting: bool = False) -> None:
        self.settings, self.ended = directory / "slurm.conf", directory / "ended"
        real = {name: shutil.which(name) or name for name in RUDE_PROGRAMS}
        packages = (*PACKAGES, *(ACCOUNTING_PACKAGES if accounting else ()))
        super().__init__(directory, packages, real, {"SLURM_CONF": str(self.settings)})
        self._processors, self._accounting = processors, accounting
        self._host, self._ports = socket.gethostname().partition(".")[0], free_ports(NODES + 3)

    def names(self) -> list[str]:
        """Return the names of all jobs that it ever had: what has ended is in a file."""
        ended = _ENDED.findall(self.ended.read_text()) if self.ended.exists() else []
        rows = self.run("squeue", "-h", "-a", "-r", "-t", "all", "-o", "%A %j").splitlines()
        return list(dict(ended + [row.split(" ", 1) for row in rows]).values())

    def in_queue(self) -> list[str]:
        """Return the names of the jobs that wait or run."""
        return self.run("squeue", "-h", "-a", "-r", "-o", "%j").split()

    def make(self) -> None:
        """Make the directory of a controller without jobs, and start the daemons."""
        for name in ("state", "programs", *(f"spool/n{number + 1}" for number in range(NODES))):
            (self.directory / name).mkdir(parents=True)
        self._start_munge()
        self.settings.write_text(self._slurm_conf())
        if self._accounting:
            self._start_accounting()
        self.controller = self.start("slurmctld", "slurmctld", "-D")
        for number in range(NODES):
            self.start(f"n{number + 1}", "slurmd", "-D", "-N", f"n{number + 1}")
        idle = ("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
        self.until(lambda: len(self.run(*idle, check=False).split()) == NODES)

    def cancel_all(self) -> None:
        """Cancel the jobs of all users, and wait until nothing of them runs; not for ever."""
        until = time.monotonic() + CANCEL_TIMEOUT
        try:
            while jobs := self.run("squeue", "-h", "-a", "-o", "%A").split():
                self.run("scancel", *jobs)
                if time.monotonic() > until:
                    return
                time.sleep(0.2)
        except subprocess.CalledProcessError:
            return  # it is gone

    def _start_munge(self) -> None:
        here = self.directory
        key = here / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.start(
            *("munged", "munged", "--foreground", "--force", f"--key-file={key}"),
            *(f"--socket={here}/munge.socket", f"--pid-file={here}/munge.pid"),
            *(f"--log-file={here}/munge.log", f"--seed-file={here}/munge.seed"),
        )
        self.until((here / "munge.socket").exists)

    def _slurm_conf(self) -> str:
        here, host, ports = self.directory, self._host, self._ports
        lines: dict[str, object] = {
            "ClusterName": "peer", "SlurmctldHost": f"{host}(127.0.0.1)", "SlurmctldPort": ports[0],
            "SlurmUser": "root", "SlurmdUser": "root", "AuthType": "auth/munge", "CredType": "cred/munge",
            "AuthInfo": f"socket={here}/munge.socket", "StateSaveLocation": here / "state",
            "SlurmdSpoolDir": f"{here}/spool/%n", "SlurmctldPidFile": here / "slurmctld.pid",
            "SlurmdPidFile": f"{here}/%n.pid", "SlurmctldLogFile": here / "ctld.log",
            "SlurmdLogFile": f"{here}/%n.log", "SwitchType": "switch/none", "MpiDefault": "none",
            "ReturnToService": 2, "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CPU",
            "ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none", "KillWait": 1,
            "JobAcctGatherType": "jobacct_gather/none", "SlurmdParameters": "config_overrides",
            "JobCompType": "jobcomp/filetxt", "JobCompLoc": self.ended,
            "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=2,sched_interval=1,bf_interval=2",
        }  # fmt: skip
        if self._accounting:
            lines |= {
                "AccountingStorageType": "accounting_storage/slurmdbd",
                "AccountingStorageHost": "localhost", "AccountingStoragePort": ports[1],
                "AccountingStoragePass": here / "munge.socket", "JobAcctGatherFrequency": "task=1",
                "JobAcctGatherType": "jobacct_gather/linux",
            }  # fmt: skip
        nodes = [
            f"NodeName=n{number + 1} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[3 + number]} "
            f"RealMemory=1000 CPUs={self._processors}"
            for number in range(NODES)
        ]
        partition = f"PartitionName=main Nodes=n[1-{NODES}] Default=YES MaxTime=INFINITE State=UP"
        return "\n".join([*(f"{name}={value}" for name, value in lines.items()), *nodes, partition, ""])

    def _start_accounting(self) -> None:
        folder = self.directory / "database"
        folder.mkdir()
        data, pipe = folder / "data", folder / "socket"
        self.run(
            *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
        )
        self.start(
            *("mariadbd", "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}"),
            *(f"--socket={pipe}", "--bind-address=127.0.0.1", f"--port={self._ports[2]}"),
            *(f"--pid-file={folder}/pid", "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"),
        )
        client = ("mariadb", "--no-defaults", "-S", str(pipe), "-u", "root", "-e")
        self.until(lambda: "1" in self.run(*client, "select 1", check=False))
        grants = "".join(
            f"create user 'slurm'@'{host}' identified by 'x'; "
            f"grant all on slurm_acct_db.* to 'slurm'@'{host}'; "
            for host in ("127.0.0.1", "localhost")
        )
        self.run(*client, f"create database slurm_acct_db; {grants}")
        file = self.directory / "slurmdbd.conf"
        file.write_text(
            f"AuthType=auth/munge\nAuthInfo={self.directory}/munge.socket\nDbdHost={self._host}\n"
            f"DbdAddr=127.0.0.1\nDbdPort={self._ports[1]}\nSlurmUser=root\nPidFile={folder}/slurmdbd.pid\n"
            f"LogFile={folder}/slurmdbd.log\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n"
            f"StoragePort={self._ports[2]}\nStorageUser=slurm\nStoragePass=x\nStorageLoc=slurm_acct_db\n"
        )
        file.chmod(0o600)
        self.start("slurmdbd", "slurmdbd", "-D")
        known = ("sacctmgr", "-n", "show", "cluster")
        self.until(lambda: subprocess.run(known, env=self.environment, capture_output=True).returncode == 0)
        self.run("sacctmgr", "-i", "add", "cluster", "peer", check=False)


@contextmanager
def slurm_peer(directory: Path, processors: int = 4, *, accounting: bool = False) -> Iterator[SlurmPeer]:
    """Start a Slurm; skip the test where there can be none."""
    with started_or_skip(SlurmPeer(directory, processors, accounting=accounting)) as peer:
        yield peer
