"""Recurring jobs: each time makes one job at most, over kills of the head and clocks that are set."""

from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from cronsim import CronSim
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.bounds import RECURRING_UNFINISHED
from headnode.core.model.errors import NotAllowed, Refused, Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state.job_record import decode_spec, encode_spec
from headnode.core.state.nodes import SetParameter
from headnode.core.state.recurring import until_due
from headnode.core.state.recurring_record import (
    AdvanceRecurring,
    ChangeRecurring,
    CreateRecurring,
    RecurringJob,
    RecurringRecord,
    RemoveRecurring,
    RunRecurring,
    SetRecurringTable,
)
from headnode.core.state.stop import StopJob
from journal_model import ModelJournal


def with_task(**fields: Any) -> bytes:
    """Return an encoded description of a job with one task."""
    return encode_spec(JobSpec(tasks=(TaskSpec(command="x"),), **fields))


OPERATOR = replace(BOB, operator=True)
HOUR = 3600.0


def described(**fields: Any) -> RecurringJob:
    """Return a recurring job as a client describes it."""
    plain = {"name": "nightly", "schedule": "0 * * * *", "zone": "UTC", "spec": with_task()}
    nobody = {"number": 0, "owner": "", "uid": 0, "gid": 0, "created": Instant(0), "anchor": Instant(0)}
    return RecurringJob(**(nobody | plain | fields))


