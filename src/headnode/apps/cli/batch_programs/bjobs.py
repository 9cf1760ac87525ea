"""``bjobs`` of LSF: as a table, with chosen fields, as JSON, and at length.

Source:  IBM Spectrum LSF 10.1, bjobs(1).
"""

import sys

from headnode.apps.cli.batch_programs.bjobs_fields import (
    BJOBS_FIELDS,
    WHOLE_NAMES,
    date,
    hosts_of,
    why_it_waits,
)
from headnode.apps.cli.batch_programs.lsf_rows import (
    CHOICES,
    NOT_DONE,
    REMEMBERED,
    asked_rows,
    chosen_rows,
    name_of,
    queue_of,
    read_line,
    state_of,
)
from headnode.apps.cli.batch_programs.lsf_text import at_length
from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource
from headnode.apps.cli.batch_programs.values import FIELDS
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords, acted_on, number_of
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OPTIONS = acted_on(f"a! d! p! r! s! l! w! A! X! UF! noheader! json! o {CHOICES}")
_STATES = {"p": ("PEND", "PSUSP"), "r": ("RUN",), "s": ("PSUSP", "USUSP"), "d": ("DONE", "EXIT")}
_HEADINGS = ("JOBID", "USER", "STAT", "QUEUE", "FROM_HOST", "EXEC_HOST", "JOB_NAME", "SUBMIT_TIME")
_WIDTHS = (7, 7, 5, 10, 11, 11, 10, 0)


def run(argv: "Sequence[str]", client: Client) -> int:
    """List jobs; the exit status is 255 if a job that was named is not there."""
    line = read_line("bjobs", argv, OPTIONS)
    source = JobSource(client)
    every, over = line.has("a"), line.has("d")
    ended = REMEMBERED if every or over else 0.0
    rows, missing = asked_rows(
        line, source, lambda: chosen_rows(line, source, living=every or not over, ended=ended)
    )
    rows = [row for row in rows if _is_wanted(row, line)]
    _show(line, rows, missing)
    return NOT_DONE if missing else 0


def _is_wanted(row: BatchRow, line: ProgramWords) -> bool:
    asked = [states for flag, states in _STATES.items() if line.has(flag)]
    state = state_of(row)
    if asked:
        return any(state in states for states in asked)
    return bool(line.words) or line.has("a") or state not in _STATES["d"]


def _show(line: ProgramWords, rows: "Sequence[BatchRow]", missing: "Sequence[str]") -> None:
    if line.has("json"):
        _show_json(line, rows, missing)
        return
    if line.has("A"):
        sys.stdout.write(_arrays(rows))
    elif line.has("o"):
        sys.stdout.write(_chosen(line, rows))
    elif line.has("l") or line.has("UF"):
        sys.stdout.write("".join(at_length(row) for row in rows))
    elif rows:
        sys.stdout.write(_table(line, rows))
    sys.stdout.flush()
    for word in missing:
        sys.stderr.write(f"Job <{word}> is not found\n")
    if not rows and not missing:
        found = "matching " if line.has_any(_CHOSEN) else "" if line.has("a") else "unfinished "
        sys.stderr.write(f"No {found}job found\n")


_CHOSEN = ("J", "q", "m", "P", "g")


def _table(line: ProgramWords, rows: "Sequence[BatchRow]") -> str:
    wide = line.has("w") or line.has("X")
    cells = [] if line.has("noheader") else [list(_HEADINGS)]
    reasons = [""] * len(cells)
    for row in rows:
        cells.append([
            str(row.id), str(row.job["owner"]), state_of(row), queue_of(row), "-", hosts_of(row) or "-",
            name_of(row), date(row.job["submitted"] or row.job["created"]),
        ])  # fmt: skip
        why = why_it_waits(row) if line.has("p") else ""
        reasons.append(f" {why};\n" if why else "")
    return "".join(f"{_line(each, wide=wide)}\n{why}" for each, why in zip(cells, reasons, strict=True))


def _line(cells: "Sequence[str]", *, wide: bool) -> str:
    """Return a line; of what is too long for its column the end is shown, behind a star."""
    return " ".join(_cell(cell, width, wide=wide) for cell, width in zip(cells, _WIDTHS, strict=True))


