"""Storage that lies, never ends, or leads elsewhere: a transfer says what is wrong, and no more is lost."""

import gzip
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from test_transfers import TransferProcess, bring, only

from headnode.adapters.staging.network_guard import is_allowed
from headnode.adapters.staging.uploads import compare_upload
from testbed.faulty_storage import FaultyStorage
from testbed.hostile_server import after_request, hostile_server

TIMEOUT = 120  # seconds in which a transfer from such a server is over
MAX_MEMORY = 600 << 20  # bytes of a transfer process, whatever a server sends
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def peak_of(scratch: Path, files: list[dict[str, Any]], **how: Any) -> tuple[list[Any], int]:
    """Return what a transfer said at its end, and the peak of its memory in bytes."""
    process = TransferProcess(scratch, "in", files, **{"attempts": 1, "timeout": 5, **how})
    return process.last(), process.peak


def endless(*first: bytes, again: bytes) -> Callable[[socket.socket], Iterable[bytes]]:
    def answer(client: socket.socket) -> Iterable[bytes]:
        after_request(client)
        yield from first
        yield from repeat(again)

    return answer


WITHOUT_END = {
    "headers": endless(HEAD, again=b"X-More: " + b"a" * 1000 + b"\r\n"),
    "one header": endless(HEAD + b"X-Long: ", again=b"a" * 65536),
    "status line": endless(again=b"HTTP/1.1 " + b"a" * 65536),
    "interim answers": endless(again=b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"),
    "chunk extension": endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;a=", again=b"a" * 65536),
    "trailers": endless(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", again=b"X: " + b"a" * 900 + b"\r\n"
    ),
}


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("what", WITHOUT_END)
def test_an_answer_without_end_ends_the_transfer_in_bounded_memory(scratch: Path, what: str) -> None:
    with hostile_server(WITHOUT_END[what]) as host:
        (word, found), peak = peak_of(scratch, [{"path": "x", "url": f"http://{host}/x"}])
    assert peak < MAX_MEMORY
    if word == "done":  # all of the file had come
        assert (what, (scratch / "x").read_bytes()) == ("trailers", b"hello")
    else:
        assert "127.0.0.1" in found
        assert "attempt 1 of 1" in found
        assert not (scratch / "x").exists()


def ftp_answers(data: dict[str, Iterable[bytes]], greeting: Iterable[bytes] = (b"220 hello\r\n",)) -> Any:
    """Return a liar that speaks FTP; `data` is what it sends over the data connection of a command."""

    def answer(client: socket.socket) -> Iterable[bytes]:
        yield from greeting
        with socket.create_server(("127.0.0.1", 0)) as passive:
            passive.settimeout(10)
            high, low = divmod(passive.getsockname()[1], 256)
            words = {
                "PASV": f"227 it is (127,0,0,1,{high},{low})\r\n".encode(),
                "EPSV": b"500 no\r\n",
                "MLSD": b"500 what?\r\n",
                "SIZE": b"213 5\r\n",
                "MDTM": b"213 20260101000000\r\n",
                "USER": b"230 in\r\n",
            }
            for line in client.makefile("r"):
                command = line[:4].strip()
                if command == "MLSD" and "LIST" in data:  # it has been connected to for this already
                    passive.accept()[0].close()
                if command not in data:
                    yield words.get(command, b"200 yes\r\n")
                    continue
                yield b"150 here it comes\r\n"
                transfer, _ = passive.accept()
                with transfer:
                    for piece in data[command]:
                        transfer.sendall(piece)
                yield b"226 done\r\n"

    return answer


def directory(url: str) -> dict[str, Any]:
    return {"path": "d/", "url": url, "directory": True}


def listing(scratch: Path, url: str) -> list[Any]:
    return peak_of(scratch, [directory(url)])[0]


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("line", [b"220-more\r\n", b"220-" + b"a" * 4000])
def test_an_answer_of_ftp_without_end_ends_the_transfer(scratch: Path, line: bytes) -> None:
    with hostile_server(ftp_answers({}, repeat(line))) as host:
        word, found = bring(scratch, f"ftp://{host}/x", attempts=1, timeout=5)
    assert (word, "attempt 1 of 1" in found) == ("failed", True), found


@pytest.mark.timeout(TIMEOUT)
def test_a_listing_of_ftp_without_end_is_given_up_in_bounded_memory(scratch: Path) -> None:
    lines = (b"type=file; %d\r\n" % number for number in range(10**9))
    with hostile_server(ftp_answers({"MLSD": lines})) as host:
        (word, found), peak = peak_of(scratch, [directory(f"ftp://{host}/d/")])
    assert (word, "more than" in found, "put them into archives" in found) == ("failed", True, True), found
    assert peak < MAX_MEMORY


@pytest.mark.timeout(TIMEOUT)
def test_a_directory_of_ftp_that_is_in_itself_is_given_up(scratch: Path) -> None:
    def again() -> Iterator[bytes]:
        yield b"type=dir; d\r\n"

    class Always(dict[str, Iterable[bytes]]):
        def __getitem__(self, key: str) -> Iterable[bytes]:
            return again()

    with hostile_server(ftp_answers(Always(MLSD=()))) as host:
        word, found = listing(scratch, f"ftp://{host}/d/")
    assert (word, "100 deep" in found) == ("failed", True), found


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "a/../../evil", "..", "a\0b"])
def test_no_name_of_a_listing_of_ftp_leads_out_of_the_directory(scratch: Path, name: str) -> None:
    lines = [f"type=file; {name}\r\n".encode()]
    with hostile_server(ftp_answers({"MLSD": lines, "RETR": [b"hello"]})) as host:
        word, found = listing(scratch, f"ftp://{host}/d/")
    assert (word, "the server lists" in found) == ("failed", True), found
    assert [path.name for path in scratch.parent.iterdir()] == ["scratch"]
    assert [path for path in scratch.rglob("*") if path.is_file()] == []


