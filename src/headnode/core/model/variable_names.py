"""Names of variables in command lines and paths, in whose place their values come.

Source: CCS, "Standard job and task options": ``%NAME%`` in the command line, ``%USERPROFILE%`` in paths.
"""

import re

PERCENT = re.compile(r"%([A-Za-z_][A-Za-z0-9_.()]*)%")
DOLLAR = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def names_a_variable(text: str) -> bool:
    """Whether a path has a name in it that may become the value of a variable.

    >>> names_a_variable("/data/100%"), names_a_variable("/data/$x"), names_a_variable("/data/%x%")
    (False, True, True)
    """
    return bool(PERCENT.search(text) or DOLLAR.search(text))
