"""Show what Headnode does: ``python -m headnode.apps.demo``."""

import signal
import sys

from headnode.apps.demo.show import show
from headnode.core.model.errors import HeadnodeError

INTERRUPTED = 130  # what shells say of a program that was interrupted from the keyboard


def main() -> int:
    """Run the demo; return 0 when all three jobs finished."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything is stopped then, too
    try:
        return show()
    except KeyboardInterrupt:
        return INTERRUPTED
    except HeadnodeError as error:
        print(f"make demo: {error}", file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
