"""What tasks write while they run: when each began, a tick every ten milliseconds, and how it ended.

`PROGRAM` is run by tasks; `read` reads what it wrote.  A process that stands still does not tick, and neither
does one that is gone, so that the ticks show when a task really ran.
"""

import sys
from pathlib import Path
from typing import NamedTuple

TICK = 0.01  # seconds

PROGRAM = """
import os, resource, signal, sys, time

folder, ticks, code = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
name = os.environ["HEADNODE_TASK"]
if "deaf" in sys.argv[4:]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
own = "main"
if "child" in sys.argv[4:] and os.fork() == 0:
    os.setsid()
    own, ticks = "child", 20 * ticks + 500
file = os.open(f"{folder}/{name}.{own}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
numbers = os.environ["CCP_NUMCPUS"], limit, os.environ["HEADNODE_NODE"], os.getcwd()
os.write(file, " ".join(["begin", repr(time.time()), *map(str, numbers)]).encode() + b"\\n")
for _ in range(ticks):
    time.sleep(0.01)
    os.write(file, b"%.6f\\n" % time.time())
os.write(file, b"end %d\\n" % code)
os._exit(code)
"""


class Track(NamedTuple):
    """What one attempt of an instance wrote; times in seconds since 1970."""

    begins: int  # how often its program began
    processors: int
    open_files: int  # its limit
    node: str
    directory: str
    ticks: tuple[float, ...]  # of all its processes, in order; its beginning is one
    exit_code: int | None  # None: it never came to its end


Attempt = tuple[int, int, int, int]
"""Job, task, instance and attempt."""


def command(program: Path, tracks: Path, ticks: int, code: int, *manners: str) -> str:
    """Return a command line that ticks so often and ends with the exit code."""
    words = (sys.executable, "-I", "-S", program, tracks, ticks, code, *manners)
    return " ".join(map(str, words))


def read(tracks: Path) -> dict[Attempt, Track]:
    """Return what every attempt wrote."""
    found = {}
    for file in tracks.glob("*.main"):
        job, task, instance, attempt = map(int, file.name.removesuffix(".main").split("."))
        child = file.with_suffix(".child")
        lines = file.read_text().splitlines()
        if lines:
            beyond = child.read_text().splitlines() if child.exists() else []
            found[job, task, instance, attempt] = _track(lines, beyond)
    return found


def _track(lines: list[str], beyond: list[str]) -> Track:
    begins = [line.split(maxsplit=5) for line in lines if line.startswith("begin")]
    ends = [int(line.split()[1]) for line in lines if line.startswith("end")]
    _, _, processors, open_files, node, directory = begins[0]
    ticks = [_time(line) for line in lines + beyond if not line.startswith("end")]
    return Track(
        begins=len(begins),
        processors=int(processors),
        open_files=int(open_files),
        node=node,
        directory=directory,
        ticks=tuple(sorted(ticks)),
        exit_code=ends[0] if ends else None,
    )


def _time(line: str) -> float:
    words = line.split()
    return float(words[1] if words[0] == "begin" else words[0])
