"""Whether a text is a submit file of HTCondor or a flow of DAGMan: for programs that must start fast.

Source:  HTCondor 24, condor_submit(1): a submit description has at least one `queue` command; DAGMan, JOB.
"""

import re

_QUEUE = re.compile(r"^[ \t]*queue(?![ \t]*=)(?:[ \t(][^\n]*)?$", re.IGNORECASE | re.MULTILINE)
_EXECUTABLE = re.compile(r"^[ \t]*executable[ \t]*=", re.IGNORECASE | re.MULTILINE)
_NODE = re.compile(r"^[ \t]*job[ \t]+[^\s={]+[ \t]+[^\s=]+", re.IGNORECASE | re.MULTILINE)
_NATIVE = re.compile(r"^[ \t]*(?:\[|(?:command|jobs|tasks)[ \t]*=)", re.MULTILINE)


def is_submit_file(text: str) -> bool:
    """Return whether the beginning of a file is a submit file or a flow, and not Headnode's own form.

    >>> is_submit_file("executable = a\\nqueue 3\\n"), is_submit_file('command = "a"')
    (True, False)
    """
    text = text.replace("\r\n", "\n")
    executable, native = _EXECUTABLE.search(text), _NATIVE.search(text)
    if _QUEUE.search(text) is None and not is_flow(text):
        return executable is not None and native is None  # whose reader says that queue is missing
    return executable is not None or native is None


def is_flow(text: str) -> bool:
    """Return whether the beginning of a file has nodes of DAGMan before any queue command.

    >>> is_flow("JOB a a.sub\\nPARENT a CHILD b"), is_flow("queue x from (\\njob a b\\n)")
    (True, False)
    """
    node, queue = _NODE.search(text), _QUEUE.search(text)
    if node is None or _NATIVE.search(text) is not None:
        return False
    return queue is None or node.start() < queue.start()
