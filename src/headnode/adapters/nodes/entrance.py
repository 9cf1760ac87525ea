"""The port for other machines: unknown peers get little time, memory and log; addresses take turns."""

import asyncio
import hashlib
import ipaddress
import logging
import resource
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from headnode.adapters.wire.frames import BACKLOG
from headnode.core.model import bounds as b
from headnode.core.model.bounds import STRANGER_LINES
from headnode.core.model.errors import Unavailable

LOG_WINDOW = 60.0  # seconds


class LogRateLimit(logging.Filter):
    """Lets the first lines of each kind pass; lines are of one kind when their text before arguments is."""

    def __init__(self, most: int = STRANGER_LINES.most, window: float = LOG_WINDOW) -> None:
        super().__init__()
        self._most, self._window = most, window
        self._seen: dict[str, tuple[float, int]] = {}  # when the window began, and the lines in it
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the line is written; the first after a window tells how many were not."""
        kind, now = str(record.msg)[:200], time.monotonic()
        with self._lock:
            began, lines = self._seen.get(kind, (now, 0))
            over = now - began >= self._window
            left_out = max(0, lines - self._most) if over else 0
            began, lines = (now, 1) if over else (began, lines + 1)
            self._seen[kind] = began, lines
            if len(self._seen) > 1000:
                self._seen.clear()
        if left_out:
            record.msg = f"{record.msg} (and {left_out} more lines like this were left out)"
        if lines == self._most:
            record.msg = f"{record.msg} (further lines like this are left out for {self._window:.0f} s)"
        return lines <= self._most


log = logging.getLogger("headnode.strangers")

LOOK = 0.25  # seconds between two looks at who must go
STALLED = 0.5  # seconds; a check that is later than this drops no connection: this process was busy
AT_ONCE = 100  # connections that are accepted in one step

PeerAuthenticated = Callable[[], None]
"""To be called once the peer is authenticated."""

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, PeerAuthenticated], Awaitable[None]]
"""Serves one connection until it is over."""


class _Stranger:
    """A connection whose other end is not known."""

    def __init__(self, address: str, connection: socket.socket) -> None:
        self.address, self.connection = address, connection
        self.since = time.monotonic()
        self.writer: asyncio.StreamWriter | None = None
        self.task: asyncio.Task[None] | None = None

    def drop(self) -> None:
        """Close the connection; its earlier requests are carried out, but not answered."""
        if self.writer is not None:
            self.writer.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class Entrance:
    """Accepts connections for `serve`."""

    def __init__(self, context: ssl.SSLContext, serve: Serve) -> None:
        self._context, self._serve = context, serve
        self._listening: Sequence[socket.socket] = ()
        self._waiting: dict[str, deque[socket.socket]] = {}  # by address; whose turn it is comes first
        self._strangers: dict[str, dict[_Stranger, None]] = {}  # by address, the oldest first
        self._looking: asyncio.TimerHandle | None = None
        self._look_due = 0.0
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_waiting = min(b.WAITING.most, descriptors // 4)
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> int:
        """Begin to listen at all addresses of a host (`*`: of this machine); return the port; 0: a free one.

        Raises:  Unavailable ``listen``.
        """
        try:
            listening = await _listen(None if host == "*" else host, port)
        except OSError as error:
            raise Unavailable(
                code="listen",
                what=f"nodes cannot join at {host}:{port}: {error.strerror or error}",
                fix="choose another address or port with --listen",
            ) from None
        self.open(listening)
        return int(listening[0].getsockname()[1])

    def open(self, listening: Sequence[socket.socket]) -> None:
        """Accept from these sockets, which listen already."""
        self._listening = listening
        for each in listening:
            each.setblocking(False)
            asyncio.get_running_loop().add_reader(each, self._accept, each)

    def close(self) -> None:
        """Accept no more connections, and close those that wait."""
        for each in self._listening:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        self._listening = ()
        for waiting in self._waiting.values():
            for connection in waiting:
                connection.close()
        self._waiting.clear()
        if self._looking is not None:
            self._looking.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:  # no descriptors: wait for some
                log.warning("connections of other machines cannot be accepted: %s", error)
                self._pause(listening)
                break
            self._queue(connection, _site(str(peer[0])))
        self._fill()

    def _pause(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(1.0, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _queue(self, connection: socket.socket, address: str) -> None:
        waiting = self._waiting.setdefault(address, deque())
        full = sum(map(len, self._waiting.values())) >= self._most_waiting
        if full:
            crowd = max(self._waiting.values(), key=len)
            if len(crowd) <= len(waiting) + 1:
                crowd = waiting
            if not crowd:
                connection.close()
                return
            crowd.popleft().close()
        elif len(waiting) >= b.WAITING_OF_ADDRESS.most:
            log.warning("%s has %d waiting connections: the oldest was closed", address, len(waiting))
            waiting.popleft().close()
        connection.setblocking(False)
        waiting.append(connection)

    def _fill(self) -> None:
        """Serve waiting connections, one of each address in turn, while there are places."""
        blocked = 0
        while self._waiting and blocked < len(self._waiting) and self._served < b.STRANGERS.most:
            address, waiting = next(iter(self._waiting.items()))
            del self._waiting[address]  # its next turn comes last
            if not waiting:
                continue
            if len(self._strangers.get(address, ())) >= b.STRANGERS_OF_ADDRESS.most:
                blocked += 1
            else:
                blocked = 0
                self._begin(address, waiting.popleft())
            if waiting:
                self._waiting[address] = waiting
        if self._waiting and self._looking is None:
            self._look_later()

    @property
    def _served(self) -> int:
        return sum(map(len, self._strangers.values()))

    def _begin(self, address: str, connection: socket.socket) -> None:
        stranger = _Stranger(address, connection)
        self._strangers.setdefault(address, {})[stranger] = None
        stranger.task = asyncio.get_running_loop().create_task(self._meet(stranger))
        self._tasks.add(stranger.task)
        stranger.task.add_done_callback(self._tasks.discard)

    async def _meet(self, stranger: _Stranger) -> None:
        try:
            reader, writer = await self._shake_hands(stranger)
            await self._serve(reader, writer, lambda: self._release(stranger))
        except (OSError, TimeoutError) as error:  # also ssl.SSLError
            log.debug("the TLS handshake with %s failed: %s", stranger.address, error)
        except asyncio.CancelledError:
            pass  # it had to go, or the head ends
        finally:
            self._release(stranger)
            if stranger.writer is None:
                stranger.connection.close()
            else:
                stranger.writer.close()

    async def _shake_hands(self, stranger: _Stranger) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the streams of a connection after its handshake.

        Raises:  OSError; TimeoutError.
        """
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        async with asyncio.timeout(b.HANDSHAKE_TIME.most):
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                stranger.connection,
                ssl=self._context,
                ssl_handshake_timeout=b.HANDSHAKE_TIME.most,
            )
        stranger.writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return reader, stranger.writer

    def _release(self, stranger: _Stranger) -> None:
        """Give the place of a stranger to another."""
        of_address = self._strangers.get(stranger.address, {})
        if stranger not in of_address:
            return
        del of_address[stranger]
        if not of_address:
            del self._strangers[stranger.address]
        if self._listening:
            self._fill()

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._look_due = loop.time() + LOOK
        self._looking = loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        """Close idle unauthenticated connections, as many as others wait."""
        self._looking = None
        now = asyncio.get_running_loop().time()
        if now - self._look_due < STALLED:
            for stranger in self._idle(time.monotonic() - b.IDLE_TIME.most):
                log.warning("%s had sent nothing for some time, and others wait", stranger.address)
                stranger.drop()
        if self._waiting:
            self._look_later()

    def _idle(self, before: float) -> list[_Stranger]:
        """Return idle connections to close: of addresses that wait, or else of the address with most."""
        idle: list[_Stranger] = []
        for address, waiting in self._waiting.items():
            of_address = self._strangers.get(address, {})
            if len(of_address) >= b.STRANGERS_OF_ADDRESS.most:
                idle += [each for each in of_address if each.since < before][: len(waiting)]
        if idle or self._served < b.STRANGERS.most:
            return idle
        fullest = max(self._strangers.values(), key=len)
        return [each for each in fullest if each.since < before][: len(self._waiting)]


def _site(address: str) -> str:
    """Return what counts as one address: of IPv6 the network of 64 bits, which one machine has for itself."""
    plain = ipaddress.ip_address(address.partition("%")[0])
    if plain.version == 4:
        return address
    return str(ipaddress.ip_network(f"{plain}/64", strict=False))


def digest_of(secret: str) -> str:
    """Return what the head keeps of a secret, which is shown once to join or to log in."""
    return hashlib.sha256(secret.encode()).hexdigest()


async def _listen(host: str | None, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of a host; None: at all of this machine.

    Raises:  OSError.
    """
    infos = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(infos):
            sockets.append(_listen_at(family, address, sockets))
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def _listen_at(family: int, address: tuple[object, ...], before: Sequence[socket.socket]) -> socket.socket:
    """Return a socket that listens; a free port is that of the others."""
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        port = before[0].getsockname()[1] if before else address[1]
        listening.bind((address[0], port, *address[2:]))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
