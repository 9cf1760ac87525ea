"""Slurm and Grid Engine of Debian on this machine, in a directory of their own, for comparisons.

Both need root, to start programs as their users; they are stopped by the numbers of their processes.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from testbed.debian_packages import install

SLURM_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
ACCOUNTING_PACKAGES = ("slurmdbd", "mariadb-server-core", "mariadb-client-core", "slurm-wlm-mysql-plugin")
GRID_ENGINE_PACKAGES = ("gridengine-master", "gridengine-exec", "gridengine-client")
PATIENCE = 90.0  # seconds until a program must answer
_LIBRARY = Path("/usr/lib/gridengine")
_SHARE = Path("/usr/share/gridengine")
_WITHOUT_SERVICES = Path("/usr/sbin/policy-rc.d")


def install_packages(*packages: str) -> None:
    """Install packages of daemons, and start none of them.

    Raises:  CannotInstall.
    """
    if all(_is_installed(package) for package in packages):
        return
    ours = not _WITHOUT_SERVICES.exists()
    if ours and os.geteuid() == 0:
        _WITHOUT_SERVICES.write_text("#!/bin/sh\nexit 101\n")
        _WITHOUT_SERVICES.chmod(0o755)
    try:
        install(*packages)
    finally:
        if ours:
            _WITHOUT_SERVICES.unlink(missing_ok=True)


def _is_installed(package: str) -> bool:
    said = subprocess.run(["dpkg-query", "-W", "-f=${Status}", package], capture_output=True, text=True)
    return "ok installed" in said.stdout


class Daemons:
    """Processes of a scheduler, and the variables by which its programs find it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self._stack = ExitStack()

    def start(self, name: str, *words: str) -> None:
        """Start a daemon in the foreground; it is stopped when this is closed, the last first."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                words,
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._stack.callback(_stop, process)

    def run(self, *words: str, check: bool = True) -> str:
        """Return what a program prints."""
        done = subprocess.run(
            words, env=os.environ | self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if check and done.returncode:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} did not come within {PATIENCE:.0f} s; see {self.folder}")
            time.sleep(0.05)

    def close(self) -> None:
        """Stop all daemons."""
        self._stack.close()


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextmanager
def real_slurm(
    folder: Path, *, nodes: int = 2, processors: int = 2, accounting: bool = True
) -> Iterator[Daemons]:
    """Start Slurm with a partition ``main``; with `accounting` slurmdbd and a database, for sacct.

    Raises:  CannotInstall.
    """
    install_packages(*SLURM_PACKAGES, *(ACCOUNTING_PACKAGES if accounting else ()))
    for name in ("state", "spool", "munge", "database"):
        (folder / name).mkdir(parents=True)
    ports = _free_ports(nodes + 3)
    daemons = Daemons(folder, {"SLURM_CONF": str(folder / "slurm.conf")})
    try:
        _start_munge(daemons)
        (folder / "slurm.conf").write_text(_slurm_conf(folder, ports, nodes, processors, accounting))
        if accounting:
            _start_accounting(daemons, ports)
        daemons.start("slurmctld", "slurmctld", "-D")
        for number in range(1, nodes + 1):
            (folder / f"spool/n{number}").mkdir()
            daemons.start(f"n{number}", "slurmd", "-D", "-N", f"n{number}")
        idle = ("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
        daemons.until(lambda: len(daemons.run(*idle, check=False).split()) == nodes, "idle nodes of Slurm")
        yield daemons
        daemons.run("scancel", f"--user={os.geteuid()}", check=False)
        time.sleep(1.0)  # else steps stay behind
    finally:
        daemons.close()


def _start_munge(daemons: Daemons) -> None:
    folder = daemons.folder / "munge"
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o400)
    daemons.start(
        *("munged", "munged", "--foreground", "--force", f"--key-file={folder}/key"),
        *(f"--socket={folder}/socket", f"--pid-file={folder}/pid", f"--log-file={folder}/log"),
        f"--seed-file={folder}/seed",
    )
    daemons.until((folder / "socket").exists, "munged")


def _slurm_conf(folder: Path, ports: list[int], nodes: int, processors: int, accounting: bool) -> str:
    host = socket.gethostname().partition(".")[0]
    options = {
        "ClusterName": "peer",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "SlurmctldPort": ports[0],
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge/socket",
        "CredType": "cred/munge",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": f"{folder}/slurmd.%n.pid",
        "SlurmctldLogFile": folder / "slurmctld.txt",
        "SlurmdLogFile": f"{folder}/slurmd.%n.txt",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "ReturnToService": 2,
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=2,bf_interval=1",
        "AccountingStorageType": "accounting_storage/none",
    }
    if accounting:
        options |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "localhost",
            "AccountingStoragePort": ports[1],
            "AccountingStoragePass": folder / "munge/socket",
            "JobAcctGatherType": "jobacct_gather/linux",
            "JobAcctGatherFrequency": "task=1",
        }
    lines = [f"{name}={value}" for name, value in options.items()]
    lines += [
        f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2 + number]} "
        f"CPUs={processors} RealMemory=1000 State=UNKNOWN"
        for number in range(1, nodes + 1)
    ]
    lines.append(f"PartitionName=main Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP")
    return "".join(f"{line}\n" for line in lines)


def _start_accounting(daemons: Daemons, ports: list[int]) -> None:
    folder = daemons.folder / "database"
    data, pipe = folder / "data", folder / "socket"
    daemons.run(
        *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"),
        *("--auth-root-authentication-method=normal", "--skip-test-db"),
    )
    daemons.start(
        *("mariadbd", "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={pipe}"),
        *("--bind-address=127.0.0.1", f"--port={ports[2]}", f"--pid-file={folder}/pid"),
        *("--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"),
    )
    client = ("mariadb", "--no-defaults", "-S", str(pipe), "-u", "root", "-e")
    daemons.until(lambda: "1" in daemons.run(*client, "select 1", check=False), "MariaDB")
    grants = "".join(
        f"create user 'slurm'@'{host}' identified by 'x'; grant all on slurm_acct_db.* to 'slurm'@'{host}'; "
        for host in ("127.0.0.1", "localhost")
    )
    daemons.run(*client, f"create database slurm_acct_db; {grants}")
    file = daemons.folder / "slurmdbd.conf"
    file.write_text(
        f"AuthType=auth/munge\nAuthInfo={daemons.folder}/munge/socket\nDbdHost={socket.gethostname().partition('.')[0]}\n"
        f"DbdAddr=127.0.0.1\nDbdPort={ports[1]}\nSlurmUser=root\nPidFile={daemons.folder}/slurmdbd.pid\n"
        f"LogFile={daemons.folder}/slurmdbd.txt\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n"
        f"StoragePort={ports[2]}\nStorageUser=slurm\nStoragePass=x\nStorageLoc=slurm_acct_db\n"
    )
    file.chmod(0o600)
    daemons.start("slurmdbd", "slurmdbd", "-D")

    def answers() -> bool:
        done = subprocess.run(
            ["sacctmgr", "-n", "show", "cluster"], env=os.environ | daemons.environment, capture_output=True
        )
        return done.returncode == 0

    daemons.until(answers, "slurmdbd")
    daemons.run("sacctmgr", "-i", "add", "cluster", "peer", check=False)


@contextmanager
def real_grid_engine(folder: Path, *, slots: int = 4) -> Iterator[Daemons]:
    """Start Grid Engine with one host and a queue ``main.q``.

    Raises:  CannotInstall.
    """
    install_packages(*GRID_ENGINE_PACKAGES)
    master, executor = _free_ports(2)
    cell = folder / "root/default/common"
    for name in ("qmaster/job_scripts", "execd", "spooldb"):
        (folder / name).mkdir(parents=True)
    cell.mkdir(parents=True)
    environment = {
        "SGE_ROOT": str(folder / "root"),
        "SGE_CELL": "default",
        "SGE_ND": "1",
        "SGE_QMASTER_PORT": str(master),
        "SGE_EXECD_PORT": str(executor),
    }
    daemons = Daemons(folder, environment)
    _prepare_cell(daemons, cell)
    try:
        daemons.start("qmaster", "sge_qmaster")
        daemons.until(lambda: "localhost" in daemons.run("qconf", "-sh", check=False), "sge_qmaster")
        _configure(daemons, slots)
        daemons.start("execd", "sge_execd")
        daemons.until(lambda: "lx-amd64" in daemons.run("qstat", "-f", check=False), "sge_execd")
        yield daemons
        daemons.run("qdel", "-f", "-u", "*", check=False)
        time.sleep(1.0)  # else shepherds stay behind
    finally:
        daemons.close()


def _prepare_cell(daemons: Daemons, cell: Path) -> None:
    folder = daemons.folder
    for name in ("bin", "lib", "utilbin"):
        shutil.copytree(f"/var/lib/gridengine/{name}", folder / "root" / name, symlinks=True)
    (folder / "root/util").symlink_to(_SHARE / "util")
    (cell / "host_aliases").write_text(f"localhost {socket.gethostname()}\n")
    (cell / "act_qmaster").write_text("localhost\n")
    pairs = {
        "admin_user": "none",
        "default_domain": "none",
        "ignore_fqdn": "false",
        "spooling_method": "berkeleydb",
        "spooling_lib": "libspoolb",
        "spooling_params": folder / "spooldb",
        "binary_path": "/usr/sbin",
        "qmaster_spool_dir": folder / "qmaster",
        "security_mode": "none",
        "listener_threads": 2,
        "worker_threads": 2,
        "scheduler_threads": 1,
    }
    (cell / "bootstrap").write_text("".join(f"{name} {value}\n" for name, value in pairs.items()))
    usual = (_SHARE / "default-configuration").read_text().splitlines()
    ours = {"execd_spool_dir": folder / "execd", "min_uid": 0, "min_gid": 0, "mailer": "/bin/true"}
    lines = [f"{key} {ours[key]}" if (key := line.split(" ")[0]) in ours else line for line in usual]
    lines = [
        line.split(" ")[0]
        + " accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00"
        if line.startswith("reporting_params")
        else line
        for line in lines
    ]
    (folder / "configuration").write_text("".join(f"{line}\n" for line in lines))
    daemons.environment["LD_LIBRARY_PATH"] = str(_LIBRARY)
    store = str(folder / "spooldb")
    daemons.run(f"{_LIBRARY}/spoolinit", "berkeleydb", "libspoolb", store, "init")
    for what, path in (
        ("configuration", folder / "configuration"),
        ("complexes", _SHARE / "util/resources/centry"),
        ("usersets", _SHARE / "util/resources/usersets"),
        ("managers", "root"),
    ):
        daemons.run(f"{_LIBRARY}/spooldefaults", what, str(path))


def _configure(daemons: Daemons, slots: int) -> None:
    """Make the host, the queue, and a scheduler that acts at once."""
    folder = daemons.folder
    daemons.run("qconf", "-as", "localhost", check=False)
    names = ("load_scaling", "complex_values", "user_lists", "xuser_lists", "projects", "xprojects")
    host = "hostname localhost\n" + "".join(
        f"{name} NONE\n" for name in (*names, "usage_scaling", "report_variables")
    )
    (folder / "host").write_text(host)
    daemons.run("qconf", "-Ae", str(folder / "host"))
    (folder / "hosts").write_text("group_name @allhosts\nhostlist localhost\n")
    daemons.run("qconf", "-Ahgrp", str(folder / "hosts"))
    editor = folder / "editor"
    editor.write_text(
        "#!/bin/sh\nsed -i -e 's/^qname .*/qname main.q/' -e 's/^hostlist .*/hostlist @allhosts/' "
        f"-e 's/^slots .*/slots {slots}/' -e 's/^load_thresholds .*/load_thresholds NONE/' "
        "-e 's/^pe_list .*/pe_list NONE/' -e 's#^shell .*#shell /bin/sh#' \"$1\"\nsleep 1; touch \"$1\"\n"
    )
    editor.chmod(0o755)
    daemons.environment["EDITOR"] = str(editor)
    daemons.run("qconf", "-aq", "main.q")
    quick = {
        "schedule_interval": "0:0:1",
        "flush_submit_sec": "1",
        "flush_finish_sec": "1",
        "job_load_adjustments": "NONE",
        "load_adjustment_decay_time": "0:0:0",
        "schedd_job_info": "false",
    }
    lines = daemons.run("qconf", "-ssconf").splitlines()
    lines = [f"{key} {quick[key]}" if (key := line.split(" ")[0]) in quick else line for line in lines]
    (folder / "scheduler").write_text("".join(f"{line}\n" for line in lines))
    daemons.run("qconf", "-Msconf", str(folder / "scheduler"))
