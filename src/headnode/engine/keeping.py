"""What is kept for jobs by exit code 2, as the journal remembers it over a restart of the head.

Source: HPC filters, exit code 2: the candidate resources are reserved for the job until it passes.
"""

from collections.abc import Iterator

from headnode.core.filtering.activation import Verdict
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.allocating import exclusive_holder
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import FilterWord, JobRecord
from headnode.core.model.quantities import Instant, JobId
from headnode.engine.offer import Offer, Stage, in_line, units_of

AT_ONCE = Instant(0.0)


def offers_kept(cluster: Cluster) -> Iterator[Offer]:
    """Yield what is kept for each job, in the order of the queue, as far as it is free.

    What was given up without a word in the journal, as when its node was away for a while, others may have.
    """
    waiting = [cluster.jobs[job] for job in cluster.filtered]
    taken: dict[str, set[JobId]] = {}
    counts: dict[str, int] = {}
    for record in sorted(waiting, key=cluster.turn):
        word = record.filtered
        if word is None or word.verdict != Verdict.KEEP_RESOURCES.value or not word.kept:
            continue
        if not in_line(cluster, record) or not _is_free(cluster, record, word, counts, taken):
            continue
        for node, count in word.kept:
            counts[node] = counts.get(node, 0) + count
            taken.setdefault(node, set()).add(record.id)
        yield _offer(cluster, record, word)


def _is_free(
    cluster: Cluster,
    record: JobRecord,
    word: FilterWord,
    counts: dict[str, int],
    taken: dict[str, set[JobId]],
) -> bool:
    alone = cluster.request(record).option(word.option).exclusive
    for node, count in word.kept:
        others = taken.get(node, set())
        if count + counts.get(node, 0) > len(cluster.free_on(node)):
            return False
        if exclusive_holder(cluster, node) is not None or (alone and (others or cluster.holders.get(node))):
            return False
        if any(cluster.request(cluster.jobs[other]).exclusive for other in others):
            return False
    return True


def _offer(cluster: Cluster, record: JobRecord, word: FilterWord) -> Offer:
    giving = c.StartJob(job=record.id, shares=word.kept, option=word.option, parts=word.parts)
    return Offer(
        number=0,
        job=record.id,
        giving=giving,
        units=units_of(cluster, record, giving),
        request=cluster.request(record),
        firm=True,
        stage=Stage.KEPT,
        again=AT_ONCE,
    )
