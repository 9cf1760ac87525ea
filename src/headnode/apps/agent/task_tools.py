"""What tasks find around them: `hn`, the launcher for their mpiexec, the agent's sockets, host files."""

import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import shlex
import shutil
import sys
import time
from pathlib import Path

import headnode
from headnode.adapters.own_python import code_command, module_command
from headnode.adapters.processes import launcher, piped, terminal
from headnode.adapters.processes.site_programs import base_environment
from headnode.adapters.wire import frame_codec
from headnode.apps.agent.client_door import SOCKET, AgentClientDoor
from headnode.core.launching.environment import host_files, launcher_variables
from headnode.core.model.errors import Unavailable
from headnode.core.model.task import Distribution
from headnode.core.state.job_events import NodeCores

PROGRAM = "hn-launch"
TERMINAL = "hn-terminal"
_FOR_ALL = Path("/run")  # where root makes a directory that everybody can reach
_PYTHONS = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
_KEY = 32  # bytes


class LaunchPlaces:
    """The directory of this agent that its users can reach, and the secrets of its tasks."""

    def __init__(self, state: Path, run: Path) -> None:
        self._key_file = state / "launch.key"
        self._near = run  # enough where everybody may walk there, or all tasks are ours
        name = hashlib.sha256(os.fsencode(run.absolute())).hexdigest()[:16]
        self._far = _FOR_ALL / f"headnode-{name}"
        self._key = b""
        self._with_hosts: set[str] = set()  # the attempts that have host files
        self._with_scripts: set[str] = set()  # the jobs that have scripts

    def folders(self) -> list[Path]:
        """Return the directories that tasks of this or an earlier agent may look into."""
        return [self._near, self._far] if self._far.is_dir() and os.geteuid() == 0 else [self._near]

    def renew(self) -> None:
        """Learn what an earlier agent has left; replace its launchers, which may be older."""
        for folder in self.folders():
            self._with_hosts.update(path.stem for path in (folder / "hosts").glob("*.hosts"))
            self._with_scripts.update(path.name.partition(".")[0] for path in (folder / "scripts").glob("*"))
            if (folder / PROGRAM).exists():
                with contextlib.suppress(OSError, Unavailable):  # then the one that is there must do
                    self.install(folder, os.geteuid())

    def folder_for(self, uid: int) -> Path:
        """Return the directory for tasks of a user, with the launcher in it.

        Raises:  OSError; Unavailable ``launcher``.
        """
        folder = self.reachable(uid)
        if not (folder / PROGRAM).exists():
            self.install(folder, uid)
        return folder

    def reachable(self, uid: int) -> Path:
        """Return the directory for tasks of a user.

        Raises:  OSError.
        """
        if uid in (0, os.geteuid()) or all_may_reach(self._near):
            return self._near
        self._far.mkdir(mode=0o711, exist_ok=True)
        self._far.chmod(0o711)
        return self._far

    def install(self, folder: Path, uid: int) -> None:
        """Put the launcher there.

        Raises:  OSError; Unavailable ``launcher`` when there is no Python that the user can run.
        """
        pythons = [each for each in _PYTHONS if all_may_run(each)]
        if uid in (0, os.geteuid()):
            pythons.append(sys.executable)
        python = next(iter(pythons), "")
        if not python:
            raise Unavailable(
                code="launcher",
                what=f"no Python on this node can be run by user {uid}, which launching commands needs",
                fix="install python3, or install Headnode where all users can read it",
            )
        library = folder / "library"  # where the programs find what they import
        for module in (frame_codec, launcher, piped, terminal):
            *above, name = module.__name__.split(".")
            package = library.joinpath(*above)
            package.mkdir(parents=True, exist_ok=True)
            for each in (package, *package.parents[: len(above)]):
                each.chmod(0o755)
            _copy(str(module.__file__), package / f"{name}.py")
        for program, start in ((TERMINAL, _SIT_DOWN), (PROGRAM, _LAUNCH)):
            make_program(folder / program, [*code_command(python, start), str(library), str(folder)])

    def terminal(self, uid: int) -> str:
        """Return the program that runs another one in a client's terminal.

        Raises:  OSError; Unavailable ``launcher``.
        """
        folder = self.folder_for(uid)
        if not (folder / TERMINAL).exists():  # an older agent was here
            self.install(folder, uid)
        return str(folder / TERMINAL)

    def variables(
        self, folder: Path, task: str, place: NodeCores, distribution: Distribution | None
    ) -> dict[str, str]:
        """Write the host files of an attempt, and return what its mpiexec must find around it.

        Raises:  OSError.
        """
        self._with_hosts.add(task)
        hosts = folder / "hosts"
        hosts.mkdir(mode=0o711, exist_ok=True)
        paths = [hosts / f"{task}.{kind}" for kind in _KINDS]
        for path, text in zip(paths, host_files(place, distribution), strict=True):
            if not path.exists() or path.read_text(encoding="utf-8") != text:  # an mpiexec may read it now
                path.write_text(text, encoding="utf-8")
                path.chmod(0o644)
        return launcher_variables(str(folder / PROGRAM), self.secret(task), *(str(path) for path in paths))

    @property
    def have_hosts(self) -> bool:
        """Whether there are host files of any attempt."""
        return bool(self._with_hosts)

    def forget(self, task: str) -> None:
        """Remove the host files of an attempt."""
        if task not in self._with_hosts:
            return
        self._with_hosts.discard(task)
        for folder in self.folders():
            for kind in _KINDS:
                (folder / "hosts" / f"{task}.{kind}").unlink(missing_ok=True)

    def scripts(self, uid: int) -> Path:
        """Return the directory for the scripts of a user's tasks.

        Raises:  OSError.
        """
        scripts = self.reachable(uid) / "scripts"
        scripts.mkdir(mode=0o711, exist_ok=True)
        return scripts

    def keep_script(self, path: Path, text: str, uid: int) -> None:
        """Write a script, which only its user can read.

        Raises:  OSError.
        """
        self._with_scripts.add(path.name.partition(".")[0])
        scratch = path.with_name(f"{path.name}.new")
        scratch.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(scratch, flags, 0o400), "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
            if uid != os.geteuid():
                os.fchown(file.fileno(), uid, -1)
            file.write(text)
        scratch.replace(path)

    def forget_scripts(self, job: int) -> None:
        """Remove the scripts of a job."""
        if str(job) not in self._with_scripts:
            return
        self._with_scripts.discard(str(job))
        for folder in self.folders():
            for path in (folder / "scripts").glob(f"{job}.*"):
                path.unlink(missing_ok=True)

    def secret(self, task: str) -> str:
        """Return the secret of an attempt (job.task.instance.attempt); the next agent here knows it, too.

        Raises:  OSError.
        """
        if not self._key:
            self._key = self._read_or_make_key()
        return hmac.new(self._key, task.encode(), "sha256").hexdigest()

    def _read_or_make_key(self) -> bytes:
        if self._key_file.exists():
            key = self._key_file.read_bytes()
            if len(key) == _KEY:
                return key
        key = secrets.token_bytes(_KEY)
        scratch = self._key_file.with_suffix(".new")
        scratch.unlink(missing_ok=True)
        with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            file.write(key)
        scratch.replace(self._key_file)
        return key


