"""FTP, SFTP and S3 by real servers on this machine: files and directories both ways, and what is wrong."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import botocore.session
import pytest
from test_transfers import TransferProcess

from headnode.adapters.staging.s3_storage import PART
from testbed.cutting_relay import cutting_relay
from testbed.debian_packages import CannotInstall, install
from testbed.faulty_storage import FaultyStorage
from testbed.ftp_server import ftp_server
from testbed.gridftp_server import GridFtpServer, gridftp_server
from testbed.processes import free_address
from testbed.s3_server import S3Server, s3_server

DATA = os.urandom(3_000_000)
TIMEOUT = 60.0  # seconds for servers that were just started


class Place(NamedTuple):
    """A directory of storage: its URL, the directory it is here if it is one, and how it is spoken to.

    `log`: what an S3 server says of requests; `endpoint` where it is.
    """

    url: str
    directory: Path | None
    file: dict[str, Any]
    log: list[str] = []  # noqa: RUF012 - a new one is given where there is any
    endpoint: str = ""


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


@pytest.fixture(scope="module")
def storage_of_s3() -> Iterator[S3Server]:
    for name in ("botocore", "moto", "flask"):
        pytest.importorskip(name)
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(tmp_path: Path, storage_of_s3: S3Server) -> Place:
    storage_of_s3.begin_again()
    storage_of_s3.ask("PUT", "/bucket")
    keys = 'access_key = "a"\nsecret_key = "b"\n'
    _credential(tmp_path, f'{keys}endpoint = "{storage_of_s3.endpoint}"\n', host="bucket")
    return Place("s3://bucket/d", None, {"credential": "store"}, storage_of_s3.log, storage_of_s3.endpoint)


@pytest.fixture(scope="module")
def gridftp() -> Iterator[GridFtpServer]:
    try:
        with gridftp_server() as server:
            yield server
    except CannotInstall as why:
        pytest.skip(str(why))


@pytest.fixture
def gsiftp(tmp_path: Path, gridftp: GridFtpServer, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Files in a directory of this test, which the user of the server can enter."""
    directory = gridftp.directory / tmp_path.name
    directory.mkdir()
    directory.chmod(0o777)
    monkeypatch.setenv("X509_CERT_DIR", str(gridftp.authorities))
    _credential(tmp_path, f'proxy = "{gridftp.proxy}"\n', host="localhost")
    return Place(f"{gridftp.url}/{directory.name}", directory, {"credential": "store"})


def test_a_file_goes_by_gridftp_and_comes_back_the_same(gsiftp: Place, scratch: Path) -> None:
    (scratch / "x").write_bytes(DATA)
    out = {"path": "x", "url": f"{gsiftp.url}/x", **gsiftp.file}
    assert transfer(scratch, "out", out) == ["done", len(DATA)]
    assert transfer(scratch, "in", {**out, "path": "y"})[0] == "done"
    assert (scratch / "y").read_bytes() == DATA
    word, why = transfer(scratch, "in", {**out, "url": f"{gsiftp.url}/missing"})
    assert (word, "attempt 1 of 3" in why) == ("failed", True), why


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("after", [200, 6_000], ids=["greeting", "login"])
def test_a_file_comes_whole_by_gridftp_though_the_connection_is_cut(
    gsiftp: Place, scratch: Path, direction: str, after: int
) -> None:
    parts = urlsplit(gsiftp.url)
    theirs = gsiftp.directory or Path()
    ((scratch if direction == "out" else theirs) / "x").write_bytes(DATA)
    with cutting_relay(parts.port or 0, after) as (port, passed):
        file = {"path": "x", "url": f"gsiftp://localhost:{port}{parts.path}/x", **gsiftp.file}
        word, found = transfer(scratch, direction, file)
    assert (word, len(passed) > 1) == ("done", True), found
    assert ((theirs if direction == "out" else scratch) / "x").read_bytes() == DATA


def test_a_file_of_gridftp_that_has_another_length_than_the_job_says_has_no_name(
    gsiftp: Place, scratch: Path
) -> None:
    (gsiftp.directory or Path()).joinpath("x").write_bytes(DATA)
    file = {"path": "x", "url": f"{gsiftp.url}/x", "size": 7, **gsiftp.file}
    word, found = transfer(scratch, "in", file)
    assert (word, "and should have 7" in found, "attempt 2 of 3" in found) == ("failed", True, True), found
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("direction", ["in", "out"])
def test_what_a_gridftp_server_forbids_is_not_tried_again(
    gsiftp: Place, scratch: Path, direction: str
) -> None:
    closed = (gsiftp.directory or Path()) / "closed"
    closed.mkdir()
    (closed / "x").write_bytes(DATA)
    closed.chmod(0o700 if os.geteuid() == 0 else 0)  # the server runs tasks of another user then
    (scratch / "x").write_bytes(DATA)
    word, found = transfer(scratch, direction, {"path": "x", "url": f"{gsiftp.url}/closed/x", **gsiftp.file})
    closed.chmod(0o700)
    assert (word, "attempt 1 of 3" in found, "correct the URL" in found) == ("failed", True, True), found


def test_a_gridftp_server_that_does_not_answer_is_tried_as_often_as_the_job_says(
    gsiftp: Place, scratch: Path
) -> None:
    port = free_address().rpartition(":")[2]
    word, found = transfer(scratch, "in", {"path": "x", "url": f"gsiftp://localhost:{port}/x", **gsiftp.file})
    assert (word, "attempt 3 of 3" in found, "globus-url-copy" in found) == ("failed", True, True), found


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


