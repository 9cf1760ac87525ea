"""What a driver of storage does."""

from collections.abc import Iterator
from typing import Protocol

from headnode.adapters.staging.arrival import ArrivingFile


class Seen(Protocol):
    """Is told how many more bytes have been moved; raises when the transfer is too slow."""

    def __call__(self, size: int, /) -> None:
        """So many bytes more were moved."""

    def expect(self, size: int | None) -> None:
        """So many bytes the file has; None: the storage does not say."""


class Storage(Protocol):
    """One place of storage, for one thread."""

    def fetch(self, url: str, arrival: ArrivingFile, progress: Seen) -> int | None:
        """Write a file to its arrival, from where it stopped if that can be; return its size if it is told.

        Raises:  TransferFailed, OSError.
        """

    def store(self, file: int, size: int, url: str, token: str, progress: Seen) -> None:
        """Write an open file to a URL, beside its name where that can be, and rename it.

        What an earlier attempt has written is used where the storage allows that.  Size and checksum are
        compared as far as the storage states them.
        Raises:  TransferFailed, OSError.
        """

    def forget(self, url: str, token: str) -> None:
        """Remove what was written beside a URL, after the last attempt to store it.

        Raises:  TransferFailed, OSError.
        """

    def below(self, url: str) -> Iterator[str]:
        """Yield the files of a directory, relative to it, at any depth.

        Raises:  TransferFailed, OSError.
        """

    def close(self) -> None:
        """Let go of connections."""
