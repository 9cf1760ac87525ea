"""``python -m headnode.apps.standby``."""

import sys

from headnode.apps.standby.main import main

sys.exit(main(sys.argv[1:]))
