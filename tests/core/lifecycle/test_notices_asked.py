"""Who is told what of a job, and where it goes."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.lifecycle.events import JobEnded, JobStarted
from headnode.core.lifecycle.notices import addresses, is_hook, is_mail, may_ask, notice_of
from headnode.core.lifecycle.records import JobRecord, Run, encode_spec
from headnode.core.lifecycle.states import JobState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Priority

STARTED = JobStarted(at=Instant(20.0), job=JobId(7), allocation=(("a", (0, 1)), ("b", (3,))))
ENDED = JobEnded(at=Instant(30.0), job=JobId(7), outcome="failed", message="task 1 failed")


def record(spec: JobSpec) -> JobRecord:
    return JobRecord(
        id=JobId(7),
        owner="ann",
        uid=1,
        gid=1,
        spec=encode_spec(spec),
        state=JobState.FAILED,
        priority=Priority(2000),
        created=Instant(5.0),
        submitted=Instant(10.0),
        run=Run(tasks=[], started=Instant(20.0)),
    )


@pytest.mark.parametrize(("start", "end"), list(product((False, True), repeat=2)))
def test_only_what_was_asked_for_is_told(start: bool, end: bool) -> None:
    spec = JobSpec(notify_on_start=start, notify_on_completion=end)
    assert may_ask(encode_spec(spec)) == (start or end)
    told = [notice_of(1, event, record(spec), spec, "c") is not None for event in (STARTED, ENDED)]
    assert told == [start, end]


def test_a_notice_of_the_start_says_where_and_one_of_the_end_how() -> None:
    spec = JobSpec(name="n", project="p", notify_on_start=True, notify_on_completion=True)
    began, over = (notice_of(4, event, record(spec), spec, "c") for event in (STARTED, ENDED))
    assert began is not None
    assert over is not None
    assert (began.state, began.nodes, began.processors, began.at) == ("running", ("a", "b"), 3, 20.0)
    assert (over.state, over.message, over.submitted, over.started, over.at) == (
        "failed",
        "task 1 failed",
        10.0,
        20.0,
        30.0,
    )


def test_a_job_that_was_canceled_before_it_ran_has_no_start() -> None:
    spec = JobSpec(notify_on_completion=True)
    kept = record(spec)
    kept.run = None
    told = notice_of(1, ENDED, kept, spec, "c")
    assert told is not None
    assert told.started is None


@given(st.lists(st.sampled_from(["a@b.org", "https://x.org/y", "bob"])))
def test_addresses_are_read_as_they_were_joined(words: list[str]) -> None:
    assert list(addresses(", ".join(words))) == words
    assert list(addresses("; ".join(words))) == words


@pytest.mark.parametrize(
    "address", ["a@b.org", "first.last+tag@sub.example.org", "root@localhost", "o'neil@example.org"]
)
def test_an_address_of_mail_is_known(address: str) -> None:
    assert is_mail(address)


@pytest.mark.parametrize(
    "address", ["", "bob", "a@b@c", "a@b.org\nBcc: all@b.org", "a b@c.org", "@b.org", "<a@b.org>", "a@b.org,"]
)
def test_what_is_no_address_of_mail_is_none(address: str) -> None:
    assert not is_mail(address)


def test_only_hooks_that_begin_as_one_allowed_are_posted_to() -> None:
    allowed = ("https://chat.example.org/hooks/",)
    assert is_hook("https://chat.example.org/hooks/1", allowed)
    assert not is_hook("https://chat.example.org.evil.net/hooks/1", allowed)
    assert not is_hook("https://chat.example.org/hooks/1 HTTP/1.1\r\nHost: x", allowed)
    assert not is_hook("file:///etc/passwd", ("file:///",))
    assert not is_hook("https://chat.example.org/hooks/1", ())
