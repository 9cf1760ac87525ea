"""Another user of this machine, for tests that run as root."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ALICE = 40_001  # a user whom this machine need not know


@contextmanager
def being(user: int) -> Iterator[None]:
    """Let this process have the rights of another user for a while."""
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


def open_to_all(directory: Path) -> None:
    """Let other users go to a directory of a test."""
    for each in (directory, *directory.parents):
        if "pytest-of-" in str(each):
            each.chmod(0o755)
