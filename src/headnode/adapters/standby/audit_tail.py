"""The end of an audit log that a standby head does not have yet."""

from os import fstat
from os.path import samestat
from pathlib import Path
from typing import BinaryIO, Final
from zlib import crc32

from headnode.adapters.wire.standby_messages import PIECE

ENDING: Final = 4096  # bytes at the end of what a standby has, by which it is known to be of the same log


def ending_of(file: BinaryIO, size: int) -> int:
    """Return the CRC-32 of the last bytes before `size`; 0 if there are none.

    Raises:  OSError.
    """
    file.seek(max(0, size - ENDING))
    return crc32(file.read(min(ENDING, size)))


class AuditTail:
    """Reads on from where a standby is.  A log that was moved away is read to its end, then the new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._offset = 0

    def begin(self, size: int, ending: int) -> None:
        """Go on after the `size` bytes that a standby has, if the log has them; else from its beginning.

        Raises:  OSError.
        """
        self.close()
        self._open()
        self._offset = size if self._begins_with(size, ending) else 0

    def next(self) -> tuple[int, bytes]:
        """Return what is to be sent next, and from which byte on; empty: nothing is new.

        Raises:  OSError.
        """
        data = self._read()
        if not data and self._is_another():
            self.begin(0, 0)
            data = self._read()
        return self._offset, data

    def sent(self, size: int) -> None:
        """Note that a standby has the first `size` bytes."""
        self._offset = size

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:  # nothing was written yet
            self._file = None

    def _begins_with(self, size: int, ending: int) -> bool:
        if self._file is None or not 0 < size <= fstat(self._file.fileno()).st_size:
            return False
        return ending_of(self._file, size) == ending

    def _read(self) -> bytes:
        if self._file is None:
            return b""
        self._file.seek(self._offset)
        return self._file.read(PIECE)

    def _is_another(self) -> bool:
        """Return whether the file of this name is not the one that was read, or was cut."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return False
        if self._file is None:
            return True
        return not samestat(status, fstat(self._file.fileno())) or status.st_size < self._offset
