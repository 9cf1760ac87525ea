"""The shepherd's end of its connection to the agent, and until when tasks may go on without it.

Standard library only: this is loaded by the shepherd factory."""

import json
import select
import signal
import socket
import struct
import time
from typing import Any

from headnode.adapters.wire.frame_codec import CHUNK, FrameDecoder, FrameTooLarge, frame

FOR_EVER = float("inf")


def boot_time() -> float:
    """Return the seconds since this machine was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """The lease of the tasks: unlimited until the agent sets its end."""

    def __init__(self) -> None:
        self._until = FOR_EVER

    def renew(self, until: float | None) -> None:
        """Go by this from now on: seconds since the machine was started; None: for ever."""
        self._until = FOR_EVER if until is None else until

    @property
    def left(self) -> float:
        """The seconds that are left; infinite for ever, below 0 when it is over."""
        return FOR_EVER if self._until == FOR_EVER else self._until - boot_time()

    @property
    def is_over(self) -> bool:
        """Whether tasks must be stopped."""
        return self._until != FOR_EVER and boot_time() >= self._until

    def grace(self, grace: float) -> float:
        """Return the seconds that something has to end: none where others may run it, too."""
        return 0.0 if self.is_over else grace


REDIAL = 0.1  # seconds between two attempts to reach an agent that is away
AGENT_SOCKET = "agent.sock"
_MAX_MESSAGE = 64 * 1024 * 1024  # bytes
_CHUNK = 256 * 1024
_encode = json.JSONEncoder(separators=(",", ":")).encode  # `json.dumps` would make an encoder each time
_decode = json.JSONDecoder().decode


class AgentLink:
    """A connection that comes and goes.  Its messages may be lost: the journal has all of them."""

    def __init__(self, run_directory: int, uids: tuple[int, ...], poller: select.poll) -> None:
        """`run_directory` is a descriptor: as the user we may not be able to walk there.

        Only an agent of one of `uids` is believed.
        """
        # Through /proc, because the path from the root may be closed to us or too long for an address.
        self._address = f"/proc/self/fd/{run_directory}/{AGENT_SOCKET}"
        self._uids, self._poller = uids, poller
        self._socket: socket.socket | None = None
        self.up = False  # whether there is a connection
        self.descriptor = -1  # of the connection; -1: there is none
        self._received, self._unsaid = FrameDecoder(_MAX_MESSAGE), bytearray()
        self._awaits_room = False  # for what is unsaid
        self._next_try = 0.0

    def dial(self) -> bool:
        """Try to reach the agent if it is time to; True when there is a new connection."""
        if self._socket is not None or time.monotonic() < self._next_try:
            return False
        self._next_try = time.monotonic() + REDIAL
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(self._address)
        except OSError:
            channel.close()
            return False
        if _uid_of(channel) not in self._uids:
            channel.close()
            return False
        channel.setblocking(False)
        self._socket, self._received, self._unsaid = channel, FrameDecoder(_MAX_MESSAGE), bytearray()
        self.up, self.descriptor = True, channel.fileno()
        self._poller.register(channel, select.POLLIN)
        self._awaits_room = False
        return True

    def send(self, message: list[Any]) -> None:
        """Send a message if there is a connection; what does not fit now goes when there is room."""
        if self._socket is not None:
            self.send_encoded(_encode(message))

    def send_with_next(self, message: list[Any]) -> None:
        """Send a message together with the next one, whenever that comes."""
        if self._socket is not None:
            self._unsaid += frame(_encode(message).encode())

    def send_encoded(self, message: str) -> None:
        """Send a message that is JSON already; else as `send`."""
        if self._socket is None:
            return
        self._unsaid += frame(message.encode())
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        if self._socket is None:
            return
        try:
            while self._unsaid:
                sent = self._socket.send(self._unsaid[:_CHUNK])
                del self._unsaid[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.drop()
            return
        if bool(self._unsaid) is not self._awaits_room:
            self._awaits_room = not self._awaits_room
            self._poller.modify(self._socket, select.POLLIN | select.POLLOUT * self._awaits_room)

    def receive(self) -> list[list[Any]]:
        """Return the messages that have arrived whole; drops the connection when the agent is gone."""
        if self._socket is None:
            return []
        try:
            data = self._socket.recv(CHUNK)  # more would be memory of its own for each message
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.drop()
            return []
        try:
            return [_decode(message.decode()) for message in self._received.feed(data)]
        except FrameTooLarge:
            self.drop()
            return []

    def drop(self) -> None:
        """Forget the connection."""
        if self._socket is not None:
            self._poller.unregister(self._socket)
            self._socket.close()
            self._socket, self.up, self.descriptor = None, False, -1

    def finish(self, timeout: float) -> None:
        """Send all that waits, for at most `timeout` seconds, and hang up."""
        until = time.monotonic() + timeout
        while self._socket is not None and self._unsaid and time.monotonic() < until:
            select.select([], [self._socket], [], 0.1)
            self.flush()
        self.drop()


def _uid_of(channel: socket.socket) -> int:
    credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def signal_socket() -> socket.socket:
    """Return a socket that becomes readable when a child has exited."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    return ours


def clear_signals(wakeup: socket.socket) -> None:
    """Let the socket be readable by the next child that exits, not by those that have."""
    try:
        wakeup.recv(4096)
    except BlockingIOError:
        return
