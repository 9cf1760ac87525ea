"""Log-in with the password of the machine, by PAM: an own service, in a thread, throttled.

A gateway that is not root must be in the group that may read the hashes (on Debian ``shadow``), or PAM must
ask a server.
Source:  pam(8); Debian's common-auth and common-account.
"""

import asyncio
import concurrent.futures
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qs

import pamela
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.console.rendering import templates
from headnode.apps.web.gateway import Gateway
from headnode.apps.web.identity import address_of, local_path, user_to_log_in
from headnode.apps.web.problems import answering, cross_site, status_of, wrong
from headnode.core.model.bounds import NAME
from headnode.core.model.errors import HeadnodeError, NotAllowed, NotFound, Unavailable


class _Limit(NamedTuple):
    """How many failures cost no time, and the longest wait (seconds) after more of them."""

    free: int
    longest: float


OF_USER_AT_ADDRESS: Final = _Limit(5, 300.0)
OF_ADDRESS: Final = _Limit(50, 300.0)  # many users may come by one proxy
OF_USER: Final = _Limit(20, 30.0)  # short: others must not lock a user out
FORGOTTEN: Final = 3600.0  # seconds without a failure
MAX_REMEMBERED: Final = 10_000  # users and addresses; then the oldest are forgotten


class _Failures(NamedTuple):
    number: int
    last: float


class LoginThrottle:
    """Counts failures for each user, each address, and each user at an address."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], _Failures] = {}
        self._running: Counter[tuple[str, str]] = Counter()  # attempts whose end is not known yet

    def check(self, user: str, address: str, now: float) -> None:
        """Refuse an attempt that comes too early.

        Raises:  NotAllowed ``too-many-log-ins``.
        """
        wait = max(self._wait(key, limit, now) for key, limit in _keys(user, address))
        if wait > 0:
            raise NotAllowed(
                code="too-many-log-ins",
                what="too many log-ins have failed",
                fix=f"try again in {wait:.0f} seconds",
            )

    @contextmanager
    def attempt(self, user: str, address: str, now: float) -> Iterator[None]:
        """Admit an attempt; until its end it counts as a failure.

        Raises:  as `check`.
        """
        self.check(user, address, now)
        keys = [key for key, _ in _keys(user, address)]
        self._running.update(keys)
        try:
            yield
        finally:
            self._running.subtract(keys)
            self._running += Counter()  # forgets those without one

    def failed(self, user: str, address: str, now: float) -> None:
        """Count a failure."""
        for key, _ in _keys(user, address):
            before = self._failures.pop(key, _Failures(0, now))
            number = 0 if now - before.last > FORGOTTEN else before.number
            self._failures[key] = _Failures(number + 1, now)
        for key in list(self._failures)[: max(0, len(self._failures) - MAX_REMEMBERED)]:
            del self._failures[key]

    def succeeded(self, user: str, address: str) -> None:
        """Forget the failures of a user at an address."""
        self._failures.pop((user, address), None)

    def _wait(self, key: tuple[str, str], limit: _Limit, now: float) -> float:
        """Return how many seconds are left until the next attempt."""
        running, failures = self._running[key], self._failures.get(key, _Failures(0, now))
        number, last = failures.number + running, now if running else failures.last
        if number < limit.free:
            return 0.0
        return last + min(limit.longest, 2.0 ** min(number - limit.free, 20)) - now


def _keys(user: str, address: str) -> tuple[tuple[tuple[str, str], _Limit], ...]:
    return ((user, address), OF_USER_AT_ADDRESS), (("", address), OF_ADDRESS), ((user, ""), OF_USER)


log = logging.getLogger("headnode.web")

SERVICE: Final = "headnode"
SERVICE_FILES: Final = (Path("/etc/pam.d") / SERVICE, Path("/usr/lib/pam.d") / SERVICE)
_MAX_FORM: Final = 8192  # bytes
_MAX_PASSWORD: Final = 1024  # characters
_THREADS: Final = 4  # a wrong password takes two seconds
_MAX_WAITING: Final = 32  # log-ins


class PamPasswords:
    """Asks PAM whether a password is that of a user."""

    def __init__(self) -> None:
        """Look for the service: without it PAM would use another one, which may accept any password.

        Raises:  NotFound ``no-pam-service``.
        """
        if not any(file.exists() for file in SERVICE_FILES):
            raise NotFound(
                code="no-pam-service",
                what=f"there is no PAM service {str(SERVICE_FILES[0])!r}",
                fix="copy packaging/pam.d/headnode there, and look whether it fits your site",
            )
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, "pam")
        self._waiting = 0

    async def are_right(self, user: str, password: str) -> bool:
        """Whether PAM admits the user with this password.

        Raises:  Unavailable ``log-in-busy``.
        """
        if self._waiting >= _MAX_WAITING:
            raise Unavailable(code="log-in-busy", what="many users log in now", fix="try again later")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, _ask_pam, user, password)
        finally:
            self._waiting -= 1


def _ask_pam(user: str, password: str) -> bool:
    try:
        pamela.authenticate(user, password, SERVICE)
    except pamela.PAMError as error:
        log.info("PAM refused a log-in: %s", error)
        return False
    return True


class PasswordPages:
    """The page that asks for user and password, and what it sends."""

    def __init__(self, gateway: Gateway, passwords: PamPasswords) -> None:
        self._gateway, self._passwords = gateway, passwords
        self._throttle = LoginThrottle()

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/login", answering(self.show), methods=["GET"]),
            Route("/login", answering(self.log_in), methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Show the form."""
        return _page(local_path(request.query_params.get("next", "/")))

    async def log_in(self, request: Request) -> Response:
        """Begin a session with a new key, if the password is right."""
        if not self._gateway.identity.is_from_here(request):
            raise cross_site()
        async with self._gateway.bodies.body_of(request, _MAX_FORM) as body:
            form = parse_qs(body.decode("latin-1"), max_num_fields=10, encoding="utf-8", errors="replace")
        following = local_path(form.get("next", ["/"])[0])
        try:
            user = await self._admit(form.get("user", [""])[0], form.get("password", [""])[0], request)
        except HeadnodeError as error:
            return _page(following, error)
        response = RedirectResponse(following, 303)
        sessions = self._gateway.identity.sessions
        sessions.close(request.cookies.get(sessions.cookie))
        sessions.open(user, response, time.time())
        return response

    async def _admit(self, user: str, password: str, request: Request) -> str:
        """Return the name of the user, as this machine has it.

        Raises:  NotAllowed ``log-in``, ``too-many-log-ins``; BadRequest ``field``; Unavailable.
        """
        address = address_of(request)
        if not 0 < len(user) <= NAME.most or not user.isprintable() or len(password) > _MAX_PASSWORD:
            raise wrong("field", "user or password is too long, or is missing")
        with self._throttle.attempt(user, address, time.time()):
            is_right = "\0" not in password and await self._passwords.are_right(user, password)
        if not is_right:
            self._throttle.failed(user, address, time.time())
            log.warning("a log-in of %r at %s has failed", user, address)
            raise NotAllowed(code="log-in", what="user or password is wrong", fix="try again")
        name = user_to_log_in(user)
        self._throttle.succeeded(user, address)
        return name


def _page(following: str, error: HeadnodeError | None = None) -> Response:
    text = templates().get_template("login.html").render(following=following, error=error)
    return HTMLResponse(text, status_of(error) if error is not None else 200)
