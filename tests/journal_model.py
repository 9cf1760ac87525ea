"""The model of an archive and of predictions: what every journal must answer, by lists and dictionaries."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from headnode.adapters.journal.event_table import (
    ALLOCATION_EVENTS,
    OF_JOB,
    Drop,
    DropAll,
    DropUnfinished,
    Put,
    changes,
    kind_of,
)
from headnode.adapters.journal.memory import MemoryJournal
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.events import Event, JobsPurged, ParameterSet, node_of
from headnode.core.state.job_events import InstanceEnd, JobEvent, JobStarted
from headnode.engine.ports import MAX_PREDICTIONS, EndedJob, Prediction, PurgeStep


class ModelJournal(MemoryJournal):
    """A `Journal`, an `Archive` and `Predictions` made of lists and dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[JobId, list[Event]] = {}
        self._ended: dict[JobId, EndedJob] = {}
        self._ended_ids: list[JobId] = []  # ascending
        self._counts: Counter[tuple[str, str]] = Counter()  # (owner, state) -> jobs
        self._instances: dict[JobId, dict[int, dict[int, InstanceEnd]]] = {}  # job -> task -> instance
        self._predictions: dict[JobId, Prediction] = {}  # in the order they came
        self._purging: set[JobId] = set()
        self._purged: set[int] = set()  # numbers of events

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        """Record the events, take `revived` jobs out of the archive, put `ended` ones in."""
        number = super().append(events)
        found = self._told
        for event in events:
            if kind_of(event) == OF_JOB and isinstance(event, JobEvent):
                if event.job in found:
                    found[event.job].append(event)
                else:
                    found[event.job] = [event]
                if self._predictions and isinstance(event, JobStarted):
                    self._judge(event)
        self._project(events)
        for event in events:
            if isinstance(event, JobsPurged):
                for job in event.jobs:
                    self._take_out(job)
                self._purging |= set(event.jobs)
        for job in revived:
            self._take_out(job)
            self._purging.discard(job)
        for one in ended:
            self._put_in(one)
        return number

    def replay(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Yield (number, event) for every event with a number greater than `after` that was not purged."""
        return (each for each in super().replay(after) if each[0] not in self._purged)

    def purge(self, most: int) -> PurgeStep:
        """Remove what is left of purged jobs, up to the older of the snapshots."""
        covered = min(number for number, _ in self._snapshots) if len(self._snapshots) > 1 else 0
        waits_for = 0
        for job in sorted(self._purging):
            events = [
                number for number, event in self.replay() if isinstance(event, JobEvent) and event.job == job
            ]
            self._purged |= {number for number in events if number <= covered}
            self._told[job] = [
                self._events[number - 1]
                for number in events
                if number > covered and kind_of(self._events[number - 1]) == OF_JOB
            ]
            self._instances.pop(job, None)
            self._predictions.pop(job, None)
            if left := [number for number in events if number > covered]:
                waits_for = max(waits_for, *left)
            else:
                self._purging.discard(job)
        return PurgeStep(1, waits_for)

    def damage(self) -> tuple[str, ...]:
        """Return nothing: memory is not damaged."""
        return ()

    def ended_job(self, job: JobId) -> EndedJob | None:
        """Return one ended job."""
        return self._ended.get(job)

    def ended_jobs(
        self, *, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        """Return up to `limit` ended jobs with ids below `before`, newest id first; no states means all."""
        found: list[EndedJob] = []
        end = len(self._ended_ids) if before is None else bisect_left(self._ended_ids, before)
        for at in range(end - 1, -1, -1):
            if len(found) >= limit:
                break
            job = self._ended[self._ended_ids[at]]
            if (owner is None or job.owner == owner) and (not states or job.state in states):
                found.append(job)
        return found

    def ended_of_group(
        self, group: str, *, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        """Return up to `limit` ended jobs of a group with ids below `before`, newest id first."""
        found = [
            job
            for job in self._ended.values()
            if group
            and job.job_group == group
            and owner in (None, job.owner)
            and (not states or job.state in states)
            and (before is None or job.id < before)
        ]
        return sorted(found, key=lambda job: -job.id)[: max(limit, 0)]

    def ended_after(self, after: int, limit: int) -> list[EndedJob]:
        """Return up to `limit` ended jobs with ids above `after`, in the order of their ids."""
        begin = bisect_right(self._ended_ids, after)
        return [self._ended[job] for job in self._ended_ids[begin : begin + max(limit, 0)]]

    def allocation_events(self, first: JobId, last: JobId) -> list[Event]:
        """Return by what the jobs `first` to `last` got and gave back processors, each job's in order."""
        jobs = sorted(job for job in self._told if first <= job <= last)
        return [event for job in jobs for event in self._told[job] if isinstance(event, ALLOCATION_EVENTS)]

    def count_ended(self, *, owner: str | None) -> dict[str, int]:
        """Return how many jobs ended in each state."""
        counts: Counter[str] = Counter()
        for (who, state), jobs in self._counts.items():
            if owner in (None, who) and jobs:
                counts[state] += jobs
        return dict(counts)

    def instance(self, job: JobId, task: int, instance: int) -> InstanceEnd | None:
        """Return how the newest attempt of one instance ended."""
        return self._rows(job, task).get(instance)

    def instances(self, job: JobId, task: int, after: int, limit: int) -> list[InstanceEnd]:
        """Return the ended instances of a task with numbers above `after`, in order."""
        rows = self._rows(job, task)
        numbers = sorted(number for number in rows if number > after)
        return [rows[number] for number in numbers[: max(limit, 0)]]

    def history(self, job: JobId, limit: int) -> list[Event]:
        """Return the newest events of a job but those of its instances, oldest first."""
        return self._told.get(job, [])[-limit:] if limit > 0 else []

    def job_events(self, job: JobId, after: int, limit: int) -> list[tuple[int, Event]]:
        """Return the first events of a job and of its instances after a number, with their numbers."""
        found: list[tuple[int, Event]] = [
            (number, event)
            for number, event in self.replay(after)
            if isinstance(event, JobEvent) and event.job == job
        ]
        return found[: max(limit, 0)]

    def event_span(self, job: JobId) -> tuple[int, int] | None:
        """Return the numbers of the first and the newest event in the history of a job; None: it has none."""
        numbers = [
            number
            for number, event in self.replay()
            if isinstance(event, JobEvent) and event.job == job and kind_of(event) == OF_JOB
        ]
        return (numbers[0], numbers[-1]) if numbers else None

    def node_history(self, node: str, limit: int) -> list[Event]:
        """Return the newest events of a node, oldest first."""
        found = [event for event in self._events if node_of(event) == node]
        return found[-limit:] if limit > 0 else []

    def parameter_changes(self) -> Iterator[ParameterSet]:
        """Yield every change of a cluster parameter, in order."""
        yield from (event for event in self._events if isinstance(event, ParameterSet))

    def keep_predictions(self, predictions: Sequence[Prediction]) -> None:
        """Keep the predictions."""
        for each in predictions:
            self._predictions.setdefault(each.job, each)
        for job in list(islice(self._predictions, max(0, len(self._predictions) - MAX_PREDICTIONS))):
            del self._predictions[job]

    def prediction(self, job: JobId) -> Prediction | None:
        """Return what was predicted of one job, if it is known still."""
        return self._predictions.get(job)

    def judged_predictions(
        self, since: Instant, limit: int, before: tuple[Instant, JobId] | None = None
    ) -> list[Prediction]:
        """Return the predictions of up to `limit` jobs that started since then, newest start first."""
        judged = [
            (each.started, job, each)
            for job, each in self._predictions.items()
            if each.started is not None and each.started >= since
        ]
        found = sorted(judged, key=lambda one: one[:2], reverse=True)
        return [each for at, job, each in found if before is None or (at, job) < before][: max(limit, 0)]

    def _judge(self, start: JobStarted) -> None:
        made = self._predictions.get(start.job)
        if made is not None and made.started is None:
            self._predictions[start.job] = msgspec.structs.replace(made, started=start.at)

    def _put_in(self, job: EndedJob) -> None:
        self._take_out(job.id)
        self._ended[job.id] = job
        insort(self._ended_ids, job.id)
        self._counts[job.owner, job.state] += 1

    def _take_out(self, job: JobId) -> None:
        gone = self._ended.pop(job, None)
        if gone is not None:
            del self._ended_ids[bisect_left(self._ended_ids, job)]
            self._counts[gone.owner, gone.state] -= 1

    def _project(self, events: Sequence[Event]) -> None:
        for change in changes(events):
            match change:
                case Put(job, ended):
                    self._instances.setdefault(job, {}).setdefault(ended.task, {})[ended.instance] = ended
                case Drop(job, task, first, last):
                    _drop(self._rows(job, task), range(first, last + 1))
                case DropUnfinished(job):
                    for rows in self._instances.get(job, {}).values():
                        _drop(rows, [number for number, row in rows.items() if row.state != "finished"])
                case DropAll(job):
                    self._instances.pop(job, None)

    def _rows(self, job: JobId, task: int) -> dict[int, InstanceEnd]:
        return self._instances.get(job, {}).get(task, {})


def _drop(rows: dict[int, InstanceEnd], numbers: Sequence[int]) -> None:
    wanted = numbers if len(numbers) < len(rows) else [number for number in rows if number in numbers]
    for number in wanted:
        rows.pop(number, None)
