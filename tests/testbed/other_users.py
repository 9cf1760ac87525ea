"""Another user of this machine, for tests that run as root."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

ALICE = 40_001  # a user whom this machine need not know


@contextmanager
def being(user: int) -> Iterator[None]:
    """Let this process have the rights of another user for a while."""
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
