"""What real processes of a release say to each other, and the files that they leave, as they were.

`python -m documents.released_conversations VERSION` writes `tests/golden/conversations/VERSION` once: what a
head, two agents, shepherds, clients and a launcher say from the first greeting to the end of a job, noted by
relays; and the files of the head and of an agent while a job runs.  Needs root.
"""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from headnode.adapters.wire.frame_codec import FrameDecoder
from headnode.adapters.wire.frames import FrameWriter, Streams
from headnode.apps.agent import shepherds
from headnode.apps.agent.main import main as agent_main
from headnode.apps.client.logins import HeadLogin
from headnode.apps.client.logins import keep as keep_login
from heads import RealHead, real_head
from testbed.processes import until

CONVERSATIONS = Path(__file__).parents[1] / "golden" / "conversations"
NODES = ("n1", "n2")
LARGEST = 1 << 26  # bytes of a frame
LOGIN = HeadLogin(
    host="head.example.org",
    port=5970,
    cluster="c",
    user="ada",
    number=1,
    token="t",
    expires=2e9,
    authority="a",
)
FINDS_TESTS = {"PYTHONPATH": f"{CONVERSATIONS.parents[1]}:{CONVERSATIONS.parents[1] / 'live'}"}
LEFT_OUT = ("head.log", "agent.log", "shepherds.log")


