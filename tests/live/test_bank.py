"""Jobs that are paid at a bank: reserved before they start, charged once, whatever is lost or killed."""

import getpass
import random
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import depth
from headnode.adapters.notify.bank import ask_bank
from headnode.apps.cli.screens.job import view as screen
from headnode.apps.server.bank_desk import BankDesk
from headnode.apps.server.filtering.filter_documents import FilterCaller
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bank import MILLION, BankAction, BankedRun, BankOrder, BankStep
from headnode.core.model.errors import BadRequest, NotAllowed, WrongState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.bank import bank_noted
from headnode.core.state.bank_ledger import BankEntry
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import BankNoted
from heads import RealHead, real_head
from testbed import gold_bank as gold
from testbed.bank_peer import BankPeer, bank_peer
from testbed.gold_bank import GoldBank, gold_bank

AnyBank = BankPeer | GoldBank
CLUSTER = socket.gethostname().partition(".")[0]


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[AnyBank]:
    """The bank of the tests; Gold's own server if `HEADNODE_TEST_GOLD` says where it is installed."""
    made: AbstractContextManager[AnyBank] = (
        gold_bank(tmp_path / "bank")
        if gold.WHERE
        else bank_peer(tmp_path / "bank", physics=100_000, poor=10, scarce=1500)
    )
    with made as found:
        yield found


@pytest.fixture
def head(tmp_path: Path, bank: AnyBank) -> Iterator[RealHead]:
    with real_head(tmp_path / "head", processors=4) as found:
        found.ask("set_parameters", values={**bank.parameters, "ActivationFilterInterval": "1"})
        yield found


def submitted(head: RealHead, command: str, project: str = "physics", **terms: str) -> int:
    return head.submit(command, terms={"runtime": "0:10", "projectname": project, **terms})


def named(job: int, run: int = 1) -> str:
    """Return the name of a run at the bank; the cluster has the name of this machine."""
    return f"{CLUSTER}-{job}-{run}"


def view(head: RealHead, job: int) -> dict[str, Any]:
    found: dict[str, Any] = head.ask("job", job=job)["job"]
    return found


def reasons(head: RealHead, job: int) -> str:
    """Return why a job waits, as `hn job explain` tells it."""
    return str(head.ask("explain_job", job=job))


def settled(head: RealHead, bank: AnyBank, timeout: float = 60.0) -> None:
    """Wait until the bank was told of all runs: each was charged once, and the balance is exact."""
    deadline = time.monotonic() + timeout
    while left := [job["id"] for job in head.ask("jobs")["jobs"] if view(head, job["id"])["bank"]["due"]]:
        assert time.monotonic() < deadline, (left, head.log())
        time.sleep(0.1)
    charges = bank.requests("Charge")
    assert {len(each) for each in charges.values()} == {1}, charges
    assert bank.amount("physics") == 100_000 - sum(map(sum, charges.values()))


def test_a_job_is_quoted_reserved_and_charged_for_what_it_used(
    head: RealHead, bank: AnyBank, tmp_path: Path
) -> None:
    go_on, began = tmp_path / "go on", time.monotonic()
    job = submitted(head, f"until test -e '{go_on}'; do sleep 0.1; done", numprocessors="2")
    head.wait_for(job, "Running")
    assert bank.reserved() == {named(job): 2 * 600}
    assert view(head, job)["bank"]["reserved"] == 1200.0
    runs = time.monotonic()
    head.until(lambda: time.monotonic() > runs + 2)
    go_on.touch()
    head.wait(job)
    head.until(lambda: bank.requests("Charge"))
    (charged,) = bank.requests("Charge")[named(job)]
    assert 2 <= charged <= 2 * (time.monotonic() - began + 1)
    assert bank.reserved() == {}
    assert bank.amount("physics") == 100_000 - charged
    head.until(lambda: view(head, job)["bank"]["charged"] == float(charged))
    shown = screen(view(head, job))
    assert (shown["Account"], shown["Reserved"], shown["Charged"]) == ("physics", "1200", str(charged))
    assert [*bank.requests("Quote")] == [*bank.requests("Reserve")] == [named(job)]
    assert "Charged" in str(head.ask("job_history", job=job))


