"""What a job was given and used is known when it is over, after restarts, and of all its runs together."""

import msgspec
from worlds import ROOT, World

from headnode.core.model.outcome import ResourceUsage
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import modify as c
from headnode.core.state.job_usage import Usage
from headnode.core.state.suspend import ResumeJob, SuspendJob

ONE = TaskSpec(command="x")


def end(world: World, job: JobId, task: int, instance: int = 1, **report: object) -> None:
    """Let an attempt end that used something."""
    held = next(h for h in world.nodes.running() if (h.job, h.task, h.instance) == (job, task, instance))
    shown = world.nodes.ended(held, world.clock.now())
    usage = ResourceUsage(**{name: report.pop(name) for name in ResourceUsage._fields if name in report})
    fields = {"exit_code": 0, "ended": world.clock.now(), "usage": usage, **report}
    found = tuple(
        msgspec.structs.replace(each, outcome=each.outcome._replace(**fields)) for each in shown.reports
    )
    world.do(msgspec.structs.replace(shown, reports=found))


def used(world: World, job: JobId) -> Usage:
    run = world.record(job).run
    assert run is not None
    return run.usage


def test_times_and_memory_of_all_instances_add_up_and_memory_is_weighted_by_time() -> None:
    world = World(2)
    job = world.submit(ONE, ONE, minimum=2, maximum=2)
    start = world.clock.now()
    world.wait(10)
    end(world, job, 1, user_time=3.0, system_time=1.0, started=start, peak_memory=900, average_memory=600)
    world.wait(20)
    end(world, job, 2, user_time=5.0, started=start, peak_memory=300, average_memory=200)
    usage = used(world, job)
    assert (usage.processors, usage.nodes) == (2, ("node1",))
    assert (usage.cpu_time, usage.wall_time) == (9.0, 30.0)
    assert (usage.used.peak_memory, usage.average_memory) == (900, 300)
    assert usage.exit_code == 0
    world.check_replay()


def test_what_all_instances_read_and_wrote_adds_up() -> None:
    world = World(2)
    job = world.submit(ONE, ONE, minimum=2, maximum=2)
    end(world, job, 1, bytes_read=5, bytes_written=7)
    end(world, job, 2, bytes_read=1000, bytes_written=30)
    assert (used(world, job).used.bytes_read, used(world, job).used.bytes_written) == (1005, 37)
    world.check_replay()


def test_the_exit_code_of_a_job_is_that_of_the_first_task_that_failed() -> None:
    world = World(3)
    job = world.submit(ONE, ONE, ONE, minimum=3, maximum=3)
    end(world, job, 2, exit_code=0)
    end(world, job, 1, exit_code=7)
    end(world, job, 3, exit_code=None, signal=9)
    assert (used(world, job).exit_code, used(world, job).failed) == (7, True)
    alone = world.submit(ONE)
    end(world, alone, 1, exit_code=None, signal=9)
    assert used(world, alone).exit_code == 137


def test_a_job_that_runs_again_counts_all_it_used_but_only_its_last_outcome() -> None:
    world = World(1, 2)
    job = world.submit(TaskSpec(command="x", rerunnable=True), minimum=1, maximum=1)
    world.wait(5)
    end(world, job, 1, exit_code=3, user_time=1.0)
    assert (used(world, job).wall_time, used(world, job).exit_code) == (5.0, 3)
    world.wait(100)
    world.do(c.RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
    assert used(world, job).exit_code is None
    world.wait(2)
    end(world, job, 1, exit_code=0, user_time=2.0)
    usage = used(world, job)
    assert (usage.wall_time, usage.cpu_time, usage.exit_code, usage.failed) == (7.0, 3.0, 0, False)
    world.check_replay()


def test_what_a_job_was_given_counts_at_its_largest() -> None:
    world = World(1, 1, 1)
    first = world.submit(ONE)
    sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=3)
    job = world.submit(sweep, minimum=1, maximum=3)
    assert used(world, job).processors == 2
    end(world, first, 1)
    assert used(world, job).processors == 3
    assert sorted(used(world, job).nodes) == ["node1", "node2", "node3"]
    for instance in (1, 2, 3):
        end(world, job, 1, instance)
    assert used(world, job).processors == 3


