"""Compare the processor time of two revisions: `make bench-compare REV=...`.

Each workload is a few lines of shell that use `hn` only, so it runs unchanged on any revision.  This checkout
and REV take turns on this machine, and the one that begins changes from round to round.  The best of five
rounds counts, of fifteen if this checkout is slow.  Processor time is that of the shell and of all its
descendants, daemons included.  REV uses the installed libraries of this checkout.  Exit status 1 if one
workload takes 1.15 times the processor time of REV or more, in the best rounds and in the median of all.
"""

import argparse
import compileall
import ctypes
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PR_SET_CHILD_SUBREAPER = 36
TASKS, LOOP = 3_000, 60

WORKLOADS = {
    "simulate EASY, 60,000 jobs": "hn simulate long.swf --policy easy --processors 64",
    "simulate conservative, 10,000 jobs": "hn simulate medium.swf --policy conservative --processors 64",
    "engine replay EASY, 4,000 jobs": "hn simulate short.swf --engine --policy easy --processors 64",
    "check a CCS file of 5,000 tasks": "hn check many.xml",
    "check an SSS file of 5,000 tasks": "hn check many.sss.xml",
    "check a grid file of 5,000 tasks": "hn check many.js",
    "check a native file of 5,000 tasks": "hn check many.json",
    f"sweep of {TASKS:,} tasks": (
        f"hn up --processors 2; hn job submit --parametric 1-{TASKS} --wait /bin/true; hn down"
    ),
    f"{LOOP} jobs from a shell loop": (
        "hn up --processors 2; "
        f"hn job wait $(for i in $(seq {LOOP}); do hn job submit --quiet /bin/true; done); hn down"
    ),
}


def made_log(file: Path, jobs: int) -> None:
    """Write a log in the Standard Workload Format; the load of its 64 processors is about 0.9."""
    chance, at, lines = random.Random(jobs), 0, ["; MaxProcs: 64"]  # noqa: S311 - the same log each time
    for number in range(1, jobs + 1):
        at += int(chance.expovariate(1 / 500))
        size, run = 2 ** chance.randrange(6), int(chance.expovariate(1 / 2_700)) + 1
        limit = max(run, 60 * chance.randrange(1, 240))
        lines.append(f"{number} {at} -1 {run} {size} -1 -1 {size} {limit} -1 1 {number % 20} 1 -1 1 -1 -1 -1")
    file.write_text("\n".join(lines) + "\n")


def made_job(file: Path) -> None:
    """Write a native job file of 5,000 different tasks in layers."""
    tasks = [
        {"name": f"t{number}", "command": f"work --step {number} input-{number}.dat"}
        for number in range(5_000)
    ]
    file.write_text(json.dumps({"name": "many", "tasks": tasks}))


def inputs(folder: Path, environment: dict[str, str]) -> None:
    """Write what the workloads read.  This checkout converts the job file; both revisions read the same."""
    for name, jobs in (("long", 60_000), ("medium", 10_000), ("short", 4_000)):
        made_log(folder / f"{name}.swf", jobs)
    made_job(folder / "many.json")
    for language, name in (("ccs", "many.xml"), ("sss", "many.sss.xml"), ("grid", "many.js")):
        words = ["hn", "convert", "many.json", "--to", language]
        with (folder / name).open("w") as file:
            subprocess.run(
                words, cwd=folder, env=environment, check=True, stdout=file, stderr=subprocess.DEVNULL
            )


def environment_of(source: Path, folder: Path) -> dict[str, str]:
    """Return the environment in which `hn` is that of one checkout, with a state of its own."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    hn = programs / "hn"
    hn.write_text(f'#!/bin/sh\nexec {sys.executable} {source / "scripts" / "hn"} "$@"\n')
    hn.chmod(0o755)
    (folder / "home").mkdir()
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(source / "src"),
        "HOME": str(folder / "home"),
        "HEADNODE_STATE": str(folder / "state"),
    }


def processor_time(script: str, folder: Path, environment: dict[str, str]) -> float:
    """Return the processor seconds of a script and all its descendants.

    Raises `SystemExit` with what the script said, if it fails.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(measured(script, folder, environment, writer))
    os.close(writer)
    with os.fdopen(reader) as answer:
        told = answer.read()
    _, status = os.waitpid(child, 0)
    if status or not told:
        raise SystemExit(f"failed: {script}\n{(folder / 'errors').read_text()}")
    return float(told)


