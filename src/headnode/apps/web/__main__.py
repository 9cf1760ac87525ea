"""``python -m headnode.apps.web``."""

import sys

from headnode.apps.web.main import main

sys.exit(main(sys.argv[1:]))
