"""What every clock promises, and what only the virtual one does."""

import time

import pytest

from headnode.adapters.clock.virtual import VirtualClock
from headnode.adapters.clock.wall import WallClock
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, Seconds
from headnode.engine.ports import Clock


def test_the_wall_clock_tells_the_time_of_the_machine() -> None:
    clock: Clock = WallClock()
    before, now, after = time.time(), clock.now(), time.time()
    assert before <= now <= after


def test_the_virtual_clock_goes_only_when_told() -> None:
    clock = VirtualClock(Instant(100.0))
    port: Clock = clock
    assert (port.now(), port.now()) == (100.0, 100.0)
    clock.advance(Seconds(2.5))
    clock.advance(Seconds(0.0))
    assert port.now() == 102.5


def test_time_goes_backwards_only_by_a_jump() -> None:
    clock = VirtualClock(Instant(100.0))
    with pytest.raises(BadRequest, match="clock-backwards"):
        clock.advance(Seconds(-1.0))
    assert clock.now() == 100.0
    clock.jump(Instant(40.0))
    assert clock.now() == 40.0
