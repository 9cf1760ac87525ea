"""The process that appends to event logs writes as the owner of the job, all or nothing."""

import errno
import os
import resource
from pathlib import Path

import pytest

from headnode.adapters.notify.event_log_writer import EventLogOrder, carry_out

NOBODY = 65534
TEXT = "000 (001.000.000) one\n...\n"


def write(log: Path, text: str = TEXT, uid: int = 0, *, again: bool = False) -> int:
    owner = "nobody" if uid else "root"
    return carry_out(EventLogOrder(1, str(log), owner, uid, uid, text, again))


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a directory in which nobody may write, below directories that nobody may enter."""
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith(("/tmp/", os.environ.get("PYTEST_DEBUG_TEMPROOT", "/tmp/"))):
            folder.chmod(folder.stat().st_mode | 0o011)
    found = tmp_path / "shared"
    found.mkdir()
    os.chown(found, NOBODY, NOBODY)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_log_is_opened_with_the_rights_of_its_owner(shared: Path, tmp_path: Path) -> None:
    assert write(shared / "own.log", uid=NOBODY) == 0
    found = (shared / "own.log").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (NOBODY, NOBODY, 0o644)
    secret = tmp_path / "secret"
    secret.write_text("kept")
    (shared / "link").symlink_to(secret)
    assert write(shared / "link", uid=NOBODY) == errno.EACCES
    assert write(tmp_path / "new.log", uid=NOBODY) == errno.EACCES
    assert write(shared / "link2") == 0
    os.lchown(shared / "link", NOBODY, NOBODY)
    assert write(shared / "link") != 0  # root follows no link of another user
    assert secret.read_text() == "kept"
    assert not (tmp_path / "new.log").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert write(tmp_path / "pipe") in (errno.ENXIO, errno.EINVAL)
    assert write(tmp_path) == errno.EISDIR
    assert write(Path("/dev/full")) == errno.EINVAL
    assert write(tmp_path / "no" / "x.log") == errno.ENOENT


def test_lines_that_do_not_fit_leave_no_part_of_them(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert write(log) == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        error = write(log, "001 (001.000.000) " + "x" * 200 + "\n...\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (error, log.read_text()) == (errno.EFBIG, TEXT)


def test_lines_that_are_there_are_not_written_again_after_a_crash(tmp_path: Path) -> None:
    log, more = tmp_path / "x.log", "001 (001.000.000) two\n...\n"
    assert write(log) == 0
    assert write(log, TEXT + more, again=True) == 0
    assert log.read_text() == TEXT + more
    assert write(log, more) == 0
    assert log.read_text() == TEXT + more + more
