"""What qstat prints of jobs of PBS: JSON with its defects, XML, or text.

Each form becomes the same cells, named as the text names them: ``resources_used.cput``.

Source:  OpenPBS, qstat(1B), job.h, issues 2541, 2672, 2677 and pull request 2049; Torque 6, qstat(1).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headnode.core.batch.dialect import (
    MARKER,
    ForeignEnding,
    ForeignJob,
    ForeignState,
    Rows,
    cpu_seconds,
    seconds_since_1970,
    size_in_kb,
)
from headnode.core.model.outcome import ResourceUsage

MARKER_VARIABLE: Final = "HEADNODE_MARKER"
Cells = Mapping[str, str]
_IN_VARIABLES = re.compile(rf"(?:^|,){MARKER_VARIABLE}=({MARKER.pattern})(?=,|$)")
_STATES: Final = {
    **dict.fromkeys("QHWT", ForeignState.WAITING),
    **dict.fromkeys("RESUB", ForeignState.RUNNING),
    **dict.fromkeys("FCX", ForeignState.ENDED),
}
_BY_SIGNAL, _BY_SIGNAL_OF_PBS, _SIGNALS = 128, 256, 64
_MAX_REASON: Final = 400  # characters
_STATUS = re.compile(r"-?\d{1,9}")


def jobs_listed(text: str) -> Rows | None:
    """Return the jobs with a marker; None if the answer is cut short.

    A marker that is there twice is a job of which nothing else is known: in text a user can forge rows.
    """
    cells = _cells_of(text.lstrip("\n"))
    if cells is None:
        return None
    jobs: dict[tuple[str, str], ForeignJob] = {}
    for number, each in cells:
        job = _job(number, each)
        if job is None:
            continue
        if (job.marker, job.owner) in jobs:
            job = ForeignJob(job.id, job.marker, ForeignState.UNKNOWN, "listed twice", owner=job.owner)
        jobs[job.marker, job.owner] = job
    return jobs


def _cells_of(text: str) -> list[tuple[str, Cells]] | None:
    if text.startswith("{"):
        return _of_json(text) if text.rstrip().endswith("}") else None
    if text.startswith("<"):
        return list(_of_xml(text)) if text.rstrip().endswith("</Data>") else None
    if text and not (text.startswith("Job Id:") and text.endswith("\n")):
        return None
    return list(_of_text(text))


# The three forms.


def _of_json(text: str) -> list[tuple[str, Cells]] | None:
    """Read JSON; with values that are not, line by line: OpenPBS writes one on each."""
    repaired = _ESCAPE.sub(lambda match: match[0] if match[1] else r"\\", text)
    try:
        document: dict[str, Any] = msgspec.json.decode(repaired)
    except (msgspec.DecodeError, RecursionError):
        return _of_damaged_json(text)
    jobs = document.get("Jobs", {})
    if not isinstance(jobs, dict):
        return []
    return [(number, dict(_flat(cells))) for number, cells in jobs.items() if isinstance(cells, dict)]


_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')


def _flat(cells: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in cells.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", str(each)) for inner, each in value.items())
        else:
            yield name, str(value)


_OPENED = re.compile(r'\s*"([^"]+)"\s*:\s*\{\s*')
_IN_JOB: Final = 3  # objects that are open: the document, its jobs, one of them
_VALUE = re.compile(r'\s*"([^"]+)"\s*:\s*"?(.*)')


def _of_damaged_json(text: str) -> list[tuple[str, Cells]] | None:
    opened, found_jobs = [""], list[tuple[str, Cells]]()
    cells: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        if match := _OPENED.fullmatch(line):
            opened.append(match[1])
            if len(opened) == _IN_JOB:
                cells = {}
        elif line.strip() in ("}", "},"):
            if len(opened) == _IN_JOB and opened[1] == "Jobs":
                found_jobs.append((opened[2], cells))
            del opened[-1:]
        elif len(opened) >= _IN_JOB and (match := _VALUE.fullmatch(line)):
            value = match[2].rstrip().removesuffix(",").removesuffix('"')
            cells[".".join((*opened[_IN_JOB:], match[1]))] = value
    return None if opened else found_jobs


_JOB = re.compile(r"<Job>(.*?)</Job>", re.DOTALL)
_GROUP = re.compile(r"<(resources_used|Resource_List)>(.*?)</\1>", re.DOTALL)
_CELL = re.compile(r"<(\w+)>([^<]*)</\1>")


def _of_xml(text: str) -> Iterator[tuple[str, Cells]]:
    for match in _JOB.finditer(text):
        cells = dict(_CELL.findall(_GROUP.sub("", match[1])))
        for group, inner in _GROUP.findall(match[1]):
            cells |= {f"{group}.{name}": value for name, value in _CELL.findall(inner)}
        yield cells.get("Job_Id", ""), {name: _plain(value) for name, value in cells.items()}


_ENTITIES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


def _plain(value: str) -> str:
    """Return the text of an XML value.

    >>> _plain("a &lt;b&gt; &amp;lt;")
    'a <b> &lt;'
    """
    for entity, letter in _ENTITIES:
        value = value.replace(entity, letter)
    return value


_HEAD = re.compile(r"^Job Id:([ \t])([^\s]+)$", re.MULTILINE)
_LINES: Final = {
    " ": re.compile(r"^ {4}([\w.]+) = (.*)$", re.MULTILINE),
    "\t": re.compile(r"^\t([\w.]+) = (.*)$", re.MULTILINE),  # as the programs of Slurm write it
}


def _of_text(text: str) -> Iterator[tuple[str, Cells]]:
    """Read blocks of lines; PBS folds long ones before a tab."""
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):
        block = text[head.end() : end]
        if head[1] == " ":
            block = block.replace("\n\t", "")
        yield head[2], dict(_LINES[head[1]].findall(block))


# What the cells mean.


def _job(number: str, cells: Cells) -> ForeignJob | None:
    marker = cells.get("Job_Name", "")
    if not MARKER.fullmatch(marker):
        variables = _IN_VARIABLES.search(cells.get("Variable_List", ""))
        marker = variables[1] if variables else cells.get(f"Variable_List.{MARKER_VARIABLE}", "")
    owner = cells.get("Job_Owner", "").partition("@")[0]
    if not MARKER.fullmatch(marker) or not number or not owner:
        return None
    letter = cells.get("job_state", "")
    state = _STATES.get(letter, ForeignState.UNKNOWN)
    row = ForeignJob(
        number,
        marker,
        state,
        letter,
        _reason(letter, cells),
        is_held=_is_held(cells),
        limit=round(cpu_seconds(cells.get("Resource_List.walltime", ""))) or None,
        owner=owner,
        started=seconds_since_1970(cells.get("start_time", "")),
    )
    return _ended(row, cells) if state is ForeignState.ENDED else row


def _reason(letter: str, cells: Cells) -> str:
    comment = "".join(each if each.isprintable() else " " for each in cells.get("comment", ""))[:_MAX_REASON]
    if letter == "H":
        return "it is held there" + (f": {comment}" if comment else "")
    return comment


def _is_held(cells: Cells) -> bool:
    """Whether its user holds it; the programs of Slurm show only that its priority is 0."""
    if "Hold_Types" in cells:
        return "u" in cells["Hold_Types"]
    return cells.get("job_state") == "Q" and cells.get("Priority") == "0"


_ENDINGS: Final = {
    # OpenPBS: to run again, mother superior; processor time, time
    **{f"Exit_status {code}": ForeignEnding.LOST for code in (-3, -4, -5, -6, -11, -20)},
    **{f"Exit_status {code}": ForeignEnding.LATE for code in (-28, -29)},
    # Torque
    **{f"exit_status {code}": ForeignEnding.LOST for code in (-3, -4, -5, -6)},
    **{f"exit_status {code}": ForeignEnding.LATE for code in (-11, -12)},
}


def _ended(row: ForeignJob, cells: Cells) -> ForeignJob:
    """Return a job that is over, with what its exit status means.

    OpenPBS and Torque use the same negative numbers for other things, and spell the name of the status
    differently: `_ENDINGS` has that name, as it was spelt.
    """
    name = next((each for each in ("Exit_status", "exit_status") if each in cells), "")
    usage = ResourceUsage(
        cpu_seconds(cells.get("resources_used.cput", "")),
        0.0,
        size_in_kb(cells.get("resources_used.mem", "").upper()),
    )
    row = row._replace(usage=usage)
    if not name or not _STATUS.fullmatch(cells[name]):
        return row._replace(word=f"{row.word} without a status")
    status = int(cells[name])
    if status < 0 or status >= _BY_SIGNAL_OF_PBS:  # the script itself was killed, as by qdel
        word = f"{name} {status}"
        return row._replace(word=word, ending=_ENDINGS.get(word, ForeignEnding.STOPPED))
    row = row._replace(ending=ForeignEnding.BY_ITSELF)
    if _BY_SIGNAL < status <= _BY_SIGNAL + _SIGNALS:
        return row._replace(signal=status - _BY_SIGNAL)
    return row._replace(exit_code=status)
