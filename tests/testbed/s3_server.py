"""A server of S3 on this machine, by moto."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import urllib3

from testbed.processes import free_address

TIMEOUT = 60.0  # seconds for a server that was just started
RESET = "/moto-api/reset"


class S3Server(NamedTuple):
    """A server of S3: its URL, and what it says of requests."""

    endpoint: str
    log: list[str]

    def ask(self, method: str, path: str, body: bytes | None = None) -> None:
        """Send a request as nobody, who may create what is not there."""
        urllib3.request(method, self.endpoint + path, body=body, timeout=TIMEOUT, retries=False)

    def begin_again(self) -> None:
        """Forget all objects, and what was said of requests."""
        self.ask("POST", RESET)
        deadline = time.monotonic() + TIMEOUT
        while not any(RESET in line for line in self.log):  # what was said before it has come, too
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)
        self.log.clear()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server without objects."""
    port = free_address().rpartition(":")[2]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    server = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    log: list[str] = []
    reader = threading.Thread(target=log.extend, args=(server.stderr,))
    try:
        assert any("Running on" in line for line in server.stderr)
        reader.start()
        yield S3Server(f"http://127.0.0.1:{port}", log)
    finally:
        server.kill()
        server.wait(TIMEOUT)
        if reader.ident is not None:
            reader.join(TIMEOUT)
        server.stderr.close()
