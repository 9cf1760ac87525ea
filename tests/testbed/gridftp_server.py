"""A GridFTP server of Globus on loopback, with an authority, a host and a user of its own."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from testbed.debian_packages import CannotInstall, install
from testbed.processes import free_address

PACKAGES = ("globus-gridftp-server-progs", "globus-gass-copy-progs", "globus-proxy-utils")
PROGRAMS = ("globus-gridftp-server", "globus-url-copy", "grid-proxy-init")
TIMEOUT = 20.0  # seconds
_WHERE = os.pathsep.join(("/usr/sbin", os.environ.get("PATH", os.defpath)))
_POLICY = """access_id_CA X509 '/O=Tests/CN=Authority'
pos_rights globus CA:sign
cond_subjects globus '"/O=Tests/*"'
"""


class GridFtpServer(NamedTuple):
    """A server, what it serves, a proxy of its user, and the directory of the authorities."""

    url: str
    directory: Path
    proxy: Path
    authorities: Path


@contextlib.contextmanager
def gridftp_server() -> Iterator[GridFtpServer]:
    """Run a server for the files of a new directory, which its user can enter.

    Raises:  CannotInstall when its programs are not there.
    """
    if not all(shutil.which(program, path=_WHERE) for program in PROGRAMS):
        install(*PACKAGES)
    if not all(shutil.which(program, path=_WHERE) for program in PROGRAMS):
        raise CannotInstall("the programs of Globus are not there")
    with tempfile.TemporaryDirectory(prefix="headnode-gridftp-") as made:
        place = Path(made)
        place.chmod(0o755)
        files, keys, authorities = place / "files", place / "keys", place / "authorities"
        for each in (files, keys, authorities):
            each.mkdir()
        files.chmod(0o777)
        _make_keys(keys, authorities)
        with _running(files, keys, authorities) as server:
            yield server


@contextlib.contextmanager
def _running(files: Path, keys: Path, authorities: Path) -> Iterator[GridFtpServer]:
    port = free_address().rpartition(":")[2]
    variables = {**os.environ, "X509_CERT_DIR": str(authorities), "GRIDMAP": str(keys / "gridmap")}
    variables |= {"X509_USER_CERT": str(keys / "host.pem"), "X509_USER_KEY": str(keys / "host.key")}
    command = [str(shutil.which(PROGRAMS[0], path=_WHERE)), "-p", port, "-no-detach"]
    command += ["-control-interface", "127.0.0.1", "-data-interface", "127.0.0.1"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) as server:
        try:
            _wait_for(int(port))
            url = f"gsiftp://localhost:{port}{files}"
            yield GridFtpServer(url, files, keys / "proxy.pem", authorities)
        finally:
            server.terminate()


def _make_keys(keys: Path, authorities: Path) -> None:
    def run(*words: str, **variables: str) -> str:
        done = subprocess.run(
            words, cwd=keys, env={**os.environ, **variables}, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    new = ("-newkey", "rsa:2048", "-nodes")
    run(
        "openssl",
        "req",
        "-x509",
        *new,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/O=Tests/CN=Authority",
    )
    digest = run("openssl", "x509", "-hash", "-noout", "-in", "ca.pem")
    shutil.copy(keys / "ca.pem", authorities / f"{digest}.0")
    (authorities / f"{digest}.signing_policy").write_text(_POLICY)
    for name, subject, more in (
        ("host", "/O=Tests/CN=host\\/localhost", "subjectAltName=DNS:localhost"),
        ("user", "/O=Tests/CN=Ann", "keyUsage=digitalSignature"),
    ):
        run("openssl", "req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        (keys / f"{name}.ext").write_text(more)
        authority = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        out = ("-out", f"{name}.pem", "-extfile", f"{name}.ext")
        run("openssl", "x509", "-req", "-in", f"{name}.csr", *authority, *out)
        (keys / f"{name}.key").chmod(0o600)
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    (keys / "gridmap").write_text(f'"/O=Tests/CN=Ann" {user}\n')
    own = {"X509_CERT_DIR": str(authorities), "X509_USER_CERT": "user.pem", "X509_USER_KEY": "user.key"}
    run("grid-proxy-init", "-q", "-valid", "2:00", "-out", "proxy.pem", **own)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            assert time.monotonic() < deadline, "the GridFTP server does not listen"
            time.sleep(0.02)