class Recurring(World):
    """A world with one recurring job of ada."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(4)
        self.clock.advance_to(Instant(datetime(2026, 1, 1, 12, 30, tzinfo=UTC).timestamp()))
        self.start = self.clock.now()
        self.do(CreateRecurring(by=ADA, owner=ADA, recurring=described(**fields)))

    @property
    def kept(self) -> RecurringRecord:
        return self.cluster.recurring.record(1)

    def advance(self) -> None:
        """Do as the head does when a time may be due; it is told whether one is."""
        due = until_due(self.cluster, self.kept, self.clock.now()) <= 0
        assert bool(self.do(AdvanceRecurring(number=1, by=ADA))) == due

    def go_on(self, seconds: float) -> None:
        self.wait(seconds)
        self.advance()

    def end_all(self) -> None:
        for held in list(self.nodes.running()):
            self.end(JobId(held.job), held.task)

    def ran(self) -> list[float]:
        """Return the times, in hours after the start of the world, for which there is a job."""
        return [(one.time - self.start) / HOUR for one in self.kept.recent if one.job]

    def causes(self) -> list[str | None]:
        return [one.cause for one in self.kept.recent]


def test_a_time_makes_a_job_of_the_owner_that_knows_its_time() -> None:
    world = Recurring(zone="Europe/Berlin")
    world.advance()
    assert not world.cluster.jobs
    world.go_on(HOUR)
    (job,) = world.cluster.jobs.values()
    spec = decode_spec(job.spec)
    assert (job.owner, job.uid) == ("ada", ADA.uid)
    assert spec.environment == {
        "HEADNODE_RECURRING_JOB": "nightly",
        "HEADNODE_RECURRING_TIME": "2026-01-01T14:00:00+01:00",
    }
    assert job.recurring is not None
    assert (job.recurring.number, job.recurring.name, job.recurring.time) == (
        1,
        "nightly",
        world.start + HOUR / 2,
    )
    world.check_replay()


def test_a_time_makes_one_job_however_often_the_head_looks() -> None:
    world = Recurring(overlap="allow")
    world.wait(HOUR)
    for _ in range(3):
        world.advance()
        world.engine.recover()
    assert world.ran() == [0.5]
    assert len(world.cluster.jobs) == 1


class FillingJournal(ModelJournal):
    """A journal on a disk that may be full."""

    full = False

    def append(self, *arguments: Any, **named: Any) -> int:
        if self.full:
            raise Unavailable(code="journal-full", what="the disk is full", fix="make room")
        return super().append(*arguments, **named)


def test_a_time_that_a_full_disk_cannot_note_makes_its_job_when_there_is_room() -> None:
    world = Recurring()
    journal = FillingJournal()
    vars(journal).update(vars(world.journal))
    world.engine.journal = world.journal = journal
    world.wait(HOUR)
    journal.full = True
    with pytest.raises(Unavailable):
        world.advance()
    assert (world.kept.recent, world.cluster.jobs) == ((), {})
    journal.full = False
    world.advance()
    world.advance()
    assert world.ran() == [0.5]


def test_of_times_that_were_missed_the_last_makes_one_job() -> None:
    world = Recurring()
    world.go_on(5 * HOUR)
    world.end_all()
    world.go_on(1.0)
    assert world.ran() == [4.5]


def test_missed_times_make_no_job_if_that_is_wished() -> None:
    world = Recurring(missed="none")
    world.go_on(5 * HOUR)
    assert (world.ran(), world.causes()) == ([], ["missed"])
    world.go_on(HOUR / 2)
    assert world.ran() == [5.5]


@pytest.mark.parametrize(("missed", "hours"), [("one", [2.5]), ("none", [])])
def test_times_while_it_is_suspended_count_as_missed(missed: str, hours: list[float]) -> None:
    world = Recurring(missed=missed)
    world.do(ChangeRecurring(by=ADA, number=1, changes={"suspended": True}))
    world.go_on(3 * HOUR)
    assert world.kept.recent == ()
    world.do(ChangeRecurring(by=ADA, number=1, changes={"suspended": False}))
    world.advance()
    assert world.ran() == hours


def test_a_clock_that_is_set_back_makes_no_second_job_for_a_time() -> None:
    world = Recurring()
    world.go_on(HOUR)
    world.end_all()
    world.clock.jump(world.start)
    for _ in range(6):
        world.go_on(HOUR / 4)
        world.end_all()
    assert world.ran() == [0.5, 1.5]


def test_a_clock_that_is_set_forward_makes_one_job() -> None:
    world = Recurring()
    world.clock.jump(Instant(world.start + 100 * HOUR))
    world.advance()
    world.end_all()
    world.advance()
    assert world.ran() == [99.5]


def test_while_a_job_has_not_ended_the_next_time_is_skipped() -> None:
    world = Recurring()
    for _ in range(3):
        world.go_on(HOUR)
    assert (world.ran(), world.causes()) == ([0.5], [None, "overlap", "overlap"])
    assert world.kept.recent[-1].reason == "job 1 has not ended: it is running"
    world.end_all()
    world.go_on(HOUR)
    assert world.ran() == [0.5, 3.5]


def test_a_time_that_waits_makes_its_job_when_the_one_before_has_ended() -> None:
    world = Recurring(overlap="wait")
    for _ in range(3):
        world.go_on(HOUR)
    assert world.causes() == [None, "waiting", "overlap"]
    world.end_all()
    world.check_replay()
    world.go_on(1.0)
    assert world.ran() == [0.5, 1.5]
    world.end_all()
    world.go_on(1.0)
    assert world.ran() == [0.5, 1.5]


def test_a_time_that_waits_makes_no_job_beyond_the_last_run() -> None:
    world = Recurring(overlap="wait", most_runs=2)
    for _ in range(2):
        world.go_on(HOUR)
    world.do(ChangeRecurring(by=ADA, number=1, changes={"most_runs": 1}))
    world.end_all()
    for _ in range(3):
        world.go_on(HOUR)  # the head asks for no decision: it would ask again at once, for ever
    assert world.ran() == [0.5]
    world.do(ChangeRecurring(by=ADA, number=1, changes={"most_runs": 2}))
    world.go_on(1.0)
    assert world.ran() == [0.5, 1.5]


def test_jobs_run_beside_each_other_if_that_is_allowed() -> None:
    world = Recurring(overlap="allow")
    for _ in range(3):
        world.go_on(HOUR)
    assert len(world.cluster.jobs) == 3


def test_jobs_that_never_end_are_not_made_without_a_limit() -> None:
    world = Recurring(overlap="allow")
    world.do(*(RunRecurring(by=ADA, number=1, owner=ADA) for _ in range(RECURRING_UNFINISHED.most)))
    with pytest.raises(Refused) as refused:
        world.do(RunRecurring(by=ADA, number=1, owner=ADA))
    assert refused.value.code == "recurring-unfinished"
    world.go_on(HOUR)
    assert world.causes()[-1] == "overlap"


def test_it_ends_after_its_last_run_or_its_end() -> None:
    world = Recurring(most_runs=2, overlap="allow")
    for _ in range(4):
        world.go_on(HOUR)
    assert world.ran() == [0.5, 1.5]
    assert world.kept.next_time(world.clock.now()) is None
    other = Recurring(overlap="allow", end=Instant(datetime(2026, 1, 1, 14, 0, tzinfo=UTC).timestamp()))
    for _ in range(4):
        other.go_on(HOUR)
    assert other.ran() == [0.5, 1.5]


def test_a_job_that_is_refused_is_noted_and_the_next_time_is_tried() -> None:
    world = Recurring()
    world.do(SetParameter(by=ROOT, name="UserLimits", value="ada:submitted=0"))
    world.go_on(HOUR)
    assert world.causes() == ["refused"]
    assert world.cluster.recurring.refused() == 1
    assert "may have 0 submitted jobs" in world.kept.recent[0].reason
    world.do(AdvanceRecurring(number=1, by=None, refused="there is no user 'ada'"))
    world.wait(HOUR)
    world.do(AdvanceRecurring(number=1, by=None, refused="there is no user 'ada'"))
    assert world.kept.recent[-1].reason == "there is no user 'ada'"
    world.do(SetParameter(by=ROOT, name="UserLimits", value=""))
    world.go_on(HOUR)
    assert world.ran() == [2.5]
    assert world.cluster.recurring.refused() == 0
    world.check_replay()


def test_a_job_beside_the_schedule_changes_no_time_of_it() -> None:
    world = Recurring(overlap="allow")
    world.do(RunRecurring(by=OPERATOR, number=1, owner=ADA))
    assert (world.kept.recent[0].by, world.kept.runs) == ("bob", 0)
    world.go_on(HOUR)
    assert world.ran() == [0.0, 0.5]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"schedule": "* * * *"}, "schedule"),
        ({"schedule": "@every 59s"}, "schedule"),
        ({"schedule": "@every 1d", "end": Instant(1.7672e9)}, "schedule"),
        ({"zone": "Mars/Base"}, "time-zone"),
        ({"name": "7"}, "recurring-name"),
        ({"name": "a/b"}, "recurring-name"),
        ({"keep": 0}, "keep"),
        ({"most_runs": -1}, "most-runs"),
        ({"spec": encode_spec(JobSpec())}, "recurring-job"),
        ({"spec": with_task(parents=(1,))}, "recurring-job"),
        ({"spec": with_task(hold_until=Instant(1))}, "recurring-job"),
        ({"spec": with_task(priority=4000)}, "priority-privilege"),
    ],
)  # fmt: skip
def test_what_could_make_no_job_is_refused_at_once(fields: dict[str, Any], code: str) -> None:
    world = Recurring()
    with pytest.raises(Refused) as refused:
        world.do(CreateRecurring(by=ADA, owner=ADA, recurring=described(**({"name": "other"} | fields))))
    assert refused.value.code == code


def test_next_times_that_are_remembered_are_those_that_are_found_anew() -> None:
    world = Recurring()
    for change in (
        {},
        {"suspended": True},
        {"suspended": False},
        {"schedule": "30 * * * *"},
        {"most_runs": 2},
    ):
        if change:
            world.do(ChangeRecurring(by=ADA, number=1, changes=change, owner=ADA))
        for _ in range(3):
            world.end_all()
            world.go_on(HOUR)
            now = world.clock.now()
            found = world.cluster.recurring.next_times(world.kept, now)
            assert found == world.kept.next_times(now)
            assert world.cluster.recurring.next_times(world.kept, now) is found or not found
    assert found == ()  # it has made two jobs and more


def test_names_and_the_number_of_recurring_jobs_are_those_of_each_user() -> None:
    world = Recurring()
    world.do(SetParameter(by=ROOT, name="MaxRecurringJobsPerUser", value="2"))
    for name, code in (("NIGHTLY", "recurring-exists"), ("two", ""), ("three", "recurring-limit")):
        command = CreateRecurring(by=ADA, owner=ADA, recurring=described(name=name))
        if not code:
            world.do(command)
            continue
        with pytest.raises(Refused) as refused:
            world.do(command)
        assert refused.value.code == code
    world.do(CreateRecurring(by=BOB, owner=BOB, recurring=described()))
    with pytest.raises(NotAllowed):
        world.do(CreateRecurring(by=BOB, owner=ADA, recurring=described(name="trap")))


def test_others_change_nothing_and_operators_only_whether_it_goes_on() -> None:
    world = Recurring()
    suspend = {"suspended": True}
    for command in (
        ChangeRecurring(by=BOB, number=1, changes=suspend),
        RemoveRecurring(by=BOB, number=1),
        RunRecurring(by=BOB, number=1, owner=ADA),
        ChangeRecurring(by=OPERATOR, number=1, changes={"schedule": "@daily"}, owner=ADA),
    ):
        with pytest.raises(NotAllowed):
            world.do(command)
    world.do(ChangeRecurring(by=OPERATOR, number=1, changes=suspend))
    world.do(RemoveRecurring(by=OPERATOR, number=1))
    assert not world.cluster.recurring.numbered


def test_another_schedule_begins_with_the_times_after_its_change() -> None:
    world = Recurring()
    world.wait(2 * HOUR)
    world.do(ChangeRecurring(by=ADA, number=1, changes={"schedule": "15 * * * *"}, owner=ADA))
    world.advance()
    assert world.ran() == []
    world.go_on(HOUR)
    assert world.ran() == [2.75]


def test_a_table_is_replaced_as_a_whole_or_not_at_all() -> None:
    world = Recurring()

    def write(text: str, *entries: RecurringJob) -> None:
        world.do(SetRecurringTable(by=ADA, owner=ADA, text=text, entries=entries))

    write("1", described(name="a"), described(name="b"))
    before = {each.recurring.name: each.recurring.number for each in world.cluster.recurring.of("ada")}
    with pytest.raises(Refused) as refused:
        write("2", described(name="c"), described(name="nightly"))
    assert refused.value.path == ("entries", 1)
    assert world.cluster.recurring.tables["ada"].text == "1"
    write("3", described(name="b"), described(name="c"))
    after = {each.recurring.name: each.recurring.number for each in world.cluster.recurring.of("ada")}
    assert after == {"nightly": 1, "b": before["b"], "c": 4}
    with pytest.raises(Refused) as refused:
        world.do(RemoveRecurring(by=ADA, number=before["b"]))
    assert refused.value.code == "recurring-table"
    write("")
    assert [each.recurring.name for each in world.cluster.recurring.of("ada")] == ["nightly"]
    world.check_replay()


def test_a_table_of_times_that_come_once_in_28_years_looks_for_few_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To find one takes 2 ms: to look for 64 of each held the head for 12 s."""
    world, looks = Recurring(), []
    search = CronSim.__next__
    monkeypatch.setattr(CronSim, "__next__", lambda each: looks.append(1) or search(each))
    rare = [described(name=f"leap{minute}", schedule=f"{minute} 0 * 2 0#5") for minute in range(50)]
    world.do(SetRecurringTable(by=ADA, owner=ADA, text="x", entries=tuple(rare)))
    assert len(looks) <= 2 * len(rare)


