"""What a verb is: its name, who may use it, its request and answer, and both as JSON within the bounds.

The types are those of the function's signature; the table of all verbs is that of `pipeline`."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum, auto
from importlib import import_module
from typing import Any, Final, Generic, NamedTuple, NoReturn, ParamSpec, TypeVar, get_origin, get_type_hints

import msgspec

from headnode import __version__
from headnode.core.model.bounds import DEPTH, INTEGER, NOTE, VALUES
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, Path, WrongState
from headnode.core.model.user import Receipt, User
from headnode.core.state.permissions import must_administer
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import VerbRequest

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class VerbUsers(StrEnum):
    """The users that may use a verb."""

    EVERYBODY = "everybody"
    OVERSEER = "its owner, operators, administrators"  # of the job that it is about
    OWNER = "its owner, administrators"
    OPERATOR = "operators, administrators"
    ADMINISTRATOR = "administrators"


class VerbAccess(NamedTuple):
    """VerbUsers may use a verb, and what it needs.

    changes: it is written to the audit log, and refused when that cannot be written
    near:    only from the head's own machine
    by_session: then also by the gateway for a browser that has logged in, but not for a token
    by_task: then also by a task of the user on any node
    """

    who: VerbUsers
    changes: bool = False
    near: bool = False
    by_session: bool = False
    by_task: bool = False


READS: Final = VerbAccess(VerbUsers.EVERYBODY)
CREATES: Final = VerbAccess(VerbUsers.EVERYBODY, changes=True)
OVERSEES: Final = VerbAccess(VerbUsers.OVERSEER, changes=True)
ADMINISTERS: Final = VerbAccess(VerbUsers.ADMINISTRATOR, changes=True)


AnswerAgain = Callable[[Any, User, Receipt, Any], Awaitable[VerbAnswer]]
"""Returns the answer to a request that was carried out before: (context, user, receipt, request)."""


async def secret_again(_context: object, _user: User, _receipt: Receipt, _request: object) -> NoReturn:
    """Refuse to answer again with a secret, which is kept nowhere.

    Raises:  WrongState ``idempotency-secret``.
    """
    raise WrongState(
        code="idempotency-secret",
        what="this request was carried out already, and its answer had a secret that is kept nowhere",
        fix="ask for another one with a new key; the first expires unused",
    )


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

    def __init__(
        self,
        function: Callable[Arguments, Result],
        access: VerbAccess,
        again: AnswerAgain | None,
        *,
        adds: bool = False,
    ) -> None:
        hints = get_type_hints(function)
        self.name, self.access, self.again = function.__name__, access, again
        self.adds = adds
        self.request: type[Any] = hints["request"]
        self.answer: Any = hints["return"]
        self.kind = _KINDS.get(get_origin(self.answer), VerbKind.ANSWER)
        self.description = function.__doc__ or ""
        self.function = function

    def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        """Carry out a request of a user that was admitted."""
        return self.function(*arguments, **named)

    def admit(self, by: User, *, near: bool, session: bool = False) -> None:
        """Refuse a user that may not use the verb at all.

        near:    the user is on the head's machine
        session: the user has logged in at the gateway with a browser
        Rights of owners are checked where the job is known, in core.
        Raises:  NotAllowed ``not-administrator``, ``not-operator``, ``reads-only`` or ``not-here``.
        """
        name = self.name.replace("_", " ")
        if by.reads_only and (self.access.changes or self.kind is VerbKind.STREAM):
            raise NotAllowed(
                code="reads-only",
                what=f"{name!r} is not allowed with a token that can only read",
                fix="use a token with another role: hn token new",
            )
        near = near or (session and self.access.by_session) or (by.by_node and self.access.by_task)
        if self.access.near and not near:
            raise NotAllowed(
                code="not-here",
                what=f"{name!r} is not for clients of other machines",
                fix="log in on the head's machine and do it there",
            )
        if self.access.who is VerbUsers.ADMINISTRATOR:
            must_administer(by, f"use {name!r}")
        if self.access.who is VerbUsers.OPERATOR and not by.oversees:
            raise NotAllowed(
                code="not-operator",
                what=f"{name!r} is for operators and administrators; {by.name!r} is neither",
                fix="ask an operator or an administrator",
            )


def verb(
    access: VerbAccess, *, again: AnswerAgain | None = None, adds: bool = False
) -> Callable[[Callable[Arguments, Result]], Verb[Arguments, Result]]:
    """Make a verb of the protocol from the function of its name, which these users may use.

    again: answers a repeated request; a verb with it creates something, and takes an idempotency key.
    adds:  it only creates jobs, and its answer does not depend on the jobs that other requests create
    """

    def declare(function: Callable[Arguments, Result]) -> Verb[Arguments, Result]:
        return Verb(function, access, again, adds=adds)

    return declare


class VerbTable(Mapping[str, Verb[Any, Any]]):
    """The verbs that the modules of a package declare, by name.

    Some modules are imported at once.  The others are imported in turn when a name is asked for that is not
    known yet, until one of them declares it, and all of them when the names are listed.
    """

    def __init__(self, package: str, at_start: Sequence[str], later: Sequence[str] = ()) -> None:
        self._verbs: dict[str, Verb[Any, Any]] = {}
        self._later = [f"{package}.{name}" for name in reversed(later)]
        for name in at_start:
            self._add(f"{package}.{name}")

    def _add(self, module: str) -> None:
        declared = vars(import_module(module)).values()
        self._verbs |= {each.name: each for each in declared if isinstance(each, Verb)}

    def _add_next(self) -> None:
        self._add(self._later[-1])
        self._later.pop()  # not before: if the import fails, the next request tries it again

    def __getitem__(self, name: str) -> Verb[Any, Any]:
        while name not in self._verbs and self._later:
            self._add_next()
        return self._verbs[name]

    def __iter__(self) -> Iterator[str]:
        while self._later:
            self._add_next()
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(list(iter(self)))


RequestFields = dict[str, Any]

_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")  # a field, or an index
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


_VALUE = 230  # bytes of memory that a value takes at most, beside its text


def decoded_size(data: bytes) -> int:
    """Return how many bytes of memory a request takes when it is decoded, at most.

    The elements and lines of a job file count as values: each may become a task.
    """
    return len(data) + _VALUE * sum(map(data.count, (b",", b"[", b"{", b"<", b"\\n")))


def read_value(data: bytes) -> Any:
    """Return the value that the bytes are as JSON.

    Raises:  BadRequest ``request`` when they are no JSON, or beyond the bounds of depth, number and size.
    """
    try:
        if _most_values(data) > VALUES.most:
            _refuse(f"the request has more than {VALUES}", "divide it into several requests")
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(
            code="request", what=f"the request is not JSON: {error}", fix="send a JSON object with `verb`"
        ) from None
    except RecursionError:
        _refuse_depth()
    _refuse_excess(value)
    return value


def _most_values(data: bytes) -> int:
    """Return how many values there are at most outside of the texts of the first level."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= VALUES.most:
        return 0  # almost always
    parts = [bytes(raw) for raw in _FIELDS_DECODER.decode(data).values()]
    return sum(
        part.count(b",") + part.count(b"[") + part.count(b"{") for part in parts if part[:1] in (b"[", b"{")
    )


