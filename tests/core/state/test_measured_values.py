"""What a shepherd measures arrives unchanged where it is kept and shown; the values are listed once."""

from pathlib import Path

import msgspec
from worlds import World

from headnode.adapters.nodes.report_queue import attempt_report
from headnode.adapters.processes import job_journal
from headnode.adapters.processes.job_journal import EndedRecord, Header, Writer
from headnode.adapters.wire.agent_messages import Results
from headnode.adapters.wire.message_checks import checked_results, read_message
from headnode.apps.agent.shepherd_handle import result_of
from headnode.apps.server.api.job_objects import (
    delivered_object,
    instance_counts,
    instance_object,
    task_counts,
)
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage
from headnode.core.model.quantities import Instant
from headnode.core.model.ranges import Ranges
from headnode.core.model.task import TaskSpec
from headnode.core.state.job_record import JobRun, LiveAttempt, TaskProgress, spec_of
from headnode.core.state.transitions import TaskState
from headnode.protocol.answers import InstanceCounts

USED = ResourceUsage(*(type(nothing)(number) for number, nothing in enumerate(ResourceUsage(), 1)))
"""Each value is another one."""


def test_every_measured_value_reaches_the_archive_and_clients(tmp_path: Path) -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x"))
    now = world.clock.now()
    outcome = AttemptOutcome("exited", 0, None, Instant(now), Instant(now + 1), usage=USED)
    record = EndedRecord(1, 1, 1, 1, outcome)
    file = tmp_path / "journal"
    Writer(str(file), Header(job, "m", "b", 1, 0)).append([["ended", *record]])
    story = job_journal.read(file)
    assert story is not None
    found = Results(number=1, job=job, results=tuple(map(result_of, story.ended.values())))
    received = read_message(msgspec.msgpack.encode(found), now)
    assert isinstance(received, Results)
    assert checked_results(received.results, now) == (found.results, "")
    world.do(attempt_report("node1", received))
    row = world.journal.instance(job, 1, 1)
    assert row is not None
    assert row.outcome == outcome
    ended = world.record(job)
    shown = msgspec.structs.asdict(instance_object(ended, spec_of(ended), 1, 1, row))
    assert USED._asdict().items() <= shown.items()
    delivered = delivered_object(ended.run)
    assert delivered is not None
    assert USED.counts().items() <= msgspec.structs.asdict(delivered).items()


def test_the_counts_of_a_job_are_those_of_all_its_tasks() -> None:
    here = (("node1", (0,)),)
    ended = {"finished": Ranges([1], [5], 5), "failed": Ranges([6], [6], 1), "canceled": Ranges([7], [8], 2)}
    live = {9: LiveAttempt(1, here, TaskState.RUNNING), 10: LiveAttempt(1, here), 11: LiveAttempt(1, here)}
    run = JobRun(
        [TaskProgress(Ranges([20], [29], 10), live=live, **ended), TaskProgress(Ranges([1], [3], 3))]
    )
    assert task_counts(0, run) == InstanceCounts(24, 10 + 2 + 3, 1, 5, 1, 2)
    each = [instance_counts(progress) for progress in run.tasks]
    assert all(getattr(task_counts(0, run), state) == sum(one[state] for one in each) for state in each[0])
    assert task_counts(7, None) == InstanceCounts(7, 7, 0, 0, 0, 0)
