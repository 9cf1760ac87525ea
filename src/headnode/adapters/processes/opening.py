"""Open a file for somebody, by whoever is that user already: only what is a plain file, and no link.

Directories on the way may be links, as for the user himself: nothing is opened that he could not read.
Standard library only: this is loaded by the shepherd factory.
"""

import errno
import os
import stat

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotPlain(OSError):
    """What has the name is not a plain file."""


def open_plain(path: str) -> int:
    """Open a plain file to read; return its descriptor.  A pipe that nobody writes to keeps nobody waiting.

    Raises:  NotPlain for a link, a directory, a pipe, a device; OSError when the user may not, or has none.
    """
    try:
        file = os.open(path, _READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _not_plain() from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _not_plain()
    return file


def _not_plain() -> NotPlain:
    return NotPlain(errno.EINVAL, "it is a link, a directory or a device, and no plain file")
