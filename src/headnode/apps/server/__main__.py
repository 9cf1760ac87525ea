"""Run a head: ``python -m headnode.apps.server --state DIR``."""

import sys
from collections.abc import Callable

from headnode.adapters.garbage import give_large_blocks_back, loaded


def _program() -> Callable[[list[str]], int]:
    from headnode.apps.server.main import main

    return main


main = loaded(_program)
give_large_blocks_back()
sys.exit(main(sys.argv[1:]))
