"""What a shepherd tells its agent, and what the agent tells a shepherd.

A shepherd runs as the job's user: what it says is checked like anything from outside.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from headnode.adapters.processes.job_journal import EndedRecord, Key
from headnode.core.model.errors import BadRequest

LARGEST = 64 * 1024 * 1024  # bytes


class Introduction(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """Who it is, what waits, what runs (and since when), what is over and not known to the head."""

    job: int
    marker: str
    queued: list[Key]
    running: list[tuple[int, int, int, float]]
    ended: list[EndedRecord]


class ToldStarted(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """These run: task, instance, attempt, since when."""

    begun: list[tuple[int, int, int, float]]


class ToldEnded(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """These are over."""

    ended: list[EndedRecord]


Told = Introduction | ToldStarted | ToldEnded
_decoder: msgspec.json.Decoder[Told] = msgspec.json.Decoder(Told)


def read_told(data: bytes) -> Told:
    """Read one message of a shepherd.

    Raises:  BadRequest ``shepherd-message``.
    """
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise BadRequest(
            code="shepherd-message", what=f"a shepherd said what is not understood: {error}"
        ) from None


def run_message(
    task: int, lane: str, shared: dict[str, str], limit: float | None, items: Sequence[Any]
) -> bytes:
    """Run these, one after the other; `limit` in seconds.

    An item is [instance, attempt, argv, its own variables, work directory, stdin, stdout, stderr, captured].
    """
    return _encode(["run", task, lane, shared, limit, items])


def stop_message(keys: Sequence[Key], grace: float) -> bytes:
    """Stop these; `grace` in seconds."""
    return _encode(["stop", keys, grace])


def deadline_message(deadline: float | None, grace: float) -> bytes:
    """Say when the job's run time limit is over (seconds since 1970), and the grace for ending things."""
    return _encode(["deadline", deadline, grace])


def told_message(first: int, last: int) -> bytes:
    """Say that the results with these numbers are known to the head for ever."""
    return _encode(["told", first, last])


def close_message() -> bytes:
    """Say that the job is over."""
    return _encode(["close"])


def _encode(message: list[Any]) -> bytes:
    return msgspec.json.encode(message)
