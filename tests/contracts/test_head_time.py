"""What a node says of its tasks has times of the head's clock, also where its own is another."""

import time

import pytest

from headnode.adapters.wire.agent_messages import (
    AttemptResult,
    AttemptStart,
    AttemptTransfers,
    ReportedAttempt,
    Results,
    Staging,
    Started,
    Table,
)
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent.head_time import HeadTime
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId

HOUR = 3600.0


def messages(at: float | None) -> list[FromAgent]:
    """Return one message of each kind that has times, with this one everywhere."""
    here = None if at is None else Instant(at)
    known = Instant(at or 0.0)
    return [
        Started(job=JobId(1), started=(AttemptStart(1, 1, 1, known),)),
        Staging(job=JobId(1), transfers=(AttemptTransfers(1, 1, 1, "in", known),)),
        Results(number=1, job=JobId(1), results=(AttemptResult(1, 1, 1, outcome(here)),)),
        Table(number=1, live=(ReportedAttempt(JobId(1), 1, 1, 1, True, here),)),
    ]


def outcome(at: Instant | None) -> AttemptOutcome:
    return AttemptOutcome("exited", exit_code=0, started=at, ended=at)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_every_time_in_a_message_is_on_the_clock_of_the_head(
    monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    now, head = time.time(), HeadTime()
    monkeypatch.setattr(time, "clock_gettime", lambda _: 1000.0)
    monkeypatch.setattr(time, "time", lambda: now)
    head.learn(Instant(now + ahead))
    assert [head.in_message(found) for found in messages(512.0)] == messages(512.0 + ahead)
    assert head.in_message(messages(None)[2]) == messages(None)[2]
    assert head.in_message(messages(None)[3]) == messages(None)[3]


def test_before_the_head_has_said_its_time_and_for_a_second_nothing_is_changed() -> None:
    head = HeadTime()
    assert [head.in_message(found) for found in messages(512.0)] == messages(512.0)
    head.learn(Instant(time.time() + 1))
    assert [head.in_message(found) for found in messages(512.0)] == messages(512.0)
