"""How a command line becomes words: by itself, or through a shell when it needs one.

Source: CCS, "Standard job and task options", row *command*.
"""

import re
import shlex

SHELL = "/bin/sh"

_SHELL_CHARACTERS = re.compile(r"[|&;<>()$`\\*?\[#~{}!\n]")
_PLAIN = re.compile(r"[!#-&(-\[\]-~ \t\r\n]*")  # no quote, no backslash, no white space beyond a shell's
_ASSIGNMENT = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_]*=")
_SHELL_WORDS = frozenset(
    """. : alias bg break case cd command continue eval exec exit export fg for getopts hash if jobs read
    readonly return set shift times trap type ulimit umask unalias unset until wait while""".split()  # noqa: SIM905
)


def words_of(text: str) -> list[str]:
    """Return the words of a command line as a shell splits it.  Raises ValueError for an open quote.

    Same as `shlex.split`, which takes 60 microseconds a line: text without quotes needs no parser.
    """
    return text.split() if _PLAIN.fullmatch(text) else shlex.split(text)


def argv_of(command: str) -> tuple[str, ...]:
    """Split a command line; one that needs a shell is handed to ``/bin/sh -c`` whole.

    >>> argv_of("prog 'one two' 3"), argv_of("a | b"), argv_of("exit 3")
    (('prog', 'one two', '3'), ('/bin/sh', '-c', 'a | b'), ('/bin/sh', '-c', 'exit 3'))
    """
    through_shell = (SHELL, "-c", command)
    if _SHELL_CHARACTERS.search(command) or _ASSIGNMENT.match(command):
        return through_shell
    try:
        words = words_of(command)
    except ValueError:  # a quote without its partner: the shell says so in the output of the task
        return through_shell
    return through_shell if not words or words[0] in _SHELL_WORDS else tuple(words)
