"""Storage that speaks HTTP: ranges, redirects, lengths and times to wait as the server states them.

A result is written beside its name and moved where the server says that it speaks WebDAV, and goes on where
it stopped where it says that it can add to files.
Source: RFC 9110, "Range Requests", "Conditional Requests", "Retry-After"; RFC 6750, bearer tokens; RFC 4918,
"MOVE", "DAV Header"; https://sabre.io/dav/http-patch/."""

import base64
import email.utils
import http.client
import ssl
import time
from collections.abc import Iterator
from functools import partial
from urllib.parse import quote, unquote, urljoin, urlsplit

import urllib3
from urllib3 import HTTPHeaderDict
from urllib3.exceptions import HTTPError, IncompleteRead, ProtocolError

from headnode.adapters.staging.arrival import CHUNK, ArrivingFile, pieces_of
from headnode.adapters.staging.credentials import NOBODY, Credential
from headnode.adapters.staging.failures import ChangedOnTheWay, NeverTransferred, TransferFailed, shown
from headnode.adapters.staging.storage import Seen
from headnode.adapters.staging.uploads import (
    WANTED_CHECKSUMS,
    compare_tag,
    compare_upload,
    part_name,
    same_so_far,
)

MAX_REDIRECTS = 10
MAX_INTERIM = 20  # answers before the one to a request
MAX_TRAILERS = 100  # lines
_MAX_LINE = 65536  # bytes
MAX_WAIT = 3600.0  # seconds that a server may ask us to wait
_REDIRECTS = (301, 302, 303, 307, 308)
_PASSING = (408, 425, 429)  # and all from 500, but for those that never change
_LASTING = (501, 505, 507)
_PARTIAL, _NOT_SATISFIABLE = 206, 416
_REMEDIES = {
    401: "name a credential for the host that has not expired",
    403: "request access to it, or name another credential",
    404: "correct the URL",
    405: "use a server that accepts uploads, or another scheme",
    410: "correct the URL",
    413: "the server takes no file of this size",
    507: "free some space there",
}
Headers = dict[str, str]


class _Answer(http.client.HTTPResponse):
    """An answer with few interim ones before it, and few lines after it.

    The library reads any number of both.
    """

    _begun = 0

    def _read_status(self) -> tuple[str, int, str]:
        self._begun += 1
        if self._begun > MAX_INTERIM:
            raise http.client.BadStatusLine("more and more interim answers")
        return super()._read_status()  # type: ignore[misc, no-any-return]

    def _read_and_discard_trailer(self) -> None:
        """Read what follows the last chunk; the library reads any number of lines."""
        for _ in range(MAX_TRAILERS):
            if self.fp.readline(_MAX_LINE) in (b"\r\n", b"\n", b""):
                return
        raise http.client.HTTPException("more and more trailers")


class _Http(urllib3.connection.HTTPConnection):
    response_class = _Answer


class _Https(urllib3.connection.HTTPSConnection):
    response_class = _Answer


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


def _connections(context: ssl.SSLContext | None) -> urllib3.PoolManager:
    made = urllib3.PoolManager(ssl_context=context, retries=False, maxsize=4)
    made.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return made


_GONE = (404, 410)
_PATCHES = "sabredav-partialupdate"  # https://sabre.io/dav/http-patch/