class Recorder:
    """Listens in place of a server, passes everything on, and notes the frames, by connection and speaker."""

    def __init__(self, listens: Path, server: Path, names: tuple[str, str]) -> None:
        self._server, self._names = server, names
        self.frames: list[tuple[int, str, bytes]] = []
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(listens))
        listens.chmod(0o666)
        self._door.listen()
        self._lock, self._count = threading.Lock(), 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._count += 1
                for ends, name in zip(((client, server), (server, client)), self._names, strict=True):
                    threading.Thread(target=self._pass, args=(*ends, self._count, name), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, number: int, name: str) -> None:
        decoder = FrameDecoder(LARGEST)
        with suppress(OSError):
            while data := one.recv(1 << 16):
                with self._lock:
                    self.frames += [(number, name, frame) for frame in decoder.feed(data)]
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Listen no more."""
        self._door.close()

    def write(self, path: Path) -> None:
        """Write what was said: the connection, who, and the frame; as JSON, or in hexadecimal digits."""
        lines = [f"{number} {name} {_text(frame)}\n" for number, name, frame in self.frames]
        path.write_text("".join(lines))


def _text(frame: bytes) -> str:
    """Return a frame on a line: JSON as it is."""
    with suppress(ValueError):
        json.loads(frame)
        return frame.decode("ascii")
    return frame.hex()


@contextmanager
def agent(head: RealHead, name: str, folder: Path, dials: Path, notes: Path) -> Iterator[Path]:
    """Start an agent; return its state directory."""
    command = [sys.executable, "-m", "documents.released_conversations", "--agent", str(notes)]
    command += ["--head", str(dials), "--state", str(folder)]
    with (folder.parent / f"{name}.log").open("ab") as log:
        command += ["--name", name, "--processors", "2"]
        process = subprocess.Popen(command, env=os.environ | FINDS_TESTS, stdout=log, stderr=log)
    try:
        head.until(lambda: any(node["name"] == name for node in head.ask("nodes")["nodes"]))
        yield folder
    finally:
        process.terminate()
        process.wait()


def in_place(path: Path, names: tuple[str, str]) -> Recorder:
    """Record what is said at a socket that somebody listens at."""
    real = path.with_name(f"{path.name}.real")
    path.rename(real)
    return Recorder(path, real, names)


def noted_agent(log: str, *words: str) -> int:
    """Be an agent that notes what shepherds and it say: it believes no relay, which is another process."""
    file = Path(log).open("a")  # noqa: SIM115 - until the end of the process
    deliver = shepherds.deliver_frames

    async def delivered(streams: Streams, largest: int, received: Callable[[bytes], bool]) -> None:
        def noted(data: bytes) -> bool:
            print("1 shepherd", data.decode("ascii"), file=file, flush=True)
            return received(data)

        await deliver(streams, largest, noted)

    class NotedWriter(FrameWriter):
        def send(self, message: bytes) -> None:
            print("1 agent", message.decode("ascii"), file=file, flush=True)
            super().send(message)

    shepherds.deliver_frames, shepherds.FrameWriter = delivered, NotedWriter
    return agent_main(words)


def hn(door: Path, *words: str, text: str = "") -> None:
    """Ask the head as a user does."""
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{door}/", *words]
    subprocess.run(command, input=text, text=True, check=False, capture_output=True, cwd="/", timeout=60)


_LOOKS = (
    "job list --state all", "job view 1", "job listtasks 3", "task view 1.1", "task output 1.1", "node list",
    "node view n1", "cluster view", "cluster audit", "job view 99", "job requeue 3", "job cancel 3",
)  # fmt: skip


def live(head: RealHead, door: Path, jobs: Path) -> None:
    """Let users and an administrator do what they do, with hooks, notices, and a command on another node."""
    for script, text in (("prolog", "exit 0"), ("epilog", "exit 0"), ("refuses", "echo no disk; exit 1")):
        (jobs / script).write_text(f"#!/bin/sh\n{text}\n")
        (jobs / script).chmod(0o755)
    hook = "http://127.0.0.1:1/"  # nobody listens
    hn(door, "whoami")
    hn(door, "cluster", "params", f"PrologProgram={jobs}/prolog", f"EpilogProgram={jobs}/epilog")
    hn(door, "cluster", "params", "EmailSmtpServer=127.0.0.1:1", "EmailFrom=hn@example.org")
    hn(door, "cluster", "params", f"NotificationWebhooks={hook}", f"EventWebhooks={hook}")
    submit = ["job", "submit", "--wait"]
    hn(door, *submit, "--emailaddress", "ada@example.org", "--notifyoncompletion", "echo", "out")
    hn(door, *submit, "-n", "4-4", "for each in n1 n2; do $HEADNODE_LAUNCH $each echo at $each; done")
    hn(door, *submit, "--parametric", "1-3", "--runtime", "60", "exit", "*")
    hn(door, "job", "shell", "--", "cat; exit 3", text="through\n")
    hn(door, "run", "echo", "everywhere")
    for words in _LOOKS:
        hn(door, *words.split())


def keep_head(state: Path, target: Path) -> None:
    """Keep the files of a head that runs; its databases are locked, so statements are made of copies."""
    target.mkdir(parents=True)
    with TemporaryDirectory() as scratch:
        for path in sorted(state.iterdir()):
            if ".db" in path.suffix:
                shutil.copyfile(path, Path(scratch) / path.name)
            elif path.is_file() and path.suffix != ".lock" and path.name not in LEFT_OUT:
                shutil.copyfile(path, target / path.name)
        for path in sorted(Path(scratch).glob("*.db")):
            with closing(sqlite3.connect(path)) as database:
                (number,) = database.execute("pragma user_version").fetchone()
                lines = [f"pragma user_version = {number};", *database.iterdump(), ""]
                (target / f"{path.stem}.sql").write_text("\n".join(lines))


def keep_agent(state: Path, target: Path) -> None:
    """Keep the files of an agent while it has jobs; what it makes anew at each start is left out."""
    for path in sorted(state.rglob("*")):
        there = path.relative_to(state)
        if (
            path.is_file()
            and there.parts[0] != "run"
            and path.name not in LEFT_OUT
            and path.suffix != ".lock"
        ):
            (target / there).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / there)


def main(version: str, releases: Path | str = CONVERSATIONS) -> int:
    """Write the conversations and files of a release, if it has none yet."""
    folder = Path(releases) / version
    if folder.exists():
        return 0
    if os.geteuid() != 0:
        print("only root can start agents for several users", file=sys.stderr)
        return 1
    with TemporaryDirectory(prefix="hn-") as scratch, ExitStack() as over:
        here = Path(scratch)
        here.chmod(0o755)
        for each in ("door", "wire", "jobs"):
            (here / each).mkdir()
        head = over.enter_context(real_head(here, nodes=0))
        wire = Recorder(here / "wire" / "nodes.sock", head.state / "nodes.sock", ("agent", "head"))
        clients = Recorder(here / "door" / "head.sock", head.state / "head.sock", ("client", "head"))
        dials = here / "wire" / "nodes.sock"
        first, _ = (
            over.enter_context(agent(head, name, here / name, dials, here / f"{name}.said")) for name in NODES
        )
        launchers = in_place(first / "run" / "launch.sock", ("task", "agent"))
        live(head, here / "door", here / "jobs")
        job = head.submit("sleep 60", terms={"requestednodes": "n1"})
        head.wait_for(job, "Running")
        head.ask("set_parameters", values={"PrologProgram": f"{here}/jobs/refuses"})
        folder.mkdir(parents=True)
        until(lambda: list((first / "jobs").glob("*.visit")), "a visit")
        keep_agent(first, folder / "agent")
        keep_head(head.state, folder / "head")
        head.ask("cancel_job", job=job)
        head.wait(job)
        for recorder, name in ((wire, "wire"), (clients, "clients"), (launchers, "launchers")):
            recorder.close()
            recorder.write(folder / f"{name}.txt")
        shutil.copyfile(here / "n1.said", folder / "shepherds.txt")
        shutil.copyfile(keep_login({"XDG_CONFIG_HOME": str(here)}, LOGIN), folder / "logins.json")
    return 0


if __name__ == "__main__":
    sys.exit(noted_agent(*sys.argv[2:]) if sys.argv[1] == "--agent" else main(*sys.argv[1:]))
