"""Refuses scripts with options for Slurm, PBS or Grid Engine in them, and says how to submit them here.

Source: Slurm, ``sbatch``; PBS Professional and Grid Engine, ``qsub``: directives in comments.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from headnode.apps.cli.described import command_line
from headnode.apps.cli.options import usage
from headnode.apps.cli.typed_times import slurm_time

_MARKS = (("#SBATCH", "Slurm"), ("#PBS", "PBS"), ("#$", "Grid Engine"))
_OURS = {
    "job-name": "--jobname", "J": "--jobname", "ntasks": "-n", "n": "-n", "time": "--runtime",
    "t": "--runtime",
    "output": "--stdout", "o": "--stdout", "error": "--stderr", "e": "--stderr", "chdir": "--workdir",
    "D": "--workdir", "nodes": "-N", "N": "-N", "account": "--projectname", "A": "--projectname",
    "array": "--parametric", "a": "--parametric", "nodelist": "--requestednodes", "w": "--requestednodes",
    "mail-user": "--emailaddress",
}  # fmt: skip
_OURS_OF_QSUB = {
    "N": "--jobname",
    "o": "--stdout",
    "e": "--stderr",
    "A": "--projectname",
    "P": "--projectname",
}
_WALL_TIME = re.compile(r"(?:walltime|h_rt)=([0-9:]+)\Z")
_DIRECTIVE = re.compile(r"--?([A-Za-z][A-Za-z-]*)(?:=|\s+|$)(.*)")


def refuse_batch_script(path: str, start: bytes, words: Sequence[str]) -> None:
    """Refuse `words` if their program, the file at `path`, is a batch script of another scheduler.

    `start` is how the file begins.
    Raises:  BadRequest ``usage``.
    """
    lines = start.decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, start=1):
        for mark, scheduler in _MARKS:
            if line.startswith((f"{mark} ", f"{mark}\t")) and line[len(mark) :].strip().startswith("-"):
                raise usage(
                    f"{path!r} is a batch script for {scheduler}: hn does not read {line.strip()!r} "
                    f"(line {number}) and the like",
                    _way_out(lines, mark, words),
                )


def _way_out(lines: Sequence[str], mark: str, words: Sequence[str]) -> str:
    given: dict[str, str] = {}
    left: list[str] = []
    for text in _directives(lines, mark):
        found = _DIRECTIVE.match(text)
        name, value = _option(mark, found[1], found[2].strip()) if found else ("", "")
        if name and value:
            given.setdefault(name, value)
        else:
            left.append(text)
    if "-n" in given and "-N" in given:
        left.append(f"-N {given.pop('-N')}")  # a job counts one unit
    options = " ".join(f"{name} {shlex.quote(value)}" for name, value in given.items())
    told = " ".join(["hn job submit", *([options] if options else []), "sh", command_line(words)])
    rest = f"; without {', '.join(left)}" if left else ""
    return f"write its options on the command line: {told}{rest}"


def _directives(lines: Sequence[str], mark: str) -> Iterator[str]:
    for line in lines:
        if line.startswith((f"{mark} ", f"{mark}\t")):
            yield line[len(mark) :].partition(" #")[0].strip()


def _option(mark: str, name: str, value: str) -> tuple[str, str]:
    """Return our option and its value; empty ones for what has no equal here."""
    if mark == "#SBATCH":
        if name in ("exclusive", "requeue"):
            return "", ""
        ours = _OURS.get(name, "")
        return ours, slurm_time(value) if ours == "--runtime" else value.strip("\"'")
    if name == "l" and (limit := _WALL_TIME.match(value)):
        return "--runtime", f"{limit[1]}s" if limit[1].isdigit() else slurm_time(limit[1])
    return _OURS_OF_QSUB.get(name, ""), value
