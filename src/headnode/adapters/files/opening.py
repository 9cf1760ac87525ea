"""Open files at paths that another user may change while they are opened.

Standard library only: this is loaded by the shepherd factory and by `hn`."""
# ruff: noqa: PTH103, PTH118, PTH120 (pathlib costs 6 ms of every command)

import contextlib
import errno
import os
import stat

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MAX_LINKS = 40  # as the kernel has it
_OWN = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_OWN_DIRECTORIES = ("/dev/fd", "/proc/self/fd")


class NotPlain(OSError):
    """What has the name is not a plain file."""


class Redirected(OSError):
    """A step of the path belongs to a user who could lead root to another file."""


def open_plain(path: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open a plain file and return its descriptor.  A link in its place is refused.

    A pipe without a writer does not block the caller.
    Raises:  NotPlain for a link, a directory, a pipe or a device; Redirected, only as root; OSError.
    """
    if os.geteuid() != 0:
        return _plain(path, flags, mode)
    directory, last = _walk(path, _MAX_LINKS)
    try:
        return _plain(last, flags, mode, directory)
    finally:
        os.close(directory)


def open_below(directory: int, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open the plain file `name` below a directory and return its descriptor.  No step may be a link.

    Raises:  NotPlain; OSError, `EINVAL` for a name that is absolute or has a ``..``.
    """
    *folders, last = parts = [part for part in name.split("/") if part != "."] or [""]
    if any(part in ("", "..") for part in parts):
        raise OSError(errno.EINVAL, "it is not below its directory")
    current = os.dup(directory)
    try:
        for folder in folders:
            below = os.open(folder, _DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        return _plain(last, flags, mode, current)
    finally:
        os.close(current)


def open_named(path: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open a file that this user has named, such as on the command line, and return its descriptor.

    An ordinary user may name whatever he may open.  As root: plain files, devices of root, and descriptors of
    this process (``/dev/stdin``, ``/dev/fd/63``); no link of another user is followed.
    Raises:  NotPlain, Redirected, only as root; OSError.
    """
    if os.geteuid() != 0:
        return os.open(path, flags | os.O_CLOEXEC, mode)
    own = _own_descriptor(path)
    if own is not None:
        return os.dup(own)
    directory, last = _place(path, _MAX_LINKS)
    try:
        return _named(last, flags, mode, directory)
    finally:
        os.close(directory)


def open_own_directory(path: str) -> int:
    """Open a directory that only this user and root can change, and return its descriptor.

    Raises:  OSError, `EPERM` when it belongs to another user or others may write there.
    """
    directory = os.open(path, _DIRECTORY)
    status = os.fstat(directory)
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & _OTHERS_WRITE:
        os.close(directory)
        raise OSError(errno.EPERM, "other users can write there", path)
    return directory


def directory_of(path: str, *, make: bool = False) -> tuple[int, str]:
    """Return the directory that a file is in or would be made in, opened, and its name there.

    A link in place of the file is followed; as root only a link of root.  `make`: directories that are not
    there are made.
    Raises:  Redirected, only as root; OSError.
    """
    if os.geteuid() != 0:
        directory, name = os.path.split(os.path.realpath(path))
        if make:
            os.makedirs(directory, exist_ok=True)
        return os.open(directory, _STEP | os.O_DIRECTORY), name
    return _place(path, _MAX_LINKS, make=make)


def make_own_directory(path: str, mode: int = 0o700) -> int:
    """Make a directory of this user if it is not there, and return its descriptor.

    See `open_own_directory`.

    Root makes nothing in a directory of another user: in an environment that ``sudo`` has kept, HOME and
    XDG_RUNTIME_DIR are those of the caller.
    Raises:  Redirected, only as root; OSError.
    """
    if os.geteuid() == 0:
        above = path
        while not os.path.lexists(above):
            above = os.path.dirname(above) or "."
        directory, _ = _walk(os.path.join(above, "any"), _MAX_LINKS)
        owner = os.fstat(directory).st_uid
        os.close(directory)
        if owner != 0:
            raise Redirected(errno.EPERM, "it is in a directory of another user", above)
    os.makedirs(path, mode=mode, exist_ok=True)
    return open_own_directory(path)


def make_output_directory(path: str, uid: int, gid: int) -> None:
    """Make a directory that only this user may enter if it is not there.

    Nobody else may change the directory that it is in.
    Raises:  OSError.
    """
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102
    except FileExistsError:
        os.close(open_output_directory(path, uid, gid))
    else:
        if uid != os.geteuid():
            os.chown(path, uid, gid, follow_symlinks=False)


def open_output_directory(path: str, uid: int, gid: int) -> int:
    """Make a directory that only this user may enter if it is not there, and return its descriptor.

    Raises:  OSError.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)  # noqa: PTH102
    directory = os.open(path, _DIRECTORY)
    if os.fstat(directory).st_uid != uid:
        os.fchown(directory, uid, gid)
    return directory


def _place(path: str, links: int, start: int | None = None, *, make: bool = False) -> tuple[int, str]:
    """Return what `directory_of` does, as root, for a path that begins at the directory `start`."""
    directory, last = _walk(path, links, start, make=make)
    try:
        target = _followed(directory, last, path)
        if target is None:
            return os.dup(directory), last
        if links == 0:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return _place(target, links - 1, directory, make=make)
    finally:
        os.close(directory)


def _named(name: str, flags: int, mode: int, directory: int) -> int:
    """Open what is there: a plain file, or a device or pipe of root."""
    file = os.open(name, flags & ~os.O_TRUNC | _PLAIN, mode, dir_fd=directory)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if status.st_uid != 0:
                raise _not_plain()
            os.set_blocking(file, True)
        else:
            _settle(file, status, flags, directory)
    except OSError:
        os.close(file)
        raise
    return file


def _plain(name: str, flags: int, mode: int, directory: int | None = None) -> int:
    """Open a plain file whose name is not a link."""
    try:
        file = os.open(name, flags & ~os.O_TRUNC | _PLAIN, mode, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _not_plain() from None
        raise
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _not_plain()
        _settle(file, status, flags, directory)
    except OSError:
        os.close(file)
        raise
    return file


def _settle(file: int, status: os.stat_result, flags: int, directory: int | None) -> None:
    """Refuse, as root, a second name for a file in a directory of another user; truncate if asked to."""
    if directory is not None and os.geteuid() == 0 and status.st_nlink > 1:
        holder = os.fstat(directory)
        if holder.st_uid not in (0, status.st_uid) or holder.st_mode & _OTHERS_WRITE:
            raise Redirected(errno.EPERM, "it is a hard link in a directory where another user may write")
    if flags & os.O_TRUNC:
        os.ftruncate(file, 0)


def _walk(path: str, links: int, start: int | None = None, *, make: bool = False) -> tuple[int, str]:
    """Return the directory that has the last step of a path, opened, and that step.

    A relative path begins at the directory `start`, or at the working directory.  `make`: directories that
    are not there are made.

    Raises:  Redirected; OSError.
    """
    if "\0" in path or not path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if not steps or steps[-1] == ".." or path.endswith("/"):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    steps.reverse()
    current = os.open("/" if path.startswith("/") else ".", _STEP | os.O_DIRECTORY, dir_fd=start)
    try:
        while len(steps) > 1:
            step = steps.pop()
            target = _followed(current, step, path)
            if target is None:
                current = _replaced(current, _step(current, step, make))
                continue
            if (links := links - 1) < 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            steps.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
            if target.startswith("/"):
                current = _replaced(current, os.open("/", _STEP | os.O_DIRECTORY))
    except BaseException:
        os.close(current)
        raise
    return current, steps[0]


def _step(directory: int, name: str, make: bool) -> int:
    """Open a directory in another, and no link; with `make` it is made if it is not there."""
    try:
        return os.open(name, _STEP | os.O_DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
    return os.open(name, _STEP | os.O_DIRECTORY, dir_fd=directory)


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new


def _followed(directory: int, step: str, path: str) -> str | None:
    """Return where a link of root leads; None when the step is no link, or is not there.

    Raises:  Redirected for a link of another user.
    """
    try:
        opened = os.open(step, _STEP, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        about = os.fstat(opened)
        if not stat.S_ISLNK(about.st_mode):
            return None
        if about.st_uid != 0:
            raise Redirected(
                errno.EPERM,
                f"{step!r} is a symbolic link of user {about.st_uid}, and root does not follow it",
                path,
            )
        return os.readlink("", dir_fd=opened)
    finally:
        os.close(opened)


def _own_descriptor(path: str) -> int | None:
    """Return the descriptor of this process that a path means."""
    folder, _, number = path.rpartition("/")
    if folder in _OWN_DIRECTORIES and number.isascii() and number.isdecimal():
        return int(number)
    return _OWN.get(path)


def _not_plain() -> NotPlain:
    return NotPlain(errno.EINVAL, "it is a link, a directory or a device, not a regular file")
