"""What becomes of attempts that are over, and when a job is forgotten on this node."""

from headnode.adapters.processes.job_journal import EndedRecord
from headnode.adapters.wire.agent_messages import AttemptResult, JobClosed
from headnode.apps.agent.job_table import JobTable, NodeJob, NodeParts
from headnode.apps.agent.results import LedgerEntry
from headnode.apps.agent.shepherd_handle import ShepherdHandle, ShepherdPhase, result_of
from headnode.core.model.quantities import JobId


class JobEndings:
    """Settles the results of attempts, and forgets jobs of which nothing is left."""

    def __init__(self, parts: NodeParts, table: JobTable) -> None:
        self._parts, self._table = parts, table

    def ended(self, tended: ShepherdHandle, records: list[EndedRecord]) -> None:
        """Settle what a shepherd recorded; a result waits for what was used on other nodes."""
        job = self._table.job(tended.job)
        for record in records:
            entry = LedgerEntry(tended.marker, record.number, result_of(record))
            targets = self._parts.launching.targets(job.id, record.key)
            if targets:
                self._hold(job, entry, targets)
            elif record.key not in job.held:
                self.settle(job.id, *entry)
            tended.live.pop(record.key, None)

    def _hold(self, job: NodeJob, entry: LedgerEntry, targets: frozenset[str]) -> None:
        """Keep a result back until it is known what its attempt used on other nodes."""
        job.held[entry.key] = entry
        self._parts.launching.attempt_over(job.id, entry.key)

        def settle(result: AttemptResult) -> None:
            if job.held.pop(entry.key, None) is not None:
                self.settle(job.id, entry.marker, entry.number, result)
                self.forget_if_over(job)

        self._parts.launching.gather(job.id, entry.result, targets, settle)

    def settle(self, job: JobId, marker: str, number: int, result: AttemptResult) -> None:
        """Take in the result of an attempt, with its number of the shepherd; 0: no shepherd gave it."""
        self._parts.launching.attempt_over(job, (result.task, result.instance, result.attempt))
        self._parts.results.take(job, LedgerEntry(marker, number, result))

    def settle_held(self, job: NodeJob) -> None:
        """Take in the results that wait for other nodes as they are: the job is closed."""
        for entry in job.held.values():
            self.settle(job.id, *entry)
        job.held.clear()

    def forget_if_over(self, job: NodeJob) -> None:
        """Drop the shepherds that are settled, and the job when it is closed and none is left.

        Before that its epilog runs.
        """
        gone = all(tended.phase is ShepherdPhase.GONE for tended in job.herd.values())
        if job.opened is None and gone and not self._parts.visits.leave(job.id):
            return
        ledger = self._parts.results.ledger
        waiting = job.held or ledger.over(job.id)
        for marker, tended in list(job.herd.items()):
            if tended.phase is ShepherdPhase.GONE and not waiting:
                self._parts.shepherds.forget(tended)
                ledger.forget_shepherd(marker)
                del job.herd[marker]
        if job.opened is None and not job.herd and not waiting:
            self._table.jobs.pop(job.id, None)
            if job.id < 0:
                self._parts.places.forget_output(job.id)
            self._parts.send(JobClosed(job=job.id))
            self._table.tell_if_empty()
