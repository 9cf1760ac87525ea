"""A real Grid Engine on this machine, in a directory of the test, with a rude go-between.

Source:  Grid Engine, bootstrap(5), sge_conf(5), queue_conf(5), host_conf(5); Debian, gridengine-master.
"""

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.real_peers import RealPeer, free_ports, started_or_skip

LIBRARIES = Path("/usr/lib/gridengine")
SHARE = Path("/usr/share/gridengine")
PACKAGES = ("gridengine-master", "gridengine-exec", "gridengine-client")
PROGRAMS = ("qsub", "qstat", "qacct", "qdel", "qhold", "qrls", "qalter", "qhost", "qconf")
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
sed -i -e 's/^qname .*/qname main.q/' -e 's/^hostlist .*/hostlist localhost/' \\
  -e 's/^slots .*/slots {slots}/' -e 's/^load_thresholds .*/load_thresholds NONE/' \\
  -e 's/^pe_list .*/pe_list smp/' -e 's#^shell .*#shell /bin/sh#' "$1"
sleep 1
touch "$1"
"""
PARALLEL = """pe_name smp
slots {slots}
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
QUICK = {
    "schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1",
    "job_load_adjustments": "NONE", "load_adjustment_decay_time": "0:0:0", "schedd_job_info": "false",
}  # fmt: skip
_NAME = re.compile(r"<JB_name>([^<]*)</JB_name>")


class GridEnginePeer(RealPeer):
    """The daemons of one cell: one host of so many slots, in the queue ``main.q``."""

    def __init__(self, directory: Path, slots: int = 8) -> None:
        self.root, self._slots = directory / "root", slots
        master, executor = free_ports(2)
        variables = {
            "SGE_ROOT": str(self.root), "SGE_CELL": "default", "SGE_ND": "1",
            "SGE_QMASTER_PORT": str(master), "SGE_EXECD_PORT": str(executor),
        }  # fmt: skip
        found = " ".join(f"{name}={value}" for name, value in variables.items() if name != "SGE_ND")
        real = {name: f"env {found} {shutil.which(name) or f'/usr/bin/{name}'}" for name in PROGRAMS}
        super().__init__(directory, PACKAGES, {**real, "dd": "/bin/dd"}, variables)  # dd reads the exit files

    def names(self) -> list[str]:
        """Return the names of all jobs that it ever had: what has ended is in its accounting."""
        file = self.root / "default/common/accounting"
        rows = [line.split(":") for line in file.read_text().splitlines()] if file.exists() else []
        return [row[4] for row in rows if len(row) > 5] + self.in_queue()

    def in_queue(self) -> list[str]:
        """Return the names of the jobs that wait or run."""
        return _NAME.findall(self.run("qstat", "-u", "*", "-xml"))

    def make(self) -> None:
        """Make a cell without jobs, and start the daemons."""
        common = self.root / "default" / "common"
        for made in (
            common,
            *(self.directory / name for name in ("qmaster/job_scripts", "execd", "programs")),
        ):
            made.mkdir(parents=True)
        for name in ("bin", "lib", "utilbin"):
            shutil.copytree(Path("/var/lib/gridengine") / name, self.root / name, symlinks=True)
        (self.root / "util").symlink_to(SHARE / "util")
        (common / "host_aliases").write_text(f"localhost {socket.gethostname()}\n")
        (common / "act_qmaster").write_text("localhost\n")
        self._spool(common)
        self.controller = self.start("qmaster", "sge_qmaster")
        self._open_queue()
        self.start("execd", "sge_execd")
        self.until(self._is_ready)

    def cancel_all(self) -> None:
        """Delete the jobs of all users, and wait until their shepherds are gone."""
        self.run("qdel", "-f", "-u", "*", check=False)
        self.until(lambda: not self.in_queue())

    def _spool(self, common: Path) -> None:
        here = self.directory
        spool = f"{common};{here}/qmaster"
        bootstrap = {
            "admin_user": "none", "default_domain": "none", "ignore_fqdn": "false",
            "spooling_method": "classic", "spooling_lib": "libspoolc", "spooling_params": spool,
            "binary_path": "/usr/sbin", "qmaster_spool_dir": here / "qmaster", "security_mode": "none",
            "listener_threads": 2, "worker_threads": 2, "scheduler_threads": 1,
        }  # fmt: skip
        (common / "bootstrap").write_text("".join(f"{name} {value}\n" for name, value in bootstrap.items()))
        answer = {"execd_spool_dir": here / "execd", "min_uid": 0, "min_gid": 0, "mailer": "/bin/true"}
        answer["reporting_params"] = "accounting=true reporting=false flush_time=00:00:01 joblog=false"
        lines = (SHARE / "default-configuration").read_text().splitlines()
        (here / "configuration").write_text(_with_values(lines, answer))
        apart = {"LD_LIBRARY_PATH": str(LIBRARIES)}
        self.run(f"{LIBRARIES}/spoolinit", "classic", "libspoolc", spool, "init", **apart)
        for kind, what in (
            ("configuration", here / "configuration"),
            ("complexes", SHARE / "util/resources/centry"),
            ("usersets", SHARE / "util/resources/usersets"),
            ("managers", "root"),
        ):
            self.run(f"{LIBRARIES}/spooldefaults", kind, str(what), **apart)

    def _open_queue(self) -> None:
        """Add the host, a parallel environment and the queue; each needs the one before."""
        here = self.directory
        self.until(lambda: self.run("qconf", "-sh", check=False))
        for name, text in {"host": HOST, "parallel": PARALLEL, "editor": QUEUE_EDITOR}.items():
            (here / name).write_text(text.replace("{slots}", str(self._slots)))
        (here / "editor").chmod(0o755)
        self.run("qconf", "-as", "localhost", check=False)
        self.run("qconf", "-Ae", str(here / "host"), check=False)
        self.run("qconf", "-Ap", str(here / "parallel"))
        self.run("qconf", "-aq", "main.q", EDITOR=str(here / "editor"))
        (here / "scheduler").write_text(_with_values(self.run("qconf", "-ssconf").splitlines(), QUICK))
        self.run("qconf", "-Msconf", str(here / "scheduler"))

    def _is_ready(self) -> bool:
        """Whether the host has reported its load: the queue has no letter of a state."""
        lines = self.run("qstat", "-f", check=False).splitlines()
        return any(line.startswith("main.q") and len(line.split()) == 5 for line in lines)


def _with_values(lines: list[str], texts: dict[str, object] | dict[str, str]) -> str:
    """Return lines of a name and a value each, some of them with another value."""
    names = [line.split(maxsplit=1)[0] for line in lines if line.strip()]
    kept = [line for line in lines if line.strip()]
    return "".join(
        f"{name} {texts[name]}\n" if name in texts else f"{line}\n"
        for name, line in zip(names, kept, strict=True)
    )


@contextmanager
def gridengine_peer(directory: Path, slots: int = 8) -> Iterator[GridEnginePeer]:
    """Start a Grid Engine; skip the test where there can be none."""
    with started_or_skip(GridEnginePeer(directory, slots)) as peer:
        yield peer
