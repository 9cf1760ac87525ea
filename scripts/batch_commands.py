"""The programs of `hn compat install` beside real Slurm and real Grid Engine: the same commands on both.

An answer is *the same* if the exit status is, and the text too, after numbers, dates and names of nodes
are replaced.  Prints the tables of docs/slurm-commands.md; `--write` puts them there, `-v` says what differs.
A system that cannot be installed here is named and left out.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from heads import head, machine
from testbed.debian_packages import CannotInstall
from testbed.gridengine_peer import GridEnginePeer
from testbed.real_peers import started
from testbed.slurm_peer import SlurmPeer

HN = str(Path(sys.executable).with_name("hn"))
CHECKS = Path(__file__).with_suffix(".txt")
PAGE = Path(__file__).parents[1] / "docs/slurm-commands.md"
TIMEOUT = 180.0  # seconds for one command
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \S+ \d{4}"
)
_CLOCK = re.compile(r"\b(?:\d+-)?\d+:\d\d(?::\d\d)?\b")


class Check(NamedTuple):
    """A command, the flag that it shows, whether its text counts, and why the answer may differ."""

    flag: str
    command: str
    text: bool = True
    why: str = ""


def checks_of(title: str) -> list[Check]:
    """Return the checks of a table of the file beside this one."""
    _, _, rest = CHECKS.read_text().partition(f"== {title}\n")
    found = []
    for line in rest.partition("\n== ")[0].splitlines():
        if line and not line.startswith("#"):
            flag, command, *why = line.split(" :: ")
            found.append(Check(flag.lstrip("!"), command, not flag.startswith("!"), *why))
    return found


SLURM_JOBS = {
    "run": "sbatch --parsable -J runner -n 2 -N 1 -t 10 --comment note --wrap 'sleep 300'",
    "array": "sbatch --parsable -J swept --array=1-6%2 --wrap 'sleep 300'",
    "held": "sbatch --parsable -J held -H --wrap true",
    "late": "sbatch --parsable -J late -b now+1hour --wrap true",
    "after": "sbatch --parsable -J after -d afterok:{run} --wrap true",
    "wide": "sbatch --parsable -J wide -N 2 --ntasks-per-node=2 -t 5 --wrap true",
}
SLURM_ENDED = {
    "good": "sbatch --parsable -J good --wrap true",
    "bad": "sbatch --parsable -J bad --wrap 'exit 3'",
    "killed": "sbatch --parsable -J killed --wrap 'kill -9 $$'",
    "many": "sbatch --parsable -J many --array=1-3 --wrap 'exit $((SLURM_ARRAY_TASK_ID-1))'",
}


class Side:
    """One of the two: how its commands run, and what stands for its names."""

    def __init__(self, folder: Path, environment: dict[str, str], names: dict[str, str]) -> None:
        self.folder, self.environment, self.names = folder, environment, names
        (folder / "sub").mkdir(parents=True)
        (folder / "ok.sh").write_text("#!/bin/sh\ntrue\n")
        (folder / "plain.sh").write_text("true\n")
        (folder / "windows.sh").write_bytes(b"#!/bin/sh\r\ntrue\r\n")

    def run(self, command: str) -> tuple[int, str]:
        """Return the exit status of a command, and what it prints on standard output."""
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "HEADNODE_"))
        }
        done = subprocess.run(
            ["bash", "-c", command.format_map(_Kept(self.names))],
            cwd=self.folder,
            env=own | self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        return done.returncode, done.stdout

    def submit(self, jobs: dict[str, str]) -> None:
        """Submit jobs, and remember their numbers by their names."""
        for name, command in jobs.items():
            status, said = self.run(command)
            if status:
                raise SystemExit(f"{command}: {status} {said}")
            self.names[name] = said.strip()

    def shape(self, text: str) -> list[str]:
        """Return lines in any order, without what differs from one run to another."""
        for name in ("node", "other"):
            text = text.replace(self.names[name], "NODE")
        text = re.sub(r"NODE\[1-2\]|" + re.escape(self.names["nodes"]), "NODES", text)
        text = re.sub(rf"\b{re.escape(self.names['partition'])}\b", "PART", text)
        text = _CLOCK.sub("T", _DATE.sub("D", text.replace(str(self.folder), "FOLDER")))
        text = re.sub(r"365-T|UNLIMITED", "T", re.sub(r"\d+", "0", text))
        return sorted(" ".join(line.split()) for line in text.splitlines())


class _Kept(dict[str, str]):
    """Leaves braces of the shell as they are."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


