"""One request of HPC Pack's REST API: its user, its parameters, the head to ask; pages and filters of lists.

A list is read in one of two ways: `queryId` from the header of the answer before, until there is none; or
`startRow`, with the number of all rows in a header.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request

from headnode.apps.web.gateway import NUMBER, DoorRequest, Gateway
from headnode.apps.web.head_client import WebCaller
from headnode.apps.web.hpc_pack.property_lists import JobFile, Properties, listed
from headnode.apps.web.identity import address_of
from headnode.apps.web.problems import not_logged_in, wrong
from headnode.core.model.bounds import NAME, UNREADABLE
from headnode.core.model.errors import NotAllowed

AS_USER: Final = "x-ms-as-user"


class HpcReply(NamedTuple):
    """An answer: its JSON, status and headers."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}


DONE: Final = HpcReply(status=204)


class HpcRequest(DoorRequest):
    """A request whose user is known."""

    NUMBERS = "the job, task or instance"

    def __init__(
        self, gateway: Gateway, request: Request, caller: WebCaller, body: Any, as_user: str
    ) -> None:
        """`as_user`: the user for whom an administrator asks; "" for the caller itself."""
        super().__init__(gateway, request, caller)
        self.body, self.as_user = body, as_user
        self.query = request.query_params

    @property
    def parts(self) -> Mapping[str, Any]:
        """The parts of the path that have names."""
        return self._request.path_params

    def names(self, parameter: str = "properties") -> list[str]:
        """Return the names between commas of a parameter."""
        return [name.strip() for name in self.query.get(parameter, "").split(",") if name.strip()]

    def flag(self, parameter: str, *, default: bool = False) -> bool:
        """Return whether a parameter is `true`.

        Raises:  BadRequest ``query``.
        """
        text = self.query.get(parameter, str(default)).lower()
        if text not in ("true", "false", "1", "0"):
            raise wrong("query", f"{parameter}={text[:64]!r}", "write true or false", (parameter,))
        return text in ("true", "1")

    @property
    def message(self) -> str:
        """The message of an operation, which may be left out.

        Raises:  BadRequest ``body``.
        """
        if self.body is None:
            return ""
        if not isinstance(self.body, str):
            raise wrong("body", "the message is not a JSON string", 'send "text" in quotes')
        return self.body

    async def job_file(self, job: int) -> JobFile:
        """Return the job file of a job.

        Raises:  NotFound ``no-such-job``.
        """
        return JobFile((await self.ask("export_job", job=job, dialect="hpcpack"))["text"])

    async def admit_to(self, job: int) -> None:
        """Refuse a job of another user than the one for whom an administrator asks.

        Raises:  NotAllowed ``not-owner``.
        """
        if self.as_user:
            owner = (await self.ask("job", job=job))["job"]["owner"]
            if owner.lower() != self.as_user.lower():
                raise NotAllowed(
                    code="not-owner",
                    what=f"job {job} is not a job of {self.as_user!r}",
                    fix="name a job of that user",
                )


async def hpc_request(gateway: Gateway, request: Request, content: bytes) -> HpcRequest:
    """Return a request with its user.

    HTTP Basic: the name of the user, and as the password a token.
    Raises:  NotAllowed ``not-logged-in``, ``as-user``; BadRequest ``body``.
    """
    caller, name = _caller(gateway, request)
    if name:
        known = (await gateway.head.ask_plain(caller, "whoami"))["user"]
        if known.lower() != name.rpartition("\\")[2].lower():
            raise not_logged_in()
    as_user = request.headers.get(AS_USER, "").rpartition("\\")[2]
    if as_user:
        await _check_as_user(gateway, caller, as_user)
    return HpcRequest(gateway, request, caller, _json(content), as_user)


