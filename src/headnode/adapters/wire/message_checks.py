"""What a node says, held against the bounds, and the digest of what it has, by which both sides compare."""

import hashlib
import zlib
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from headnode.adapters.wire.agent_messages import (
    PROTOCOL,
    AttemptResult,
    AttemptTransfers,
    Heartbeat,
    Hello,
    Holdings,
    Launch,
    LaunchData,
    LaunchesEnded,
    OutputRead,
    Staging,
    Started,
    Table,
)
from headnode.adapters.wire.messages import FromAgent, OpenJob
from headnode.core.model import bounds as b
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.faults import FAULTS
from headnode.core.model.node import facts_objection, outcome_objection, time_objection, usage_objection
from headnode.core.model.outcome import AttemptOutcome, RemoteUsage
from headnode.core.model.quantities import JobId

MAX_LOAD = 1e7  # more than the threads that Linux can have


class Nonsense(Exception):
    """A node has reported something impossible; the text describes it."""


class StatedProtocol(msgspec.Struct, frozen=True):
    """The protocol that a greeting states, whatever else is in it; those of development have other fields."""

    protocol: int = PROTOCOL


_protocol_decoder = msgspec.msgpack.Decoder(StatedProtocol)
_decoder: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)


def stated_protocol(data: bytes) -> int:
    """Return the protocol of a greeting; that of this version if it states none, or is none."""
    try:
        return _protocol_decoder.decode(data).protocol
    except UNREADABLE:
        return PROTOCOL


def read_message(data: bytes, now: float) -> FromAgent:
    """Return the message of a node.

    Raises:  Nonsense when it is none, or says what cannot be.
    """
    try:
        message = _decoder.decode(data)
    except UNREADABLE as error:
        raise Nonsense(f"it sent no valid message: {error}") from None
    if problem := _objection(message, now):
        raise Nonsense(problem)
    return message


def _objection(message: FromAgent, now: float) -> str:
    match message:
        case Hello(facts=facts):
            return facts_objection(facts) or _holdings_objection(message, now)
        case Table():
            return _holdings_objection(message, now)
        case Started(started=begun):
            return next(filter(None, (time_objection(each.at, now) for each in begun)), "")
        case Staging(transfers=transfers):
            return next(filter(None, (_transfer_objection(each, now) for each in transfers)), "")
        case Heartbeat(lease=lease) if not 0 <= lease <= b.RUN_TIME.most:
            return f"a lease of {lease:g} s"
        case Heartbeat(load=float() as load) if not 0 <= load < MAX_LOAD:
            return f"a load of {load:g}"
        case OutputRead(size=size) if not 0 <= size <= b.BYTES_MOVED.most:
            return f"a file of {size} bytes"
        case Launch(temporary=temporary) if len(temporary) > b.NAME.most:
            return f"a temporary directory with a name of {len(temporary):,} characters"
        case Launch(command=command, environment=environment):
            return launch_objection(command, environment)
        case LaunchData(code=code) if not (b.CODE.least or 0) <= code <= b.CODE.most:
            return f"an exit status of {code}"
        case LaunchesEnded(usage=RemoteUsage(usage=usage)):
            return usage_objection(usage)
    return ""


def _transfer_objection(transfers: AttemptTransfers, now: float) -> str:
    most = b.BYTES_MOVED.most
    if not all(
        0 <= number <= most
        for number in (transfers.files, transfers.of_files, transfers.size, transfers.of_size)
    ):
        return f"transfers of {transfers.size} bytes"
    if len(transfers.waits_for) > b.NAME.most:
        return f"a host of {len(transfers.waits_for):,} characters"
    return time_objection(transfers.at, now)


def _holdings_objection(holdings: Holdings, now: float) -> str:
    times = (time_objection(each.since, now) for each in holdings.live)
    return next(filter(None, times), "")


def launch_objection(command: str, environment: dict[str, str]) -> str:
    """Return why a command cannot be launched on another node; empty if it can.

    An agent asks this, too: its users write both, and the head drains a node that sends what cannot be.
    """
    if len(command.encode()) > b.COMMAND.most:
        return f"a command line of {len(command):,} characters"
    if len(environment) > b.LAUNCHES.most:
        return f"a command with {len(environment):,} variables"
    return ""


def checked_results(results: tuple[AttemptResult, ...], now: float) -> tuple[tuple[AttemptResult, ...], str]:
    """Return the results as they can be believed, and what was impossible in the first that cannot; or "".

    Sentences are cut; of what is impossible nothing is left but that the attempt is lost.
    """
    found, first = [], ""
    for result in results:
        problem = outcome_objection(result.outcome, now)
        found.append(_lost(result, problem) if problem else _cut(result))
        first = first or problem
    return tuple(found), first


def _lost(result: AttemptResult, problem: str) -> AttemptResult:
    message = f"the node sent an invalid report ({problem}), so the result of the task is unknown"
    return replace(result, outcome=AttemptOutcome("lost", message=message))


def _cut(result: AttemptResult) -> AttemptResult:
    outcome = result.outcome
    known = outcome.fault in FAULTS or not outcome.fault
    if len(outcome.message) <= b.WORDS.most and known:
        return result
    message, trouble = outcome.message[: b.WORDS.most], outcome.fault if known else ""
    return replace(result, outcome=outcome._replace(message=message, fault=trouble))


Piece = tuple[JobId, int, int, int, bool]
"""An attempt: job, task, instance, attempt, and whether it is known to have begun."""

_DIGEST = 8  # bytes: a lost message is to be noticed, nobody is to be kept from lying about himself

_encode = msgspec.msgpack.Encoder().encode


def job_mark(opened: OpenJob) -> int:
    """Return what tells one description of an open job from another."""
    return zlib.crc32(_encode(opened))


def health_check_text(program: str, every: float) -> str:
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


def digest_of_holdings(holdings: Holdings) -> bytes:
    """Return the digest of what a node says it has.  What is over and not acknowledged had begun.

    Jobs below 0 are commands of people, which the head remembers only as long as they are connected.
    """
    live = [(x.job, x.task, x.instance, x.attempt, x.running) for x in holdings.live]
    ended = [(x.job, x.task, x.instance, x.attempt, True) for x in holdings.ended]
    opened = [(job, mark) for job, mark in holdings.opened if job > 0]
    return digest_of(live + ended, opened, holdings.suspended, holdings.health_check)
