"""What every journal promises, held against each of them."""

import tempfile
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_inputs import FINAL, NOW, OWNERS, any_event, batch, encoded_record, of_type
from stores import LASTING, STORES, AnyStore

from depth import share_of
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage
from headnode.core.model.quantities import JobId
from headnode.core.state.events import EVENTS, Event, JobsPurged, NodePaused, NodeRegistered, ParameterSet
from headnode.core.state.job_events import (
    InstanceEnd,
    InstancesDispatched,
    InstancesEnded,
    InstancesRequeued,
    InstancesStarted,
    JobConfiguring,
    JobCreated,
    JobRequeued,
    JobSubmitted,
)
from headnode.engine.ports import Archive, EndedJob, Journal
from journal_model import ModelJournal

ONE, TWO = JobId(1), JobId(2)


@pytest.fixture(params=list(STORES))
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    journal = STORES[request.param](tmp_path / "journal")
    yield journal
    journal.close()


def submitted(job: int) -> Event:
    return JobSubmitted(at=NOW, job=JobId(job), order=job)


def over(job: int, owner: str = "ada", state: str = "finished", record: bytes = encoded_record()) -> EndedJob:
    return EndedJob(
        id=JobId(job),
        owner=owner,
        name="n",
        project="p",
        state=state,
        submitted=NOW,
        ended=NOW,
        record=record,
    )


def ended(instance: int, state: typing.Any = "finished", attempt: int = 1, task: int = 1) -> InstanceEnd:
    return InstanceEnd(task, instance, attempt, state, AttemptOutcome("exited", 0, started=NOW), "n1")


def instances_ended(job: JobId, *which: InstanceEnd) -> Event:
    return InstancesEnded(at=NOW, job=job, ended=which)


def numbers(archive: Archive, job: JobId = ONE, task: int = 1) -> list[int]:
    return [row.instance for row in archive.instances(job, task, after=0, limit=100)]


def ids(jobs: Sequence[EndedJob]) -> list[int]:
    return [job.id for job in jobs]


def everything(archive: Archive) -> object:
    """Every answer the archive can give about the small world of `journal_inputs`."""
    return (
        [archive.ended_job(JobId(job)) for job in range(1, 6)],
        [
            archive.ended_jobs(owner=owner, states=states, before=before, limit=limit)
            for owner in (*OWNERS, "nobody", None)
            for states in ((), FINAL, ("failed",), ("finished", "canceled"), ("unknown",))
            for before in (None, 1, 3)
            for limit in (0, 1, 10)
        ],
        [
            archive.ended_of_group(group, owner=owner, states=states, before=before, limit=limit)
            for group in ("render", "night", "nothing")
            for owner in (*OWNERS, None)
            for states in ((), ("failed",), ("finished", "canceled"))
            for before in (None, 3)
            for limit in (0, 1, 10)
        ],
        [archive.count_ended(owner=owner) for owner in (*OWNERS, "nobody", None)],
        [archive.instance(JobId(j), t, i) for j in range(1, 5) for t in (1, 2) for i in range(1, 5)],
        [
            archive.instances(JobId(j), t, after=after, limit=limit)
            for j in range(1, 5)
            for t in (1, 2)
            for after in (0, 2)
            for limit in (0, 2, 10)
        ],
        [archive.history(JobId(job), limit) for job in range(1, 5) for limit in (0, 2, 100)],
    )


def test_what_goes_in_comes_out_in_order_and_numbered_from_one(journal: Journal) -> None:
    batches: list[list[Event]] = [[submitted(1), submitted(2)], [], [NodePaused(at=NOW, node="n1")]]
    assert [journal.append(batch) for batch in batches] == [2, 2, 3]
    assert list(journal.replay()) == list(enumerate([event for batch in batches for event in batch], 1))


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=share_of(5), deadline=None)
def test_every_kind_of_event_comes_out_as_it_went_in(kind: type, data: st.DataObject) -> None:
    event = data.draw(of_type(kind))
    with tempfile.TemporaryDirectory() as folder:
        for name, make in STORES.items():
            journal = make(Path(folder) / name)
            journal.append([event])
            assert list(journal.replay()) == [(1, event)]
            journal.close()


