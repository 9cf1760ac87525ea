"""The activation filters that each job passes, and who of those they keep waiting blocks the queue.

Source: HPC filters, "Cluster-wide and job template filters", and exit code 1 of its activation filters.
"""

from headnode.core.filtering.activation import Verdict
from headnode.core.filtering.registration import Chain
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.filters import activation_filters, activation_rules
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.quantities import JobId
from headnode.engine.offer import in_line

Rules = tuple[tuple[str, str], ...]


class Chains:
    """Works out the chain of a job once for each of its descriptions, as long as the rules stay as they are.

    `rules` are what says which filters there are, as of the last `refresh`; none: nobody is asked anything.
    """

    def __init__(self) -> None:
        self.rules: Rules = ()
        self._known: dict[JobId, tuple[bytes, Rules, Chain]] = {}

    def refresh(self, cluster: Cluster) -> None:
        """Look which filters the cluster and its templates have now."""
        rules = activation_rules(cluster)
        if rules != self.rules:
            self.rules = rules

    def of(self, cluster: Cluster, record: JobRecord) -> Chain:
        """Return the activation filters of a job."""
        if not self.rules:
            return ()
        known = self._known.get(record.id)
        if known is None or known[0] is not record.spec or known[1] is not self.rules:
            if len(self._known) > 2 * len(cluster.jobs) + 64:
                self._known = {job: kept for job, kept in self._known.items() if job in cluster.jobs}
            chain = activation_filters(cluster, record)
            known = self._known[record.id] = (record.spec, self.rules, chain)
        return known[2]

    def blocker(self, cluster: Cluster) -> JobRecord | None:
        """Return the job behind which others of its priority and below must wait; of several the first."""
        if not cluster.filtered or not self.rules:
            return None
        blocking = [
            record
            for job in cluster.filtered
            if (record := cluster.jobs[job]).filtered is not None
            and record.filtered.verdict == Verdict.BLOCK_QUEUE.value
            and in_line(cluster, record)
            and self.of(cluster, record)
        ]
        return min(blocking, key=cluster.turn, default=None)
