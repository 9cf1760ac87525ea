"""The asterisks of a parametric sweep.

Source: HPC Pack parametric sweeps: a run of k asterisks is the value, padded with zeros to width k;
a caret before an asterisk or a caret takes its meaning away.
"""

import re

_PIECE = re.compile(r"\^([*^])|(\*+)")


def substitute(text: str, value: int) -> str:
    """Put the swept `value` into `text`.

    >>> substitute("in.***.dat ^* ^^ ^x *", 7)
    'in.007.dat * ^ ^x 7'
    """
    if "*" not in text and "^" not in text:
        return text
    return _PIECE.sub(lambda found: found[1] or str(value).zfill(len(found[2])), text)
