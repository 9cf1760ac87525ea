"""Names of variables in command lines and paths become their values.

Source: CCS, "Standard job and task options": ``%NAME%`` in the command line, ``%USERPROFILE%`` in paths.
"""

import re
from collections.abc import Mapping

from headnode.core.model.variable_names import DOLLAR, PERCENT

ALSO_KNOWN_AS = {"USERPROFILE": "HOME", "USERNAME": "USER"}
"""Names that job files from elsewhere use, and what they are called here."""


def expand_percent(text: str, environment: Mapping[str, str]) -> str:
    """Put values in for ``%NAME%``, whatever the case of the letters; unknown names stay as they are.

    >>> expand_percent(r"%userprofile%/in.%CCP_JOBID%.dat 100%%", {"HOME": "/home/ann", "CCP_JOBID": "7"})
    '/home/ann/in.7.dat 100%%'
    """
    if "%" not in text:
        return text
    values = {name.upper(): value for name, value in environment.items()}

    def value_of(match: re.Match[str]) -> str:
        name = match[1].upper()
        return values.get(name, values.get(ALSO_KNOWN_AS.get(name, name), match[0]))

    return PERCENT.sub(value_of, text)


def expand_path(text: str, environment: Mapping[str, str]) -> str:
    """Put values in for ``%NAME%``, ``$NAME`` and ``${NAME}``; unknown names stay as they are.

    >>> expand_path("$HOME/${CCP_JOBID}/%HOME%/$nothing", {"HOME": "/home/ann", "CCP_JOBID": "7"})
    '/home/ann/7//home/ann/$nothing'
    """
    text = expand_percent(text, environment)
    if "$" not in text:
        return text
    return DOLLAR.sub(lambda match: environment.get(match[1] or match[2], match[0]), text)
