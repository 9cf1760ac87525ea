"""A sweep of 2,000 x /bin/true over four nodes of this machine, against the same over one, in the same run.

The nodes share the machine's processors, so four can be no faster than one; that they are not slower shows
that neither the head nor the wire is what holds tasks up.
"""

import statistics
import sys

from heads import Head, head, machine
from sweep_of_true import TASKS, sweep

ROUNDS = 5
LEAST = 0.95  # of the rate of one node; what is less than that apart is noise


def rates(one: Head, four: Head) -> list[tuple[float, float]]:
    """Return the rates of both, taken in turns."""
    for here in (one, four):  # nobody is judged by a first start
        sweep(here)
    return [(sweep(one), sweep(four)) for _ in range(ROUNDS)]


def main() -> int:
    """Print the figures beside what was promised."""
    print(machine())
    with head(nodes=1, processors=2) as one, head(nodes=4, processors=2) as four:
        both = rates(one, four)
    alone = statistics.median(rate for rate, _ in both)
    together = statistics.median(rate for _, rate in both)
    ratio = statistics.median(rate / before for before, rate in both)
    print(
        f"sweep of {TASKS}: one node {alone:.0f} tasks/s, four nodes {together:.0f} tasks/s, "
        f"ratio {ratio:.2f} (promised: 1, {LEAST:.2f} within noise)"
    )
    return int(ratio < LEAST)


if __name__ == "__main__":
    sys.exit(main())
