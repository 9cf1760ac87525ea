"""The place in a file of a refusal that came after reading."""

import re

from headnode.core.formats.json_text import Path
from headnode.core.formats.native_form.keys import TASKS
from headnode.core.formats.native_form.texts import read_text
from headnode.core.model.errors import BadRequest

_TASK = re.compile(r"\btask (\d+)\b")
_PLACED = re.compile(r"line \d+, column \d+: ")


def locate(data: bytes | str, refusal: BadRequest) -> BadRequest:
    """Return `refusal` with the line and column of the task it names, or of the file.

    A refusal that has its place already stays as it is.
    Raises:  BadRequest as `read_text` when `data` cannot be read.
    """
    if _PLACED.match(refusal.what):
        return refusal
    named = _TASK.search(refusal.what)
    path: Path = (TASKS, int(named[1]) - 1) if named else ()
    return BadRequest(
        code=refusal.code, what=f"{read_text(data).find(path)}: {refusal.what}", fix=refusal.fix
    )
