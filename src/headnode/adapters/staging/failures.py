"""Why a transfer failed: whether it is worth another attempt, and what to do about it."""

import errno
import os

CHECK_SERVER = (
    "check the files on the server, or ask its administrator"  # what to do about a fault of a server
)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


class TransferFailed(Exception):
    """A file was not transferred: a sentence, and what to do.

    `after` is how many seconds the storage wants to be left alone before the next attempt.
    """

    permanent = False

    def __init__(self, what: str, fix: str = "", after: float = 0.0) -> None:
        super().__init__(what)
        self.what, self.fix, self.after = what, fix, after


class NeverTransferred(TransferFailed):
    """No further attempt can do better."""

    permanent = True


class ChangedOnTheWay(TransferFailed):
    """What has arrived is not what was to come: nothing of it may be used for the next attempt."""


def of_error(error: OSError, where: str) -> TransferFailed:
    """Return what an error of a file or a connection means; `where` says what was read or written."""
    message = (error.strerror or str(error) or type(error).__name__).lower()
    what = f"{where}: {message}"
    if error.errno in _NO_SPACE:
        return NeverTransferred(what, "free some space there, or take another place")
    if isinstance(error, FileNotFoundError):
        return NeverTransferred(
            f"{where} does not exist", "correct the path or the URL, or let the program write the file"
        )
    if isinstance(error, PermissionError):
        return NeverTransferred(what, "let the owner of the job read or write it, or name a credential")
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        return NeverTransferred(what, "write a slash at the end for a directory, and none for a file")
    if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL):
        return NeverTransferred(what, "correct the path")
    return TransferFailed(what)


def refuse_unnamable(path: str) -> None:
    """Refuse a file of a directory whose name is not UTF-8: orders and reports are.

    Raises:  NeverTransferred.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        raise NeverTransferred(f"{path!r} was not transferred: its name is not UTF-8; rename it") from None


def shown(url: str) -> str:
    """Return a URL without what follows a question mark: there are keys and signatures in it."""
    return url.partition("?")[0][:500]


def reason(error: OSError) -> str:
    """Return the words of the system for an error."""
    return os.strerror(error.errno or 0).lower()
