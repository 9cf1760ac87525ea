"""Small clusters, written as values; they are for everybody who tests a policy."""

from headnode.testing.scenes import (
    INF,
    MINUTE,
    NOW,
    asks,
    node,
    on_gpus,
    part,
    reserved,
    runs,
    scene,
    start,
    started,
    turn_of,
)

__all__ = [
    "INF",
    "MINUTE",
    "NOW",
    "asks",
    "node",
    "on_gpus",
    "part",
    "reserved",
    "runs",
    "scene",
    "start",
    "started",
    "turn_of",
]
