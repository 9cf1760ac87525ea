"""Delivery of one notice or of events to one address, by mail or to a webhook.  It may take many seconds.

Source:  Standard Webhooks 1.0, "Webhook metadata" and "Signature scheme".
"""

import base64
import errno
import hashlib
import hmac
import http.client
import smtplib
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.files.owners import why_not_trusted
from headnode.adapters.notify.outbox import Became, Delivery, DeliveryResult, EventPost, host_and_port
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.quantities import Instant
from headnode.core.state.notices import Notice, is_hook, is_mail

MIN_SECRET = 24  # bytes
MAX_SECRET = 4096  # bytes
MAX_PROBLEM = 200  # letters of what a server said instead of an answer


def mail(notice: Notice, sender: str, to: str) -> EmailMessage:
    """Return the notice as mail; told twice, it has the same Message-ID both times."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, subject(notice)
    message["Date"] = datetime.fromtimestamp(notice.at, UTC)
    domain = Address(addr_spec=sender).domain
    message["Message-ID"] = f"<{notice.number}.{int(notice.at)}.{notice.job}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(_lines(notice)) + "\n")
    return message


def subject(notice: Notice) -> str:
    """Return the notice in one line."""
    named = f" ({_on_one_line(notice.name)})" if notice.name else ""
    did = "has started" if notice.kind == "started" else f"is {notice.state}"
    return f"[{notice.cluster}] job {notice.job}{named} {did}"


def _on_one_line(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _lines(notice: Notice) -> list[str]:
    facts = [
        ("Job", f"{notice.job} {notice.name}".rstrip()),
        ("State", notice.state.capitalize()),
        ("Owner", notice.owner),
        ("Project", notice.project),
        ("Submitted", _time(notice.submitted)),
        ("Started", _time(notice.started)),
        ("Ended", _time(notice.at) if notice.kind == "ended" else ""),
        ("Processors", str(notice.processors or "")),
        ("Nodes", ", ".join(notice.nodes)),
        ("Exit code", "" if notice.exit_code is None else str(notice.exit_code)),
        ("Message", notice.message),
    ]
    lines = [f"{word + ':':<12} {value}" for word, value in facts if value]
    return [*lines, "", f"Details: hn job view {notice.job}"]


def _time(at: Instant | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).astimezone().isoformat(timespec="seconds")


def document(notice: Notice) -> dict[str, Any]:
    """Return the notice as hooks get it; `text` is for those that show nothing else, such as chats."""
    return {"text": subject(notice), **msgspec.to_builtins(notice)}


TIMEOUT = 20.0  # seconds for each piece of an answer of a server
MAX_DELIVERY = 60.0  # seconds for the whole; less than the head's patience with this process
_TRY_AGAIN = {408, 425, 429}  # of the answers 400 to 499 of a web server


class _Connections:
    """The connections of one delivery; `end` ends them, also if bytes arrive all the time."""

    def __init__(self) -> None:
        self.late = False
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()

    def connect(self, *args: Any, **options: Any) -> socket.socket:
        """Connect as `socket.create_connection` does.

        Raises:  OSError.
        """
        made = socket.create_connection(*args, **options)
        with self._lock:
            if self.late:
                made.close()
                raise TimeoutError(_TOO_SLOW)
            self._open.append(made.dup())  # TLS puts another object in the place of the first
        return made

    def end(self) -> None:
        """End the connections: what is read or written on them fails."""
        with self._lock:
            self.late = True
            for each in self._open:
                with suppress(OSError):  # the other side was faster
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the descriptors."""
        with self._lock:
            for each in self._open:
                each.close()
            self._open.clear()


_TOO_SLOW = "the delivery took too long"


@contextmanager
def _limited() -> Iterator[_Connections]:
    """Yield what connects for one delivery.

    Raises:  TimeoutError when the delivery was ended.
    """
    connections = _Connections()
    timer = threading.Timer(MAX_DELIVERY, connections.end)
    timer.daemon = True
    timer.start()
    try:
        yield connections
    except (OSError, smtplib.SMTPException, http.client.HTTPException) as error:
        if connections.late:
            raise TimeoutError(f"{_TOO_SLOW}: more than {MAX_DELIVERY:g} s") from error
        raise
    finally:
        timer.cancel()
        connections.close()


def deliver(delivery: Delivery) -> DeliveryResult:
    """Bring a notice; say what became of it."""
    try:
        became, problem = _deliver(delivery)
    except (OSError, smtplib.SMTPException, HeadnodeError, ValueError) as error:
        by = f"{delivery.ways.server}: " if is_mail(delivery.address) else ""
        became, problem = _judged(error), f"{by}{str(error) or type(error).__name__}"
    return DeliveryResult(delivery.notice.number, delivery.address, became, problem)


