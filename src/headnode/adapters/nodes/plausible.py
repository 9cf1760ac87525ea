"""What a node says, held against the bounds: nothing impossible gets past the connection.

A result with an impossible number becomes the loss of its attempt, with the reason, and is acknowledged, or
the node would repeat it for ever.  Any other message with something impossible in it ends the connection.
In both cases the node is drained.
"""

import msgspec
from msgspec.structs import replace

from headnode.adapters.nodes import messages as m
from headnode.core.model import bounds as b
from headnode.core.model.faults import FAULTS
from headnode.core.model.node_bounds import facts_objection, result_objection, time_objection
from headnode.core.model.unreadable import UNREADABLE

MOST_LOAD = 1e7  # more than the threads that Linux can have


class Nonsense(Exception):
    """A node has said what cannot be; the text says what."""


_decoder: msgspec.msgpack.Decoder[m.FromAgent] = msgspec.msgpack.Decoder(m.FromAgent)


def read_message(data: bytes, now: float) -> m.FromAgent:
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


def _objection(message: m.FromAgent, now: float) -> str:
    match message:
        case m.Hello(facts=facts):
            return facts_objection(facts) or _holdings_objection(message, now)
        case m.Table():
            return _holdings_objection(message, now)
        case m.Started(begun=begun):
            return next(filter(None, (time_objection(each.at, now) for each in begun)), "")
        case m.Heartbeat(lease=lease) if not 0 <= lease <= b.RUN_TIME.most:
            return f"a lease of {lease:g} s"
        case m.Heartbeat(load=float() as load) if not 0 <= load < MOST_LOAD:
            return f"a load of {load:g}"
        case m.OutputRead(size=size) if not 0 <= size <= b.BYTES_MOVED.most:
            return f"a file of {size} bytes"
        case m.Launch(command=command, environment=environment):
            return _launch_objection(command, environment)
        case m.LaunchPiece(code=code) if not (b.CODE.least or 0) <= code <= b.CODE.most:
            return f"an exit status of {code}"
        case m.LaunchesOver(used=m.UsedThere() as used):
            return _used_objection(used, now)
    return ""


def _used_objection(used: m.UsedThere, now: float) -> str:
    return result_objection(
        (None, None),
        (),
        (used.user_time, used.system_time),
        (used.peak_memory, used.average_memory),
        (used.bytes_read, used.bytes_written),
        now,
    )


def _holdings_objection(holdings: m.Holdings, now: float) -> str:
    times = (time_objection(each.since, now) for each in holdings.live)
    return next(filter(None, times), "")


def _launch_objection(command: str, environment: dict[str, str]) -> str:
    if len(command.encode()) > b.COMMAND.most:
        return f"a command line of {len(command):,} characters"
    if len(environment) > b.LAUNCHES.most:
        return f"a command with {len(environment):,} variables"
    return ""


def believable(results: tuple[m.Result, ...], now: float) -> tuple[tuple[m.Result, ...], str]:
    """Return the results as they can be believed, and what was impossible in the first that cannot; or "".

    Sentences are cut; of what is impossible nothing is left but that the attempt is lost.
    """
    found, first = [], ""
    for result in results:
        problem = result_objection(
            (result.exit_code, result.signal),
            (result.started, result.ended),
            (result.user_time, result.system_time),
            (result.peak_memory, result.average_memory),
            (result.bytes_read, result.bytes_written),
            now,
        )
        found.append(_lost(result, problem) if problem else _cut(result))
        first = first or problem
    return tuple(found), first


def _lost(result: m.Result, problem: str) -> m.Result:
    message = f"the node sent an impossible report ({problem}), so the result of the task is unknown"
    return m.Result(result.task, result.instance, result.attempt, "lost", message=message)


def _cut(result: m.Result) -> m.Result:
    known = result.trouble in FAULTS or not result.trouble
    if len(result.message) <= b.WORDS.most and known:
        return result
    return replace(result, message=result.message[: b.WORDS.most], trouble=result.trouble if known else "")
