"""Recurring jobs at a real head, which is killed in between."""

import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from test_standby_takeovers import head_with_standby, hn

from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError, NotFound
from heads import RealHead, head_fixture
from testbed.processes import until

head = head_fixture()
EACH_SECOND = "@every 1s"


def created(head: RealHead, command: str, schedule: str = EACH_SECOND, **fields: Any) -> dict[str, Any]:
    """Create a recurring job at a head that allows short intervals; return it."""
    head.ask("set_parameters", values={"RecurringShortestInterval": "1"})
    answer = head.ask("create_recurring_job", schedule=schedule, tasks=[{"command": command}], **fields)
    found: dict[str, Any] = answer["recurring_job"]
    return found


def shown(head: RealHead, name: str) -> dict[str, Any]:
    found: dict[str, Any] = head.ask("recurring_job", recurring=name)["recurring_job"]
    return found


def states(head: RealHead, name: str) -> list[str]:
    """Return what became of the last times, the newest first."""
    return [run["state"] for run in shown(head, name)["last"]]


def test_times_make_jobs_that_know_them_once_though_the_head_is_killed(head: RealHead) -> None:
    created(
        head, "echo $HEADNODE_RECURRING_JOB $HEADNODE_RECURRING_TIME", name="tick", keep=100, overlap="allow"
    )
    for _ in range(4):
        made = shown(head, "tick")["made"]
        head.until(lambda made=made: shown(head, "tick")["made"] > made)
        head.kill()
        head.start_again()
    head.ask("suspend_recurring_job", recurring="tick")
    last = shown(head, "tick")["last"]
    times = [run["time"] for run in last]
    assert len(times) == len(set(times)) >= 4
    jobs = head.ask("jobs", limit=1000, states=["Finished", "Running", "Queued"])["jobs"]
    assert {job["id"] for job in jobs} == {run["job"] for run in last}
    for run in last:
        assert head.wait(run["job"])["state"] == "Finished"
        job = head.ask("job", job=run["job"])["job"]
        assert job["recurring"] == {"number": 1, "name": "tick", "time": run["time"]}
        found = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(run["time"]))
        assert head.output(run["job"]) == f"tick {found}\n"


def test_times_while_the_head_was_away_make_one_job(head: RealHead) -> None:
    created(head, "true", name="a", keep=100)
    head.until(lambda: shown(head, "a")["made"])
    head.kill()
    time.sleep(3.2)  # three times at least
    head.start_again()
    newest = shown(head, "a")["last"][0]["time"]
    head.until(lambda: shown(head, "a")["last"][0]["time"] > newest or shown(head, "a")["made"] >= 3)
    times = sorted(run["time"] for run in shown(head, "a")["last"])
    assert max(later - earlier for earlier, later in pairwise(times)) >= 2.0


def test_a_job_that_runs_makes_times_be_skipped_and_one_that_waits_follows_it(
    head: RealHead, tmp_path: Any
) -> None:
    end = tmp_path / "end"
    until = f"until [ -e {end} ]; do sleep 0.05; done"
    created(head, until, name="skips", keep=100)
    created(head, until, name="waits", overlap="wait", keep=100)
    for name, state in (("skips", "Skipped"), ("waits", "Waiting")):
        head.until(
            lambda name=name, state=state: [r for r in shown(head, name)["last"] if r["state"] == state]
        )
        assert shown(head, name)["made"] == 1
        assert "has not ended" in shown(head, name)["last"][0]["reason"]
    end.touch()
    head.until(lambda: shown(head, "waits")["made"] == 2)


def test_a_job_that_is_refused_says_why_and_the_next_time_is_tried(head: RealHead) -> None:
    created(head, "true", name="tried")
    head.ask("set_parameters", values={"UserLimits": "*:submitted=0"})
    head.until(
        lambda: shown(head, "tried")["last"][:1] and shown(head, "tried")["last"][0]["state"] == "Refused"
    )
    assert "may have 0 submitted jobs" in shown(head, "tried")["last"][0]["reason"]
    head.ask("set_parameters", values={"UserLimits": ""})
    head.until(lambda: shown(head, "tried")["last"][0]["job"])


