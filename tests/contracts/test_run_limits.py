"""When run time limits are over, and when the signals before them are due."""

import math
import random

import pytest

from depth import seeds
from headnode.adapters.processes.attempts import ShepherdAttempt
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.processes.run_limits import RunLimits
from headnode.adapters.processes.spawning import TaskProgram

BEFORE = 5.0


def attempt(number: int, limit: float | None) -> ShepherdAttempt:
    program = TaskProgram(["x"], {}, "/", "", "", "", "")
    return ShepherdAttempt((1, number, 1), "lane", program, limit)


@pytest.mark.parametrize("seed", seeds(100))
def test_each_limit_has_one_signal_so_long_before_it_however_often_all_stands_still(seed: int) -> None:
    dice = random.Random(seed)
    limits = RunLimits(None, (10, BEFORE, "all"))
    now, stood = 0.0, 0.0
    expected: dict[Key, tuple[float, float]] = {}  # when the signal and the end are due, without pauses
    got: dict[Key, list[float]] = {}
    over: dict[Key, float] = {}
    for number in range(200):
        now += dice.random() * 3
        if dice.random() < 0.2:
            pause = dice.random() * 10
            now, stood = now + pause, stood + pause
            limits.delay(pause)
        is_due, taken = limits.next_look(now, now) <= now, False
        for keys in limits.take_due(now, now):
            assert keys is not None
            taken = True
            for key in keys:
                got.setdefault(key, []).append(now - stood)
        for key in limits.take_over(now):
            over[key], taken = now - stood, True
        assert taken == is_due
        if dice.random() < 0.5:
            limit = dice.choice((None, dice.random() * 40))
            one = attempt(number, limit)
            limits.begins(one, now)
            if limit is not None:
                at = now - stood
                expected[one.key] = (at + limit - BEFORE if limit > BEFORE else math.inf, at + limit)
    for key, (signal_at, end_at) in expected.items():
        assert len(got.get(key, [])) == (signal_at <= now - stood), key
        assert all(at >= signal_at - 1e-6 for at in got.get(key, []))
        assert (key in over) == (end_at <= now - stood)


def test_the_signal_of_the_job_comes_once_for_each_deadline_that_it_has() -> None:
    limits = RunLimits(100.0, (10, BEFORE, "program"))
    assert limits.warning == (10, "program")
    assert list(limits.take_due(0.0, 94.9)) == []
    assert limits.next_look(50.0, 94.9) == pytest.approx(50.1)
    assert list(limits.take_due(0.0, 95.0)) == [None]
    assert list(limits.take_due(0.0, 96.0)) == []
    limits.move(200.0)  # it was given more time
    assert list(limits.take_due(0.0, 194.0)) == []
    assert list(limits.take_due(0.0, 195.0)) == [None]
    assert not limits.take_deadline(199.0)
    assert limits.take_deadline(200.0)
    assert not limits.take_deadline(201.0)
    limits.move(None)
    assert list(limits.take_due(0.0, 1000.0)) == []


def test_without_a_signal_nothing_is_due() -> None:
    limits = RunLimits(100.0, None)
    limits.begins(attempt(1, 10.0), 0.0)
    assert list(limits.take_due(9.0, 99.0)) == []
    assert limits.next_look(9.0, 99.0) == 10.0
    assert list(limits.take_over(10.0)) == [(1, 1, 1)]
