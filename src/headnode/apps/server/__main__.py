"""Run a head: ``python -m headnode.apps.server --state DIR``."""

import sys

from headnode.apps.server.main import main

sys.exit(main(sys.argv[1:]))
