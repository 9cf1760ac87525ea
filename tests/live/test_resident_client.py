"""A command that the launcher hands to the resident client is the same command, once, and nobody else's."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from heads import RealHead
from testbed.other_users import ALICE
from testbed.processes import TIMEOUT, until

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packaging" / "launcher" / "hn.c"
MODULE = "import serve; serve()"
COMPILER = shutil.which("cc")
IDLE = "5"  # seconds: what is left of a test ends soon after it

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


class Launched:
    """The launcher with an installation and a socket directory of its own."""

    def __init__(self, folder: Path, compiled: Path) -> None:
        self.folder = folder
        self.program = folder / "bin" / "hn"
        self.runtime = folder / "run"
        self.sockets = self.runtime / "headnode-client"
        self.modules = folder / "modules"  # empty; a test may put another Headnode there
        for each in (self.program.parent, self.runtime, self.modules):
            each.mkdir(mode=0o700)
        shutil.copy(compiled, self.program)
        python = self.program.with_name("python3")
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        own = {
            "XDG_RUNTIME_DIR": str(self.runtime),
            "HEADNODE_RESIDENT_CLIENT": IDLE,
            "PYTHONPATH": str(self.modules),
            "HEADNODE_STATE": str(self.folder / "nowhere"),
        }
        return {**os.environ, **own, **more}

    def run(self, *words: str, before: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        """Run a command, behind a line of shell."""
        return subprocess.run(
            ["/bin/sh", "-c", f'{before}\n"$0" "$@"', str(self.program), *words],
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def start(self, *words: str, **more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(self.program), *words], env=self.environment(**more), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def residents(self) -> list[int]:
        """Return the processes of residents, and of commands that they carry out."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    command = (entry / "cmdline").read_bytes().decode(errors="replace")
                except OSError:
                    continue
                if MODULE in command and str(self.folder) in command:
                    found.append(int(entry.name))
        return found

    def names(self) -> set[str]:
        names = {each.name for each in self.sockets.iterdir()} if self.sockets.is_dir() else set()
        return {name for name in names if len(name) == 32}

    def warm(self, **more: str) -> None:
        """Call until a resident listens for such calls."""
        there = self.names()
        until(lambda: self.run("job", "nonsense", **more) and self.names() - there, "a resident listens")
        until(lambda: len(self.residents()) == 2, "one waits for a call")

    def end(self) -> None:
        for process in self.residents():
            with suppress(ProcessLookupError):  # the one of a call that is over ends by itself
                os.kill(process, signal.SIGKILL)
        until(lambda: not self.residents(), "no resident is left")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("launcher") / "hn"
    subprocess.run([str(COMPILER), "-o", str(program), str(SOURCE)], check=True)
    return program


@pytest.fixture
def launched(tmp_path: Path, compiled: Path) -> Iterator[Launched]:
    made = Launched(tmp_path, compiled)
    yield made
    made.end()


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    started = RealHead(tmp_path_factory.mktemp("head") / "state")
    started.wait_until_ready()
    yield started
    started.stop()
    started.process.wait()


def count_of_jobs(head: RealHead) -> int:
    return sum(head.ask("cluster")["cluster"]["jobs"].values())


def test_commands_say_the_same_with_and_without_a_resident(launched: Launched, head: RealHead) -> None:
    state = {"HEADNODE_STATE": str(head.state)}
    launched.warm()
    commands = (
        ("job", "list", "--state", "*"),
        ("--state", str(head.state), "node", "list", "--json"),
        ("cluster", "view"),
        ("job", "view", "999"),
        ("job", "nonsense"),
        ("job", "submit", "--nonsense"),
        ("job", "view", "\udce9"),
        ("job",),
    )
    for words in commands:
        plain = launched.run(*words, **state, HEADNODE_RESIDENT_CLIENT="0")
        handed = launched.run(*words, **state)
        assert (handed.returncode, handed.stdout, handed.stderr) == (
            plain.returncode, plain.stdout, plain.stderr,
        ), words  # fmt: skip


@pytest.mark.parametrize(
    ("program", "words", "handed"),
    [
        ("squeue", ["-h"], True),
        ("bjobs", ["-u", "all"], True),
        ("bkill", ["999"], True),
        ("condor_q", ["-allusers"], True),
        ("bsub", ["-Zz", "true"], True),
        ("bsub", ["-J", "x", "-Is", "-Zz", "true"], False),
        ("srun", ["--nonsense"], False),
    ],
)
def test_programs_of_other_schedulers_are_handed_over_unless_they_need_the_terminal(
    launched: Launched, head: RealHead, program: str, words: list[str], handed: bool
) -> None:
    state = {"HEADNODE_STATE": str(head.state)}
    launched.program.with_name(program).symlink_to("hn")
    called = f'"${{0%/*}}/{program}" "$@"; exit $?'
    plain = launched.run(*words, before=called, **state, HEADNODE_RESIDENT_CLIENT="0")
    for _ in range(3):
        again = launched.run(*words, before=called, **state)
    assert (again.returncode, again.stderr) == (plain.returncode, plain.stderr)
    assert (again.returncode == 127, launched.sockets.exists()) == (False, handed)


