"""The jobs that are over, as the engine tells them."""

from worlds import ADA, World

from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state import stop as c
from headnode.core.state.events import Event
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationLost,
    AllocationShrunk,
    JobStarted,
    NodeCores,
)
from headnode.engine.past_jobs import held_on_average, past_jobs

ONE = JobId(1)


def ran(world: World, seconds: float, **options: object) -> JobId:
    """Let a job of one task run, alone, from its submission to its end."""
    size = options.get("minimum", 1)
    job = world.submit(TaskSpec(command="x", minimum=size, maximum=size), by=ADA, **options)
    world.wait(seconds)
    world.end(job, 1)
    return job


def test_a_job_that_is_over_is_told_with_all_that_a_log_needs() -> None:
    world = World(4)
    begin = world.clock.now()
    ran(world, 30, name="a", project="p", minimum=3, maximum=3, run_time=Seconds(60), process_memory=7)
    (job,) = past_jobs(world.journal, 0, 10).jobs
    assert (job.id, job.owner, job.name, job.project, job.state) == (1, "ada", "a", "p", "finished")
    assert (job.submitted, job.started, job.ended, job.run_time) == (begin, begin, begin + 30, 30)
    assert (job.processors, job.request.minimum, job.request.run_time, job.memory) == (3, 3, 60, 7)


def test_an_exclusive_job_held_its_whole_node() -> None:
    world = World(4)
    ran(world, 5, exclusive=True)
    assert past_jobs(world.journal, 0, 10).jobs[0].processors == 4


def test_a_job_that_never_started_held_nothing() -> None:
    world = World(1)
    ran_first = world.submit(TaskSpec(command="x"))
    waiting = world.submit(TaskSpec(command="x"), by=ADA)
    world.do(c.StopJob(by=ADA, job=waiting, outcome="canceled"))
    (job,) = past_jobs(world.journal, 0, 10).jobs
    assert (job.id, job.state, job.started, job.run_time, job.processors) == (2, "canceled", None, None, 0)
    assert ran_first in world.cluster.jobs


def test_pages_tell_every_job_once_in_order_whatever_the_period() -> None:
    world = World(1)
    begin = world.clock.now()
    for _ in range(7):
        ran(world, 10)
    found, after = [], 0
    while after is not None:
        page = past_jobs(world.journal, after, 2, Instant(begin + 20), Instant(begin + 50))
        assert len(page.jobs) <= 2
        found += [job.id for job in page.jobs]
        after = page.more
    assert found == [3, 4, 5]  # submitted at 20, 30 and 40


def place(count: int) -> NodeCores:
    return (("n1", tuple(range(count))),)


def held(*changes: Event, started: float = 0.0, ended: float = 10.0) -> int:
    return held_on_average(changes, Instant(started), Instant(ended))


def begun(at: float, count: int) -> Event:
    return JobStarted(at=Instant(at), job=ONE, allocation=place(count))


def test_a_job_that_grew_and_shrank_held_its_average_rounded_up() -> None:
    grown = AllocationGrown(at=Instant(5.0), job=ONE, added=place(4))
    shrunk = AllocationShrunk(at=Instant(8.0), job=ONE, removed=place(5))
    lost = AllocationLost(at=Instant(9.0), job=ONE, removed=place(1))
    assert held(begun(0, 2)) == 2
    assert held(begun(0, 2), grown) == 4  # 2 and 6, half of the time each
    assert held(begun(0, 2), grown, shrunk, lost) == 3  # 10 + 18 + 1 over 10 s


def test_only_the_last_run_of_a_job_counts() -> None:
    grown = AllocationGrown(at=Instant(5.0), job=ONE, added=place(4))
    assert held(begun(0, 9), grown, begun(20, 2), started=20, ended=30) == 2


def test_a_run_of_no_time_counts_by_what_it_began_with() -> None:
    assert held(begun(0, 3), ended=0.0) == 3
    assert held(begun(5, 3), started=5, ended=4.0) == 3
