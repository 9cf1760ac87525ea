"""The place in a file of a refusal that came after reading."""

import re

from headnode.core.formats.json_text import Path
from headnode.core.formats.native_form.keys import JOBS_TABLE, TASKS
from headnode.core.formats.native_form.texts import read_text
from headnode.core.model.errors import BadRequest

_TASK = re.compile(r"\btask (\d+)\b")
_PLACED = re.compile(r"line \d+, column \d+: ")


def locate(data: bytes | str, refusal: BadRequest, job: int | None = None) -> BadRequest:
    """Return `refusal` with the line and column of the task it names, or of the job, or of the file.

    `job` is the number, from 0, of the job that is refused where there are several.
    A refusal that has its place already stays as it is.
    Raises:  BadRequest as `read_text` when `data` cannot be read.
    """
    if _PLACED.match(refusal.what):
        return refusal
    named = _TASK.search(refusal.what)
    path: Path = () if job is None else (JOBS_TABLE, job)
    path += (TASKS, int(named[1]) - 1) if named else ()
    return BadRequest(
        code=refusal.code, what=f"{read_text(data).find(path)}: {refusal.what}", fix=refusal.fix
    )
