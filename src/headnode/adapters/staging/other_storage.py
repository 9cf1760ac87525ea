"""FTP and SFTP.

Uploads are written beside their names, go on where they stopped, and are renamed.  SFTP takes hosts only that
the user or the system knows."""

import contextlib
import ftplib
import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from headnode.adapters.staging.arrival import CHUNK, ArrivingFile, copied, pieces_of
from headnode.adapters.staging.credentials import Credential
from headnode.adapters.staging.failures import CHECK_SERVER, ChangedOnTheWay, NeverTransferred, TransferFailed
from headnode.adapters.staging.storage import Seen, Storage
from headnode.adapters.staging.uploads import part_name, same_so_far

_FTP, _SSH = 21, 22
_WINDOW, _MAX_PACKET = 1 << 24, 1 << 18  # bytes of a channel of ssh: each packet costs the same
_RECEIVED = 1 << 18  # bytes that are read of a connection at once: the server goes on meanwhile
_SENT = 1 << 22  # bytes that are given to the kernel at once
MAX_ENTRIES = 200_000  # of all directories below one, files and directories
MAX_LINES = 1_000  # of an answer by FTP
DEEPEST = 100  # directories in each other
_MAX_ENTRY = 65536  # bytes of a line of a listing
_MAX_SIZE = 19  # digits
_UNKNOWN_COMMAND = ("500", "501", "502", "504")  # RFC 959, "Reply Codes"
_LONG_LINE = re.compile(r"([-a-zA-Z])\S{9,}\s+\d+\s+\S+\s+\S+\s+\d+\s+\w{3}\s+\d{1,2}\s+[\d:]{4,5} (.+)")
_OPENSSH = re.compile(r"SSH-2\.0-OpenSSH_(\d{1,3})\.(\d{1,3})")
_MAX_REQUESTS = 64  # without an answer


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
def _library_errors_as_failures(*kinds: type[Exception]) -> Iterator[None]:
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


def _make_folders(folder: str, existing: set[str], make: Callable[[str], object]) -> None:
    """Make a directory and those above it; a failure shows when the file is stored."""
    if folder.strip("/") and folder not in existing:
        _make_folders(posixpath.dirname(folder), existing, make)
        with contextlib.suppress(OSError, ftplib.error_perm):  # it is there, or another connection makes it
            make(folder)
        existing.add(folder)


def _refuse_part(path: str, there: int | None, size: int) -> None:
    """Raises:  ChangedOnTheWay when the server has not as many bytes as were sent."""
    if there != size:
        name = posixpath.basename(path)
        raise ChangedOnTheWay(
            f"the server has {there} bytes of {name!r}, and should have {size}", CHECK_SERVER
        )


