"""Whether a text is a submit file of HTCondor: for programs that must start fast.

Source:  HTCondor 24, condor_submit(1): a submit description has at least one `queue` command.
"""

import re

_QUEUE = re.compile(r"^[ \t]*queue(?![ \t]*=)(?:[ \t(][^\n]*)?$", re.IGNORECASE | re.MULTILINE)
_EXECUTABLE = re.compile(r"^[ \t]*executable[ \t]*=", re.IGNORECASE | re.MULTILINE)
_NATIVE = re.compile(r"^[ \t]*(?:\[|(?:command|jobs|tasks)[ \t]*=)", re.MULTILINE)


def is_submit_file(text: str) -> bool:
    """Return whether the beginning of a file has commands of a submit file, and none of Headnode's own form.

    >>> is_submit_file("executable = a\\nqueue 3\\n"), is_submit_file('command = "a"')
    (True, False)
    """
    text = text.replace("\r\n", "\n")
    executable, native = _EXECUTABLE.search(text), _NATIVE.search(text)
    if _QUEUE.search(text) is None:
        return executable is not None and native is None  # whose reader says that queue is missing
    return executable is not None or native is None
