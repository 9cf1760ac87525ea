"""Starts at a site: our scheduler run ahead over what the site shows, corrected by starts that were seen."""

from msgspec.structs import replace

from headnode.core.batch.dialect import ForeignState
from headnode.core.batch.site import SiteFacts, SiteJob, SiteNode, SitePartition, SiteSnapshot, past_snapshots
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.scheduling.policies import POLICIES
from headnode.engine.prediction import look_ahead
from headnode.engine.site_prediction import MAX_SIMULATED, SiteForecast, ahead_of

NODES = tuple(SiteNode(f"n{number}", ("batch",), "idle", 4, 0) for number in (1, 2))


def running(job: str, *, since: float, limit: float, nodes: str = "n[1-2]", processors: int = 8) -> SiteJob:
    return SiteJob(
        job, "ada", "fit", ForeignState.RUNNING, "RUNNING", partitions=("batch",), started=Instant(since),
        limit=Seconds(limit), processors=processors, node_count=2, nodes=nodes,
    )  # fmt: skip


def waiting(
    job: str, *, priority: int = 1, limit: float = 100.0, processors: int = 8, **more: object
) -> SiteJob:
    made = SiteJob(
        job, "bob", "sim", ForeignState.WAITING, "PENDING", "Priority", priority, ("batch",),
        limit=Seconds(limit), processors=processors,
    )  # fmt: skip
    return replace(made, **more)


def snapshot(*jobs: SiteJob, at: float = 1000.0, **facts: object) -> SiteSnapshot:
    return SiteSnapshot("slurm", Instant(at), SiteFacts(**facts), jobs, NODES)


def look(forecast: SiteForecast, seen: SiteSnapshot) -> SiteForecast:
    forecast.observe(seen)
    situation = forecast.situation()
    if situation is not None:
        policy = POLICIES[situation.policy]
        forecast.accept(situation, look_ahead(situation, policy, lambda: False))
    return forecast


def p50(forecast: SiteForecast, job: str) -> float | None:
    expected = forecast.expected(job)
    return None if expected is None else expected.p50


def test_a_job_waits_for_those_that_run_and_those_before_it() -> None:
    jobs = (running("1", since=950, limit=100), waiting("2", priority=1), waiting("3", priority=2))
    forecast = look(SiteForecast(), snapshot(*jobs))
    assert (p50(forecast, "3"), p50(forecast, "2")) == (1050.0, 1150.0)
    assert [job.id for job in ahead_of(snapshot(*jobs), jobs[1])] == ["3"]


def test_a_small_job_is_backfilled_unless_the_site_does_not() -> None:
    jobs = (
        running("1", since=950, limit=200, nodes="n1", processors=4),
        waiting("2", priority=2),
        waiting("3", priority=1, processors=4),
    )
    assert p50(look(SiteForecast(), snapshot(*jobs)), "3") == 1000.0
    assert p50(look(SiteForecast(), snapshot(*jobs, policy="fcfs")), "3") == 1250.0


def test_run_times_of_the_past_correct_the_limits() -> None:
    forecast = SiteForecast()
    for number in range(3):
        ended = running(f"{number}", since=100, limit=1000)
        forecast.observe(
            snapshot(replace(ended, state=ForeignState.ENDED, word="COMPLETED", ended=Instant(200)))
        )
    look(forecast, snapshot(running("8", since=950, limit=1000), waiting("9")))
    assert p50(forecast, "9") == 1050.0


def test_a_job_teaches_once_and_a_canceled_one_nothing() -> None:
    ended = replace(running("1", since=100, limit=1000), state=ForeignState.ENDED, ended=Instant(200))
    forecast = SiteForecast()
    for _ in range(5):
        forecast.observe(snapshot(replace(ended, word="COMPLETED")))
    forecast.observe(snapshot(replace(ended, id="2", word="CANCELLED")))
    (kind, *_) = forecast.history.state()
    assert kind.used == (0.1,)


