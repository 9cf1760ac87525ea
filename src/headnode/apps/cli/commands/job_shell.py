"""``hn job shell``: the user's terminal joined with one in the cluster: raw meanwhile, and afterwards as
it was.
"""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any

from headnode.apps.cli.catalogue import COMMON_OPTIONS, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.shell import ENV_ALL, apply_shell, remember
from headnode.apps.cli.terms import JOB_OPTIONS, TASK_OPTIONS, job_terms, only_task_terms
from headnode.apps.client.client import Client
from headnode.apps.client.conversation import ClientConversation, from_base64, to_base64
from headnode.apps.client.submitter import command_line
from headnode.core.model.errors import HeadnodeError

_SPELLINGS = {spelling for option in JOB_OPTIONS for spelling in option.spellings}
_OF_THE_TASK = ("workdir", "env")
OPTIONS = (
    CliOption("job", "ID", "Running job to open a shell in, or an interactive job to connect to"),
    *(option for option in JOB_OPTIONS if option.name != "interactive"),
    *(option for option in TASK_OPTIONS if option.name in _OF_THE_TASK and option.name not in _SPELLINGS),
    ENV_ALL,
)


def run(args: Arguments, client: Client, out: Output) -> int:
    """Sit down at a terminal of a job; return the exit status of the program that ran there."""

    job, own = _job(args, client, out)
    with canceled_on_failure(client, job) if own else nullcontext():
        return _converse(args, client, job, out, own=own)


def _converse(args: Arguments, client: Client, job: int, out: Output, *, own: bool) -> int:
    """Connect to the terminal of a job; return the exit status of the program there."""
    rows, columns, kind = terminal_size()
    command = command_line(args.words) if args.words and not own else None
    conversation = client.begin("shell", job=job, command=command, rows=rows, columns=columns, kind=kind)
    try:
        return _join(conversation, job, out)
    except TerminalClosed as left:
        out.note(f"left; {f'job {job} is ended with it' if own else 'the program there is ended'}")
        return left.status
    except KeyboardInterrupt:
        out.note(f"no longer waiting; job {job} is canceled")
        raise
    finally:
        conversation.close()


@contextmanager
def canceled_on_failure(client: Client, job: int) -> Iterator[None]:
    """Cancel a job that was made for this terminal if the terminal fails.

    The head ends the job with the connection that waits for it, but not before there is one.
    """
    try:
        yield
    except BaseException:
        with suppress(HeadnodeError):  # the head is away, or the job has ended with the connection
            client.ask("cancel_job", job=job, message="its terminal was not opened")
        raise


def _job(args: Arguments, client: Client, out: Output) -> "tuple[int, bool]":
    """Return the job, and whether it is one that was made for this."""
    if (named := args.text("job")) is not None:
        from headnode.apps.cli.arguments import job_id

        anyway = ("job", *(option.name for option in COMMON_OPTIONS))
        others = [name for name in args.options if name not in anyway]
        if others:
            raise usage(
                f"job {named} exists already, and /{others[0]} describes a new one", "leave out one of them"
            )
        return job_id([named]), False
    terms = {"jobname": "shell", **job_terms(args), "interactive": "true"}
    terms.pop("rununtilcanceled", None)  # it ends with its program; else it would be an allocation
    task = {"rerunnable": "false", **only_task_terms(args, args.words or [""])}
    apply_shell(task, args, client)
    job = int(client.ask("submit_job", terms=terms, tasks=[task])["job"])
    remember(job)
    out.note(f"job {job} is submitted")
    return job, True


def _join(conversation: "ClientConversation", job: int, out: Output) -> int:
    """Wait until there is a terminal, saying why; use it to its end."""

    while True:
        answer = conversation.receive()
        if "waits" in answer:
            _print_wait(answer["waits"], job, out)
        elif "node" in answer:
            out.note(f"job {job} on node {answer['node']}")
            return _report_end(join_terminal(conversation), out)
        elif answer.get("done"):
            return _report_end(answer, out)


