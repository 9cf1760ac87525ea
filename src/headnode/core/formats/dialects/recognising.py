"""Telling by its content in which language a job file is written.

The text may be damaged: what is wrong with it is then said by the reader of the language that was meant.
"""

import re
from typing import NoReturn

from headnode.core.formats.dialects.table import Language
from headnode.core.model.errors import BadRequest

_LOOKED_AT = 65_536  # bytes or characters; the beginning of a file tells
_KEY = re.compile(r'"([A-Za-z_]{1,40})"[ \t\r\n]*+:')
_LIST = re.compile(r"\[\s*+\{")
_MESSAGE = re.compile(r"<(?:\w{1,40}:)?(?:Envelope|Body|Request|Response)[\s>/]")
_SCRIPTS = (
    ("#SBATCH", "Slurm"),
    ("#PBS", "PBS"),
    ("#$ -", "Grid Engine"),
)


def language_of(data: bytes | str) -> Language:
    """Return the language of a job file.

    Raises:  BadRequest ``not-a-job-file`` for an empty file, and for a program that was meant to be run.
    """
    text = _beginning(data).lstrip("\ufeff \t\r\n")
    if not text:
        _refuse("the file is empty", "write a job into it; hn convert writes one in every job language")
    if text.startswith("#!"):
        _refuse_script(text)
    if text.startswith("\x7fELF"):
        _refuse("this is a program, not a job file", "write: hn job submit ./PROGRAM")
    if text.startswith("<"):
        return _xml(text)
    if _LIST.match(text):
        return Language.GRID  # whose reader says what a list of objects lacks
    return _json(text) if text.startswith("{") else Language.NATIVE


def _beginning(data: bytes | str) -> str:
    start = data[:_LOOKED_AT]
    if isinstance(start, str):
        return start
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return start.decode("utf-16", "replace")
    return start.decode("utf-8", "replace")


def _xml(text: str) -> Language:
    from headnode.core.formats import sss  # with lxml, which who reads no XML does without

    if sss.is_job_object(text) or _MESSAGE.search(text[:1000]):
        return Language.SSS
    return Language.COMPUTE_CLUSTER


def _json(text: str) -> Language:
    """Tell by the keys that only one of the two languages has; what has none of either is native."""
    from headnode.core.formats.grid import keys as grid
    from headnode.core.formats.native_form import keys as native

    grids = {key for table in (grid.JOB_ROWS, grid.ITEM_ROWS, grid.TASK_ROWS) for key in table.by_key}
    natives = {*native.JOB_ROWS, *native.TASK_ROWS}
    found = _KEY.findall(text)
    of_grid = sum(key in grids and key not in natives for key in found)
    of_native = sum(key in natives and key not in grids for key in found)
    return Language.GRID if of_grid > of_native else Language.NATIVE


def _refuse_script(text: str) -> NoReturn:
    meant = next((name for mark, name in _SCRIPTS if f"\n{mark}" in text), "")
    of = f" with options for {meant}" if meant else ""
    way = "write: hn job submit [options] ./SCRIPT"
    _refuse(f"this is a script{of}, not a job file", f"{way}, with its options on the command line")


def _refuse(what: str, fix: str) -> NoReturn:
    raise BadRequest(code="not-a-job-file", what=f"line 1, column 0: {what}", fix=fix)
