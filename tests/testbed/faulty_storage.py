"""An HTTP server of files that misbehaves as a path says: cut, silent, slow, wrong, busy, in circles.

Below ``/dav`` it speaks WebDAV and adds to files.  Faults of what it takes are joined by hyphens:
``/dav-cut/NAME``; ``repr``, ``digest``, ``adler``, ``md5`` and ``amz`` name the checksum that it tells.
"""

import base64
import hashlib
import socket
import ssl
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest


class FaultyStorage:
    """Serves the files of a directory below ``/`` and below ``/FAULT/``, and takes files by PUT."""

    def __init__(self, directory: Path, certificate: ssl.SSLContext | None = None) -> None:
        """With a certificate by https."""
        self.directory = directory
        self.asked: list[tuple[str, str, str]] = []  # method, path, Range
        self.headers: list[dict[str, str]] = []
        self.times = Counter[str]()
        self.hold = threading.Event()  # set: what is held goes on
        handler = type("Handler", (_Handler,), {"storage": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http{'s' * bool(certificate)}://127.0.0.1:{self._server.server_address[1]}"
        if certificate is not None:
            self._server.socket = certificate.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, name: str, data: bytes) -> str:
        """Add a file; return its SHA-256."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return hashlib.sha256(data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    storage: FaultyStorage

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def handle(self) -> None:
        """Serve a connection; clients may be killed."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def _note(self) -> tuple[str, str, int]:
        """Return the fault, the name of the file, and how often it was asked for."""
        path = self.path.partition("?")[0]
        self.storage.asked.append((self.command, self.path, self.headers.get("Range", "")))
        self.storage.headers.append(dict(self.headers))
        asked = f"{'PUT' if self.command == 'PATCH' else self.command} {path}"
        self.storage.times[asked] += 1
        _, first, *rest = path.split("/", 2)
        fault = first if rest else ""
        return fault, rest[0] if rest else first, self.storage.times[asked]

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        fault, name, times = self._note()
        path = self.storage.directory / name
        if fault.isdigit() and not (fault in ("500", "429", "503") and times > 2):
            retry = {"Retry_After": "1"} if fault == "429" else {}
            self._send(int(fault), b"no", **retry)
        elif fault == "circle":
            self._send(302, Location=self.path)
        elif fault in ("elsewhere", "inward"):
            host = "localhost" if fault == "elsewhere" else "127.0.0.2"
            self._send(302, Location=f"http://{host}:{self.server.server_address[1]}/{name}")
        elif fault == "private" and self.headers.get("Authorization") != "Bearer secret-token":
            self._send(401, b"who?")
        elif not path.is_file():
            self._send(404, b"nothing")
        else:
            self._file(fault, path.read_bytes(), times)

    def _file(self, fault: str, data: bytes, times: int) -> None:
        tag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        if fault == "changing":
            tag, data = f'"{times}"', data[:-1] + str(times).encode()
        first, asked = 0, self.headers.get("Range", "")
        if asked and self.headers.get("If-Range", tag) == tag:
            first = int(asked.removeprefix("bytes=").partition("-")[0])
        body = data[first:]
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        if fault != "untold":
            self.send_header("ETag", tag)
        length = len(body) + (7 if fault == "longer" else 0)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if fault in ("cut", "silent", "changing") and times < 3:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if fault != "silent":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
        elif fault == "slow":
            self._slowly(body)
        elif fault == "paced":
            self._in_steps(body)
        elif fault == "held":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.storage.hold.wait(60)
            self.wfile.write(body[len(body) // 2 :])
        else:
            self.wfile.write(body)
            if fault == "longer":
                self.close_connection = True

    def _in_steps(self, body: bytes) -> None:
        step = len(body) // 8 + 1
        for at in range(0, len(body), step):
            try:
                self.wfile.write(body[at : at + step])
                self.wfile.flush()
            except OSError:
                self.close_connection = True
                return
            time.sleep(0.03)

    def _slowly(self, body: bytes) -> None:
        for byte in body[:40]:
            try:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
            except OSError:
                return
            time.sleep(0.2)
        self.close_connection = True

    def do_PUT(self) -> None:
        fault, name, times = self._note()
        size = int(self.headers["Content-Length"])
        faults = fault.split("-")
        if "cut" in faults and times < 3:  # and what came has the name that it was sent to
            self.storage.put(name, self._kept(name) + self.rfile.read(size // 2))
            self.close_connection = True
            return
        data = self.rfile.read(size)
        if len(data) < size:  # who sent it was killed
            self.close_connection = True
            return
        status = next((int(each) for each in faults if each.isdigit()), 0)
        if status == 507 or (status and times < 3):
            retry = {"Retry_After": "1"} if status == 429 else {}
            self._send(status, **retry)
            return
        if fault == "held":
            self.storage.hold.wait(60)
        if "short" in faults and times < 2:
            data = data[: size // 2]
        if "altered" in faults:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if "lost" not in faults:
            self.storage.put(name, self._kept(name) + data)
        self._send(201, **self._told(faults, data))

    do_PATCH = do_PUT

    def _kept(self, name: str) -> bytes:
        """Return what a request adds to."""
        path = self.storage.directory / name
        return path.read_bytes() if self.headers.get("X-Update-Range") == "append" else b""

    def _told(self, faults: list[str], data: bytes) -> dict[str, str]:
        """Return the headers about a file."""
        md5 = hashlib.md5(data, usedforsecurity=False)
        sha256 = base64.b64encode(hashlib.sha256(data).digest()).decode()
        shown = {
            "repr": {"Repr_Digest": f"sha-256=:{sha256}:"},
            "digest": {"Digest": f"SHA-256={sha256}"},
            "adler": {"Digest": f"adler32={zlib.adler32(data):08x}"},
            "md5": {"Content_MD5": base64.b64encode(md5.digest()).decode()},
            "amz": {"x_amz_request_id": "1"},
        }
        found = {"ETag": f'"{md5.hexdigest()}"'}
        for each in faults:
            found |= shown.get(each, {})
        return found

    def do_HEAD(self) -> None:
        fault, name, _ = self._note()
        path = self.storage.directory / name
        if "unseen" in fault:
            self._send(403)
        elif not path.is_file():
            self._send(404)
        else:
            data = path.read_bytes()
            self._send(200, Content_Length=str(len(data)), **self._told(fault.split("-"), data))

    def do_OPTIONS(self) -> None:
        fault, _, _ = self._note()
        dav = {"DAV": "1, 2, sabredav-partialupdate", "Allow": "GET, PUT, MOVE, PATCH"}
        self._send(200, **(dav if fault.startswith("dav") else {}))

    def do_MOVE(self) -> None:
        _, name, _ = self._note()
        target = self.headers["Destination"].rpartition("/")[2]
        (self.storage.directory / name).rename(self.storage.directory / target)
        self._send(201)

    def do_DELETE(self) -> None:
        _, name, _ = self._note()
        (self.storage.directory / name).unlink(missing_ok=True)
        self._send(204)

    def do_POST(self) -> None:
        _, name, _ = self._note()
        self.rfile.read(int(self.headers["Content-Length"]))
        self._send(302, Location=f"http://localhost:{self.server.server_address[1]}/{name}")


def storage_fixture(**files: bytes) -> Callable[..., Iterator[FaultyStorage]]:
    """Return a fixture: a storage for each test, with these files."""

    @pytest.fixture
    def storage(tmp_path: Path) -> Iterator[FaultyStorage]:
        (tmp_path / "storage").mkdir()
        with FaultyStorage(tmp_path / "storage") as storage:
            for name, data in files.items():
                storage.put(name, data)
            yield storage

    return storage
