"""The rules of the policies, second by second and as plainly as can be; to be compared with."""

from collections.abc import Callable, Iterable

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import Ties

HORIZON = 400  # seconds; every world of ours is over by then


class NaivePool:
    """A clock that ticks; running jobs as (job, start); reservations by job."""

    def __init__(self, workload: Workload, size: int) -> None:
        self.jobs, self.size, self.now = workload, size, 0
        self.queue: list[int] = []
        self.running: dict[int, int] = {}
        self.reserved: dict[int, int] = {}
        self.starts: dict[int, int] = {}

    def free(self) -> int:
        return self.size - sum(self.jobs.processors[job] for job in self.running)

    def start(self, job: int) -> None:
        assert self.jobs.processors[job] <= self.free()
        self.queue.remove(job)
        self.running[job] = self.starts[job] = self.now

    def expected_end(self, job: int) -> int:
        return int(self.running[job] + self.jobs.estimates[job])

    def free_at(self, instant: int, reserved: Iterable[int]) -> int:
        """Return what is free then by the estimates, beside these reservations."""
        held = [job for job in self.running if self.expected_end(job) > instant]
        planned = [
            job
            for job in reserved
            if self.reserved[job] <= instant < self.reserved[job] + self.jobs.estimates[job]
        ]
        return self.size - sum(self.jobs.processors[job] for job in [*held, *planned])

    def earliest(self, job: int, reserved: Iterable[int]) -> int:
        others = [other for other in reserved if other != job]
        return next(
            start
            for start in range(self.now, 2 * HORIZON)
            if all(
                self.free_at(second, others) >= self.jobs.processors[job]
                for second in range(start, int(start + self.jobs.estimates[job]))
            )
        )


Pass = Callable[[NaivePool, list[int], bool], None]
"""Given the jobs that have just come, and whether an end gives the others reason to look again."""


def fcfs(pool: NaivePool, new: list[int], early: bool) -> None:
    pool.queue += new
    while pool.queue and pool.jobs.processors[pool.queue[0]] <= pool.free():
        pool.start(pool.queue[0])


def easy(pool: NaivePool, new: list[int], early: bool) -> None:
    fcfs(pool, new, early)
    if not pool.queue:
        return
    head, *others = pool.queue
    need = pool.jobs.processors[head]
    shadow = next(at for at in range(pool.now, 2 * HORIZON) if pool.free_at(at, ()) >= need)
    extra = pool.free_at(shadow, ()) - need
    for job in others:
        processors = pool.jobs.processors[job]
        in_time = pool.now + pool.jobs.estimates[job] <= shadow
        if processors <= pool.free() and (in_time or processors <= extra):
            extra -= 0 if in_time else processors
            pool.start(job)


def conservative(pool: NaivePool, new: list[int], early: bool) -> None:
    if early:
        for job in pool.queue:
            pool.reserved[job] = pool.earliest(job, pool.queue)
    for job in new:
        pool.reserved[job] = pool.earliest(job, pool.queue)
        pool.queue.append(job)
    start_due(pool)


def conservative_replan(pool: NaivePool, new: list[int], early: bool) -> None:
    pool.queue += new
    for place, job in enumerate(pool.queue):
        pool.reserved[job] = pool.earliest(job, pool.queue[:place])
    start_due(pool)


def start_due(pool: NaivePool) -> None:
    for job in list(pool.queue):
        if pool.reserved[job] == pool.now:
            pool.start(job)


RULES: dict[str, Pass] = {
    "fcfs": fcfs,
    "easy": easy,
    "conservative": conservative,
    "conservative-replan": conservative_replan,
}


def starts_by_the_rules(workload: Workload, size: int, policy: str, ties: Ties) -> list[float]:
    """Return the start of every job."""
    pool = NaivePool(workload, size)
    instant = ends_first if ties is Ties.ENDS_FIRST else arrivals_first
    while len(pool.starts) < len(workload.submits):
        ended = [job for job, start in pool.starts.items() if start + workload.run_times[job] == pool.now]
        new = [job for job, submit in enumerate(workload.submits) if submit == pool.now]
        instant(pool, RULES[policy], ended, new)
        pool.now += 1
    return [pool.starts[job] for job in range(len(workload.submits))]


def ends_first(pool: NaivePool, one_pass: Pass, ended: list[int], new: list[int]) -> None:
    early = any(pool.expected_end(job) > pool.now for job in ended)
    for job in ended:
        del pool.running[job]
    one_pass(pool, new, early)


def arrivals_first(pool: NaivePool, one_pass: Pass, ended: list[int], new: list[int]) -> None:
    for job in [job for job in pool.running if pool.expected_end(job) == pool.now]:
        del pool.running[job]
    for job in new:
        one_pass(pool, [job], False)
    for job in ended:  # in the order of their starts
        pool.running.pop(job, None)
        one_pass(pool, [], True)
    one_pass(pool, [], False)