def test_a_job_that_its_project_cannot_pay_is_refused_at_submission(head: RealHead, bank: AnyBank) -> None:
    with pytest.raises(NotAllowed, match="Insufficient balance"):
        submitted(head, "true", "poor")
    with pytest.raises(NotAllowed, match="has none"):
        submitted(head, "true", runtime="infinite")
    assert bank.requests("Reserve") == {}


def test_a_job_is_held_with_the_reason_when_the_bank_does_not_reserve(head: RealHead, bank: AnyBank) -> None:
    bank.misbehave(deaf=1)  # the job is accepted without a quote
    waiting = submitted(head, "true", "scarce")
    bank.leave("scarce", 100)
    bank.misbehave()
    head.until(lambda: "Insufficient balance" in reasons(head, waiting))
    assert view(head, waiting)["state"] == "Queued"
    assert "it is held until" in reasons(head, waiting)


def test_jobs_wait_for_a_bank_that_is_away_and_are_charged_once(head: RealHead, bank: AnyBank) -> None:
    bank.kill()
    job = submitted(head, "true")
    head.until(
        lambda: "the bank declined" in reasons(head, job) and "cannot be reached" in reasons(head, job)
    )
    bank.start()
    head.wait(job)
    head.until(lambda: named(job) in bank.requests("Charge"))
    settled(head, bank)


def test_jobs_go_on_without_a_bank_and_are_charged_later(head: RealHead, bank: AnyBank) -> None:
    head.ask("set_parameters", values={"BankAway": "Continue"})
    bank.kill()
    job = submitted(head, "true")
    head.wait(job)
    head.until(lambda: "cannot be reached" in view(head, job)["bank"]["due"])
    bank.start()
    settled(head, bank)
    assert [*bank.requests("Charge")] == [named(job)]
    assert bank.requests("Reserve") == {}


def test_a_lost_answer_charges_nothing_twice(head: RealHead, bank: AnyBank) -> None:
    job = submitted(head, "sleep 1")
    head.wait_for(job, "Running")
    bank.misbehave(mute=1)
    head.wait(job)
    head.until(lambda: bank.requests("Charge"))
    head.until(lambda: view(head, job)["bank"]["due"].startswith("charge: "))
    bank.misbehave()
    settled(head, bank)
    assert bank.requests("Query") == {named(job): [1]}