@contextmanager
def ours(folder: Path, *install: str) -> Iterator[Side]:
    """Start a head with two nodes of two processors, and make the programs."""
    with head(nodes=2, processors=2) as started:
        first, second = (str(node["name"]) for node in started.client.ask("nodes")["nodes"])
        bin_folder = folder / "bin"
        subprocess.run([HN, "compat", "install", str(bin_folder), *install], check=True, capture_output=True)
        path = f"{bin_folder}:{Path(HN).parent}:/usr/bin:/bin"
        names = {"node": first, "other": second, "nodes": f"{first[:-1]}[1-2]", "partition": "all"}
        yield Side(folder / "work", {"HEADNODE_STATE": str(started.state), "PATH": path}, names)


def compared(checks: Sequence[Check], real: Side, shim: Side, send: Callable[[str], None]) -> tuple[int, int]:
    """Run checks on both; print a row for each; return how many there are and how many are the same."""
    same = 0
    for check in checks:
        (expected, said), (status, ours_said) = real.run(check.command), shim.run(check.command)
        alike = real.shape(said) == shim.shape(ours_said)
        if status == expected and (alike or not check.text):
            same, told = same + 1, "yes"
        else:
            told = "exit status" if status == expected else "no"
            if "-v" in sys.argv:
                sys.stderr.write(
                    f"{check.command}\n  real {expected}: {said}\n  ours {status}: {ours_said}\n"
                )
        command, why = (
            check.command.replace("|", "\\|"),
            f": {check.why}" if check.why and told != "yes" else "",
        )
        send(f"| {check.flag} | `{command}` | {expected} | {status} | {told}{why} |")
    return len(checks), same


HEADING = "| | command | exit status of {} | here | same answer |\n|---|---|---|---|---|"


def slurm_tables(folder: Path, send: Callable[[str], None]) -> tuple[int, int]:
    """Compare with Slurm."""
    counts = []
    slurm = SlurmPeer(folder / "slurm", processors=2, accounting=True)
    with started(slurm), ours(folder / "ours") as shim:
        names = {"node": "n1", "other": "n2", "nodes": "n[1-2]", "partition": "main"}
        real = Side(folder / "work", slurm.environment, names)
        for side in (real, shim):
            side.submit(SLURM_ENDED)
            side.submit(SLURM_JOBS)
        time.sleep(6.0)  # what can run runs, and Slurm has written it down
        for title in (
            "squeue, sinfo, scontrol, scancel",
            "sbatch",
            "srun",
            "salloc",
            "sacct",
            "sacctmgr and sshare",
        ):
            if title == "sacct":
                time.sleep(4.0)
            send(f"\n### {title}\n\n{HEADING.format('Slurm')}")
            counts.append(compared(checks_of(title), real, shim, send))
    return sum(each[0] for each in counts), sum(each[1] for each in counts)


def grid_engine_table(folder: Path, send: Callable[[str], None]) -> tuple[int, int]:
    """Compare with Grid Engine."""
    engine, shims = GridEnginePeer(folder / "sge", slots=4), ("--only", "qsub", "--qsub", "gridengine")
    with started(engine), ours(folder / "ours", *shims) as shim:
        names = {"node": "localhost", "other": "localhost", "nodes": "localhost", "partition": "main.q"}
        real = Side(folder / "work", engine.environment, names)
        send(f"\n### qsub, qstat and qdel of Grid Engine\n\n{HEADING.format('Grid Engine')}")
        return compared(checks_of("Grid Engine"), real, shim, send)


def main() -> None:
    """Print the tables of the systems that are here."""
    print(machine(), file=sys.stderr)
    lines: list[str] = []
    sums = []
    for title, table in (("Slurm 22.05.8", slurm_tables), ("Grid Engine 8.1.9", grid_engine_table)):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            try:
                count, same = table(folder, lines.append)
            except CannotInstall as missing:
                print(f"{title}: not on this machine: {missing}")
                continue
        sums.append(f"{title}: {same} of {count} commands have the same answer.")
    text = "\n".join([*sums, *lines]) + "\n"
    print(text)
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition("<!-- measured -->\n")
        _, _, after = rest.partition("<!-- end -->\n")
        PAGE.write_text(f"{before}<!-- measured -->\n{text}<!-- end -->\n{after}")


if __name__ == "__main__":
    main()
