"""The console in the gateway: who visits it, forms within the bounds of bodies, and where to log in."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec
from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from headnode.apps.web.console.serving import ConsoleSite
from headnode.apps.web.console.visit import Told, Visitor
from headnode.apps.web.gateway import Gateway
from headnode.apps.web.head_client import WebCaller
from headnode.apps.web.identity import CSRF_FIELD, address_of
from headnode.apps.web.problems import not_logged_in, problem_response
from headnode.core.model.errors import BadRequest

MOST_FIELDS = 5000  # of a form: a page of 1,000 jobs and their filter
LARGEST_FIELD = 16 * 1024 * 1024  # bytes: a job file


def console_routes(gateway: Gateway, colour: str) -> list[BaseRoute]:
    """Return the routes of the console's pages and actions; `colour` is that of the cluster's name."""
    return ConsoleSite(SessionDoor(gateway), gateway.head.state, colour).routes()


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

        async def ask(question: str, **fields: Any) -> Told:
            given = {name: value for name, value in fields.items() if value is not None}
            told: Told = msgspec.json.decode(await self._gateway.head.ask_fields(caller, question, given))
            del told["ok"]
            return told

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
                max_fields=MOST_FIELDS,
                max_part_size=LARGEST_FIELD,
            ).parse()
        pairs: list[tuple[str, str | UploadFile]] = []
        pairs += parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except (MultiPartException, FormParserError, ValueError, KeyError) as error:
        raise BadRequest(
            code="form", what=f"the form cannot be read: {error}", fix="send it from its page again"
        ) from None
    return FormData(pairs)


async def _in_one_piece(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
