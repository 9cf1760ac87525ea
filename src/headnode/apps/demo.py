"""The demo, ``python -m headnode.apps.demo``: commands as a user would type them, nothing left behind."""

import contextlib
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headnode.adapters.own_python import module_command
from headnode.apps.cli.progress import ShowJobs, bars, counts
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError, NotFound, Unavailable

TIMEOUT: Final = 10.0  # seconds for processes that were told to end
PAUSE: Final = 0.02


def started_with(mark: tuple[str, str]) -> list[int]:
    """Return the processes of this user whose environment holds the variable `mark` with its value."""
    wanted = "=".join(mark).encode()
    arguments = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):  # it is gone, or somebody else's
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    arguments.append(int(folder.name))
    return arguments


def end_leftovers(mark: tuple[str, str], timeout: float = TIMEOUT) -> list[int]:
    """Wait until none of them is left; kill those that stay, and return them."""
    deadline = time.monotonic() + timeout
    while (left := started_with(mark)) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return left


_JOB: Final = re.compile(r"ID: (\d+)")


class TypedCommands:
    """A shell, so to speak, in which HEADNODE_STATE names the demo's cluster."""

    def __init__(self, state: Path, mark: tuple[str, str]) -> None:
        self._log = state / "head.log"
        self._environment = os.environ | {"HEADNODE_STATE": str(state), mark[0]: mark[1]}
        print_line(f"$ export HEADNODE_STATE={shlex.quote(str(state))}")

    def hn(self, *argv: str) -> str:
        """Run one command and return what it said.

        Raises:  Unavailable ``demo`` when it fails.
        """
        done = self._run(argv)
        if done.returncode != 0:
            command = shlex.join(("hn", *argv))
            raise Unavailable(
                code="demo",
                what=f"{command} failed with status {done.returncode}: {done.stderr.strip()}",
                fix=f"the log of the head is {self._log}",
            )
        return done.stdout

    def stop(self, *, cancel: bool) -> None:
        """Stop the cluster, which may not run at all; `cancel` its jobs when they were not waited for."""
        self._run(("down", "--cancel-jobs") if cancel else ("down",))

    def submit(self, job_file: Path) -> int:
        """Submit a job file and return the id of the job.

        Raises:  Unavailable ``demo``.
        """
        output = self.hn("job", "submit", f"/jobfile:{job_file}")
        match = _JOB.search(output)
        if match is None:
            raise Unavailable(code="demo", what=f"hn job submit said {output!r}", fix="please report this")
        return int(match[1])

    def _run(self, argv: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
        print_line(f"$ {shlex.join(('hn', *argv))}")
        done = subprocess.run(
            module_command("headnode.apps.cli", *argv),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            print_line(f"  {line}".rstrip())
        return done


def print_line(line: str = "") -> None:
    """Print a line at once, so that a pipe sees it when it happens."""
    print(line, flush=True)


Job = dict[str, Any]  # a job object of the local protocol


def follow(state: Path, jobs: list[int]) -> list[Job]:
    """Show how the jobs go until all are over; return them as they ended."""
    known: dict[int, Job] = {}
    client = Client(str(state))
    try:
        with bars() if sys.stderr.isatty() else lines() as display:
            for answer in client.follow("watch_jobs", job=jobs):
                known.update((job["id"], job) for job in answer["jobs"])
                display([known[job] for job in jobs if job in known])
    finally:
        client.close()
    return [known[job] for job in jobs]


@contextmanager
def lines() -> Iterator[ShowJobs]:
    """Print a line whenever something of a job is new."""
    last: dict[int, str] = {}

    def show(jobs: list[Job]) -> None:
        for job in jobs:
            line = f"  job {job['id']} {job['name']}: {job['state'].lower()}, {counts(job['tasks'])}"
            if last.get(job["id"]) != line:
                last[job["id"]] = line
                print_line(line)

    yield show


EXAMPLES: Final = Path(__file__).parents[3] / "examples"
JOB_FILES: Final = ("sweep/pi.xml", "flow/sort.xml", "parallel/heat.xml")
_AT_HOME: Final = "%USERPROFILE%/headnode-examples"


class DemoFolder:
    """A folder in the system's place for temporary files.  The results in it stay; the state does not."""

    def __init__(self, examples: Path = EXAMPLES) -> None:
        if not all((examples / file).is_file() for file in JOB_FILES):
            raise NotFound(
                code="no-examples",
                what=f"the examples are not in {str(examples)!r}",
                fix="run make demo in a clone of the project",
            )
        self.folder = Path(tempfile.mkdtemp(prefix="headnode-demo-"))
        self.state = self.folder / "state"
        for file in JOB_FILES:
            self._copy(examples, Path(file))

    def _copy(self, examples: Path, file: Path) -> None:
        """Copy an example, and point its job file at the copy instead of the home directory."""
        shutil.copytree(
            examples / file.parent, self.folder / file.parent, ignore=shutil.ignore_patterns("__pycache__")
        )
        job_file = self.folder / file
        job_file.write_text(job_file.read_text().replace(_AT_HOME, str(self.folder)))

    def result(self, file: str) -> str:
        """Return what the job of a job file has written as its result, or why there is nothing."""
        path = (self.folder / file).with_name("result.txt")
        try:
            return path.read_text().strip()
        except OSError as error:
            return f"no result: {error.strerror}"

    def forget_state(self) -> None:
        """Take the cluster's state away; nothing may use it any more."""
        shutil.rmtree(self.state, ignore_errors=True)


TITLES = {
    "sweep/pi.xml": "a parametric sweep: twelve pieces of pi, and their sum",
    "flow/sort.xml": "a task flow: make numbers, sort two halves at once, merge",
    "parallel/heat.xml": "a parallel task: two processes compute together",
}
MARK = "HEADNODE_DEMO"


def show() -> int:
    """Start a cluster, run the three examples on it, print their results, stop everything.

    Raises:  HeadnodeError when something of it fails; everything is stopped then, and the log is kept.
    """
    began = time.monotonic()
    shop = DemoFolder()
    mark = (MARK, secrets.token_hex(8))
    typed = TypedCommands(shop.state, mark)
    finished = False
    try:
        finished = _run(shop, typed)
    finally:
        typed.stop(cancel=not finished)
        left = end_leftovers(mark)
    if left or not finished:
        print_line(f"Not all went well; the log of the head is {shop.state / 'head.log'}.")
        print_line(f"Processes that had to be killed: {left or 'none'}.")
        return 1
    shop.forget_state()
    _farewell(shop, time.monotonic() - began)
    return 0


def _run(shop: DemoFolder, typed: TypedCommands) -> bool:
    few = ("--processors", "2") if (os.cpu_count() or 1) < 2 else ()
    typed.hn("up", *few)
    jobs = {}
    for file in JOB_FILES:
        print_line()
        print_line(f"# {TITLES[file]}")
        jobs[typed.submit(shop.folder / file)] = file
    print_line()
    print_line(f"$ {shlex.join(('hn', 'job', 'wait', *map(str, jobs)))}")
    ended = follow(shop.state, list(jobs))
    print_line()
    typed.hn("job", "list", "/state:*")
    print_line()
    for file in jobs.values():
        result = (shop.folder / file).with_name("result.txt")
        print_line(f"$ cat {result}")
        print_line(f"  {shop.result(file)}")
    print_line()
    return all(job["state"] == "Finished" for job in ended)


def _farewell(shop: DemoFolder, seconds: float) -> None:
    print_line()
    print_line(
        f"That took {seconds:.1f} seconds. All output is in {shop.folder}; the job files are the examples."
    )
    print_line("Your own cluster: .venv/bin/hn up")


INTERRUPTED = 130  # what shells say of a program that was interrupted from the keyboard


def main() -> int:
    """Run the demo; return 0 when all three jobs finished."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything is stopped then, too
    try:
        return show()
    except KeyboardInterrupt:
        return INTERRUPTED
    except HeadnodeError as error:
        print(f"make demo: {error}", file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
