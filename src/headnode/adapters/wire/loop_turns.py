"""The turns of the event loop: in each it runs what was ready when the turn began."""

import asyncio


def ends_turn() -> bool:
    """Return whether nothing else is ready to run in this turn of the event loop.

    Then what would wait for the end of the turn, to be done with what others ask for, is done at once: it
    would be first in the next turn, and nothing could come before it.
    `asyncio` has no public way to ask this.
    """
    return not asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