def test_a_server_of_ftp_that_only_lists_for_people_is_understood(scratch: Path) -> None:
    lines = [b"total 8\r\n", b"-rw-r--r--    1 ftp ftp    5 Jan 01 10:00 a b\r\n"]
    lines += [b"lrwxrwxrwx    1 ftp ftp    5 Jan 01  2020 l -> a\r\n"]

    with hostile_server(ftp_answers({"LIST": lines, "RETR": [b"hello"]})) as host:
        word, found = listing(scratch, f"ftp://{host}/d/")
    assert word == "done", found
    assert {path.name: path.read_text() for path in (scratch / "d").iterdir()} == {"a b": "hello"}


def s3_answer(*bodies: Iterable[bytes]) -> Callable[[socket.socket], Iterable[bytes]]:
    def answer(client: socket.socket) -> Iterable[bytes]:
        for body in bodies:
            after_request(client)
            yield HEAD + b"Content-Type: application/xml\r\nConnection: close\r\n\r\n"
            yield from body

    return answer


def s3_place(scratch: Path, host: str) -> dict[str, Any]:
    folder = scratch.parent / "home" / ".config" / "headnode" / "credentials"
    folder.mkdir(parents=True)
    text = f'hosts = ["bucket"]\naccess_key = "a"\nsecret_key = "b"\nendpoint = "http://{host}"\n'
    (folder / "store.toml").write_text(text)
    (folder / "store.toml").chmod(0o600)
    return {"path": "d/", "url": "s3://bucket/d/", "directory": True, "credential": "store"}


PAGE = b'<?xml version="1.0"?><ListBucketResult><IsTruncated>%s</IsTruncated>'


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("key", ["d/../../evil", "d//etc/evil", "d/a/../../../evil"])
def test_no_name_of_a_listing_of_s3_leads_out_of_the_directory(scratch: Path, key: str) -> None:
    pytest.importorskip("botocore")
    body = [PAGE % b"false", f"<Contents><Key>{key}</Key></Contents></ListBucketResult>".encode()]
    with hostile_server(s3_answer(body)) as host:
        file = s3_place(scratch, host)
        word, found = TransferProcess(scratch, "in", [file], attempts=1, timeout=5).last()
    assert (word, "which is not below it" in found) == ("failed", True), found
    assert not [path for path in scratch.rglob("*") if path.is_file()]


