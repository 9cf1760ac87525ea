"""``python -m headnode.apps.web.sssrmap``."""

import sys

from headnode.apps.web.sssrmap.main import main

sys.exit(main(sys.argv[1:]))
