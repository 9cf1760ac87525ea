"""The one tree of errors, each with a class that programs can act on.

HeadnodeError
├── Refused           the user asked for something we will not do
│   ├── BadRequest    bad-input: the request itself is wrong: syntax, range, an impossible wish
│   ├── NotFound      not-found: no such job, task, node, file or plug-in
│   ├── NotAllowed    not-allowed: it belongs to another user
│   └── WrongState    conflict: right request, wrong moment in the life of the thing
├── Unavailable       busy: try again later: a node, the store or the head is away
└── Broken            fault: our own invariant failed; always a bug, always logged with a story
"""

from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self


class ErrorClass(StrEnum):
    """The class of an error, which says what a program can do about it."""

    BAD_INPUT = "bad-input"  # change the request
    NOT_ALLOWED = "not-allowed"  # the user has no right to do it
    NOT_FOUND = "not-found"  # name something that there is
    CONFLICT = "conflict"  # look at the state of the thing first
    BUSY = "busy"  # try again later
    FAULT = "fault"  # report a bug

    @property
    def exit_status(self) -> int:
        """The exit status of a command that fails with such an error."""
        return 2 if self is ErrorClass.BAD_INPUT else 1


IS_STANDBY = "standby"
"""How a standby head says that it is not the head: the code of its refusal to a client, and the first word of
the reason of its `Goodbye` to a node."""
OLD_HEAD = "old-head"
"""The code of the error that a head was replaced by one that was seen already."""

Step = str | int
Path = tuple[Step, ...]
"""The way to a value: names of fields or keys, numbers of elements (from 0)."""


def task_number(path: Path) -> int | None:
    """Return the number (from 0) of the task that the path of a refusal leads into; None if into none.

    >>> task_number(("alternatives", 0, "tasks", 2, "minimum")), task_number(("environment", "tasks"))
    (2, None)
    """
    inside = path
    while inside[:1] in (("jobs",), ("alternatives",)):
        inside = inside[2:]
    match inside:
        case ("tasks", int(number), *_):
            return number
    return None


class TextPosition(NamedTuple):
    """A position in a text: a line, from 1, and the number of characters before it on that line."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class HeadnodeError(Exception):
    """An error: what went wrong (`what`), a stable code for programs (`code`) and the way out (`fix`).

    `path` leads to what is wrong in the request; it is empty where that is the request itself, or not known.
    """

    error_class: ClassVar[ErrorClass] = ErrorClass.FAULT

    def __init__(self, *, code: str, what: str, fix: str = "", path: Path = ()) -> None:
        super().__init__(f"{what} [{code}]" + (f"; {fix}" if fix else ""))
        self.code, self.what, self.fix, self.path = code, what, fix, path

    @property
    def exit_status(self) -> int:
        """The exit status of a command that fails with this error."""
        return self.error_class.exit_status

    def inside(self, *where: str | int) -> Self:
        """Return the same error with `where` before its path: what was wrong is a part of that."""
        self.path = (*where, *self.path)
        return self

    def as_fields(self) -> dict[str, Any]:
        """Return the error as programs get it."""
        return {
            "code": self.code,
            "what": self.what,
            "fix": self.fix,
            "exit_status": self.exit_status,
            "class": self.error_class.value,
            "path": list(self.path),
        }


class Refused(HeadnodeError):
    """The request is refused, because of what it asks for."""

    error_class: ClassVar[ErrorClass] = ErrorClass.CONFLICT


class BadRequest(Refused):
    """The request is invalid; the same request fails again.

    `place` is the position in the text of the job, which `what` begins with; `sentence` is the rest of it.
    `file` is the name of another file that the position is in.
    """

    error_class: ClassVar[ErrorClass] = ErrorClass.BAD_INPUT

    def __init__(
        self,
        *,
        code: str,
        what: str,
        fix: str = "",
        path: Path = (),
        place: TextPosition | None = None,
        file: str = "",
    ) -> None:
        before = (f"file {file!r}, " if file else "") + (f"{place}: " if place else "")
        super().__init__(code=code, what=before + what, fix=fix, path=path)
        self.sentence, self.place, self.file = what, place, file


class NotFound(Refused):
    """No object has this name or number."""

    error_class: ClassVar[ErrorClass] = ErrorClass.NOT_FOUND


class NotAllowed(Refused):
    """The user has no permission for this object or action."""

    error_class: ClassVar[ErrorClass] = ErrorClass.NOT_ALLOWED


class WrongState(Refused):
    """The request is valid, but not in the current state of the job, task, node or cluster."""


class Unavailable(HeadnodeError):
    """A service that Headnode depends on is unavailable for now; nothing was changed."""

    error_class: ClassVar[ErrorClass] = ErrorClass.BUSY


class Broken(HeadnodeError):
    """An internal invariant failed: always a bug."""


class UnknownDescription(Unavailable):
    """A job description has a field or a value that only a newer version of Headnode knows."""

    def __init__(self, why: str) -> None:
        super().__init__(
            code="description-unknown",
            what=f"the description of a job has something that this Headnode does not know: {why}",
            fix="use the version of Headnode that wrote it",
        )
        self.why = why
