"""How the program `hn` ends: as fast as it may, with everything written."""

import os
import sys

from headnode.apps.cli.__main__ import main


def run() -> None:
    """Carry out the command line; end the process with its exit status."""
    status = main()
    if "weakref" not in sys.modules:  # else something may be left to do at the end: removing a directory
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # it was closed before the program began
                    stream.flush()
        except OSError:
            raise SystemExit(status) from None
        os._exit(status)  # to take the interpreter apart is a fifth of a short command
    raise SystemExit(status)


def run_plain() -> None:
    """Do it for the launcher, which names the program and its arguments behind its code."""
    del sys.argv[0]
    run()
