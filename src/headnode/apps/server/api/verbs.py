"""What a verb is: its name, who may use it, its request and its answer, declared where its function is.

The types are those of the function's signature; the table of all verbs is that of `pipeline`.
"""

from collections.abc import AsyncGenerator, Callable
from enum import Enum, StrEnum, auto
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, get_origin, get_type_hints

from headnode.core.model.errors import NotAllowed
from headnode.core.model.user import User
from headnode.core.state.permissions import must_administer

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Who(StrEnum):
    """The users that may use a verb."""

    EVERYBODY = "everybody"
    OVERSEER = "its owner, operators, administrators"  # of the job that it is about
    OWNER = "its owner, administrators"
    OPERATOR = "operators, administrators"
    ADMINISTRATOR = "administrators"


class VerbAccess(NamedTuple):
    """Who may use a verb, and what it needs.

    changes: it is written to the audit log, and refused when that cannot be written
    near:    only from the head's own machine
    """

    who: Who
    changes: bool = False
    near: bool = False


READS: Final = VerbAccess(Who.EVERYBODY)
CREATES: Final = VerbAccess(Who.EVERYBODY, changes=True)
OVERSEES: Final = VerbAccess(Who.OVERSEER, changes=True)
ADMINISTERS: Final = VerbAccess(Who.ADMINISTRATOR, changes=True)


class VerbKind(Enum):
    """How a verb answers."""

    ANSWER = auto()  # once
    UPDATES = auto()  # several times, up to an answer that is marked as done
    STREAM = auto()  # with a conversation that takes the connection over


_KINDS = {AsyncGenerator: VerbKind.UPDATES, Callable: VerbKind.STREAM}


class Verb(Generic[Arguments, Result]):
    """A function that carries out requests of clients, with what is declared of it.

    It is called as (context, user, request); one with updates gets a `WatchingClient` in place of the user.
    """

    def __init__(self, function: Callable[Arguments, Result], access: VerbAccess) -> None:
        hints = get_type_hints(function)
        self.name, self.access = function.__name__, access
        self.request: type[Any] = hints["request"]
        self.answer: Any = hints["return"]
        self.kind = _KINDS.get(get_origin(self.answer), VerbKind.ANSWER)
        self.description = function.__doc__ or ""
        self.function = function

    def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        """Carry out a request of a user that was admitted."""
        return self.function(*arguments, **named)

    def admit(self, by: User, *, near: bool) -> None:
        """Refuse a user that may not use the verb at all; `near`: the user is on the head's machine.

        Rights of owners are checked where the job is known, in core.
        Raises:  NotAllowed ``not-administrator``, ``not-operator`` or ``not-here``.
        """
        name = self.name.replace("_", " ")
        if self.access.near and not near:
            raise NotAllowed(
                code="not-here",
                what=f"{name!r} is not for clients of other machines",
                fix="log in on the head's machine and do it there",
            )
        if self.access.who is Who.ADMINISTRATOR:
            must_administer(by, f"ask for {name!r}")
        if self.access.who is Who.OPERATOR and not by.oversees:
            raise NotAllowed(
                code="not-operator",
                what=f"{by.name!r} may not ask for {name!r}",
                fix="ask an operator or an administrator",
            )


def verb(
    access: VerbAccess,
) -> Callable[[Callable[Arguments, Result]], Verb[Arguments, Result]]:
    """Make a verb of the protocol from the function of its name, which these users may use."""

    def declare(function: Callable[Arguments, Result]) -> Verb[Arguments, Result]:
        return Verb(function, access)

    return declare
