"""What a submit file takes from here: names of files that match patterns of a queue command, and variables.

The author of the file need not be the user who submits it, and the owner of the job can read the names that
are sent: only names in or below the current directory are looked at, and no link is followed.
"""

import glob
import os
import re
from collections.abc import Iterable

from headnode.apps.client.submitter import variables_for_tasks
from headnode.core.model.bounds import TASKS_OF_FILE
from headnode.core.model.errors import BadRequest

_KINDS = {"matching": "any", "matching files": "files", "matching dirs": "dirs", "matching any": "any"}


def matching(key: str) -> str:
    """Return the names that match, each on a line, for a key such as ``matching files: *.dat a/*``.

    Raises:  BadRequest ``job-file``.
    """
    kind, _, patterns = key.partition(": ")
    wanted = _KINDS[kind]
    items: dict[str, None] = {}
    for pattern in patterns.replace(",", " ").split():
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise _refusal(f"the pattern {pattern!r} is not below the current directory", "change into it")
        if "**" in pattern:
            raise _refusal(f"the pattern {pattern!r} has two stars", "write one for each directory")
        for name in glob.iglob(pattern):  # noqa: PTH207 - names as they are written
            if _is_wanted(name, wanted):
                items[name] = None
            if len(items) > TASKS_OF_FILE.most:
                raise _refusal(f"more than {TASKS_OF_FILE.most:,} files match {patterns!r}", "divide them")
    return "\n".join(sorted(items))


def variables_named(texts: Iterable[str]) -> dict[str, str]:
    """Return the variables of this shell that the texts of submit files name with ``$ENV(NAME)``."""
    named = {name for text in texts for name in re.findall(r"\$ENV\(\s*(\w+)", text)}
    return variables_for_tasks("".join(f"{name}," for name in sorted(named)))


def _is_wanted(name: str, wanted: str) -> bool:
    steps = name.split("/")
    above = ["/".join(steps[:end]) for end in range(1, len(steps))]
    if "\n" in name or any(os.path.islink(step) for step in above if step):  # noqa: PTH114
        return False
    is_directory = os.path.isdir(name)  # noqa: PTH112
    return wanted == "any" or is_directory is (wanted == "dirs")


def _refusal(what: str, fix: str) -> BadRequest:
    return BadRequest(code="job-file", what=what, fix=fix)
