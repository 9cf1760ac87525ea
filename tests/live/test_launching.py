"""Commands that a task launches on its other nodes: what goes through, who may, and what is left of them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.clusters import Cluster, cluster_of_machines, cluster_on_loopback
from testbed.machines import obstacle
from testbed.processes import alive, free_address

FOUR = ("red", "green", "blue", "grey")
needs_machines = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "they can be made")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that share this machine; each test leaves them as they were."""
    directory = tmp_path_factory.mktemp("pair")
    with cluster_on_loopback(directory, ("left", "middle", "right"), free_address()) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four machines that are soon given up; agents learn that when they connect again."""
    with cluster_of_machines(tmp_path_factory.mktemp("four"), FOUR) as cluster:
        cluster.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "2"})
        for node in cluster.nodes.values():
            node.kill_agent()
            node.start_agent()
        cluster.wait_for_nodes("Ready")
        yield cluster


@pytest.fixture(autouse=True)
def no_job_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cancel what a test has left: a test that fails makes no other wait for its processors."""
    yield
    for name in {"shared", "machines"} & set(request.fixturenames):
        cluster: Cluster = request.getfixturevalue(name)
        for job in cluster.ask("jobs", states=["Queued", "Running", "Suspended"])["jobs"]:
            cluster.ask("cancel_job", job=job["id"], force=True)