@pytest.mark.parametrize("seed", range(60))
def test_each_time_is_decided_once_whatever_happens_to_head_and_clock(seed: int) -> None:
    """Kills, looks, ends and clocks that are set, at random: no time has two jobs, and none is invented."""
    chance = Random(seed)
    world = Recurring(
        overlap=chance.choice(["skip", "wait", "allow"]), missed=chance.choice(["one", "none"]), keep=100
    )
    highest = world.start
    for _ in range(120):
        _happen(world, chance)
        highest = max(highest, world.clock.now())
        world.advance()
        _check_times(world, highest)
    assert world.kept.runs > 0
    world.check_replay()


@pytest.mark.parametrize("seed", range(40))
def test_the_head_is_told_that_a_time_is_due_if_and_only_if_it_is_decided_then(seed: int) -> None:
    """Also while its owner changes what happens to times: `advance` compares both."""
    chance = Random(seed)
    world = Recurring(overlap="wait", keep=100)
    for _ in range(120):
        _happen(world, chance)
        if chance.random() < 0.3:
            world.do(ChangeRecurring(by=ADA, number=1, changes=_other_rules(chance, world)))
        world.advance()
    times = [one.time for one in world.kept.recent if one.job]
    assert len(times) == len(set(times))
    world.check_replay()