def _print_wait(waits: "dict[str, Any]", job: int, out: Output) -> None:
    if not waits["reason"]:
        return
    from headnode.apps.readable_values import instant, local_times

    expected, sentence = waits["expected"] or {}, ""
    if expected.get("p50") is not None:
        sentence = f"; expected to start at {instant(expected['p50'])}"
    elif expected.get("promise") is not None:
        sentence = f"; it will start by {instant(expected['promise'])}"
    out.note(f"job {job} waits: {local_times(waits['reason'])}{sentence}")


def _report_end(answer: "dict[str, Any]", out: Output) -> int:
    if answer["problem"]:
        out.note(str(answer["problem"]))
    return int(answer["exit"])


COMMANDS = (
    CliCommand(
        "shell",
        "[job options] [-- PROGRAM [ARGUMENT...]] | --job ID [-- PROGRAM [ARGUMENT...]]",
        "Get a terminal on a node: an interactive job, or a shell in a running job",
        run,
        options=OPTIONS,
        example="hn job shell -n 4 -t 2h",
        notes=(
            "Submits a job, waits until it starts, and opens a terminal on its first node, with the job's "
            "environment, processors and limits; mpiexec there uses all nodes of the job.",
            "The job ends with its program. Closing this terminal ends both.",
            "Without a program the login shell runs. Standard input that is not a terminal is passed to it: "
            "echo hostname | hn job shell",
            "Enter ~ . (at the beginning of a line) disconnects at once; ~~ sends a tilde.",
            "Exit status: that of the program; 255 if it could not be run or its status is unknown.",
        ),
        positionals=0,
    ),
)


_MAX_AT_ONCE = 32 * 1024  # bytes that are read from the keyboard, or whatever is in its place
_MAX_AHEAD = 64 * 1024  # bytes that the head has not taken, before no more is read: it may wait for us
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


def join_terminal(conversation: ClientConversation, *, notices: bool = True) -> dict[str, Any]:
    """Pass on what is typed and written, until the head says how it ended; return that.

    `notices`: also what the head says of the job meanwhile.
    Raises:  Left; Unavailable ``head-gone``.
    """
    with _raw_mode() as changed:
        return _pass_on(conversation, changed, notices=notices)


def _pass_on(conversation: ClientConversation, changed: int, *, notices: bool) -> dict[str, Any]:
    escapes = EscapeFilter() if os.isatty(0) else None
    head, typing, ahead = conversation.fileno(), True, 0
    while True:
        keyboard = [0] if typing and ahead < _MAX_AHEAD else []
        ready = [] if conversation.pending else select.select([head, changed, *keyboard], [], [])[0]
        if changed in ready:
            os.read(changed, 4096)
            rows, columns, _ = terminal_size()
            conversation.send(window=[rows, columns])
        if 0 in ready:
            result = _pass_input_on(conversation, escapes)
            typing, ahead = result is not None, ahead + (result or 0)
        if conversation.pending or head in ready:
            answer = conversation.receive()
            if answer.get("done"):
                return answer
            ahead -= int(answer.get("consumed", 0))
            _show(answer, notices=notices)


def _pass_input_on(conversation: ClientConversation, escapes: EscapeFilter | None) -> int | None:
    """Pass on what was typed; return how many bytes, None when there is no more."""
    try:
        typed = os.read(0, _MAX_AT_ONCE)
    except OSError:  # the terminal is gone
        typed = b""
    if not typed:
        conversation.send(end=True)
        return None
    rest = escapes.take(typed) if escapes is not None else typed
    if rest:
        conversation.send(**{"in": to_base64(rest)})
    if escapes is not None and escapes.hangs_up:
        raise TerminalClosed(255)
    return len(rest)


def _show(answer: dict[str, Any], *, notices: bool) -> None:
    for kind, descriptor in (("out", 1), ("err", 2)):
        if kind in answer:
            left = memoryview(from_base64(answer[kind]))
            while left:
                left = left[os.write(descriptor, left) :]
    if notices and "notice" in answer:
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
