"""Finding jobs wherever they are: alive in the cluster, or over in the archive."""

from collections.abc import Iterator, Sequence
from heapq import merge, nlargest
from itertools import islice

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.groups import present
from headnode.core.lifecycle.parents import Fate, fate_of
from headnode.core.lifecycle.records import JobRecord, decode_record, decode_spec, taken
from headnode.core.lifecycle.states import ACTIVE, PEOPLE_SAY, JobState
from headnode.core.model.dependencies import parents
from headnode.core.model.errors import BadRequest, NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.engine.engine import Engine
from headnode.engine.ports import Archive, EndedJob

_AT_ONCE = 50  # ended jobs that are read from the archive in one step
MOST_OF_A_GROUP = 20_000  # ended jobs


class Found:
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
        return taken(self.record, self.spec)


class Lookups:
    """Reads jobs, whether alive or over."""

    def __init__(self, engine: Engine, archive: Archive) -> None:
        self._engine = engine
        self.archive = archive

    @property
    def cluster(self) -> Cluster:
        """Return the cluster as it is now; recovery replaces it, so ask each time."""
        return self._engine.cluster

    def job(self, job: int) -> Found:
        """Return a job.

        Raises:  NotFound ``no-such-job``.
        """
        alive = self.cluster.jobs.get(JobId(job))
        if alive is not None:
            return Found(alive, ended=False)
        ended = self.archive.ended_job(JobId(job))
        if ended is None:
            raise NotFound(code="no-such-job", what=f"there is no job {job}", fix="see `hn job list /all`")
        return _found(ended)

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
        """Return the jobs that a group has now, in the order of their ids; `owner` None means all owners'."""
        ended = self.archive.ended_of_group(name, owner=owner, states=(), before=None, limit=MOST_OF_A_GROUP)
        alive = [
            record
            for record in self.cluster.jobs.values()
            if record.group == name and owner in (None, record.owner)
        ]
        return present([*alive, *(decode_record(job.record) for job in ended)])

    def ended_parents(self, *specs: JobSpec) -> dict[int, Fate]:
        """Return what became of those jobs that are over of all that these depend on."""
        found = {}
        for parent in {parent for spec in specs for parent in parents(spec)}:
            ended = self.archived(parent)
            if ended is not None:
                found[parent] = fate_of(ended)
        return found

    def skipped_for(self, record: JobRecord) -> tuple[JobRecord, ...]:
        """Return the jobs that were canceled for the end of a job, and those for theirs, and so on."""
        found: dict[int, JobRecord] = {}
        ahead = list(record.skips)
        while ahead:
            job = ahead.pop()
            one = None if job in found else self.archived(job)
            if one is not None and one.skipped:
                found[job] = one
                ahead += one.skips
        return tuple(found.values())

    def newest(
        self, owner: str | None, states: set[JobState], before: int | None, most: int
    ) -> Iterator[Found]:
        """Yield up to `most` jobs with ids below `before`, newest id first; no states means all."""
        records = (
            record
            for record in self.cluster.jobs.values()
            if (before is None or record.id < before)
            and (owner is None or record.owner == owner)
            and (not states or record.state in states)
        )
        alive = [
            Found(record, ended=False) for record in nlargest(most, records, key=lambda record: record.id)
        ]
        final = [state.value for state in states if state.is_final]
        over = self._over(owner, final, before) if final or not states else iter(())
        yield from islice(merge(alive, over, key=lambda found: -found.record.id), most)

    def _over(self, owner: str | None, states: Sequence[str], before: int | None) -> Iterator[Found]:
        """Yield jobs that are over; few at a time are in memory."""
        while some := self.archive.ended_jobs(owner=owner, states=states, before=before, limit=_AT_ONCE):
            yield from map(_found, some)
            before = some[-1].id


def _found(ended: EndedJob) -> Found:
    return Found(decode_record(ended.record), ended=True)


def states_named(words: Sequence[str]) -> set[JobState]:
    """Return the states that people mean; ``all`` and nothing mean every state.

    Raises:  BadRequest ``state``.
    """
    found: set[JobState] = set()
    for word in words:
        plain = word.strip().lower().replace(" ", "").replace("_", "").replace("cancelled", "canceled")
        if plain in ("all", "*", ""):
            return set()
        meant = {s for s in JobState if plain in (s.value, PEOPLE_SAY[s].lower().replace(" ", ""))}
        if plain == "active":
            meant = {JobState.QUEUED, JobState.ENDING, *ACTIVE}
        if not meant:
            raise BadRequest(
                code="state",
                what=f"{word!r} is not a state of a job",
                fix="use Configuring, Queued, Running, Suspended, Finished, Failed, Canceled or all",
            )
        found |= meant
    return found