_KINDS = ("hosts", "openmpi", "pbs")
_FIND_LIBRARY = "import sys; sys.path.insert(0, sys.argv[1]); "
_SIT_DOWN = f"{_FIND_LIBRARY}from {terminal.__name__} import main; sys.exit(main(sys.argv[2], sys.argv[3:]))"
_LAUNCH = f"{_FIND_LIBRARY}from {launcher.__name__} import run; run(sys.argv[2], sys.argv[3:])"


def _copy(file: str, to: Path) -> None:
    scratch = to.with_suffix(".new")
    shutil.copyfile(file, scratch)
    scratch.chmod(0o644)
    scratch.replace(to)


def make_program(path: Path, argv: list[str]) -> None:
    """Write a program that everybody can run, which becomes the one of these words with its own arguments.

    Raises:  OSError.
    """
    scratch = path.with_suffix(".new-program")
    scratch.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', encoding="utf-8")
    scratch.chmod(0o755)
    scratch.replace(path)


def all_may_reach(folder: Path) -> bool:
    """Tell whether everybody can walk to a directory and into it."""
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def all_may_run(python: str) -> bool:
    """Tell whether everybody can run a Python: all the way to it and to its library."""
    path = Path(python)
    if not python or not path.exists():
        return False
    library = Path(os.__file__) if python == sys.executable else path
    return all(all_may_reach(each.parent) for each in (path.absolute(), path.resolve(), library))


