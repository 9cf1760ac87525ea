"""The filters of a node: programs of the administrators that see each task before it starts."""

import os
import shlex
from pathlib import Path

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.processes.site_programs import ask_site_program
from headnode.core.launching.node_filters import FILTERS, Asked, Filtered, filtered, question, why_exit
from headnode.core.model.errors import BadRequest, Unavailable

MOST_OUTPUT = 1 << 20  # bytes of a filter's answer
MOST_WORDS = 500  # characters of its last words that are told


def registered(directory: str) -> dict[str, str]:
    """Return the paths of the filters in a directory, by the event that each is for; it need not exist.

    Raises:  Unavailable ``node-filters`` when somebody else could have written one.
    """
    folder = Path(directory)
    found: dict[str, str] = {}
    for name in FILTERS:
        for path in (folder / f"{name}.sh", folder / name):
            if not os.path.lexists(path):
                continue
            if why_not := why_not_run([str(path)]):
                raise Unavailable(
                    code="node-filters", what=f"the node filter {str(path)!r} cannot be run: {why_not}"
                )
            found.setdefault(name, str(path))
    return found


async def ask_filter(path: str, asked: Asked, environment: dict[str, str], patience: float) -> Filtered:
    """Return a task as a filter wants it.

    Raises:  Unavailable ``node-filter`` when the filter does not let it start, with the reason.
    """
    called, text = "the node filter", question(asked).encode()
    ran = await ask_site_program(shlex.quote(path), called, environment, patience, MOST_OUTPUT, text)
    if ran.trouble:
        why = why_exit(ran.status or 0)
        words = "; ".join(filter(None, (ran.trouble + (f": {why}" if why else ""), ran.line[-MOST_WORDS:])))
        raise Unavailable(code="node-filter", what=words)
    try:
        return filtered(asked, ran.said)
    except BadRequest as error:
        raise Unavailable(
            code="node-filter", what=f"{called} {path!r} {error.what}", fix="an administrator can correct it"
        ) from None