class HttpStorage:
    """Servers that speak HTTP, with their connections."""

    def __init__(self, credential: Credential, timeout: float) -> None:
        self._credential, self._timeout = credential, timeout
        self._known: dict[str, frozenset[str]] = {}  # by the URL of a directory, what its server can
        self._own_context = _context_of(credential)
        self._managers: dict[tuple[bool, bool], urllib3.PoolManager] = {}  # with the credential, by https

    def fetch(self, url: str, arrival: ArrivingFile, progress: Seen) -> int | None:
        origin, begun = arrival.kept()
        total, _, validator = origin.partition(" ")
        if begun and total == str(begun):  # all of it is here, and was not renamed
            progress(arrival.begin(origin))
            return begun
        headers = {"Range": f"bytes={begun}-", "If-Range": validator} if begun and validator else {}
        answer = self._ask("GET", url, headers, also=(_NOT_SATISFIABLE,) if headers else ())
        try:
            if answer.status == _NOT_SATISFIABLE:
                arrival.discard()
                raise ChangedOnTheWay("the file has become shorter")
            if headers and answer.status == _PARTIAL and _first(answer) == begun:
                arrival.begin(origin)
            else:
                begun = 0
                if arrival.begin(_origin(answer)):
                    arrival.restart()
            length = _length(answer)
            total_size = None if length is None else begun + length
            progress.expect(total_size)
            progress(begun)
            for data in self._pieces(answer, url):
                progress(len(data))
                arrival.write(data)
            return total_size
        finally:
            answer.close()

    def _pieces(self, answer: urllib3.BaseHTTPResponse, url: str) -> Iterator[bytes]:
        try:
            while data := answer.read1(CHUNK, decode_content=False):
                yield data
        except (IncompleteRead, ProtocolError) as error:
            raise TransferFailed(f"the connection to {urlsplit(url).hostname} was cut") from error
        except HTTPError as error:
            raise TransferFailed(f"{urlsplit(url).hostname}: {_words(error)}") from error

    def store(self, file: int, size: int, url: str, token: str, progress: Seen) -> None:
        abilities = self._abilities(url)
        target = _beside(url, token) if "1" in abilities else url
        begun = self._stored(file, size, target) if _PATCHES in abilities else 0
        body = partial(pieces_of, file, size, progress, begun)  # anew after each redirect
        headers = {"Content-Length": str(size - begun)}
        if begun:
            progress(begun)
            headers |= {"Content-Type": "application/x-sabredav-partialupdate", "X-Update-Range": "append"}
        answer = self._ask("PATCH" if begun else "PUT", target, headers, body=body)
        answer.drain_conn()
        compare_tag(answer.headers, file, size)
        about = self._about(target)
        if about is not None:
            compare_upload(about, file, size)
        if target is not url:
            move = {"Destination": url, "Overwrite": "T"}
            self._ask("MOVE", target, move).drain_conn()

    def _abilities(self, url: str) -> frozenset[str]:
        """Return what a server says it can do with files of a directory beyond HTTP: the words of ``DAV``.

        Nothing without MOVE.  A URL with a signature is good for one method only.
        """
        folder = url.rpartition("/")[0]
        if "?" in url:
            return frozenset()
        if folder not in self._known:
            answer = self._once("OPTIONS", url, {}, None)
            answer.drain_conn()
            methods = {word.strip() for word in answer.headers.get("Allow", "").split(",")}
            words = (
                answer.headers.get("DAV", "").split(",") if answer.status < 300 and "MOVE" in methods else ()
            )
            self._known[folder] = frozenset(word.strip() for word in words)
        return self._known[folder]

    def _about(self, url: str) -> HTTPHeaderDict | None:
        """Return what the server says of a file that it has; None when it does not say.

        Raises:  TransferFailed when it has none.
        """
        if "?" in url:
            return None
        answer = self._once("HEAD", url, WANTED_CHECKSUMS, None)
        answer.close()
        if answer.status in _GONE:
            raise TransferFailed(f"{urlsplit(url).hostname} accepted {shown(url)}, but does not have it")
        return answer.headers if answer.status < 300 else None

    def _stored(self, file: int, size: int, url: str) -> int:
        """Return the byte from which to continue an upload that another process began."""
        answer = self._once("HEAD", url, {}, None)
        answer.close()
        there = (_length(answer) or 0) if answer.status < 300 else 0

        def end(begin: int) -> bytes:
            part = self._once("GET", url, {"Range": f"bytes={begin}-"}, None)
            try:
                right = _first(part) == begin if part.status == _PARTIAL else part.status == 200 and not begin
                return bytes(part.read(CHUNK, decode_content=False)) if right else b""
            except HTTPError:
                return b""
            finally:
                part.close()

        return same_so_far(file, size, there, end)

    def forget(self, url: str, token: str) -> None:
        if "1" in self._abilities(url):
            self._once("DELETE", _beside(url, token), {}, None).close()

    def below(self, url: str) -> Iterator[str]:
        raise NeverTransferred(
            f"{shown(url)} is a directory, and HTTP has no list of files",
            "name the files, or use sftp or s3",
        )

    def close(self) -> None:
        for manager in self._managers.values():
            manager.clear()
        self._managers.clear()

    def _manager(self, url: str, mine: bool) -> urllib3.PoolManager:
        """Return the connections for a URL.

        Only https needs the authorities of the system: to read them takes 25 ms, for each thread.
        """
        by_https = urlsplit(url).scheme == "https"
        if (mine, by_https) not in self._managers:
            own = self._own_context if mine else None
            context = (own or ssl.create_default_context()) if by_https else None
            self._managers[mine, by_https] = _connections(context)
        return self._managers[mine, by_https]

    def _ask(
        self, method: str, url: str, headers: Headers, *, also: tuple[int, ...] = (), body: object = None
    ) -> urllib3.BaseHTTPResponse:
        """Return the answer of the server where redirects end.

        Raises:  TransferFailed.
        """
        seen: list[str] = []
        while True:
            answer = self._once(method, url, headers, body)
            if answer.status not in _REDIRECTS:
                break
            answer.close()
            seen.append(url)
            url = _next(url, answer.headers.get("Location", ""), seen)
        if answer.status < 300 or answer.status in also:
            return answer
        answer.close()
        raise _refused(method, url, answer)

    def _once(self, method: str, url: str, headers: Headers, body: object) -> urllib3.BaseHTTPResponse:
        host = urlsplit(url).hostname or ""
        mine = self._credential is not NOBODY and self._credential.serves(host)
        fields = {"Accept-Encoding": "identity", "User-Agent": "headnode", **headers}
        if mine:
            fields |= _login(self._credential)
        wait = urllib3.Timeout(connect=self._timeout, read=self._timeout)
        data = body() if callable(body) else None
        try:
            return self._manager(url, mine).request(
                method, url, headers=fields, body=data, redirect=False, preload_content=False, timeout=wait
            )
        except HTTPError as error:
            raise TransferFailed(f"{host}: {_words(error)}") from error
        except ValueError as error:  # a URL that no request can be made of
            raise NeverTransferred(f"{shown(url)}: {error}", "correct the URL") from None


