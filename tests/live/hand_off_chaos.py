"""Kills, freezes and wrong answers around jobs that are handed over: each must run once, with its true end.

The faults come in rounds, each of which is checked when it is over and adds a line to the record.  A test
that is started again with the same record goes on after the last round in it.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from depth import share_of
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead

MIN_JOBS = 10
MAX_BEHIND = 90  # jobs that have not run; a process that never lives to the end of a search moves nothing
CALM = 2  # times as long as a storm
OF_ONE_ROUND = 1000  # faults
RUDE = 0.6  # of the calls of its commands
ALL_OVER = 20 * TIMEOUT  # seconds until all jobs of a round have ended


class RudePeer(Protocol):
    """Another scheduler whose answers can be lost, late or wrong."""

    def be_rude(self, share: float) -> None:
        """Lose, delay, cut or replace this share of the answers from now on."""

    def faults(self) -> Counter[str]:
        """Return how often each of its commands did what it should not."""

    def freeze(self, seconds: float) -> None:
        """Let it stand still for a while."""

    def names(self) -> list[str]:
        """Return the markers of all jobs that it ever had."""

    def in_queue(self) -> list[str]:
        """Return the markers of the jobs that wait or run."""


class Round:
    """Jobs that are submitted while things go wrong, and what became of them."""

    def __init__(self, head: RealHead, peer: RudePeer, folder: Path, seed: int) -> None:
        self._head, self._peer, self._chance = head, peer, random.Random(seed)
        self._marks = folder / f"marks-{seed}"
        self._marks.mkdir()
        self._codes, self._canceled, self._kills = dict[int, int](), set[int](), Counter[str]()
        self._before = peer.faults()

    def faults(self) -> Counter[str]:
        """Return what has gone wrong in this round, by its kind."""
        return self._kills + (self._peer.faults() - self._before)

    def make_trouble(self, wanted: int, submit: Callable[..., int]) -> None:
        """Submit jobs until so many things have gone wrong; storms of kills take turns with calms."""
        self._peer.be_rude(RUDE)
        ends, storm = 0.0, False
        while self.faults().total() < wanted or len(self._codes) < MIN_JOBS:
            if time.monotonic() > ends:
                storm = not storm and self._behind() < MAX_BEHIND
                ends = time.monotonic() + self._chance.uniform(2, 8) * (1 if storm else CALM)
            for _ in range(self._chance.randrange(1, 7) if self._behind() < MAX_BEHIND else 0):
                self._submit(submit)
            if self._codes and self._chance.random() < 0.1:
                self._cancel(self._chance.choice(list(self._codes)[-20:]))
            self._kill(storm=storm)
            time.sleep(self._chance.uniform(0.05, 0.5))
        self._peer.be_rude(0.0)

    def _behind(self) -> int:
        return len(self._codes) - len(self._canceled) - sum(1 for _ in self._marks.iterdir())

    def _submit(self, submit: Callable[..., int]) -> None:
        number, code = len(self._codes) + 1, self._chance.choice([0, 0, 1, 7])
        lasts = self._chance.choice([0, 0.5, 2])
        command = f"echo ran >> {self._marks}/{number}; sleep {lasts}; exit {code}"
        with suppress(HeadnodeError):
            self._codes[submit(self._head, command, {"jobname": str(number)})] = code

    def _cancel(self, job: int) -> None:
        with suppress(HeadnodeError):  # it may have ended
            self._head.ask("cancel_job", job=job)
        self._canceled.add(job)

    def _kill(self, *, storm: bool) -> None:
        """Kill or freeze something, or leave all alone."""
        fate, seconds = self._chance.random(), self._chance.uniform(0.1, 1.5)
        if fate < 0.04:
            self._freeze(hand_off_processes(self._head), "hand-off process frozen", seconds)
        elif fate < 0.06:
            self._freeze([self._head.process.pid], "head frozen", seconds)
        elif fate < 0.1:
            self._kills["other scheduler frozen"] += 1
            self._peer.freeze(seconds)
        elif fate < 0.3:
            self._kill_commands()
        elif storm and fate < 0.42:
            self._head.kill()
            self._head.start_again()
            self._kills["head killed"] += 1
        elif storm and fate < 0.75:
            for process in hand_off_processes(self._head):
                os.kill(process, signal.SIGKILL)
                self._kills["hand-off process killed"] += 1

    def _kill_commands(self) -> None:
        """Kill one of the processes that carry out foreign commands: a shell, a go-between, a program."""
        below = [each for process in hand_off_processes(self._head) for each in descendants(process)]
        if below:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self._chance.choice(below), signal.SIGKILL)
                self._kills["one process of a command killed"] += 1

    def _freeze(self, processes: list[int], kind: str, seconds: float) -> None:
        for process in processes:
            os.kill(process, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(process, signal.SIGCONT)
            self._kills[kind] += 1

    def outcome(self, resource: str) -> dict[str, object]:
        """Wait for the ends; return what is lost, is there twice, ran twice or has another exit code."""
        until = time.monotonic() + ALL_OVER
        states = {job: self._ended(job, until) for job in self._codes}
        wrong = {job: state for job, state in states.items() if state not in self._right(job)}
        mark = self._head.ask("resource", name=resource)["resource"]["mark"]  # others have used it before
        names = Counter(name for name in self._peer.names() if mark in name)
        ran = {int(path.name): path.read_text().count("ran") for path in self._marks.iterdir()}
        kept = {number for number, job in enumerate(self._codes, 1) if job not in self._canceled}
        return {
            "jobs": len(self._codes),
            "canceled": len(self._canceled),
            "there": len(names),
            "lost": sorted(kept - ran.keys()),
            "doubled": sorted(name for name, count in names.items() if count > 1),
            "ran twice": sorted(number for number, times in ran.items() if times != 1),
            "left behind": sorted(name for name in self._peer.in_queue() if mark in name),
            "wrong ends": {str(job): str(state) for job, state in wrong.items()},
        }

    def _right(self, job: int) -> list[tuple[str, int | None]]:
        code = self._codes[job]
        right: list[tuple[str, int | None]] = [("Failed" if code else "Finished", code)]
        return [*right, ("Canceled", None)] if job in self._canceled else right

    def _ended(self, job: int, until: float) -> tuple[str, int | None]:
        """Wait for the end of a job; return its state and the exit code of its task."""
        while (shown := self._head.ask("job", job=job)["job"])["ended"] is None:
            if time.monotonic() > until:
                return "not ended: " + shown["state"], None
            time.sleep(0.2)
        state: str = shown["state"]
        return state, None if state == "Canceled" else self._head.task(job)["exit_code"]


BROKEN = ("lost", "doubled", "ran twice", "left behind", "wrong ends")


def check_chaos(
    request: pytest.FixtureRequest,
    head: RealHead,
    peer: RudePeer,
    folder: Path,
    submit: Callable[..., int],
    *,
    faults: int,
    resource: str = "peer",
) -> None:
    """Make so many faults, or as many as the command line says; fail at the round that breaks a promise."""
    wanted = request.config.getoption("--chaos-kills") or share_of(faults)
    record = Path(request.config.getoption("--chaos-record") or folder / "record")
    rounds = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    first = int(request.config.getoption("--chaos-seed"))
    done = sum((Counter(each["faults"]) for each in rounds), Counter[str]())
    while done.total() < wanted:
        began, one = time.monotonic(), Round(head, peer, folder, first + len(rounds))
        one.make_trouble(min(OF_ONE_ROUND, wanted - done.total()), submit)
        happened = one.outcome(resource)
        seconds = round(time.monotonic() - began)
        rounds.append({"seconds": seconds, "faults": one.faults(), **happened})
        done += one.faults()
        with record.open("a") as file:
            file.write(json.dumps(rounds[-1]) + "\n")
        assert not any(happened[each] for each in BROKEN), (happened, head.log())
    for kind, count in done.most_common():
        print(f"{count:6} {kind}")
    print(f"{done.total():6} in all, {sum(each['jobs'] for each in rounds)} jobs")


def descendants(process: int) -> list[int]:
    """Return the children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found, below = list[int](), children.get(process, [])
    while below:
        found += below
        below = [child for each in below for child in children.get(each, [])]
    return found


def hand_off_processes(head: RealHead) -> list[int]:
    """Return the processes that hand jobs over for a head."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            stat = (path.parent / "stat").read_text()
            parent = int(stat.rpartition(")")[2].split()[1])
            if parent == head.process.pid and b"headnode.apps.handoff" in path.read_bytes():
                found.append(int(path.parent.name))
    return found
