"""FTP, SFTP and S3 by real servers on this machine: files and directories both ways, and what is wrong."""

import os
import pwd
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_transfers import TransferProcess

from testbed.debian_packages import CannotInstall, install
from testbed.ftp_server import ftp_server
from testbed.gridftp_server import gridftp_server
from testbed.processes import free_address

DATA = os.urandom(3_000_000)


class Place(NamedTuple):
    """A directory of storage: its URL, the directory it is here if it is one, and how it is spoken to."""

    url: str
    directory: Path | None
    file: dict[str, Any]


@pytest.fixture
def ftp(tmp_path: Path) -> Iterator[Place]:
    directory = tmp_path / "storage"
    directory.mkdir()
    _credential(tmp_path, 'user = "ann"\npassword = "secret"\n')
    with ftp_server(directory, "secret") as url:
        yield Place(url, directory, {"credential": "store"})


@pytest.fixture
def sftp(tmp_path: Path) -> Iterator[Place]:
    pytest.importorskip("paramiko")
    daemon = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if daemon is None:
        try:
            install("openssh-server")
        except CannotInstall as why:
            pytest.skip(str(why))
        daemon = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    directory, keys = tmp_path / "storage", tmp_path / "keys"
    directory.mkdir()
    keys.mkdir()
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)]
        subprocess.run(command, check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_address().rpartition(":")[2]
    settings = {
        **{"Port": port, "ListenAddress": "127.0.0.1", "HostKey": keys / "host", "PidFile": "none"},
        **{"AuthorizedKeysFile": keys / "user.pub", "StrictModes": "no", "UsePAM": "no"},
        **{"PermitRootLogin": "yes", "Subsystem": "sftp internal-sftp"},
    }
    (keys / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    server = subprocess.Popen(
        [str(daemon), "-D", "-e", "-f", str(keys / "config")], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    assert any("listening" in line for line in server.stderr)
    user = pwd.getpwuid(os.geteuid()).pw_name
    _credential(tmp_path, f'user = "{user}"\nkey_file = "{keys / "user"}"\n')
    known = tmp_path / "home" / ".ssh"
    known.mkdir()
    host = " ".join((keys / "host.pub").read_text().split()[:2])
    (known / "known_hosts").write_text(f"[127.0.0.1]:{port} {host}\n")
    yield Place(f"sftp://127.0.0.1:{port}{directory}", directory, {"credential": "store"})
    server.terminate()
    server.wait(30)
    server.stderr.close()


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[Place]:
    for name in ("s3fs", "moto", "flask"):
        pytest.importorskip(name)
    port = free_address().rpartition(":")[2]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    server = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    assert any("Running on" in line for line in server.stderr)
    threading.Thread(target=server.stderr.read, daemon=True).start()
    keys = 'access_key = "a"\nsecret_key = "b"\n'
    _credential(tmp_path, f'{keys}endpoint = "http://127.0.0.1:{port}"\n', host="bucket")
    import urllib3

    urllib3.request("PUT", f"http://127.0.0.1:{port}/bucket")
    yield Place("s3://bucket/d", None, {"credential": "store"})
    server.kill()
    server.wait(30)
    server.stderr.close()


@pytest.fixture
def gsiftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    try:
        with gridftp_server() as server:
            monkeypatch.setenv("X509_CERT_DIR", str(server.authorities))
            _credential(tmp_path, f'proxy = "{server.proxy}"\n', host="localhost")
            yield Place(server.url, server.directory, {"credential": "store"})
    except CannotInstall as why:
        pytest.skip(str(why))


def test_a_file_goes_by_gridftp_and_comes_back_the_same(gsiftp: Place, scratch: Path) -> None:
    (scratch / "x").write_bytes(DATA)
    out = {"path": "x", "url": f"{gsiftp.url}/x", **gsiftp.file}
    assert transfer(scratch, "out", out) == ["done", len(DATA)]
    assert transfer(scratch, "in", {**out, "path": "y"})[0] == "done"
    assert (scratch / "y").read_bytes() == DATA
    word, why = transfer(scratch, "in", {**out, "url": f"{gsiftp.url}/missing"})
    assert (word, "attempt 1 of 3" in why) == ("failed", True), why


@pytest.fixture(params=["ftp", "sftp", "s3"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def _credential(tmp_path: Path, text: str, host: str = "127.0.0.1") -> None:
    folder = tmp_path / "home" / ".config" / "headnode" / "credentials"
    folder.mkdir(parents=True)
    (folder / "store.toml").write_text(f'hosts = ["{host}"]\n{text}')
    (folder / "store.toml").chmod(0o600)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def transfer(scratch: Path, direction: str, *files: dict[str, Any], **how: Any) -> list[Any]:
    return TransferProcess(scratch, direction, list(files), **how).last()


def test_a_file_goes_there_and_comes_back_the_same(place: Place, scratch: Path) -> None:
    (scratch / "x").write_bytes(DATA)
    out = {"path": "x", "url": f"{place.url}/deep/x", **place.file}
    assert transfer(scratch, "out", out) == ["done", len(DATA)]
    back = {"path": "y", "url": f"{place.url}/deep/x", **place.file}
    assert transfer(scratch, "in", back)[0] == "done"
    assert (scratch / "y").read_bytes() == DATA
    if place.directory is not None:
        assert [path.name for path in (place.directory / "deep").iterdir()] == ["x"]


def test_a_directory_goes_there_and_comes_back_the_same(place: Place, scratch: Path) -> None:
    names = ("d/a", "d/b/c", *(f"d/e/{number}" for number in range(8)))  # several connections make d/e
    for name in names:
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_text(name)
    out = {"path": "d/", "url": f"{place.url}/dir/", "directory": True, **place.file}
    assert transfer(scratch, "out", out)[0] == "done"
    assert transfer(scratch, "in", {**out, "path": "e/"})[0] == "done"
    found = {
        str(p.relative_to(scratch / "e")): p.read_text() for p in (scratch / "e").rglob("*") if p.is_file()
    }
    assert found == {name.removeprefix("d/"): name for name in names}


def test_a_file_that_is_not_there_is_not_asked_for_again(place: Place, scratch: Path) -> None:
    file = {"path": "x", "url": f"{place.url}/missing", **place.file}
    word, why = transfer(scratch, "in", file)
    assert (word, "attempt 1 of 3" in why) == ("failed", True), why


def test_what_has_come_before_is_not_asked_for_again(place: Place, scratch: Path) -> None:
    (scratch / "x").write_bytes(DATA)
    file = {"path": "x", "url": f"{place.url}/x", **place.file}
    assert transfer(scratch, "out", file)[0] == "done"
    half = {"path": "y", "url": f"{place.url}/x", "size": 7, **place.file}
    assert "should have 7" in transfer(scratch, "in", half, attempts=1)[1]
    assert not (scratch / "y").exists()


@pytest.mark.parametrize("end", ["as-the-file", "another"])
def test_an_upload_goes_on_where_it_stopped_if_what_is_there_ends_as_the_file(
    place: Place, scratch: Path, end: str
) -> None:
    if place.directory is None:
        pytest.skip("an object of S3 is there when it is whole")
    half = bytearray(DATA[: len(DATA) // 2])
    half[0] ^= 1  # so it is seen where the rest was added
    if end == "another":
        half[-1] ^= 1
    (place.directory / ".x.part-7.1.1.1-ab").write_bytes(half)
    (scratch / "x").write_bytes(DATA)
    out = {"path": "x", "url": f"{place.url}/x", **place.file}
    assert transfer(scratch, "out", out) == ["done", len(DATA)]
    goes_on = bytes(half[:1]) + DATA[1:]
    assert (place.directory / "x").read_bytes() == (goes_on if end == "as-the-file" else DATA)


def test_private_addresses_are_refused_by_every_driver(place: Place, scratch: Path) -> None:
    file = {"path": "x", "url": f"{place.url}/x", **place.file}
    word, why = transfer(scratch, "in", file, networks=["10.0.0.0/8"])
    assert (word, "127.0.0.1 is not a public address" in why) == ("failed", True), why


def test_a_host_whose_key_is_not_known_is_not_trusted(sftp: Place, scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / ".ssh" / "known_hosts").write_text("")
    file = {"path": "x", "url": f"{sftp.url}/x", **sftp.file}
    word, why = transfer(scratch, "in", file)
    assert (word, "is not known; on the node: ssh-keyscan" in why) == ("failed", True), why
