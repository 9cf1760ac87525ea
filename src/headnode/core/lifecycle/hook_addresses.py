"""Addresses of webhooks, taken apart and compared by what servers understand, not by their text.

An address that two programs could understand differently is refused: what an administrator has allowed and
what a server makes of it must be the same place.
Source: RFC 3986, "Uniform Resource Identifier: Generic Syntax", sections 3 and 6.
"""

import re
from collections.abc import Collection

import msgspec

from headnode.core.model.errors import BadRequest

_PARTS = re.compile(r"(?P<scheme>[A-Za-z]+)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?")
_AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
_PRINTABLE = re.compile(r"[!-~]+")
_ENCODED = re.compile(r"%(?P<code>[0-9A-Fa-f]{2})?")
_USUAL_PORTS = {"http": 80, "https": 443}
_LAST_PORT = 65535
_NEVER_ENCODED = frozenset("./\\%")  # some servers decode a path before, and some after, they take it apart


class HookAddress(msgspec.Struct, frozen=True):
    """An address as it is compared: small letters in scheme and host, the port written out."""

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
    found = _PARTS.fullmatch(text) if _PRINTABLE.fullmatch(text) and "\\" not in text else None
    scheme = found["scheme"].lower() if found else ""
    if found is None or scheme not in _USUAL_PORTS:
        raise _wrong(
            text, "it is not http://HOST/PATH or https://HOST/PATH in printable ASCII without \\ and #"
        )
    host, port = _host_and_port(text, scheme, found["authority"])
    segments = tuple((found["path"] or "/")[1:].split("/"))
    for segment in segments:
        _check_segment(text, segment)
    return HookAddress(scheme, host, port, segments, found["query"] or "")


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
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise _wrong(text, f"{authority!r} is not HOST or HOST:PORT")
    port = int(found["port"]) if found["port"] else _USUAL_PORTS[scheme]
    if not 1 <= port <= _LAST_PORT:
        raise _wrong(text, f"there is no port {port}")
    host = found["host"].lower().removesuffix(".")
    if not host:
        raise _wrong(text, "it names no host")
    return host, port


def _check_segment(text: str, segment: str) -> None:
    for found in _ENCODED.finditer(segment):
        code = found["code"]
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
        what=f"{text!r} is no address of a hook: {why}",
        fix="write it as https://chat.example.org/hooks/T1",
    )