def test_a_command_has_the_directory_variables_and_shell_of_its_caller(
    launched: Launched, head: RealHead, tmp_path: Path
) -> None:
    launched.warm()
    here = tmp_path / "here"
    here.mkdir()
    script = (
        f'cd {here}; "$0" job submit --env-all -q "env; pwd" | tee first; '
        '"$0" job wait "!!" >&2; printf "%s " "$0" | wc -c >&2'
    )
    for value in ("one", "two"):
        done = subprocess.run(
            ["/bin/sh", "-c", script, str(launched.program)],
            env=launched.environment(HEADNODE_STATE=str(head.state), **{f"OF_{value}": value}),
            capture_output=True,
            text=True,
            check=True,
        )
        output = head.output(int(done.stdout)).splitlines()
        assert [line for line in output if line.startswith("OF_")] == [f"OF_{value}={value}"]
        assert output[-1] == str(here)


def test_nothing_of_a_call_stays_in_the_resident(launched: Launched) -> None:
    launched.run("job", "nonsense", SECRET="of the caller who starts it")
    launched.warm(SECRET="of the caller")
    launched.run("job", "nonsense", SECRET="of the caller")
    for process in launched.residents():
        environment = Path(f"/proc/{process}/environ").read_bytes()
        assert b"SECRET" not in environment
        assert b"PYTHONPATH" in environment
        folder = Path(f"/proc/{process}/fd")
        files = {str(each.readlink()) for each in folder.iterdir()}
        assert not {each for each in files if each.startswith("/") and "/dev/null" not in each} - {
            str(launched.sockets),
            *(str(lock) for lock in launched.sockets.glob("resident-*")),
        }
        assert Path(f"/proc/{process}/cwd").readlink() == Path("/")


def test_a_single_command_starts_no_resident(launched: Launched) -> None:
    assert launched.run("job", "nonsense").returncode == 2
    assert not launched.residents()


@pytest.mark.parametrize(
    "words", [("up", "--nonsense"), ("job", "shell"), ("version",), ("run", "--nonsense")]
)
def test_what_starts_processes_or_needs_the_terminal_is_not_handed_over(
    launched: Launched, words: tuple[str, ...]
) -> None:
    for _ in range(3):
        launched.run(*words)
    assert not launched.sockets.exists()


@pytest.mark.parametrize(
    "name", ["HEADNODE_TASK", "HEADNODE_HOOK", "HEADNODE_HAND_OFF", "HEADNODE_FILTER_RUN"]
)
def test_what_headnode_starts_has_no_resident(launched: Launched, name: str) -> None:
    for _ in range(3):
        launched.run("job", "nonsense", **{name: "1"})
    assert not launched.sockets.exists()


def test_a_user_has_no_more_residents_than_slots(launched: Launched) -> None:
    launched.warm()
    for number in range(60):  # more than there are slots
        launched.run("job", "nonsense", TZ=f"UTC-{number}")
    locks = {each.name for each in launched.sockets.iterdir() if each.name.startswith("resident-")}
    assert 4 < len(locks) <= 16
    assert len(launched.residents()) <= 2 * 16


def test_a_resident_ends_when_nobody_calls_and_leaves_no_names(launched: Launched) -> None:
    launched.warm(HEADNODE_RESIDENT_CLIENT="0.2")
    until(lambda: not launched.residents(), "the resident has ended")
    assert not launched.names()


@pytest.mark.parametrize(
    "before",
    [
        "umask 027",
        "ulimit -n 100",
        "trap '' HUP",
        "export LC_ALL=C",
        "nice -n 1 true; renice -n 1 $$ >/dev/null",
    ],
)
def test_a_caller_with_other_limits_has_another_resident(launched: Launched, before: str) -> None:
    launched.warm()
    there = launched.names()
    until(lambda: launched.run("job", "nonsense", before=before) and launched.names() - there, "another one")


def test_an_installation_that_changed_is_not_answered_by_an_older_resident(launched: Launched) -> None:
    shutil.copytree(
        ROOT / "src" / "headnode", launched.modules / "headnode", ignore=shutil.ignore_patterns("web")
    )
    old = time.time() - 100
    for file in launched.modules.rglob("*.py"):
        os.utime(file, (old, old))
    launched.warm()
    catalogue = launched.modules / "headnode" / "apps" / "cli" / "catalogue.py"
    catalogue.write_text(catalogue.read_text().replace("there is no command", "no such command"))
    result = launched.run("job", "nonsense")
    assert "no such command" in result.stderr
    until(lambda: not launched.residents(), "the older one has ended")