def _context_of(credential: Credential) -> ssl.SSLContext | None:
    """Return how the user is identified and servers are checked; None if as for everyone."""
    authority, certificate = credential.path("authority"), credential.path("certificate")
    if not (authority or certificate):
        return None
    context = ssl.create_default_context(cafile=authority or None)
    if certificate:
        context.load_cert_chain(certificate)
    return context


def _beside(url: str, token: str) -> str:
    folder, _, name = url.rpartition("/")
    return f"{folder}/{quote(part_name(unquote(name), token))}"


def _login(credential: Credential) -> Headers:
    """Return the header that identifies the user.  Over plain HTTP every host on the way can read it."""
    if credential.get("token"):
        return {"Authorization": f"Bearer {credential.get('token')}"}
    if credential.get("user"):
        pair = f"{credential.get('user')}:{credential.get('password')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _next(url: str, location: str, seen: list[str]) -> str:
    where = urljoin(url, location)
    parts = urlsplit(where)
    if not location or parts.scheme not in ("http", "https") or not parts.hostname:
        raise NeverTransferred(f"{shown(url)} leads to no web address", "correct the URL")
    if where in seen or len(seen) >= MAX_REDIRECTS:
        raise NeverTransferred(f"{shown(seen[0])} leads in a circle, or on and on", "correct the URL")
    if urlsplit(url).scheme == "https" and parts.scheme == "http":
        raise NeverTransferred(
            f"{shown(url)} leads from https to http, where the file could be changed", "correct the URL"
        )
    return where


def _refused(method: str, url: str, answer: urllib3.BaseHTTPResponse) -> TransferFailed:
    what = f"{urlsplit(url).hostname} answers {method} with {answer.status} {(answer.reason or '')[:60]}"
    passing = answer.status in _PASSING or (answer.status >= 500 and answer.status not in _LASTING)
    if passing:
        return TransferFailed(what.strip(), after=_wait(answer.headers.get("Retry-After", "")))
    return NeverTransferred(what.strip(), _REMEDIES.get(answer.status, "correct the URL"))


def _wait(text: str) -> float:
    """Return the seconds that a server asks to be left alone for, a number or a date.

    >>> _wait("120"), _wait("soon"), _wait("99999999")
    (120.0, 0.0, 3600.0)
    """
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_WAIT)
    try:
        until = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):  # of a zone that is years away
        return 0.0
    return min(max(until - time.time(), 0.0), MAX_WAIT)


def _validator(answer: urllib3.BaseHTTPResponse) -> str:
    """Return by what a server knows whether a file is still the same; "" when it cannot."""
    tag = answer.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified", "")


def _origin(answer: urllib3.BaseHTTPResponse) -> str:
    known = _validator(answer)
    return f"{answer.headers.get('Content-Length', '')} {known}" if known else ""


def _length(answer: urllib3.BaseHTTPResponse) -> int | None:
    length = answer.headers.get("Content-Length", "")
    encoded = answer.headers.get("Content-Encoding", "identity") not in ("", "identity")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 19 and not encoded else None


def _first(answer: urllib3.BaseHTTPResponse) -> int:
    """Return the number of the first byte of a partial answer; -1 when it is not told."""
    unit, _, rest = answer.headers.get("Content-Range", "").partition(" ")
    first = rest.partition("-")[0]
    return int(first) if unit == "bytes" and first.isascii() and first.isdigit() else -1


def _words(error: Exception) -> str:
    """Return what went wrong with a connection, in few words and without a URL."""
    message = str(getattr(error, "reason", "") or error)
    return message.rpartition(": ")[2][:200] or type(error).__name__
