"""Journals of lived clusters as text: every kind of event, a snapshot, and the state that follows from them.

`python -m documents.released_journals VERSION` writes `tests/golden/journals/VERSION` once: for each life a
dump of the database, and the state in JSON.  They are never written again.
"""

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from headnode.adapters.journal.journal_file import VERSION
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.task import RecurringOrigin, TaskSpec
from headnode.core.model.template import JobTemplate, encode_template
from headnode.core.model.user import Receipt
from headnode.core.state import events as e
from headnode.core.state import job_events as j
from headnode.core.state import recurring_record as rc
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import encode_spec
from headnode.core.state.modify import RequeueJob
from headnode.core.state.recurring_record import RecurringJob
from headnode.core.state.stop import StopJob
from headnode.engine.recovery import recover, save

JOURNALS = Path(__file__).parents[1] / "golden" / "journals"


def lives() -> Iterator[tuple[str, list[e.Event]]]:
    """Yield the events of some clusters: of random histories, and of what administrators do."""
    import test_histories as histories
    from test_bank_ledger import BankedWorld, tour_of_a_bank

    for name, player in (
        ("suspended", histories.Player(5)),
        ("held", histories.Player(1)),
        ("requeued", histories.Player(10)),
        ("preempted", histories.Preempting(13)),
        ("reached", histories.Preempting(3)),
        ("hooked", histories.Hooked(0)),
    ):
        for _ in range(150):
            player.step()
        yield name, [event for _, event in player.world.journal.replay(0)]
    for name, world, tour in (
        ("node", histories.World(1), histories.tour_of_a_node),
        ("graceful", histories.World(1), histories.tour_of_a_graceful_stop),
        ("filtered", histories.FilteredWorld(4), histories.tour_of_filters),
        ("staged", histories.World(1), histories.tour_of_transfers),
        ("detached", histories.World(1), histories.tour_of_detached),
    ):
        tour(world)
        yield name, [event for _, event in world.journal.replay(0)]
    there = histories.World(1)
    histories.tour_of_a_resource(there)
    yield "handed", [event for _, event in there.journal.replay(0)]
    chosen = histories.World(1)
    histories.tour_of_a_choice(chosen)
    yield "chosen", [event for _, event in chosen.journal.replay(0)]
    paid = BankedWorld(1)
    tour_of_a_bank(paid)
    yield "paid", [event for _, event in paid.journal.replay(0)]
    elastic = histories.World(1)
    histories.tour_of_an_elastic_pool(elastic)
    yield "elastic", [event for _, event in elastic.journal.replay(0)]
    yield "canceled", canceled_events()
    yield "site", list(site_events())


def canceled_events() -> list[e.Event]:
    """Return the life of jobs that are canceled: one that runs, one that waits, and one that comes back."""
    import test_histories as histories

    world, task = histories.World(1), TaskSpec(command="x")
    jobs = [world.submit(task, task, task) for _ in range(3)]
    for job in jobs:
        world.do(StopJob(by=histories.ROOT, job=job, outcome="canceled"))
    world.end(jobs[0], 1, kind="stopped")
    world.do(RequeueJob(by=histories.ROOT, job=jobs[2], archived=world.record(jobs[2])))
    return [event for _, event in world.journal.replay(0)]


