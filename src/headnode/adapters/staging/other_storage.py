"""FTP and SFTP.

Uploads are written beside their names, go on where they stopped, and are renamed.  SFTP takes hosts only that
the user or the system knows."""

import contextlib
import ftplib
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from headnode.adapters.staging.arrival import CHUNK, ArrivingFile, copied, pieces_of
from headnode.adapters.staging.credentials import Credential
from headnode.adapters.staging.failures import ChangedOnTheWay, NeverTransferred, TransferFailed
from headnode.adapters.staging.storage import Seen, Storage
from headnode.adapters.staging.uploads import part_name, same_so_far

_FTP, _SSH = 21, 22
_RECEIVED = 1 << 16  # bytes that are read of a connection at once: the server goes on meanwhile
_OPENSSH = re.compile(r"SSH-2\.0-OpenSSH_(\d{1,3})\.(\d{1,3})")
_MOST_REQUESTS = 64  # without an answer


def open_other(url: str, credential: Credential, timeout: float) -> Storage:
    """Return a driver for a URL of one of these schemes.

    Raises:  ImportError when its library is not there; TransferFailed; OSError.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme == "s3":
        from headnode.adapters.staging.s3_storage import S3Storage

        return S3Storage(credential, timeout)
    return (FtpStorage if scheme == "ftp" else SftpStorage)(parts, credential, timeout)


@contextlib.contextmanager
def _told_by(*kinds: type[Exception]) -> Iterator[None]:
    """Let errors of a library, which are no errors of the system, be failures that may pass."""
    try:
        yield
    except kinds as error:
        raise TransferFailed(f"{type(error).__name__}: {str(error)[:300]}") from error


def _path(url: str) -> str:
    """Return the path of a URL on its server; ``/~/`` is the home directory of the user there."""
    path = unquote(urlsplit(url).path)
    return path[3:] or "." if path.startswith("/~/") else path


def _beside(path: str, token: str) -> str:
    folder, name = posixpath.split(path)
    return posixpath.join(folder, part_name(name, token))


def _make_folders(folder: str, made: set[str], make: Callable[[str], object]) -> None:
    """Make a directory and those above it; what cannot be made is told when the file is stored."""
    if folder.strip("/") and folder not in made:
        _make_folders(posixpath.dirname(folder), made, make)
        with contextlib.suppress(OSError, ftplib.error_perm):  # it is there, or another connection makes it
            make(folder)
        made.add(folder)


def _refuse_part(path: str, there: int | None, size: int) -> None:
    """Raises:  ChangedOnTheWay when the server has not as many bytes as were sent."""
    if there != size:
        name = posixpath.basename(path)
        raise ChangedOnTheWay(
            f"the server has {there} bytes of {name!r}, and should have {size}", "see the server"
        )


def _relative(found: str, directory: str) -> str:
    """Return a file of a listing relative to the directory that was listed.

    Raises:  NeverTransferred for one that is not below it: the server says what it likes.
    """
    name = posixpath.relpath(found, directory)
    if name.startswith(("/", "..")) or "\0" in name:
        raise NeverTransferred(f"the server lists {found[:80]!r} below {directory[:80]!r}", "see the server")
    return name


def _fast_transport(paramiko: Any, *opened: Any, **how: Any) -> Any:
    """Return a connection that prefers ciphers which need no checksum of their own."""
    made = paramiko.Transport(*opened, **how)
    options = made.get_security_options()
    options.ciphers = sorted(options.ciphers, key=lambda name: "gcm" not in name)
    return made


def _request_size(version: str) -> int:
    """Return the bytes that a server reads or writes at once; one that gives fewer is asked again and again.

    >>> _request_size("SSH-2.0-OpenSSH_9.2p1 Debian-2"), _request_size("SSH-2.0-mod_sftp")
    (261120, 32768)
    """
    found = _OPENSSH.match(version)
    return 255 * 1024 if found and (int(found[1]), int(found[2])) >= (8, 5) else 32 * 1024


def _ssh_login(parts: SplitResult, credential: Credential) -> dict[str, Any]:
    """Return as whom and by what a user logs in; without a credential by the usual keys."""
    login: dict[str, Any] = {"username": credential.get("user") or parts.username or None}
    if credential.get("password"):
        login |= {"password": credential.get("password"), "look_for_keys": False, "allow_agent": False}
    if credential.path("key_file"):
        login |= {"key_filename": credential.path("key_file"), "look_for_keys": False}
    return login


class SftpStorage:
    """A server that speaks SFTP."""

    def __init__(self, parts: SplitResult, credential: Credential, timeout: float) -> None:
        import paramiko

        self._wrong, self._made = paramiko.SSHException, set[str]()
        self._client = paramiko.SSHClient()
        self._client.load_system_host_keys()
        with contextlib.suppress(OSError):
            self._client.load_system_host_keys("/etc/ssh/ssh_known_hosts")
        self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
        host = parts.hostname or ""
        login = _ssh_login(parts, credential)
        wait = {"timeout": timeout, "banner_timeout": timeout, "auth_timeout": timeout}
        try:
            self._client.connect(
                host,
                parts.port or _SSH,
                **login,
                **wait,
                transport_factory=partial(_fast_transport, paramiko),
            )
            self._sftp = self._client.open_sftp()
            self._request = _request_size(self._client.get_transport().remote_version)
        except paramiko.AuthenticationException:
            fix = "name a credential for it, or put a key into ~/.ssh on the node"
            raise NeverTransferred(f"{host} does not let user {login['username']} in", fix) from None
        except paramiko.BadHostKeyException:
            raise NeverTransferred(
                f"{host} has another key than it had", "see the server; then correct ~/.ssh/known_hosts"
            ) from None
        except paramiko.SSHException as error:
            if "known_hosts" in str(error):
                fix = f"on the node: ssh-keyscan {host} >> ~/.ssh/known_hosts"
                raise NeverTransferred(f"the key of {host} is not known", fix) from None
            raise TransferFailed(f"{host}: {error}") from error
        channel = self._sftp.get_channel()
        if channel is not None:
            channel.settimeout(timeout)

    def fetch(self, url: str, arrival: ArrivingFile, seen: Seen) -> int | None:
        with _told_by(self._wrong):
            return self._fetch(_path(url), arrival, seen)

    def _fetch(self, path: str, arrival: ArrivingFile, seen: Seen) -> int | None:
        about = self._sftp.stat(path)
        size = about.st_size or 0
        begun = arrival.begin(f"{size} {about.st_mtime}")
        seen.expect(size)
        seen(begun)
        with self._sftp.open(path, "rb") as file:
            file.seek(begun)
            if size > begun:
                file.MAX_REQUEST_SIZE = self._request
                file.prefetch(size, _MOST_REQUESTS)
            for data in copied(lambda _: file.read(self._request), seen):
                arrival.write(data)
        return size

    def store(self, file: int, size: int, url: str, token: str, seen: Seen) -> None:
        with _told_by(self._wrong):
            self._store(file, size, _path(url), token, seen)

    def _store(self, file: int, size: int, path: str, token: str, seen: Seen) -> None:
        part = _beside(path, token)
        _make_folders(posixpath.dirname(path), self._made, self._sftp.mkdir)
        begun = self._stored(file, size, part)
        seen(begun)
        with self._sftp.open(part, "r+b" if begun else "wb") as there:
            there.MAX_REQUEST_SIZE = self._request
            there.seek(begun)
            there.set_pipelined(True)
            for data in pieces_of(file, size, seen, begun):
                there.write(data)
        _refuse_part(path, self._sftp.stat(part).st_size, size)
        self._sftp.posix_rename(part, path)

    def forget(self, url: str, token: str) -> None:
        with _told_by(self._wrong):
            self._sftp.remove(_beside(_path(url), token))

    def _stored(self, file: int, size: int, part: str) -> int:
        try:
            there = self._sftp.stat(part).st_size or 0
        except FileNotFoundError:
            return 0

        def end(begin: int) -> bytes:
            with self._sftp.open(part, "rb") as stored:
                stored.seek(begin)
                return bytes(stored.read(there - begin))

        return same_so_far(file, size, there, end)

    def below(self, url: str) -> Iterator[str]:
        top = _path(url).rstrip("/")
        yield from (_relative(found, top) for found in self._walk(top))

    def _walk(self, folder: str) -> Iterator[str]:
        import stat

        for entry in sorted(self._sftp.listdir_attr(folder), key=lambda one: str(one.filename)):
            path = posixpath.join(folder, posixpath.basename(entry.filename))
            if stat.S_ISDIR(entry.st_mode or 0):
                yield from self._walk(path)
            elif stat.S_ISREG(entry.st_mode or 0):
                yield path

    def close(self) -> None:
        self._client.close()


class FtpStorage:
    """A server that speaks FTP."""

    def __init__(self, parts: SplitResult, credential: Credential, timeout: float) -> None:
        from fsspec.implementations.ftp import FTPFileSystem

        self._made: set[str] = set()  # directories
        try:
            self._fs = FTPFileSystem(
                parts.hostname,
                parts.port or _FTP,
                username=credential.get("user") or parts.username or None,
                password=credential.get("password") or None,
                timeout=timeout,
                skip_instance_cache=True,
            )
        except ftplib.Error as error:
            raise _ftp_failure(error, parts.hostname or "") from None

    def fetch(self, url: str, arrival: ArrivingFile, seen: Seen) -> int | None:
        path = _path(url)
        try:
            about = self._fs.info(path)
            size = about.get("size")
            begun = arrival.begin(f"{size} {about.get('modify', '')}")
            seen.expect(size)
            seen(begun)
            self._fs.ftp.voidcmd("TYPE I")
            with self._fs.ftp.transfercmd(f"RETR {path}", rest=begun or None) as there:
                for data in copied(lambda _: there.recv(_RECEIVED), seen):
                    arrival.write(data)
            self._fs.ftp.voidresp()
        except ftplib.Error as error:
            raise _ftp_failure(error, path) from None
        return int(size) if size is not None else None

    def store(self, file: int, size: int, url: str, token: str, seen: Seen) -> None:
        path = _path(url)
        part = _beside(path, token)
        try:
            _make_folders(posixpath.dirname(path), self._made, self._fs.ftp.mkd)
            begun = self._stored(file, size, part)
            seen(begun)
            os.lseek(file, begun, os.SEEK_SET)
            with os.fdopen(os.dup(file), "rb") as data:
                command = f"APPE {part}" if begun else f"STOR {part}"
                self._fs.ftp.storbinary(command, data, CHUNK, lambda sent: seen(len(sent)))
            _refuse_part(path, self._fs.ftp.size(part), size)
            self._fs.ftp.rename(part, path)
        except ftplib.Error as error:
            raise _ftp_failure(error, path) from None

    def forget(self, url: str, token: str) -> None:
        with contextlib.suppress(ftplib.Error):
            self._fs.ftp.delete(_beside(_path(url), token))

    def _stored(self, file: int, size: int, part: str) -> int:
        ftp = self._fs.ftp
        ftp.voidcmd("TYPE I")
        try:
            there = ftp.size(part) or 0
        except ftplib.error_perm:
            return 0

        def end(begin: int) -> bytes:
            with ftp.transfercmd(f"RETR {part}", rest=begin or None) as stored, stored.makefile("rb") as data:
                found: bytes = data.read(CHUNK)  # whatever more the server sends
            ftp.voidresp()
            return found

        return same_so_far(file, size, there, end)

    def below(self, url: str) -> Iterator[str]:
        top = _path(url).rstrip("/")
        try:
            found = self._fs.find(top)
        except ftplib.Error as error:
            raise _ftp_failure(error, top) from None
        yield from (_relative(path, top) for path in found)

    def close(self) -> None:
        with contextlib.suppress(OSError, ftplib.Error, EOFError):
            self._fs.ftp.close()


def _ftp_failure(error: ftplib.Error, where: str) -> TransferFailed:
    said = f"{where}: {str(error)[:200]}"
    if isinstance(error, ftplib.error_perm):
        return NeverTransferred(said, "correct the URL, or name a credential that may do it")
    return TransferFailed(said)