def test_a_stopped_resident_costs_a_moment_and_the_job_is_submitted_once(
    launched: Launched, head: RealHead
) -> None:
    state = {"HEADNODE_STATE": str(head.state)}
    launched.warm()
    before = count_of_jobs(head)
    stopped = launched.residents()
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    for _ in range(2):
        assert launched.run("job", "submit", "/bin/true", **state).returncode == 0
    assert not launched.names()  # the second call did not wait for it
    for process in stopped:
        os.kill(process, signal.SIGCONT)
    until(lambda: len(launched.residents()) <= 2, "what had connected is gone")
    assert count_of_jobs(head) == before + 2


def test_a_killed_resident_costs_nothing(launched: Launched, head: RealHead) -> None:
    state = {"HEADNODE_STATE": str(head.state)}
    launched.warm()
    before = count_of_jobs(head)
    for process in launched.residents():
        os.kill(process, signal.SIGKILL)
    assert launched.names()
    assert launched.run("job", "submit", "/bin/true", **state).returncode == 0
    assert count_of_jobs(head) == before + 1


@contextmanager
def waiting(launched: Launched, head: RealHead) -> "Iterator[subprocess.Popen[str]]":
    """Start a command in a resident that waits for a job; end the job afterwards."""
    launched.warm()
    job = head.submit("sleep 1000")
    with launched.start("job", "wait", str(job), HEADNODE_STATE=str(head.state)) as command:
        try:
            until(lambda: len(launched.residents()) > 2, "the resident carries it out")
            assert Path(f"/proc/{command.pid}/exe").readlink() == launched.program
            yield command
        finally:
            head.ask("cancel_job", job=job)


@pytest.mark.parametrize(
    ("number", "ends"),
    [(signal.SIGINT, (130, -2)), (signal.SIGTERM, (-15,)), (signal.SIGHUP, (-1,))],
)
def test_a_signal_ends_the_command_as_it_ends_python(
    launched: Launched, head: RealHead, number: signal.Signals, ends: tuple[int, ...]
) -> None:
    with waiting(launched, head) as command:
        command.send_signal(number)
        assert command.wait(TIMEOUT) in ends
        until(lambda: len(launched.residents()) <= 2, "its process has ended too")


