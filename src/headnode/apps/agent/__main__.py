"""``headnode agent``: run the agent of a node: ``python -m headnode.apps.agent --state DIR``."""

import sys
from collections.abc import Callable, Sequence

from headnode.adapters.garbage import loaded


def _program() -> Callable[[Sequence[str]], int]:
    from headnode.apps.agent.main import main

    return main


sys.exit(loaded(_program)(sys.argv[1:]))
