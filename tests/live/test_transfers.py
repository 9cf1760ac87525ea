"""The transfer process alone: what it brings is exact or not there at all, and what it says helps."""

import json
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateways import write_certificate

from headnode.adapters.own_python import module_command
from headnode.adapters.processes.staging import MODULE
from testbed.faulty_storage import FaultyStorage, storage_fixture

DATA = os.urandom(300_000)
LOCAL = ["127.0.0.0/8", "::1/128"]


storage = storage_fixture(data=DATA)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


class TransferProcess:
    """A transfer process; what it says is read line by line."""

    def __init__(self, scratch: Path, direction: str, files: list[dict[str, Any]], **how: Any) -> None:
        order = {
            **{"directory": str(scratch), "token": "7.1.1.1-ab", "home": str(scratch.parent / "home")},
            **{"attempts": 3, "timeout": 30, "networks": LOCAL, "at_once": 4},
            **{"direction": direction, "files": files, **how},
        }
        found = os.memfd_create("order")
        os.write(found, json.dumps(order).encode())
        os.lseek(found, 0, os.SEEK_SET)
        self.command = [*module_command(MODULE)]
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{found}', "bash", *self.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(found,),
        )
        os.close(found)

    def lines(self) -> Iterator[list[Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def last(self) -> list[Any]:
        """Return its last word, when it has ended."""
        found = list(self.lines())
        self.close()
        return found[-1] if found else []

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.peak = used.ru_maxrss * 1024  # bytes


def bring(scratch: Path, url: str, **file: Any) -> list[Any]:
    how = {key: file.pop(key) for key in ("attempts", "timeout", "networks") if key in file}
    return TransferProcess(scratch, "in", [{"path": "x", "url": url, **file}], **how).last()


def take(scratch: Path, url: str, path: str = "x", **file: Any) -> list[Any]:
    return TransferProcess(scratch, "out", [{"path": path, "url": url, **file}]).last()


def only(scratch: Path) -> dict[str, bytes]:
    """Return all files of a directory, also those whose names begin with a dot."""
    return {path.name: path.read_bytes() for path in scratch.iterdir()}


@pytest.mark.parametrize("fault", ["", "untold/", "500/", "429/", "elsewhere/"])
def test_a_file_comes_whole_whatever_the_server_did_before(
    storage: FaultyStorage, scratch: Path, fault: str
) -> None:
    assert bring(scratch, f"{storage.url}/{fault}data", mode=0o700)[0] == "done"
    assert only(scratch) == {"x": DATA}
    assert (scratch / "x").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("is_known", [True, False])
def test_a_server_is_believed_by_https_only_if_its_authority_is_known(
    tmp_path: Path, scratch: Path, is_known: bool
) -> None:
    certificate, key = write_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    folder = tmp_path / "home" / ".config" / "headnode" / "credentials"
    folder.mkdir(parents=True)
    (folder / "site.toml").write_text(f'hosts = ["127.0.0.1"]\nauthority = "{certificate}"\n')
    (folder / "site.toml").chmod(0o600)
    (tmp_path / "storage").mkdir()
    with FaultyStorage(tmp_path / "storage", context) as storage:
        storage.put("data", DATA)
        known = {"credential": "site"} if is_known else {}
        word, found = bring(scratch, f"{storage.url}/data", attempts=1, **known)
    assert (word, only(scratch)) == (("done", {"x": DATA}) if is_known else ("failed", {})), found
    assert is_known or "certificate" in found.lower(), found


@pytest.mark.parametrize(("fault", "timeout"), [("cut", 30), ("silent", 1)])
def test_a_connection_that_is_cut_or_silent_goes_on_where_it_stopped(
    storage: FaultyStorage, scratch: Path, fault: str, timeout: int
) -> None:
    assert bring(scratch, f"{storage.url}/{fault}/data", attempts=9, timeout=timeout) == ["done", len(DATA)]
    assert only(scratch) == {"x": DATA}
    half = len(DATA) // 2
    asked = [asked for _, _, asked in storage.asked]
    if fault == "silent":  # on a busy machine other moments are silent, too
        asked = list(dict.fromkeys(asked))
    assert asked == ["", f"bytes={half}-", f"bytes={half + half // 2}-"]


def test_a_file_that_changes_between_two_attempts_is_never_put_together(
    storage: FaultyStorage, scratch: Path
) -> None:
    assert bring(scratch, f"{storage.url}/changing/data")[0] == "done"
    assert only(scratch) == {"x": DATA[:-1] + b"3"}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("longer", "was cut"),
        ("404", "answers GET with 404 .*; correct the URL"),
        ("403", "403 .*; request access to it"),
        ("401", "401 .*; name a credential"),
        ("507", "507"),
        ("circle", "leads in a circle"),
    ],
)
def test_a_failure_says_what_from_where_which_attempt_and_what_to_do(
    storage: FaultyStorage, scratch: Path, fault: str, words: str
) -> None:
    import re

    word, why = bring(scratch, f"{storage.url}/{fault}/data?key=secret", attempts=2)
    assert word == "failed"
    assert re.search(words, why), why
    assert re.match(rf"'x' was not transferred from {storage.url}/{fault}/data \(attempt [12] of 2\)", why)
    assert "secret" not in why
    assert "x" not in only(scratch)


