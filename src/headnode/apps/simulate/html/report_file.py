"""Writes the report; tells before a long simulation what would stop it after."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from headnode.apps.simulate.log_files import atomic_file
from headnode.apps.simulate.simulation import Simulation
from headnode.core.model.errors import BadRequest, Unavailable

_LIBRARY = "plotly>=6"


def check_report(path: str) -> None:
    """See whether a report can be drawn and written there.

    Raises:  Unavailable ``report-library`` when the library that draws is not installed; BadRequest
             ``report-file`` when there is no directory for the file, or nobody may write there.
    """
    if find_spec("plotly") is None:
        raise Unavailable(
            code="report-library",
            what="the report is drawn with plotly, which is not installed",
            fix=f"{sys.executable} -m pip install '{_LIBRARY}'",
        )
    target = Path(path).resolve()
    if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
        raise _unwritable(path, "it is a directory" if target.is_dir() else "it is not writable")


def write_report(path: str, log: str, simulation: Simulation, remarks: Sequence[str]) -> int:
    """Write the report about a simulation of the log of that name, with remarks about the log.

    Returns its size in bytes.

    Raises:  BadRequest ``report-file`` when the file cannot be written; one that was there is left alone.
    """
    from headnode.apps.simulate.html.page import page
    from headnode.apps.simulate.html.study import study

    content = page(study(log, simulation, remarks))
    try:
        with atomic_file(Path(path)) as file:
            file.write(content)
    except OSError as trouble:
        raise _unwritable(path, trouble.strerror or str(trouble)) from trouble
    return len(content)


def _unwritable(path: str, reason: str) -> BadRequest:
    return BadRequest(
        code="report-file",
        what=f"report {path!r} cannot be written: {reason}",
        fix="name a file in a directory that exists and that you may write to",
    )
