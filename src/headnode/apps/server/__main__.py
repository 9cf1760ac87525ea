"""Run a head: ``python -m headnode.apps.server --state DIR``."""

import sys

from headnode.adapters.garbage import give_large_blocks_back
from headnode.apps.server.main import main

give_large_blocks_back()
sys.exit(main(sys.argv[1:]))
