"""What the verbs about the output of tasks, the parts of sweeps and new descriptions are asked and answer.

The comment of a field is what the page of the protocol says of it.
"""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from headnode.core.formats.fidelity import FidelityReport
from headnode.protocol.answers import InstanceCounts, VerbAnswer
from headnode.protocol.requests import JobIdRequest


class ReplacedJob(VerbAnswer, frozen=True):
    """replace_job."""

    job: int
    changed: list[str]  # names of options
    report: FidelityReport  # what was not understood, or understood otherwise


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


class InstanceCountsRequest(JobIdRequest, frozen=True):
    """instance_counts."""

    task: int
    parts: Annotated[int, Meta(ge=1, le=1000)] = 1000  # at most so many


class SweepPart(VerbAnswer, frozen=True):
    """Consecutive instances of a task, by state."""

    first: int
    last: int
    counts: InstanceCounts


class InstanceCountsAnswer(VerbAnswer, frozen=True):
    """instance_counts."""

    parts: list[SweepPart]  # of the same size, but the last one
    total: int  # instances
