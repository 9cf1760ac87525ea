"""One request of a browser to the console: its user, the answers of the head, its page or action."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from headnode.apps.web.console.lab_runs import LabRuns
from headnode.core.model.errors import BadRequest

MAX_KEPT = 64  # answers that are kept for all users
HeadAnswer = dict[str, Any]  # an answer of the head, as JSON has it
Model = dict[str, Any]  # what a page shows


class PageMessage(NamedTuple):
    """A sentence at the top of a page.  `kind` is "", "warning" or "problem"."""

    text: str
    kind: str = ""
    fix: str = ""


def with_notes(done: str, answer: HeadAnswer) -> PageMessage:
    """Return the message of a change that is done, with the notes of the head about it."""
    return PageMessage(" ".join([done, *(f"Note: {note}." for note in answer.get("notes", ()))]))


class MenuItem(NamedTuple):
    """A page in the menu; `here`: the page that is shown is this one, or below it."""

    path: str
    name: str
    here: bool


class MenuPart(NamedTuple):
    """A group of pages in the menu, "" for the first."""

    title: str
    pages: tuple[MenuItem, ...]


EVERYBODY: Final = (
    ("/", "Overview"),
    ("/jobs", "Jobs"),
    ("/new", "New job"),
    ("/recurring", "Recurring jobs"),
    ("/plan", "Plan"),
    ("/nodes", "Nodes"),
    ("/reservations", "Reservations"),
    ("/templates", "Templates"),
    ("/people", "People"),
)
OF_SITE: Final = (("/site", "Queue of the site"), ("/site/nodes", "Nodes of the site"))
ADMINISTRATORS: Final = (
    ("/settings", "Settings"),
    ("/heads", "Heads"),
    ("/audit", "Audit"),
    ("/lab", "Policy lab"),
)


class HeadQuestions(Protocol):
    """The head, asked for one user."""

    async def __call__(self, question: str, **fields: Any) -> HeadAnswer:
        """Return the answer; fields that are None are left out.

        Raises:  the head's refusal as the error it is; Unavailable when it is not reached.
        """
        ...


class CommandRunner(Protocol):
    """A command on many nodes, for one user."""

    def __call__(self, fields: Mapping[str, Any]) -> AsyncGenerator[HeadAnswer, None]:
        """Yield what the command says; `fields` are those of the verb run_on_nodes.

        Raises:  HeadnodeError.
        """
        ...


class Visitor(NamedTuple):
    """The user of a request: the head, asked for that user, and the token of the session for forms."""

    ask: HeadQuestions
    run_on_nodes: CommandRunner
    csrf: str
    redeem: Callable[[str], Awaitable[HeadAnswer]]  # a login for its token
    began: float  # when the session began, in seconds since 1970


class _KeptAnswer(NamedTuple):
    """An answer, or the task that finds it, until an instant of the monotonic clock."""

    until: float
    task: asyncio.Task[Any]

    def is_fresh(self, now: float) -> bool:
        failed = self.task.done() and (self.task.cancelled() or self.task.exception() is not None)
        return now < self.until and not failed


class AnswersForAll:
    """Answers that are the same for all users, kept for some seconds: many look at the same page."""

    def __init__(self) -> None:
        self._kept: dict[str, _KeptAnswer] = {}

    async def get(self, name: str, seconds: float, find: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return what `find` gave at most so many seconds ago; those that ask meanwhile wait for the same."""
        now = time.monotonic()
        self._kept = {known: each for known, each in self._kept.items() if each.is_fresh(now)}
        if name not in self._kept:
            if len(self._kept) >= MAX_KEPT:
                del self._kept[min(self._kept, key=lambda known: self._kept[known].until)]
            self._kept[name] = _KeptAnswer(now + seconds, asyncio.create_task(find()))
        return await asyncio.shield(self._kept[name].task)


class SharedByVisits(NamedTuple):
    """What all visits of a gateway share."""

    answers: AnswersForAll
    lab: LabRuns
    colour: str  # of the cluster's name
    roles_turn: asyncio.Lock  # held to read the roles of users and write them with a change