@pytest.mark.parametrize("status", ["401", "403", "404", "507"])
def test_what_cannot_get_better_is_not_tried_again(
    storage: FaultyStorage, scratch: Path, status: str
) -> None:
    assert bring(scratch, f"{storage.url}/{status}/data", attempts=5)[0] == "failed"
    assert len(storage.asked) == 1


def test_the_attempts_of_the_job_are_all_that_are_made(storage: FaultyStorage, scratch: Path) -> None:
    assert "attempt 2 of 2" in bring(scratch, f"{storage.url}/502/data", attempts=2)[1]
    assert len(storage.asked) == 2


def test_a_server_that_is_too_slow_is_given_up(storage: FaultyStorage, scratch: Path) -> None:
    why = bring(scratch, f"{storage.url}/slow/data", attempts=1, timeout=1)[1]
    assert "less than 1024 bytes came in 1 s" in why


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"size": 7}, "it has 300000 bytes, and should have 7"),
        ({"checksum": "sha256:" + "0" * 64}, "its checksum is sha256:"),
    ],
)
def test_what_is_not_as_it_should_be_never_has_its_name(
    storage: FaultyStorage, scratch: Path, wrong: dict[str, Any], words: str
) -> None:
    word, why = bring(scratch, f"{storage.url}/data", **wrong)
    assert (word, words in why) == ("failed", True), why
    assert only(scratch) == {}
    assert len(storage.asked) == 2  # it might have been changed on the way, once


def test_a_right_checksum_is_no_obstacle(storage: FaultyStorage, scratch: Path) -> None:
    right = storage.put("other", b"other")
    assert bring(scratch, f"{storage.url}/other", size=5, checksum=f"sha256:{right.upper()[:0]}{right}") == [
        "done",
        5,
    ]


