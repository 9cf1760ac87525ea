"""A real Grid Engine on this machine, started without systemd in a directory of the test.

Source:  Grid Engine, bootstrap(5), sge_conf(5), queue_conf(5), host_conf(5); Debian, gridengine-master.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from testbed.debian_packages import CannotInstall, install
from testbed.slurm_peer import daemon, free_ports

PATIENCE = 60.0  # seconds
LIBRARIES = Path("/usr/lib/gridengine")
SHARE = Path("/usr/share/gridengine")
PACKAGES = ("gridengine-master", "gridengine-exec", "gridengine-client")
HOST = """hostname localhost
load_scaling NONE
complex_values NONE
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""
QUEUE_EDITOR = """#!/bin/sh
sed -i -e 's/^qname .*/qname all.q/' -e 's/^hostlist .*/hostlist localhost/' -e 's/^slots .*/slots 8/' \\
  -e 's/^load_thresholds .*/load_thresholds NONE/' -e 's/^pe_list .*/pe_list smp/' "$1"
sleep 1
touch "$1"
"""
PARALLEL = """pe_name smp
slots 8
user_lists NONE
xuser_lists NONE
start_proc_args /bin/true
stop_proc_args /bin/true
allocation_rule $pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""


class GridEnginePeer:
    """The daemons of one cell with one host of eight slots."""

    def __init__(self, directory: Path) -> None:
        self.root, self.programs = directory / "root", directory / "programs"
        self._work = directory
        master, executor = free_ports(2)
        self.variables = {
            "SGE_ROOT": str(self.root),
            "SGE_CELL": "default",
            "SGE_QMASTER_PORT": str(master),
            "SGE_EXECD_PORT": str(executor),
        }
        self.environment = {**os.environ, **self.variables, "SGE_ND": "1"}

    def run(self, *words: str, **more: str) -> str:
        environment = {**self.environment, **more}
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return done.stdout

    def write(self) -> None:
        """Make a cell without jobs."""
        common = self.root / "default" / "common"
        for made in (common, *(self._work / name for name in ("qmaster/job_scripts", "execd", "programs"))):
            made.mkdir(parents=True)
        for name in ("bin", "lib", "utilbin"):
            shutil.copytree(Path("/var/lib/gridengine") / name, self.root / name, symlinks=True)
        (self.root / "util").symlink_to(SHARE / "util")
        (common / "host_aliases").write_text(f"localhost {socket.gethostname()}\n")
        (common / "act_qmaster").write_text("localhost\n")
        spool = f"{common};{self._work}/qmaster"
        bootstrap = {
            "admin_user": "none", "default_domain": "none", "ignore_fqdn": "false",
            "spooling_method": "classic", "spooling_lib": "libspoolc", "spooling_params": spool,
            "binary_path": "/usr/sbin", "qmaster_spool_dir": self._work / "qmaster", "security_mode": "none",
            "listener_threads": 2, "worker_threads": 2, "scheduler_threads": 1,
        }  # fmt: skip
        (common / "bootstrap").write_text("".join(f"{name} {value}\n" for name, value in bootstrap.items()))
        told = {"execd_spool_dir": self._work / "execd", "min_uid": 0, "min_gid": 0, "mailer": "/bin/true"}
        told["reporting_params"] = "accounting=true reporting=false flush_time=00:00:01 joblog=false"
        lines = [
            f"{name} {told[name]}" if (name := line.split(maxsplit=1)[0]) in told else line
            for line in (SHARE / "default-configuration").read_text().splitlines()
            if line.strip()
        ]
        (self._work / "configuration").write_text("\n".join([*lines, ""]))
        apart = {"LD_LIBRARY_PATH": str(LIBRARIES)}
        self.run(f"{LIBRARIES}/spoolinit", "classic", "libspoolc", spool, "init", **apart)
        for kind, what in (
            ("configuration", self._work / "configuration"),
            ("complexes", SHARE / "util/resources/centry"),
            ("usersets", SHARE / "util/resources/usersets"),
            ("managers", "root"),
        ):
            self.run(f"{LIBRARIES}/spooldefaults", kind, str(what), **apart)
        exports = " ".join(f"{name}={value}" for name, value in self.variables.items())
        for name in ("qsub", "qstat", "qacct", "qdel", "qhold", "qrls", "qalter"):
            path = self.programs / name
            path.write_text(f'#!/bin/sh\nexport {exports}\nexec {shutil.which(name)} "$@"\n')
            path.chmod(0o755)

    def open_queue(self) -> None:
        """Add the host, a parallel environment and the queue; each needs the one before."""
        self.until(lambda: self.run("qconf", "-sh"))
        files = {"host": HOST, "parallel": PARALLEL, "editor": QUEUE_EDITOR}
        for name, text in files.items():
            (self._work / name).write_text(text)
        (self._work / "editor").chmod(0o755)
        self.run("qconf", "-as", "localhost")
        self.run("qconf", "-Ae", str(self._work / "host"))
        self.run("qconf", "-Ap", str(self._work / "parallel"))
        self.run("qconf", "-aq", "all.q", EDITOR=str(self._work / "editor"))
        fast = self.run("qconf", "-ssconf")
        for name in ("schedule_interval 0:0:1", "flush_submit_sec 1", "flush_finish_sec 1"):
            field = name.split()[0]
            fast = "\n".join(name if line.startswith(field) else line for line in fast.splitlines())
        (self._work / "scheduler").write_text(f"{fast}\n")
        self.run("qconf", "-Msconf", str(self._work / "scheduler"))

    def until(self, happened: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < until, self.run("qstat", "-f")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        """Whether the host has reported its load: the queue has no letter of a state."""
        return any(
            line.startswith("all.q") and len(line.split()) == 5
            for line in self.run("qstat", "-f").splitlines()
        )


@contextmanager
def gridengine_peer(directory: Path) -> Iterator[GridEnginePeer]:
    """Start a Grid Engine; skip the test where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("a Grid Engine of the test needs root")
    try:
        if shutil.which("sge_qmaster") is None or shutil.which("sge_execd") is None:
            install(*PACKAGES)
    except CannotInstall as error:
        pytest.skip(f"there is no Grid Engine: {error}")
    directory.mkdir()
    peer = GridEnginePeer(directory)
    peer.write()
    with ExitStack() as running:
        running.enter_context(daemon("sge_qmaster", environment=peer.environment))
        peer.open_queue()
        running.enter_context(daemon("sge_execd", environment=peer.environment))
        peer.until(peer.is_ready)
        try:
            yield peer
        finally:
            peer.run("qdel", "-f", "-u", "*")