def test_processor_time_that_a_job_held_ends_when_it_releases_processors_or_is_suspended() -> None:
    world = World(1, 1)
    job = world.submit(ONE, ONE, minimum=1, maximum=2, suspendable=True)
    world.wait(10)
    end(world, job, 1)
    assert used(world, job).held_until(world.clock.now()) == 20.0
    world.engine.snapshot_if_due(1)
    world.wait(30)  # on the other processor
    world.do(SuspendJob(by=ROOT, job=job))
    for report in world.nodes.stopped(job):
        world.do(report)
    world.wait(1000)
    world.do(ResumeJob(by=ROOT, job=job))
    world.wait(5)
    world.clock.jump(Instant(world.clock.now() + 7200))
    world.wait(5)
    end(world, job, 2)
    usage = used(world, job)
    assert (usage.held_time, usage.held, usage.held_since) == (20.0 + 30.0 + 10.0, 0, None)
    assert usage.processors * usage.wall_time == 2 * 50.0
    world.check_replay()


def test_a_job_that_was_requeued_has_held_processors_in_all_its_runs() -> None:
    world = World(2)
    job = world.submit(TaskSpec(command="x", rerunnable=True, minimum=2, maximum=2))
    world.wait(5)
    end(world, job, 1, exit_code=3)
    world.do(c.RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
    world.wait(2)
    end(world, job, 1)
    assert used(world, job).held_time == 14.0


def test_a_job_of_an_older_head_counts_from_its_start() -> None:
    usage = Usage(processors=2)  # it runs, and no snapshot says since when it has its processors
    usage.hold(2, Instant(100.0))
    usage.hold(2, Instant(150.0))
    assert usage.held_until(Instant(160.0)) == 120.0


def test_what_was_given_back_and_taken_again_does_not_make_it_less() -> None:
    usage = Usage()
    usage.begin({"a": (0, 1, 2)})
    usage.grow({"a": (0,), "b": (5,)})
    assert (usage.processors, usage.nodes) == (3, ("a", "b"))


def test_the_time_in_which_a_job_stood_still_does_not_count() -> None:
    usage = Usage()
    usage.end(Instant(10.0), Seconds(15.0), Instant(40.0))
    assert usage.wall_time == 15.0


def test_an_instance_that_ran_on_several_nodes_names_them_all() -> None:
    world = World(1, 1)
    job = world.submit(TaskSpec(command="x", minimum=2, maximum=2), ONE)
    for task in (1, 2):
        end(world, job, task)
    rows = [world.journal.instance(job, task, 1) for task in (1, 2)]
    assert [row and (row.node, row.nodes) for row in rows] == [
        ("node1", ("node1", "node2")),
        ("node1", ()),
    ]


def test_an_average_without_samples_is_the_peak() -> None:
    assert Usage(used=ResourceUsage(peak_memory=5)).average_memory == 5
    assert Usage(memory_time=6.0, measured_time=Seconds(2.0)).average_memory == 3
    usage = Usage()
    usage.end(None, Seconds(0.0), Instant(5.0))
    usage.end(Instant(9.0), Seconds(1.0), Instant(5.0))  # the clock was set back
    assert usage.wall_time == 0.0


def test_a_failed_job_says_why_its_first_task_failed() -> None:
    world = World(3)
    job = world.submit(ONE, ONE, ONE, minimum=3, maximum=3)
    end(world, job, 3, message="out.txt cannot be written: no such directory; name another file", exit_code=1)
    end(world, job, 1, exit_code=4)
    end(world, job, 2)
    assert world.record(job).message == (
        "tasks 1, 3 failed; task 3: out.txt cannot be written: no such directory"
    )
    world.check_replay()


def test_a_job_that_one_task_fails_says_why_that_task_failed() -> None:
    world = World(2)
    job = world.submit(ONE, ONE, minimum=2, maximum=2, fail_on_task_failure=True)
    end(world, job, 2, exit_code=7)
    assert world.record(job).message == f"task {job}.2 failed: the program ended with exit code 7"


def test_what_failed_before_a_job_was_requeued_is_not_why_it_fails() -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x", rerunnable=True))
    end(world, job, 1, exit_code=7)
    world.do(c.RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
    end(world, job, 1, exit_code=8)
    assert world.record(job).message == "task 1 failed: the program ended with exit code 8"