def walked(top: str, entries: Callable[[str], Iterable[tuple[str, bool]]]) -> Iterator[str]:
    """Yield the files below a directory, relative to it; `entries` lists one, and says what is a directory.

    Raises:  NeverTransferred for a name that is none, and beyond bounds: the server says what it likes.
    """
    folders, count = [""], 0
    while folders:
        folder = folders.pop()
        files: list[str] = []
        below: list[str] = []
        for name, is_folder in entries(posixpath.join(top, folder) if folder else top):
            count += 1
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise NeverTransferred(f"the server lists {name[:80]!r} in {folder[:80]!r}", CHECK_SERVER)
            if count > MAX_ENTRIES or folder.count("/") >= DEEPEST:
                raise NeverTransferred(
                    f"the server lists more than {MAX_ENTRIES:,} names below {top[:80]!r}, "
                    f"or directories that are more than {DEEPEST} deep",
                    "name the files, or put them into archives",
                )
            (below if is_folder else files).append(posixpath.join(folder, name))
        yield from sorted(files)
        folders += sorted(below, reverse=True)


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
    match = _OPENSSH.match(version)
    return 255 * 1024 if match and (int(match[1]), int(match[2])) >= (8, 5) else 32 * 1024


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
            transport = self._client.get_transport()
            self._sftp = paramiko.SFTPClient.from_transport(transport, _WINDOW, _MAX_PACKET)
            self._request = _request_size(transport.remote_version)
        except paramiko.AuthenticationException:
            fix = "name a credential for it, or put a key into ~/.ssh on the node"
            raise NeverTransferred(f"{host} does not let user {login['username']} in", fix) from None
        except paramiko.BadHostKeyException:
            raise NeverTransferred(
                f"{host} has another key than it had", "ask its owner; then correct ~/.ssh/known_hosts"
            ) from None
        except paramiko.SSHException as error:
            if "known_hosts" in str(error):
                fix = f"on the node: ssh-keyscan {host} >> ~/.ssh/known_hosts"
                raise NeverTransferred(f"the key of {host} is not known", fix) from None
            raise TransferFailed(f"{host}: {error}") from error
        channel = self._sftp.get_channel()
        if channel is not None:
            channel.settimeout(timeout)

    def fetch(self, url: str, arrival: ArrivingFile, progress: Seen) -> int | None:
        with _library_errors_as_failures(self._wrong):
            return self._fetch(_path(url), arrival, progress)

    def _fetch(self, path: str, arrival: ArrivingFile, progress: Seen) -> int | None:
        about = self._sftp.stat(path)
        size = about.st_size or 0
        begun = arrival.begin(f"{size} {about.st_mtime}")
        progress.expect(size)
        progress(begun)
        with self._sftp.open(path, "rb") as file:
            file.seek(begun)
            if size > begun:
                file.MAX_REQUEST_SIZE = self._request
                file.prefetch(size, _MAX_REQUESTS)
            for data in copied(lambda _: file.read(self._request), progress):
                arrival.write(data)
        return size

    def store(self, file: int, size: int, url: str, token: str, progress: Seen) -> None:
        with _library_errors_as_failures(self._wrong):
            self._store(file, size, _path(url), token, progress)

    def _store(self, file: int, size: int, path: str, token: str, progress: Seen) -> None:
        part = _beside(path, token)
        _make_folders(posixpath.dirname(path), self._made, self._sftp.mkdir)
        begun = self._stored(file, size, part)
        progress(begun)
        with self._sftp.open(part, "r+b" if begun else "wb") as there:
            there.MAX_REQUEST_SIZE = self._request
            there.seek(begun)
            there.set_pipelined(True)
            for data in pieces_of(file, size, progress, begun):
                there.write(data)
        _refuse_part(path, self._sftp.stat(part).st_size, size)
        self._sftp.posix_rename(part, path)

    def forget(self, url: str, token: str) -> None:
        with _library_errors_as_failures(self._wrong):
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
        with _library_errors_as_failures(self._wrong):
            yield from walked(_path(url).rstrip("/") or "/", self._entries)

    def _entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        for entry in self._sftp.listdir_iter(folder):
            mode = entry.st_mode or 0
            if entry.filename not in (".", "..") and (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                yield entry.filename, stat.S_ISDIR(mode)

    def close(self) -> None:
        self._client.close()


class _FtpConnection(ftplib.FTP):
    """A connection whose server does not answer without end."""

    def getmultiline(self) -> str:
        """Return an answer, as the library does, which takes any number of lines."""
        first = line = self.getline()
        lines = [line]
        while first[3:4] == "-" and not (line[:3] == first[:3] and line[3:4] != "-"):
            if len(lines) > MAX_LINES:
                raise ftplib.error_proto(  # noqa: S321 - it is what the library raises
                    f"an answer with more than {MAX_LINES} lines"
                )
            line = self.getline()
            lines.append(line)
        return "\n".join(lines)


class FtpStorage:
    """A server that speaks FTP."""

    def __init__(self, parts: SplitResult, credential: Credential, timeout: float) -> None:
        self._made: set[str] = set()  # directories
        user = credential.get("user") or parts.username or ""
        with _ftp_failures(parts.hostname or ""):
            self._ftp = _FtpConnection(timeout=timeout)
            self._ftp.connect(parts.hostname or "", parts.port or _FTP)
            self._ftp.login(user, credential.get("password"))
            self._ftp.voidcmd("TYPE I")

    def fetch(self, url: str, arrival: ArrivingFile, progress: Seen) -> int | None:
        path = _path(url)
        with _ftp_failures(path):
            size, changed = self._size(path), self._reply("MDTM", path)
            begun = arrival.begin(f"{size} {changed}" if size is not None and changed else "")
            progress.expect(size)
            progress(begun)
            room = memoryview(bytearray(_RECEIVED))
            with self._ftp.transfercmd(f"RETR {path}", rest=begun or None) as there:
                while length := there.recv_into(room):
                    progress(length)
                    arrival.write(room[:length])
            self._ftp.voidresp()
        return size

    def _size(self, path: str) -> int | None:
        reply = self._reply("SIZE", path)
        return int(reply) if reply.isascii() and reply.isdigit() and len(reply) < _MAX_SIZE else None

    def _reply(self, command: str, path: str) -> str:
        """Return what the server says of a file; "" when it does not."""
        try:
            return self._ftp.sendcmd(f"{command} {path}").partition(" ")[2].strip()
        except ftplib.error_perm:
            return ""

    def store(self, file: int, size: int, url: str, token: str, progress: Seen) -> None:
        path = _path(url)
        part = _beside(path, token)
        with _ftp_failures(path):
            _make_folders(posixpath.dirname(path), self._made, self._ftp.mkd)
            begun = self._stored(file, size, part)
            progress(begun)
            there = self._ftp.transfercmd(f"APPE {part}" if begun else f"STOR {part}")
            with there, os.fdopen(os.dup(file), "rb", 0) as data:
                while begun < size and (sent := there.sendfile(data, begun, min(_SENT, size - begun))):
                    progress(sent)
                    begun += sent
            self._ftp.voidresp()
            _refuse_part(path, self._ftp.size(part), size)
            self._ftp.rename(part, path)

    def forget(self, url: str, token: str) -> None:
        with contextlib.suppress(ftplib.Error):
            self._ftp.delete(_beside(_path(url), token))

    def _stored(self, file: int, size: int, part: str) -> int:
        def end(begin: int) -> bytes:
            stored = self._ftp.transfercmd(f"RETR {part}", rest=begin or None)
            with stored, stored.makefile("rb") as data:
                found: bytes = data.read(CHUNK)  # whatever more the server sends
            self._ftp.voidresp()
            return found

        return same_so_far(file, size, self._size(part) or 0, end)

    def below(self, url: str) -> Iterator[str]:
        top = _path(url).rstrip("/") or "/"
        with _ftp_failures(top):
            yield from walked(top, self._entries)

    def _entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield the name of each file and directory in a directory, and whether it is a directory."""
        try:
            listed, read = self._ftp.transfercmd(f"MLSD {folder}"), _entry_for_machines
        except ftplib.error_perm as error:
            if str(error)[:3] not in _UNKNOWN_COMMAND:
                raise
            listed, read = self._ftp.transfercmd(f"LIST {folder}"), _entry_for_people
        with listed as there, there.makefile("rb") as lines:
            while line := lines.readline(_MAX_ENTRY):
                entry = read(line.decode().rstrip("\r\n"))
                if entry is not None:
                    yield entry
        self._ftp.voidresp()

    def close(self) -> None:
        with contextlib.suppress(OSError, ftplib.Error, EOFError):
            self._ftp.close()


def _entry_for_machines(line: str) -> tuple[str, bool] | None:
    """Return a name of a listing, and whether it is a directory; None for this directory and that above.

    Source:  RFC 3659, "Listings for Machine Processing".

    >>> _entry_for_machines("type=dir;modify=20260101120000; a b"), _entry_for_machines("type=cdir; .")
    (('a b', True), None)
    """
    facts, _, name = line.partition(" ")
    kind = next((each[5:] for each in facts.lower().split(";") if each.startswith("type=")), "")
    return (name, kind == "dir") if kind in ("file", "dir") else None


def _entry_for_people(line: str) -> tuple[str, bool] | None:
    """Return the same of a line as `ls -l` prints it; links and devices are left out.

    Raises:  NeverTransferred for any other line.

    >>> _entry_for_people("drwxr-xr-x 2 ftp ftp 4096 Nov 27 10:00 a b"), _entry_for_people("total 4")
    (('a b', True), None)
    """
    match = _LONG_LINE.fullmatch(line)
    if match is None and not line.startswith("total "):
        raise NeverTransferred(f"the server lists {line[:80]!r}, which is not understood", "name the files")
    return None if match is None or match[1] not in "-d" else (match[2], match[1] == "d")


@contextlib.contextmanager
def _ftp_failures(where: str) -> Iterator[None]:
    """Let refusals of a server be failures that may pass, or not."""
    try:
        yield
    except ftplib.Error as error:
        message = f"{where}: {str(error)[:200]}"
        if isinstance(error, ftplib.error_perm):
            fix = "correct the URL, or name a credential that may do it"
            raise NeverTransferred(message, fix) from None
        raise TransferFailed(message) from None
