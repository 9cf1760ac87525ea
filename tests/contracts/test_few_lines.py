"""Others fill no log: of lines of one kind some are written, and how many were not."""

import logging

import pytest

from headnode.adapters.nodes import entrance
from headnode.adapters.nodes.entrance import LogRateLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(entrance.time, "monotonic", found)
    return found


def written(lines: LogRateLimit, text: str, argument: int) -> str | None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, text, (argument,), None)
    return record.getMessage() if lines.filter(record) else None


def test_lines_of_one_kind_are_counted_once_there_are_many_and_others_pass(clock: Clock) -> None:
    lines = LogRateLimit(most=3, window=60.0)
    found = [written(lines, "stranger %d", number) for number in range(10)]
    assert [line is not None for line in found] == [True] * 3 + [False] * 7
    assert "left out for 60 s" in str(found[2])
    assert written(lines, "another %d", 1) == "another 1"


def test_the_first_line_after_a_while_shows_how_many_were_left_out(clock: Clock) -> None:
    lines = LogRateLimit(most=3, window=60.0)
    for number in range(10):
        written(lines, "stranger %d", number)
    clock.now = 61.0
    assert written(lines, "stranger %d", 11) == "stranger 11 (and 7 more lines like this were left out)"
    assert written(lines, "stranger %d", 12) == "stranger 12"
