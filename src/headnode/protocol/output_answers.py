"""What the verbs about the output of tasks answer.  The page of the protocol is printed from it.

The comment of a field is what the page says of it.
"""

from msgspec import UNSET, UnsetType

from headnode.protocol.answers import VerbAnswer


class OutputAnswer(VerbAnswer, frozen=True):
    """task_output."""

    standard_output: str | None  # a path on `node`
    standard_error: str | None  # a path on `node`
    captured: bool  # output that the task did not redirect is in one file
    captured_path: str | None  # the path of that
    node: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    requesting_user: str | UnsetType = UNSET  # who asks
    remote: bool | UnsetType = UNSET  # the node is another machine
    removed: str | UnsetType = UNSET  # the output was removed: a sentence, or ""


class OutputBytesAnswer(VerbAnswer, frozen=True):
    """read_output."""

    data: bytes  # base64
    size: int
    missing: bool | UnsetType = UNSET  # the file does not exist
