"""``condor_q -better-analyze``: why jobs are idle, in the words of `hn job explain`.

Source:  HTCondor 24, condor_q(1).
"""

import shutil
import sys
import time

from headnode.apps.cli.commands.job_explain import explanation_of
from headnode.apps.cli.condor_programs.queue_tables import banner
from headnode.apps.cli.screens.explain import explanation_page
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_ANALYZED = 10
"""How many jobs are explained without `-limit`: an explanation takes the head up to a second."""

_PLAIN_WIDTH = (100, 24)


def analyze(client: Client, jobs: "Sequence[dict[str, Any]]", limit: "int | None") -> int:
    """Print why each of the jobs waits, or that it does not; return the exit status."""
    most = MAX_ANALYZED if limit is None else limit
    width = shutil.get_terminal_size(_PLAIN_WIDTH).columns
    sys.stdout.write(banner(client))
    for job in jobs[:most]:
        explanation, now = explanation_of(client, int(job["id"]))
        sys.stdout.write(explanation_page(explanation, now, now=time.time(), width=width))
        sys.stdout.write("\n")
    if not jobs:
        sys.stdout.write("There is no such job in the queue.\n")
    if len(jobs) > most:
        sys.stdout.write(f"{len(jobs) - most} more jobs; name one: condor_q -better-analyze ID\n")
    return 0
