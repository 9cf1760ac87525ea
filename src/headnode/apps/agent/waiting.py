"""What the log of an agent says of its head: that it is reached, and why it is not; once, and then seldom."""

import logging
import ssl
import time

log = logging.getLogger("headnode.agent")

AGAIN = 600.0  # seconds after which it is told anew that the same head is not reached for the same reason
OTHER = 60.0  # seconds after which another reason is told, when some were told
SOME = 3
_JOIN = "join again with the line that `hn node invite` prints on the head node"


class Waiting:
    """How long an agent has been without its head, and what was told of that."""

    def __init__(self, head: str) -> None:
        self._head = head
        self._since: float | None = None
        self._told, self._told_at, self._lines = "", 0.0, 0

    def reached(self, cluster: str) -> None:
        """The head has welcomed us."""
        away = "" if self._since is None else f", after {time.monotonic() - self._since:.0f} s without it"
        log.info("connected to the head of cluster %s at %s%s", cluster, self._head, away)
        self._since, self._told, self._lines = None, "", 0

    def failed(self, why: str) -> None:
        """The head could not be reached, or has hung up."""
        now = time.monotonic()
        self._since = self._since or now
        rest = AGAIN if why == self._told else OTHER if self._lines >= SOME else 0.0
        if now - self._told_at < rest:
            return
        log.warning(
            "no connection to the head at %s for %.0f s: %s; still trying",
            self._head, now - self._since, why,
        )  # fmt: skip
        self._told, self._told_at, self._lines = why, now, self._lines + 1


def reason_of(error: Exception) -> str:
    """Return why the head was not reached, and what to do about it."""
    match error:
        case ssl.SSLCertVerificationError():
            return (
                f"its certificate is not trusted ({error.verify_message}): its authority is not the one "
                f"that this node joined; restore authority/ on the head node (hn restore), or {_JOIN}"
            )
        case ssl.SSLError():
            said = (error.reason or str(error)).lower().replace("_", " ")
            return f"the encrypted connection failed ({said}); if the head does not know this node, {_JOIN}"
        case ConnectionRefusedError():
            return "nothing listens there"
        case TimeoutError():
            return "it does not answer"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return str(error)
