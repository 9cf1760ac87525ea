"""Terminals in the cluster: what somebody finds there, and that nothing is left when anything goes away."""

import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.clusters import Cluster, cluster_on_loopback
from testbed.processes import alive, free_address, until, until_ended

running = partial(alive, without="shell")  # commands, not those of hn that began them
nothing_runs = partial(until_ended, without="shell")
TIMEOUT = 60.0  # seconds for anything that must happen
NODES = ("left", "right")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes that joined over TLS, two processors each; each test leaves them as they were."""
    with cluster_on_loopback(tmp_path_factory.mktemp("shells"), NODES, free_address()) as made:
        made.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "2"})
        yield made
        made.until(lambda: not made.ask("jobs", states=["active"])["jobs"], "all jobs are over")


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    shared.until(lambda: not shared.ask("jobs", states=["active"])["jobs"], "all jobs are over")
    return shared


class Seat:
    """Somebody at a terminal of 30 rows and 100 columns who runs ``hn job shell``."""

    def __init__(self, cluster: Cluster, *words: str, columns: int = 100) -> None:
        self.cluster = cluster
        self.master, self.slave = os.openpty()
        self.resize(30, columns)
        self.modes = termios.tcgetattr(self.slave)
        command = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{cluster.state}/", "job", "shell"]

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [*command, *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            preexec_fn=take_terminal,
            env={**os.environ, "TERM": "vt100"},
        )
        self.seen = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, text: str) -> str:
        """Wait until a text is shown; return what was shown before, for the last time."""
        deadline = time.monotonic() + TIMEOUT
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} is not shown, but {self.seen!r}"
            self._read(min(left, 0.1))
        before, _, self.seen = self.seen.partition(text)
        return before

    def _read(self, timeout: float) -> None:
        if select.select([self.master], [], [], timeout)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def says(self, command: str) -> str:
        """Return the line that a command prints in the shell there."""
        self.type(f"printf '\\074%s\\076\\n' \"$({command})\"\r")
        self.until("<")
        return self.until(">")

    def wait(self) -> int:
        """Wait for the end of hn; return its exit status."""
        deadline = time.monotonic() + TIMEOUT
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"hn does not end; it shows {self.seen!r}"
            self._read(0.05)
        self._read(0.05)
        return int(self.process.returncode)

    def is_as_before(self) -> bool:
        """Tell whether the terminal has the modes that it had."""
        return termios.tcgetattr(self.slave) == self.modes

    def close(self) -> None:
        """Go away, as a terminal does whose connection is lost."""
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = -1

    def __enter__(self) -> "Seat":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.master >= 0:
            self.close()


def seat(cluster: Cluster, *options: str) -> Seat:
    """Return a seat at a plain shell."""
    return Seat(cluster, *options, "--", "/bin/sh")


def newest(cluster: Cluster) -> dict[str, Any]:
    job: dict[str, Any] = cluster.ask("jobs", owner=None, limit=1)["jobs"][0]
    return cluster.job(job["id"])


def hn(cluster: Cluster, *words: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{cluster.state}/", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, **more)


def test_the_shell_has_a_terminal_of_the_size_and_kind_of_ours(cluster: Cluster) -> None:
    with seat(cluster) as one:
        assert one.says("stty size") == "30 100"
        assert one.says("echo $TERM") == "vt100"
        assert one.says("stty -a | grep -c '[^-]iutf8'") == "1"
        assert one.says("test -t 0 && test -t 2 && tty | cut -d/ -f1-3") == "/dev/pts"
        one.resize(41, 77)
        until(lambda: one.says("stty size") == "41 77", "the size there has changed")
        one.type("exit\r")
        assert one.wait() == 0
        assert one.is_as_before()


def test_it_is_a_task_of_the_job_like_any_other(cluster: Cluster, tmp_path: Path) -> None:
    with seat(cluster, "/jobenv:MINE=yes", f"/workdir:{tmp_path}", "/numprocessors:2") as one:
        job = int(one.says("echo $CCP_JOBID"))
        assert one.says("echo $MINE $CCP_NUMCPUS $CCP_TASKCONTEXT") == f"yes 2 {job}.1"
        assert one.says("pwd") == str(tmp_path)
        assert cluster.job(job)["allocated"] == 2
        one.type("exit 7\r")
        assert one.wait() == 7
    assert cluster.job(job)["state"] == "Failed"
    assert cluster.ask("task", job=job, task=1)["task"]["exit_code"] == 7


def test_without_a_program_it_is_the_login_shell(cluster: Cluster, tmp_path: Path) -> None:
    with Seat(cluster, f"/jobenv:HOME={tmp_path}") as one:  # what starts a user's own shell may last
        one.until("on node")
        assert one.says("echo $0").lstrip("-") in (
            Path(os.environ.get("SHELL", "/bin/sh")).name,
            "bash",
            "sh",
        )
        one.type("exit\r")
        assert one.wait() == 0
    assert newest(cluster)["state"] == "Finished"


def test_control_c_and_control_z_are_for_the_program_there(cluster: Cluster) -> None:
    with Seat(cluster, "--", "/bin/bash", "--norc") as one:
        one.type("sleep 97001\r")
        until(lambda: running("97001"), "it sleeps")
        one.type("\x03")
        until(lambda: not running("97001"), "it was interrupted")
        one.type("sleep 97002\r")
        until(lambda: running("97002"), "it sleeps")
        one.type("\x1a")
        one.until("Stopped")
        assert "97002" in one.says("jobs")
        one.type("fg\r")
        one.until("sleep 97002")
        one.type("\x03\rexit 3\r")
        assert one.wait() == 3
    nothing_runs("97002")


def test_text_of_all_languages_goes_both_ways_and_is_erased_by_characters(cluster: Cluster) -> None:
    with seat(cluster) as one:
        one.says("echo ready")
        one.type('read word; echo "[$word]"\r')
        one.until("[$word]")
        one.type("aäß\x7fü\r")
        one.until("[aäü]")
        one.type("exit\r")
        assert one.wait() == 0


def test_much_output_comes_whole(cluster: Cluster) -> None:
    with Seat(cluster, "--", "seq 200000; echo all") as one:
        one.until("on node")
        text = one.until("\nall").replace("\r", "")
        assert one.wait() == 0
    assert [int(line) for line in text.splitlines()[-200000:]] == list(range(1, 200001))


def test_a_program_of_ones_own_runs_and_its_end_is_the_end_of_the_job(cluster: Cluster) -> None:
    with Seat(cluster, "--", "sh", "-c", "echo here; exit 5") as one:
        one.until("here")
        assert one.wait() == 5
        assert one.is_as_before()
    assert newest(cluster)["state"] == "Failed"


def test_what_cannot_be_started_is_said(cluster: Cluster) -> None:
    with Seat(cluster, "--", "/no/such/program") as one:
        assert one.wait() == 255
        assert "cannot be started: /no/such/program: No such file or directory" in one.seen
        assert one.is_as_before()
    done = hn(cluster, "job", "shell", "no-such-program")
    assert "cannot be started: there is no command 'no-such-program' on this node" in done.stderr


def test_input_that_is_no_terminal_is_passed_on_as_it_is(cluster: Cluster) -> None:
    done = hn(cluster, "job", "shell", "--", "sh", input="tty; echo out; echo err >&2; exit 3\n")
    assert (done.stdout, done.returncode) == ("not a tty\nout\n", 3)
    assert "err\n" in done.stderr


def test_the_other_nodes_of_the_job_are_reached_from_it(cluster: Cluster) -> None:
    with seat(cluster, "/numnodes:2") as one:
        one.until("on node")
        assert int(one.says("echo $HEADNODE_HOSTS | wc -w")) == 2
        assert one.says("test -s $CCP_MPI_HOSTFILE; echo $?") == "0"
        command = (
            "for n in $HEADNODE_HOSTS; do $HEADNODE_LAUNCH -n $n 'echo $HEADNODE_NODE'; done | sort | xargs"
        )
        assert one.says(command) == "left right"
        one.type("exit\r")
        assert one.wait() == 0


def test_who_waits_is_told_why_and_leaving_cancels_the_job(cluster: Cluster) -> None:
    all_of_it = cluster.submit(
        "sleep 97010", numprocessors="4", terms={"runtime": "10", "numprocessors": "4"}
    )
    cluster.until(lambda: cluster.job(all_of_it)["state"] == "Running", "it runs")
    try:
        with seat(cluster) as one:
            one.until("waits:")
            assert one.is_as_before()
            one.type("\x03")
            assert one.wait() == 130
        job = newest(cluster)["id"]
        assert cluster.wait(job) == "Canceled"
        with seat(cluster) as one:
            one.until("waits:")
            one.process.kill()
        assert cluster.wait(newest(cluster)["id"]) == "Canceled"
        with seat(cluster) as one:
            one.until("waits:")
            cluster.ask("cancel_job", job=all_of_it, force=True)
            one.until("on node")
            one.type("exit 2\r")
            assert one.wait() == 2
    finally:
        cluster.ask("cancel_job", job=all_of_it, force=True)


@pytest.mark.parametrize("how", ["hang up", "kill", "terminate", "leave"])
def test_when_the_terminal_goes_all_goes(cluster: Cluster, how: str) -> None:
    mark = str(97020 + ["hang up", "kill", "terminate", "leave"].index(how))
    with seat(cluster) as one:
        one.type(f"trap '' HUP; setsid sleep {mark} & sleep {mark}\r")
        until(lambda: len(running(mark)) == 2, "both run")
        match how:
            case "hang up":
                one.close()
            case "kill":
                one.process.kill()
            case "terminate":
                one.process.terminate()
                assert one.wait() == 128 + signal.SIGTERM
                assert one.is_as_before()
            case "leave":
                one.type("\x03\r~.")
                assert one.wait() == 255
                assert one.is_as_before()
        one.process.wait(TIMEOUT)
    assert cluster.wait(newest(cluster)["id"]) == "Canceled"
    nothing_runs(mark)


def test_who_sits_there_is_told_when_the_job_is_canceled(cluster: Cluster) -> None:
    with seat(cluster) as one:
        job = int(one.says("echo $CCP_JOBID"))
        one.type("sleep 97030\r")
        until(lambda: running("97030"), "it sleeps")
        cluster.ask("cancel_job", job=job, message="make room")
        one.until("is being ended")
        assert one.wait() != 0
        assert "canceled" in one.seen
        assert one.is_as_before()
    assert cluster.wait(job) == "Canceled"
    nothing_runs("97030")


def test_who_sits_there_is_told_before_the_time_of_the_job_is_over(cluster: Cluster) -> None:
    described = {"interactive": True, "run_time": "3s", "tasks": [{"command": "/bin/sh"}]}
    job = int(cluster.ask("submit_job", jobfile=json.dumps(described), dialect="native")["job"])
    with Seat(cluster, "--job", str(job)) as one:
        one.until("ends in")
        assert one.wait() != 0
        assert one.is_as_before()
    assert "run time expired" in one.seen
    assert cluster.wait(job) == "Canceled"


def test_the_end_of_the_agent_ends_the_shell_and_the_job(cluster: Cluster) -> None:
    with seat(cluster) as one:
        job, name = int(one.says("echo $CCP_JOBID")), one.says("echo $HEADNODE_NODE")
        one.type("sleep 97040\r")
        until(lambda: running("97040"), "it sleeps")
        node = cluster.nodes[name]
        node.kill_agent()
        node.start_agent()
        assert one.wait() != 0
        assert one.is_as_before()
    assert cluster.wait(job) in ("Failed", "Canceled")
    cluster.wait_for_nodes("Ready")
    nothing_runs("97040")


def test_the_end_of_the_head_ends_the_shell_and_then_the_job(cluster: Cluster) -> None:
    with seat(cluster) as one:
        job = int(one.says("echo $CCP_JOBID"))
        one.type("sleep 97050\r")
        until(lambda: running("97050"), "it sleeps")
        cluster.kill_head()
        assert one.wait() == 1
        assert "the connection to the head was lost" in one.seen
        assert one.is_as_before()
    cluster.start_head()
    cluster.wait_for_nodes("Ready")
    assert cluster.wait(job) in ("Failed", "Canceled")
    nothing_runs("97050")


def test_a_node_without_power_leaves_nobody_waiting(cluster: Cluster) -> None:
    with seat(cluster, "/requestednodes:right") as one:
        job = int(one.says("echo $CCP_JOBID"))
        cluster.nodes["right"].power_off()
        assert one.wait() != 0
        assert one.is_as_before()
    assert cluster.wait(job) in ("Failed", "Canceled")
    cluster.nodes["right"].boot()
    cluster.wait_for_nodes("Ready")


def test_a_shell_in_a_running_job_comes_and_goes_and_the_job_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = cluster.submit("sleep 97060", terms={"jobenv": f"MINE=yes;HOME={tmp_path}"})
    cluster.until(lambda: cluster.job(job)["state"] == "Running", "it runs")
    try:
        with Seat(cluster, "--job", str(job), "--", "sh") as one:
            one.until("on node")
            assert one.says("echo $MINE $CCP_JOBID; stty size | xargs").split() == [
                "yes",
                str(job),
                "30",
                "100",
            ]
            one.type("exit 6\r")
            assert one.wait() == 6
        with Seat(cluster, "--job", str(job), "--", "sleep", "97061") as one:
            until(lambda: running("97061"), "it sleeps")
            one.process.kill()
        nothing_runs("97061")
        done = hn(cluster, "job", "shell", "--job", str(job), "--", "cat; exit 4", input="through\n")
        assert (done.stdout, done.returncode) == ("through\n", 4)
        assert cluster.job(job)["state"] == "Running"
        with Seat(cluster, "--job", str(job)) as one:
            one.until("on node")
            one.says("echo here")
            cluster.ask("cancel_job", job=job, force=True)
            assert one.wait() == 255
            assert one.is_as_before()
    finally:
        cluster.ask("cancel_job", job=job, force=True)
    assert cluster.wait(job) == "Canceled"


def test_what_is_run_beside_the_tasks_has_the_limits_of_the_job(cluster: Cluster) -> None:
    job = cluster.submit("sleep 97062", terms={"resourcelimit": "nofile=50:70"})
    cluster.until(lambda: cluster.job(job)["state"] == "Running", "it runs")
    try:
        with Seat(cluster, "--job", str(job), "--", "sh") as one:
            one.until("on node")
            assert one.says("ulimit -n; stty -F /dev/tty size | xargs").split() == ["50", "30", "100"]
            one.type("exit\r")
            assert one.wait() == 0
        done = hn(cluster, "job", "shell", "--job", str(job), "--", "ulimit -n", stdin=subprocess.DEVNULL)
        assert (done.stdout, done.returncode) == ("50\n", 0)
    finally:
        cluster.ask("cancel_job", job=job, force=True)


def test_there_is_no_terminal_in_jobs_that_do_not_run_or_are_not(cluster: Cluster) -> None:
    over = cluster.submit("true")
    cluster.wait(over)
    for words, says in (
        (("--job", str(over)), "has already ended: it is finished"),
        (("--job", "999999"), "there is no job 999999"),
        (("--job", str(over), "/numprocessors:2"), "leave out one of them"),
    ):
        done = hn(cluster, "job", "shell", *words)
        assert says in done.stderr
        assert done.returncode in (1, 2)


def test_an_interactive_job_is_marked_so_in_what_is_exported(cluster: Cluster) -> None:
    described = {"interactive": True, "holds": ["user"], "tasks": [{"command": "sh"}]}
    job = int(cluster.ask("submit_job", jobfile=json.dumps(described), dialect="native")["job"])
    try:
        assert cluster.job(job)["spec"]["interactive"] is True
        assert (
            "<Interactive>true</Interactive>" in hn(cluster, "job", "export", str(job), "--to", "sss").stdout
        )
    finally:
        cluster.ask("cancel_job", job=job)
    cluster.wait(job)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tasks": [{"command": "a"}, {"command": "b"}]},
        {"tasks": [{"command": "a", "stdout": "out"}]},
        {"tasks": [{"command": "a", "sweep": "1-3"}]},
    ],
)
def test_an_interactive_job_that_nobody_could_sit_at_is_refused(
    cluster: Cluster, wrong: dict[str, Any]
) -> None:
    described = json.dumps({"interactive": True, **wrong})
    (cluster.directory / "wrong.json").write_text(described)
    done = hn(cluster, "job", "submit", "/jobfile:" + str(cluster.directory / "wrong.json"))
    assert "interactive" in done.stderr
    assert done.returncode == 2


def test_the_shell_has_only_the_standard_streams(cluster: Cluster) -> None:
    with seat(cluster) as one:
        assert one.says("/bin/sh -c 'ls /proc/$$/fd; :' | tr '\\n' ' '") == "0 1 2 "
        one.type("exit\r")
        assert one.wait() == 0


def test_the_terminal_of_a_program_that_a_node_filter_holds_up_is_waited_for(
    cluster: Cluster, tmp_path: Path
) -> None:
    filters = tmp_path / "filters"
    filters.mkdir(mode=0o755)
    held_up = filters / "OnJobTaskStart.sh"
    lines = "touch asked", "until [ -e go ]; do sleep 0.01; done", "exec cat"
    held_up.write_text("\n".join(("#!/bin/sh", f"cd {tmp_path}", *lines, "")))
    held_up.chmod(0o755)
    cluster.ask("set_parameters", values={"NodeFilterDirectory": str(filters)})
    try:
        with seat(cluster) as sitting:
            until((tmp_path / "asked").exists, "the filter is asked")
            assert newest(cluster)["state"] == "Running"
            (tmp_path / "go").touch()
            assert sitting.says("echo well") == "well"
            sitting.type("exit 3\r")
            assert sitting.wait() == 3
    finally:
        cluster.ask("set_parameters", values={"NodeFilterDirectory": ""})


def test_a_terminal_that_is_refused_leaves_no_job_behind(cluster: Cluster) -> None:
    with Seat(cluster, columns=20_000) as one:
        one.until("terminal is not valid")
        assert one.wait() == 2
    assert cluster.wait(newest(cluster)["id"]) == "Canceled"