def test_a_signal_that_comes_before_the_request_ends_the_command_too(launched: Launched) -> None:
    launched.warm()
    (name,) = launched.names()
    folder = os.open(launched.sockets, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(TIMEOUT)
        caller.connect(f"/proc/self/fd/{folder}/{name}")
        _, (process,), _, _ = socket.recv_fds(caller, 1, 1)
        signal.pidfd_send_signal(process, signal.SIGINT)
        assert caller.recv(1) == b"\x82"
    for each in (folder, process):
        os.close(each)


def test_a_command_whose_launcher_is_killed_ends(launched: Launched, head: RealHead) -> None:
    with waiting(launched, head) as command:
        command.kill()
        until(lambda: len(launched.residents()) <= 2, "its process has ended too")


def test_what_the_kernel_shows_late_of_a_request_kills_no_command(launched: Launched) -> None:
    """The signal of a request that was read already looks like that of more bytes behind it."""
    launched.warm()
    (name,) = launched.names()
    watched, life = os.pipe()
    text = b"".join(b"%s\0" % os.fsencode(word) for word in ("hn", "job", "nonsense", "PATH=/bin"))
    folder = os.open(launched.sockets, os.O_PATH)
    with Path(os.devnull).open("r+b", buffering=0) as nothing, socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(TIMEOUT)
        caller.connect(f"/proc/self/fd/{folder}/{name}")
        socket.recv_fds(caller, 1, 1)
        there = os.open("/", os.O_PATH)
        handed = [*[nothing.fileno()] * 3, there, watched]
        socket.send_fds(caller, [struct.pack("=IIi", 3, len(text), os.getpid())], handed)
        caller.sendall(text + b"late")
        status = caller.recv(1)
    for each in (folder, there, watched, life):
        os.close(each)
    assert status == b"\x02"  # usage: there is no such command


def test_a_command_whose_process_is_killed_is_not_done_again(launched: Launched, head: RealHead) -> None:
    with waiting(launched, head) as command:
        for process in launched.residents():
            os.kill(process, signal.SIGKILL)
        _, found = command.communicate(timeout=TIMEOUT)
        assert command.returncode == 137
        assert "was killed" in found


def test_a_stopped_command_goes_on(launched: Launched, head: RealHead) -> None:
    with waiting(launched, head) as command:
        command.send_signal(signal.SIGTSTP)
        status = Path(f"/proc/{command.pid}/stat")
        until(lambda: status.read_text().split()[2] == "T", "it is stopped")
        command.send_signal(signal.SIGCONT)
    assert command.returncode == 1


def test_closed_streams_and_a_removed_directory_are_as_in_plain_python(
    launched: Launched, head: RealHead, tmp_path: Path
) -> None:
    state = {"HEADNODE_STATE": str(head.state)}
    launched.warm()
    gone = f"mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone; exec 2>&1"
    for before, words in (
        ("exec <&-", ("job", "list")),
        ("exec >&-", ("job", "list")),
        (gone, ("job", "list")),
        (gone, ("job", "submit", "/bin/true")),
        ("exec >/dev/full", ("job", "list")),
    ):
        plain = launched.run(*words, before=before, **state, HEADNODE_RESIDENT_CLIENT="0")
        handed = launched.run(*words, before=before, **state)
        output = [(done.returncode, done.stderr.splitlines()[-1:]) for done in (handed, plain)]
        ends = [(1 if status == 120 else status, line) for status, line in output]  # 120: it failed twice
        assert ends[0] == ends[1], before
        assert "removed" in handed.stdout or before != gone or words[1] == "list"


@pytest.mark.parametrize("switch", ["0", IDLE])
def test_output_that_cannot_be_written_is_reported_in_one_line(
    launched: Launched, head: RealHead, switch: str
) -> None:
    state = {"HEADNODE_STATE": str(head.state), "HEADNODE_RESIDENT_CLIENT": switch}
    launched.warm()
    full = launched.run("job", "list", before="exec >/dev/full", **state)
    assert (full.returncode, len(full.stderr.splitlines())) == (1, 1), full.stderr
    assert full.stderr.startswith("hn: standard output cannot be written: No space left on device;")
    reads, writes = os.pipe()
    os.close(reads)
    command = [str(launched.program), "job", "list"]
    closed = subprocess.run(
        command, env=launched.environment(**state), stdout=writes, stderr=subprocess.PIPE, check=False
    )
    os.close(writes)
    assert (closed.returncode, closed.stderr) == (1, b"")


@pytest.mark.parametrize("trap", ["link", "open to others", "file"])
def test_a_directory_that_is_not_ours_alone_is_not_used(
    launched: Launched, tmp_path: Path, trap: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if trap == "link":
        launched.sockets.symlink_to(elsewhere)
    elif trap == "file":
        launched.sockets.write_text("")
    else:
        launched.sockets.mkdir()
        launched.sockets.chmod(0o755)
    for _ in range(3):
        assert launched.run("job", "nonsense").returncode == 2
    assert not launched.residents()
    assert not list(elsewhere.iterdir())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_directory_of_another_user_is_not_used(launched: Launched) -> None:
    launched.sockets.mkdir(mode=0o700)
    os.chown(launched.sockets, ALICE, ALICE)
    for _ in range(3):
        assert launched.run("job", "nonsense").returncode == 2
    assert not launched.residents()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_socket_behind_which_another_user_listens_gets_nothing(launched: Launched) -> None:
    launched.warm()
    (name,) = launched.names()
    launched.end()
    (launched.sockets / name).unlink()
    listen = (
        "import os, socket, sys; os.chdir(sys.argv[1]); s = socket.socket(socket.AF_UNIX); "
        f"s.bind(sys.argv[2]); "
        f"os.setresuid({ALICE}, {ALICE}, {ALICE}); s.listen(); print('here', flush=True); "
        "c, _ = s.accept(); print(c.recv(99))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", listen, str(launched.sockets), name], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "here\n"
        assert launched.run("job", "nonsense").returncode == 2
        assert other.stdout.readline() == "b''\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_resident_serves_only_its_own_user(launched: Launched) -> None:
    launched.warm()
    (name,) = launched.names()
    # Another user, who reaches the socket because root has opened the way to it.
    (launched.sockets / name).chmod(0o777)
    connect = (
        f"import os, socket; os.chdir({str(launched.sockets)!r}); os.setresgid({ALICE}, {ALICE}, {ALICE}); "
        f"os.setgroups([]) if os.geteuid() == 0 else None; os.setresuid({ALICE}, {ALICE}, {ALICE}); "
        f"s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect({name!r}); print(s.recv(9))"
    )
    launched.sockets.chmod(0o711)
    result = subprocess.run([sys.executable, "-c", connect], capture_output=True, text=True, check=False)
    assert result.stdout == "b''\n", result.stderr
    launched.sockets.chmod(0o700)
    assert launched.run("job", "nonsense").returncode == 2
