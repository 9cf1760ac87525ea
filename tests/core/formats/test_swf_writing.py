"""Job logs that we write are read back as they were."""

from hypothesis import given
from hypothesis import strategies as some

from headnode.core.formats.swf import Remark, SwfHeader, SwfJob, read_swf, write_swf

ABOUT = SwfHeader("lab", "0.1", 16, 2)
MILLISECONDS = some.integers(1, 10**9).map(lambda count: count / 1000)
NAMES = some.sampled_from(["", "ada", "grace hopper", "ünï", "; MaxProcs: 3"])


def logged(number: int, **fields: object) -> SwfJob:
    values = {
        "submitted": 1000.0 + number, "number": number, "started": 1010.0, "run_time": 20.0, "held": 2,
        "requested": 2, "limit": 60.0, "memory": None, "state": "finished", "user": "ada", "project": "",
        "program": "", "parent": None, "priority": 2000,
    }  # fmt: skip
    return SwfJob(**(values | fields))


def text(*jobs: SwfJob, whole_seconds: bool = False) -> list[str]:
    header, lines = write_swf(ABOUT, sorted(jobs), whole_seconds=whole_seconds)
    return [*header, *lines]


def fields(job: SwfJob, **options: bool) -> list[str]:
    return text(job, **options)[-1].split()


JOBS = some.lists(
    some.builds(
        lambda submitted, wait, run, over, held, user, program: logged(
            0, submitted=submitted, started=submitted + wait, run_time=run, limit=run + over, held=held,
            requested=held, user=user, program=program,
        ),
        MILLISECONDS, MILLISECONDS, MILLISECONDS, MILLISECONDS, some.integers(1, 16), NAMES, NAMES,
    ),
    min_size=1, max_size=20,
)  # fmt: skip


@given(JOBS)
def test_what_is_written_is_read_back_to_the_millisecond(jobs: list[SwfJob]) -> None:
    numbered = sorted(job._replace(number=number) for number, job in enumerate(jobs, 1))
    log = read_swf(text(*numbered))
    start = int(numbered[0].submitted)
    assert (log.processors, log.remarks) == (16, {})
    assert list(log.workload.numbers) == [job.number for job in numbered]
    assert list(log.workload.processors) == [job.held for job in numbered]
    for read, written in zip(log.workload.submits, numbered, strict=True):
        assert abs(read - (written.submitted - start)) <= 0.0006
    for run_time, estimate, job in zip(log.workload.run_times, log.workload.estimates, numbered, strict=True):
        assert abs(run_time - (job.run_time or 0)) <= 0.0006
        assert abs(estimate - (job.limit or 0)) <= 0.0006


def test_names_of_people_projects_and_programs_are_numbers() -> None:
    lines = text(logged(1, user="ada", program="x"), logged(2, user="bob", project="p", program="y"),
                 logged(3, user="ada", program="x"))[-3:]  # fmt: skip
    assert [line.split()[11:14] for line in lines] == [["1", "-1", "1"], ["2", "1", "2"], ["1", "-1", "1"]]
    assert not [line for line in lines if "ada" in line or "bob" in line]


def test_a_job_that_never_started_is_left_out_when_read_and_counted() -> None:
    never = logged(2, started=None, run_time=None, held=0, requested=4, state="canceled")
    assert fields(never)[2:5] == ["-1", "-1", "-1"]
    log = read_swf(text(logged(1), never))
    assert (list(log.workload.numbers), list(log.remarks)) == ([1], [Remark.NO_RUN_TIME])


def test_a_job_without_a_limit_is_left_out_when_read_and_counted() -> None:
    log = read_swf(text(logged(1), logged(2, limit=None)))
    assert (list(log.workload.numbers), list(log.remarks)) == ([1], [Remark.NO_ESTIMATE])


def test_a_job_of_any_size_counts_by_what_it_held() -> None:
    log = read_swf(text(logged(1, held=6, requested=None)))
    assert (list(log.workload.processors), list(log.remarks)) == ([6], [Remark.ALLOCATED])


def test_the_outcome_the_memory_the_priority_and_the_parent_stand_in_their_fields() -> None:
    job = logged(5, state="failed", memory=3, parent=4, priority=0)
    assert [fields(job)[place] for place in (9, 10, 14, 16)] == ["3072", "0", "0", "4"]
    assert [fields(logged(1, state=state))[10] for state in ("finished", "canceled")] == ["1", "5"]


def test_whole_seconds_never_make_a_run_time_zero() -> None:
    job = logged(1, submitted=1000.7, started=1002.2, run_time=0.2, limit=0.5)
    assert fields(job, whole_seconds=True)[1:4] == ["0", "1", "1"]
    assert fields(job, whole_seconds=True)[8] == "1"


def test_a_clock_that_was_set_back_leaves_no_negative_spans() -> None:
    assert fields(logged(1, submitted=1000.0, started=990.0, run_time=-3.0))[2:4] == ["0", "0"]
