"""Eight machines under a mixed load, three of which fail at any moment, and now and then the head.

Afterwards what the head says is compared with what the tasks themselves wrote: nothing acknowledged is lost,
what may not run twice did not, no instance ran in two places at once, nothing is stuck, and all nodes are
ready.  Longer:
``make test TESTS='tests/live/test_chaos_of_machines.py --chaos-seconds 600 --timeout 0'``.
"""

import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from depth import share_of
from headnode.core.model.errors import HeadnodeError, Unavailable
from testbed.clusters import Cluster, Node, cluster_of_machines
from testbed.machines import Machine, obstacle

NAMES = tuple(f"m{number}" for number in range(1, 9))
FAILING = 3  # machines that are ill at the same time
EXITS = 5  # tasks end with exit codes 0 to 4
MAX_WAITING = 6  # jobs
BEAT = 0.2  # seconds between two lines that a task writes while it runs
SHORT, LONG = 0.5, 4.0  # seconds; a node that is silent for more than three is given up
OVER = ("Finished", "Failed", "Canceled")


def place(node: Node) -> Machine:
    assert isinstance(node.place, Machine)
    return node.place


def power_cycle(cluster: Cluster, node: Node, dice: random.Random) -> Callable[[], None]:
    node.power_off()
    return node.boot


def pull_cable(cluster: Cluster, node: Node, dice: random.Random) -> Callable[[], None]:
    place(node).cut()
    return place(node).heal


def kill_agent(cluster: Cluster, node: Node, dice: random.Random) -> Callable[[], None]:
    node.kill_agent()
    return node.start_agent


def freeze_agent(cluster: Cluster, node: Node, dice: random.Random) -> Callable[[], None]:
    frozen = place(node).processes("headnode.apps.agent")
    send(frozen, signal.SIGSTOP)
    return lambda: send(frozen, signal.SIGCONT)


def kill_shepherds(cluster: Cluster, node: Node, dice: random.Random) -> Callable[[], None]:
    shepherds = node.shepherds()
    send(dice.sample(shepherds, min(1, len(shepherds))), signal.SIGKILL)
    return lambda: None


FAULTS = (power_cycle, pull_cable, pull_cable, kill_agent, freeze_agent, kill_shepherds)


def send(processes: list[int], what: signal.Signals) -> None:
    for number in processes:
        try:
            os.kill(number, what)
        except ProcessLookupError:
            continue


