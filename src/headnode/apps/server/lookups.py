"""Finding jobs wherever they are: alive in the cluster, or over in the archive."""

from collections.abc import Sequence
from heapq import nlargest

import msgspec

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

LONGEST_PAGE = 1000
MOST_OF_A_GROUP = 20_000  # ended jobs


class Found(msgspec.Struct, frozen=True):
    """A job and its description as it is written; `ended` when it came out of the archive."""

    record: JobRecord
    spec: JobSpec
    ended: bool

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
            return Found(alive, self.cluster.written(alive), ended=False)
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

    def page(
        self, owner: str | None, states: set[JobState], before: int | None, limit: int
    ) -> tuple[list[Found], int | None]:
        """Return a page of jobs, newest id first, and where the next one begins."""
        limit = min(max(1, limit), LONGEST_PAGE)
        records = (
            record
            for record in self.cluster.jobs.values()
            if (before is None or record.id < before)
            and (owner is None or record.owner == owner)
            and (not states or record.state in states)
        )
        alive = nlargest(limit + 1, records, key=lambda record: record.id)
        final = [state.value for state in states if state.is_final]
        over: list[EndedJob] = []
        if final or not states:
            over = self.archive.ended_jobs(owner=owner, states=final, before=before, limit=limit + 1)
        both = [Found(record, decode_spec(record.spec), ended=False) for record in alive]
        both = sorted(both + [_found(job) for job in over], key=lambda found: -found.record.id)
        more = both[limit - 1].record.id if len(both) > limit else None
        return both[:limit], more


def _found(ended: EndedJob) -> Found:
    record = decode_record(ended.record)
    return Found(record, decode_spec(record.spec), ended=True)


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
