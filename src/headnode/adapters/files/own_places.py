"""Where a process of root keeps its state and has its code: other users must not be able to change either."""

import logging
import os
from pathlib import Path

import headnode
from headnode.adapters.files.owners import why_not_trusted
from headnode.core.model.errors import Unavailable

FILE_MODE_MASK = 0o022  # of the head and the agents, whoever starts them: group and others write nothing


def refuse_unsafe_state(state: Path) -> None:
    """Refuse, as root, a state directory that another user can change or replace.

    Raises:  Unavailable ``unsafe-state``.
    """
    if os.geteuid() != 0:
        return
    if why_not := why_not_trusted(str(state)):
        raise Unavailable(
            code="unsafe-state",
            what=f"root does not use {str(state)!r}: {why_not}",
            fix="correct that, or choose a directory that belongs to root",
        )


def warn_of_unsafe_code(log: logging.Logger) -> None:
    """Warn, as root, if another user can change the program itself."""
    if os.geteuid() == 0 and (why_not := why_not_trusted(str(Path(headnode.__file__).parent))):
        log.warning("Headnode runs as root, and others can change its code: %s", why_not)
