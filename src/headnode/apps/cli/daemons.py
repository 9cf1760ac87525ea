"""Starts and stops heads and agents in the background."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

from headnode.adapters.files import local_daemons
from headnode.adapters.own_python import module_command
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError, NotAllowed, Unavailable, WrongState

Answer = TypeVar("Answer")

ENDING = 60.0  # seconds a head may take to end
LAST_LINES = 15  # of a log, told when a program does not stay


class BackgroundProgram:
    """A program that was started, and where its log began for it."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Start it, in a session of its own; what it says is appended to the log.

        Raises:  Unavailable ``log``, when the log cannot be written.
        """
        self.log = log
        with _opened(log) as file:
            self._began = file.tell()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, cwd="/"
            )

    def answer(
        self, ask: Callable[[], Answer | None], what: str, code: str, timeout: float, pause: float
    ) -> Answer | None:
        """Return what `ask` returns once that is not None; None after `timeout`.

        Raises:  Unavailable with `code` and the end of its log if it ends before.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Unavailable(
                    code=code,
                    what=f"{what} ended with status {self.process.returncode} before it answered",
                    fix=f"its log {self.log} ends:" + self.last_lines(),
                )
            if (reply := ask()) is not None:
                return reply
            time.sleep(pause)
        return None

    def last_lines(self) -> str:
        """Return the end of what it has said, each line on one of its own, or why that is nothing."""
        with self.log.open("rb") as file:
            file.seek(self._began)
            lines = file.read().decode(errors="replace").splitlines()[-LAST_LINES:]
        return "".join(f"\n  | {line}" for line in lines) or f" {why_silent(self.log)}"


def _opened(log: Path) -> BinaryIO:
    """Open a log to append to it.

    Raises:  Unavailable ``log``.
    """
    try:
        return log.open("ab")
    except OSError as trouble:
        why = os.strerror(trouble.errno or 0)
        what = f"the log {str(log)!r} cannot be written: {why}"
        raise Unavailable(
            code="log", what=what, fix="let your user write there, or name another directory"
        ) from trouble


def why_silent(log: Path) -> str:
    """Return why a program that has ended said nothing: a full disk has no room for it."""
    try:
        with log.open("ab") as file:
            file.write(b"\n")
    except OSError as trouble:
        return f"with nothing, as it cannot be written: {os.strerror(trouble.errno or 0)}"
    return "with nothing"


def make_directory(directory: str, code: str, what: str, fix: str) -> Path:
    """Make the directory of a program unless it is there: root's is open to all, else it is private.

    Raises:  Unavailable of this code; `what` names the directory, `fix` says how to choose another.
    """
    folder = Path(directory)
    try:
        folder.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    except OSError as trouble:
        why = os.strerror(trouble.errno or 0)
        raise Unavailable(code=code, what=f"{what} {directory!r} cannot be made: {why}", fix=fix) from trouble
    return folder


TIMEOUT = 30.0  # seconds a head may take until a node is ready
PAUSE = 0.05  # seconds between two looks
RECONNECT_TIME = 2.0  # seconds for nodes of other machines to dial again
ANOTHER_HEAD = "already-running"  # the code with which a head refuses a directory that is in use
_AWAY = ("Pending", "Unreachable")

HeadSettings = dict[str, str | None]


def client_of(directory: str) -> Client:
    """Return a client of the head in `directory`, which need not run."""
    return Client(str(Path(directory).absolute()))


def ping(client: Client) -> dict[str, Any] | None:
    """Return what the head says of itself, or None when it does not run.

    Raises:  NotAllowed ``no-access`` when it belongs to another user.
    """
    try:
        return client.ask("ping")
    except Unavailable:
        return None


def wait_for_end(
    runs: Callable[[], bool], timeout: float, slow: HeadnodeError, *, pause: float = PAUSE
) -> None:
    """Wait until something runs no more.

    Raises:  `slow` after `timeout`.
    """
    deadline = time.monotonic() + timeout
    while runs():
        if time.monotonic() > deadline:
            raise slow
        time.sleep(pause)


def end_head_by_signal(client: Client, no: Unavailable) -> None:
    """End the head of this user by SIGTERM: it refuses the request, because it cannot be recorded.

    The kernel says which process it is, and whose.  What a head says of itself could name another process.
    Raises:  `no` if it is a head of another user, or has ended.
    """
    connection = client.connect()
    process, user = connection.peer()
    connection.close()
    client.close()
    if user != os.geteuid() or process < 1:  # 0: it is in another container, and kill would end ourselves
        raise no
    try:
        os.kill(process, signal.SIGTERM)
    except OSError:
        raise no from None
    wait_for_end_of_head(process)


