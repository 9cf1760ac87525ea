"""What a shepherd tells its agent, and what the agent tells a shepherd."""

from collections.abc import Sequence
from typing import Any

import msgspec

from headnode.adapters.processes.attempts import Parent
from headnode.adapters.processes.factory import ShepherdOrder
from headnode.adapters.processes.job_journal import EndedRecord, Key
from headnode.adapters.processes.limits import UNBOUND, Bounds, RequestedLimit
from headnode.adapters.wire.agent_messages import AttemptTransfers, AttemptUsage, JobMeasured, SignalSent
from headnode.core.model.bounds import ATTEMPTS, UNREADABLE
from headnode.core.model.errors import BadRequest
from headnode.core.model.outcome import RemoteUsage
from headnode.core.model.task import ResourceLimit

MAX_MESSAGE = 64 * 1024 * 1024  # bytes


class Introduction(msgspec.Struct, frozen=True, array_like=True, tag="hello", forbid_unknown_fields=True):
    """Who it is, what waits, what runs (and since when), what is over and not known to the head.

    `suspended` is the number of the suspension by which it lets nothing run, or soon nothing; 0: by none.
    """

    job: int
    marker: str
    queued: list[Key]
    running: list[tuple[int, int, int, float]]
    ended: list[EndedRecord]
    suspended: int = 0


class ShepherdStarted(
    msgspec.Struct, frozen=True, array_like=True, tag="started", forbid_unknown_fields=True
):
    """These run: task, instance, attempt, since when."""

    started: list[tuple[int, int, int, float]]


class ShepherdStaging(
    msgspec.Struct, frozen=True, array_like=True, tag="staging", forbid_unknown_fields=True
):
    """Files of these are transferred, and so far they are."""

    staging: list[AttemptTransfers]


class ShepherdEnded(msgspec.Struct, frozen=True, array_like=True, tag="ended", forbid_unknown_fields=True):
    """These are over."""

    ended: list[EndedRecord]


class ShepherdSuspended(
    msgspec.Struct, frozen=True, array_like=True, tag="suspended", forbid_unknown_fields=True
):
    """All processes are stopped, for the suspension with this number."""

    number: int


class ShepherdSignaled(
    msgspec.Struct, frozen=True, array_like=True, tag="signaled", forbid_unknown_fields=True
):
    """The signal of the question with this number went to so many processes."""

    question: int
    processes: int

    def answer(self) -> SignalSent:
        """Return it as a message for the head."""
        return SignalSent(number=self.question, processes=self.processes)


class ShepherdMeasured(
    msgspec.Struct, frozen=True, array_like=True, tag="measured", forbid_unknown_fields=True
):
    """What attempts use now, for the question with this number."""

    question: int
    usage: list[AttemptUsage]

    def answer(self) -> JobMeasured:
        """Return it as a message for the head."""
        return JobMeasured(number=self.question, usage=tuple(self.usage[: ATTEMPTS.most]))


class ShepherdNotLaunched(
    msgspec.Struct, frozen=True, array_like=True, tag="launch-failed", forbid_unknown_fields=True
):
    """The launch of this number came to nothing."""

    number: str
    message: str


class ShepherdLaunchesEnded(
    msgspec.Struct, frozen=True, array_like=True, tag="launches-ended", forbid_unknown_fields=True
):
    """Nothing runs any more of what an attempt (job.task.instance.attempt) of another node launched here."""

    task: str
    usage: RemoteUsage


class ShepherdVacant(msgspec.Struct, frozen=True, array_like=True, tag="vacant", forbid_unknown_fields=True):
    """Nothing of its job is left: it waits for the next."""


ShepherdMessage = (
    Introduction
    | ShepherdStarted
    | ShepherdStaging
    | ShepherdEnded
    | ShepherdSuspended
    | ShepherdSignaled
    | ShepherdMeasured
    | ShepherdNotLaunched
    | ShepherdLaunchesEnded
    | ShepherdVacant
)
_decoder: msgspec.json.Decoder[ShepherdMessage] = msgspec.json.Decoder(ShepherdMessage)


def read_shepherd_message(data: bytes) -> ShepherdMessage:
    """Read one message of a shepherd.

    Raises:  BadRequest ``shepherd-message``.
    """
    try:
        return _decoder.decode(data)
    except UNREADABLE as error:
        raise BadRequest(
            code="shepherd-message", what=f"a message of a shepherd was not understood: {error}"
        ) from None


_WITHOUT_TEMPORARY = 11  # entries of an item


