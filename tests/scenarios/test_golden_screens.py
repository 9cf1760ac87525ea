"""Every screen of `hn`, on a terminal and as JSON, is as it was when it was blessed.

The head runs in this process by a clock that stands still, so all that is printed is the same each time.
"""

import asyncio
import fcntl
import os
import pwd
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path
from socket import gethostname

from golden_files import compare
from test_local_socket import Scene, run

from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant
from headnode.core.state import join as c

NOW = 1_772_442_000.0  # 2026-03-02T09:00:00Z
WIDTH = 80  # columns
# `hn` as it is, by the clock of the scene.
PROGRAM = "import sys, time; time.time = lambda: {now}; sys.argv[0] = 'hn'\n" + (
    "from headnode.apps.cli.__main__ import main\nsys.exit(main())"
)


class Terminal:
    """Runs `hn` against the head of a scene, and keeps what it shows by the name of the file."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.shown: dict[str, str] = {}

    async def show(self, *words: str, json: bool = True, name: str = "") -> None:
        """Keep what a command line shows on a terminal, and what it prints with ``--json``."""
        name = name or "-".join(re.sub(r"[^\w.]+", "_", word).strip("_") for word in words)
        self.shown[f"{name}.txt"] = await self._run(words, terminal=True)
        if json:
            self.shown[f"{name}.json.txt"] = await self._run((*words, "--json"), terminal=False)

    async def do(self, *words: str) -> None:
        """Carry out a command that must succeed, and keep what it says."""
        text = await self._run(words, terminal=False)
        assert text.endswith("exit status 0\n"), text
        self.shown[f"{len(self.shown):03}-done.txt"] = text

    async def _run(self, words: Sequence[str], *, terminal: bool) -> str:
        status, text = await asyncio.to_thread(self._hn, words, terminal)
        user = pwd.getpwuid(os.geteuid()).pw_name
        text = text.replace(str(self.scene.state), "/the/state/of/hn").replace(user, "root")
        text = re.sub(rf'(Submit Host +: |"submit_host": "){re.escape(gethostname())}', r"\1thehead", text)
        return f"$ hn {' '.join(words)}\n{text}exit status {status}\n"

    def _hn(self, words: Sequence[str], terminal: bool) -> tuple[int, str]:
        state = str(self.scene.state)
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith(("HEADNODE", "CCP"))
        }
        environment |= {"HEADNODE_STATE": state, "XDG_RUNTIME_DIR": state, "HOME": state, "TZ": "UTC"}
        environment |= {"TERM": "xterm", "NO_COLOR": "1"}
        command = [sys.executable, "-c", PROGRAM.format(now=self.scene.clock.now()), *words]
        if not terminal:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=environment, cwd=state, timeout=120, check=False,
            )  # fmt: skip
            return done.returncode, done.stdout.decode()
        return _on_terminal(command, environment, state)


def _on_terminal(command: Sequence[str], environment: dict[str, str], folder: str) -> tuple[int, str]:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment, cwd=folder
    )
    os.close(theirs)
    shown = bytearray()
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # all have closed it
            break
        if not data:
            break
        shown += data
    os.close(ours)
    return process.wait(), shown.decode().replace("\r\n", "\n")


async def _jobs(scene: Scene, hn: Terminal) -> None:
    """Submit jobs of every kind and let some of them run and end."""
    submit = ("job", "submit")
    await hn.do(*submit, "/jobname:first", "/runtime:10m", "echo hello")
    await hn.do(*submit, "/jobname:sweep", "/parametric:1-4", "echo *")
    await scene.end(1)
    scene.clock.advance_to(Instant(NOW + 65))
    await scene.end(2)
    await scene.end(2, exit_code=3)
    await hn.do(*submit, "/jobname:wide", "/numprocessors:2", "/runtime:1h", "/project:Weather", "simulate")
    await hn.do(
        *submit, "/jobname:behind", "/numprocessors:1", "/runtime:2h", "/priority:AboveNormal", "tail"
    )
    await hn.do(*submit, "/jobname:nowhere", "/requestednodes:n2", "/numprocessors:1", "elsewhere")
    await hn.do("job", "new", "/jobname:flow", "/numprocessors:1-2")
    await hn.do("job", "add", "6", "/name:make", "/stdout:made.txt", "make")
    await hn.do("job", "add", "6", "/name:merge", "/depend:make", "merge")
    await hn.do("job", "submit", "/id:6")
    await hn.do(*submit, "/jobname:later", "/hold:data", "true")
    await hn.do(*submit, "/jobname:canceled", "/numprocessors:2", "true")
    await hn.do("job", "cancel", "8")
    scene.clock.advance_to(Instant(NOW + 300))


async def _look(hn: Terminal) -> None:
    """Look at everything that there is."""
    for words in (
        ("job", "list"),
        ("job", "list", "/all"),
        ("job", "list", "/state:finished,failed,canceled"),
        ("job", "list", "/format:list"),
        ("job", "list", "--quiet"),
        ("node", "list"),
        ("node", "list", "/format:list"),
        ("node", "view", "n1"),
        ("node", "listcores"),
        ("cluster", "view"),
        ("cluster", "params"),
        ("cluster", "history"),
        ("reservation", "list"),
        ("template", "list"),
        ("filter", "list"),
        ("token", "list"),
        ("whoami",),
        ("task", "view", "2.1"),
        ("task", "view", "2.1.3"),
        ("task", "output", "3.1"),
        ("job", "view", "99"),
        ("job", "efficiency", "1", "2", "3"),
        ("job", "efficiency", "/user:*", "/state:*"),
        ("job", "cancel", "1"),
        ("job", "submit", "--nonsense", "x"),
        ("nonsense",),
    ):
        await hn.show(*words)
    for job in range(1, 9):
        for verb in ("view", "listtasks", "explain"):
            await hn.show("job", verb, str(job))
        await hn.show("job", "view", str(job), "/detailed", "/history", json=False)
        await hn.show("job", "export", str(job), json=False)


def test_every_screen_is_the_one_that_was_blessed() -> None:
    found: dict[str, str] = {}

    async def story(scene: Scene) -> None:
        scene.clock.advance_to(Instant(NOW))
        facts = NodeFacts(name="n2", processors=4, memory=8192, groups=("big",), features=("gpu",))
        await scene.batcher.ask(c.RegisterNode(facts=facts, approved=True))
        hn = Terminal(scene)
        await hn.do("node", "drain", "n2", "/reason:a new disk")
        await _jobs(scene, hn)
        await _look(hn)
        found.update(hn.shown)

    with tempfile.TemporaryDirectory(prefix="hn-", dir="/tmp") as folder:  # as long each time: it is shown
        run(Path(folder), story, seconds=300)
    compare("screens", found, layout=pwd.getpwuid(os.geteuid()).pw_name == "root")
