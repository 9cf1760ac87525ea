"""Staged files of attempts at other schedulers: what is told of them, and how far they are."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from headnode.adapters.batch.orders import FilesToStage
from headnode.adapters.nodes.event_dispatch import storage_shares, transfer_rules
from headnode.adapters.wire.agent_messages import AttemptTransfers
from headnode.core.batch.attempt import ForeignAttempt
from headnode.core.batch.dialect import AttemptPlace
from headnode.core.batch.staged_files import SCRATCH, TransferProgress
from headnode.core.model.quantities import JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.engine.settings import Settings


def files_to_stage(attempt: ForeignAttempt, cluster: ClusterState, state: Path) -> FilesToStage | None:
    """Return what is transferred for an attempt; None if it stages no files."""
    if not attempt.stages:
        return None
    rules = transfer_rules(Settings(cluster.parameters), storage_shares(cluster))
    plan = attempt.transfers(
        root=attempt.resource.directory or attempt.home,
        base=attempt.base,
        marker=attempt.marker,
        scratch=SCRATCH,
        home=attempt.home,
        timeout=rules.timeout,
        networks=rules.networks,
        at_once=rules.per_host,
    )
    incoming, outgoing = plan.pop("in"), plan.pop("out")
    encode = msgspec.json.encode
    return FilesToStage(
        order=plan,
        incoming=encode(incoming),
        outgoing=encode(outgoing),
        has_results=bool(outgoing),
        per_job=rules.at_once,
        per_node=rules.per_node,
        per_storage=rules.per_storage,
        state=str(state),
    )


class TransfersThere:
    """How far the files of the attempts at one resource are, as a node says it of its own."""

    def __init__(self) -> None:
        self._known: dict[tuple[JobId, int, int], AttemptTransfers] = {}

    @property
    def transfers(self) -> Mapping[tuple[JobId, int, int], AttemptTransfers]:
        """How far they are, by job, task and instance."""
        return self._known

    def note(self, key: AttemptPlace, progress: TransferProgress) -> bool:
        """Remember how far the files of an attempt are; return whether they did not go this way before."""
        _, task, instance, attempt = key
        of = (JobId(key.job), task, instance)
        before, self._known[of] = self._known.get(of), AttemptTransfers(task, instance, attempt, *progress)
        return before is None or (before.attempt, before.direction) != (attempt, progress.direction)

    def forget(self, key: AttemptPlace) -> None:
        """The attempt is over."""
        self._known.pop((JobId(key.job), key.task, key.instance), None)