class Visit:
    """A request of a browser for a page, or to change something."""

    def __init__(
        self,
        request: Request,
        visitor: Visitor,
        you: Mapping[str, Any],
        shared: SharedByVisits,
        messages: Sequence[PageMessage] = (),
    ) -> None:
        self.request, self.you = request, you
        self.ask, self.run_on_nodes, self.csrf, self.redeem, self.began = visitor
        self.kept, self.lab, self.colour = shared.answers.get, shared.lab, shared.colour
        self.roles_turn = shared.roles_turn
        self.messages = list(messages)
        self.now = time.time()
        self.site = ""  # the resource over which the head runs
        self.nonce = ""  # of the style elements that scripts of the page make; "": they make none
        self.event_query = ""  # the query of the stream of events after which the page is fetched again
        self.path = request.url.path.removesuffix(".json") or "/"
        self.query: Mapping[str, str] = request.query_params

    @property
    def wants_json(self) -> bool:
        """Whether the data is asked for, and not the page."""
        return self.request.url.path.endswith(".json")

    @property
    def once(self) -> str:
        """A new key for a form: if the form is sent twice, it is carried out once."""
        return secrets.token_urlsafe(16)

    @property
    def administers(self) -> bool:
        """Whether the user is an administrator."""
        return bool(self.you["role"] == "administrator")

    @property
    def oversees(self) -> bool:
        """Whether the user may change the jobs of others."""
        return self.you["role"] in ("operator", "administrator")

    @property
    def menu(self) -> tuple[MenuPart, ...]:
        """The pages that the user may open."""
        parts: list[tuple[str, Sequence[tuple[str, str]]]] = [("", EVERYBODY)]
        parts += [("Site", OF_SITE)] if self.site else []
        parts += [("Administration", ADMINISTRATORS)] if self.administers else []
        return tuple(
            MenuPart(title, tuple(MenuItem(path, name, self._is_at(path)) for path, name in pages))
            for title, pages in parts
        )

    def _is_at(self, path: str) -> bool:
        below = path not in ("/", "/site") and self.path.startswith(path + "/")
        return self.path == path or below

    @property
    def zone(self) -> str:
        """The time zone of times without another, by name."""
        return time.strftime("%Z (UTC%z)", time.localtime(self.now))

    @property
    def json_address(self) -> str:
        """Where the data of this page is."""
        path = "/index" if self.path == "/" else self.path
        query = self.request.url.query
        return f"{path}.json" + (f"?{query}" if query else "")

    def here(self, **changes: str | int | None) -> str:
        """Return this address with some parameters changed; None removes one."""
        kept = [(key, value) for key, value in self.request.query_params.multi_items() if key not in changes]
        kept += [(key, str(value)) for key, value in changes.items() if value not in (None, "")]
        return self.path + (f"?{urlencode(kept)}" if kept else "")

    def number(self, name: str) -> int | None:
        """Return a parameter of the address as an integer; None when there is none, or no integer."""
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


class GoTo(NamedTuple):
    """The answer to an action, or to a search: go to another page, with a message there."""

    path: str
    message: PageMessage | None = None


class FormAgain(NamedTuple):
    """The answer to an action with a wrong field: its form again, with the error at the field."""

    template: str
    model: Model
    status: int = 422


ShowPage = Callable[[Visit], Awaitable[Model | GoTo | Response]]
CarryOut = Callable[[Visit, FormData], Awaitable[GoTo | FormAgain | Response]]


class ConsolePage(NamedTuple):
    """A page: its address, its template, and what makes its model."""

    path: str
    template: str
    show: ShowPage


class ConsoleAction(NamedTuple):
    """Something that a form does."""

    path: str
    carry_out: CarryOut


def texts(form: FormData | Mapping[str, str], name: str) -> str:
    """Return a field of a form as text, "" when it is missing or a file."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def instant_in(form: FormData, name: str) -> float | None:
    """Return the date in a field of a form, in seconds since 1970; None if the field is empty.

    Raises:  BadRequest ``time``.
    """
    text = texts(form, name)
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError):
        raise BadRequest(
            code="time", what=f"{text!r} is not a date", fix="write it as 2026-12-31T18:00", path=(name,)
        ) from None


def whole_number_in(form: FormData, name: str, what: str) -> int | None:
    """Return the whole number in a field of a form; None if the field is empty.  `what`: what it counts.

    Raises:  BadRequest ``count``.
    """
    text = texts(form, name)
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest(
            code="count", what=f"{text!r} is not a number of {what}", fix="write a whole number", path=(name,)
        )
    return int(text) if text else None


def numbers(values: Sequence[object]) -> list[int]:
    """Return those of the values that are whole numbers of up to 15 digits, each once, in their order."""
    whole = [int(v) for v in values if isinstance(v, str) and v.isascii() and v.isdigit() and len(v) < 16]
    return list(dict.fromkeys(whole))