def _refuse_excess(value: Any) -> None:
    """Look at all values, level by level."""
    least, most = INTEGER.least or 0, INTEGER.most
    level, depth = [value], 0
    while level:
        if depth > DEPTH.most:
            _refuse_depth()
        depth += 1
        inner = []
        for part in level:
            for each in part.values() if type(part) is dict else part if type(part) is list else (part,):
                kind = type(each)
                if kind is dict or kind is list:
                    inner.append(each)
                elif kind is int and not least <= each <= most:
                    _refuse("a number in the request is too large", f"use {INTEGER}")
        level = inner


def _refuse_depth() -> NoReturn:
    _refuse(f"the request is deeper than {DEPTH}", "nest fewer lists and objects")


def _refuse(what: str, fix: str) -> NoReturn:
    raise BadRequest(code="request", what=what, fix=fix)


def read_request(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the verb and its fields.

    Raises:  BadRequest ``request`` when the bytes hold no request.
    """
    request = read_value(data)
    if isinstance(request, dict) and "verb" not in request and "do" in request:
        _refuse(
            "this client is of a development version of Headnode", f"use the one of version {__version__}"
        )
    if not isinstance(request, dict) or not isinstance(request.get("verb"), str):
        raise BadRequest(code="request", what="the request names no verb", fix='send {"verb": VERB, ...}')
    verb = request.pop("verb")
    return verb, request


class SubmissionOutline(msgspec.Struct, frozen=True):
    """What decides whether a submission may be carried out together with others."""

    verb: str
    job: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    jobfile: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    if_match: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OUTLINE_DECODER = msgspec.json.Decoder(SubmissionOutline)


def submits_new_job(data: bytes) -> bool:
    """Return whether a request makes a job of options alone.

    Such requests only add to the queue, and nothing that they read is changed by another one of them: those
    of one client may be carried out together.  A job file may name the job of the request before it.
    """
    if b'"submit_job"' not in data:  # almost always that says it
        return False
    try:
        outline = _OUTLINE_DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # it is refused when it is read
    beside = (outline.job, outline.jobfile, outline.if_match)
    return outline.verb == "submit_job" and all(each is msgspec.UNSET for each in beside)


def read_fields(kind: type[VerbRequest], verb: str, fields: dict[str, Any]) -> VerbRequest:
    """Return the fields of a verb in their types.

    Raises:  BadRequest ``field``.
    """
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        names = ", ".join(field.name for field in msgspec.structs.fields(kind)) or "no fields"
        raise BadRequest(
            code="field",
            what=f"{verb}: {_field_problem(str(error))}",
            fix=f"the fields of {verb} are: {names}",
            path=_path_in(str(error)),
        ) from None


def _field_problem(message: str) -> str:
    """Return what msgspec says of a wrong field, as a sentence about the field.

    >>> _field_problem("Object contains unknown field `foo` - at `$.tasks[0]`")
    "there is no field 'foo' in tasks[0]"
    >>> _field_problem("Expected `int | null`, got `str` - at `$.job`")
    "the field 'job' is of type str, and must be of type int or null"
    """
    said, _, path = message.partition(" - at `$")
    place = path.rstrip("`").removeprefix(".")
    inside = f" in {place}" if place else ""
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", said):
        return f"there is no field {unknown[1]!r}{inside}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", said):
        return f"the field {missing[1]!r} is missing{inside}"
    if place and (types := re.fullmatch(r"Expected `(.*)`, got `(.*)`", said)):
        wanted = types[1].replace(" | ", " or ")
        return f"the field {place!r} is of type {types[2]}, and must be of type {wanted}"
    return f"the field {place!r} is wrong: {said}" if place else said


def _path_in(message: str) -> Path:
    """Return the path at the end of what msgspec says: ``... - at `$.tasks[0].command` ``.

    It ends at an object with free keys, whose key msgspec does not tell: ``$.values[...]``.
    """
    _, _, path = message.partition(" - at `$")
    steps = _STEP.findall(path.rstrip("`").partition("[...]")[0])
    return tuple(int(index) if index else name for name, index in steps)


def without_frames(error: HeadnodeError) -> HeadnodeError:
    """Return a refusal without the stack and the cause: their frames would keep the request in memory."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def refusal(error: HeadnodeError) -> dict[str, Any]:
    """Return an error as clients get it."""
    fields = error.as_fields()
    return {"ok": False, **fields, "what": error.what[: NOTE.most], "fix": error.fix[: NOTE.most]}


def encode_answer(answer: msgspec.Struct | dict[str, Any]) -> bytes:
    """Return the answer to a request that was carried out, as JSON."""
    fields = msgspec.json.encode(answer)
    return b'{"ok":true}' if fields == b"{}" else b'{"ok":true,' + fields[1:]