def test_starts_that_were_seen_correct_what_is_expected() -> None:
    forecast = SiteForecast()
    for number in range(30):
        at = 1000.0 + 1000 * number
        first, mine = running("r", since=at - 50, limit=100), waiting(f"{number}")
        look(forecast, snapshot(first, mine, at=at))
        late = replace(
            mine, state=ForeignState.RUNNING, word="RUNNING", started=Instant(at + 110), nodes="n[1-2]"
        )
        look(forecast, snapshot(late, at=at + 120))
    assert forecast.judged == 30
    look(forecast, snapshot(running("r", since=99_950, limit=100), waiting("x"), at=100_000))
    assert p50(forecast, "x") == 100_110.0


def history(count: int) -> tuple[SiteJob, ...]:
    """Return jobs that each had all nodes for 100 s, came 90 s apart, and asked for 1,000 s."""
    return tuple(
        waiting(
            str(number), state=ForeignState.ENDED, word="COMPLETED", reason="", limit=1000.0, nodes="n[1-2]",
            node_count=2, priority=1000 - number, submitted=Instant(90.0 * number + 1),
            started=Instant(100.0 * number + 2), ended=Instant(100.0 * number + 102),
        )
        for number in range(count)
    )  # fmt: skip


def test_what_the_site_showed_in_the_past_follows_from_its_history() -> None:
    now = replace(snapshot(waiting("w", submitted=Instant(4000.0)), at=6000.0), ended=history(40))
    *past, last = past_snapshots(now, 20)
    assert last is now
    assert len(past) == 20
    for seen in past:
        words = [job.word for job in seen.jobs]
        assert words.count("RUNNING") <= 1
        assert all(job.ended is None for job in seen.jobs)
        assert all(job.started is None for job in seen.jobs if job.word == "PENDING")
    taught = [job.id for seen in past for job in seen.ended]
    assert len(taught) == len(set(taught))
    assert list(past_snapshots(snapshot(), 20)) == [snapshot()]


def test_a_new_head_learns_from_the_history_how_far_predictions_are_wrong() -> None:
    now = replace(snapshot(at=6000.0), ended=history(60))
    forecast = SiteForecast()
    for seen in past_snapshots(now, 20):
        look(forecast, seen)
    assert forecast.judged >= 20
    assert forecast.calibration.state()


def test_a_job_that_does_not_wait_for_its_turn_is_left_out() -> None:
    held = waiting("2", priority=9, reason="JobHeldUser")
    jobs = (running("1", since=950, limit=100), held, waiting("3"))
    forecast = look(SiteForecast(), snapshot(*jobs))
    assert (p50(forecast, "2"), p50(forecast, "3")) == (None, 1050.0)
    assert ahead_of(snapshot(*jobs), jobs[2]) == []


def test_nodes_that_are_closed_or_of_other_partitions_are_not_used() -> None:
    nodes = (replace(NODES[0], closed="down*"), replace(NODES[1], partitions=("long",)))
    seen = replace(snapshot(waiting("2", processors=4)), nodes=nodes)
    assert p50(look(SiteForecast(), seen), "2") is None


def test_what_hidden_jobs_hold_does_not_count_as_free() -> None:
    seen = replace(
        snapshot(waiting("2"), hides_jobs=True), nodes=tuple(replace(node, allocated=4) for node in NODES)
    )
    assert p50(look(SiteForecast(), seen), "2") is None


def test_without_a_limit_the_partition_says_it() -> None:
    partition = SitePartition("batch", default_time=Seconds(300.0))
    jobs = (running("1", since=1000, limit=float("inf")), waiting("2"))
    assert p50(look(SiteForecast(), snapshot(*jobs)), "2") is None
    assert p50(look(SiteForecast(), snapshot(*jobs, partitions=(partition,))), "2") == 1300.0


def test_the_elements_of_an_array_wait_each() -> None:
    array = waiting("2_[1-3]", priority=2, elements=3)
    assert p50(look(SiteForecast(), snapshot(array, waiting("5", priority=1))), "5") == 1300.0


def test_a_liar_costs_no_more_than_the_bounds() -> None:
    huge = [
        waiting(f"{n}_[1-9]", elements=1_000_000, processors=10**17, partitions=("nowhere",))
        for n in range(50)
    ]
    forecast = look(SiteForecast(), snapshot(running("1", since=0, limit=1, nodes="n[1-999999999]"), *huge))
    assert forecast.most_jobs <= MAX_SIMULATED
    assert p50(forecast, "1_[1-9]") is None
