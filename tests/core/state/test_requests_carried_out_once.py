"""A request with an idempotency key makes what it asks for once, whatever becomes of its answers."""

import pytest
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import IdempotencyKey, Receipt, User
from headnode.core.state import job_events as e
from headnode.core.state.apply_events import MAX_RECEIPTS, keep_receipt
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.decide import LIFETIME, receipt_of
from headnode.core.state.groups import CreateJobs
from headnode.core.state.modify import ModifyJob
from headnode.core.state.nodes import SetParameter
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.engine.recovery import recover

TASK = TaskSpec(command="true")
SPEC = JobSpec(tasks=(TASK,))
ONCE = IdempotencyKey("key", b"request", "submit_job")


def asking(user: User, once: IdempotencyKey = ONCE) -> User:
    return replace(user, once=once)


def submit(world: World, user: User, once: IdempotencyKey = ONCE, count: int = 1) -> list[JobId]:
    events = world.do(CreateJobs(by=asking(user, once), specs=(SPEC,) * count, submit=True))
    return [event.job for event in events if isinstance(event, e.JobCreated)]


def test_the_same_request_makes_nothing_a_second_time_and_its_receipt_names_what_was_made() -> None:
    world = World(2)
    jobs = submit(world, ADA, count=3)
    with pytest.raises(WrongState, match="already been carried out"):
        submit(world, ADA, count=3)
    receipt = receipt_of(world.cluster, ADA, ONCE, world.clock.now())
    assert receipt is not None
    assert list(receipt.jobs) == jobs
    assert world.cluster.next_job == 4


def test_two_of_them_in_one_batch_make_it_once() -> None:
    world = World(2)
    command = CreateJobs(by=asking(ADA), specs=(SPEC,), submit=True)
    answers = world.engine.handle([command, command])
    assert [isinstance(answer, WrongState) for answer in answers] == [False, True]


def test_a_key_with_another_request_is_a_conflict_and_makes_nothing() -> None:
    world = World(2)
    submit(world, ADA)
    for other in (
        IdempotencyKey("key", b"another", "submit_job"),
        IdempotencyKey("key", b"request", "create_job"),
    ):
        with pytest.raises(BadRequest) as refused:
            submit(world, ADA, other)
        assert refused.value.code == "idempotency-conflict"
    assert world.cluster.next_job == 2


def test_keys_of_one_user_mean_nothing_to_others() -> None:
    world = World(2)
    assert submit(world, ADA) != submit(world, BOB)


def test_what_was_refused_may_be_asked_again_with_its_key() -> None:
    world = World(2)
    command = SubmitJob(by=asking(ADA), job=JobId(1))
    with pytest.raises(NotFound):
        world.do(command)
    world.do(CreateJob(by=ADA, spec=SPEC))
    world.do(command)
    receipt = receipt_of(world.cluster, ADA, ONCE, world.clock.now())
    assert receipt is not None
    assert receipt.jobs == (1,)


def test_keys_survive_a_restart_with_and_without_a_snapshot() -> None:
    world = World(2)
    submit(world, ADA)
    for kept in (False, True):
        if kept:
            world.engine.snapshot_if_due(at_least=1)
        again, _, _ = recover(world.journal)
        assert again.receipts == world.cluster.receipts != {}


def test_keys_are_forgotten_after_their_time() -> None:
    world = World(2)
    submit(world, ADA)
    world.clock.advance(Seconds(LIFETIME - 1.0))
    with pytest.raises(WrongState):
        submit(world, ADA)
    world.clock.advance(Seconds(2.0))
    assert submit(world, ADA) == [2]
    world.do(SetParameter(by=ROOT, name="IdempotencyLifetime", value="60"))
    submit(world, ADA, IdempotencyKey("short", b"r", "submit_job"))
    world.clock.advance(Seconds(61.0))
    assert submit(world, ADA, IdempotencyKey("short", b"r", "submit_job")) == [4]


def test_the_oldest_keys_of_a_user_with_too_many_go_first_and_only_his() -> None:
    cluster = ClusterState()
    for number in range(MAX_RECEIPTS + 5):
        keep_receipt(cluster, Receipt(1, f"key {number}", b"", "submit_job", Instant(100.0)), Instant(1.0))
    keep_receipt(cluster, Receipt(2, "key", b"", "submit_job", Instant(100.0)), Instant(1.0))
    assert len(cluster.receipts[1]) == MAX_RECEIPTS
    assert next(iter(cluster.receipts[1])) == "key 5"
    assert list(cluster.receipts[2]) == ["key"]


def test_tasks_are_added_once_and_the_receipt_says_which() -> None:
    world = World(1)
    job = world.submit(TASK, TASK, hold_until=Instant(world.clock.now() + 1000.0))
    once = IdempotencyKey("add", b"r", "add_tasks")
    more = JobSpec(tasks=(TASK,) * 5, hold_until=Instant(world.clock.now() + 1000.0))
    command = ModifyJob(by=asking(ROOT, once), job=job, spec=more, fields=("tasks",))
    world.do(command)
    with pytest.raises(WrongState, match="already been carried out"):
        world.do(command)
    receipt = receipt_of(world.cluster, ROOT, once, world.clock.now())
    assert receipt is not None
    assert (receipt.jobs, receipt.first_task, receipt.last_task) == ((job,), 3, 5)
