"""Notifications of job events, and the addresses of webhooks."""

import re
from collections.abc import Collection
from typing import Literal

import msgspec
from msgspec.structs import replace

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobEnded, JobStarted
from headnode.core.state.job_record import JobRecord, JobRun

_PARTS = re.compile(r"(?P<scheme>[A-Za-z]+)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?")
_AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
_PRINTABLE = re.compile(r"[!-~]+")
_ENCODED = re.compile(r"%(?P<code>[0-9A-Fa-f]{2})?")
_USUAL_PORTS = {"http": 80, "https": 443}
_LAST_PORT = 65535
_NEVER_ENCODED = frozenset("./\\%")  # some servers decode a path before, and some after, they take it apart


class HookAddress(msgspec.Struct, frozen=True):
    """A webhook address in comparable form: scheme and host in lower case, the port always set."""

    scheme: str
    host: str
    port: int
    segments: tuple[str, ...]  # of the path; the last is empty if the path ends in a slash
    query: str = ""

    def is_within(self, allowed: "HookAddress") -> bool:
        """Whether the address is the allowed one, or one below it where its path ends in a slash or not."""
        if (self.scheme, self.host, self.port) != (allowed.scheme, allowed.host, allowed.port):
            return False
        above = allowed.segments[:-1] if allowed.segments[-1] == "" else allowed.segments
        same = self.segments[: len(above)] == above
        return same and (len(self.segments) > len(above) or above == allowed.segments)


def read_hook_address(text: str) -> HookAddress:
    """Return the parts of an address.

    Raises:  BadRequest ``hook-address`` for what is no address, or could be understood in two ways.

    >>> read_hook_address("HTTPS://Chat.Example.org/hooks/T1").port
    443
    """
    match = _PARTS.fullmatch(text) if _PRINTABLE.fullmatch(text) and "\\" not in text else None
    scheme = match["scheme"].lower() if match else ""
    if match is None or scheme not in _USUAL_PORTS:
        raise _wrong(
            text, "it is not http://HOST/PATH or https://HOST/PATH in printable ASCII without \\ and #"
        )
    host, port = _host_and_port(text, scheme, match["authority"])
    segments = tuple((match["path"] or "/")[1:].split("/"))
    for segment in segments:
        _check_segment(text, segment)
    return HookAddress(scheme, host, port, segments, match["query"] or "")


def is_allowed(address: str, allowed: Collection[str]) -> bool:
    """Whether an address is one of those allowed, or below one."""
    try:
        wanted = read_hook_address(address)
        return any(wanted.is_within(read_hook_address(each)) for each in allowed)
    except BadRequest:
        return False


def _host_and_port(text: str, scheme: str, authority: str) -> tuple[str, int]:
    if "@" in authority:
        raise _wrong(text, "it names a user before an @, which hides the host")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _wrong(text, f"{authority!r} is not HOST or HOST:PORT")
    port = int(match["port"]) if match["port"] else _USUAL_PORTS[scheme]
    if not 1 <= port <= _LAST_PORT:
        raise _wrong(text, f"there is no port {port}")
    host = match["host"].lower().removesuffix(".")
    if not host:
        raise _wrong(text, "it names no host")
    return host, port


def _check_segment(text: str, segment: str) -> None:
    for match in _ENCODED.finditer(segment):
        code = match["code"]
        if code is None:
            raise _wrong(text, "a % is not followed by two hexadecimal digits")
        letter = chr(int(code, 16))
        if letter in _NEVER_ENCODED or not letter.isprintable():
            raise _wrong(
                text, f"its path encodes a dot, a slash, a percent sign or a control character (%{code})"
            )
    if segment.partition(";")[0] in (".", ".."):
        raise _wrong(text, "its path leads upwards with . or ..")


def _wrong(text: str, why: str) -> BadRequest:
    return BadRequest(
        code="hook-address",
        what=f"{text!r} is not an address of a webhook: {why}",
        fix="write it as https://chat.example.org/hooks/T1",
    )


Kind = Literal["started", "ended"]
_MAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_MAY_ASK = b"notify_on_"  # how the names of both wishes begin, in an encoded description


class Notice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One notification.  `number` is that of the event; times are seconds since 1970."""

    number: int
    kind: Kind
    cluster: str
    job: JobId
    owner: str
    name: str
    project: str
    state: str  # running, finished, failed or canceled
    at: Instant
    submitted: Instant | None = None
    started: Instant | None = None
    nodes: tuple[str, ...] = ()
    processors: int = 0
    exit_code: int | None = None
    message: str = ""


def may_ask(spec: bytes) -> bool:
    """Return whether an encoded description may ask for a notice; looking closer costs more."""
    return _MAY_ASK in spec


def notice_of(number: int, event: Event, record: JobRecord, spec: JobSpec, cluster: str) -> Notice | None:
    """Return the notification of an event of this job; None if none was requested."""
    about = Notice(
        number=number,
        kind="started",
        cluster=cluster,
        job=record.id,
        owner=record.owner,
        name=spec.name,
        project=spec.project,
        state="running",
        at=event.at,
        submitted=record.submitted,
        started=event.at,
    )
    match event:
        case JobStarted(allocation=place) if spec.notify_on_start:
            held = sum(len(numbers) for _, numbers in place)
            return replace(about, nodes=tuple(node for node, _ in place), processors=held)
        case JobEnded(outcome=outcome, message=message) if spec.notify_on_completion:
            return _with_usage(replace(about, kind="ended", state=outcome, message=message), record.run)
        case _:
            return None


def _with_usage(notice: Notice, run: JobRun | None) -> Notice:
    if run is None:
        return replace(notice, started=None)
    return replace(
        notice,
        started=run.started,
        nodes=run.usage.nodes,
        processors=run.usage.processors,
        exit_code=run.usage.exit_code,
    )


def addresses(email: str) -> tuple[str, ...]:
    """Return where a job's notices go: addresses of mail and of the web, between commas."""
    return tuple(filter(None, (piece.strip() for piece in re.split(r"[,;]", email))))


def is_mail(address: str) -> bool:
    """Return whether it is an address of mail."""
    return _MAIL.fullmatch(address) is not None


def is_hook(address: str, allowed: Collection[str]) -> bool:
    """Return whether it is an address of the web that is allowed, or below one."""
    return is_allowed(address, allowed)
