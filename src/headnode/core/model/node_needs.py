"""What is demanded of every node that serves a job, or one task of it.

Source: SSS 3.1.0, "Node", "Feature", Tables 25-2 and 25-4 (Architecture, OperatingSystem, Memory, Disk);
grid, requirements (hostname, platform, os_name, ram_size, virtual_size, cpu_hz, smp_size).
"""

import msgspec


class NodeNeeds(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """Nothing said means that any node will do.  Words compare without regard to case.

    Memory, disk and swap are in MB that the node has in all, speed in MHz.
    """

    names: tuple[str, ...] = ()  # the node is one of these; empty: any
    excluded: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()  # regular expressions: the whole name matches at least one
    excluded_patterns: tuple[str, ...] = ()  # and it matches none of these
    features: tuple[tuple[str, ...], ...] = ()  # of each inner tuple the node has at least one
    feature_patterns: tuple[str, ...] = ()  # for each of these, one of its features matches all of it
    lacking: tuple[str, ...] = ()  # features that it must not have
    architectures: tuple[str, ...] = ()  # one of these; empty: any
    systems: tuple[str, ...] = ()  # operating systems: one of these
    minimum_memory: int = 0
    minimum_disk: int = 0
    minimum_swap: int = 0
    minimum_virtual: int = 0  # memory and swap together
    minimum_speed: int = 0
    minimum_processors: int = 0


ANY_NODE = NodeNeeds()
