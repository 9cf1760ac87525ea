"""How long a write waits for standby heads: never for one that is always late."""

import itertools
import threading
import time

from headnode.adapters.standby.followed import (
    CLOSE_BEHIND,
    KNOWN_BATCHES,
    NEWEST_DELAYS,
    TRUSTED_AFTER,
    Delays,
    Followers,
    FollowingStandby,
)


def followed_by(*names: str) -> tuple[Followers, list[FollowingStandby]]:
    followers = Followers(1)
    for name in names:
        followers.followers[name] = FollowingStandby(name)
    found = list(followers.followers.values())
    for each in found:
        followers.confirm(each, 1)
    return followers, found


def seconds_for(followers: Followers, number: int, timeout: float) -> float:
    began = time.monotonic()
    followers.written(number)
    followers.wait(number, timeout)
    return time.monotonic() - began


def test_a_write_waits_for_all_that_are_in_step() -> None:
    followers, (first, second) = followed_by("first", "second")
    followers.written(2)
    threading.Timer(0.05, followers.confirm, (first, 2)).start()
    threading.Timer(0.1, followers.confirm, (second, 2)).start()
    followers.wait(2, 30.0)
    assert (first.confirmed, second.confirmed) == (2, 2)
    assert first.in_step
    assert second.in_step


def test_a_standby_that_is_always_late_delays_few_writes() -> None:
    followers, (slow,) = followed_by("slow")
    waits, began, numbers = 0, time.monotonic(), itertools.count(2)
    while time.monotonic() < began + 1.0:
        number = next(numbers)
        waits += slow.waited_for  # not by the clock: a busy machine delays other writes, too
        seconds_for(followers, number, 0.05)
        followers.confirm(slow, number)  # each time after the write was given up
    assert 1 <= waits <= (time.monotonic() - began) / (0.05 * TRUSTED_AFTER) + 1


def test_a_standby_that_was_late_once_is_waited_for_again() -> None:
    followers, (standby,) = followed_by("standby")
    assert seconds_for(followers, 2, 0.05) >= 0.05
    assert not standby.in_step
    deadline = time.monotonic() + 30.0
    while not standby.in_step:
        assert time.monotonic() < deadline
        followers.confirm(standby, 2)


def test_a_write_that_may_not_wait_does_not() -> None:
    followers, _ = followed_by("standby")
    assert seconds_for(followers, 2, 0.0) < 0.05


def test_a_standby_that_is_gone_is_not_waited_for() -> None:
    followers, (standby,) = followed_by("standby")
    followers.written(2)
    threading.Timer(0.05, followers.lost, (standby,)).start()
    began = time.monotonic()
    followers.wait(2, 30.0)
    assert time.monotonic() - began < 10.0


def test_a_standby_that_is_near_is_waited_for_and_in_step_once_it_has_what_was_acknowledged_without_it() -> (
    None
):
    followers, (standby,) = followed_by("standby")
    last = CLOSE_BEHIND + 10
    followers.lost(standby)
    followers.written(last)
    followers.confirm(standby, 9)
    assert not standby.waited_for
    followers.confirm(standby, 10)
    assert standby.waited_for
    assert not standby.in_step
    followers.written(last + 1)  # nobody is told of it before the standby has it
    followers.confirm(standby, last)
    assert standby.in_step


def test_the_ends_of_the_newest_batches_are_known() -> None:
    followers, _ = followed_by()
    for number in range(2, KNOWN_BATCHES + 100):
        followers.written(2 * number)
    last = followers.last
    assert followers.ends_between(last - 5, last - 1) == (last - 4, last - 2)
    assert followers.ends_between(last, last) == ()
    assert len(followers.ends_between(0, last)) == KNOWN_BATCHES


def test_how_long_writes_waited_is_known_for_each_standby() -> None:
    followers, (quick, slow) = followed_by("quick", "slow")
    assert quick.delays.quantiles(time.monotonic()) is None
    followers.written(2)
    followers.confirm(quick, 2)
    threading.Timer(0.2, followers.confirm, (slow, 2)).start()
    followers.wait(2, 30.0)
    followers.written(3)
    followers.confirm(quick, 3)
    followers.wait(3, 0.1)  # the slow one is given up
    now = time.monotonic()
    for half, most in (quick.delays.quantiles(now), slow.delays.quantiles(now)):
        assert half <= most
    assert max(quick.delays.quantiles(now) or ()) < 0.1
    half, most = slow.delays.quantiles(now) or (0.0, 0.0)
    assert half >= 0.1
    assert most >= half
    assert slow.delays.all.total >= 0.3
    assert sum(slow.delays.all.counts) == sum(quick.delays.all.counts) == 2
    assert slow.delays.quantiles(now + 61.0) is None
    followers.written(4)
    followers.confirm(quick, 4)
    followers.wait(4, 1.0)  # the slow one is not waited for
    assert sum(slow.delays.all.counts) == 2


def test_delays_that_are_remembered_are_bounded() -> None:
    delays = Delays()
    for number in range(2 * NEWEST_DELAYS):
        delays.add(float(number), 0.0)
    assert delays.quantiles(1.0) == (NEWEST_DELAYS * 1.5 - 1, NEWEST_DELAYS * 1.99 - 1)