def test_replay_begins_after_the_number_asked_for(journal: Journal) -> None:
    journal.append([submitted(number) for number in range(1, 3002)])
    assert [number for number, _ in journal.replay(after=2999)] == [3000, 3001]
    assert [number for number, _ in journal.replay(after=3001)] == []
    assert len(list(journal.replay())) == 3001


def test_the_newest_snapshot_is_the_one_kept_last(journal: Journal) -> None:
    assert journal.newest_snapshot() is None
    journal.append([submitted(number) for number in range(1, 10)])
    for number in (3, 6, 9):
        journal.keep_snapshot(number, b"state %d" % number)
        assert journal.newest_snapshot() == (number, b"state %d" % number)


def test_ended_jobs_are_found_at_once_newest_first_page_by_page(journal: AnyStore) -> None:
    journal.append([], ended=[over(job, owner=OWNERS[job % 2]) for job in (3, 1, 4, 2, 5)])
    assert journal.ended_job(JobId(4)) == over(4)
    assert journal.ended_job(JobId(6)) is None
    assert ids(journal.ended_jobs(owner=None, states=(), before=None, limit=2)) == [5, 4]
    assert ids(journal.ended_jobs(owner=None, states=(), before=4, limit=2)) == [3, 2]
    assert ids(journal.ended_jobs(owner="ada", states=("finished",), before=4, limit=9)) == [2]


def test_the_ended_jobs_of_a_group_are_found_by_its_name(journal: AnyStore) -> None:
    groups = {1: "render", 2: "night", 3: "render", 4: "", 5: "render"}
    journal.append([], ended=[msgspec.structs.replace(over(job), job_group=groups[job]) for job in groups])

    def found(group: str, before: int | None = None, limit: int = 9, state: str = "finished") -> list[int]:
        return ids(journal.ended_of_group(group, owner="ada", states=(state,), before=before, limit=limit))

    assert (found("render"), found("night"), found("")) == ([5, 3, 1], [2], [])
    assert (found("render", before=5), found("render", limit=1), found("render", state="failed")) == (
        [3, 1],
        [5],
        [],
    )
    journal.append([], revived=[JobId(3)])
    assert found("render") == [5, 1]


@pytest.mark.parametrize("text", ["x' or '1'='1", '"; drop table ended; --', "%", "_", "x\\'", "\0"])
def test_what_stands_in_a_name_is_only_a_name(journal: AnyStore, text: str) -> None:
    mine = msgspec.structs.replace(over(1, owner=text), job_group=text)
    journal.append([], ended=[mine, msgspec.structs.replace(over(2), job_group="render")])
    assert ids(journal.ended_jobs(owner=text, states=(), before=None, limit=9)) == [1]
    assert ids(journal.ended_jobs(owner=None, states=(text,), before=None, limit=9)) == []
    assert ids(journal.ended_of_group(text, owner=text, states=(), before=None, limit=9)) == [1]
    assert journal.count_ended(owner=text) == {"finished": 1}
    assert journal.ended_job(JobId(2)) is not None


def test_ended_jobs_are_counted_by_owner_and_state(journal: AnyStore) -> None:
    journal.append([], ended=[over(1), over(2), over(3, state="failed"), over(4, owner="grace")])
    assert journal.count_ended(owner="ada") == {"finished": 2, "failed": 1}
    assert journal.count_ended(owner=None) == {"finished": 3, "failed": 1}
    assert journal.count_ended(owner="nobody") == {}


def test_a_revived_job_leaves_the_archive_and_may_end_again(journal: AnyStore) -> None:
    journal.append([], ended=[over(1, state="failed"), over(2)])
    journal.append([JobRequeued(at=NOW, job=ONE)], revived=[ONE, JobId(77)])
    assert journal.ended_job(ONE) is None
    assert journal.count_ended(owner="ada") == {"finished": 1}
    journal.append([], ended=[over(1, record=encoded_record("second time"))])
    assert journal.ended_job(ONE) == over(1, record=encoded_record("second time"))
    assert journal.count_ended(owner="ada") == {"finished": 2}