@pytest.mark.timeout(TIMEOUT)
def test_an_answer_that_no_library_expects_is_a_failure_with_a_sentence(scratch: Path) -> None:
    """The process died of it, was started again 20 times, and nobody learnt what was wrong."""
    pytest.importorskip("botocore")
    body = [PAGE % b"false", b"<Contents><Size>5</Size></Contents></ListBucketResult>"]
    with hostile_server(s3_answer(body)) as host:
        file = s3_place(scratch, host)
        word, found = TransferProcess(scratch, "in", [file], attempts=1, timeout=5).last()
    assert (word, "is not understood (KeyError: 'Key')" in found) == ("failed", True), found


@pytest.mark.timeout(TIMEOUT)
def test_an_object_that_comes_in_chunks_has_no_length_and_is_whole(scratch: Path) -> None:
    pytest.importorskip("botocore")

    def answer(client: socket.socket) -> Iterable[bytes]:
        after_request(client)
        yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"

    with hostile_server(answer) as host:
        file = s3_place(scratch, host) | {"path": "x", "url": "s3://bucket/x", "directory": False}
        assert TransferProcess(scratch, "in", [file], attempts=1, timeout=5).last() == ["done", 5]
    assert (scratch / "x").read_bytes() == b"hello"


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("end", ["one page", "the same page"])
def test_a_listing_of_s3_without_end_is_given_up_in_bounded_memory(scratch: Path, end: str) -> None:
    pytest.importorskip("botocore")
    more = b"<NextContinuationToken>%d</NextContinuationToken>"
    keys = b"".join(b"<Contents><Key>d/%d</Key></Contents>" % number for number in range(1000))

    def answer(client: socket.socket) -> Iterable[bytes]:
        for page in range(10**9):
            after_request(client)
            if end == "one page":
                yield HEAD + b"Connection: close\r\n\r\n" + PAGE % b"true"
                yield from repeat(keys)
            body = (
                PAGE % b"true" + more % page + keys.replace(b"d/", b"d/%d-" % page) + b"</ListBucketResult>"
            )
            yield HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body

    with hostile_server(answer) as host:
        file = s3_place(scratch, host)
        (word, found), peak = peak_of(scratch, [file])
    assert (word, "attempt" in found or "more than" in found) == ("failed", True), found
    assert peak < 2 * MAX_MEMORY if end == "the same page" else peak < (2 << 30) + MAX_MEMORY


def test_a_packed_answer_is_kept_as_it_is(scratch: Path) -> None:
    """So a file that unpacks to gigabytes stays small: unpacking is for the program of the task."""
    bomb = gzip.compress(bytes(100_000_000))

    def answer(client: socket.socket) -> Iterable[bytes]:
        after_request(client)
        yield HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb

    with hostile_server(answer) as host:
        (word, found), peak = peak_of(scratch, [{"path": "x", "url": f"http://{host}/x"}])
    assert (word, only(scratch)) == ("done", {"x": bomb}), found
    assert peak < MAX_MEMORY


ADDRESSES = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0", "localhost"]
ADDRESSES += ["[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.0.0.1.", "LOCALHOST"]


@pytest.mark.parametrize("scheme", ["http", "ftp"])
@pytest.mark.parametrize("host", ADDRESSES)
def test_no_spelling_of_this_machine_passes_the_check_of_addresses(
    tmp_path: Path, scratch: Path, host: str, scheme: str
) -> None:
    (tmp_path / "storage").mkdir()
    with FaultyStorage(tmp_path / "storage") as storage:
        storage.put("data", b"secret")
        port = storage.url.rpartition(":")[2]
        word, found = bring(scratch, f"{scheme}://{host}:{port}/data", networks=["10.0.0.0/8"], attempts=1)
        assert (word, storage.asked) == ("failed", []), found
    assert (
        "not a public address" in found or "no web address" in found or "resol" in found or "known" in found
    )


NOT_PUBLIC = ["10.0.0.1", "169.254.169.254", "100.64.0.1", "192.168.1.1", "fe80::1%eth0", "fd00::1"]
NOT_PUBLIC += ["::127.0.0.1", "64:ff9b:1::7f00:1", "224.0.0.1", "ff02::1", "255.255.255.255"]
NOT_PUBLIC += ["2001:db8::1", "0.1.2.3"]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_of_the_public_internet_is_refused(address: str) -> None:
    assert not is_allowed(address, ())


