"""From what the replays say to what people are told."""

import msgspec
import pytest

from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.scheduling.prediction.calibration import (
    MIN_OUTCOMES,
    Calibration,
    CalibrationRecord,
    PredictedWait,
)

SHORT = 600  # added to both sides of a ratio


def foreseen(middle: float, longest: float | None = None, by_limits: float = 1e6) -> PredictedWait:
    return PredictedWait(Seconds(middle), Seconds(middle if longest is None else longest), Seconds(by_limits))


def taught(middle: float, waits: list[float]) -> Calibration:
    calibration = Calibration()
    for waited in waits:
        calibration.learn(foreseen(middle), Seconds(waited))
    return calibration


def test_untaught_it_tells_the_median_of_the_replays_and_the_plan_by_the_limits() -> None:
    assert Calibration().expected(foreseen(60, 100, 5000)) == (60, 5000)
    few = taught(3000, [9000.0] * (MIN_OUTCOMES - 1))
    assert few.expected(foreseen(60, 100, 5000)) == (60, 5000)


def test_waits_always_twice_as_long_as_foreseen_are_told_twice_as_long() -> None:
    calibration = taught(3000, [6600.0] * MIN_OUTCOMES)
    assert calibration.expected(foreseen(3000)).p50 == pytest.approx(6600)
    assert calibration.expected(foreseen(4200)).p50 == pytest.approx(2 * (4200 + SHORT) - SHORT)


def test_half_of_what_came_is_within_p50_and_nine_of_ten_within_p90() -> None:
    waits = [float(100 * count) for count in range(1, 101)]
    p50, p90 = taught(3000, waits).expected(foreseen(3000))
    assert sum(wait <= p50 for wait in waits) == 50
    assert sum(wait <= p90 for wait in waits) == 90


def test_short_and_long_waits_are_learned_apart() -> None:
    calibration = taught(300, [300.0] * MIN_OUTCOMES)
    for _ in range(MIN_OUTCOMES):
        calibration.learn(foreseen(30_000), Seconds(60_000.0))
    assert calibration.expected(foreseen(300)).p50 == pytest.approx(300)
    assert calibration.expected(foreseen(30_000)).p50 == pytest.approx(60_000)


def test_a_length_never_seen_is_corrected_as_all_are() -> None:
    calibration = taught(3000, [6600.0] * MIN_OUTCOMES)
    assert calibration.expected(foreseen(90_000)).p50 == pytest.approx(2 * 90_600 - SHORT)


def test_p90_follows_the_longest_of_the_replays() -> None:
    calibration = Calibration()
    for _ in range(MIN_OUTCOMES):
        calibration.learn(foreseen(3000, 6000), Seconds(5000.0))
    p90 = calibration.expected(foreseen(3000, 7000)).p90
    assert p90 == pytest.approx(5600 / 6600 * 7600 - SHORT)


def test_p90_is_never_before_p50_and_neither_is_after_what_is_certain() -> None:
    calibration = taught(3000, [6600.0] * MIN_OUTCOMES)
    p50, p90 = calibration.expected(foreseen(3000, 500))
    assert p50 <= p90
    assert calibration.expected(foreseen(3000), at_most=Seconds(4000.0)) == (4000, 4000)


def test_what_never_starts_in_the_replays_is_told_so_and_teaches_nothing() -> None:
    calibration = taught(3000, [6600.0] * MIN_OUTCOMES)
    before = calibration.state()
    calibration.learn(foreseen(FOREVER), Seconds(10.0))
    assert calibration.state() == before
    assert calibration.expected(foreseen(FOREVER, by_limits=FOREVER)) == (FOREVER, FOREVER)


def test_nobody_is_told_a_start_in_the_past() -> None:
    assert taught(3000, [0.0] * MIN_OUTCOMES).expected(foreseen(0)).p50 == 0


def learned_at(length: float, *instants: float) -> int:
    """Return how many outcomes of waits of this length are taken, of those that ended at these instants."""
    calibration = Calibration()
    for instant in instants:
        calibration.learn(foreseen(length), Seconds(length), Instant(instant))
    return next(len(one.ratios) for one in calibration.state() if one.length is not None)


def test_neighbours_in_a_long_queue_are_one_outcome() -> None:
    assert learned_at(200_000, 0, 1, 19_999, 20_000, 39_999, 40_000) == 3
    assert learned_at(80_000, 0, 1, 2, 3) == 4  # less than a day


def test_where_all_lengths_are_taken_together_crowds_of_short_waits_are_one_outcome() -> None:
    calibration = Calibration()
    for instant in range(100):
        calibration.learn(foreseen(300), Seconds(300.0), Instant(float(instant)))
    (together,) = {len(one.ratios) for one in calibration.state() if one.length is None}
    assert together == 4


def test_outcomes_of_unknown_instants_are_all_taken() -> None:
    calibration = taught(200_000, [1.0] * 30)
    assert {len(one.ratios) for one in calibration.state()} == {30}


def test_what_was_learned_survives_a_snapshot() -> None:
    calibration = taught(3000, [float(100 * count) for count in range(1, 101)])
    calibration.learn(foreseen(3000), Seconds(5.0), Instant(77.0))
    for codec in (msgspec.json, msgspec.msgpack):
        state = codec.decode(codec.encode(calibration.state()), type=tuple[CalibrationRecord, ...])
        again = Calibration(state)
        assert again.state() == calibration.state()
        assert again.expected(foreseen(4000)) == calibration.expected(foreseen(4000))