def test_it_is_changed_run_at_once_and_removed(head: RealHead) -> None:
    recurring = created(head, "true", "0 4 * * *", zone="Europe/Berlin")
    assert (recurring["name"], recurring["state"], len(recurring["next"])) == ("true", "Active", 5)
    changed = head.ask(
        "modify_recurring_job", recurring="true", name="nightly", schedule="0 5 * * *", terms={"jobname": "x"}
    )["recurring_job"]
    assert [at - 3600 for at in changed["next"]] == recurring["next"]
    job = head.ask("run_recurring_job", recurring="1")["job"]
    assert head.wait(job)["name"] == "x"
    assert shown(head, "nightly")["last"][0] | {"at": 0, "time": 0, "by": ""} == {
        "time": 0, "at": 0, "job": job, "state": "Finished", "reason": "", "by": "",
    }  # fmt: skip
    assert [one["name"] for one in head.ask("recurring_jobs")["recurring_jobs"]] == ["nightly"]
    assert head.ask("remove_recurring_job", recurring="nightly") == {"removed": 1, "unfinished": []}
    with pytest.raises(NotFound):
        shown(head, "nightly")


def test_a_repeated_request_creates_nothing(head: RealHead) -> None:
    fields = {"schedule": "@daily", "tasks": [{"command": "true"}]}
    for repeated in (False, True):
        answer = head.ask("create_recurring_job", idempotency="k", **fields)
        assert answer.get("repeated", False) is repeated
        assert answer["recurring_job"]["number"] == 1


TABLE = """\
# my table
HELLO=world
CRON_TZ=Europe/Berlin
#SCRON -J report -t 5
#SCRON --mem=10M
0 4 * * mon echo $HELLO
@hourly /bin/true
@every 1s echo "$HELLO"
"""


def test_a_table_makes_jobs_and_is_replaced_as_a_whole(head: RealHead) -> None:
    head.ask("set_parameters", values={"RecurringShortestInterval": "1"})
    answer = head.ask("set_recurring_table", text=TABLE, directory="/tmp")
    assert answer["text"] == head.ask("recurring_table")["text"] == TABLE
    entries = {one["name"]: one for one in answer["recurring_jobs"]}
    assert list(entries) == ["report", "true", "echo"]
    assert {one["zone"] for one in entries.values()} == {"Europe/Berlin"}
    head.until(lambda: shown(head, "echo")["made"])
    job = shown(head, "echo")["last"][-1]["job"]
    assert head.wait(job)["state"] == "Finished"
    for text, what in (
        (TABLE + "61 * * * * true\n", "line 9"),
        (TABLE + "#SCRON --nosuch\n@daily true\n", "line 10"),
        ("* * * * *\n", "line 1"),
        (TABLE + "#SCRON -t 5\n", "line 9"),
    ):
        with pytest.raises(HeadnodeError, match=what):
            head.ask("set_recurring_table", text=text)
        assert head.ask("recurring_table")["text"] == TABLE
    head.ask("set_recurring_table", text="")
    assert head.ask("recurring_jobs") == {"recurring_jobs": []}


def test_a_table_whose_variables_are_those_of_each_entry_is_refused_in_bounded_memory(head: RealHead) -> None:
    """Each entry has all variables above it: 1 MB of text is 90 MB of jobs."""
    small = "V=x\n" + "@daily true\n" * 100
    head.ask("set_recurring_table", text=small, directory="/tmp")
    before = peak(head)
    large = "".join(f"V{number}={'x' * 120_000}\n" for number in range(7))
    with pytest.raises(HeadnodeError, match="more than the limit of 8"):
        head.ask("set_recurring_table", text=large + "@daily true\n" * 100, directory="/tmp")
    assert peak(head) - before < 40 << 10
    assert head.ask("recurring_table")["text"] == small


def peak(head: RealHead) -> int:
    """Return the most memory that the head has had, in kB."""
    status = Path(f"/proc/{head.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_standby_that_takes_over_makes_no_second_job_for_a_time(
    tmp_path: Path, force: tuple[str, ...]
) -> None:
    with head_with_standby(tmp_path) as (first, standby):
        created(first, "true", name="tick", keep=100, overlap="allow")
        first.until(lambda: shown(first, "tick")["made"] >= 2)
        if force:
            first.kill()
        assert hn("standby", "takeover", *force, state=standby.state).returncode == 0
        with closing(Client(str(standby.state))) as client:

            def tick() -> dict[str, Any]:
                found: dict[str, Any] = client.ask("recurring_job", recurring="tick")["recurring_job"]
                return found

            made = tick()["made"]
            until(lambda: tick()["made"] >= made + 2, "the new head makes jobs")
            client.ask("suspend_recurring_job", recurring="tick")
            last = tick()["last"]
            times = [run["time"] for run in last]
            assert len(times) == len(set(times)) == tick()["made"]
            jobs = client.ask("jobs", limit=1000)["jobs"]
            assert sorted(job["id"] for job in jobs) == sorted(run["job"] for run in last)