def _happen(world: Recurring, chance: Random) -> None:
    """Let one thing happen to head, clock or jobs."""
    match chance.randrange(7):
        case 0:
            world.engine.recover()
        case 1:
            world.clock.jump(Instant(world.clock.now() + chance.choice([-2, -0.4, 0.4, 3]) * HOUR))
        case 2:
            world.end_all()
        case 3:
            for job in list(world.cluster.jobs)[:1]:
                world.do(StopJob(by=ADA, job=job, outcome="canceled"))
        case 4 if (at := world.kept.next_time(world.clock.now())) and at > world.clock.now():
            world.clock.advance_to(at)
        case _:
            world.clock.advance(Seconds(chance.random() * 0.7 * HOUR))


def _other_rules(chance: Random, world: Recurring) -> dict[str, Any]:
    """Return a change of what happens to times, but of none of the times."""
    runs, now = world.kept.runs, world.clock.now()
    return chance.choice(
        [
            {"suspended": chance.random() < 0.4},
            {"most_runs": chance.choice([0, 0, max(1, runs), runs + 1])},
            {"end": chance.choice([None, None, Instant(now + chance.choice([-1, 2]) * HOUR)])},
            {"overlap": chance.choice(["skip", "wait", "allow"])},
        ]
    )


def _check_times(world: Recurring, highest: Instant) -> None:
    record = world.kept
    times = [one.time for one in record.recent if one.job]
    assert len(times) == len(set(times))
    assert all(time % HOUR == 0 and world.start < time <= highest for time in times)
    alive = [job for job in world.cluster.jobs.values() if job.recurring is not None]
    if record.recurring.overlap != "allow":
        assert len(alive) <= 1
    due = record.recurring.times().last_until(world.clock.now(), world.start)
    assert due is None or record.last >= due  # nothing that has come is left undecided
