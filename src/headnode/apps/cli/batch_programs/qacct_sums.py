"""What ended jobs used, summed by host, queue, owner and project: ``qacct`` without ``-j``.

What is not measured here is 0.
Source:  Grid Engine 8.1, qacct(1), and what Grid Engine 8.1.9 prints.
"""

import sys

from headnode.apps.cli.batch_programs.gridengine_rows import QUEUE
from headnode.apps.cli.batch_programs.values import FIELDS, elapsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headnode.apps.cli.batch_programs.rows import BatchRow
    from headnode.apps.cli.batch_programs.words import ProgramWords

_HEADINGS = f"{'WALLCLOCK':>13}{'UTIME':>14}{'STIME':>14}{'CPU':>14}{'MEMORY':>19}{'IO':>19}{'IOW':>19}"
_TOTAL = "Total System Usage"
KEYS: "Mapping[str, tuple[str, Callable[[BatchRow], str]]]" = {
    "h": ("HOST", lambda row: FIELDS["batchhost"](row) or "UNKNOWN"),
    "q": ("CLUSTER QUEUE", lambda _row: QUEUE),
    "o": ("OWNER", lambda row: str(row.job["owner"])),
    "P": ("PROJECT", lambda row: row.job["project"] or "NONE"),
}
"""By what options sums are made: the heading, and the value of a row; in the order of the columns."""


def print_sums(args: "ProgramWords", rows: "Iterable[BatchRow]") -> None:
    """Print a line for each host, queue, owner and project, as far as these are asked for."""
    keys = [key for key in KEYS if args.has(key) or (key == "h" and args.text("q"))]
    sums: dict[tuple[str, ...], tuple[float, float, float]] = {}
    for row in rows:
        found = tuple(KEYS[key][1](row) for key in keys)
        if all(args.value(key) in ("", value) for key, value in zip(keys, found, strict=True)):
            before = sums.get(found, (0.0, 0.0, 0.0))
            sums[found] = tuple(a + b for a, b in zip(before, _used(row), strict=True))  # type: ignore[assignment]
    widths = [
        max(map(len, (KEYS[key][0], args.value(key), *(found[column] for found in sums))))
        for column, key in enumerate(keys)
    ]
    heading = _line([KEYS[key][0] for key in keys], widths, _HEADINGS)
    lines = [heading, "=" * len(heading)]
    lines += [_line(found, widths, _amounts(*sums[found])) for found in sorted(sums)]
    sys.stdout.write("".join(f"{line}\n" for line in ([] if keys else [_TOTAL]) + lines))


def _line(values: "Iterable[str]", widths: "Iterable[int]", rest: str) -> str:
    return "".join(f"{value:<{width}} " for value, width in zip(values, widths, strict=True)) + rest


def _amounts(wall: float, user: float, system: float) -> str:
    times = f"{wall:13.0f}{user:14.3f}{system:14.3f}{user + system:14.3f}"
    return times + f"{0:19.3f}" * 3


def _used(row: "BatchRow") -> tuple[float, float, float]:
    """Return for how long a job or an element ran, and the processor time of its tasks."""
    tasks = [row.task] if row.task is not None else row.source.tasks(row.id)
    user, system = (
        sum(float(task.get(f"{kind}_time") or 0) for task in tasks) for kind in ("user", "system")
    )
    return elapsed(row), user, system
