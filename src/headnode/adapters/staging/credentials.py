"""Credentials of the user for storage: files in the home directory that no other user can read.

Without such a file the head is asked for a delegation of that name, which is kept nowhere.

Source:  docs/contracts/01-local-protocol.md; docs/decisions/0027-hn-on-nodes.md.
"""

import json
import os
import re
import socket
import stat
import tomllib
from pathlib import Path
from typing import Any

from headnode.adapters.files.opening import open_plain
from headnode.adapters.staging.failures import NeverTransferred, TransferFailed, reason
from headnode.adapters.wire.frame_codec import HEADER, frame, size_of
from headnode.adapters.wire.peers import unix_address

_MAX_FILE = 65536  # bytes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
KEYS = (
    *("hosts", "user", "password", "token", "key_file", "certificate", "authority"),
    *("access_key", "secret_key", "session_token", "endpoint", "proxy"),
)
PROXY_TEXT = "proxy_text"  # of a delegation: the proxy itself, not its path
_PROXY_SCHEME = "gsiftp"


class Credential:
    """What storage wants to know of the user.  It is not printed."""

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name = name
        self.hosts = frozenset(map(str.lower, values.get("hosts", ())))
        self._values = values

    def __repr__(self) -> str:
        return f"Credential({self.name!r})"

    def get(self, key: str) -> str:
        """Return a value; "" when it is not said."""
        return str(self._values.get(key, ""))

    def path(self, key: str) -> str:
        """Return a value that is a path of the user."""
        return str(Path(self.get(key)).expanduser()) if self.get(key) else ""

    def serves(self, host: str) -> bool:
        """Whether it is meant for a host."""
        return host.lower() in self.hosts


NOBODY = Credential("", {})
"""No credential: the storage does not ask, or the driver finds the user's usual keys."""


def directory_of(home: str) -> Path:
    """Return where credentials of a user are."""
    return Path(home) / ".config" / "headnode" / "credentials"


def read_credential(name: str, home: str, scheme: str, host: str) -> Credential:
    """Return the credential of this name for a host; `NOBODY` without a name.

    Raises:  NeverTransferred when it is not there, not private, not understood, or for other hosts;
             TransferFailed when the head cannot be asked for it.
    """
    if not name:
        return NOBODY
    path = directory_of(home) / f"{name}.toml"
    if not _NAME.fullmatch(name):
        raise NeverTransferred(
            "the name of the credential is not valid", "write the name of a file, without a path"
        )
    credential = Credential(name, _read(path, name))
    if credential.get(PROXY_TEXT):  # it is shown to nobody: only its holder proves who he is
        if scheme == _PROXY_SCHEME:
            return credential
        what = f"the delegation {name!r} is a proxy, which {scheme} cannot use"
        raise NeverTransferred(what, f"take {_PROXY_SCHEME}, or delegate a token")
    if not credential.serves(host):
        hosts = ", ".join(sorted(credential.hosts)) or "none"
        raise NeverTransferred(
            f"the credential {name!r} is not for {host} (its hosts: {hosts})",
            f"add it to hosts in {path} if it may be sent there",
        )
    return credential


def _read(path: Path, name: str) -> dict[str, Any]:
    fix = f"write {path} on this node, with mode 600"
    try:
        file = open_plain(str(path))
    except FileNotFoundError as error:
        if (values := delegated(name)) is not None:
            return values
        raise NeverTransferred(f"the credential {name!r} cannot be read: {reason(error)}", fix) from None
    except OSError as error:
        raise NeverTransferred(f"the credential {name!r} cannot be read: {reason(error)}", fix) from None
    try:
        about = os.fstat(file)
        if about.st_uid != os.geteuid() or about.st_mode & _OTHERS:
            raise NeverTransferred(f"the credential {name!r} can be read by others", f"chmod 600 {path}")
        text = os.read(file, _MAX_FILE + 1)
    finally:
        os.close(file)
    try:
        if len(text) > _MAX_FILE:
            raise ValueError
        values = tomllib.loads(text.decode())
    except ValueError:  # what is wrong may be the secret: it is not told
        raise NeverTransferred(f"the credential {name!r} is not TOML", f"correct {path}") from None
    wrong = next((key for key in values if key not in KEYS), None)
    if wrong is not None:
        raise NeverTransferred(
            f"the credential {name!r} has an unknown key {wrong[:40]!r}", f"the keys are {', '.join(KEYS)}"
        )
    hosts = values.get("hosts")
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise NeverTransferred(
            f"the credential {name!r} does not say for which hosts it is", 'write hosts = ["HOST"] in it'
        )
    return values


_TIMEOUT = 60.0  # seconds for agent and head to answer
_MAX_ANSWER = 1 << 20  # bytes of an answer
_LASTING = "no-delegation"  # the code of the refusal that does not pass by itself


def delegated(name: str) -> dict[str, Any] | None:
    """Return what the head has under a name; None where no head is known.

    Raises:  TransferFailed, for good if there is none of that name.
    """
    agent, state = os.environ.get("HEADNODE_AGENT"), os.environ.get("HEADNODE_STATE")
    if not agent and not state:
        return None
    path = Path(agent) if agent else Path(state or "", "head.sock")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT)
            with unix_address(path) as address:
                connection.connect(address)
            if agent:
                _ask(connection, {"task": os.environ.get("HEADNODE_TASK", "")})
            answer = _ask(connection, {"verb": "delegated_credential", "name": name})
    except (OSError, EOFError, ValueError) as error:
        raise TransferFailed(f"the head cannot be asked for the credential {name!r}: {error}") from None
    values = answer.get("values")
    return values if isinstance(values, dict) else None


def _ask(connection: socket.socket, question: dict[str, str]) -> dict[str, Any]:
    """Raises:  TransferFailed for a refusal; OSError, EOFError, ValueError."""
    connection.sendall(frame(json.dumps(question).encode()))
    answer = json.loads(_receive(connection, size_of(_receive(connection, HEADER), _MAX_ANSWER)))
    if answer.get("ok") is True:
        return dict(answer)
    what, fix = str(answer.get("what", "the head refuses"))[:300], str(answer.get("fix", ""))[:300]
    raise (NeverTransferred if answer.get("code") == _LASTING else TransferFailed)(what, fix)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError("it closed the connection")
        data += piece
    return bytes(data)
