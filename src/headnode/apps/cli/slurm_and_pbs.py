"""Refuses what Slurm and PBS read otherwise: run times and dates.

Source: CCS, ``Standard job and task options``, row *runtime*: ``[[days:]hours:]minutes``; Slurm, ``sbatch
        --time``, and PBS, ``walltime``: ``[[hours:]minutes:]seconds``.
"""

from headnode.apps.cli.options import usage

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
        f"date {text!r} has two readings: month/day or day/month", f"write {readings[0]} or {readings[1]}"
    )


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
