"""One piece of the area under 4 / (1 + x²) between 0 and 1; all pieces together are pi.

python3 piece.py PIECE PIECES
"""

import sys

STEPS = 1_500_000  # in each piece


def area(piece: int, pieces: int) -> float:
    """Return the area of one piece (from 1), by the midpoint rule."""
    width = 1 / (pieces * STEPS)
    first = (piece - 1) * STEPS
    return width * sum(4 / (1 + ((first + step + 0.5) * width) ** 2) for step in range(STEPS))


print(f"{area(int(sys.argv[1]), int(sys.argv[2])):.15f}")
