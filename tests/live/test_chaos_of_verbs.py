"""Everything that can be asked of jobs comes at a head, in no order, while it and its agents are killed.

At the end everything is released and resumed.  Then what the journal tells is compared with what the tasks
wrote every ten milliseconds.  Longer, and otherwise:
``make test TESTS='tests/live/test_chaos_of_verbs.py --chaos-seconds 600 --chaos-seed 7 --timeout 0'``.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest
import ticking
from adversary import FAR, Adversary
from witness import Witness

from depth import share_of
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.errors import Unavailable
from headnode.core.state.apply_events import apply_event
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.invariants import check_cluster
from headnode.engine.recovery import recover, save
from heads import RealHead, processes, real_head

TIMEOUT = 90.0  # seconds for the end of everything
MEAN_LIFE = 2.5  # seconds from one kill to the next
OVER = ("Finished", "Failed", "Canceled")


class Murderer:
    """Kills the head or an agent now and then, and notes when."""

    def __init__(self, head: RealHead, seed: str) -> None:
        self._head, self._random = head, random.Random(f"{seed} kills")
        self.kills: list[float] = []
        self._next = self._draw()

    def _draw(self) -> float:
        return time.monotonic() + self._random.expovariate(1 / MEAN_LIFE)

    def strike(self) -> None:
        """Kill, if it is time."""
        if time.monotonic() < self._next:
            return
        self._next = self._draw()
        self.kills.append(time.time())
        if self._random.random() < 0.5:
            self._head.kill()
            self._head.process = self._head._spawn()
        else:
            state = str(self._head.state).encode()
            for agent in processes(b"headnode.apps.agent", b"--state\0" + state):
                if self._random.random() < 0.6:
                    os.kill(agent, signal.SIGKILL)


def let_all_end(adversary: Adversary) -> None:
    deadline = time.monotonic() + TIMEOUT
    left = [0]
    while left:
        try:
            left = adversary.let_all_end()
        except Unavailable:
            continue
        if time.monotonic() > deadline:
            answer = [adversary.head.ask("explain_job", job=job) for job in left[:3]]
            raise AssertionError(f"jobs {left} are stuck: {answer}\n{adversary.head.log()}")
        time.sleep(0.05)


def check_that_nothing_is_left(head: RealHead, adversary: Adversary) -> None:
    """All is free: what ran is gone, and one job gets everything there is."""
    cluster = head.ask("cluster")["cluster"]
    assert cluster["processors"]["free"] == cluster["processors"]["total"] == 4
    assert cluster["tasks_running"] == 0
    everything = {"numprocessors": "4", "exclusive": "true", "license": "solver:2"}
    job = head.submit("true", terms=everything)
    assert head.wait(job)["state"] == "Finished"
    deadline = time.monotonic() + TIMEOUT
    tasks = (b"HEADNODE_TASK=", f"HEADNODE_STATE={head.state}".encode())
    while list(processes(*tasks)) or list(adversary.work.iterdir()):
        left = [Path(f"/proc/{number}/cmdline").read_bytes() for number in processes(*tasks)]
        assert time.monotonic() < deadline, f"left: {left} {list(adversary.work.iterdir())}\n{head.log()}"
        time.sleep(0.05)


def check_what_is_shown(head: RealHead, witness: Witness) -> None:
    """What people see of every job and task is what happened last."""
    last = {name[:3]: witness.handed[name].end for name in sorted(witness.handed)}
    for job, found in witness.jobs.items():
        assert head.ask("job", job=job)["job"]["state"].lower() == found.over, f"job {job}"
        for number in range(1, len(found.spec.tasks) + 1):
            master = head.task(job, number)
            shown = head.ask("tasks", job=job, expand=number)["tasks"] if "instances" in master else [master]
            for task in shown:
                assert task["state"] in OVER, f"{job}.{number} {task}"
                end = last.get((job, number, task["instance"] or 1))
                if end is not None and task["attempt"] == end.attempt and end.state != "queued":
                    assert task["state"].lower() == end.state, f"{job}.{number} {task} {end}"
                    assert (task["exit_code"], task["signal"]) == (end.outcome.exit_code, end.outcome.signal)


def check_the_journal(path: Path) -> None:
    """A snapshot with what came later, and all events from the first on, lead to the same cluster."""
    journal = SqliteJournal(path)
    try:
        recovered, _, _ = recover(journal)
        check_cluster(recovered)
        whole = ClusterState()
        for _, event in journal.replay(0):
            apply_event(whole, event)
        check_cluster(whole)
        whole.agenda.for_archive.clear()
        assert save(whole) == save(recovered)
        assert not recovered.jobs
    finally:
        journal.close()


def test_whatever_is_asked_of_jobs_what_happens_is_what_was_promised(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seconds = pytestconfig.getoption("--chaos-seconds") or float(share_of(30))
    seed = pytestconfig.getoption("--chaos-seed")
    with real_head(tmp_path, nodes=2, processors=2) as head:
        head.ask("set_parameters", values={"licences": "solver:2"})
        head.ask("modify_node", node=max(node["name"] for node in head.ask("nodes")["nodes"]), features=[FAR])
        adversary, murderer = Adversary(head, tmp_path, seed), Murderer(head, seed)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            adversary.act()
            murderer.strike()
            assert head.process.poll() is None, f"the head died by itself:\n{head.log()}"
        head.wait_until_ready()
        let_all_end(adversary)
        check_that_nothing_is_left(head, adversary)
        head.kill()
        journal = SqliteJournal(head.state / "journal.db")
        witness = Witness(list(journal.replay(0)), ticking.read(adversary.tracks))
        journal.close()
        head.start_again()
        check_what_is_shown(head, witness)
    assert "Traceback" not in (tmp_path / "head.log").read_text(), head.log()
    check_the_journal(head.state / "journal.db")
    wrong = witness.check(murderer.kills)
    assert not wrong, "\n".join(wrong[:30])
    assert set(adversary.acknowledged) <= witness.jobs.keys()
    print(len(witness.jobs), "jobs", dict(witness.events), adversary.done, adversary.refused)
    assert len(witness.tracks) > seconds, "too little ran to learn anything"
