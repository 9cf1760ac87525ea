"""One connection to a head: length-prefixed JSON, requests and answers in order.

Source:  docs/contracts/01-local-protocol.md.
Cost:    uses `_socket`, the C part of `socket`, which imports in 0.2 ms instead of 7."""

import os
from _json import encode_basestring_ascii, make_scanner
from _socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET
from _socket import socket as Socket

from headnode.adapters.wire.frame_codec import HEADER, frame, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _ScannerSettings:
    """What the C scanner wants to know; the values are those of `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> float:
        raise ValueError(f"{name} is no JSON")


_scan = make_scanner(_ScannerSettings())  # type: ignore[arg-type]


def read_json(text: str) -> "Any":
    """Return the value that `text` stands for.

    Raises:  ValueError when `text` is not exactly one JSON value.
    """
    stripped = text.strip(" \t\r\n")
    try:
        value, end = _scan(stripped, 0)
    except StopIteration as stop:
        raise ValueError(f"no JSON value at character {stop.value}") from None
    if end != len(stripped):
        raise ValueError(f"something follows the JSON value at character {end}")
    return value


def write_json(value: "Any") -> str:
    """Return `value` as compact JSON text.

    Raises:  ValueError for an infinite number, TypeError for what JSON has no word for.

    >>> write_json({"verb": "cancel_job", "job": 7, "force": True, "message": None})
    '{"verb":"cancel_job","job":7,"force":true,"message":null}'
    """
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _write_float(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_write_key(key)}:{write_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(write_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _write_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"key {key!r} is not a text")
    return encode_basestring_ascii(key)


def _write_float(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{value} has no JSON form")
    return repr(value)


MAX_FRAME = 64 * 1024 * 1024  # bytes, of an answer
MAX_REQUEST = 16 * 1024 * 1024  # bytes: `bounds.REQUEST`, which takes long to import
MAX_ADDRESS = 107  # bytes of path a Unix socket address can hold
TIMEOUT = 60.0  # seconds without a sign from the head before a single question is given up


class Connection:
    """Sends requests and yields answers.  Not to be shared between threads."""

    def __init__(self, socket: Socket, buffered: "Callable[[], int]" = int) -> None:
        """`buffered` returns how many bytes the socket holds that it has read already: encrypted ones do."""
        self._socket, self._buffered = socket, buffered

    @classmethod
    def to(cls, socket_path: str) -> "Connection":
        """Connect to the head that listens at `socket_path`.

        Raises:  OSError as the system says it: FileNotFoundError, ConnectionRefusedError, PermissionError.
        """
        socket = Socket(AF_UNIX, SOCK_STREAM)
        try:
            _connect(socket, socket_path)
        except BaseException:
            socket.close()
            raise
        return cls(socket)

    def peer(self) -> tuple[int, int]:
        """Return the process that listens at a Unix socket, and its user id, as the kernel knows them.

        Raises:  OSError.
        """
        from struct import unpack

        process, user, _ = unpack("3i", self._socket.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))
        return process, user

    def send(self, request: "dict[str, Any]") -> None:
        """Send one request.

        Raises:  OverflowError when it is larger than `MAX_REQUEST`; OSError when the head is gone.
        """
        body = write_json(request).encode()
        if len(body) > MAX_REQUEST:
            raise OverflowError(f"the request has {len(body):,} bytes; the limit is {MAX_REQUEST:,}")
        self._socket.sendall(frame(body))

    def receive(self, timeout: float | None = TIMEOUT) -> "dict[str, Any]":
        """Return the next answer.

        Unit:    seconds (`timeout`; None waits for ever).
        Raises:  TimeoutError; EOFError when the head hangs up; ValueError when it answers no JSON object.
        """
        self._socket.settimeout(timeout)
        size = size_of(self._read(HEADER), MAX_FRAME)
        answer = read_json(self._read(size).decode())
        if not isinstance(answer, dict):
            raise ValueError("an answer that is not a JSON object")
        return answer

    def fileno(self) -> int:
        """Return the descriptor that is readable when an answer comes."""
        return self._socket.fileno()

    @property
    def ended(self) -> bool:
        """Whether the head has hung up.  Between an answer and the next request it sends nothing."""
        from select import POLLIN, poll

        looking = poll()  # select() takes no descriptor above 1023
        looking.register(self._socket.fileno(), POLLIN)
        return bool(looking.poll(0))

    def detach(self) -> int:
        """Return the descriptor of a plain socket, which belongs to the caller now."""
        return self._socket.detach()

    @property
    def pending(self) -> bool:
        """Whether something has been read from the descriptor that `receive` has not returned yet."""
        return self._buffered() > 0

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise EOFError("the head closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _connect(socket: Socket, path: str) -> None:
    if len(os.fsencode(path)) <= MAX_ADDRESS:
        socket.connect(path)
        return
    # A deep state directory does not fit into a socket address; its open descriptor does.
    directory, name = os.path.split(path)
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        socket.connect(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)


def granted(answer: "dict[str, Any]") -> "dict[str, Any]":
    """Return an answer that is no refusal; raise one that is, as the error it is."""
    if answer.pop("ok", None) is True:
        return answer
    from headnode.apps.client.failures import refusal_in

    raise refusal_in(answer)
