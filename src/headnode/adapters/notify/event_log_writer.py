"""Appends to event logs, each as the owner of its job: a process of its own beside the head.

The file is opened by a child that has taken the identity of the owner, so a name leads nowhere that the owner
may not write.  A child that does not come back, as on a file system that hangs, is left behind.
"""

import errno
import os
import select
import signal
import stat

import msgspec

from headnode.adapters.files.opening import open_named
from headnode.adapters.wire.child_end import messages, parent_channel
from headnode.adapters.wire.frame_codec import frame

TIMEOUT = 5.0  # seconds for one file
TAIL = 1 << 22  # bytes of the end of a log; after a restart, events are looked for there
_CANNOT_SAY = 255


class EventLogOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text to append to a log.  `again`: events of it may be there, and are then left out."""

    number: int
    log: str
    owner: str
    uid: int
    gid: int
    text: str
    again: bool = False


class EventLogResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of an order: 0 or the number of an error; ETIMEDOUT: it was not done in time."""

    number: int
    error: int


def main() -> None:
    """Append what the head gives, until it hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the head, which will hang up
    channel = parent_channel()
    orders = msgspec.msgpack.Decoder(EventLogOrder)
    for message in messages(channel):
        order = orders.decode(message)
        result = EventLogResult(order.number, carry_out(order))
        channel.sendall(frame(msgspec.msgpack.encode(result)))
    os._exit(0)


def carry_out(order: EventLogOrder) -> int:
    """Append to a log in a child process; return 0 or the number of an error."""
    _bury()
    child = os.fork()
    if child == 0:
        status = _CANNOT_SAY
        try:
            _become(order)
            append(order)
            status = 0
        except OSError as trouble:
            status = trouble.errno or _CANNOT_SAY
        finally:
            os._exit(status)
    with open(os.pidfd_open(child), "rb", closefd=True) as ended:  # noqa: PTH123
        if not select.select([ended], [], [], TIMEOUT)[0]:
            os.kill(child, signal.SIGKILL)
            return errno.ETIMEDOUT
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _bury() -> None:
    """Let go of children that have ended late."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become(order: EventLogOrder) -> None:
    """Take the identity of the owner.

    Raises:  PermissionError, if the head is not root and the owner is another user.
    """
    os.umask(0o022)
    if order.uid == os.getuid() and order.uid:
        return
    os.setgroups(os.getgrouplist(order.owner, order.gid))
    os.setresgid(order.gid, order.gid, order.gid)
    os.setresuid(order.uid, order.uid, order.uid)


def append(order: EventLogOrder) -> None:
    """Append to a log, all or nothing.

    Raises:  OSError.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    file = open_named(order.log, flags, 0o644)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    data = order.text.encode()
    if order.again and status.st_size:
        start = max(0, status.st_size - TAIL)
        data = missing(order.text, os.pread(file, TAIL, start).decode("utf-8", "replace")).encode()
    size = status.st_size
    try:
        while data:
            written = os.write(file, data)
            size, data = size + written, data[written:]
    except OSError:
        if os.fstat(file).st_size == size:  # nobody else has written meanwhile
            os.ftruncate(file, status.st_size)
        raise


def missing(text: str, there: str) -> str:
    r"""Return the events of a text that are not at the end of a log yet.

    >>> missing("a\n...\nb\n...\n", "x\n...\na\n...\n")
    'b\n...\n'
    """
    end = "\n...\n"
    known = {event.lstrip("\n") for event in there.split(end)}
    events = [event for event in text.split(end) if event]
    return "".join(f"{event}{end}" for event in events if event not in known)


if __name__ == "__main__":
    main()
