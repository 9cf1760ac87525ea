"""Posts of events to webhooks: signed, and how far each hook has come, on the disk.

Source:  Standard Webhooks 1.0, "Webhook metadata" and "Signature scheme"."""

import base64
import errno
import hashlib
import hmac
import logging
import sqlite3
import time
from pathlib import Path

import msgspec

from headnode.adapters.files.owners import why_not_trusted
from headnode.adapters.notify.delivery import post_document
from headnode.adapters.notify.outbox import DeliveryResult

SHORTEST_SECRET = 24  # bytes
LONGEST_SECRET = 4096  # bytes
log = logging.getLogger("headnode.notices")


class EventPost(msgspec.Struct, frozen=True, tag=True):
    """Events up to a number, for one hook.  `body` is JSON; `secret_file` names the file of the key."""

    identity: str  # the same when it is sent again
    number: int
    hook: str
    body: bytes
    content_type: str
    secret_file: str = ""  # empty: they are not signed


def send_events(post: EventPost) -> DeliveryResult:
    """Post events; say what became of them."""
    try:
        headers = {"Content-Type": post.content_type, "webhook-id": post.identity}
        moment = str(int(time.time()))
        headers["webhook-timestamp"] = moment
        if post.secret_file:
            headers["webhook-signature"] = signature(
                _secret(post.secret_file), post.identity, moment, post.body
            )
        became, problem = post_document(post.hook, post.body, headers)
    except (OSError, ValueError) as error:
        became, problem = "later", str(error) or type(error).__name__
    return DeliveryResult(post.number, post.hook, became, problem)


def signature(secret: bytes, identity: str, moment: str, body: bytes) -> str:
    """Return the signature of a post: version 1, HMAC-SHA256 in base64."""
    signed = f"{identity}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def _secret(path: str) -> bytes:
    """Return the key that a file holds, `whsec_` before its base64 or as it is.

    Raises:  OSError, also when another user could have written the file; ValueError for one that is short.
    """
    if why_not := why_not_trusted(path):
        raise PermissionError(errno.EPERM, why_not)
    with Path(path).open("rb") as file:
        text = file.read(LONGEST_SECRET).strip()
    encoded = text.removeprefix(b"whsec_")
    secret = text if encoded == text else base64.b64decode(encoded, validate=True)
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"{path!r} holds a key of {len(secret)} bytes; write {SHORTEST_SECRET} or more")
    return secret


class HookCursors:
    """The number of the last event that each hook has, in one file."""

    def __init__(self, path: Path) -> None:
        """Raises:  sqlite3.Error."""
        path.touch(mode=0o600)
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = normal")
        self._database.execute(
            "create table if not exists cursors (hook text primary key, number integer not null)"
        )

    def number(self, hook: str) -> int | None:
        """Return the last event that a hook has; None for a new hook."""
        row = self._database.execute("select number from cursors where hook = ?", (hook,)).fetchone()
        return None if row is None else int(row[0])

    def move(self, hook: str, number: int) -> None:
        """Note that a hook has the events up to a number; without it they come again after a restart."""
        try:
            self._database.execute("insert or replace into cursors values (?, ?)", (hook, number))
        except sqlite3.Error as error:
            log.error("the progress of webhook %s cannot be stored: %s", hook, error)

    def keep_only(self, hooks: set[str]) -> None:
        """Forget the hooks that are not set any more."""
        for (hook,) in self._database.execute("select hook from cursors").fetchall():
            if hook not in hooks:
                self._database.execute("delete from cursors where hook = ?", (hook,))

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
