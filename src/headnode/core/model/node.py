"""A node: a single named host in the cluster.

Source: CCS, "Terms and definitions" and "Node status and life cycle".
"""

from enum import StrEnum

import msgspec


class NodeState(StrEnum):
    """Where a node is in its life."""

    PENDING = "pending"  # added, not yet approved by an administrator
    READY = "ready"  # takes jobs
    PAUSED = "paused"  # running jobs go on; no new ones but an administrator's
    UNREACHABLE = "unreachable"  # the head cannot talk to it; it was ready
    LOST_PAUSED = "lost-paused"  # the same; it was paused, and will be again
    REMOVED = "removed"


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node's agent says of its machine.  Memory in MB, speed in MHz."""

    name: str
    processors: int
    sockets: int = 1
    memory: int = 0
    speed: int = 0
    groups: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    architecture: str = ""
    system: str = ""
    disk: int = 0  # MB where tasks may write; 0: not said
    swap: int = 0  # MB
    boot_id: str = ""
    serves: str = ""  # the one user whose jobs it can run; empty: it runs those of everybody
    machine_processors: tuple[int, ...] = ()  # what the machine calls them, in order; empty: not known
    control_groups: str = ""  # v2, v1 or none; empty: not said
    enforced: tuple[str, ...] = ()  # what the system keeps for each task: memory, processes, processors
    version: str = ""  # of Headnode there; empty: not said
    address: str = ""  # where its agent dials from, as the head sees it; empty: the head's own machine
    hooks: bool = True  # its agent knows of prologs, epilogs and node filters; one of before does not
