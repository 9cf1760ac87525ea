"""Finds jobs wherever they are, alive or in the archive, and remembers what lists show of them."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice

from msgspec.structs import replace

from headnode.apps.readable_values import parameter_text
from headnode.apps.server.api.job_briefs import Brief, brief_of
from headnode.core.model.bounds import GROUP_BYTES
from headnode.core.model.errors import BadRequest, NotFound
from headnode.core.model.job import JobSpec, parents
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.depend import ParentOutcome, elements_of, outcome_of
from headnode.core.state.groups import jobs_of_group_now
from headnode.core.state.job_end import PURGE_JOBS_AFTER
from headnode.core.state.job_record import SMALL, JobRecord, decode_record, decode_spec, written_spec
from headnode.core.state.transitions import ACTIVE, STATE_NAMES, JobState
from headnode.engine.engine import Engine
from headnode.engine.ports import Archive, EndedJob

_ENDED_AT_ONCE = 50  # ended jobs that are read from the archive in one step
MAX_OF_A_GROUP = 20_000  # ended jobs


class FoundJob:
    """A job and its description as it is written, read when it is needed; `ended`: out of the archive."""

    __slots__ = ("_spec", "ended", "record")

    def __init__(self, record: JobRecord, spec: JobSpec | None = None, *, ended: bool) -> None:
        self.record, self.ended, self._spec = record, ended, spec

    @property
    def spec(self) -> JobSpec:
        """The description as it is written."""
        if self._spec is None:
            self._spec = decode_spec(self.record.spec)
        return self._spec

    @property
    def taken(self) -> JobSpec:
        """The description with the request that the job was given when it started."""
        return written_spec(self.record, self.spec)


class JobLookup:
    """Reads jobs, whether alive or over."""

    def __init__(self, engine: Engine, archive: Archive) -> None:
        self._engine = engine
        self.archive = archive

    @property
    def cluster(self) -> ClusterState:
        """Return the cluster as it is now; recovery replaces it, so ask each time."""
        return self._engine.cluster

    def job(self, job: int) -> FoundJob:
        """Return a job.

        Raises:  NotFound ``no-such-job``.
        """
        alive = self.cluster.jobs.get(JobId(job))
        if alive is not None:
            return FoundJob(alive, self._decoded(alive), ended=False)
        ended = self.archive.ended_job(JobId(job))
        if ended is None:
            raise self._not_found(job)
        return _found_ended(ended)

    def _not_found(self, job: int) -> NotFound:
        days = self._engine.settings.number(PURGE_JOBS_AFTER)
        after = parameter_text(str(days), "days")
        purged = f"; records are removed {after} after the end of a job" if days else ""
        return NotFound(
            code="no-such-job", what=f"there is no job {job}", fix=f"see `hn job list /all`{purged}"
        )

    def _decoded(self, alive: JobRecord) -> JobSpec | None:
        """Return the description of a job as it is written, if the cluster has it decoded."""
        graph = self.cluster.graphs.get(alive.id)
        own = alive.run is not None and alive.run.alternative == 0 and alive.run.lowered_limit is None
        return graph.spec if graph is not None and own else None

    def archived(self, job: int) -> JobRecord | None:
        """Return the record of a job that is over; None when it is alive or does not exist."""
        if JobId(job) in self.cluster.jobs:
            return None
        ended = self.archive.ended_job(JobId(job))
        return decode_record(ended.record) if ended is not None else None

    def ended_at(self, job: int) -> Instant | None:
        """Return when a job ended that is over; None when it is alive or does not exist."""
        if JobId(job) in self.cluster.jobs:
            return None
        ended = self.archive.ended_job(JobId(job))
        return None if ended is None else ended.ended

    def record(self, job: int) -> JobRecord | None:
        """Return the record of a job, alive or over; None when it does not exist."""
        return self.cluster.jobs.get(JobId(job)) or self.archived(job)

    def group(self, name: str, owner: str | None) -> list[JobRecord]:
        """Return the jobs that a group has now, in the order of their ids; `owner` None means all owners'.

        Of the ended jobs, the newest are read up to the bounds.
        """
        alive = [
            record
            for record in self.cluster.jobs.values()
            if record.group == name and owner in (None, record.owner)
        ]
        return jobs_of_group_now([*alive, *self._ended_of_group(name, owner)])

    def _ended_of_group(self, name: str, owner: str | None) -> Iterator[JobRecord]:
        before, read, left = None, 0, MAX_OF_A_GROUP
        while left and read < GROUP_BYTES.most:
            some = self.archive.ended_of_group(name, owner=owner, states=(), before=before, limit=left)
            if not some:
                return
            yield from (decode_record(job.record) for job in some)
            before, left = some[-1].id, left - len(some)
            read += sum(len(job.record) for job in some)

    def ended_parents(self, *specs: JobSpec) -> dict[int, ParentOutcome]:
        """Return what became of those jobs that are over of all that these depend on."""
        found = {}
        swept = {parent for spec in specs for parent in spec.after_corresponding}
        elements: dict[int, set[int]] = {}
        for spec in specs:
            for one in spec.dependencies:
                elements.setdefault(one.job, set()).update(elements_of(spec, one.job))
        for parent in {parent for spec in specs for parent in parents(spec, of_instances=True)}:
            ended = self.archived(parent)
            if ended is not None:
                outcome = outcome_of(ended, elements.get(parent, ()))
                found[parent] = _with_sweeps(ended, outcome) if parent in swept else outcome
        return found

    def skipped_for(self, record: JobRecord) -> tuple[JobRecord, ...]:
        """Return the jobs that were canceled for the end of a job, and those for theirs, and so on."""
        skipped: dict[int, JobRecord] = {}
        ahead = list(record.skipped_jobs)
        while ahead:
            job = ahead.pop()
            one = None if job in skipped else self.archived(job)
            if one is not None and one.skipped:
                skipped[job] = one
                ahead += one.skipped_jobs
        return tuple(skipped.values())

    def newest(
        self, owner: str | None, states: set[JobState], before: int | None, most: int
    ) -> Iterator[FoundJob]:
        """Yield up to `most` jobs with ids below `before`, newest id first; no states means all.

        Cost:  of the jobs that are yielded, and those passed over for their owner or state; 10 us for 1,000
               jobs that have not ended.
        """
        alive = islice(self._alive(owner, states, before), most)
        final = [state.value for state in states if state.is_final]
        over = self._over(owner, final, before) if final or not states else iter(())
        yield from islice(merge(alive, over, key=lambda found: -found.record.id), most)

    def _alive(self, owner: str | None, states: set[JobState], before: int | None) -> Iterator[FoundJob]:
        """Yield the jobs that have not ended with ids below `before`, newest id first."""
        jobs, counts = self.cluster.jobs, self.cluster.counts
        ids = sorted(jobs)  # they almost are
        at = len(ids) if before is None else bisect_left(ids, before)
        left = sum(counts.get(state, 0) for state in states or counts)
        while at and left:
            at -= 1
            record = jobs.get(ids[at])
            if record is None or (states and record.state not in states):
                continue
            left -= 1
            if owner is None or record.owner == owner:
                yield FoundJob(record, ended=False)

    def _over(self, owner: str | None, states: Sequence[str], before: int | None) -> Iterator[FoundJob]:
        """Yield jobs that are over; few at a time are in memory."""
        while some := self.archive.ended_jobs(
            owner=owner, states=states, before=before, limit=_ENDED_AT_ONCE
        ):
            yield from map(_found_ended, some)
            before = some[-1].id


def _found_ended(ended: EndedJob) -> FoundJob:
    return FoundJob(decode_record(ended.record), ended=True)


def states_named(names: Sequence[str]) -> set[JobState]:
    """Return the states that people mean; ``all`` and nothing mean every state.

    Raises:  BadRequest ``state``.
    """
    states: set[JobState] = set()
    for word in names:
        plain = word.strip().lower().replace(" ", "").replace("_", "").replace("cancelled", "canceled")
        if plain in ("all", "*", ""):
            return set()
        meant = {s for s in JobState if plain in (s.value, STATE_NAMES[s].lower().replace(" ", ""))}
        if plain == "active":
            meant = {JobState.QUEUED, JobState.ENDING, *ACTIVE}
        if not meant:
            raise BadRequest(
                code="state",
                what=f"{word!r} is not a state of a job",
                fix="use Configuring, Queued, Running, Suspended, Finished, Failed, Canceled or all",
            )
        states |= meant
    return states


_FEW_ENDED = 100  # briefs of jobs that are over, among those that are kept
_PROGRESS_BYTES = 100  # bytes that count for the progress of a task of a job that is over: it is slow to read


class Briefs:
    """Remembers the briefs of large descriptions; small ones are quick to read."""

    def __init__(self, cluster: Callable[[], ClusterState]) -> None:
        self._cluster = cluster
        self._known: dict[JobId, tuple[bytes, int, Brief]] = {}

    def of(self, job: FoundJob) -> Brief:
        """Return the brief of a job."""
        if job.ended:
            return brief_of(job.record, job.spec)
        return self._remembered(job) or self._remember(job)

    def weight(self, job: FoundJob) -> int:
        """Return how many bytes must be read for the brief of a job."""
        record = job.record
        if job.ended:
            return len(record.spec) + _PROGRESS_BYTES * (
                len(record.run.tasks) if record.run is not None else 0
            )
        return 0 if self._remembered(job) is not None else len(record.spec)

    def _remembered(self, job: FoundJob) -> Brief | None:
        known = self._known.get(job.record.id)
        if known is None or known[0] is not job.record.spec or known[1] != _option(job):
            return None
        return known[2]

    def _remember(self, looked_up: FoundJob) -> Brief:
        record = looked_up.record
        brief = brief_of(record, looked_up.spec)
        if len(record.spec) > SMALL:
            self._known[record.id] = record.spec, _option(looked_up), brief
            alive = self._cluster().jobs
            if len(self._known) > 2 * len(alive) + _FEW_ENDED:
                self._known = {job: known for job, known in self._known.items() if job in alive}
        return brief


def _option(job: FoundJob) -> int:
    return job.record.run.alternative if job.record.run is not None else 0


def _with_sweeps(record: JobRecord, outcome: ParentOutcome) -> ParentOutcome:
    from headnode.core.state.corresponding import sweeps_of  # for the few jobs whose instances wait

    return replace(outcome, sweeps=sweeps_of(record))