def run_message(
    task: int,
    lane: str,
    shared: dict[str, str],
    limit: float | None,
    items: Sequence[Any],
    limits: Sequence[ResourceLimit] = (),
    private: bool = False,
    bounds: Bounds = UNBOUND,
    staging: Sequence[Any] = (),
    after: Sequence[Parent] = (),
) -> bytes:
    """Run these, one after the other; `limit` in seconds, `limits` for each of their processes.

    `private`: the work directories are to be made before, and removed afterwards.  `bounds` are those of each
    attempt as a whole.  `staging` says for each item what is transferred: files ``in`` and ``out``, and how.
    They start when the attempts `after` which they come have ended with valid exit codes.

    An item is [instance, attempt, argv, its own variables, work directory, stdin, stdout, stderr, captured],
    and whether its stdout and its stderr are appended to, if one of them is; then its temporary directory,
    if it has one.
    """
    asked = _asked(limits)
    # A shepherd of before takes the temporary directory for limits, unless the message has some, also none.
    temporary = any(len(item) > _WITHOUT_TEMPORARY for item in items)
    special = asked or private or bounds != UNBOUND or staging or after or temporary
    more: list[Any] = [asked, private, bounds] if special else []
    more += [staging] if staging or after else []
    more += [after] if after else []
    return _encode(["run", task, lane, shared, limit, items, *more])


def stop_message(keys: Sequence[Key], grace: float) -> bytes:
    """Stop these; `grace` in seconds."""
    return _encode(["stop", keys, grace])


def signal_message(question: int, keys: Sequence[Key] | None, number: int, target: str) -> bytes:
    """Send a signal to these attempts, None: to all; answered with `ShepherdSignaled`.

    target:  which of their processes get it, see `core.model.signals`
    """
    return _encode(["signal", question, keys, number, target])


def measure_message(question: int) -> bytes:
    """Ask what the attempts use now; answered with `ShepherdMeasured`."""
    return _encode(["measure", question])


def deadline_message(deadline: float | None, grace: float) -> bytes:
    """Say when the job's limit is over (seconds since the boot), and the grace for ending things."""
    return _encode(["deadline", deadline, grace])


def suspend_message(number: int) -> bytes:
    """Stop all processes; `number` is that of the suspension of the job."""
    return _encode(["suspend", number])


def continue_message(deadline: float | None, grace: float) -> bytes:
    """Let everything go on; `deadline` and `grace` as in `deadline_message`."""
    return _encode(["continue", deadline, grace])


def lease_message(until: float | None) -> bytes:
    """Stop all processes from that time on (seconds since the boot of the machine); None: never."""
    return _encode(["lease", until])


def launch_message(
    number: str,
    command: str,
    environment: dict[str, str],
    work_directory: str,
    terminal: str = "",
    bounds: Bounds = UNBOUND,
    outpost: str = "",
    limits: Sequence[ResourceLimit] = (),
    temporary: str = "",
) -> bytes:
    """Start a command for the shell beside the attempts; it connects with the agent by this number.

    `terminal`: rows, columns and kind of the terminal that it is given; empty: none.  `bounds` are those of
    its `outpost`: all of the same name have them together; empty: it stands for itself.  `limits` are for
    each of its processes.  `temporary` is the temporary directory of its outpost, empty: it has none.
    """
    bound = [bounds.processors, bounds.memory, bounds.held]
    more: list[Any] = [_asked(limits)] if limits or temporary else []
    more += [temporary] if temporary else []
    return _encode(["launch", number, command, environment, work_directory, terminal, *bound, outpost, *more])


def end_launches_message(numbers: Sequence[str], grace: float) -> bytes:
    """End what these launches started, with all that it did; kill it after `grace` seconds."""
    return _encode(["end-launches", numbers, grace])


def end_task_launches_message(task: str) -> bytes:
    """Kill whatever an attempt (job.task.instance.attempt) of another node has running here."""
    return _encode(["end-task-launches", task])


def acknowledge_message(first: int, last: int) -> bytes:
    """Say that the results with these numbers are known to the head for ever."""
    return _encode(["acknowledged", first, last])


def close_message() -> bytes:
    """Say that the job is over: end all of it, and the process."""
    return _encode(["close"])


def vacate_message() -> bytes:
    """Say that the job is over: end all of it, and wait for the next, if nothing speaks against that."""
    return _encode(["vacate"])


def serve_message(order: ShepherdOrder) -> bytes:
    """Serve this job; its journal is the file that the process has open."""
    return _encode(["serve", order])


def _asked(limits: Sequence[ResourceLimit]) -> list[RequestedLimit]:
    return [(each.name, each.soft, each.hard) for each in limits]


def _encode(message: list[Any]) -> bytes:
    return msgspec.json.encode(message)
