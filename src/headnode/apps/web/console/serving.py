"""The routes of the console, and its visitors: found by their sessions, with forms within their bounds.

Each page is at its address and as JSON beside it; each action is a POST.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote

import msgspec
from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from headnode.apps.web.console.heads import HEAD_PAGES
from headnode.apps.web.console.job import CHANGE_PAGES, JOB_PAGES, SOURCE_PAGES, download_source
from headnode.apps.web.console.job_actions import JOB_ACTIONS
from headnode.apps.web.console.job_output import follow_output
from headnode.apps.web.console.job_tasks import TASK_PAGES
from headnode.apps.web.console.jobs import JOBS_ACTIONS, JOBS_PAGES
from headnode.apps.web.console.lab_runs import LabRuns
from headnode.apps.web.console.new_job import NEW_ACTIONS, NEW_PAGES
from headnode.apps.web.console.node_commands import COMMAND_ACTIONS, COMMAND_PAGES
from headnode.apps.web.console.nodes import NODE_ACTIONS, NODE_PAGES
from headnode.apps.web.console.overview import OVERVIEW_PAGES
from headnode.apps.web.console.people import PEOPLE_ACTIONS, PEOPLE_PAGES
from headnode.apps.web.console.plan import PLAN_PAGES
from headnode.apps.web.console.policy_lab import LAB_ACTIONS, LAB_PAGES
from headnode.apps.web.console.recurring import RECURRING_ACTIONS, RECURRING_PAGES
from headnode.apps.web.console.rendering import STATIC, STATIC_ADDRESS, render, templates
from headnode.apps.web.console.reservations import RESERVATION_ACTIONS, RESERVATION_PAGES
from headnode.apps.web.console.settings import RULES_ACTIONS, RULES_PAGES, SETTINGS_ACTIONS, SETTINGS_PAGES
from headnode.apps.web.console.site_queue import SITE_KEPT, SITE_PAGES, site_name
from headnode.apps.web.console.visit import (
    AnswersForAll,
    ConsoleAction,
    ConsolePage,
    FormAgain,
    GoTo,
    HeadAnswer,
    Model,
    PageMessage,
    SharedByVisits,
    Visit,
    Visitor,
)
from headnode.apps.web.gateway import Gateway
from headnode.apps.web.head_client import WebCaller
from headnode.apps.web.identity import CSRF_FIELD, address_of
from headnode.apps.web.problems import not_logged_in, problem_response, status_of
from headnode.core.model.errors import BadRequest, HeadnodeError, NotFound

PAGES: Final = (
    *OVERVIEW_PAGES,
    *JOBS_PAGES,
    *JOB_PAGES,
    *TASK_PAGES,
    *SOURCE_PAGES,
    *CHANGE_PAGES,
    *NEW_PAGES,
    *RECURRING_PAGES,
    *NODE_PAGES,
    *COMMAND_PAGES,
    *PLAN_PAGES,
    *SITE_PAGES,
    *RESERVATION_PAGES,
    *RULES_PAGES,
    *SETTINGS_PAGES,
    *PEOPLE_PAGES,
    *HEAD_PAGES,
    *LAB_PAGES,
)
ACTIONS: Final = (
    *JOBS_ACTIONS,
    *JOB_ACTIONS,
    *NEW_ACTIONS,
    *RECURRING_ACTIONS,
    *NODE_ACTIONS,
    *COMMAND_ACTIONS,
    *RESERVATION_ACTIONS,
    *RULES_ACTIONS,
    *SETTINGS_ACTIONS,
    *PEOPLE_ACTIONS,
    *LAB_ACTIONS,
)

MESSAGE_COOKIE: Final = "headnode-message"
MESSAGES_KEPT: Final = 1000
MESSAGE_TIME: Final = 60.0  # seconds until a message that was not shown is forgotten
MAX_FIELDS = 5000  # of a form: a page of 1,000 jobs and their filter
MAX_FIELD = 16 * 1024 * 1024  # bytes: a job file


class SessionDoor:
    """Finds the visitor of a request by its session, and reads forms that a page of this session has sent."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def visitor(self, request: Request) -> Visitor | Response:
        """Return the visitor; or what to answer a browser without a session."""
        session = self._gateway.identity.session(request)
        if session is None:
            return _to_log_in(request)
        caller = WebCaller(address_of(request), user=session.user)

        async def ask(question: str, **fields: Any) -> HeadAnswer:
            request = {name: value for name, value in fields.items() if value is not None}
            answer: HeadAnswer = msgspec.json.decode(
                await self._gateway.head.ask_fields(caller, question, request)
            )
            del answer["ok"]
            return answer

        head, conversations = self._gateway.head, self._gateway.conversations
        run_on_nodes = partial(conversations.run_on_nodes, caller)
        return Visitor(ask, run_on_nodes, session.csrf, head.redeem, session.began)

    async def form(self, request: Request) -> FormData:
        """Return the form of a request.

        Raises:  NotAllowed ``cross-site`` unless a page of this session sent it; BadRequest ``form``,
        ``too-large``; Unavailable ``too-slow``, ``gateway-busy``.
        """
        session = self._gateway.identity.session(request)
        if session is None:
            raise not_logged_in()
        async with self._gateway.bodies.body_of(request) as body:
            form = await read_form(request, body)
        secret = form.get(CSRF_FIELD)
        self._gateway.identity.check_change(request, session, secret if isinstance(secret, str) else None)
        return form


