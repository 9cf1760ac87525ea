"""What every clock promises, and what only the virtual one does."""

import time

import pytest

from headnode.adapters.clock import MIN_JUMP, VirtualClock, WallClock
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, Seconds
from headnode.engine.ports import Clock


def test_the_wall_clock_shows_the_time_of_the_machine() -> None:
    clock: Clock = WallClock()
    before, now, after = time.time(), clock.now(), time.time()
    assert before <= now <= after


def test_the_virtual_clock_goes_only_when_reported() -> None:
    clock = VirtualClock(Instant(100.0))
    port: Clock = clock
    assert (port.now(), port.now()) == (100.0, 100.0)
    clock.advance(Seconds(2.5))
    clock.advance(Seconds(0.0))
    assert port.now() == 102.5


def test_time_goes_by_until_an_instant_exactly_and_nobody_has_set_it() -> None:
    clock = VirtualClock(Instant(0.1))
    clock.advance_to(Instant(0.3))
    assert clock.now() == 0.3
    assert clock.set_by() == 0.0
    with pytest.raises(BadRequest, match="clock-backwards"):
        clock.advance_to(Instant(0.2))


def test_time_goes_backwards_only_by_a_jump() -> None:
    clock = VirtualClock(Instant(100.0))
    with pytest.raises(BadRequest, match="clock-backwards"):
        clock.advance(Seconds(-1.0))
    assert clock.now() == 100.0
    clock.jump(Instant(40.0))
    assert clock.now() == 40.0


def test_a_clock_shows_once_by_how_much_somebody_set_it() -> None:
    clock = VirtualClock(Instant(100.0))
    clock.advance(Seconds(5.0))
    assert clock.set_by() == 0.0
    clock.jump(Instant(165.0))
    clock.jump(Instant(95.0))
    assert (clock.set_by(), clock.set_by()) == (-10.0, 0.0)


def test_the_wall_clock_takes_time_that_goes_by_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, real = WallClock(), time.time
    assert clock.set_by() == 0.0
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    assert clock.set_by() == pytest.approx(3600, abs=MIN_JUMP)
    assert clock.set_by() == 0.0
    monkeypatch.setattr(time, "time", lambda: real() + 3600 + MIN_JUMP / 2)  # as a clock is kept right
    assert clock.set_by() == 0.0
    monkeypatch.undo()
    assert clock.set_by() == pytest.approx(-3600, abs=MIN_JUMP)
