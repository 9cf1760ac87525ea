"""Refuses what Slurm, PBS and Grid Engine read otherwise: run times, dates, and options in batch scripts.

Source: CCS, ``Standard job and task options``, row *runtime*: ``[[days:]hours:]minutes``; Slurm, ``sbatch
        --time``, and PBS, ``walltime``: ``[[hours:]minutes:]seconds``; ``sbatch`` and ``qsub``: directives
        in comments.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from headnode.apps.cli.options import usage
from headnode.apps.client.submitter import command_line

_HPC_PACK = (86400, 3600, 60)
_SLURM = (3600, 60, 1)
_TIME_UNITS = ((86400, "d", "day"), (3600, "h", "hour"), (60, "m", "minute"), (1, "s", "second"))


def refuse_ambiguous_time(text: str) -> None:
    """Refuse a run time such as ``1:30``, with both readings and an unambiguous spelling of each.

    Raises:  BadRequest ``usage``.
    """
    fields = text.strip().split(":")
    if len(fields) not in (2, 3) or not all(field.isascii() and field.isdigit() for field in fields):
        return  # the head reads it, or refuses it
    counts = [int(field[:9]) for field in fields]
    slurm, hpc_pack = (
        sum(count * unit for count, unit in zip(counts, units[-len(counts) :], strict=True))
        for units in (_SLURM, _HPC_PACK)
    )
    if slurm == hpc_pack:
        return  # no time at all
    names = ("hours:minutes:seconds", "days:hours:minutes")
    if len(fields) == 2:
        names = ("minutes:seconds", "hours:minutes")
    raise usage(
        f"run time {text!r} has two readings: {_in_words(slurm)} ({names[0]}, as in Slurm and PBS), or "
        f"{_in_words(hpc_pack)} ({names[1]}, as in HPC Pack)",
        f"write {_with_units(slurm)} or {_with_units(hpc_pack)}",
    )


def refuse_ambiguous_date(text: str) -> None:
    """Refuse a date such as ``1/2/2030``, which is January in one country and February in another.

    Raises:  BadRequest ``usage``.
    """
    day, _, time = text.strip().partition(" ")
    fields = day.split("/")
    if len(fields) != 3 or len(fields[2]) != 4 or not all(map(str.isdigit, fields)):
        return
    first, second = int(fields[0]), int(fields[1])
    if first == second or not (1 <= first <= 12 and 1 <= second <= 12):
        return  # there is one reading, or none
    clock = f"T{time}" if time else ""
    readings = [
        f"{fields[2]}-{month:02}-{day:02}{clock}" for month, day in ((first, second), (second, first))
    ]
    raise usage(
        f"date {text!r} has two readings: month/day or day/month",
        f"write {readings[0]} or {readings[1]}",
    )


def slurm_time(text: str) -> str:
    """Return a time of Slurm or PBS in our spelling; "" for what is none.

    >>> slurm_time("01:30:00"), slurm_time("90"), slurm_time("1-12")
    ('1h30m', '90', '1-12')
    """
    fields = text.strip().split(":")
    if "-" in text or len(fields) == 1:
        return text.strip()
    if len(fields) > len(_SLURM) or not all(field.isascii() and field.isdigit() for field in fields):
        return ""
    units = _SLURM[-len(fields) :]
    return _with_units(sum(int(count) * unit for count, unit in zip(fields, units, strict=True)))


def _parts(seconds: int) -> "list[tuple[int, str, str]]":
    parts = []
    for size, letter, name in _TIME_UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append((count, letter, name))
    return parts or [(0, "m", "minute")]


def _in_words(seconds: int) -> str:
    return " ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, _, name in _parts(seconds))


def _with_units(seconds: int) -> str:
    return "".join(f"{count}{letter}" for count, letter, _ in _parts(seconds))


_MARKS = (("#SBATCH", "Slurm"), ("#PBS", "PBS"), ("#$", "Grid Engine"))
_OPTIONS = {
    "job-name": "--jobname", "J": "--jobname", "ntasks": "-n", "n": "-n", "time": "--runtime",
    "t": "--runtime",
    "output": "--stdout", "o": "--stdout", "error": "--stderr", "e": "--stderr", "chdir": "--workdir",
    "D": "--workdir", "nodes": "-N", "N": "-N", "account": "--projectname", "A": "--projectname",
    "array": "--parametric", "a": "--parametric", "nodelist": "--requestednodes", "w": "--requestednodes",
    "mail-user": "--emailaddress",
}  # fmt: skip
_QSUB_OPTIONS = {
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
        ours = _OPTIONS.get(name, "")
        return ours, slurm_time(value) if ours == "--runtime" else value.strip("\"'")
    if name == "l" and (limit := _WALL_TIME.match(value)):
        return "--runtime", f"{limit[1]}s" if limit[1].isdigit() else slurm_time(limit[1])
    return _QSUB_OPTIONS.get(name, ""), value