def _to_log_in(request: Request) -> Response:
    """Return the way to the log-in page; programs get the refusal itself."""
    path = request.url.path
    if path.endswith((".json", ".txt")) or request.method != "GET":
        return problem_response(not_logged_in())
    following = path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(following, safe='')}", 303)


async def read_form(request: Request, body: bytes) -> FormData:
    """Return the fields and files of a body.

    Raises:  BadRequest ``form``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            return await MultiPartParser(
                request.headers,
                _in_one_piece(body),
                max_files=4,
                max_fields=MAX_FIELDS,
                max_part_size=MAX_FIELD,
            ).parse()
        pairs: list[tuple[str, str | UploadFile]] = []
        pairs += parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except (MultiPartException, FormParserError, ValueError, KeyError) as error:
        raise BadRequest(
            code="form", what=f"the form cannot be read: {error}", fix="send it from its page again"
        ) from None
    return FormData(pairs)


async def _in_one_piece(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


class MessagesForNextPage:
    """Messages about actions, kept until the page that the browser is sent to."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, PageMessage]] = {}

    def leave(self, response: Response, message: PageMessage | None) -> None:
        """Keep a message for the browser that gets the response."""
        if message is None:
            return
        now = time.monotonic()
        while self._kept and (
            len(self._kept) >= MESSAGES_KEPT or next(iter(self._kept.values()))[0] < now - MESSAGE_TIME
        ):
            del self._kept[next(iter(self._kept))]
        key = secrets.token_urlsafe(16)
        self._kept[key] = (now, message)
        response.set_cookie(MESSAGE_COOKIE, key, max_age=60, httponly=True, samesite="lax")

    def take(self, request: Request) -> list[PageMessage]:
        """Return the message for a browser, once."""
        message = self._kept.pop(request.cookies.get(MESSAGE_COOKIE, ""), None)
        return [] if message is None else [message[1]]