def wait_for_end_of_head(process: int) -> None:
    """Wait until the head has ended.

    Raises:  Unavailable ``head-slow`` after `ENDING` seconds.
    """
    slow = Unavailable(
        code="head-slow",
        what=f"the head, process {process}, still has not ended after {ENDING:.0f} seconds",
        fix=f"see its log; if it must end: kill {process}; nothing acknowledged is lost",
    )
    wait_for_end(lambda: _lives(process), ENDING, slow)


def _lives(process: int) -> bool:
    """Whether the process is there and no zombie, which a parent that does not look may leave."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 (pathlib costs 6 ms)
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def become_head(directory: str, settings: HeadSettings) -> NoReturn:
    """Turn this process into the head."""
    _make_state_directory(directory)
    command = head_command(directory, settings)
    os.execv(command[0], command)


def start_head(directory: str, settings: HeadSettings, *, nodes: int = 1) -> dict[str, Any]:
    """Start a head in the background; return the cluster once it answers and so many `nodes` are ready.

    Raises:  Unavailable ``head-died`` or ``head-slow``, with the end of its log; WrongState
             ``already-running`` when another head was started meanwhile.
    """
    folder = _make_state_directory(directory)
    return _when_ready(BackgroundProgram(head_command(directory, settings), folder / "head.log"), nodes)


def head_command(directory: str, settings: HeadSettings) -> list[str]:
    """Return the words that start a head in the foreground."""
    argv = [word for name, value in settings.items() if value for word in (f"--{name}", value)]
    return module_command("headnode.apps.server", "--state", str(Path(directory).absolute()), *argv)


def _make_state_directory(directory: str) -> Path:
    fix = "give another with: hn up --state DIRECTORY"
    return make_directory(directory, "state-directory", "state directory", fix)


def _here(nodes: list[dict[str, Any]]) -> int:
    """Return how many nodes of this machine answer: one that takes no jobs is here, too."""
    return sum(not node["remote"] and node["state"] not in _AWAY for node in nodes)


def _are_back(nodes: list[dict[str, Any]]) -> bool:
    """Return whether the nodes of other machines answer again."""
    return not any(node["remote"] and node["state"] == "Unreachable" for node in nodes)


def _when_ready(started: BackgroundProgram, nodes: int) -> dict[str, Any]:
    process, log = started.process, started.log
    client, deadline, here_since = client_of(str(log.parent)), time.monotonic() + TIMEOUT, 0.0
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _died(started)
        try:
            seen: list[dict[str, Any]] = client.ask("nodes")["nodes"]
            here_since = here_since or (time.monotonic() if _here(seen) >= nodes else 0.0)
            if here_since and (_are_back(seen) or time.monotonic() - here_since > RECONNECT_TIME):
                cluster: dict[str, Any] = client.ask("cluster")["cluster"]
                return cluster
        except Unavailable:
            here_since = 0.0
        time.sleep(PAUSE)
    raise Unavailable(
        code="head-slow",
        what=f"the head runs as process {process.pid}, but not all nodes are ready after {TIMEOUT:.0f} s",
        fix=f"stop it with: hn down; its log {log} ends:" + started.last_lines(),
    )


def wait_for_head(directory: str) -> dict[str, Any]:
    """Return the cluster once the head in a directory answers: that of a standby which takes over.

    Raises:  Unavailable ``head-slow``.
    """
    client, deadline = client_of(directory), time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        try:
            cluster: dict[str, Any] = client.ask("cluster")["cluster"]
            return cluster
        except Unavailable:
            time.sleep(PAUSE)
    raise Unavailable(
        code="head-slow",
        what=f"the head in {directory!r} does not answer yet",
        fix=f"see its log {str(Path(directory) / 'head.log')!r}, and start it with: hn up",
    )


def _died(started: BackgroundProgram) -> HeadnodeError:
    lines = started.last_lines()
    if f"[{ANOTHER_HEAD}]" in lines:
        return WrongState(
            code=ANOTHER_HEAD,
            what=f"another head uses the state directory {str(started.log.parent)!r}",
            fix="stop it with: hn down",
        )
    return Unavailable(
        code="head-died",
        what=f"the head ended with status {started.process.returncode} before it answered",
        fix=f"its log {started.log} ends:" + lines,
    )


_AGENT_START = 15.0  # seconds in which an agent has its lock, or ends because it cannot run
_STOP_TIME = 30.0  # seconds an agent may take to end
_STOP_PAUSE = 0.02  # seconds

_OTHER_DIRECTORY = "give another with --directory"

AgentSettings = Mapping[str, str | None]


def agent_log(directory: str) -> str:
    """Return the file that holds what the agent says."""
    return str(Path(directory).absolute() / "agent.log")


def join_cluster(directory: str, settings: AgentSettings, invitation: str) -> None:
    """Become a node; the agent reports why this machine cannot be one.

    Raises:  SystemExit with the status of the agent.
    """
    _make_agent_directory(directory)
    with _invitation_file(invitation) as stdin:
        command = [*_agent_command(directory, settings), "--only-join", "--join", "-"]
        joining = subprocess.run(command, stdin=stdin, check=False)
    if joining.returncode != 0:
        raise SystemExit(joining.returncode)


def remembered_settings(directory: str, requested: AgentSettings) -> dict[str, str]:
    """Return the settings of an agent, as requested now or, if it is started again, as before; not its name.

    Raises:  Unavailable ``agent-state`` when they cannot be remembered.
    """
    folder = _make_agent_directory(directory)
    try:
        return local_daemons.agent_settings(
            folder, {name: value for name, value in requested.items() if name != "name"}
        )
    except OSError as trouble:
        what = f"directory {directory!r} cannot be written: {os.strerror(trouble.errno or 0)}"
        raise Unavailable(code="agent-state", what=what, fix=_OTHER_DIRECTORY) from trouble


def start_agent(directory: str, settings: AgentSettings) -> int:
    """Start the agent in the background; return its process id.

    Raises:  WrongState ``no-head`` when this machine has joined no cluster; Unavailable ``agent-died``.
    """
    _make_agent_directory(directory)
    if not local_daemons.has_joined(Path(directory)):
        raise WrongState(
            code="no-head",
            what=f"this machine has joined no cluster: there is no certificate of one in {directory!r}",
            fix="paste the line that hn node invite prints on the head node",
        )
    started = BackgroundProgram(_agent_command(directory, settings), Path(agent_log(directory)))

    def runs() -> bool | None:  # it knows its head, and is the only agent of this directory
        return local_daemons.last_agent(Path(directory)) == started.process.pid or None

    started.answer(runs, "the agent", "agent-died", _AGENT_START, _STOP_PAUSE)
    return started.process.pid


def stop_agent(directory: str) -> int | None:
    """Tell the agent to end, and wait until it has; return its process id, None when there is none.

    Raises:  NotAllowed ``not-yours``; Unavailable ``agent-slow``.
    """
    folder = Path(directory)
    try:
        number = local_daemons.agent_lock_holder(folder)
        if number is None:
            return None
        process = os.pidfd_open(number)
        try:
            if local_daemons.is_agent_locked(folder):  # so the number is still that of the agent
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)
    except PermissionError:
        raise NotAllowed(
            code="not-yours",
            what=f"the agent in {directory!r} belongs to another user",
            fix="stop it as that user",
        ) from None
    except ProcessLookupError:
        return None
    slow = Unavailable(
        code="agent-slow",
        what=f"the agent, process {number}, has not ended after {_STOP_TIME:.0f} seconds",
        fix=f"see its log {agent_log(directory)}",
    )
    wait_for_end(lambda: local_daemons.is_agent_locked(folder), _STOP_TIME, slow, pause=_STOP_PAUSE)
    return number


def become_agent(directory: str, settings: AgentSettings, invitation: str | None) -> NoReturn:
    """Turn this process into the agent."""
    command = _agent_command(directory, settings)
    if invitation:
        command += ["--join", "-"]
        with _invitation_file(invitation) as stdin:
            os.dup2(stdin.fileno(), 0)
    os.execv(command[0], command)


def _invitation_file(invitation: str) -> BinaryIO:
    """Return what an agent reads its invitation from ("-": as here): all users can read its arguments."""
    if invitation == "-":
        return os.fdopen(os.dup(0), "rb")
    file = os.fdopen(os.memfd_create("invitation"), "w+b")
    file.write(os.fsencode(invitation))
    file.seek(0)
    return file


def _agent_command(directory: str, settings: AgentSettings) -> list[str]:
    argv = [word for name, value in settings.items() if value for word in (f"--{name}", value)]
    return module_command("headnode.apps.agent", "--state", str(Path(directory).absolute()), *argv)


def _make_agent_directory(directory: str) -> Path:
    return make_directory(directory, "agent-state", "directory", _OTHER_DIRECTORY)
