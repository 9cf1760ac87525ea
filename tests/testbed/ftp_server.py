"""An FTP server on loopback, of pyftpdlib."""

import contextlib
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def ftp_server(directory: Path, password: str = "") -> Iterator[str]:
    """Serve the files of a directory to `ann`, or without a password to everybody; give the URL."""
    pytest.importorskip("fsspec")
    servers = pytest.importorskip("pyftpdlib.servers")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler

    users = DummyAuthorizer()
    with warnings.catch_warnings(action="ignore"):  # everybody may write
        name = "ann" if password else "anonymous"
        users.add_user(name, password, str(directory), perm="elradfmwMT")
    handler = type("Handler", (FTPHandler,), {"authorizer": users})
    server = servers.ThreadedFTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"timeout": 0.1, "handle_exit": False})
    thread.start()
    try:
        yield f"ftp://127.0.0.1:{server.address[1]}"
    finally:
        server.close_all()
        thread.join()