@pytest.mark.parametrize("first", ["that-of-the-file", "another"])
def test_an_upload_by_s3_goes_on_with_the_parts_that_are_those_of_the_file(
    s3: Place, scratch: Path, first: str
) -> None:
    data = os.urandom(PART * 2 + 1000)
    part = data[:PART] if first == "that-of-the-file" else bytes(PART)
    client = botocore.session.get_session().create_client(
        "s3", aws_access_key_id="a", aws_secret_access_key="b", endpoint_url=s3.endpoint
    )
    begun = client.create_multipart_upload(Bucket="bucket", Key="d/x")["UploadId"]
    client.upload_part(Bucket="bucket", Key="d/x", UploadId=begun, PartNumber=1, Body=part)
    (scratch / "x").write_bytes(data)
    out = {"path": "x", "url": f"{s3.url}/x", **s3.file}
    assert transfer(scratch, "out", out) == ["done", len(data)]
    assert client.get_object(Bucket="bucket", Key="d/x")["Body"].read() == data
    sent = [line for line in s3.log if "PUT /bucket/d/x?" in line and "Number=1" in line]
    assert len(sent) == (1 if first == "that-of-the-file" else 2)
    left = client.list_multipart_uploads(Bucket="bucket").get("Uploads", ())
    assert len(left) == (0 if first == "that-of-the-file" else 1)  # that of others is left alone


@pytest.mark.parametrize("fault", ["500", "429", "cut", "short", "altered"])
def test_an_object_is_what_was_sent_whatever_the_storage_did_before(
    scratch: Path, tmp_path: Path, fault: str
) -> None:
    pytest.importorskip("botocore")
    (tmp_path / "storage").mkdir()
    with FaultyStorage(tmp_path / "storage") as storage:
        keys = f'access_key = "a"\nsecret_key = "b"\nendpoint = "{storage.url}"\n'
        _credential(tmp_path, keys, host=f"the-{fault}")
        (scratch / "x").write_bytes(DATA)
        out = {"path": "x", "url": f"s3://the-{fault}/x", "credential": "store"}
        word, found = transfer(scratch, "out", out)
    if fault == "altered":
        assert (word, "the storage has the checksum" in found, "attempt 2 of 3" in found) == (
            "failed",
            True,
            True,
        )
    else:
        assert (word, (tmp_path / "storage" / "x").read_bytes() == DATA) == ("done", True), found


def test_a_result_that_is_cut_on_its_way_by_sftp_goes_on_where_it_stopped(
    sftp: Place, scratch: Path, tmp_path: Path
) -> None:
    """What the server has not written yet when the connection ends is lost: at most a window of 2 MB."""
    parts, data = urlsplit(sftp.url), DATA * 4
    (scratch / "x").write_bytes(data)
    with cutting_relay(parts.port or 0, len(data) * 2 // 3) as (port, passed):
        known = tmp_path / "home" / ".ssh" / "known_hosts"
        known.write_text(known.read_text().replace(f":{parts.port} ", f":{port} "))
        out = {"path": "x", "url": f"sftp://127.0.0.1:{port}{parts.path}/x", **sftp.file}
        assert transfer(scratch, "out", out) == ["done", len(data)]
    assert {path.name: path.read_bytes() for path in Path(parts.path).iterdir()} == {"x": data}
    assert sum(passed) < len(data) * 5 // 4  # and not two thirds once more


@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_url_with_a_line_end_adds_no_command_of_ftp(ftp: Place, scratch: Path, direction: str) -> None:
    assert ftp.directory is not None
    (ftp.directory / "b").write_text("b")
    (scratch / "x").write_text("x")
    file = {"path": "x", "url": f"{ftp.url}/a%0d%0aDELE%20b", **ftp.file}
    word, why = transfer(scratch, direction, file)
    assert (word, "attempt 1 of 3" in why) == ("failed", True), why
    assert [path.name for path in ftp.directory.iterdir()] == ["b"]


@pytest.mark.parametrize("times", [1, 9], ids=["once", "always"])
def test_a_result_that_is_cut_on_its_way_by_ftp_goes_on_where_it_stopped(
    scratch: Path, tmp_path: Path, times: int
) -> None:
    directory = tmp_path / "storage"
    directory.mkdir()
    _credential(tmp_path, 'user = "ann"\npassword = "secret"\n')
    (scratch / "x").write_bytes(DATA)
    with ftp_server(directory, "secret", cuts=times) as url:
        out = {"path": "x", "url": f"{url}/x", "credential": "store"}
        word, found = transfer(scratch, "out", out, attempts=3 if times == 1 else 1)
    if times == 1:
        assert (word, {path.name: path.read_bytes() for path in directory.iterdir()}) == ("done", {"x": DATA})
    else:
        assert (word, "attempt 1 of 1" in found, list(directory.iterdir())) == ("failed", True, []), found


def test_private_addresses_are_refused_by_every_driver(place: Place, scratch: Path) -> None:
    file = {"path": "x", "url": f"{place.url}/x", **place.file}
    word, why = transfer(scratch, "in", file, networks=["10.0.0.0/8"])
    assert (word, "127.0.0.1 is not a public address" in why) == ("failed", True), why


def test_a_host_whose_key_is_not_known_is_not_trusted(sftp: Place, scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / ".ssh" / "known_hosts").write_text("")
    file = {"path": "x", "url": f"{sftp.url}/x", **sftp.file}
    word, why = transfer(scratch, "in", file)
    assert (word, "is not known; on the node: ssh-keyscan" in why) == ("failed", True), why