def _deliver(delivery: Delivery) -> tuple[Became, str]:
    if is_hook(delivery.address, delivery.ways.hooks):
        return _post(delivery)
    if not is_mail(delivery.address):
        return "never", f"{delivery.address!r} is not an address to which this cluster sends notices"
    if not delivery.ways.server:
        return "later", "no mail server is set: hn cluster params EmailSmtpServer=HOST"
    _send(delivery)
    return "brought", ""


def _judged(error: Exception) -> Became:
    """Return whether it is worth another try."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = [code for code, _ in error.recipients.values()]
        return "never" if all(code >= 500 for code in codes) else "later"
    if isinstance(error, smtplib.SMTPSenderRefused | smtplib.SMTPDataError):
        return "never" if error.smtp_code >= 500 else "later"
    return "later"


class _Mail(smtplib.SMTP):
    def __init__(self, host: str, port: int, connections: _Connections) -> None:
        self._connections = connections
        super().__init__(host, port, timeout=TIMEOUT)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._connections.connect((host, port), timeout, self.source_address)


class _MailOverTls(_Mail):
    default_port = smtplib.SMTP_SSL_PORT

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        plain = super()._get_socket(host, port, timeout)
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def _send(delivery: Delivery) -> None:
    ways = delivery.ways
    host, port = host_and_port(ways.server)
    sender = ways.sender or f"headnode@{socket.getfqdn()}"
    kind = _MailOverTls if ways.encryption == "tls" else _Mail
    with _limited() as connections, kind(host, port, connections) as server:
        if ways.encryption == "starttls":
            server.starttls(context=ssl.create_default_context())
        if ways.credentials:
            user, password = _credentials(ways.credentials)
            server.login(user, password)
        server.send_message(mail(delivery.notice, sender, delivery.address))


def _credentials(path: str) -> tuple[str, str]:
    """Return user and password for the mail server.

    Raises:  OSError, also when another user could have written the file.
    """
    if why_not := why_not_trusted(path):
        raise PermissionError(errno.EPERM, why_not)
    user, _, password = Path(path).read_text(encoding="utf-8").strip().partition(":")
    return user, password


class _NoDetours(urllib.request.HTTPRedirectHandler):
    """A hook that sends us elsewhere would take us round the list of hooks that are allowed."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_connection, http.client.HTTPConnection, self._connections), request)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_connection, http.client.HTTPSConnection, self._connections), request)


def _connection(
    kind: type[http.client.HTTPConnection], connections: _Connections, host: str, **options: Any
) -> http.client.HTTPConnection:
    made = kind(host, **options)
    made._create_connection = connections.connect  # type: ignore[attr-defined]
    return made


def _post(delivery: Delivery) -> tuple[Became, str]:
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": f"{delivery.notice.cluster}-{delivery.notice.number}",
    }
    return post_document(delivery.address, msgspec.json.encode(document(delivery.notice)), headers)


def post_document(address: str, body: bytes, headers: Mapping[str, str]) -> tuple[Became, str]:
    """Post a document to a web address; return what became of it, and why it was not taken.

    Raises:  OSError when the server does not answer.
    """
    sent = {"User-Agent": "headnode", **headers}
    request = urllib.request.Request(address, body, sent, method="POST")  # noqa: S310  (http or https only, see is_hook)
    try:
        with _limited() as connections:
            opener = urllib.request.build_opener(_NoDetours, _Plain(connections), _Secure(connections))
            with opener.open(request, timeout=TIMEOUT):
                return "brought", ""
    except urllib.error.HTTPError as error:
        with error:
            final = 300 <= error.code < 500 and error.code not in _TRY_AGAIN
            reason = _on_one_line(str(error.reason))[:MAX_PROBLEM]  # of up to 64 KB: it is logged and shown
        return "never" if final else "later", f"it answered {error.code} {reason}".rstrip()
    except http.client.InvalidURL as error:
        return "never", str(error)
    except http.client.HTTPException as error:
        return "later", f"its answer is not HTTP: {type(error).__name__}: {str(error)[:MAX_PROBLEM]!r}"


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
        text = file.read(MAX_SECRET).strip()
    encoded = text.removeprefix(b"whsec_")
    secret = text if encoded == text else base64.b64decode(encoded, validate=True)
    if len(secret) < MIN_SECRET:
        raise ValueError(f"{path!r} holds a key of {len(secret)} bytes; write {MIN_SECRET} or more")
    return secret