class Load:
    """Jobs of several kinds, and what became of them."""

    def __init__(self, cluster: Cluster, tracks: Path, beats: Path, dice: random.Random) -> None:
        """Tasks write to `tracks` once for each attempt, and to `beats` all the time that they run."""
        self._cluster, self._tracks, self._beats, self._dice = cluster, tracks, beats, dice
        self.sizes: dict[int, int] = {}
        self.once: set[int] = set()  # jobs whose tasks may not run twice
        self.rings: set[int] = set()  # jobs whose task ends with 0
        self._suspended: list[int] = []
        for file in (tracks, beats):
            file.touch()

    def submit(self) -> None:
        """Submit a job, unless many wait already or the head is away."""
        try:
            counts = self._cluster.ask("cluster")["cluster"]["jobs"]
            if counts.get("Queued", 0) > MAX_WAITING:
                time.sleep(0.02)
                return
            rerunnable = self._dice.random() < 0.5
            count, wish = self._wish(rerunnable)
            job = int(self._cluster.ask("submit_job", **wish)["job"])
        except HeadnodeError:
            return  # not acknowledged: nothing was promised
        self.sizes[job] = count
        if "hop" in wish["tasks"][0]["command"]:
            self.rings.add(job)
        if not rerunnable:
            self.once.add(job)
        if wish.get("terms", {}).get("suspendable"):
            self._suspended.append(job)

    def suspend_and_resume(self) -> None:
        """Suspend a job that may be, or let it go on; what is over by now is let be."""
        if not self._suspended or self._dice.random() > 0.3:
            return
        job = self._dice.choice(self._suspended)
        try:
            state = self._cluster.job(job)["state"]
            if state in OVER:
                self._suspended.remove(job)
            elif state in ("Running", "Suspended"):
                self._cluster.ask("suspend_job" if state == "Running" else "resume_job", job=job)
        except HeadnodeError:
            return

    def resume_all(self) -> None:
        """Let everything go on, also what is only about to stand still."""
        self._cluster.until(self._all_go_on, "all that was suspended goes on")

    def _all_go_on(self) -> bool:
        for job in self._suspended:
            if self._cluster.job(job)["state"] == "Suspended":
                with suppress(HeadnodeError):  # it has ended meanwhile
                    self._cluster.ask("resume_job", job=job)
        return not self._cluster.ask("jobs", states=["suspended"])["jobs"]

    def _wish(self, rerunnable: bool) -> tuple[int, dict[str, Any]]:
        command = self._command()
        word = "true" if rerunnable else "false"
        kind = self._dice.random()
        if kind < 0.15:
            tasks = [
                {"command": command.format("$CCP_TASKID"), "rerunnable": word, "name": "first"},
                {"command": command.format("$CCP_TASKID"), "rerunnable": word, "depend": "first"},
            ]
            return 2, {"tasks": tasks}
        if kind < 0.3:
            task = {"command": command.format("$CCP_TASKID"), "numprocessors": "2", "rerunnable": word}
            return 1, {"tasks": [task], "terms": {"suspendable": "true"}}
        if kind < 0.6:
            count = self._dice.randint(1, 10)
            task = {"command": command.format("*"), "parametric": f"1-{count}", "rerunnable": word}
            return count, {"tasks": [task]}
        if kind < 0.7:
            task = {"command": self._ring(), "numprocessors": "4", "rerunnable": word}
            return 1, {"tasks": [task], "terms": {"suspendable": self._dice.choice(("true", "false"))}}
        count = self._dice.randint(1, 4)
        size = self._dice.choice(("1", "2", "3"))  # three are on two machines
        tasks = [
            {"command": command.format("$CCP_TASKID"), "numprocessors": size, "rerunnable": word}
            for _ in range(count)
        ]
        together = {"together": "true"} if self._dice.random() < 0.3 else {}
        return count, {"tasks": tasks, "terms": together}

    def _ring(self) -> str:
        """Return a program that runs on all its machines at once, and hands a token round through them.

        One that loses a machine is ended by a signal: then nobody knows how it would have ended.
        """
        part = self._shows_itself()
        return (
            f"echo $HEADNODE_TASK >> {self._tracks}; hosts=$(cut -d: -f1 $CCP_MPI_HOSTFILE); parts=; "
            f"for node in $hosts; do $HEADNODE_LAUNCH -n $node '{part}' & parts=\"$parts $!\"; done; "
            "token=0; for node in $hosts; do hop='read t; echo $((t + 1))'; "
            'token=$(echo $token | $HEADNODE_LAUNCH $node "$hop") || kill -9 $$; done; '
            "for part in $parts; do wait $part || kill -9 $$; done; "
            "[ $token -eq $(echo $hosts | wc -w) ] || exit 77"
        )

    def _shows_itself(self) -> str:
        """Return what a shell runs to show for a while that it runs."""
        times = self._dice.choice((0, 1, 2, 5, 15))
        beat = f"read now _ < /proc/uptime; echo $HEADNODE_TASK $now >> {self._beats}; sleep {BEAT}"
        return f"n=0; while [ $n -lt {times} ]; do {beat}; n=$((n+1)); done"

    def _command(self) -> str:
        """Return a program that shows all the time that it runs, and ends as its number says."""
        loop = self._shows_itself()
        return f"echo $HEADNODE_TASK >> {self._tracks}; {loop}; exit $(( {{}} % {EXITS} ))"


class Illness:
    """Machines that are ill, and when each gets well."""

    def __init__(self, cluster: Cluster, dice: random.Random) -> None:
        self._cluster, self._dice = cluster, dice
        self._ill: dict[str, tuple[float, Callable[[], None]]] = {}

    def spread(self) -> None:
        """Let one more machine fall ill, if not too many are, and heal whose time has come."""
        for name, (until, cure) in list(self._ill.items()):
            if time.monotonic() > until:
                del self._ill[name]
                cure()
        if len(self._ill) < FAILING and self._dice.random() < 0.2:
            name = self._dice.choice([name for name in NAMES if name not in self._ill])
            fault = self._dice.choice(FAULTS)
            cure = fault(self._cluster, self._cluster.nodes[name], self._dice)
            self._ill[name] = time.monotonic() + self._dice.choice((SHORT, LONG)), cure
        if self._dice.random() < 0.02:
            self._cluster.kill_head()
            self._cluster.start_head()

    def cure_all(self) -> None:
        """Let all machines get well."""
        for _, cure in self._ill.values():
            cure()
        self._ill.clear()


@pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "machines can be made")
def test_eight_machines_of_which_three_fail_lose_nothing(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seconds = pytestconfig.getoption("--chaos-seconds") or float(share_of(30))
    dice = random.Random(seconds)
    with cluster_of_machines(tmp_path / "cluster", NAMES) as cluster:
        cluster.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "2"})
        for node in cluster.nodes.values():
            node.kill_agent()
            node.start_agent()
        cluster.wait_for_nodes("Ready")
        tracks, beats = tmp_path / "tracks", tmp_path / "beats"
        load, illness = Load(cluster, tracks, beats, dice), Illness(cluster, dice)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            load.submit()
            load.suspend_and_resume()
            illness.spread()
        illness.cure_all()
        cluster.wait_for_nodes("Ready")
        load.resume_all()
        cluster.until(lambda: not _active(cluster), "every job is over")
        _compare(cluster, load, tracks)
        assert _overlaps(beats) == [], "an instance ran in two places at the same time"


def _active(cluster: Cluster) -> list[object]:
    try:
        return list(cluster.ask("jobs", states=["active"])["jobs"])
    except Unavailable:
        return ["unknown"]


def _compare(cluster: Cluster, load: Load, tracks: Path) -> None:
    """Compare what the head says with what the tasks wrote."""
    assert load.sizes, "nothing was ever acknowledged"
    lines = tracks.read_text().split()
    assert not [line for line, times in Counter(lines).items() if times > 1], "an attempt ran twice"
    ran = Counter(line.rpartition(".")[0] for line in lines)
    finished = 0
    for job, count in load.sizes.items():
        tasks = _instances(cluster, job)
        assert len(tasks) == count, f"job {job} has {len(tasks)} of {count} instances"
        for task in tasks:
            number = task["instance"] or 1
            name = f"{job}.{task['task']}.{number}"
            swept = number if count != task["of"] else task["task"]
            expected = 0 if job in load.rings else swept % EXITS
            _judge(name, task, ran[name], expected, once=job in load.once)
            finished += task["state"] == "Finished"
    assert finished > len(load.sizes) / 10, f"only {finished} tasks of {len(load.sizes)} jobs ever finished"


def _overlaps(beats: Path) -> list[tuple[str, str]]:
    """Return the attempts of one instance that ran at the same time, by what they wrote themselves."""
    spans: dict[str, list[float]] = {}
    for line in beats.read_text().splitlines():
        attempt, _, at = line.partition(" ")
        if at:  # else its writer was killed
            span = spans.setdefault(attempt, [float(at), float(at)])
            span[0], span[1] = min(span[0], float(at)), max(span[1], float(at))  # of several machines
    by_instance: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for attempt, (first, last) in spans.items():
        by_instance[attempt.rpartition(".")[0]].append((first, last, attempt))
    return [
        (before[2], after[2])
        for each in by_instance.values()
        for before, after in zip(sorted(each), sorted(each)[1:], strict=False)
        if before[1] > after[0]
    ]


def _judge(name: str, task: dict[str, Any], times: int, expected: int, *, once: bool) -> None:
    assert task["state"] in OVER, f"{name} is not over: {task}"
    if once:
        assert times <= 1, f"{name} may not run twice and ran {times} times"
    if task["state"] == "Finished":
        assert (times >= 1, task["exit_code"], expected) == (True, 0, 0), f"{name} ended with {task}"
    if task["exit_code"] is not None:
        assert task["exit_code"] == expected, f"{name} ended with {task}"


def _instances(cluster: Cluster, job: int) -> list[dict[str, Any]]:
    tasks = cluster.ask("tasks", job=job)["tasks"]
    found = []
    for task in tasks:
        shown = cluster.ask("tasks", job=job, expand=task["task"])["tasks"]
        found += [each | {"task": task["task"], "of": len(tasks)} for each in shown]
    return found