def _caller(gateway: Gateway, request: Request) -> tuple[WebCaller, str]:
    header = request.headers.get("authorization", "")
    if not header.lower().startswith("basic "):
        return gateway.identity.caller(request), ""
    try:
        name, _, token = base64.b64decode(header[6:], validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise not_logged_in() from None
    if not name or not 0 < len(token) <= NAME.most or not token.isascii():
        raise not_logged_in()
    return WebCaller(address_of(request), token=token), name


async def _check_as_user(gateway: Gateway, caller: WebCaller, as_user: str) -> None:
    if len(as_user) > NAME.most or not as_user.isprintable():
        raise wrong("as-user", f"{AS_USER} is not the name of a user")
    if (await gateway.head.ask_plain(caller, "whoami"))["role"] != "administrator":
        raise NotAllowed(
            code="as-user",
            what=f"only administrators may send {AS_USER}",
            fix="leave it out, or ask an administrator",
        )


def _json(content: bytes) -> Any:
    if not content.strip():
        return None
    try:
        return msgspec.json.decode(content)
    except UNREADABLE as error:
        raise wrong("body", f"the body is not JSON: {error}") from None


CONTINUATION: Final = "x-ms-continuation-queryId"
ROW_COUNT: Final = "x-ms-row-count"
ROWS: Final = 10
MAX_ROWS: Final = 1000
_PART: Final = re.compile(r"(\w+)\s++eq\s++(.*)\Z", re.IGNORECASE | re.DOTALL)
_AND: Final = re.compile(r"(?<!\s)\s++and\s++", re.IGNORECASE)
Row = TypeVar("Row")


def filters_of(request: HpcRequest, *known: str) -> dict[str, str]:
    """Return the values of `$filter` by their names in small letters.

    Raises:  BadRequest ``filter``.
    """
    filters: dict[str, str] = {}
    text = request.query.get("$filter", "")
    for part in _AND.split(text) if text.strip() else ():
        read = _PART.match(part.strip())
        if read is None or read[1].lower() not in (name.lower() for name in known):
            raise wrong(
                "filter",
                f"{part[:64]!r} in $filter is not understood",
                f"write {known[0]} eq VALUE",
                ("$filter",),
            )
        filters[read[1].lower()] = read[2].strip("'\"")
    return filters


def number_in(request: HpcRequest, name: str, default: int) -> int:
    """Return a number of the query.

    Raises:  BadRequest ``query``.
    """
    text = request.query.get(name)
    if text is None:
        return default
    if not NUMBER.fullmatch(text):
        raise wrong("query", f"{name}={text[:64]!r} is not a number", "write a whole number", (name,))
    return int(text)


def rows_per_read(request: HpcRequest) -> int:
    """Return how many rows an answer has at most."""
    return min(max(1, number_in(request, "rowsPerRead", ROWS)), MAX_ROWS)


def page(request: HpcRequest, rows: Sequence[Row]) -> tuple[Sequence[Row], Mapping[str, str]]:
    """Return the rows that were asked for, and the headers that say how to go on."""
    size = rows_per_read(request)
    if "startRow" in request.query:
        begin = number_in(request, "startRow", 0)
        return rows[begin : begin + size], {ROW_COUNT: str(len(rows))}
    begin = number_in(request, "queryId", 0)
    more = {CONTINUATION: str(begin + size)} if len(rows) > begin + size else {}
    return rows[begin : begin + size], more


def in_order(
    request: HpcRequest, rows: list[Row], parameter: str, value: Callable[[Row, str], str]
) -> list[Row]:
    """Return rows by the property that a parameter names, numbers as numbers."""
    name = request.query.get(parameter, "")
    if not name and "asc" not in request.query:
        return rows

    def key(row: Row) -> tuple[int, int, str]:
        text = value(row, name or "Id")
        return (0, int(text), "") if NUMBER.fullmatch(text) else (1, 0, text.lower())

    return sorted(rows, key=key, reverse=not request.flag("asc", default=True))


def objects(rows: Sequence[Properties], names: Sequence[str], headers: Mapping[str, str]) -> HpcReply:
    """Return rows as a list of objects with properties."""
    return HpcReply([{"Properties": listed(row, names)} for row in rows], headers=headers)
