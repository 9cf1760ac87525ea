"""Limits of users, projects and groups on a real head: jobs wait for jobs of their own owners only."""

import grp
import os
import pwd
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

import pytest

from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead, real_head

SUBMITTERS, ROOM = 50, 20


@pytest.fixture
def head() -> Iterator[RealHead]:
    """A head with two processors in a directory that other users can reach."""
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        with real_head(Path(made)) as found:
            yield found


def limit(head: RealHead, setting: str) -> None:
    """Set a cluster parameter as an administrator does."""
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", str(head.state), "cluster", "params"]
    done = subprocess.run([*command, setting], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr


def waiting(head: RealHead, job: int) -> list[str]:
    """Return the kinds of the reasons for which a queued job waits."""
    assert head.ask("job", job=job)["job"]["state"] == "Queued"
    return [reason["kind"] for reason in head.ask("explain_job", job=job)["reasons"]]


class Gate:
    """Jobs that run until a file is there."""

    def __init__(self, head: RealHead, name: str) -> None:
        self._file = head.state.parent / name
        self.command = f"while [ ! -e {self._file} ]; do sleep 0.02; done"

    def open(self) -> None:
        self._file.touch()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run jobs of another user")
def test_a_second_job_waits_for_the_first_of_its_user_and_delays_nobody_else(head: RealHead) -> None:
    limit(head, "UserLimits=root:jobs=1")
    gate = Gate(head, "first")
    first, second = head.submit(gate.command), head.submit("true")
    head.wait_for(first, "Running")
    assert waiting(head, second) == ["limit"]
    other = head.submit("true", terms={"user": "nobody"}, workdir="/")
    assert head.wait(other)["state"] == "Finished"
    assert waiting(head, second) == ["limit"]
    gate.open()
    assert [head.wait(job)["state"] for job in (first, second)] == ["Finished", "Finished"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run jobs of another user")
@pytest.mark.parametrize("setting", ["GroupLimits={}:processors=1", "UserLimits=@{}:processors=1"])
def test_a_job_waits_for_the_limit_of_its_group_and_a_job_of_another_group_passes_it(
    head: RealHead, setting: str
) -> None:
    group = grp.getgrgid(pwd.getpwnam("root").pw_gid).gr_name
    gate = Gate(head, "first")
    first, second = head.submit(gate.command), head.submit("sleep 600")
    head.wait_for(second, "Running")
    third = head.submit("true")
    limit(head, setting.format(group))  # the jobs were submitted before it
    head.ask("cancel_job", job=second, force=True)
    head.wait(second)
    assert waiting(head, third) == ["limit"]
    other = head.submit("true", terms={"user": "nobody"}, workdir="/")
    assert head.wait(other)["state"] == "Finished"
    head.kill()
    head.start_again()
    head.wait_for(first, "Running")
    assert waiting(head, third) == ["limit"]
    gate.open()
    assert [head.wait(job)["state"] for job in (first, third)] == ["Finished", "Finished"]


def test_a_raised_limit_starts_what_waits_and_a_lowered_one_stops_nothing(head: RealHead) -> None:
    limit(head, "UserLimits=*:jobs=1")
    first, second, third = (head.submit("sleep 600") for _ in range(3))
    head.wait_for(first, "Running")
    assert waiting(head, second) == ["limit"]
    limit(head, "UserLimits=*:jobs=2")
    head.wait_for(second, "Running")
    limit(head, "UserLimits=*:jobs=1")
    head.ask("cancel_job", job=first, force=True)
    assert head.wait(first)["state"] == "Canceled"
    assert waiting(head, third) == ["limit"]
    assert head.ask("job", job=second)["job"]["state"] == "Running"
    limit(head, "UserLimits=")
    head.wait_for(third, "Running")


def test_a_limit_of_a_project_holds_after_a_head_was_killed(head: RealHead) -> None:
    limit(head, "ProjectLimits=wind:processors=1")
    gate, wind = Gate(head, "first"), {"projectname": "wind"}
    first, second = head.submit(gate.command, terms=wind), head.submit("true", terms=wind)
    head.wait_for(first, "Running")
    for _ in range(2):
        assert waiting(head, second) == ["limit"]
        assert head.wait(head.submit("true"))["state"] == "Finished"
        head.kill()
        head.start_again()
    head.wait_for(first, "Running")
    assert waiting(head, second) == ["limit"]
    gate.open()
    assert [head.wait(job)["state"] for job in (first, second)] == ["Finished", "Finished"]


def submit(head: RealHead) -> str:
    """Submit a job on a connection of its own; return what became of it."""
    with closing(Client(str(head.state))) as client:
        try:
            client.ask("submit_job", tasks=[{"command": "sleep 600"}])
        except HeadnodeError as error:
            return error.code
    return "accepted"


def all_at_once(head: RealHead) -> Counter[str]:
    with ThreadPoolExecutor(SUBMITTERS) as pool:
        return Counter(pool.map(submit, [head] * SUBMITTERS))


def test_a_head_that_is_killed_meanwhile_accepts_no_more_and_refuses_no_request_that_it_carried_out(
    head: RealHead,
) -> None:
    limit(head, f"UserLimits=*:submitted={ROOM}")
    with ThreadPoolExecutor(SUBMITTERS) as pool:
        outcomes = [pool.submit(submit, head) for _ in range(SUBMITTERS)]
        next(as_completed(outcomes))
        head.kill()
        head.start_again()
        found = Counter(each.result() for each in outcomes)
    assert found == {"accepted": ROOM, "limit": SUBMITTERS - ROOM}
    assert len(head.ask("jobs")["jobs"]) == ROOM


def test_of_fifty_submitters_at_once_exactly_as_many_have_a_job_as_the_limit_says(head: RealHead) -> None:
    limit(head, f"UserLimits=*:submitted={ROOM}")

    assert all_at_once(head) == {"accepted": ROOM, "limit": SUBMITTERS - ROOM}
    head.kill()
    head.start_again()
    assert all_at_once(head) == {"limit": SUBMITTERS}
    jobs = [job["id"] for job in head.ask("jobs")["jobs"]]
    assert len(jobs) == ROOM
    for job in jobs[:5]:
        head.ask("cancel_job", job=job, force=True)
        head.wait(job)
    assert all_at_once(head) == {"accepted": 5, "limit": SUBMITTERS - 5}


def test_a_job_waits_for_processor_minutes_that_a_running_job_may_use_also_after_a_kill(
    head: RealHead,
) -> None:
    limit(head, "UserLimits=*:processor-minutes=10")
    gate = Gate(head, "first")
    first = head.submit(gate.command, terms={"runtime": "6m"})
    second = head.submit("true", terms={"runtime": "5m"})
    head.wait_for(first, "Running")
    assert waiting(head, second) == ["limit"]
    head.kill()
    head.start_again()
    head.wait_for(first, "Running")
    assert waiting(head, second) == ["limit"]
    (use,) = head.ask("limits")["limits"]
    assert (use["amount"], use["used"]) == ("processor-minutes", 6)
    gate.open()
    assert [head.wait(job)["state"] for job in (first, second)] == ["Finished", "Finished"]
    (use,) = head.ask("limits")["limits"]
    assert 0 < use["used"] < 5
