"""Nodes without machines: they hold what they are told to run until somebody says how it ends."""

from collections.abc import Iterator, Sequence

import msgspec

from headnode.core.model.outcome import AttemptOfTask, AttemptOutcome, Ending
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import AttemptReport
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesDispatched, InstancesStopping, InstanceStart, NodeCores
from headnode.core.state.report import ReportEnded, ReportStarted
from headnode.core.state.suspend import ReportSuspended
from headnode.core.state.suspension_events import JobSuspending


class Held(msgspec.Struct, frozen=True):
    """One attempt that a node has."""

    job: JobId
    task: int
    instance: int
    attempt: int
    place: NodeCores
    after: tuple[AttemptOfTask, ...] = ()  # of parents: it starts when they have ended well


class InProcessNodes:
    """An `Effects` that remembers dispatched attempts instead of running them."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int, int], Held] = {}
        self._stopping: set[tuple[int, int, int]] = set()
        self._suspending: dict[JobId, tuple[int, tuple[str, ...]]] = {}

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Take over what was dispatched; note what is to be stopped, and what is to stand still."""
        for event in events:
            if isinstance(event, InstancesDispatched):
                for instance, attempt in event.attempts:
                    held = Held(event.job, event.task, instance, attempt, event.placement, event.after)
                    self._held[event.job, event.task, instance] = held
            elif isinstance(event, InstancesStopping):
                self._stopping |= {(event.job, event.task, n) for n in event.instances}
            elif isinstance(event, JobSuspending):
                record = cluster.jobs.get(event.job)
                nodes = tuple(record.run.places) if record is not None and record.run is not None else ()
                self._suspending[event.job] = (event.number, nodes)

    def running(self) -> list[Held]:
        """Return what the nodes have, in the order it came."""
        return list(self._held.values())

    def forget(self) -> None:
        """Have nothing any more, as after a reboot."""
        self._held.clear()
        self._stopping.clear()

    def stopping(self) -> Iterator[Held]:
        """Yield what the nodes were told to stop and still have."""
        return (self._held[key] for key in sorted(self._stopping) if key in self._held)

    def stopped(self, job: JobId) -> list[ReportSuspended]:
        """Return the reports that everything of a job stands still, one of each of its nodes."""
        number, nodes = self._suspending.get(job, (0, ()))
        return [ReportSuspended(node=node, job=job, number=number) for node in nodes]

    def started(self, held: Held, at: Instant) -> ReportStarted:
        """Return the report that an attempt runs."""
        begun = InstanceStart(held.task, held.instance, held.attempt, at)
        return ReportStarted(node=held.place[0][0], job=held.job, starts=(begun,))

    def ended(
        self,
        held: Held,
        at: Instant,
        *,
        kind: Ending = "exited",
        exit_code: int | None = 0,
        started: Instant | None = None,
        trouble: str = "",
    ) -> ReportEnded:
        """Return the report that an attempt is over; the node has it no more."""
        key = (held.job, held.task, held.instance)
        if self._held.get(key) == held:
            del self._held[key]
            self._stopping.discard(key)
        report = AttemptReport(
            task=held.task,
            instance=held.instance,
            attempt=held.attempt,
            outcome=AttemptOutcome(
                kind,
                exit_code if kind == "exited" else None,
                started=started,
                ended=at,
                fault=trouble,
            ),
        )
        return ReportEnded(node=held.place[0][0], job=held.job, reports=(report,))
