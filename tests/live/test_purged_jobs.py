"""Records of jobs that ended long ago go if the site wishes it: from lists, journal and nodes."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headnode.adapters.journal.checking import check_file
from headnode.adapters.journal.sqlite import JOURNAL
from headnode.adapters.standby import sender
from headnode.core.model.errors import NotFound
from headnode.core.model.quantities import JobId
from headnode.core.state.job_end import PurgeJobs
from headnode.core.state.stop import StopJob
from headnode.engine.ports import EventSource
from heads import RealHead, head_fixture
from standbys import ROOT, ChangedEvents, Leader, leader_and_standby
from testbed.processes import until

MOMENT = "0.00000001"  # days, about a millisecond: the first round begins at once
SECRET = "a word of a purged job"

head = head_fixture()


def known(head: RealHead, *states: str) -> set[int]:
    return {job["id"] for job in head.ask("jobs", limit=1000, states=list(states))["jobs"]}


def kept_output(head: RealHead) -> set[str]:
    return {folder.name for folder in head.state.glob("nodes/*/output/*")}


def test_nothing_goes_unless_the_site_wishes_it(head: RealHead) -> None:
    over = head.submit("/bin/echo over")
    head.wait(over)
    values = {one["name"]: one["value"] for one in head.ask("parameters")["parameters"]}
    assert values["PurgeJobsAfter"] == "0"
    assert over in known(head)


def test_jobs_that_ended_long_ago_go_and_those_that_are_needed_stay(head: RealHead) -> None:
    old, parent = head.submit(f"echo {SECRET}"), head.submit("/bin/true")
    runs = head.submit("/bin/sh -c 'echo begun; exec sleep 1000'")
    for job in (old, parent):
        assert head.wait(job)["state"] == "Finished"
    waits = head.submit("/bin/true", terms={"parentjobids": str(parent), "holduntil": "1000"})
    assert str(old) in kept_output(head)
    head.ask("set_parameters", values={"PurgeJobsAfter": MOMENT})
    head.until(lambda: old not in known(head))
    head.until(lambda: str(old) not in kept_output(head))
    assert known(head) == {parent, runs, waits}
    with pytest.raises(NotFound, match="records are removed"):
        head.ask("job", job=old)
    head.ask("cancel_job", job=waits, force=True)
    head.ask("set_parameters", values={"PurgeJobsAfter": "0.00000002"})
    head.until(lambda: known(head) == {runs})
    assert str(runs) in kept_output(head)


def test_rounds_come_soon_one_after_another_where_records_are_kept_for_seconds(head: RealHead) -> None:
    head.ask("set_parameters", values={"PurgeJobsAfter": MOMENT})
    for _ in range(2):  # one of them ends after a round
        job = head.submit("/bin/true")
        head.until(lambda job=job: job not in known(head))
    with pytest.raises(NotFound):
        head.ask("job", job=job)


def test_a_purged_job_leaves_nothing_in_the_journal_and_the_head_starts_from_it(head: RealHead) -> None:
    jobs = [head.submit(f"echo {SECRET} {number}") for number in range(20)]
    for job in jobs:
        head.wait(job)
    head.ask("set_parameters", values={"PurgeJobsAfter": MOMENT})
    head.until(lambda: not known(head))
    head.until(lambda: "purged the records of 20 jobs" in head.log())
    head.kill()
    head.start_again()
    head.wait_until_ready()
    new = head.submit("/bin/echo new")
    assert new == len(jobs) + 1
    head.wait(new)
    head.ask("set_parameters", values={"PurgeJobsAfter": "0"})
    head.stop()
    assert all(not table.bad and not table.undecodable for table in check_file(head.state / JOURNAL))
    with closing(sqlite3.connect(head.state / JOURNAL)) as journal:
        left = journal.execute("select distinct job from events where job is not null").fetchall()
        found = journal.execute(f"select number from events where instr(body, '{SECRET}')").fetchall()
        (spans,) = journal.execute("select sum(last - first + 1) from purged_events").fetchone()
    assert {job for (job,) in left} <= {new}
    assert found == []
    assert spans >= 5 * len(jobs)


def test_a_head_that_is_killed_while_it_purges_goes_on_with_it(head: RealHead) -> None:
    tasks = '{"tasks": [{"sweep": "1-600", "command": "true"}]}'
    sweep = head.ask("submit_job", jobfile=tasks, dialect="native")["job"]
    assert head.wait(sweep)["state"] == "Finished"
    for _ in range(50):
        last = head.submit("/bin/true")
    head.until(lambda: len(known(head, "Finished")) == 51)
    head.ask("set_parameters", values={"PurgeJobsAfter": MOMENT})
    for _ in range(4):
        head.until(lambda: sweep not in known(head))
        head.kill()
        head.start_again()
        head.wait_until_ready()
    head.until(lambda: not known(head))
    assert head.submit("/bin/true") == last + 1
    head.stop()
    with closing(sqlite3.connect(head.state / JOURNAL)) as journal:
        left = {job for (job,) in journal.execute("select distinct job from events where job is not null")}
        waits = {job for (job,) in journal.execute("select job from purging")}
    assert left <= waits | {last + 1}
    assert all(not table.bad and not table.undecodable for table in check_file(head.state / JOURNAL))


def purged(leader: Leader, jobs: range) -> None:
    """Let a head purge jobs that are canceled, and remove all that is left of them."""
    canceled = [StopJob(by=ROOT, job=JobId(job), outcome="canceled") for job in jobs]
    assert all(isinstance(answer, tuple) for answer in leader.engine.handle(canceled))
    leader.engine.handle([PurgeJobs(jobs=tuple(map(JobId, jobs)))])
    for _ in range(2):
        assert leader.engine.snapshot_if_due(at_least=0)
    while leader.store.purge(7).more:
        pass
    assert leader.store.purged_after(0)


def test_a_standby_purges_what_its_head_purges_and_starts_from_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headnode.standby")
    with leader_and_standby(tmp_path) as (leader, standby):
        leader.submit(20)
        purged(leader, range(2, 22))
        for _ in range(3):
            leader.submit()
            leader.engine.snapshot_if_due(at_least=1)
            compared = leader.senders[standby.name]
            until(lambda: compared._compared == leader.store.last_number, "the states are compared")  # noqa: B023
        leader.submit()
        leader.until_in_step(standby)
        standby.stop(signal.SIGTERM)
        store = standby.on_disk(tmp_path / "seen")
        left, archived = [*store.replay()], store.ended_after(0, 9)
        store.close()
        assert (left, archived) == ([*leader.store.replay()], [])
        standby.start()
        leader.submit()
        leader.until_in_step(standby)
        assert caplog.text.count("gets a copy of") == 1


def test_a_standby_that_lacks_purged_events_gets_a_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headnode.standby")
    with leader_and_standby(tmp_path) as (leader, standby):
        standby.stop()
        leader.submit(20)
        purged(leader, range(2, 22))
        standby.start()
        leader.until_in_step(standby)
        assert caplog.text.count("gets a copy of") == 2
        assert list(standby.state.glob("journal.db.to-event-*")) == []


class PurgedMeanwhile(ChangedEvents):
    """The events of a head, of which some are purged after a standby was greeted."""

    def __init__(self, source: EventSource) -> None:
        super().__init__(source)
        self._was_asked = False

    def purged_after(self, number: int) -> bool:
        was_asked, self._was_asked = self._was_asked, True
        return was_asked and super().purged_after(number)


def test_events_that_are_purged_while_a_standby_catches_up_are_no_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "headnode.standby")
    monkeypatch.setattr(sender, "AFTER_PROBLEM", 0.2)
    with leader_and_standby(tmp_path) as (leader, standby):
        leader.senders[standby.name].stop()
        leader.senders[standby.name].join()
        leader.submit(20)
        purged(leader, range(2, 22))
        leader.follow(standby, PurgedMeanwhile(leader.store))
        leader.until_in_step(standby)
        assert "events that it lacks were purged" in caplog.text
        assert caplog.text.count("gets a copy of") == 2
