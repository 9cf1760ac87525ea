"""Kills, freezes and lost answers around jobs that are handed over: each must run once, with its true end."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from headnode.core.model.errors import HeadnodeError
from heads import PATIENCE, RealHead

FEWEST_JOBS = 10


class RudePeer(Protocol):
    """Another scheduler whose answers can be lost, late or wrong."""

    def be_rude(self, share: float) -> None:
        """Lose or delay this share of the answers from now on."""

    def faults(self) -> int:
        """Return how many answers were lost, late or wrong."""

    def names(self) -> list[str]:
        """Return the markers of all jobs that it knows."""


def run_in_trouble(
    head: RealHead, peer: RudePeer, folder: Path, wanted: int, submit: Callable[..., int]
) -> dict[int, int]:
    """Submit jobs until so many things have gone wrong; return the exit code that each is to have."""
    chance, codes, troubles, began = random.Random(1), dict[int, int](), Counter[str](), time.monotonic()
    marks = folder / "marks"
    marks.mkdir()
    peer.be_rude(0.4)
    while sum(troubles.values()) + peer.faults() < wanted or len(codes) < FEWEST_JOBS:
        for _ in range(chance.randrange(1, 5)):
            number = len(codes) + 1
            code = chance.choice([0, 0, 1, 7])
            command = f"echo ran >> {marks}/{number}; sleep {chance.choice([0, 0.5, 2])}; exit {code}"
            with suppress(HeadnodeError):
                codes[submit(head, command, {"jobname": str(number)})] = code
        _trouble(head, chance, troubles)
        time.sleep(chance.uniform(0.2, 1.5))
    peer.be_rude(0.0)
    lasted = time.monotonic() - began
    print(f"{len(codes)} jobs, {peer.faults()} lost or late answers, {dict(troubles)}, {lasted:.0f} s")
    return codes


def check_that_all_ran_once(
    head: RealHead, peer: RudePeer, folder: Path, codes: dict[int, int], resource: str
) -> None:
    """Wait for the ends; fail if a job is lost, is there twice, ran twice or has another exit code."""
    states = {job: _ended(head, job) for job in codes}
    wrong = {
        job: states[job]
        for job, code in codes.items()
        if states[job] != ("Failed" if code else "Finished", code)
    }
    mark = head.ask("resource", name=resource)["resource"]["mark"]  # others have used this scheduler before
    names = Counter(name for name in peer.names() if mark in name)
    assert names
    doubled = {name: count for name, count in names.items() if count > 1}
    marks = folder / "marks"
    ran = {path.name: path.read_text() for path in marks.iterdir() if path.read_text() != "ran\n"}
    assert (wrong, doubled, ran) == ({}, {}, {}), head.log()
    assert len(list(marks.iterdir())) == len(codes)


def hand_off_processes(head: RealHead) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            stat = (path.parent / "stat").read_text()
            parent = int(stat.rpartition(")")[2].split()[1])
            if parent == head.process.pid and b"headnode.apps.handoff" in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def _trouble(head: RealHead, chance: random.Random, troubles: Counter[str]) -> None:
    """Kill or freeze the hand-off process, or kill the head, or leave all alone."""
    fate = chance.random()
    if fate < 0.1:
        head.kill()
        head.start_again()
        troubles["head killed"] += 1
    elif fate < 0.5:
        for process in hand_off_processes(head):
            os.kill(process, signal.SIGKILL)
            troubles["hand-off killed"] += 1
    elif fate < 0.6:
        for process in hand_off_processes(head):
            os.kill(process, signal.SIGSTOP)
            time.sleep(chance.uniform(0.1, 2.0))
            os.kill(process, signal.SIGCONT)
            troubles["hand-off frozen"] += 1


def _ended(head: RealHead, job: int) -> tuple[str, int | None]:
    """Wait for the end of a job; return its state and the exit code of its task."""
    until = time.monotonic() + 4 * PATIENCE
    while time.monotonic() < until:
        shown = head.ask("job", job=job)["job"]
        if shown["state"] in ("Finished", "Failed", "Canceled"):
            return shown["state"], head.task(job)["exit_code"]
        time.sleep(0.2)
    raise AssertionError(f"job {job} has not ended: {shown}\n{head.log()}")
