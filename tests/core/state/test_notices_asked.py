"""Who is told what of a job, and where it goes."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Priority
from headnode.core.state.job_events import JobEnded, JobStarted
from headnode.core.state.job_record import JobRecord, JobRun, encode_spec
from headnode.core.state.notices import addresses, is_hook, is_mail, may_ask, notice_of
from headnode.core.state.transitions import JobState
from headnode.engine.settings import check_parameter

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
        run=JobRun(tasks=[], started=Instant(20.0)),
    )


@pytest.mark.parametrize(("start", "end"), list(product((False, True), repeat=2)))
def test_only_what_was_asked_for_is_told(start: bool, end: bool) -> None:
    spec = JobSpec(notify_on_start=start, notify_on_completion=end)
    assert may_ask(encode_spec(spec)) == (start or end)
    found = [notice_of(1, event, record(spec), spec, "c") is not None for event in (STARTED, ENDED)]
    assert found == [start, end]


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
    found = notice_of(1, ENDED, kept, spec, "c")
    assert found is not None
    assert found.started is None


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


ALLOWED = ("https://chat.example.org/hooks/", "http://10.0.0.1:8080/exact")
HOST = "https://chat.example.org"


@pytest.mark.parametrize(
    "address",
    [
        f"{HOST}/hooks/T1/B2?token=a%2Fb&up=../..",
        f"{HOST}/hooks/T%20one/",
        "HTTPS://Chat.Example.ORG:443/hooks/T1",
        "https://chat.example.org./hooks/T1",
        "http://10.0.0.1:8080/exact",
        "http://10.0.0.1:8080/exact?room=1",
        "http://10.0.0.1:8080/exact/below",
    ],
)
def test_a_hook_that_is_allowed_or_below_one_is_posted_to_however_it_is_spelled(address: str) -> None:
    assert is_hook(address, ALLOWED)


@pytest.mark.parametrize(
    "address",
    [
        *(
            f"{HOST}/hooks/{path}"
            for path in (
                "../secret", "..", "./../secret", "a/../../secret", "%2e%2e/secret", "%2E./secret",
                ".%2e/secret",
                "..%2fsecret", "%252e%252e/secret", "..;/secret", "..;a=b/secret", "..\\secret",
                "%5c..%5csecret",
                "a%00", "a%0d%0aHost:x", "a%zz", "a%2", "a#b", "ä", "a b",
            )
        ),
        f"{HOST}/hooks",
        f"{HOST}/Hooks/T1",
        f"{HOST}:8443/hooks/T1",
        "http://chat.example.org/hooks/T1",
        "https://chat.example.org@evil.net/hooks/T1",
        "https://evil.net\\@chat.example.org/hooks/T1",
        "https://evil.net/https://chat.example.org/hooks/T1",
        "https://evil.net#@chat.example.org/hooks/T1",
        "https://evil.net?@chat.example.org/hooks/T1",
        "https://chat.example.org:443:80/hooks/T1",
        "https://chat.example.org:0/hooks/T1",
        "https://chat.example.org.evil.net/hooks/T1",
        "https:///hooks/T1",
        "https:chat.example.org/hooks/T1",
        "//chat.example.org/hooks/T1",
        "http://10.0.0.1:8080/exactly",
        "http://167772161:8080/exact",
        "",
    ],
)  # fmt: skip
def test_an_address_that_a_server_may_understand_as_another_is_no_hook(address: str) -> None:
    assert not is_hook(address, ALLOWED)


@pytest.mark.parametrize(
    "value",
    [
        f"{HOST}/a/../b/",
        f"{HOST}/%2e%2e/",
        "https://me@chat.example.org/",
        HOST,
        f"{HOST}/a?b",
        "ftp://x/",
        "x",
    ],
)
def test_hooks_that_could_be_understood_in_two_ways_cannot_be_allowed(value: str) -> None:
    with pytest.raises(BadRequest, match="NotificationWebhooks cannot be"):
        check_parameter("NotificationWebhooks", f"{HOST}/hooks/, {value}")