LIES = {
    "another job": {"<Data>": "<Data><Job><JobId>7777-1</JobId></Job>"},
    "less than nothing": {"<Amount>": "<Amount>-"},
    "no number": {"<Amount>[0-9]+": "<Amount>1e9"},
    "more than there is": {"<Amount>": "<Amount>9999999999999999999"},
    "two amounts": {"<Amount>": "<Charge>77</Charge><Amount>"},
    "another message": {"<Response ": '<Response id="other" '},
    "no XML": {"<Response ": "<<Response "},
    "entities": {"<Envelope>": '<!DOCTYPE x [<!ENTITY a "b">]><Envelope>'},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_bank_that_lies_is_not_believed(head: RealHead, bank: AnyBank, lie: str) -> None:
    bank.misbehave(lies=LIES[lie])
    job = submitted(head, "sleep 1")
    head.until(lambda: "the bank declined" in reasons(head, job))
    assert view(head, job)["bank"]["reserved"] is None
    bank.misbehave()
    head.wait(job)
    settled(head, bank)


def test_a_bank_that_lies_of_a_charge_is_asked_again(head: RealHead, bank: AnyBank) -> None:
    job = submitted(head, "sleep 1")
    head.wait_for(job, "Running")
    bank.misbehave(lies={"<Amount>": "<Amount>-", "<JobId>": "<JobId>8"})
    head.wait(job)
    head.until(lambda: bank.requests("Query"))
    head.until(lambda: "another job" in view(head, job)["bank"]["due"])
    assert view(head, job)["bank"]["charged"] is None
    bank.misbehave()
    settled(head, bank)


def test_a_bank_with_an_endless_answer_stops_nothing(head: RealHead, bank: AnyBank) -> None:
    bank.misbehave(huge=8 * 1024 * 1024)
    job = submitted(head, "true")
    head.until(lambda: "larger than" in reasons(head, job))
    bank.misbehave()
    head.wait(job)
    settled(head, bank)


def test_a_slow_bank_keeps_nobody_else_waiting(head: RealHead, bank: AnyBank) -> None:
    runs = submitted(head, "sleep 60")
    head.wait_for(runs, "Running")
    bank.misbehave(slow=3)
    head.ask("set_parameters", values={"SubmissionFilterTimeout": "1", "ActivationFilterTimeout": "1"})
    submitted(head, "true")
    began = time.monotonic()
    for _ in range(20):
        head.ask("jobs")
    head.ask("cancel_job", job=runs)
    assert time.monotonic() - began < 3
    head.ask("set_parameters", values={"SubmissionFilterTimeout": None, "ActivationFilterTimeout": None})


def test_a_job_that_is_canceled_while_the_bank_reserves_leaves_no_reservation(
    head: RealHead, bank: AnyBank
) -> None:
    job = submitted(head, "sleep 60")
    head.wait_for(job, "Running")
    bank.misbehave(slow=bank.look)
    other = submitted(head, "sleep 60")
    head.until(lambda: named(other) in bank.requests("Reserve"))
    head.ask("cancel_job", job=other)
    bank.misbehave()
    head.until(lambda: named(other) not in bank.reserved())
    assert named(other) not in bank.requests("Charge")


def test_a_reservation_of_which_the_head_has_no_answer_is_released(head: RealHead, bank: AnyBank) -> None:
    bank.misbehave(slow=2)
    job = submitted(head, "sleep 60")
    head.until(lambda: named(job) in bank.reserved())
    head.kill()  # before the answer
    bank.kill()
    bank.misbehave()
    head.start_again()
    head.until(lambda: "the bank declined" in reasons(head, job))  # so no message is on its way
    head.ask("cancel_job", job=job)
    bank.start()
    head.until(lambda: bank.reserved() == {})
    assert bank.requests("Charge") == {}


def test_each_run_is_charged_by_itself_and_all_are_refunded(head: RealHead, bank: AnyBank) -> None:
    job = head.submit(
        "sleep 1; false", terms={"runtime": "0:10", "projectname": "physics"}, rerunnable="true"
    )
    head.wait(job)
    head.until(lambda: named(job) in bank.requests("Charge"))
    head.ask("requeue_job", job=job)
    head.wait(job)
    settled(head, bank)
    charged = bank.requests("Charge")
    assert charged.keys() == {named(job), named(job, 2)}
    assert view(head, job)["bank"]["charged"] == sum(map(sum, charged.values()))
    bank.misbehave(mute=0.7)
    asked = head.ask("refund_job", job=job)
    assert asked["amount"] == sum(map(sum, charged.values()))
    head.until(lambda: len(bank.requests("Refund")) == 2)
    bank.misbehave()
    head.until(lambda: view(head, job)["bank"]["charged"] == 0)
    assert bank.amount("physics") == 100_000
    assert {len(each) for each in bank.requests("Refund").values()} == {1}
    with pytest.raises(WrongState):
        head.ask("refund_job", job=job)


def test_two_clusters_with_jobs_of_the_same_number_have_one_bank(bank: AnyBank) -> None:
    run = BankedRun(
        job=5, run=1, owner=getpass.getuser(), project="physics", processors=1, seconds=100,
        started=Instant(1.7e9), ended=Instant(1.7e9 + 100),
    )  # fmt: skip

    def reported(machine: str, action: BankAction, *, first: bool = True) -> tuple[str, int]:
        key, server = str(bank.key_file), f"127.0.0.1:{bank.port}"
        reply = ask_bank(BankOrder(1, server, key, "headnode", machine, action, run, first))
        return reply.outcome, reply.amount // MILLION

    for machine in ("n1", "n2"):
        assert reported(machine, "reserve") == ("done", 100)
    assert sorted(bank.reserved().values()) == [100, 100]
    for machine in ("n1", "n2"):
        assert reported(machine, "charge") == reported(machine, "charge", first=False) == ("done", 100)
    assert (bank.reserved(), bank.amount("physics")) == ({}, 99_800)
    for machine in ("n1", "n2"):
        assert reported(machine, "refund") == ("done", 100)
    assert bank.amount("physics") == 100_000


def test_a_job_that_a_lost_node_ends_is_not_charged(head: RealHead, bank: AnyBank) -> None:
    job = submitted(head, "sleep 60")
    head.wait_for(job, "Running")
    node = head.ask("nodes")["nodes"][0]["name"]
    head.ask("drain_node", node=node, force=True)
    head.until(lambda: bank.reserved() == {})
    assert bank.requests("Charge") == {}
    head.ask("cancel_job", job=job)


def test_a_key_that_others_can_read_is_refused(head: RealHead, bank: AnyBank) -> None:
    bank.key_file.chmod(0o644)
    with pytest.raises(BadRequest):
        head.ask("set_parameters", values={"BankKeyFile": str(bank.key_file)})
    job = submitted(head, "true")
    head.until(lambda: "can be read by others" in reasons(head, job))
    bank.key_file.chmod(0o600)
    head.wait(job)


def test_no_charge_is_lost_or_doubled_by_kills_and_lost_answers(head: RealHead, bank: AnyBank) -> None:
    """The head and the bank are killed at random, and a third of messages and answers is lost."""
    dice, jobs = random.Random(7), list[int]()
    bank.misbehave(deaf=0.15, mute=0.2)
    head.ask("set_parameters", values={"BankAway": "Continue", "ActivationFilterTimeout": "2"})
    for round_ in range(depth.share_of(24)):
        for _ in range(3):
            jobs.append(submitted(head, f"sleep 0.{dice.randrange(9)}"))
        time.sleep(dice.random())
        if round_ % 2:
            head.kill()
            time.sleep(0.3 * dice.random())
            head.start_again()
        else:
            bank.kill()
            time.sleep(0.5 * dice.random())
            bank.start()
    for job in jobs:
        head.wait(job)
    bank.misbehave()
    settled(head, bank, timeout=120)
    runs = {named(job, run) for job in jobs for run in range(1, view(head, job)["starts"] + 1)}
    assert bank.requests("Charge").keys() <= runs
    assert {named(job, view(head, job)["starts"]) for job in jobs} <= bank.requests("Charge").keys()
    assert bank.reserved() == {}


def test_a_refund_in_the_instant_of_the_confirmed_charge_is_new(tmp_path: Path) -> None:
    cluster, key = ClusterState(), (JobId(7), 1)
    desk = BankDesk(cast(ServerContext, SimpleNamespace(cluster=cluster)), FilterCaller(tmp_path, "c"))
    cluster.bank.entries[key] = BankEntry(*key, "ann")
    cluster.bank.settle(key, "charge")
    desk.perform((), cluster)
    assert desk.is_first_notice(key)
    assert not desk.is_first_notice(key)
    steps: tuple[BankStep, ...] = ("charged", "refund")
    for step in steps:
        event = BankNoted(at=Instant(0.0), job=key[0], run=1, step=step, owner="ann")
        bank_noted(cluster, event)
        desk.perform((event,), cluster)
    desk.perform((), cluster)
    assert desk.is_first_notice(key)  # else the bank is asked in vain whether it has refunded the run
    desk.perform((), cluster)
    assert not desk.is_first_notice(key)  # else a refund whose answer was lost is sent twice