def test_a_job_that_is_revived_and_ends_in_one_batch_is_in_the_archive(journal: AnyStore) -> None:
    journal.append([], ended=[over(1, state="failed")])
    journal.append([], ended=[over(1)], revived=[ONE])
    assert journal.ended_job(ONE) == over(1)
    assert journal.count_ended(owner=None) == {"finished": 1}


def test_an_ended_instance_is_found_with_everything_that_was_said(journal: AnyStore) -> None:
    usage = ResourceUsage(1.5, 0.25, 4096, 1024, 5, 6)
    outcome = AttemptOutcome("stopped", None, 9, NOW, NOW, "killed", "", usage)
    full = InstanceEnd(2, 7, 3, "failed", outcome, "n2", "request", ("n2", "n3"))
    journal.append([instances_ended(ONE, full)])
    assert journal.instance(ONE, 2, 7) == full


def test_the_newest_attempt_replaces_the_older_one(journal: AnyStore) -> None:
    journal.append([instances_ended(ONE, ended(1, "failed"))])
    journal.append([instances_ended(ONE, ended(1, attempt=2))])
    row = journal.instance(ONE, 1, 1)
    assert row is not None
    assert (row.attempt, row.state) == (2, "finished")


def test_an_instance_that_will_run_again_is_not_ended(journal: AnyStore) -> None:
    journal.append([instances_ended(ONE, ended(1), ended(2), ended(3))])
    journal.append([instances_ended(ONE, ended(2, "queued", attempt=2))])
    assert numbers(journal) == [1, 3]
    journal.append([instances_ended(ONE, ended(4), ended(4, "queued"), ended(5, "queued"), ended(5))])
    assert numbers(journal) == [1, 3, 5]


def test_requeueing_takes_back_what_will_run_again_and_nothing_else(journal: AnyStore) -> None:
    some = [ended(1), ended(2, "failed"), ended(3, "canceled"), ended(4)]
    journal.append([instances_ended(ONE, *some), instances_ended(TWO, *some)])
    journal.append([InstancesRequeued(at=NOW, job=ONE, task=1, spans=((3, 4),))])
    assert numbers(journal) == [1, 2]
    journal.append([JobRequeued(at=NOW, job=ONE)])
    assert numbers(journal) == [1]
    journal.append([JobConfiguring(at=NOW, job=ONE)])
    assert numbers(journal) == []
    assert numbers(journal, TWO) == [1, 2, 3, 4]


def test_instances_come_page_by_page_in_order(journal: AnyStore) -> None:
    journal.append([instances_ended(ONE, *(ended(number) for number in (5, 1, 3, 2)), ended(9, task=2))])
    assert [row.instance for row in journal.instances(ONE, 1, after=1, limit=2)] == [2, 3]
    assert numbers(journal, task=2) == [9]


def test_changes_of_parameters_come_in_order_without_what_happened_between(journal: AnyStore) -> None:
    changes = [
        ParameterSet(at=NOW, name="HeartbeatInterval", value="5", by="ParameterSet"),
        ParameterSet(at=NOW, name="Licences", value=None, by="ada", origin="pid 7"),
    ]
    journal.append([submitted(1), changes[0], NodePaused(at=NOW, node="ParameterSet")])
    journal.append([changes[1], submitted(2)])
    assert list(journal.parameter_changes()) == changes


def test_history_shows_the_newest_of_a_job_and_leaves_its_instances_out(journal: AnyStore) -> None:
    created = JobCreated(at=NOW, job=ONE, owner="ada", uid=1, gid=1, spec=b"")
    noise: list[Event] = [
        InstancesDispatched(at=NOW, job=ONE, task=1, placement=(("n1", (0,)),), attempts=((1, 1),)),
        InstancesStarted(at=NOW, job=ONE, started=()),
        instances_ended(ONE, ended(1)),
        submitted(2),
        NodePaused(at=NOW, node="n1"),
    ]
    journal.append([created, *noise, submitted(1), *noise, JobRequeued(at=NOW, job=ONE)])
    assert journal.history(ONE, limit=10) == [created, submitted(1), JobRequeued(at=NOW, job=ONE)]
    assert journal.history(ONE, limit=2) == [submitted(1), JobRequeued(at=NOW, job=ONE)]
    assert journal.history(JobId(99), limit=2) == []


