"""The logins of this user to heads of other machines, with tokens, in a file that only this user can read.

Source:  XDG Base Directory Specification."""

import os

from headnode.adapters.files.opening import make_own_directory, open_below, open_plain
from headnode.apps.client.connection import read_json, write_json
from headnode.apps.client.local_addresses import login_file
from headnode.core.model.errors import HeadnodeError, NotAllowed, NotFound, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_FIELDS = ("host", "port", "cluster", "user", "number", "token", "expires", "authority", "shared")
_OF_LATER = {"others": (), "term": 0}  # fields that a file of before does not have, and their defaults


class HeadLogin:
    """A head, and the token that says to it who we are.  `expires` in seconds since 1970.

    `shared`: the nodes have the directories of this machine, by the same paths.
    `others`: HOST:PORT of other places where the head may be; `term`: the highest that a head has said.
    `file`: which one keeps this login; empty: none does.
    """

    __slots__ = (*_FIELDS, *_OF_LATER, "file")

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
        others: "Sequence[str]" = (),
        term: int = 0,
    ) -> None:
        self.host, self.port, self.cluster, self.user = host, port, cluster, user
        self.number, self.token, self.expires, self.authority = number, token, expires, authority
        self.shared, self.others, self.term = shared, tuple(others), term
        self.file = ""

    @property
    def address(self) -> str:
        """HOST:PORT of where the head was last."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def is_called(self, name: str) -> bool:
        """Return True if a name can mean this head: address, host, first label of a host, cluster."""
        name = name.lower()
        return name == self.cluster.lower() or any(name in _names_of(each) for each in self.addresses)

    @property
    def addresses(self) -> "tuple[str, ...]":
        """HOST:PORT of all places where the head may be, that of the last time first."""
        return (self.address, *(each for each in self.others if each != self.address))

    def is_same_head(self, other: "HeadLogin") -> bool:
        """Return True if both are logins to the head of one place, or of one cluster with several places."""
        if self.address == other.address:
            return True
        return self.authority == other.authority and not {*self.addresses}.isdisjoint(other.addresses)


def _names_of(address: str) -> "tuple[str, ...]":
    host = address.lower().rpartition(":")[0].removeprefix("[").removesuffix("]")
    short = host.partition(".")[0] if not host.replace(".", "").isdigit() else host
    return address.lower(), host, short


def logins(environ: "Mapping[str, str]") -> "list[HeadLogin]":
    """Return all logins, the newest first.

    Raises:  NotAllowed ``login-file`` when others can read it; Unavailable ``login-file`` when it is damaged.
    """
    return _logins_in(login_file(environ))


def _logins_in(path: str) -> "list[HeadLogin]":
    try:
        number = open_plain(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    with os.fdopen(number, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
            raise NotAllowed(
                code="login-file",
                what=f"{path!r} is readable for other users, who could log in as you",
                fix=f"revoke the tokens in it (hn token list on the head), then: chmod 600 {path}",
            )
        text = file.read().decode(errors="replace")
    try:
        kept = [_login_of(each) for each in read_json(text)["logins"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(path, f"it is damaged: {error}") from None
    for each in kept:
        each.file = path
    return kept


def _login_of(kept: "dict[str, Any]") -> HeadLogin:
    """Return a login as the file has it.

    Raises:  ValueError; KeyError, TypeError or AttributeError for what is no login.
    """
    values = {name: kept[name] for name in _FIELDS}
    others, term = (kept.get(name, default) for name, default in _OF_LATER.items())
    if not isinstance(others, list | tuple) or not all(isinstance(each, str) for each in others):
        raise ValueError("the other addresses of a login are no list of texts")
    if not isinstance(term, int):
        raise ValueError("the term of a login is no number")
    return HeadLogin(**values, others=others, term=term)


def login_named(environ: "Mapping[str, str]", name: str) -> HeadLogin:
    """Return the login of the head that is called so; the newest of several.

    Raises:  NotFound ``not-logged-in``; as `logins`.
    """
    for login in logins(environ):
        if login.is_called(name):
            return login
    raise NotFound(
        code="not-logged-in",
        what=f"you have not logged in to the head {name!r}",
        fix="type on that machine: hn token new; then here: hn login, and paste the line that it printed",
    )


def keep(environ: "Mapping[str, str]", login: HeadLogin) -> str:
    """Keep a login as the newest, in place of one of the same head; return the file."""
    login.file = login_file(environ)
    rest = [each for each in logins(environ) if not each.is_same_head(login)]
    return _write(login.file, [login, *rest])


def keep_moved(login: HeadLogin) -> None:
    """Write down where the head of a login was found; one that no file has any more stays away.

    Raises:  as `logins` and `keep`.
    """
    if login.file:
        logins = _logins_in(login.file)
        if any(each.token == login.token for each in logins):
            _write(login.file, [login if each.token == login.token else each for each in logins])


def forget(environ: "Mapping[str, str]", login: HeadLogin) -> None:
    """Forget a login."""
    _write(login_file(environ), [each for each in logins(environ) if each.token != login.token])


def _fields_of(login: HeadLogin) -> "dict[str, Any]":
    """Return a login as the file has it; what is the default is left out."""
    fields = {name: getattr(login, name) for name in _FIELDS}
    more = {name: getattr(login, name) for name in _OF_LATER}
    return fields | {name: value for name, value in more.items() if value != _OF_LATER[name]}


def _write(path: str, all_of_them: "Sequence[HeadLogin]") -> str:
    text = write_json({"logins": [_fields_of(each) for each in all_of_them]})
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
