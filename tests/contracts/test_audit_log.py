"""The audit log: what is said to be written is there, whatever becomes of its file."""

import asyncio
import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from headnode.adapters.identity import audit_log
from headnode.adapters.identity.audit_log import QUICK_DISK, AuditLog
from headnode.apps.server.api.access import AUDIT_BLOCK, audit_page, lines_from_end
from headnode.apps.server.doors.tls import MAX_FAILED_LOGINS, FailedLogins
from headnode.core.model.errors import NotFound, Unavailable

BY_THREAD = -1.0  # seconds: every disk is slower


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("quick", [QUICK_DISK, BY_THREAD])
def test_each_entry_is_a_line_of_a_file_for_its_owner_alone(tmp_path: Path, quick: float) -> None:
    async def write() -> None:
        log = AuditLog(tmp_path / "audit.log", quick)
        log.make_ready()
        await asyncio.gather(*(log.append({"job": job}) for job in range(50)))
        log.close()

    asyncio.run(write())
    assert [entry["job"] for entry in written(tmp_path / "audit.log")] == list(range(50))
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_what_was_written_before_stays(tmp_path: Path) -> None:
    async def write(number: int) -> None:
        log = AuditLog(tmp_path / "audit.log")
        await log.append({"n": number})
        log.close()

    asyncio.run(write(1))
    asyncio.run(write(2))
    assert [entry["n"] for entry in written(tmp_path / "audit.log")] == [1, 2]


def test_a_file_that_was_moved_away_is_followed_by_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    async def write() -> None:
        log = AuditLog(path)
        await log.append({"n": 1})
        path.rename(tmp_path / "audit.log.1")
        log.make_ready()
        await log.append({"n": 2})
        log.close()

    asyncio.run(write())
    assert [entry["n"] for entry in written(path)] == [2]
    assert [entry["n"] for entry in written(tmp_path / "audit.log.1")] == [1]


def test_nothing_is_changed_while_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "audit.log").mkdir()
    with pytest.raises(Unavailable) as refused:
        AuditLog(tmp_path / "audit.log").make_ready()
    assert refused.value.code == "audit"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")
    (tmp_path / "audit.log").symlink_to(tmp_path / "precious")
    with pytest.raises(Unavailable):
        AuditLog(tmp_path / "audit.log").make_ready()
    assert not (tmp_path / "precious").read_text()


def test_nothing_is_changed_when_there_is_no_room_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "ROOM", 1 << 62)  # no disk has that
    with pytest.raises(Unavailable) as refused:
        AuditLog(tmp_path / "audit.log").make_ready()
    assert "no space" in refused.value.what


def test_the_log_of_the_head_tells_once_when_it_cannot_be_written_and_when_it_can_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "audit.log").mkdir()
    audit = AuditLog(tmp_path / "audit.log")
    assert [audit.problem() for _ in range(3)] == ["Is a directory"] * 3
    (tmp_path / "audit.log").rmdir()
    assert [audit.problem() for _ in range(3)] == [""] * 3
    audit.close()
    found = [record.getMessage() for record in caplog.records]
    assert [" cannot be written: Is a directory" in line for line in found] == [True, False]
    assert "can be written again" in found[1]


@pytest.mark.parametrize("quick", [QUICK_DISK, BY_THREAD])
def test_a_line_that_came_too_late_is_written_when_it_can_be(tmp_path: Path, quick: float) -> None:
    path = tmp_path / "audit.log"

    async def write() -> None:
        log = AuditLog(path, quick)
        await log.append({"n": 1})
        path.unlink()
        path.mkdir()
        with pytest.raises(Unavailable) as late:
            await log.append({"n": 2})
        assert late.value.code == "audit-late"
        with pytest.raises(Unavailable):
            log.make_ready()
        path.rmdir()
        log.make_ready()
        await log.append({"n": 3})
        log.close()

    asyncio.run(write())
    assert [entry["n"] for entry in written(path)] == [2, 3]


@pytest.mark.parametrize("size", [0, 1, AUDIT_BLOCK - 1, AUDIT_BLOCK, AUDIT_BLOCK + 1, 3 * AUDIT_BLOCK])
def test_lines_come_from_the_end_whatever_their_length(tmp_path: Path, size: int) -> None:
    lines = [b"a" * size + b"!", b"b", b"c" * (size // 2) + b"?"]
    (tmp_path / "log").write_bytes(b"\n".join(lines) + b"\n")
    assert list(lines_from_end(tmp_path / "log")) == lines[::-1]


def test_pages_are_chosen_by_job_user_time_and_number(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    entries = [
        {"when": "2026-01-01T00:00:00.000+00:00", "user": "ada", "job": 1},
        {"when": "2026-01-02T00:00:00.000+00:00", "user": "bob", "jobs": [1, 2]},
        {"when": "2026-01-03T00:00:00.000+00:00", "user": "root", "owner": "ada", "job": 3},
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"when": "torn')
    assert audit_page(path) == entries
    assert audit_page(path, job=1) == entries[:2]
    assert audit_page(path, user="ada") == [entries[0], entries[2]]
    assert audit_page(path, since="2026-01-02") == entries[1:]
    assert audit_page(path, limit=1) == entries[2:]
    with pytest.raises(NotFound):
        audit_page(tmp_path / "none")


def test_failed_logins_are_written_one_by_one_only_up_to_a_number_and_counted_then() -> None:
    failed = FailedLogins()
    assert [failed.note(1000.0) for _ in range(MAX_FAILED_LOGINS)] == [0] * MAX_FAILED_LOGINS
    assert [failed.note(1059.9) for _ in range(5)] == [None] * 5
    assert failed.note(1060.0) == 5
    assert failed.note(1060.0) == 0
    assert failed.note(10.0) == 0  # a clock that was set back does not silence it


def test_a_machine_that_can_start_no_thread_delays_the_log_and_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write() -> None:
        log = AuditLog(tmp_path / "audit.log", quick=BY_THREAD)

        def start(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as without_threads:
            without_threads.setattr(threading.Thread, "start", start)
            with pytest.raises(Unavailable, match="audit-late"):
                await asyncio.wait_for(log.append({"n": 1}), 5)
        await asyncio.wait_for(log.append({"n": 2}), 5)
        log.close()

    asyncio.run(write())
    assert [entry["n"] for entry in written(tmp_path / "audit.log")] == [1, 2]
