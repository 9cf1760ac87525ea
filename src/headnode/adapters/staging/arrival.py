"""A file on its way to a path of this machine: written beside it, compared, and renamed when it is whole.

What was written is kept beside its origin, so that another process can go on with it."""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator

from headnode.adapters.files.opening import directory_of
from headnode.adapters.staging.failures import ChangedOnTheWay, TransferFailed

CHUNK = 1 << 20  # bytes
_AT_ONCE = 1 << 24  # bytes that the kernel copies between two looks at the rate
_MAX_NAME = 150  # bytes of a name that is part of another
_PRIVATE = 0o600
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MASK = os.umask(0o022)  # here, before there are threads: it is one of the whole process
os.umask(_MASK)
_USUAL = 0o666 & ~_MASK
_EXECUTABLE = 0o777 & ~_MASK


class ArrivingFile:
    """One file that comes.  `token` tells the writes of one attempt from those of all others."""

    def __init__(self, path: str, token: str) -> None:
        """Open the directory that the file will be in, which is made if it is not there.

        Raises:  OSError.
        """
        self._folder, self._name = directory_of(path, make=True)
        short = self._name.encode(errors="surrogateescape")[:_MAX_NAME].decode(errors="surrogateescape")
        self._part, self._from = f".{short}.part-{token}", f".{short}.from-{token}"
        self._file = -1
        self.is_executable = False  # its source is, for its owner

    def close(self) -> None:
        """Let go; what has come stays for another attempt."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        os.close(self._folder)

    def kept(self) -> tuple[str, int]:
        """Return the origin of what has come before, and how many bytes those are; "" and 0 without any."""
        origin = self._read_origin()
        if not origin:
            return "", 0
        try:
            about = os.stat(self._part, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return "", 0
        return origin, about.st_size if stat.S_ISREG(about.st_mode) else 0

    def begin(self, origin: str) -> int:
        """Open what has come of a file whose origin is this; return how many bytes those are.

        Of another origin, or of none that is known, nothing is used.
        """
        if self._file >= 0:
            os.close(self._file)
        if not origin or self._read_origin() != origin:
            self.discard()
            self._write_origin(origin)
        self._file = os.open(self._part, _FLAGS, _PRIVATE, dir_fd=self._folder)
        about = os.fstat(self._file)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_nlink != 1:
            raise TransferFailed(f"{self._part!r} is in the way, and is not a file of this transfer")
        return os.lseek(self._file, 0, os.SEEK_END)

    def begin_alone(self) -> str:
        """Return the path of an empty file, which a program of others fills."""
        self.begin("")
        return f"{os.readlink(f'/proc/self/fd/{self._folder}')}/{self._part}"  # noqa: PTH115

    def restart(self) -> None:
        """Begin at the first byte after all."""
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)

    def write(self, data: bytes | memoryview) -> None:
        """Add what has come."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def copy(self, file: int, begin: int, size: int, progress: Callable[[int], None]) -> None:
        """Add an open file from a byte on, which the kernel copies if it can.

        Fewer bytes than `size` are no error here.
        """
        while begin < size:
            try:
                moved = os.sendfile(self._file, file, begin, min(_AT_ONCE, size - begin))
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS):
                    raise
                for data in pieces_of(file, size, progress, begin):
                    self.write(data)
                return
            if not moved:
                return
            progress(moved)
            begin += moved

    def finish(self, size: int | None, checksum: str, mode: int | None, *, durable: bool = False) -> int:
        """Give the file its name if it is what was to come; return its bytes.

        Raises:  ChangedOnTheWay, and nothing of it is left; OSError.
        """
        length = os.fstat(self._file).st_size
        problem = ""
        if size is not None and length != size:
            problem = f"it has {length} bytes, and should have {size}"
        elif checksum:
            problem = _difference(self._file, checksum)
        if problem:
            self.discard()
            raise ChangedOnTheWay(problem, "correct the file there, or the size or checksum of the job")
        usual = _EXECUTABLE if self.is_executable else _USUAL
        os.fchmod(self._file, usual if mode is None else mode)
        if durable:
            os.fsync(self._file)
        os.rename(self._part, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._unlink(self._from)
        return length

    def discard(self) -> None:
        """Remove what has come."""
        self._unlink(self._part)
        self._unlink(self._from)

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    def _read_origin(self) -> str:
        try:
            file = os.open(self._from, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._folder)
        except OSError:
            return ""
        try:
            return os.read(file, CHUNK).decode(errors="replace")
        finally:
            os.close(file)

    def _write_origin(self, origin: str) -> None:
        if not origin:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(self._from, flags, _PRIVATE, dir_fd=self._folder)
        try:
            os.write(file, origin.encode(errors="replace")[:CHUNK])
        finally:
            os.close(file)


def _difference(file: int, checksum: str) -> str:
    """Return what is wrong with the checksum of a file; "" if nothing is."""
    kind, _, wanted = checksum.partition(":")
    found = hashlib.new(kind, usedforsecurity=False)
    os.lseek(file, 0, os.SEEK_SET)
    while data := os.read(file, CHUNK):
        found.update(data)
    digest = found.hexdigest()
    return "" if digest == wanted.lower() else f"its checksum is {kind}:{digest}, and should be {checksum}"


def copied(read: Callable[[int], bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the pieces of a file up to its end; `progress` is called with the bytes of each."""
    while data := read(CHUNK):
        progress(len(data))
        yield data


def pieces_of(file: int, size: int, progress: Callable[[int], None], begin: int = 0) -> Iterator[bytes]:
    """Yield the bytes of an open file from `begin` to `size`; `progress` is called with each piece."""
    os.lseek(file, begin, os.SEEK_SET)
    return copied(lambda most: os.read(file, min(most, size - os.lseek(file, 0, os.SEEK_CUR))), progress)
