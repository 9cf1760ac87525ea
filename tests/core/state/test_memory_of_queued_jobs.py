"""What many queued jobs have in common is one object, also after a restart."""

import gc
import random
import sys

from worlds import World

from headnode.adapters.journal.memory import MemoryJournal
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.priority_factors import queue_position
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.indexes import RequestTable
from headnode.core.state.job_record import LARGE, SMALL, decode_spec, encode_spec
from headnode.engine.recovery import recover, save


def submitted() -> ClusterState:
    """Return a cluster with queued jobs whose numbers are no small ones, of which Python has one object."""
    world = World(1)
    for number in range(600):
        world.submit(TaskSpec(command=f"x {number}"))
    return world.cluster


def check_shares(cluster: ClusterState) -> None:
    """Assert that the numbers of a job are one object, as are equal times."""
    turns = {turn.job: turn for turns in cluster.queue.by_request.values() for turn in turns}
    assert max(turns) > 500
    for key, record in cluster.jobs.items():
        if record.state.is_queued:
            turn = turns[key]
            assert key is record.id is record.order is turn.job is turn.order
            assert record.created is record.submitted
    assert len({id(record.created) for record in cluster.jobs.values()}) == 1


def test_numbers_and_times_of_queued_jobs_are_one_object_each_also_after_a_restart() -> None:
    cluster = submitted()
    check_shares(cluster)
    journal = MemoryJournal()
    journal.keep_snapshot(0, save(cluster))
    again, _, _ = recover(journal)
    assert again.jobs == cluster.jobs
    check_shares(again)


def test_a_request_table_has_what_a_dictionary_would_have() -> None:
    dice, world = random.Random(9), submitted()
    request = next(iter(world.queue.by_request))
    table, wanted = RequestTable(), dict[JobId, JobRequest]()
    for _ in range(20_000):
        job = JobId(dice.choice((dice.randint(1, 80), dice.randint(1, 5_000))))
        if dice.random() < 0.45:
            table[job] = wanted[job] = request
        else:
            assert table.pop(job) is wanted.pop(job, None)
        assert (job in table) == (job in wanted)
    assert dict(table.items()) == wanted
    for job in list(wanted):
        assert table[job] is wanted[job] is table.pop(job)
    assert not list(table.items())
    assert not table._pages  # nothing is left of the jobs


def test_a_position_in_the_queue_takes_48_bytes_and_the_collector_does_not_visit_it() -> None:
    turn = queue_position(2000, 7, 7)
    assert sys.getsizeof(turn) <= 48
    assert not gc.is_tracked(turn)


def test_the_last_large_description_is_decoded_once_but_not_a_huge_one() -> None:
    large = encode_spec(JobSpec(tasks=(TaskSpec(command="x" * 2 * SMALL),)))
    huge = encode_spec(JobSpec(tasks=(TaskSpec(command="x" * LARGE),)))
    assert decode_spec(large) is decode_spec(large)
    assert decode_spec(huge) is not decode_spec(huge)
