"""The user's terminal joined with one on a node: raw meanwhile, and afterwards as it was."""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from headnode.apps.client.conversation import ClientConversation, from_base64, to_base64

_MOST_AT_ONCE = 32 * 1024  # bytes that are read from the keyboard, or whatever is in its place
_MOST_AHEAD = 64 * 1024  # bytes that the head has not taken, before no more is read: it may wait for us
_END_SIGNALS = (signal.SIGHUP, signal.SIGTERM)


class EscapeFilter:
    """Finds what is meant for us, as with ssh: ``~.`` where a line begins hangs up, ``~~`` is a tilde."""

    def __init__(self) -> None:
        self._line_begins, self._tilde = True, False
        self.hangs_up = False

    def take(self, typed: bytes) -> bytes:
        """Return what is to go on.

        >>> EscapeFilter().take(b"ls\\r~~x~."), EscapeFilter().take(b"a~.")
        (b'ls\\r~x~.', b'a~.')
        """
        rest = bytearray()
        for byte in typed:
            if self._tilde:
                self._tilde = False
                if byte == ord("."):
                    self.hangs_up = True
                    break
                rest += b"~" if byte == ord("~") else bytes((ord("~"), byte))
            elif byte == ord("~") and self._line_begins:
                self._tilde = True
            else:
                rest.append(byte)
            self._line_begins = byte in b"\r\n"
        return bytes(rest)


class TerminalClosed(Exception):
    """Whoever sat here has gone; `status` is the exit status that says so."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def terminal_size() -> tuple[int, int, str]:
    """Return rows, columns and kind of the terminal that is standard input; no rows when it is none."""
    if not os.isatty(0):
        return 0, 0, ""
    size = os.get_terminal_size(0)
    return size.lines or 24, size.columns or 80, os.environ.get("TERM", "dumb").replace(" ", "")


def join_terminal(conversation: ClientConversation) -> dict[str, Any]:
    """Pass on what is typed and written, until the head says how it ended; return that.

    Raises:  Left; Unavailable ``head-gone``.
    """
    with _raw_mode() as changed:
        return _pass_on(conversation, changed)


def _pass_on(conversation: ClientConversation, changed: int) -> dict[str, Any]:
    escapes = EscapeFilter() if os.isatty(0) else None
    head, typing, ahead = conversation.fileno(), True, 0
    while True:
        keyboard = [0] if typing and ahead < _MOST_AHEAD else []
        ready = [] if conversation.pending else select.select([head, changed, *keyboard], [], [])[0]
        if changed in ready:
            os.read(changed, 4096)
            rows, columns, _ = terminal_size()
            conversation.say(window=[rows, columns])
        if 0 in ready:
            said = _pass_input_on(conversation, escapes)
            typing, ahead = said is not None, ahead + (said or 0)
        if conversation.pending or head in ready:
            answer = conversation.hear()
            if answer.get("done"):
                return answer
            ahead -= int(answer.get("took", 0))
            _show(answer)


def _pass_input_on(conversation: ClientConversation, escapes: EscapeFilter | None) -> int | None:
    """Pass on what was typed; return how many bytes, None when there is no more."""
    try:
        typed = os.read(0, _MOST_AT_ONCE)
    except OSError:  # the terminal is gone
        typed = b""
    if not typed:
        conversation.say(end=True)
        return None
    rest = escapes.take(typed) if escapes is not None else typed
    if rest:
        conversation.say(**{"in": to_base64(rest)})
    if escapes is not None and escapes.hangs_up:
        raise TerminalClosed(255)
    return len(rest)


def _show(answer: dict[str, Any]) -> None:
    for kind, descriptor in (("out", 1), ("err", 2)):
        if kind in answer:
            left = memoryview(from_base64(answer[kind]))
            while left:
                left = left[os.write(descriptor, left) :]
    if "notice" in answer:
        os.write(2, f"\r\nhn: {answer['notice']}\r\n".encode())


@contextmanager
def _raw_mode() -> Iterator[int]:
    """Let our terminal pass on all that is typed; yield what is readable when its size changes."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = {each: signal.signal(each, _leave) for each in _END_SIGNALS}
    saved = termios.tcgetattr(0) if os.isatty(0) else None
    resized = signal.signal(signal.SIGWINCH, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    try:
        if saved is not None:
            sys.stdout.flush()
            tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is not lost
        yield reads
    finally:
        if saved is not None:
            _restore_mode(saved)
        signal.set_wakeup_fd(wakeup)
        for each, handler in {**before, signal.SIGWINCH: resized}.items():
            signal.signal(each, handler)
        os.close(reads)
        os.close(writes)


def _restore_mode(saved: list[Any]) -> None:
    try:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)
    except termios.error:  # it is gone
        return


def _leave(number: int, _frame: FrameType | None) -> None:
    raise TerminalClosed(128 + number)
