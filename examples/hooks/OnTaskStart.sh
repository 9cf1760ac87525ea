#!/usr/bin/env python3
"""A node filter: every task runs in a wrapper, here with a lower priority and a variable more.

Put it into the directory that the cluster parameter NodeFilterDirectory names, as OnJobTaskStart.sh and as
OnTaskStart.sh (one may be a link to the other): the first is asked about the first task of a job on the node,
the second about all others.  Instead of nice(1) it may well be a container: the command stays one word behind.
"""

import json
import shlex
import sys

asked = json.load(sys.stdin)
start = asked["m_Item2"]
start["commandLine"] = f"nice -n 5 /bin/sh -c {shlex.quote(start['commandLine'])}"
start["environmentVariables"]["SITE_WRAPPER"] = "nice"
json.dump(asked, sys.stdout)