class Parallel:
    """A job with one task over whole nodes of two processors each; its script is run by a shell."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        script: str,
        nodes: int = 2,
        memory: int | None = None,
        **options: object,
    ) -> None:
        """`memory`: MB for each of its processors."""
        self.cluster, self.directory = cluster, directory
        directory.chmod(0o777)
        (directory / "script").write_text(script)
        task = {"command": f"/bin/sh {directory}/script", "processors": 2 * nodes, **options}
        task |= {"work_directory": str(directory), "stdout": "out", "stderr": "err"}
        asked = {"process_memory": f"{memory} MB"} if memory else {}
        described = json.dumps({"suspendable": True, "processors": 2 * nodes, "tasks": [task], **asked})
        self.job = int(cluster.ask("submit_job", jobfile=described, dialect="native")["job"])

    def wait(self) -> str:
        """Wait until it is over; return what it wrote to standard output."""
        self.state = self.cluster.wait(self.job)
        return self.output

    @property
    def output(self) -> str:
        path = self.directory / "out"
        return path.read_text() if path.exists() else ""

    @property
    def errors(self) -> str:
        return (self.directory / "err").read_text()


def test_a_command_runs_on_the_other_node_with_input_output_and_exit_status(
    shared: Cluster, tmp_path: Path
) -> None:
    script = """
    other=$(printf '%s\\n' $HEADNODE_HOSTS | grep -v "^$HEADNODE_NODE$" | head -n 1)
    echo in | $HEADNODE_LAUNCH -x "$other" 'read it; echo "$it" $HEADNODE_NODE; pwd; echo wrong >&2; exit 7'
    echo status $?
    echo $other
    """
    work = Parallel(shared, tmp_path, script)
    found = work.wait().split("\n")
    assert found == [f"in {found[3]}", str(tmp_path), "status 7", found[3], ""]
    assert found[3] in shared.nodes
    assert work.errors == "wrong\n"


OTHER = """
others() { printf '%s\\n' $HEADNODE_HOSTS | grep -v "^$HEADNODE_NODE$" | uniq; }
other=$(others | head -n 1)
wait_for() { while [ ! -e "$1" ]; do sleep 0.02; done; }
"""


def test_much_goes_through_in_both_directions_and_nothing_is_lost(shared: Cluster, tmp_path: Path) -> None:
    script = f"""{OTHER}
    head -c 20000000 /dev/urandom > sent
    $HEADNODE_LAUNCH $other 'cat; echo end >&2' < sent > came
    echo status $?
    cmp sent came && echo same
    """
    work = Parallel(shared, tmp_path, script)
    assert work.wait() == "status 0\nsame\n"
    assert work.errors == "end\n"


def test_every_node_of_the_task_is_reached_the_first_one_too(shared: Cluster, tmp_path: Path) -> None:
    script = f"""{OTHER}
    for node in $(cut -d: -f1 "$CCP_MPI_HOSTFILE"); do
      $HEADNODE_LAUNCH -n $node 'echo $HEADNODE_NODE $CCP_NUMCPUS $MINE' | grep -x "$node 4 yes" || echo wrong
    done
    """
    work = Parallel(shared, tmp_path, f"export MINE=yes\n{script}")
    assert "wrong" not in work.wait()
    assert len(work.output.splitlines()) == 2


def test_a_node_that_the_task_does_not_have_is_refused(shared: Cluster, tmp_path: Path) -> None:
    script = f"""{OTHER}
    for foreign in left middle right nowhere; do
      case " $HEADNODE_HOSTS " in *" $foreign "*) continue;; esac
      $HEADNODE_LAUNCH -n $foreign 'echo reached'
      echo $?
    done
    """
    work = Parallel(shared, tmp_path, script)
    assert work.wait() == "255\n255\n"
    assert work.errors.count("is not a node of the task") == 2


def test_only_the_secret_of_the_task_lets_it_launch(shared: Cluster, tmp_path: Path) -> None:
    script = f"""{OTHER}
    HEADNODE_LAUNCH_SECRET=0123 $HEADNODE_LAUNCH -n $other 'echo reached'; echo $?
    HEADNODE_TASK=999.1.1.1 $HEADNODE_LAUNCH -n $other 'echo reached'; echo $?
    HEADNODE_TASK=x $HEADNODE_LAUNCH -n $other 'echo reached'; echo $?
    env -u HEADNODE_LAUNCH_SECRET $HEADNODE_LAUNCH -n $other 'echo reached'; echo $?
    """
    work = Parallel(shared, tmp_path, script)
    assert work.wait() == "255\n" * 4
    assert work.errors.count("[launch]") == 3


def test_variables_and_names_that_are_not_utf_8_are_left_out_or_refused_in_words(
    shared: Cluster, tmp_path: Path
) -> None:
    """No command was launched from an environment with one such variable, and no message said why."""
    script = f"""{OTHER}
    export CITY=$(printf 'K\\366ln') GOOD=yes
    $HEADNODE_LAUNCH -n $other 'echo $GOOD ${{CITY-none}}'; echo $?
    $HEADNODE_LAUNCH -n $other "cat $CITY"; echo $?
    mkdir "$CITY"; cd "$CITY"
    $HEADNODE_LAUNCH -n $other 'echo reached'; echo $?
    """
    work = Parallel(shared, tmp_path, script)
    assert work.wait() == "yes none\n0\n255\n255\n"
    assert work.errors.count("is not UTF-8") == 2


def test_what_was_launched_cannot_launch_for_the_task(shared: Cluster, tmp_path: Path) -> None:
    script = f"""{OTHER}
    $HEADNODE_LAUNCH -n $other 'env | grep -c -e HEADNODE_LAUNCH= -e HEADNODE_LAUNCH_SECRET='
    """
    assert Parallel(shared, tmp_path, script).wait() == "0\n"


def test_a_task_of_one_processor_and_a_sweep_have_no_launcher(shared: Cluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    job = shared.submit("echo ${HEADNODE_LAUNCH-none} > out", workdir=str(tmp_path))
    assert shared.wait(job) == "Finished"
    assert (tmp_path / "out").read_text() == "none\n"


def test_the_host_file_is_gone_with_the_task(shared: Cluster, tmp_path: Path) -> None:
    work = Parallel(
        shared, tmp_path, "cat $CCP_MPI_HOSTFILE $PRTE_MCA_prte_default_hostfile; echo $CCP_MPI_HOSTFILE"
    )
    *hosts, path = work.wait().splitlines()
    assert [line.replace(" slots=", ":") for line in hosts[2:]] == hosts[:2]
    assert sorted(line[-2:] for line in hosts[:2]) == [":2", ":2"]
    assert not Path(path).exists()


LASTING = """
cat > lasting <<'END'
sleep 7001 &
setsid sleep 7002 &
python3 -c 'import os,sys
if os.fork(): sys.exit()
os.setsid()
if os.fork(): sys.exit()
os.execvp("sleep", ["sleep", "7003"])' < /dev/null > /dev/null 2>&1
: > ready
sleep 7004
END
"""
SLEEPS = ("7001", "7002", "7003", "7004")


def sleeping(cluster: Cluster) -> list[str]:
    """Return which of the lasting processes live on nodes of the cluster."""
    return [word for word in SLEEPS if living(cluster, word)]


def living(cluster: Cluster, word: str) -> list[int]:
    """Return the processes of the cluster's tasks with a word.

    Tests that run at the same time in another worker start the same programs on nodes of the same names;
    only the directories of a worker are its own, and tasks work below them.
    """
    ours = cluster.directory.parent
    return [number for number in alive(word) if work_directory(number).is_relative_to(ours)]


def work_directory(number: int) -> Path:
    """Return where a process works; the root directory if it has ended meanwhile."""
    try:
        return Path(f"/proc/{number}/cwd").readlink()
    except OSError:
        return Path("/")


def lasting(cluster: Cluster, directory: Path, after: str = "wait_for end", **options: object) -> Parallel:
    """Start a task that launches processes which last, some of them far away from their parents."""
    script = (
        f"{OTHER}{LASTING}$HEADNODE_LAUNCH -n $other 'sh lasting' & launcher=$!\nwait_for ready\n{after}\n"
    )
    work = Parallel(cluster, directory, script, **options)
    cluster.until(lambda: sleeping(cluster) == list(SLEEPS), "all that was launched runs")
    return work


def test_canceling_leaves_nothing_of_what_was_launched(shared: Cluster, tmp_path: Path) -> None:
    work = lasting(shared, tmp_path)
    shared.ask("cancel_job", job=work.job)
    work.wait()
    shared.until(lambda: not sleeping(shared), "nothing is left")
    assert work.state == "Canceled"


def test_the_run_time_limit_leaves_nothing_of_what_was_launched(shared: Cluster, tmp_path: Path) -> None:
    work = lasting(shared, tmp_path, run_time="2s")
    work.wait()
    shared.until(lambda: not sleeping(shared), "nothing is left")
    assert work.state == "Failed"


def test_a_launcher_that_is_killed_takes_its_command_with_it(shared: Cluster, tmp_path: Path) -> None:
    work = lasting(shared, tmp_path, "wait_for kill; kill -9 $launcher; wait_for end; echo on")
    (tmp_path / "kill").touch()
    shared.until(lambda: not sleeping(shared), "nothing is left")
    (tmp_path / "end").touch()
    assert work.wait() == "on\n"
    assert work.state == "Finished"


def test_a_daemon_outlives_its_command_but_not_the_task(shared: Cluster, tmp_path: Path) -> None:
    script = f"""{OTHER}
    $HEADNODE_LAUNCH -n $other 'setsid sleep 7003 < /dev/null > /dev/null 2>&1 &'
    : > ready; wait_for end
    """
    work = Parallel(shared, tmp_path, script)
    shared.until((tmp_path / "ready").exists, "its command is over")
    shared.until(lambda: sleeping(shared) == ["7003"], "the daemon runs")
    (tmp_path / "end").touch()
    assert work.wait() == ""
    shared.until(lambda: not sleeping(shared), "the daemon is gone")


def test_the_end_of_a_task_ends_what_it_launched_though_its_job_goes_on(
    shared: Cluster, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    daemon = "setsid sleep 7003 < /dev/null > /dev/null 2>&1 &"
    (tmp_path / "script").write_text(
        f"{OTHER}$HEADNODE_LAUNCH -n $other '{daemon}'; : > ready; wait_for end\n"
    )
    whole = {"processors": 4, "work_directory": str(tmp_path)}
    tasks = [
        {**whole, "name": "first", "command": "sh script"},
        {**whole, "depends_on": "first", "command": ": > second; while [ ! -e stop ]; do sleep 0.02; done"},
    ]
    described = json.dumps({"processors": 4, "tasks": tasks})
    job = int(shared.ask("submit_job", jobfile=described, dialect="native")["job"])
    shared.until(lambda: sleeping(shared) == ["7003"], "the daemon runs")
    (tmp_path / "end").touch()
    shared.until((tmp_path / "second").exists, "the next task of the job runs")
    shared.until(lambda: not sleeping(shared), "the daemon is gone")
    (tmp_path / "stop").touch()
    assert shared.wait(job) == "Finished"


TAKES = """
import os
x = bytearray(80 << 20)
for i in range(0, len(x), 4096): x[i] = 1
open(f"written-{os.getpid()}", "wb").write(bytes(3_000_000))
"""


def test_the_result_of_a_task_shows_what_it_used_on_all_its_nodes(shared: Cluster, tmp_path: Path) -> None:
    (tmp_path / "takes.py").write_text(TAKES)
    takes = f"{sys.executable} -I -S takes.py"
    script = f"""{OTHER}
    $HEADNODE_LAUNCH -n $other '{takes}; {takes} < /dev/null > /dev/null 2>&1 & : > left'
    wait_for left; {takes}
    """
    work = Parallel(shared, tmp_path, script)
    assert work.wait() == ""
    answer = shared.ask("task", job=work.job, task=1)["task"]
    assert 160 * 1024 < answer["peak_memory"] < 320 * 1024
    assert answer["bytes_written"] >= 6_000_000


def test_want_of_memory_on_another_node_is_why_the_task_failed(shared: Cluster, tmp_path: Path) -> None:
    (tmp_path / "takes.py").write_text(TAKES)
    script = f"{OTHER}$HEADNODE_LAUNCH -n $other 'exec {sys.executable} -I -S takes.py' || exit 9"
    work = Parallel(shared, tmp_path, script, memory=16)
    work.wait()
    answer = shared.ask("task", job=work.job, task=1)["task"]
    assert answer["exit_code"] == 9
    assert "on node " in answer["message"]
    assert "it needed more than the 32 MB (16 MB for each of its 2 processors)" in answer["message"]


def test_what_is_launched_has_the_limits_of_its_task(shared: Cluster, tmp_path: Path) -> None:
    limits = {"nofile": "50:70", "fsize": 8192}
    shown = "bash -c 'ulimit -Sn; ulimit -Hn; ulimit -Sf; ulimit -St; ulimit -Sv'"
    script = f'{OTHER}$HEADNODE_LAUNCH -n $other "{shown}"; {shown}'
    found = Parallel(shared, tmp_path, script, resource_limits=limits).wait().split()
    there, here = found[:5], found[5:]
    assert there[:3] == ["50", "70", "8"]
    assert there == here


def test_a_limit_that_was_reached_on_another_node_is_why_the_task_failed(
    shared: Cluster, tmp_path: Path
) -> None:
    script = f"{OTHER}$HEADNODE_LAUNCH -n $other 'exec head -c 100000 /dev/zero > much' || exit 9"
    work = Parallel(shared, tmp_path, script, resource_limits={"fsize": 8192})
    work.wait()
    answer = shared.ask("task", job=work.job, task=1)["task"]
    assert answer["exit_code"] == 9
    assert answer["message"].startswith("on node ")
    assert "SIGXFSZ: it reached its limit 'fsize', 8192 bytes in a file" in answer["message"]
    assert (tmp_path / "much").stat().st_size == 8192


def test_no_more_processes_are_launched_than_the_task_asked_for(shared: Cluster, tmp_path: Path) -> None:
    if "processes" not in shared.ask("nodes")["nodes"][0]["enforced"]:
        pytest.skip("processes of this user that run already would count")
    bomb = "for i in $(seq 60); do sleep 60 & echo $i; done"
    script = f"{OTHER}$HEADNODE_LAUNCH -n $other '{bomb}' || exit 9"
    work = Parallel(shared, tmp_path, script, resource_limits={"nproc": 30})
    assert 0 < len(work.wait().split()) <= 30
    answer = shared.ask("task", job=work.job, task=1)["task"]
    assert answer["message"].startswith("on node ")
    assert "it reached its limit 'nproc', 30 processes and threads" in answer["message"]


def test_a_head_that_is_killed_interrupts_no_conversation(shared: Cluster, tmp_path: Path) -> None:
    script = f"""{OTHER}
    (echo one; wait_for go; echo two) | $HEADNODE_LAUNCH $other 'read a; : > here; read b; echo $a $b; exit 3'
    echo status $?
    """
    work = Parallel(shared, tmp_path, script)
    shared.until((tmp_path / "here").exists, "the command has read a line")
    shared.kill_head()
    (tmp_path / "go").touch()
    shared.start_head()
    shared.wait_for_nodes("Ready")
    assert work.wait() == "one two\nstatus 3\n"


def test_an_agent_that_is_killed_takes_with_it_what_was_launched_there(
    shared: Cluster, tmp_path: Path
) -> None:
    work = lasting(shared, tmp_path, "wait $launcher; echo status $?; wait_for end")
    target = first_and_other(shared, work)[1]
    shared.nodes[target].kill_agent()
    shared.until(lambda: not sleeping(shared), "nothing is left")
    shared.nodes[target].start_agent()
    shared.until(lambda: "status" in work.output, "the launcher is told")
    (tmp_path / "end").touch()
    assert work.wait() == "status 255\n"


def test_the_loss_of_the_agent_that_asked_ends_what_was_launched(shared: Cluster, tmp_path: Path) -> None:
    work = lasting(shared, tmp_path, "wait $launcher; echo status $?; wait_for end")
    first = first_and_other(shared, work)[0]
    shared.nodes[first].kill_agent()
    shared.nodes[first].start_agent()
    shared.until(lambda: not sleeping(shared), "nothing is left")
    (tmp_path / "end").touch()
    assert work.wait() == "status 255\n"


def first_and_other(cluster: Cluster, work: Parallel) -> tuple[str, str]:
    """Return the nodes of a task of two."""
    first = cluster.ask("task", job=work.job, task=1)["task"]["node"].split()[0]
    (launched,) = living(cluster, "7004")
    environment = Path(f"/proc/{launched}/environ").read_bytes().split(b"\0")
    other = next(each[14:].decode() for each in environment if each.startswith(b"HEADNODE_NODE="))
    assert other != first
    return first, other


def test_what_was_launched_stands_still_with_its_job(shared: Cluster, tmp_path: Path) -> None:
    script = f"""{OTHER}
    $HEADNODE_LAUNCH -n $other 'while [ ! -e end ]; do sleep 0.01; echo x >> beats; done'
    """
    work = Parallel(shared, tmp_path, script)
    shared.until((tmp_path / "beats").exists, "the command runs")
    shared.ask("suspend_job", job=work.job)
    shared.until(lambda: shared.job(work.job)["state"] == "Suspended", "the job is suspended")
    counted = (tmp_path / "beats").stat().st_size
    assert shared.wait(shared.submit(*["sleep 0.05"] * 4)) == "Finished"
    assert (tmp_path / "beats").stat().st_size == counted
    shared.ask("resume_job", job=work.job)
    (tmp_path / "end").touch()
    work.wait()
    assert work.state == "Finished"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
NOBODY = 65534
ASKS_AS_NOBODY = """
import os, sys
from headnode.apps.client.client import Client
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
with open(sys.argv[2]) as described:
    client = Client(sys.argv[1])
    print(client.ask("submit_job", jobfile=described.read(), dialect="native")["job"])