def purged_in_steps(journal: AnyStore, most: int) -> int:
    """Purge so many rows at a time until nothing more goes; return what the rest waits for."""
    while (step := journal.purge(most)).more:
        assert 0 < step.removed <= most + 2  # and the prediction of a job, and the note that it is purged
    return step.waits_for


def test_purged_jobs_leave_the_archive_at_once_and_the_journal_after_two_snapshots(journal: AnyStore) -> None:
    life = [submitted(1), instances_ended(ONE, ended(1)), NodePaused(at=NOW, node="n1"), submitted(2)]
    journal.append(life, [over(1), over(2)])
    journal.append([JobsPurged(at=NOW, jobs=(ONE,))])
    assert [job.id for job in journal.ended_jobs(owner=None, states=(), before=None, limit=9)] == [2]
    assert journal.ended_job(ONE) is None
    assert purged_in_steps(journal, 1) == 2
    assert [number for number, _ in journal.replay()] == [1, 2, 3, 4, 5]
    assert journal.instance(ONE, 1, 1) is None
    journal.keep_snapshot(1, b"too early")
    journal.keep_snapshot(5, b"late enough")
    assert purged_in_steps(journal, 1) == 2
    journal.keep_snapshot(5, b"late enough, too")
    assert purged_in_steps(journal, 1) == 0
    assert [number for number, _ in journal.replay()] == [3, 4, 5]
    assert journal.history(ONE, limit=9) == []
    assert journal.append([submitted(3)]) == 6


def test_a_job_that_comes_back_when_it_was_purged_keeps_what_is_left(journal: AnyStore) -> None:
    journal.append([submitted(1)], [over(1)])
    journal.append([JobsPurged(at=NOW, jobs=(ONE,))], revived=[ONE])
    for _ in range(2):
        journal.keep_snapshot(2, b"state")
    assert purged_in_steps(journal, 9) == 0
    assert len(journal.history(ONE, limit=9)) == 1


@pytest.mark.parametrize("store", LASTING)
@given(batches=st.lists(st.tuples(batch, st.booleans()), max_size=6))
@settings(max_examples=share_of(80), deadline=None)
def test_all_journals_agree_on_everything_also_when_reopened(store: str, batches: list[typing.Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory, lasting = ModelJournal(), LASTING[store](Path(folder) / "journal")
        for (events, over, revived), reopen in batches:
            number = memory.append(events, over, revived)
            assert lasting.append(events, over, revived) == number
            for journal in (memory, lasting):
                journal.keep_snapshot(number, repr(events).encode())
            waited_for = memory.purge(100).waits_for
            assert purged_in_steps(lasting, 3) == waited_for
            if reopen:
                lasting.close()
                lasting = LASTING[store](Path(folder) / "journal")
            assert list(memory.replay()) == list(lasting.replay())
            assert memory.newest_snapshot() == lasting.newest_snapshot()
            assert everything(memory) == everything(lasting)
        lasting.close()


@given(events=st.lists(any_event, max_size=20), after=st.integers(0, 21))
@settings(max_examples=share_of(30), deadline=None)
def test_replay_after_any_number_is_the_rest(events: list[Event], after: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, make in STORES.items():
            journal = make(Path(folder) / name)
            journal.append(events)
            assert [event for _, event in journal.replay(after)] == events[after:]
            journal.close()


def test_the_history_of_a_node_is_its_own_newest_events_oldest_first(journal: AnyStore) -> None:
    mine = [
        NodeRegistered(at=NOW, facts=NodeFacts(name="red", processors=2)),
        *(NodePaused(at=NOW, node="red", by=f"{number}") for number in range(5)),
    ]
    others = [
        NodeRegistered(at=NOW, facts=NodeFacts(name="redder", processors=2, groups=("red",))),
        NodePaused(at=NOW, node="infrared", by="red"),
        ParameterSet(at=NOW, name="Licences", value="red:1"),
    ]
    journal.append([mine[0], *others, submitted(1), *mine[1:3]])
    journal.append([*mine[3:], *others])
    assert journal.node_history("red", 100) == mine
    assert journal.node_history("red", 2) == mine[-2:]
    assert journal.node_history("red", 0) == []
    assert journal.node_history("blue", 100) == []
