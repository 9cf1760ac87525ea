"""Sessions, addresses that log in once, and failed log-ins: what ends when, and what is bounded."""

import asyncio
import re
import time
from pathlib import Path

import pytest
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from headnode.apps.web.console.lab_runs import LabRuns
from headnode.apps.web.console.people import FRESH, make_token
from headnode.apps.web.console.visit import AnswersForAll, SharedByVisits, Visit, Visitor
from headnode.apps.web.identity import IDLE_END, LAST_END, WebSessions
from headnode.apps.web.login.choices import LIFETIME, MAX_ADDRESSES, OneTimeLogins
from headnode.apps.web.login.passwords import (
    FORGOTTEN,
    OF_ADDRESS,
    OF_USER,
    OF_USER_AT_ADDRESS,
    LoginThrottle,
)
from headnode.core.model.bounds import WEB_SESSIONS_OF_USER
from headnode.core.model.errors import NotAllowed

NOW = 1_000_000.0


def opened(sessions: WebSessions, user: str = "ada", now: float = NOW) -> str:
    """Return the key of a new session."""
    response = Response()
    sessions.open(user, response, now)
    found = re.fullmatch(r"[^=]+=([^;]+); .*", response.headers["set-cookie"])
    assert found
    return found[1]


def test_a_session_ends_when_it_is_idle_and_when_it_is_old() -> None:
    sessions = WebSessions(secure=False)
    key = opened(sessions)
    assert sessions.find(key, NOW + IDLE_END) is not None
    assert sessions.find(key, NOW + 2 * IDLE_END + 1) is None
    key, now = opened(sessions), NOW
    while now + IDLE_END <= NOW + LAST_END:
        now += IDLE_END
        assert sessions.find(key, now) is not None
    assert sessions.find(key, NOW + LAST_END + 1) is None
    assert sessions.find(key, NOW) is None  # it is gone for ever


@pytest.mark.parametrize("age", [FRESH, -1.0])
def test_a_session_that_is_not_fresh_makes_no_token(age: float) -> None:
    async def unasked(*_: object, **__: object) -> dict[str, object]:
        raise AssertionError("the head was asked")

    request = Request({"type": "http", "path": "/people", "query_string": b"", "headers": []})
    visitor = Visitor(unasked, unasked, "c", unasked, time.time() - age)
    shared = SharedByVisits(AnswersForAll(), LabRuns(Path("/nowhere")), "blue", asyncio.Lock())
    visit = Visit(request, visitor, {}, shared)
    form = FormData([("name", "x"), ("role", "all"), ("days", "7")])
    with pytest.raises(NotAllowed, match="log-in-again"):
        asyncio.run(make_token(visit, form))


def test_keys_of_sessions_are_never_guessed_from_another() -> None:
    sessions = WebSessions(secure=False)
    keys = {opened(sessions) for _ in range(20)}
    assert len(keys) == 20
    assert all(len(key) >= 43 for key in keys)  # 256 bits
    for wrong in ("", None, "x", next(iter(keys))[:-1], next(iter(keys)) + "A"):
        assert sessions.find(wrong, NOW) is None


def test_the_oldest_session_of_a_user_ends_for_a_new_one() -> None:
    sessions = WebSessions(secure=False)
    first, other = opened(sessions), opened(sessions, "bob")
    later = [opened(sessions) for _ in range(WEB_SESSIONS_OF_USER.most)]
    assert sessions.find(first, NOW) is None
    assert all(sessions.find(key, NOW) for key in (*later, other))


@pytest.mark.parametrize(("secure", "begin"), [(True, "__Host-headnode="), (False, "headnode-session=")])
def test_a_cookie_is_for_this_host_and_for_no_script(secure: bool, begin: str) -> None:
    response = Response()
    WebSessions(secure=secure).open("ada", response, NOW)
    cookie = response.headers["set-cookie"]
    assert cookie.startswith(begin)
    attributes = set(cookie.split("; ")[1:])
    assert attributes == {"HttpOnly", "Path=/", "SameSite=lax"} | ({"Secure"} if secure else set())


def test_an_address_logs_in_once_and_for_ten_minutes() -> None:
    logins = OneTimeLogins()
    key = logins.offer("ada", NOW).rpartition("/")[2]
    assert logins.take(key, NOW + LIFETIME - 1) == "ada"
    late = logins.offer("ada", NOW).rpartition("/")[2]
    for refused, now in ((key, NOW), (late, NOW + LIFETIME), ("", NOW), ("x", NOW)):
        with pytest.raises(NotAllowed):
            logins.take(refused, now)


def test_addresses_that_nobody_uses_are_bounded() -> None:
    logins = OneTimeLogins()
    keys = [logins.offer("ada", NOW).rpartition("/")[2] for _ in range(MAX_ADDRESSES + 1)]
    with pytest.raises(NotAllowed):
        logins.take(keys[0], NOW)
    assert logins.take(keys[1], NOW) == "ada"


def waits(throttle: LoginThrottle, user: str, address: str, now: float) -> bool:
    try:
        throttle.check(user, address, now)
    except NotAllowed:
        return True
    return False


def test_the_wait_of_a_user_at_an_address_doubles_up_to_its_bound() -> None:
    throttle, now = LoginThrottle(), NOW
    for _ in range(OF_USER_AT_ADDRESS.free):
        assert not waits(throttle, "ada", "a", now)
        throttle.failed("ada", "a", now)
    for wait in (1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300):
        assert waits(throttle, "ada", "a", now + wait - 0.5)
        now += wait
        assert not waits(throttle, "ada", "a", now)
        throttle.failed("ada", "a", now)
    assert waits(throttle, "ada", "a", now)
    throttle.failed("ada", "a", now + FORGOTTEN + 1)
    assert not waits(throttle, "ada", "a", now + FORGOTTEN + 1)


def test_failures_elsewhere_keep_a_user_waiting_only_shortly() -> None:
    throttle = LoginThrottle()
    for number in range(10 * OF_USER.free):
        throttle.failed("ada", f"a{number}", NOW)
    assert waits(throttle, "ada", "at home", NOW)
    assert not waits(throttle, "ada", "at home", NOW + OF_USER.longest)


def test_users_at_one_address_share_many_failures() -> None:
    throttle = LoginThrottle()
    for number in range(OF_ADDRESS.free):
        assert not waits(throttle, f"u{number}", "proxy", NOW)
        throttle.failed(f"u{number}", "proxy", NOW)
    assert waits(throttle, "somebody", "proxy", NOW)
    assert not waits(throttle, "somebody", "elsewhere", NOW)


def test_a_log_in_forgets_the_failures_of_the_user_there() -> None:
    throttle = LoginThrottle()
    for _ in range(OF_USER_AT_ADDRESS.free):
        throttle.failed("ada", "a", NOW)
    throttle.succeeded("ada", "a")
    assert not waits(throttle, "ada", "a", NOW)
