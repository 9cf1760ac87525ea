"""The place in a description of a refusal that came after reading."""

import re

from headnode.core.formats.grid.page import Page, read_page
from headnode.core.formats.json_text import Path
from headnode.core.model.errors import BadRequest

_TASK = re.compile(r"\btask (\d+)\b")
_PLACED = re.compile(r"(?:file '.*', )?line \d+, column \d+: ")


def locate(data: bytes | str, refusal: BadRequest) -> BadRequest:
    """Return `refusal` with the line and column of the task it names, or of the description.

    A refusal that has its place already stays as it is.
    Raises:  BadRequest as `read_json` when `data` cannot be read.
    """
    if _PLACED.match(refusal.what):
        return refusal
    page = read_page(data)
    named = _TASK.search(refusal.what)
    path = _task_path(page, int(named[1]) - 1) if named else ()
    return BadRequest(code=refusal.code, what=f"{page.place(path)}: {refusal.what}", fix=refusal.fix)


def _task_path(page: Page, number: int) -> Path:
    around: tuple[str, ...] = () if "tasks" in page.value or "executable" in page.value else ("definition",)
    return (*around, "tasks", number)
