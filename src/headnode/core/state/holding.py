"""What a job has of one node besides its processors: how far it is there, and what it is to give up.

Only `apply_event` changes it.
"""

import msgspec

from headnode.core.model.quantities import Instant
from headnode.core.state.transitions import NodePhase, phase_target


class Holding(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of a running or suspended job on one of its nodes.

    `prolog_due` is no phase: a node may boot at any time, and then runs the prolog of the job again, however
    far the job was there.
    """

    phase: NodePhase = NodePhase.ASSIGNED
    prolog_due: bool = False  # nothing is dispatched there until the node says that it is ready
    clean_by: Instant | None = None  # while the epilog runs: when it counts as over
    recalled: int = 0  # processors that the job gives up there as they become idle


Holdings = dict[str, Holding]
"""By node.  A node of the job that is not here is as a `Holding` without anything."""

_NEW = Holding()


def phase_on(holdings: Holdings, node: str) -> NodePhase:
    """Return how far a job is on one of its nodes."""
    return holdings.get(node, _NEW).phase


def keep_holding(holdings: Holdings, node: str, holding: Holding) -> None:
    """Keep what is known of a node, if it is anything."""
    if holding == _NEW:
        holdings.pop(node, None)
    else:
        holdings[node] = holding


def set_prolog_due(holdings: Holdings, node: str, due: bool) -> None:
    """The node must say that it is ready for the job, or has said so."""
    before = holdings.get(node, _NEW)
    keep_holding(holdings, node, msgspec.structs.replace(before, prolog_due=due))


def set_recalled(holdings: Holdings, node: str, count: int) -> None:
    """The job is to give up so many processors of the node."""
    before = holdings.get(node, _NEW)
    keep_holding(holdings, node, msgspec.structs.replace(before, recalled=count))


def set_phase(
    holdings: Holdings, node: str, event: object, phase: NodePhase, clean_by: Instant | None = None
) -> None:
    """Set the phase of a job on a node.

    Raises:  Broken ``no-arrow`` when the table of transitions has no such row.
    """
    before = holdings.get(node, _NEW)
    phase = phase_target(before.phase, event, phase)
    keep_holding(holdings, node, msgspec.structs.replace(before, phase=phase, clean_by=clean_by))