def site_events() -> Iterator[e.Event]:
    """Yield what administrators and users do beside jobs, and what becomes of it."""
    at, later = Instant(1_000_000.0), Instant(2_000_000.0)
    receipt = Receipt(uid=1, key="k", digest=b"d" * 16, verb="submit_job", expires=later, jobs=(1,))
    mine = NodeReservation(name="mine", start=at, end=later, nodes=("n1",), users=("ada",))
    other = NodeReservation(name="other", start=at, end=later, count=1, projects=("p",), automatic=True)
    yield e.NodeInvited(at=at, digest="i", expires=later, approve=True, name="n1", by="root")
    yield e.NodeRegistered(at=at, facts=NodeFacts(name="n1", processors=2, memory=1024), approved=True)
    yield e.NodeKeyPinned(at=at, node="n1", key="key", invitation="i")
    yield e.NodeModified(at=at, node="n1", groups=("g",), features=("f",), comment="c", by="root")
    yield e.LoginOffered(at=at, digest="l", user="ada", expires=later, lifetime=Seconds(60.0), by="ada")
    for number, digest in ((1, "t"), (2, "u")):
        yield e.TokenCreated(
            at=at, number=number, digest=digest, user="ada", expires=later, login="l", address="192.0.2.1"
        )
    yield e.TokenUsed(at=at, digest="t", address="192.0.2.2")
    yield e.TokenRevoked(at=at, digest="u", by="ada")
    yield e.ParameterSet(at=at, name="SchedulingPolicy", value="easy", by="root", origin="pid 1")
    yield e.UserGroupsSet(at=at, groups={"ada": ("staff", "students"), "bob": ()})
    yield j.JobCreated(at=at, job=JobId(1), owner="ada", uid=1, gid=1, spec=encode_spec(JobSpec(name="a")))
    yield j.JobOwnerChanged(at=at, job=JobId(1), owner="bob", uid=2, gid=2, by="root")
    yield e.RequestCarriedOut(at=at, receipt=receipt)
    yield e.JobsPurged(at=at, jobs=(JobId(400), JobId(401)))
    yield e.JobIdsSkipped(at=at, next_job=500, by="hn restore")
    yield e.NodeInvited(at=at, digest="s", expires=later, name="head2", by="root", standby=True)
    for number, name in enumerate(("head2", "head3"), 2):
        address = f"192.0.2.{number}:5817"
        yield e.StandbyAdmitted(
            at=at, name=name, address=address, invitation="s", takeover_after=Seconds(60.0)
        )
    yield e.StandbyRemoved(at=at, name="head3", by="root")
    yield e.HeadTakenOver(at=at, name="head2", address="192.0.2.2:5817", term=1, by="root", forced=True)
    for one in (mine, other):
        yield e.ReservationCreated(at=at, reservation=one, by="root")
    yield e.ReservationModified(
        at=at, reservation=msgspec.structs.replace(mine, reason="r"), by="root", changed="reason"
    )
    yield e.ReservationEnded(at=at, name="other")
    for name in ("short", "long"):
        yield e.TemplateSet(at=at, template=encode_template(JobTemplate(name=name)), by="root")
    yield e.TemplateRemoved(at=at, name="long", by="root")
    yield e.ReservationCreated(at=at, reservation=msgspec.structs.replace(other, name="third"), by="root")
    yield e.ReservationCanceled(at=at, name="third", by="root")
    yield from recurring_events()
    yield e.ClockSet(at=at, seconds=Seconds(3.0))


def recurring_events() -> Iterator[e.Event]:
    """Yield the life of recurring jobs and of a table."""
    at = Instant(1_000_000.0)
    kept = RecurringJob(
        number=1, name="nightly", owner="ada", uid=1, gid=1, spec=encode_spec(JobSpec(name="a")),
        schedule="0 4 * * *", zone="Europe/Berlin", created=at, anchor=at, overlap="wait", end=Instant(2e9),
    )  # fmt: skip
    origin = RecurringOrigin(1, "nightly", at)
    yield rc.RecurringJobSet(at=at, recurring=kept, by="ada")
    yield rc.RecurringTableSet(at=at, owner="ada", text="0 4 * * * true", by="root")
    entry = msgspec.structs.replace(kept, number=2, name="entry", table=True)
    yield rc.RecurringJobSet(at=at, recurring=entry, by="root", changed="table")
    yield j.JobCreated(at=at, job=JobId(600), owner="ada", uid=1, gid=1, spec=kept.spec, recurring=origin)
    yield rc.RecurringJobRan(at=at, number=1, time=at, job=JobId(600))
    yield rc.RecurringTimeSkipped(at=at, number=1, time=Instant(at + 1), cause="waiting", reason="job 600")
    yield rc.RecurringJobSet(at=at, recurring=msgspec.structs.replace(entry, number=3, name="gone"))
    yield rc.RecurringJobRemoved(at=at, number=3, by="ada")


def state_of(cluster: ClusterState) -> bytes:
    """Return a state in JSON, to read and to compare."""
    return msgspec.json.format(msgspec.json.encode(cluster.snapshot()), indent=1)


def dump(path: Path) -> str:
    """Return a database as the statements that make it."""
    database = sqlite3.connect(path)
    try:
        return "\n".join([f"pragma user_version = {VERSION};", *database.iterdump(), ""])
    finally:
        database.close()


def rebuild(statements: Path, path: Path) -> Path:
    """Make the database that a dump is of."""
    database = sqlite3.connect(path)
    try:
        database.executescript(statements.read_text())
    finally:
        database.close()
    return path


def write_life(folder: Path, name: str, events: list[e.Event]) -> None:
    """Write the journal of a life, with a snapshot in its middle, and the state at its end."""
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "journal.db"
        journal = SqliteJournal(path)
        half = len(events) // 2
        journal.append(events[:half])
        cluster, number, _ = recover(journal)
        journal.keep_snapshot(number, save(cluster))
        journal.append(events[half:])
        cluster, _, _ = recover(journal)
        journal.close()
        (folder / f"{name}.sql").write_text(dump(path))
        (folder / f"{name}.json").write_bytes(state_of(cluster) + b"\n")


def main(version: str) -> int:
    """Write the journals of a release, if it has none yet."""
    folder = JOURNALS / version
    if folder.exists():
        return 0
    folder.mkdir(parents=True)
    for name, events in lives():
        write_life(folder, name, events)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
