"""The logins of this user to heads of other machines, with his tokens, in a file for him alone.

Source:  XDG Base Directory Specification."""

import os

from headnode.adapters.files.opening import make_own_directory, open_below, open_plain
from headnode.apps.client.connection import read_json, write_json
from headnode.apps.client.local_addresses import login_file
from headnode.core.model.errors import HeadnodeError, NotAllowed, NotFound, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FIELDS = ("host", "port", "cluster", "user", "number", "token", "expires", "authority", "shared")


class HeadLogin:
    """A head, and the token that says to it who we are.  `expires` in seconds since 1970.

    `shared`: the nodes have the directories of this machine, by the same paths.
    """

    __slots__ = _FIELDS

    def __init__(
        self,
        *,
        host: str,
        port: int,
        cluster: str,
        user: str,
        number: int,
        token: str,
        expires: float,
        authority: str,
        shared: bool = False,
    ) -> None:
        self.host, self.port, self.cluster, self.user = host, port, cluster, user
        self.number, self.token, self.expires, self.authority = number, token, expires, authority
        self.shared = shared

    @property
    def address(self) -> str:
        """HOST:PORT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def is_called(self, name: str) -> bool:
        """Return True if a name can mean this head: address, host, first label of a host, cluster."""
        name = name.lower()
        host = self.host.lower()
        short = host.partition(".")[0] if not host.replace(".", "").isdigit() else host
        return name in (self.address.lower(), host, short, self.cluster.lower())


def logins(environ: "Mapping[str, str]") -> "list[HeadLogin]":
    """Return all logins, the newest first.

    Raises:  NotAllowed ``login-file`` when others can read it; Unavailable ``login-file`` when it is damaged.
    """
    path = login_file(environ)
    try:
        number = open_plain(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    with os.fdopen(number, "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
            raise NotAllowed(
                code="login-file",
                what=f"{path!r} is readable for other users, who could log in as you",
                fix=f"revoke the tokens in it (hn token list on the head), then: chmod 600 {path}",
            )
        text = file.read().decode(errors="replace")
    try:
        return [HeadLogin(**{name: each[name] for name in _FIELDS}) for each in read_json(text)["logins"]]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, f"it is damaged: {error}") from None


def login_named(environ: "Mapping[str, str]", name: str) -> HeadLogin:
    """Return the login of the head that is called so; the newest of several.

    Raises:  NotFound ``not-logged-in``; as `logins`.
    """
    for login in logins(environ):
        if login.is_called(name):
            return login
    raise NotFound(
        code="not-logged-in",
        what=f"you have not logged in to a head node {name!r}",
        fix="on that machine: hn token new; then paste the line that it prints here",
    )


def keep(environ: "Mapping[str, str]", login: HeadLogin) -> str:
    """Keep a login as the newest, in place of one of the same head; return the file."""
    rest = [each for each in logins(environ) if each.address != login.address]
    return _write(environ, [login, *rest])


def forget(environ: "Mapping[str, str]", login: HeadLogin) -> None:
    """Forget a login."""
    _write(environ, [each for each in logins(environ) if each.address != login.address])


def _write(environ: "Mapping[str, str]", all_of_them: "Sequence[HeadLogin]") -> str:
    path = login_file(environ)
    text = write_json({"logins": [{name: getattr(each, name) for name in _FIELDS} for each in all_of_them]})
    folder, name = os.path.split(path)
    scratch = f"{name}.{os.urandom(8).hex()}.new"  # a process that was killed may have had this one's number
    try:
        directory = make_own_directory(folder)
        try:
            _write_whole(directory, name, scratch, text)
        finally:
            os.close(directory)
    except OSError as error:
        raise Unavailable(
            code="login-file",
            what=f"{path!r} cannot be written: {error.strerror}",
            fix="give this user write permission there",
        ) from None
    return path


def _write_whole(directory: int, name: str, scratch: str, text: str) -> None:
    """Write a file of a directory by another name first, which is removed if that fails.  Raises OSError."""
    number = open_below(directory, scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(scratch, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        os.unlink(scratch, dir_fd=directory)
        raise


def _unreadable(path: str, why: str) -> HeadnodeError:
    return Unavailable(
        code="login-file", what=f"{path!r} cannot be read: {why}", fix="remove the file and log in again"
    )
