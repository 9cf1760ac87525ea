"""Conversations: the requests that begin them, and the frames that client and head exchange then."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headnode.core.model import bounds as b
from headnode.protocol.answers import ExpectedStartObject, VerbAnswer
from headnode.protocol.requests import (
    Cells,
    CommandLine,
    Duration,
    JobIdRequest,
    Name,
    Names,
    PathText,
    VerbRequest,
    Word,
)


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


class RunOnNodesRequest(VerbRequest, frozen=True):
    """run_on_nodes.  Nodes that all of `nodes` (a set), `groups`, `states`, `job` and `task` mean."""

    command: CommandLine  # for the shell
    nodes: Word = ""  # a node set
    groups: Names = msgspec.field(default_factory=list)
    states: Names = msgspec.field(default_factory=list)
    job: int | None = None
    task: int | None = None
    exclude: Word = ""  # a node set
    user: Name | None = None  # null: the requesting user
    work_directory: PathText = ""
    environment: Annotated[dict[str, str], Meta(max_length=b.LAUNCHES.most)] = msgspec.field(
        default_factory=dict
    )
    timeout: Duration | None = None  # seconds, on each node


class RunOnNodeRequest(VerbRequest, frozen=True):
    """run_on_node: the part of `run` on one of its nodes."""

    run: int
    node: Name


class ShellRequest(JobIdRequest, frozen=True):
    """shell.  Without `rows` and `columns` there is no terminal; `kind` is its TERM."""

    command: CommandLine = ""
    rows: Cells = 0  # without a size there is no terminal
    columns: Cells = 0
    kind: Name = ""  # TERM
    in_task: bool = False  # as a part of the first task that runs, on its first node
    holds: bool = False  # runs nothing: an interactive job that runs until canceled ends after the connection
    directory: PathText = ""  # of the command
    environment: Annotated[dict[str, str], Meta(max_length=b.LAUNCHES.most)] = msgspec.field(
        default_factory=dict
    )
