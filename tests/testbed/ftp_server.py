"""An FTP server on loopback, of pyftpdlib."""

import contextlib
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

_CUT_AFTER = 500_000  # bytes


@contextlib.contextmanager
def ftp_server(directory: Path, password: str = "", cuts: int = 0) -> Iterator[str]:
    """Serve the files of a directory to `ann`, or without a password to everybody; give the URL.

    So many of the files that it is sent are `cuts`: the connection ends when some of them has come.
    """
    servers = pytest.importorskip("pyftpdlib.servers")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import DTPHandler, FTPHandler

    users = DummyAuthorizer()
    with warnings.catch_warnings(action="ignore"):  # everybody may write
        name = "ann" if password else "anonymous"
        users.add_user(name, password, str(directory), perm="elradfmwMT")
    left = [cuts]

    class CuttingData(DTPHandler):
        def handle_read(self) -> None:
            super().handle_read()
            if left[0] and self.receive and self.tot_bytes_received > _CUT_AFTER:
                left[0] -= 1
                self.cmd_channel.close()

        handle_read_event = handle_read  # the library calls this one

    handler = type("Handler", (FTPHandler,), {"authorizer": users, "dtp_handler": CuttingData})
    server = servers.ThreadedFTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"timeout": 0.1, "handle_exit": False})
    thread.start()
    try:
        yield f"ftp://127.0.0.1:{server.address[1]}"
    finally:
        server.close_all()
        thread.join()
