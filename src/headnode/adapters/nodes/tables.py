"""What a node has, in a few bytes: a heartbeat says them, and the head sees whether all is as it believes."""

import hashlib
import zlib
from collections.abc import Iterable

import msgspec

from headnode.adapters.nodes import messages as m
from headnode.core.model.quantities import JobId

Piece = tuple[JobId, int, int, int, bool]
"""An attempt: job, task, instance, attempt, and whether it is known to have begun."""

_DIGEST = 8  # bytes: a lost message is to be noticed, nobody is to be kept from lying about himself

_encode = msgspec.msgpack.Encoder().encode


def mark_of(opened: m.OpenJob) -> int:
    """Return what tells one description of an open job from another."""
    return zlib.crc32(_encode(opened))


def check_text(program: str, every: float) -> str:
    """Return a health check in words that can be compared: its interval in seconds and its program."""
    return f"{every:g} {program}" if program else ""


def digest_of(
    attempts: Iterable[Piece], opened: Iterable[tuple[JobId, int]], suspended: Iterable[JobId], check: str
) -> bytes:
    """Return what two tables have in common only if they are equal, whatever their order.

    `suspended` are the jobs of which nothing may run, `check` the health check.
    """
    table = (sorted(attempts), sorted(opened), sorted(suspended), check)
    return hashlib.blake2b(_encode(table), digest_size=_DIGEST).digest()


def digest_of_holdings(holdings: m.Holdings) -> bytes:
    """Return the digest of what a node says it has.  What is over and not acknowledged had begun.

    Jobs below 0 are commands of people, which the head remembers only as long as they are connected.
    """
    live = [(x.job, x.task, x.instance, x.attempt, x.running) for x in holdings.live]
    ended = [(x.job, x.task, x.instance, x.attempt, True) for x in holdings.ended]
    opened = [(job, mark) for job, mark in holdings.opened if job > 0]
    return digest_of(live + ended, opened, holdings.suspended, holdings.check)