@pytest.mark.parametrize(
    "when", ["Mon, 01 Jan 2020 00:00:00 +" + "9" * 30, "Mon, 01 Jan " + "1" * 30 + " 0:0:0 +0"]
)
def test_a_server_that_is_busy_until_a_date_that_is_none_is_tried_again(scratch: Path, when: str) -> None:
    def answer(client: socket.socket) -> Iterable[bytes]:
        after_request(client)
        yield b"HTTP/1.1 503 Busy\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n" % when.encode()

    with hostile_server(answer) as host:
        word, found = bring(scratch, f"http://{host}/x", attempts=2)
    assert (word, "attempt 2 of 2" in found, "with 503" in found) == ("failed", True, True), found


@pytest.mark.parametrize("text", ["a" * 500_000, f"sha-256=:YQ==:{' ' * 500_000}x", "=" * 500_000])
def test_a_checksum_that_a_server_makes_up_holds_no_transfer(tmp_path: Path, text: str) -> None:
    """Headers of one name are joined: 100 of 64 KB.  Each byte was where another checksum might begin."""
    (tmp_path / "x").write_bytes(b"data")
    begun = time.process_time()
    with (tmp_path / "x").open("rb") as file:
        compare_upload({"Repr-Digest": text}, file.fileno(), 4)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("scheme", ["file", "ftp", "gopher", "s3", "sftp", "gsiftp"])
def test_a_redirect_to_another_protocol_is_not_followed(scratch: Path, scheme: str) -> None:
    def answer(client: socket.socket) -> Iterable[bytes]:
        after_request(client)
        yield (
            b"HTTP/1.1 302 Found\r\nLocation: %s:///etc/passwd\r\nContent-Length: 0\r\n\r\n" % scheme.encode()
        )

    with hostile_server(answer) as host:
        word, found = bring(scratch, f"http://{host}/x", attempts=1)
    assert (word, "leads to no web address" in found) == ("failed", True), found


def test_nothing_of_the_environment_leads_a_transfer_through_another_host(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "storage").mkdir()
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")
    with FaultyStorage(tmp_path / "storage") as storage:
        storage.put("data", b"data")
        assert bring(scratch, f"{storage.url}/data")[0] == "done"


def small_disk(place: Path) -> Iterator[Path]:
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system is mounted as root only")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    yield from small_disk(tmp_path / "small")


@pytest.mark.root
def test_a_disk_that_fills_up_while_a_file_comes_is_reported_and_not_tried_again(
    tmp_path: Path, full_disk: Path
) -> None:
    (tmp_path / "storage").mkdir()
    with FaultyStorage(tmp_path / "storage") as storage:
        storage.put("data", bytes(3_000_000))
        word, found = bring(full_disk, f"{storage.url}/data")
    assert word == "failed"
    assert "no space left on device; free some space there" in found
    assert "attempt 1 of 3" in found
    assert not (full_disk / "x").exists()


@pytest.mark.root
def test_a_disk_that_fills_up_while_a_result_goes_keeps_no_part_of_it(scratch: Path, full_disk: Path) -> None:
    (scratch / "x").write_bytes(bytes(3_000_000))
    (full_disk / "x").write_text("before")
    file = {"path": "x", "url": f"file://{full_disk}/x"}
    word, found = TransferProcess(scratch, "out", [file]).last()
    assert (word, "no space left" in found) == ("failed", True), found
    assert {path.name: path.read_text() for path in full_disk.iterdir()} == {"x": "before"}


@pytest.mark.timeout(TIMEOUT)
def test_a_directory_with_too_many_entries_is_refused_without_reading_all(
    scratch: Path, tmp_path: Path
) -> None:
    many = tmp_path / "many"
    many.mkdir()
    code = "import os,sys\nfor n in range(110_000): os.close(os.open(f'{sys.argv[1]}/{n}', os.O_CREAT))"
    subprocess.run([sys.executable, "-c", code, str(many)], check=True)
    for direction in ("in", "out"):
        files = [{"path": "d/", "url": f"file://{many}/", "directory": True}]
        if direction == "out":
            files = [{"path": f"{many}/", "url": f"file://{tmp_path}/there/", "directory": True}]
        word, found = TransferProcess(scratch, direction, files, attempts=1).last()
        assert (word, "more than 100,000 files" in found) == ("failed", True), found
