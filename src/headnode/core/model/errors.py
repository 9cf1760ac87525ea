"""The one tree of errors.

HeadnodeError
├── Refused           the user asked for something we will not do
│   ├── BadRequest    the request itself is wrong: syntax, range, an impossible wish
│   ├── NotFound      no such job, task, node, file or plug-in
│   ├── NotAllowed    it belongs to somebody else
│   └── WrongState    right request, wrong moment in the life of the thing
├── Unavailable       try again later: a node, the store or the head is away
└── Broken            our own invariant failed; always a bug, always logged with a story
"""

from typing import ClassVar


class HeadnodeError(Exception):
    """What went wrong (`what`), a stable word for programs (`code`) and the way out (`fix`)."""

    exit_status: ClassVar[int] = 1

    def __init__(self, *, code: str, what: str, fix: str = "") -> None:
        super().__init__(f"{what} [{code}]" + (f"; {fix}" if fix else ""))
        self.code, self.what, self.fix = code, what, fix


class Refused(HeadnodeError):
    """The user asked for something we will not do."""


class BadRequest(Refused):
    """The request itself is wrong; asking again in the same words will not help."""

    exit_status: ClassVar[int] = 2


class NotFound(Refused):
    """There is no thing of that name or number."""


class NotAllowed(Refused):
    """The thing belongs to somebody else."""


class WrongState(Refused):
    """The request is right but comes at the wrong moment in the life of the thing."""


class Unavailable(HeadnodeError):
    """Something we depend on is away for now; nothing was changed."""


class Broken(HeadnodeError):
    """Our own invariant failed: always a bug."""


class UnknownDescription(Unavailable):
    """A description of a job has a field or a value that only a newer version of Headnode knows."""

    def __init__(self, why: str) -> None:
        super().__init__(
            code="description-unknown",
            what=f"the description of a job has something that this Headnode does not know: {why}",
            fix="use the version of Headnode that wrote it",
        )
        self.why = why
