"""What a driver of storage does, and which one serves a URL; its library is imported when it is needed."""

from collections.abc import Iterator
from typing import Protocol
from urllib.parse import urlsplit

from headnode.adapters.garbage import without_collection
from headnode.adapters.staging.arrival import ArrivingFile
from headnode.adapters.staging.credentials import Credential
from headnode.adapters.staging.failures import NeverTransferred


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


def open_storage(url: str, credential: Credential, timeout: float) -> Storage:
    """Return a driver for a URL.  `timeout` is in seconds without a byte.

    Raises:  NeverTransferred when its library is not installed.
    """
    return without_collection(_opened, url, credential, timeout)


def _opened(url: str, credential: Credential, timeout: float) -> Storage:
    scheme = urlsplit(url).scheme.lower()
    try:
        if scheme == "file":
            from headnode.adapters.staging.local_storage import LocalStorage

            return LocalStorage()
        if scheme in ("http", "https"):
            from headnode.adapters.staging.http_storage import HttpStorage

            return HttpStorage(credential, timeout)
        if scheme == "gsiftp":
            from headnode.adapters.staging.grid_ftp import GridFtp

            return GridFtp(credential, timeout)
        from headnode.adapters.staging.other_storage import open_other

        return open_other(url, credential, timeout)
    except ImportError as error:
        raise NeverTransferred(
            f"{scheme} needs {error.name}, which is not installed on this node",
            "an administrator can: pip install 'headnode[staging]'",
        ) from None