def measured(script: str, folder: Path, environment: dict[str, str], writer: int) -> int:
    """Run the script in this process of its own and write the processor seconds; return an exit status."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        return 1
    with (folder / "errors").open("w") as errors:
        done = subprocess.run(
            ["/bin/sh", "-ec", script],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            check=False,
        )
    while True:  # daemons become children of this process when their parents end
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.write(writer, f"{used.ru_utime + used.ru_stime}".encode())
    return done.returncode


@dataclass
class Rounds:
    """The processor seconds of one workload: of the revision, and of this checkout, round by round."""

    before: list[float] = field(default_factory=list)
    here: list[float] = field(default_factory=list)

    def of_bests(self) -> float:
        """Return the best time of this checkout as a multiple of that of the revision."""
        return min(self.here) / min(self.before)

    def slower_by(self) -> float:
        """Return the multiple that both the best rounds and the median of all rounds reach.

        One side alone may meet the fastest moment of a shared machine, and its best is then of no use.  The
        two runs of a round are neighbours.
        """
        pairs = (here / before for before, here in zip(self.before, self.here, strict=True))
        return min(self.of_bests(), statistics.median(pairs))


def compare(revision: str, rounds: int, most: float, chosen: list[str]) -> dict[str, Rounds]:
    """Return the processor seconds of each workload; print a line for each as it is measured."""
    measured_of: dict[str, Rounds] = {}
    with tempfile.TemporaryDirectory(prefix="bench-compare-") as made:
        work = Path(made)
        other = work / "revision"
        git = ["git", "-C", str(ROOT)]
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(other), revision], check=True)
        try:
            sides = (environment_of(other, work / "before"), environment_of(ROOT, work / "after"))
            for source in (other, ROOT):
                compileall.compile_dir(source / "src", quiet=2, workers=0)
            inputs(work, sides[1])
            for name in chosen:
                of = measured_of[name] = Rounds()
                for turn in range(3 * rounds):
                    if turn >= rounds and of.slower_by() < most:  # a busy machine gets two more tries
                        break
                    pair = [(of.before, sides[0]), (of.here, sides[1])]
                    for taken, side in reversed(pair) if turn % 2 else pair:
                        taken.append(processor_time(WORKLOADS[name], work, side))
                print(
                    f"{name:38}{min(of.before):9.3f} s{min(of.here):9.3f} s"
                    f"{of.of_bests():8.2f}{of.slower_by():8.2f}",
                    flush=True,
                )
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(other)], check=False)
    return measured_of


def main() -> int:
    """Print a line for each workload; return 1 if one of them is too slow."""
    asked = argparse.ArgumentParser(description="Compare the processor time of two revisions.")
    asked.add_argument("revision", help="a commit, branch or tag to compare this checkout with")
    asked.add_argument("--rounds", type=int, default=5, help="runs of each; the best counts (default 5)")
    asked.add_argument(
        "--most", type=float, default=1.15, help="highest ratio that is accepted (default 1.15)"
    )
    asked.add_argument("--only", default="", help="workloads with this text in their names")
    options = asked.parse_args()
    chosen = [name for name in WORKLOADS if options.only in name]
    known = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{options.revision}^{{commit}}"],
        capture_output=True,
        check=False,
    )
    if known.returncode:
        print(f"revision {options.revision} is not in this clone: nothing was compared", file=sys.stderr)
        return 0
    title = f"processor time, best of {options.rounds}"
    print(f"{title:38}{options.revision[:9]:>11}{'here':>11}{'ratio':>8}{'counts':>8}")
    slow = [
        name
        for name, rounds in compare(options.revision, options.rounds, options.most, chosen).items()
        if rounds.slower_by() >= options.most
    ]
    if slow:
        print(
            f"slower than {options.most:.2f} times {options.revision[:9]}: {'; '.join(slow)}", file=sys.stderr
        )
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
