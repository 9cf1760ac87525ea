"""Credentials that the user has left with the head: asked for when a transfer needs them, and kept nowhere.

Source:  docs/contracts/01-local-protocol.md; docs/decisions/0027-hn-on-nodes.md.
"""

import json
import os
import socket
from pathlib import Path
from typing import Any

from headnode.adapters.staging.failures import NeverTransferred, TransferFailed
from headnode.adapters.wire.frame_codec import HEADER, frame, size_of

PATIENCE = 60.0  # seconds for agent and head to answer
_LARGEST = 1 << 20  # bytes of an answer
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
            connection.settimeout(PATIENCE)
            _connect(connection, path)
            if agent:
                _ask(connection, {"task": os.environ.get("HEADNODE_TASK", "")})
            answer = _ask(connection, {"verb": "delegated_credential", "name": name})
    except (OSError, EOFError, ValueError) as error:
        raise TransferFailed(f"the head cannot be asked for the credential {name!r}: {error}") from None
    values = answer.get("values")
    return values if isinstance(values, dict) else None


def _connect(connection: socket.socket, path: Path) -> None:
    """Connect to a socket whose path may be too long for an address."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _ask(connection: socket.socket, question: dict[str, str]) -> dict[str, Any]:
    """Raises:  TransferFailed for a refusal; OSError, EOFError, ValueError."""
    connection.sendall(frame(json.dumps(question).encode()))
    answer = json.loads(_read(connection, size_of(_read(connection, HEADER), _LARGEST)))
    if answer.get("ok") is True:
        return dict(answer)
    what, fix = str(answer.get("what", "the head refuses"))[:300], str(answer.get("fix", ""))[:300]
    raise (NeverTransferred if answer.get("code") == _LASTING else TransferFailed)(what, fix)


def _read(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            raise EOFError("it hung up")
        found += piece
    return bytes(found)
