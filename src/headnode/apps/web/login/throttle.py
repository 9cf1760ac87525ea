"""How often log-ins may fail: after some failures the next attempts of a user and an address must wait.

Source:  OWASP Authentication Cheat Sheet, "Login Throttling".
"""

from typing import Final, NamedTuple

from headnode.core.model.errors import NotAllowed


class _Limit(NamedTuple):
    """How many failures cost no time, and the longest wait (seconds) after more of them."""

    free: int
    longest: float


OF_USER_AT_ADDRESS: Final = _Limit(5, 300.0)
OF_ADDRESS: Final = _Limit(50, 300.0)  # many users may come by one proxy
OF_USER: Final = _Limit(20, 30.0)  # short: others must not lock a user out
FORGOTTEN: Final = 3600.0  # seconds without a failure
MOST_REMEMBERED: Final = 10_000  # users and addresses; then the oldest are forgotten


class _Failures(NamedTuple):
    number: int
    last: float


class LoginThrottle:
    """Counts failures for each user, each address, and each user at an address."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], _Failures] = {}

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

    def failed(self, user: str, address: str, now: float) -> None:
        """Count a failure."""
        for key, _ in _keys(user, address):
            before = self._failures.pop(key, _Failures(0, now))
            number = 0 if now - before.last > FORGOTTEN else before.number
            self._failures[key] = _Failures(number + 1, now)
        for key in list(self._failures)[: max(0, len(self._failures) - MOST_REMEMBERED)]:
            del self._failures[key]

    def succeeded(self, user: str, address: str) -> None:
        """Forget the failures of a user at an address."""
        self._failures.pop((user, address), None)

    def _wait(self, key: tuple[str, str], limit: _Limit, now: float) -> float:
        """Return how many seconds are left until the next attempt."""
        found = self._failures.get(key)
        if found is None or found.number < limit.free:
            return 0.0
        return found.last + min(limit.longest, 2.0 ** min(found.number - limit.free, 20)) - now


def _keys(user: str, address: str) -> tuple[tuple[tuple[str, str], _Limit], ...]:
    return ((user, address), OF_USER_AT_ADDRESS), (("", address), OF_ADDRESS), ((user, ""), OF_USER)
