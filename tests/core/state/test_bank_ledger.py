"""What is due at a bank follows from the events: each run is charged or released once, for what it held."""

import pytest
from asked_filters import FilteredWorld
from worlds import ROOT, World

from headnode.core.filtering import ActivationVerdict
from headnode.core.model.errors import NotAllowed, WrongState
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.state.bank import AskBank, NoteBank, RefundRuns
from headnode.core.state.bank_ledger import BankEntry
from headnode.core.state.filters import ValidateJob
from headnode.core.state.hold import HoldJob
from headnode.core.state.modify import RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.stop import StopJob
from headnode.core.state.suspend import SuspendJob

TASK = TaskSpec(command="x", rerunnable=True)


class BankedWorld(FilteredWorld):
    """A world whose jobs are paid at a bank."""

    def __init__(self, *processors: int) -> None:
        super().__init__(*processors, everybody=False, Bank="bank.example.org")

    def queued(self, *tasks: TaskSpec, **options: object) -> JobId:
        """Return a job that was quoted and waits for its reservation."""
        job = self.submit(*tasks, **options)
        self.do(ValidateJob(by=ROOT, job=job, order=self.record(job).order))
        return job

    def started(self, *tasks: TaskSpec, **options: object) -> JobId:
        """Return a job that was reserved and runs."""
        job = self.queued(*tasks, **options)
        self.answer(job, ActivationVerdict.START)
        return job


def entry(world: World, job: JobId, run: int = 1) -> BankEntry:
    world.check_replay()
    return world.cluster.bank.entries[job, run]


def test_a_run_is_charged_for_the_processors_that_it_held_and_when() -> None:
    world = BankedWorld(4)
    job = world.started(TASK, TASK, minimum=1, maximum=2)
    world.wait(100)
    world.end(job, 1)  # gives one of its two processors back
    world.wait(50)
    world.end(job, 2)
    found = entry(world, job)
    assert (found.due, found.used, found.processors) == ("charge", 250.0, 2)
    assert found.banked().seconds == 125
    assert [*world.cluster.bank.due] == [(job, 1)]


def test_a_suspended_job_holds_nothing() -> None:
    world = BankedWorld(1)
    job = world.started(TASK, suspendable=True)
    world.wait(10)
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    world.wait(1000)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.end(job, 1, kind="stopped")
    assert entry(world, job).used == 10.0


def test_a_charge_is_due_until_the_bank_has_confirmed_it_once() -> None:
    world = BankedWorld(1)
    job = world.started(TASK)
    world.end(job, 1)
    for wrong in ("released", "refunded", "reserved"):
        assert world.do(NoteBank(job=job, run=1, step=wrong, amount=5)) == ()
    assert world.do(NoteBank(job=job, run=2, step="charged", amount=5)) == ()
    assert world.do(NoteBank(job=job, run=1, step="charged", amount=5)) != ()
    assert world.do(NoteBank(job=job, run=1, step="charged", amount=5)) == ()
    assert not world.cluster.bank.entries
    assert not world.cluster.bank.due
    world.check_replay()


def test_each_run_has_an_entry_of_its_own() -> None:
    world = BankedWorld(1)
    job = world.started(TASK)
    world.end(job, 1, exit_code=1)
    world.do(RequeueJob(by=ROOT, job=job, archived=world.record(job)))
    world.answer(job, ActivationVerdict.START)
    assert [*world.cluster.bank.entries] == [(job, 1), (job, 2)]
    assert entry(world, job, 2).stage == "running"


def test_a_run_that_a_lost_node_ends_is_released() -> None:
    world = BankedWorld(1)
    job = world.started(TASK)
    world.do(NodeVanished(node="node1"))
    world.do(GiveUpNode(node="node1"))
    assert entry(world, job).due == "release"


def test_a_reservation_of_a_job_that_never_starts_is_released() -> None:
    world = BankedWorld(1)
    job = world.queued(TASK)
    assert [event.step for event in world.do(AskBank(job=job))] == ["asked"]  # type: ignore[attr-defined]
    assert world.do(AskBank(job=job)) == ()
    world.do(NoteBank(job=job, run=1, step="reserved", amount=7_000_000))
    assert entry(world, job).reserved == 7_000_000
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    assert entry(world, job).due == "release"
    assert world.do(NoteBank(job=job, run=1, step="charged")) == ()
    world.do(NoteBank(job=job, run=1, step="released"))
    assert not world.cluster.bank.entries


def test_what_was_reserved_is_the_run_that_starts() -> None:
    world = BankedWorld(1)
    job = world.queued(TASK)
    world.do(AskBank(job=job))
    world.do(NoteBank(job=job, run=1, step="reserved", amount=1))
    world.answer(job, ActivationVerdict.START)
    assert entry(world, job).stage == "running"
    world.do(HoldJob(by=ROOT, job=world.queued(TASK), name="user"))
    world.end(job, 1)
    assert entry(world, job).due == "charge"


def test_without_a_bank_nothing_is_due() -> None:
    world = World(1)
    job = world.submit(TASK)
    world.end(job, 1)
    assert not world.cluster.bank.entries


def test_a_refund_is_for_administrators_and_of_charges() -> None:
    world = BankedWorld(1)
    job = world.started(TASK)
    world.end(job, 1)
    ask = RefundRuns(by=ROOT, job=job, owner="ada", runs=(1,))
    with pytest.raises(WrongState):
        world.do(ask)  # it is not charged yet
    world.do(NoteBank(job=job, run=1, step="charged", amount=5))
    with pytest.raises(NotAllowed):
        world.do(RefundRuns(by=User("ada", 1, 1), job=job, owner="ada", runs=(1,)))
    world.do(ask)
    assert entry(world, job).due == "refund"
    with pytest.raises(WrongState):
        world.do(ask)
    world.do(NoteBank(job=job, run=1, step="refunded", amount=5))
    assert not world.cluster.bank.entries


def tour_of_a_bank(world: BankedWorld) -> None:
    """Take each step of runs that are paid for: one that runs, and one that never does."""
    runs, waits = (world.queued(TASK) for _ in range(2))
    for job in (runs, waits):
        world.do(AskBank(job=job))
        world.do(NoteBank(job=job, run=1, step="reserved", amount=5_000_000))
    world.answer(runs, ActivationVerdict.START)
    world.do(StopJob(by=ROOT, job=waits, outcome="canceled"))
    world.do(NoteBank(job=waits, run=1, step="released"))
    world.end(runs, 1)
    world.do(NoteBank(job=runs, run=1, step="charged", amount=3_000_000))
    world.do(RefundRuns(by=ROOT, job=runs, owner="root", runs=(1,)))
    world.do(NoteBank(job=runs, run=1, step="refunded", amount=3_000_000))


def test_a_whole_life_leaves_nothing_due() -> None:
    world = BankedWorld(1)
    tour_of_a_bank(world)
    world.check_replay()
    assert not world.cluster.bank.entries