log = logging.getLogger("headnode.agent")

COMMANDS = "bin"
REMEMBERED = 2.0  # seconds that the name and the home of a user are not asked for again
MAX_USERS = 100  # that are remembered


class TaskAccess:
    """The program and the socket for each user, through which the user's tasks reach the head."""

    def __init__(self, places: LaunchPlaces, door: AgentClientDoor | None) -> None:
        """`door` None: the head is on this machine, and its own socket is the way."""
        self.places, self._door = places, door
        self._installed: set[Path] = set()
        self._environments: dict[int, tuple[float, dict[str, str]]] = {}  # by user: until when, and what

    def open(self) -> None:
        """Listen where tasks of an earlier agent look for us, and users of the node."""
        for folder in self.places.folders() if self._door is not None else ():
            self._listen(folder)

    def close(self) -> None:
        """Listen no more."""
        if self._door is not None:
            self._door.close()

    def socket(self, uid: int) -> str:
        """Return the socket by which processes of a user reach the head; empty: not by us."""
        if self._door is None:
            return ""
        try:
            folder = self.places.reachable(uid)
        except OSError as error:
            log.warning("tasks of user %d cannot reach the head: %s", uid, error)
            return ""
        return str(folder / SOCKET) if self._listen(folder) else ""

    def _listen(self, folder: Path) -> bool:
        """Listen in a directory; whether that can be."""
        try:
            if self._door is not None:
                self._door.open(folder)
        except OSError as error:
            log.error("tasks of this node cannot reach the head at %s: %s", folder, error)
            return False
        return True

    def scripts(self, uid: int) -> str:
        """Return the directory for the scripts of a user's tasks.

        Raises:  OSError.
        """
        return str(self.places.scripts(uid))

    def environment(self, uid: int) -> dict[str, str]:
        """Return the variables that tasks of a user begin with; the system is asked once in a while."""
        now = time.monotonic()
        until, variables = self._environments.get(uid, (0.0, {}))
        if now >= until:
            if len(self._environments) >= MAX_USERS:
                self._environments.clear()
            variables = base_environment(uid)
            variables["PATH"] = self.path(uid, variables["PATH"])
            self._environments[uid] = now + REMEMBERED, variables
        return dict(variables)

    def path(self, uid: int, path: str) -> str:
        """Return the PATH of a user with `hn` at the end, if the user can run it."""
        mine = uid in (0, os.geteuid())
        package = Path(headnode.__file__).parent
        if not mine and not (all_may_run(sys.executable) and all_may_reach(package)):
            return path  # he may have a Headnode of his own
        try:
            folder = self.places.reachable(uid) / COMMANDS
            if folder not in self._installed:
                folder.mkdir(exist_ok=True)
                folder.chmod(0o755)
                make_program(folder / "hn", module_command("headnode.apps.cli"))
                self._installed.add(folder)
        except OSError as error:
            log.warning("tasks of user %d have no hn: %s", uid, error)
            return path
        return f"{path}:{folder}"
