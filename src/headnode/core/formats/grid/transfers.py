"""Files of a job that are brought to the nodes before its tasks run, and taken away after.

They are in the extensions of job and tasks, as they were written; what they mean is worked out here.
Source: grid, "input_files, output_files", "stdin, stdout, stderr" and "default_storage_base"; the Pilot
service for the number of attempts and for directories.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from headnode.core.formats.grid.storage import is_url, resolve
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

BASE, ATTEMPTS = "default_storage_base", "max_transfer_attempts"
STREAMS: Mapping[str, str] = {
    "stdin": "standard_input",
    "stdout": "standard_output",
    "stderr": "standard_error",
}
"""The standard streams, and their fields in a task."""

DEFAULT_ATTEMPTS = 5
_LISTS = ("input_files", "output_files")
_SHOWN = 10


class Direction(StrEnum):
    """Which way a file goes."""

    IN = "in"  # to the node, before the task runs
    OUT = "out"  # from the node, after the task has ended


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """One file, or directory with everything in it, of one task.

    `local` is the name at the node, absolute or in the directory of the task, or ``stdin``, ``stdout`` or
    ``stderr`` when `stream` is true.  `attempts` is how often it is tried.
    """

    task: int
    direction: Direction
    local: str
    url: str
    stream: bool = False
    directory: bool = False
    attempts: int = DEFAULT_ATTEMPTS


def transfers_of(spec: JobSpec) -> tuple[Transfer, ...]:
    """Return what must be transferred for the tasks of a job, in their order; nothing for most jobs.

    Paths that no storage base makes URLs of are left out: the description says that they are ignored.
    """
    return tuple(found for number, task in enumerate(spec.tasks, 1) for found in _of_task(spec, number, task))


def refuse_transfers(spec: JobSpec) -> None:
    """Refuse a job that needs files transferred, naming its tasks: for heads that cannot do it.

    Raises:  BadRequest ``needs-transfer``.
    """
    needing: dict[int, Transfer] = {}
    for transfer in transfers_of(spec):
        needing.setdefault(transfer.task, transfer)
    if not needing:
        return
    shown = [_called(spec, number) for number in list(needing)[:_SHOWN]]
    more = f" and {len(needing) - _SHOWN} more" if len(needing) > _SHOWN else ""
    first = next(iter(needing.values()))
    way = f"from {first.url!r}" if first.direction is Direction.IN else f"to {first.url!r}"
    raise BadRequest(
        code="needs-transfer",
        what=f"files of {', '.join(shown)}{more} would have to be transferred, first {first.local!r} {way}",
        fix="Headnode copies no files: put them where all nodes can read them, use those paths in "
        "executable, arguments, stdin, stdout and stderr, and leave input_files and output_files out",
    )


def _called(spec: JobSpec, number: int) -> str:
    name = spec.tasks[number - 1].name
    return f"task {number} ({name!r})" if name else f"task {number}"


def _of_task(spec: JobSpec, number: int, task: TaskSpec) -> Iterator[Transfer]:
    said = task.extensions
    if not any(f"definition.{key}" in said for key in (*_LISTS, *STREAMS)):
        return
    base = said.get(f"definition.{BASE}", spec.extensions.get(BASE, ""))
    attempts = _attempts(said.get(f"definition.{ATTEMPTS}", spec.extensions.get(ATTEMPTS, "")))
    for key in _LISTS:
        direction = Direction.IN if key == "input_files" else Direction.OUT
        for local, reference in _files(said.get(f"definition.{key}", "")).items():
            url = resolve(base, reference)
            if is_url(url):
                directory = local.endswith("/") or url.endswith("/")
                yield Transfer(
                    task=number,
                    direction=direction,
                    local=local,
                    url=url,
                    directory=directory,
                    attempts=attempts,
                )
    for key in STREAMS:
        url = resolve(base, said.get(f"definition.{key}", ""))
        if is_url(url) and f"definition.{key}" in said:
            direction = Direction.IN if key == "stdin" else Direction.OUT
            yield Transfer(
                task=number, direction=direction, local=key, url=url, stream=True, attempts=attempts
            )


def _attempts(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else DEFAULT_ATTEMPTS


def _files(text: str) -> dict[str, str]:
    """Return the files of an extension; what is no object of texts came from elsewhere and names none."""
    try:
        found: Any = msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.MsgspecError:
        return {}
    return dict(found)