"""


@pytest.fixture
def open_to_all(shared: Cluster, tmp_path: Path) -> Iterator[None]:
    """Let other users reach the head, and the files of the test."""
    before = {path: path.stat().st_mode for path in (*tmp_path.parents, shared.state, *shared.state.parents)}
    for path, mode in before.items():
        path.chmod(mode | 0o055)
    yield
    for path, mode in before.items():
        path.chmod(mode)


@needs_root
@pytest.mark.usefixtures("open_to_all")
def test_a_user_launches_as_himself_and_another_cannot_with_his_secret(
    shared: Cluster, tmp_path: Path
) -> None:
    script = f"""{OTHER}
    $HEADNODE_LAUNCH $other 'id -u'
    echo $HEADNODE_LAUNCH > launcher; echo $HEADNODE_TASK $HEADNODE_LAUNCH_SECRET $other > told; wait_for end
    """
    (tmp_path / "script").write_text(script)
    tmp_path.chmod(0o777)
    task = {"command": f"sh {tmp_path}/script", "processors": 4, "work_directory": str(tmp_path)}
    task |= {"stdout": "out", "stderr": "err"}
    (tmp_path / "job").write_text(json.dumps({"processors": 4, "tasks": [task]}))
    job = submit_as_nobody(shared, tmp_path / "job")
    shared.until((tmp_path / "told").exists, "the task has told its secret")
    shared.until(lambda: len((tmp_path / "told").read_text().split()) == 3, "all of it")
    marker, secret, other = (tmp_path / "told").read_text().split()
    launcher = (tmp_path / "launcher").read_text().strip()
    done = subprocess.run(
        [launcher, "-n", other, "echo reached"],
        env={"HEADNODE_TASK": marker, "HEADNODE_LAUNCH_SECRET": secret, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (255, "")
    assert "as its user" in done.stderr
    (tmp_path / "end").touch()
    assert shared.wait(job) == "Finished"
    assert (tmp_path / "out").read_text() == f"{NOBODY}\n"


def submit_as_nobody(cluster: Cluster, described: Path) -> int:
    words = [sys.executable, "-c", ASKS_AS_NOBODY, str(cluster.state), str(described)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@needs_machines
def test_four_machines_run_what_one_of_them_launches_at_once(machines: Cluster, tmp_path: Path) -> None:
    script = """
    for node in $(cut -d: -f1 "$CCP_MPI_HOSTFILE"); do
      $HEADNODE_LAUNCH -n $node 'echo "$HEADNODE_NODE $(hostname)"' &
    done
    wait
    """
    work = Parallel(machines, tmp_path, script, nodes=4)
    assert sorted(work.wait().split("\n")) == ["", *sorted(f"{name} {name}" for name in FOUR)]


@needs_machines
def test_a_machine_without_power_ends_its_launch_and_the_others_go_on(
    machines: Cluster, tmp_path: Path
) -> None:
    script = f"""{OTHER}
    for node in $(others); do $HEADNODE_LAUNCH -n $node ': > $HEADNODE_NODE; sleep 7004' & done
    wait_for end
    """
    work = Parallel(machines, tmp_path, script, nodes=3, rerunnable=False)
    machines.until(lambda: len(living(machines, "7004")) == 2, "two commands run")
    lost = next(name for name in FOUR if (tmp_path / name).exists())
    machines.nodes[lost].power_off()
    machines.wait_for_nodes("Unreachable", lost)
    work.wait()  # the task reached into it
    assert work.state == "Failed"
    machines.until(lambda: not living(machines, "7004"), "nothing is left on the other")
    machines.nodes[lost].boot()
    machines.wait_for_nodes("Ready")


def test_a_launched_command_has_only_the_standard_streams(shared: Cluster, tmp_path: Path) -> None:
    script = f"{OTHER} $HEADNODE_LAUNCH -n $other \"/bin/sh -c 'ls /proc/\\$\\$/fd; :'\""
    assert Parallel(shared, tmp_path, script).wait().split() == ["0", "1", "2"]
