"""Refuses run times that mean one thing to HPC Pack and another to Slurm and PBS.

Source: CCS, "Standard job and task options", row *runtime*: ``[[days:]hours:]minutes``; Slurm, ``sbatch
        --time``, and PBS, ``walltime``: ``[[hours:]minutes:]seconds``.
"""

from headnode.apps.cli.options import usage

_HPC_PACK = (86400, 3600, 60)
_SLURM = (3600, 60, 1)
_UNITS = ((86400, "d", "day"), (3600, "h", "hour"), (60, "m", "minute"), (1, "s", "second"))


def refuse_two_readings(text: str) -> None:
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
    for size, letter, name in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append((count, letter, name))
    return parts or [(0, "m", "minute")]


def _in_words(seconds: int) -> str:
    return " ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, _, name in _parts(seconds))


def _with_units(seconds: int) -> str:
    return "".join(f"{count}{letter}" for count, letter, _ in _parts(seconds))