def _cell(cell: str, width: int, *, wide: bool) -> str:
    if width and len(cell) > width and not wide:
        return "*" + cell[1 - width :]
    return cell.ljust(width)


class BjobsColumn:
    """A column of ``-o``: its field and heading, its width, and whether it stands right."""

    __slots__ = ("heading", "name", "right", "width")

    def __init__(self, name: str, heading: str, width: int, *, right: bool) -> None:
        self.name, self.heading, self.width, self.right = name, heading, width, right

    def cell(self, text: str) -> str:
        """Return a text cut and filled to the width."""
        cut = "*" + text[1 - self.width :] if len(text) > self.width else text
        return cut.rjust(self.width) if self.right else cut.ljust(self.width)

    def value(self, row: BatchRow) -> str:
        """Return what a row shows; a dash where there is nothing."""
        return BJOBS_FIELDS[self.name][1](row) or "-"


def _columns(text: str) -> "tuple[list[BjobsColumn], str]":
    """Return the columns of ``jobid:8 stat:-6 job_name delimiter='^'``, and the delimiter.

    Raises:  ProgramRefusal for a field that is unknown.
    """
    found, delimiter = list[BjobsColumn](), ""
    head, marked, separator = text.partition("delimiter=")
    if marked:
        delimiter = separator.strip().strip("\"'") or " "
    for word in head.split():
        name, _, size = word.partition(":")
        known = WHOLE_NAMES.get(name.lower(), "")
        if not known:
            raise ProgramRefusal(
                f"The field name {name[:40]} is not recognized",
                f"here are: {' '.join(BJOBS_FIELDS)}",
                status=NOT_DONE,
                prefix="bare",
            )
        digits = size.lstrip("-")
        width = number_of(digits, 4) or 0
        usual = BJOBS_FIELDS[known][0]
        found.append(BjobsColumn(known, name.upper(), width or usual, right=size.startswith("-")))
    if not found:
        raise ProgramRefusal("-o names no field", status=NOT_DONE, prefix="bare")
    return found, delimiter


def _chosen(line: ProgramWords, rows: "Sequence[BatchRow]") -> str:
    columns, delimiter = _columns(line.value("o"))
    cells = [[column.value(row) for column in columns] for row in rows]
    if not line.has("noheader") and rows:
        cells.insert(0, [column.heading for column in columns])
    if delimiter:
        return "".join(f"{delimiter.join(each)}\n" for each in cells)
    filled = (
        " ".join(column.cell(cell) for column, cell in zip(columns, each, strict=True)) for each in cells
    )
    return "".join(f"{each.rstrip()}\n" for each in filled)


def _show_json(line: ProgramWords, rows: "Sequence[BatchRow]", missing: "Sequence[str]") -> None:
    import json

    if not line.has("o"):
        raise ProgramRefusal("-json is an option of -o", status=NOT_DONE)
    columns, _ = _columns(line.value("o"))
    records: list[Mapping[str, str]] = [
        {column.name.upper(): BJOBS_FIELDS[column.name][1](row) for column in columns} for row in rows
    ]
    records += [{"JOBID": word, "ERROR": f"Job <{word}> is not found"} for word in missing]
    document = {"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


_COUNTED = ("PEND", "DONE", "RUN", "EXIT", "SSUSP", "USUSP", "PSUSP")


def _arrays(rows: "Sequence[BatchRow]") -> str:
    """Return the arrays, with the number of their elements in each state."""
    text = f"{'JOBID':<8} {'ARRAY_SPEC':<12} {'OWNER':<8} {'NJOBS':>5} "
    text += " ".join(f"{state:>5}" for state in _COUNTED) + "\n"
    elements: dict[int, list[BatchRow]] = {}
    for row in rows:
        if row.number is not None:
            elements.setdefault(row.id, []).append(row)
    for job, found in elements.items():
        states = [state_of(row) for row in found]
        name = f"{FIELDS['name'](found[0])}[{found[0].job['array']}]"
        counts = " ".join(f"{states.count(state):>5}" for state in _COUNTED)
        text += f"{job:<8} {name:<12} {found[0].job['owner']:<8} {len(found):>5} {counts}\n"
    return text if elements else ""