def test_a_killed_process_leaves_no_half_file_and_the_next_goes_on(
    storage: FaultyStorage, scratch: Path
) -> None:
    files = [{"path": "x", "url": f"{storage.url}/held/data"}]
    first = TransferProcess(scratch, "in", files)
    part = scratch / ".x.part-7.1.1.1-ab"
    while not part.exists() or part.stat().st_size < len(DATA) // 2:
        assert first.process.poll() is None
        os.sched_yield()
    os.kill(first.process.pid, signal.SIGKILL)
    found = first.last()  # nothing yet, or how far it was at some moment before
    assert not found or (found[:3] == ["moved", 0, 1] and found[3] <= len(DATA) // 2), found
    assert not (scratch / "x").exists()
    storage.hold.set()
    assert TransferProcess(scratch, "in", files).last()[0] == "done"
    assert only(scratch) == {"x": DATA}
    assert storage.asked[-1][2] == f"bytes={len(DATA) // 2}-"


def test_it_ends_when_nobody_wants_the_files_any_more(storage: FaultyStorage, scratch: Path) -> None:
    process = TransferProcess(scratch, "in", [{"path": "x", "url": f"{storage.url}/held/data"}])
    assert process.process.stdin is not None
    process.process.stdin.close()
    assert process.process.wait(30) == 1
    assert process.process.stdout is not None
    process.process.stdout.close()


def test_results_are_put_and_tried_again(storage: FaultyStorage, scratch: Path) -> None:
    (scratch / "x").write_bytes(DATA)
    assert take(scratch, f"{storage.url}/new")[0] == "done"
    assert take(scratch, f"{storage.url}/500/again")[0] == "done"
    assert (storage.directory / "new").read_bytes() == (storage.directory / "again").read_bytes() == DATA
    assert "507" in take(scratch, f"{storage.url}/507/full")[1]


@pytest.mark.parametrize("fault", ["429", "cut", "short-unseen", "dav", "dav-cut", "dav-short", "dav-500"])
def test_a_result_arrives_whole_whatever_the_server_did_before(
    storage: FaultyStorage, scratch: Path, fault: str
) -> None:
    (scratch / "x").write_bytes(DATA)
    (storage.directory / "data").unlink()
    assert take(scratch, f"{storage.url}/{fault}/new")[0] == "done"
    assert only(storage.directory) == {"new": DATA if fault != "short-unseen" else DATA[: len(DATA) // 2]}


def test_a_result_has_its_name_on_a_webdav_server_when_it_is_whole_and_goes_on_where_it_stopped(
    storage: FaultyStorage, scratch: Path
) -> None:
    (scratch / "x").write_bytes(DATA)
    assert take(scratch, f"{storage.url}/dav-cut/new")[0] == "done"
    part = "/dav-cut/.new.part-7.1.1.1-ab"
    asked = [(method, path) for method, path, _ in storage.asked if method not in ("HEAD", "GET")]
    sent = [("PUT", part), ("PATCH", part), ("PATCH", part)]
    assert asked == [("OPTIONS", "/dav-cut/new"), *_with_options(sent), ("MOVE", part)]


def _with_options(sent: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return requests with what is asked again after a connection was given up."""
    return [each for one in sent for each in (one, ("OPTIONS", "/dav-cut/new"))][:-1]


@pytest.mark.parametrize("text", ["repr", "digest", "adler", "md5", "amz"])
def test_a_result_that_arrives_altered_is_noticed_if_the_server_tells_a_checksum(
    storage: FaultyStorage, scratch: Path, text: str
) -> None:
    (scratch / "x").write_bytes(DATA)
    assert take(scratch, f"{storage.url}/{text}/right")[0] == "done"
    word, why = take(scratch, f"{storage.url}/dav-altered-{text}/wrong")
    assert (word, "the server has the checksum" in why, "attempt 2 of 3" in why) == ("failed", True, True), (
        why
    )
    assert sorted(only(storage.directory)) == ["data", "right"]


def test_a_result_that_a_server_takes_and_does_not_have_is_no_success(
    storage: FaultyStorage, scratch: Path
) -> None:
    (scratch / "x").write_bytes(DATA)
    word, why = take(scratch, f"{storage.url}/lost/x")
    assert (word, "does not have it" in why) == ("failed", True), why


def test_a_signed_url_is_used_for_nothing_but_the_put(storage: FaultyStorage, scratch: Path) -> None:
    (scratch / "x").write_bytes(DATA)
    assert take(scratch, f"{storage.url}/dav/x?signature=1")[0] == "done"
    assert [method for method, _, _ in storage.asked] == ["PUT"]


def test_a_result_that_is_not_there_is_named_and_the_others_are_saved(
    storage: FaultyStorage, scratch: Path, tmp_path: Path
) -> None:
    (scratch / "b").write_bytes(b"b")
    files = [
        {"path": "a", "url": f"file://{tmp_path}/out/a"},
        {"path": "b", "url": f"file://{tmp_path}/out/b"},
    ]
    word, why = TransferProcess(scratch, "out", files).last()
    assert word == "failed"
    assert "does not exist; correct the path or the URL, or let the program write the file" in why
    assert only(tmp_path / "out") == {"b": b"b"}


def test_directories_go_both_ways_with_all_that_is_in_them(scratch: Path, tmp_path: Path) -> None:
    source = tmp_path / "from"
    (source / "deep" / "er").mkdir(parents=True)
    for name in ("a b", "deep/ä", "deep/er/c"):
        (source / name).write_text(name)
    (source / "link").symlink_to(source / "deep")
    files = [{"path": "in/", "url": f"file://{source}/", "directory": True}]
    assert TransferProcess(scratch, "in", files).last()[0] == "done"
    files = [{"path": "in/", "url": f"file://{tmp_path}/to/", "directory": True}]
    assert TransferProcess(scratch, "out", files).last()[0] == "done"
    for place in (scratch / "in", tmp_path / "to"):
        found = {
            str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()
        }
        assert found == {name: name for name in ("a b", "deep/ä", "deep/er/c")}


def test_http_says_that_it_has_no_directories(storage: FaultyStorage, scratch: Path) -> None:
    files = [{"path": "d/", "url": f"{storage.url}/d/", "directory": True}]
    assert "HTTP has no list of files; name the files" in TransferProcess(scratch, "in", files).last()[1]


def test_private_addresses_are_refused_unless_they_are_allowed(storage: FaultyStorage, scratch: Path) -> None:
    for networks in ([], ["10.0.0.0/8"]):
        word, why = bring(scratch, f"{storage.url}/data", networks=networks)
        assert word == "failed"
        assert "127.0.0.1 is not a public address" in why
        assert "hn cluster params TransferNetworks=127.0.0.1" in why
    assert storage.asked == []


def test_a_redirect_to_a_private_address_is_refused_too(storage: FaultyStorage, scratch: Path) -> None:
    found = bring(scratch, f"{storage.url}/inward/data", networks=["127.0.0.1/32"], attempts=1)
    assert found[0] != "done"
    assert "127.0.0.2 is not a public address" in found[1]
    assert [path for _, path, _ in storage.asked] == ["/inward/data"]


def test_a_url_with_a_line_end_adds_no_header(storage: FaultyStorage, scratch: Path) -> None:
    for url in (f"{storage.url}/data%0d%0aX-Added:%201", f"{storage.url}/data\r\nX-Added: 1"):
        assert bring(scratch, url)[0] == "failed"
        assert take(scratch, url, path="missing")[0] == "failed"
    assert not any("X-Added" in found for found in storage.headers)


def credential(scratch: Path, text: str, mode: int = 0o600) -> None:
    folder = scratch.parent / "home" / ".config" / "headnode" / "credentials"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "store.toml").write_text(text)
    (folder / "store.toml").chmod(mode)


def test_a_credential_is_used_for_its_hosts_and_for_no_redirect_to_others(
    storage: FaultyStorage, scratch: Path
) -> None:
    credential(scratch, 'hosts = ["127.0.0.1"]\ntoken = "secret-token"\n')
    assert bring(scratch, f"{storage.url}/private/data", credential="store")[0] == "done"
    assert storage.headers[-1]["Authorization"] == "Bearer secret-token"
    assert bring(scratch, f"{storage.url}/elsewhere/data", credential="store")[0] == "done"
    assert ["Authorization" in found for found in storage.headers[-2:]] == [True, False]


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ('hosts = ["127.0.0.1"]\ntoken = "s"\n', 0o644, "can be read by others; chmod 600"),
        ('hosts = ["example.org"]\ntoken = "s"\n', 0o600, "is not for 127.0.0.1"),
        ('token = "secret-token\n', 0o600, "is not TOML"),
        ('token = "s"\n', 0o600, "does not say for which hosts"),
        ('hosts = []\ntokken = "s"\n', 0o600, "unknown key 'tokken'"),
    ],
)
def test_a_credential_that_cannot_be_used_is_never_reported(
    storage: FaultyStorage, scratch: Path, text: str, mode: int, words: str
) -> None:
    credential(scratch, text, mode)
    word, why = bring(scratch, f"{storage.url}/private/data", credential="store")
    assert (word, words in why, "secret-" in why) == ("failed", True, False), why
    assert storage.asked == []


def test_a_pipe_or_a_device_is_no_file(scratch: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        assert "regular file" in bring(scratch, f"file://{path}", attempts=1)[1]


def test_many_files_come_over_few_connections(storage: FaultyStorage, scratch: Path) -> None:
    for number in range(200):
        storage.put(str(number), str(number).encode())
    files = [{"path": f"{number}", "url": f"{storage.url}/{number}"} for number in range(200)]
    assert TransferProcess(scratch, "in", files).last()[0] == "done"
    assert {name: int(data) for name, data in only(scratch).items()} == {str(n): n for n in range(200)}


def test_a_directory_that_becomes_a_link_while_it_is_listed_is_not_followed(
    scratch: Path, tmp_path: Path
) -> None:
    """A program that is left swaps a directory of results for a link: what it leads to is not taken away."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("private")
    (scratch / "d").mkdir()
    (scratch / "d" / "a").write_text("a")
    (scratch / "d" / "link").symlink_to(tmp_path / "private")
    files = [{"path": "d/", "url": f"file://{tmp_path}/out/", "directory": True}]
    assert TransferProcess(scratch, "out", files).last()[0] == "done"
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")}
    assert found == {"a"}


@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_file_whose_name_is_not_utf8_is_named_at_once_and_other_results_are_saved(
    scratch: Path, tmp_path: Path, direction: str
) -> None:
    there = tmp_path / "there"
    place = there if direction == "in" else scratch / "set"
    place.mkdir()
    (place / "result").write_text("x")
    Path(os.fsdecode(bytes(place) + b"/caf\xe9")).write_text("x")
    word, why = TransferProcess(
        scratch, direction, [{"path": "set", "url": there.as_uri(), "directory": True}]
    ).last()
    assert (word, why) == (
        "failed",
        "'set/caf\\udce9' was not transferred: its name is not UTF-8; rename it",
    )
    if direction == "out":
        assert only(there) == {"result": b"x"}
