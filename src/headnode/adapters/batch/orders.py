"""What the head tells the hand-off process, and what that answers."""

from typing import Any

import msgspec
from msgspec.structs import replace

from headnode.core.batch.dialect import AttemptPlace, Submission
from headnode.core.batch.site import SiteSnapshot
from headnode.core.batch.tracked import HandOffReport
from headnode.core.model.quantities import Instant
from headnode.core.model.resource import BatchResource
from headnode.core.model.signals import SignalTarget


class FilesToStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The staged files of an attempt.

    The bounds are numbers of attempts that transfer files at once: of its job, on this machine, and with each
    storage host.
    """

    order: dict[str, Any]  # `AttemptFilesOrder`, without a direction and files
    incoming: bytes  # the files of each direction, as JSON: there may be many
    outgoing: bytes
    has_results: bool
    per_job: int
    per_node: int
    per_storage: int
    state: str  # directory of the head, which is asked for delegations


class HandOffOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt to hand over, or to find again: `foreign` is its id there, if that is known.

    `may_be_there`: an earlier process may have submitted it.  `problem`: why it cannot be, if it cannot.
    """

    resource: str
    key: AttemptPlace
    owner: str
    uid: int
    gid: int
    submission: Submission
    script: str
    foreign: str = ""
    may_be_there: bool = False
    stop: bool = False
    held: bool = False
    problem: str = ""
    secret: str = ""  # for its directory: what only the owner may read
    staged: FilesToStage | None = None

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return len(self.script) + (len(self.staged.incoming + self.staged.outgoing) if self.staged else 0)

    def without_input(self) -> "HandOffOrder":
        """Return it without the script, the secret and the list of staged input."""
        staged = None if self.staged is None else replace(self.staged, incoming=b"[]")
        return replace(self, script="", secret="", staged=staged)


class HandOffChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An attempt is to be held at its resource or not, and to have the time limit of `submission`."""

    key: AttemptPlace
    held: bool
    submission: Submission


class HandOffRound(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Everything new for the process; it is answered at once, or with the next news if it `waits`."""

    number: int
    resources: tuple[BatchResource, ...] | None = None  # None: as before
    orders: tuple[HandOffOrder, ...] = ()
    changes: tuple[HandOffChange, ...] = ()
    stops: tuple[AttemptPlace, ...] = ()
    drops: tuple[AttemptPlace, ...] = ()
    look: tuple[str, ...] = ()  # somebody asks for these sites
    waits: bool = False


class ResourceStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the last poll of a resource went; `problem` is empty if it was answered."""

    resource: str
    polled: Instant
    poll_time: float  # seconds
    ours: int = 0  # jobs with our markers
    problem: str = ""


class HandOffAnswer(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """What has become known."""

    number: int
    reports: tuple[HandOffReport, ...] = ()
    statuses: tuple[ResourceStatus, ...] = ()
    site: SiteSnapshot | None = None


class AttemptFileQuestion(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Read a file at a resource as the user of a job; a negative offset counts from the end."""

    number: int
    resource: str
    owner: str
    uid: int
    gid: int
    path: str
    offset: int
    limit: int


class AttemptFileAnswer(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """What the file has there, and its size; or why it cannot be read."""

    number: int
    data: bytes = b""
    size: int = 0
    problem: str = ""


class AttemptSignal(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Send a signal to the jobs of attempts as their user; `ids` are theirs there."""

    number: int
    resource: str
    owner: str
    uid: int
    gid: int
    ids: tuple[str, ...]
    signal: int
    target: SignalTarget


class AttemptSignalAnswer(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Whether the signal was sent; `problem` says why it was not.

    `impossible`: the resource has no command for it.
    """

    number: int
    problem: str = ""
    impossible: bool = False


MAX_ANSWER = 16 * 1024 * 1024  # bytes
MAX_NEWS = 2000  # in one answer
