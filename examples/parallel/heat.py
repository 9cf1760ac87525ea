"""A hot rod cools, its ends held at 0 degrees.

As many processes as the task has processors compute it together.  Each keeps a part of the
rod and, before every step, tells its neighbours the temperature at its ends.
The number of processes is CCP_NUMCPUS, which the cluster sets.
"""

import math
import os
from itertools import pairwise
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

CELLS = 399
STEPS = 6000
RATE = 0.4  # of a cell's difference to its neighbours that flows in one step; below 0.5 to be stable


def cool(part: list[float], left: Connection | None, right: Connection | None, result: Connection) -> None:
    """Compute one part of the rod, speaking to the neighbours, and send what became of it."""
    for _ in range(STEPS):
        for neighbour, end in ((left, part[0]), (right, part[-1])):
            if neighbour:
                neighbour.send(end)
        before = left.recv() if left else 0.0
        behind = right.recv() if right else 0.0
        row = [before, *part, behind]
        part = [b + RATE * (a - 2 * b + c) for a, b, c in zip(row, row[1:], row[2:], strict=False)]
    result.send(part)


def parts_of(rod: list[float], count: int) -> list[list[float]]:
    """Cut the rod into parts of nearly the same length."""
    cuts = [len(rod) * number // count for number in range(count + 1)]
    return [rod[begin:end] for begin, end in pairwise(cuts)]


def main() -> None:
    """Cool the rod and compare it with what the theory says."""
    count = max(1, min(int(os.environ.get("CCP_NUMCPUS", "1")), CELLS))
    wave = [math.sin(math.pi * (cell + 1) / (CELLS + 1)) for cell in range(CELLS)]
    links = [Pipe() for _ in range(count - 1)]
    lefts = [None, *(link[1] for link in links)]
    rights = [*(link[0] for link in links), None]
    results = [Pipe(duplex=False) for _ in range(count)]
    rod = parts_of([100 * height for height in wave], count)
    workers = [
        Process(target=cool, args=(part, left, right, sender))
        for part, left, right, (_, sender) in zip(rod, lefts, rights, results, strict=True)
    ]
    for worker in workers:
        worker.start()
    cooled = [cell for receiver, _ in results for cell in receiver.recv()]
    for worker in workers:
        worker.join()
    theory = 100 * (1 - 4 * RATE * math.sin(math.pi / (2 * (CELLS + 1))) ** 2) ** STEPS
    middle = max(cooled)
    print(f"{count} processes: the middle cooled from 100 to {middle:.3f} degrees; theory says {theory:.3f}")


if __name__ == "__main__":
    main()