class ConsoleSite:
    """Answers the requests of browsers for pages and actions."""

    def __init__(self, door: SessionDoor, state: Path, colour: str) -> None:
        """`state`: the state directory of the head; `colour`: of the cluster's name."""
        self._door, self._messages = door, MessagesForNextPage()
        self._shared = SharedByVisits(AnswersForAll(), LabRuns(state), colour, asyncio.Lock())

    def routes(self) -> list[BaseRoute]:
        """Return the routes of all pages and actions."""
        routes: list[BaseRoute] = [
            Mount(STATIC_ADDRESS, StaticFiles(directory=STATIC)),
            Route("/login", log_in),
            Route("/jobs/{job:int}/tasks/{task:int}/output.part", self._file(follow_output)),
            Route("/jobs/{job:int}/source.txt", self._file(download_source)),
        ]
        for page in PAGES:
            path = "/index" if page.path == "/" else page.path
            routes += [Route(f"{path}.json", self._page(page)), Route(page.path, self._page(page))]
        routes += [Route(each.path, self._action(each), methods=["POST"]) for each in ACTIONS]
        return [*routes, Route("/{path:path}", self._nothing)]

    async def _nothing(self, request: Request) -> Response:
        """Answer an address without a page: with a page to browsers, as the REST API to programs."""
        if "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404)

        async def refuse(visit: Visit) -> Response:  # noqa: ARG001
            raise NotFound(
                code="no-path", what="there is nothing at this address", fix="use the menu or search"
            )

        return await self._for_visit(request, refuse)

    async def _for_visit(self, request: Request, answer: Callable[[Visit], Awaitable[Response]]) -> Response:
        """Return what `answer` gives the visitor of a request, or the page of the error that it raises."""
        visitor = self._door.visitor(request)
        if isinstance(visitor, Response):
            return visitor
        try:
            you = await visitor.ask("whoami")
            site = await self._shared.answers.get("site", SITE_KEPT, partial(site_name, visitor.ask))
        except HeadnodeError as error:
            return problem_page(Visit(request, visitor, NOBODY, self._shared), error)
        messages = self._messages.take(request)
        visit = Visit(request, visitor, you, self._shared, messages)
        visit.site = site
        try:
            return await answer(visit)
        except HeadnodeError as error:
            return problem_page(visit, error)

    def _page(self, page: ConsolePage) -> Callable[[Request], Awaitable[Response]]:
        async def answer(visit: Visit) -> Response:
            model = await page.show(visit)
            return model if isinstance(model, Response) else self._answer(visit, model, page.template)

        async def show(request: Request) -> Response:
            return await self._for_visit(request, answer)

        return show

    def _answer(self, visit: Visit, answer: Model | GoTo | FormAgain, template: str) -> Response:
        match answer:
            case GoTo(path, message):
                response = RedirectResponse(path, 303)
                self._messages.leave(response, message)
                return response
            case FormAgain(again, model, status):
                return render(visit, again, model, status)
            case model:
                return render(visit, template, model)

    def _action(self, action: ConsoleAction) -> Callable[[Request], Awaitable[Response]]:
        async def answer(visit: Visit) -> Response:
            form = await self._door.form(visit.request)
            try:
                done = await action.carry_out(visit, form)
            finally:
                await form.close()
            return done if isinstance(done, Response) else self._answer(visit, done, "")

        async def carry_out(request: Request) -> Response:
            return await self._for_visit(request, answer)

        return carry_out

    def _file(self, show: Callable[[Visit], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def send(request: Request) -> Response:
            return await self._for_visit(request, show)

        return send


NOBODY: Final[Mapping[str, str]] = {"user": "", "role": "user", "cluster": "Headnode"}
"""The user of a page about an error, where the head does not answer."""


async def log_in(request: Request) -> Response:  # noqa: ARG001
    """Return the page for browsers without a session."""
    return HTMLResponse(templates().get_template("login.html").render())


def problem_page(visit: Visit, error: HeadnodeError) -> Response:
    """Return the page that shows an error of the head."""
    status = status_of(error)
    titles: Sequence[tuple[int, str]] = ((403, "Not allowed"), (404, "Not found"), (503, "Not available"))
    title = dict(titles).get(status, "This did not work")
    model = {"title": title, **error.as_fields(), "back": visit.path}
    return render(visit, "error.html", model, status)


def console_routes(gateway: Gateway, colour: str) -> list[BaseRoute]:
    """Return the routes of the console's pages and actions; `colour` is that of the cluster's name."""
    return ConsoleSite(SessionDoor(gateway), gateway.head.state, colour).routes()
