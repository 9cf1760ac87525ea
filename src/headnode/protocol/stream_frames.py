"""The frames of conversations: what a client and the head send each other once such a verb was granted."""

from typing import Literal

from msgspec import UNSET, UnsetType

from headnode.protocol.answers import ExpectedStartObject, VerbAnswer
from headnode.protocol.requests import Cells, VerbRequest


class ClientFrame(VerbRequest, frozen=True, rename={"input": "in"}):
    """A frame of a client: it has one of these."""

    input: bytes | UnsetType = UNSET  # for the command, at most 512 KiB at once
    end: Literal[True] | UnsetType = UNSET  # of the input; in a terminal its end-of-file character
    window: tuple[Cells, Cells] | UnsetType = UNSET  # the new rows and columns of the terminal

    def __post_init__(self) -> None:
        """Refuse a frame with none of these, or with several."""
        if (self.input, self.end, self.window).count(UNSET) != 2:
            raise ValueError("a frame has one of in, end and window")


class WaitingJob(VerbAnswer, frozen=True):
    """Why a job does not run yet."""

    state: str
    reason: str
    expected: ExpectedStartObject | None  # the start that is expected


class ShellWaits(VerbAnswer, frozen=True):
    """`shell`: the job does not run yet; again when the reason changes."""

    waits: WaitingJob


class ShellPlace(VerbAnswer, frozen=True):
    """`shell`: the command runs there; before that the client sends nothing."""

    node: str


class ShellNotice(VerbAnswer, frozen=True):
    """`shell`: the job is about to end."""

    notice: str  # a sentence for the user


class RunStarted(VerbAnswer, frozen=True):
    """`run_on_nodes`: the run lasts as long as this connection."""

    run: int  # for `run_on_node`
    nodes: list[str]


class CommandOutput(VerbAnswer, frozen=True):
    """Output of the command."""

    out: bytes | UnsetType = UNSET  # of a terminal all
    err: bytes | UnsetType = UNSET


class InputTaken(VerbAnswer, frozen=True):
    """Input was passed on. A client that sends more than 64 KiB ahead of it may block itself."""

    consumed: int  # bytes


class CommandExit(VerbAnswer, frozen=True):
    """The command has ended. The last frame."""

    exit: int  # its status; 128 and the signal; 255: not run, or unknown
    problem: str  # the reason, in a sentence, or ""
    state: str | UnsetType = UNSET  # of the job, for `shell`
    done: bool = True


HeadFrame = ShellWaits | ShellPlace | ShellNotice | RunStarted | CommandOutput | InputTaken | CommandExit


class NodeCommandLine(VerbAnswer, frozen=True):
    """A line of what a gateway answers to `run_on_nodes`: the first, one of a node, or the last."""

    run: int | UnsetType = UNSET  # in the first line
    nodes: list[str] | UnsetType = UNSET  # in the first line: where it runs
    node: str | UnsetType = UNSET  # in all others but the last
    out: bytes | UnsetType = UNSET  # output of the command: base64
    err: bytes | UnsetType = UNSET
    exit: int | UnsetType = UNSET  # the status of the command on the node; 255: not run, or unknown
    problem: str | UnsetType = UNSET  # the reason, in a sentence, or ""
    done: bool | UnsetType = UNSET  # in the last line
