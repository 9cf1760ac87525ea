"""A site that is slow, hangs, lies or has a huge queue: what is believed, and how often it is asked."""

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from headnode.adapters.batch import site_poller
from headnode.adapters.batch.site_poller import SitePoller, bounded
from headnode.apps.server.api.site import may_see
from headnode.core.batch.dialect import ForeignState
from headnode.core.batch.site import MAX_JOBS, SiteFacts, SiteJob, SiteSnapshot
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.user import User

TIMEOUT = 120.0  # seconds
Sites = Callable[..., "queue.Queue[SiteSnapshot]"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sites]:
    made: list[SitePoller] = []

    def begin(squeue: str, sinfo: str = "exit 0", poll: float = 1.0) -> "queue.Queue[SiteSnapshot]":
        for name, text in (("squeue", squeue), ("sinfo", sinfo), ("scontrol", "exit 1"), ("sacct", "exit 1")):
            path = tmp_path / name
            path.write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/asked\n{text}\n")
            path.chmod(0o755)
        resource = BatchResource(
            name="s", system=ResourceSystem.SLURM, mark="0a1b2c3d", programs=str(tmp_path),
            poll=Seconds(poll), overlay=True,
        )  # fmt: skip
        found: queue.Queue[SiteSnapshot] = queue.Queue()
        made.append(SitePoller(resource, found.put))
        return found

    yield begin
    for each in made:
        each.end()


def rows(text: str) -> str:
    """Return a squeue that prints rows: its last argument is the format, which begins with the word."""
    return (
        'for last; do :; done\nword=$(printf %s "$last" | cut -d "$(printf \'\\037\')" -f 1)\n'
        f'exec awk -v w="$word" \'BEGIN {{ s = sprintf("%c", 31); {text} }}\''
    )


ROW = (
    'print w s {id} s "ada" s "RUNNING" s "None" s 9 s "batch" s 1 s 2 s "N/A" s "5:00" s 4 s 1 s 0 s "OK" '
    's "n1" s "" s "" s "{name}"'
)


def test_what_it_says_is_reported(site: Sites) -> None:
    found = site(rows(ROW.replace("{id}", "7").replace("{name}", "fit"))).get(timeout=TIMEOUT)
    assert [(job.id, job.user, job.name) for job in found.jobs] == [("7", "ada", "fit")]
    assert found.problem == ""


def test_a_huge_queue_is_cut(site: Sites) -> None:
    many = "for (n = 1; n <= 100000; n++) " + ROW.replace("{id}", "n").replace("{name}", "x" * 60)
    found = site(rows(many)).get(timeout=TIMEOUT)
    assert len(found.jobs) == MAX_JOBS
    assert found.left_out == 100_000 - MAX_JOBS


def test_an_answer_without_end_is_none(site: Sites) -> None:
    found = site("exec yes").get(timeout=TIMEOUT)
    assert found.jobs == ()
    assert found.problem.startswith("squeue:")


def test_a_command_that_hangs_is_killed(site: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_poller, "MAX_COMMAND", 1.0)
    found = site("exec sleep 600").get(timeout=TIMEOUT)
    assert "no answer in time" in found.problem
    assert found.poll_time < TIMEOUT


def test_what_was_known_stays_while_it_does_not_answer(site: Sites, tmp_path: Path) -> None:
    one = rows(ROW.replace("{id}", "7").replace("{name}", "fit"))
    message = site(f"[ -e {tmp_path}/away ] && {{ echo 'error: away' >&2; exit 1; }}\n{one}", poll=0.2)
    first = message.get(timeout=TIMEOUT)
    (tmp_path / "away").touch()
    later = message.get(timeout=TIMEOUT)
    while not later.problem:
        later = message.get(timeout=TIMEOUT)
    assert (later.jobs, later.problem) == (first.jobs, "squeue: error: away")
    assert later.at >= first.at


def test_one_poll_serves_all_and_a_site_that_fails_is_asked_less(site: Sites, tmp_path: Path) -> None:
    found = site("exit 1", poll=0.2)
    began = time.monotonic()
    for _ in range(4):
        found.get(timeout=TIMEOUT)
    assert time.monotonic() - began > 0.2 * (2 + 4 + 8)
    asked = (tmp_path / "asked").read_text().split()
    assert asked.count("squeue") == 4
    assert asked.count("scontrol") == 1


def test_a_slow_site_rests_five_times_as_long(
    site: Sites,
) -> None:
    found = site("sleep 0.3", poll=0.01)
    found.get(timeout=TIMEOUT)
    began = time.monotonic()
    found.get(timeout=TIMEOUT)
    assert time.monotonic() - began > 5 * 0.3


def test_jobs_that_the_site_hides_are_shown_to_their_users_and_administrators_only() -> None:
    job = SiteJob("1", "ada", "fit", ForeignState.WAITING, "PENDING")
    ada, bob = (User(name, number, number) for number, name in ((1001, "ada"), (1002, "bob")))
    hides = SiteSnapshot("s", Instant(0), SiteFacts(hides_jobs=True))
    shows = SiteSnapshot("s", Instant(0), SiteFacts())
    admin = replace(bob, administrator=True)
    assert [may_see(hides, user, job) for user in (ada, bob, admin)] == [True, False, True]
    assert [may_see(shows, user, job) for user in (ada, bob, admin)] == [True, True, True]


def test_one_message_holds_it_whatever_it_says() -> None:
    job = SiteJob("1", "u" * 64, "\u4e00" * 64, ForeignState.WAITING, "PENDING", partitions=("p" * 64,) * 16)
    small = bounded(SiteSnapshot("s", Instant(0), SiteFacts(), (job,) * MAX_JOBS))
    assert 0 < len(small.jobs) < MAX_JOBS
    assert len(small.jobs) + small.left_out == MAX_JOBS
