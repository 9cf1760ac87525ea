"""A backup that was damaged or made up restores nothing, and none is written where others can get at it."""

import gzip
import io
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.journal.backup import (
    FORMAT,
    MANIFEST,
    VERSION,
    Manifest,
    files_of,
    restore,
    write_backup,
)
from headnode.adapters.journal.checking import cluster_and_last_event
from headnode.adapters.journal.sqlite import JOURNAL, open_journal
from headnode.core.model.errors import BadRequest, HeadnodeError, WrongState
from headnode.core.model.quantities import Instant
from headnode.core.state.events import ParameterSet

NOW = Instant(1_700_000_000.0)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    journal = open_journal(folder)
    journal.append([ParameterSet(at=NOW, name="JobRetryCount", value="4")])
    journal.close()
    (folder / "name").write_text("lab\n")
    (folder / "authority").mkdir()
    (folder / "authority" / "head.key").write_text("a key\n")
    return folder


def backed_up(state: Path, target: Path) -> Path:
    copy = state.parent / "copy.db"
    copy.unlink(missing_ok=True)
    journal = open_journal(state)
    journal.copy_to(copy)
    journal.close()
    cluster, events = cluster_and_last_event(copy)
    write_backup(target, files_of(state, copy), Manifest(FORMAT, VERSION, "1.0", "lab", cluster, NOW, events))
    return target


def test_a_backup_brings_all_of_it_back_for_its_owner_only(state: Path, tmp_path: Path) -> None:
    backup, again = backed_up(state, tmp_path / "backup"), tmp_path / "again"
    assert restore(backup, again, NOW, skipped=50).manifest.cluster == "lab"
    journal = open_journal(again)
    assert [type(event).__name__ for _, event in journal.replay()] == ["ParameterSet", "JobIdsSkipped"]
    journal.close()
    for name in ("authority/head.key", JOURNAL):
        assert (again / name).stat().st_mode & 0o777 == 0o600
    assert (again / "authority").stat().st_mode & 0o777 == 0o700
    assert (again / "name").read_text() == "lab\n"
    assert [file.name for file in again.iterdir() if file.name.startswith(".")] == []


def test_a_backup_that_was_damaged_anywhere_restores_nothing_else(state: Path, tmp_path: Path) -> None:
    backup = backed_up(state, tmp_path / "backup")
    whole, dice = backup.read_bytes(), random.Random(5)
    refused = 0
    for number, at in enumerate(dice.randrange(len(whole)) for _ in range(60)):
        backup.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << dice.randrange(8))]) + whole[at + 1 :])
        target = tmp_path / f"target-{number}"
        try:
            restore(backup, target, NOW)
        except HeadnodeError:
            refused += 1
            assert list(target.iterdir()) == []
            continue
        assert (target / "authority" / "head.key").read_text() == "a key\n"
    assert refused > 30
    for cut in (0, 10, len(whole) // 2):
        backup.write_bytes(whole[:cut])
        with pytest.raises(HeadnodeError):
            restore(backup, tmp_path / f"cut-{cut}", NOW)


def rewritten(backup: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> None:
    """Write a backup again with its members changed."""
    with tarfile.open(backup) as archive:
        members = [(each.name, archive.extractfile(each)) for each in archive]
        contents = [(name, stream.read()) for name, stream in members if stream is not None]
    with tarfile.open(backup, "w:gz") as archive:
        for made in (change(name, content) for name, content in contents):
            if made is not None:
                info = tarfile.TarInfo(made[0])
                info.size = len(made[1])
                archive.addfile(info, io.BytesIO(made[1]))


DEEP = b'{"x":' + 5000 * b"[" + 5000 * b"]" + b"}"


def with_manifest(**changes: object) -> Callable[[str, bytes], tuple[str, bytes]]:
    def change(name: str, content: bytes) -> tuple[str, bytes]:
        if name != MANIFEST:
            return name, content
        return name, msgspec.json.encode({**msgspec.json.decode(content), **changes})

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda name, content: None if name == JOURNAL else (name, content), "backup-damaged"),
        (lambda name, content: ("../../evil" if name == "name" else name, content), "backup-damaged"),
        (
            lambda name, content: (name, b"other" if name == "authority/head.key" else content),
            "backup-damaged",
        ),
        (with_manifest(version=99, headnode="9.0"), "backup-version"),
        (with_manifest(events=7), "backup-damaged"),
        (with_manifest(cluster_id="another"), "backup-damaged"),
        (lambda name, content: None if name == MANIFEST else (name, content), "no-backup"),
        (lambda name, content: (name, DEEP if name == MANIFEST else content), "backup-damaged"),
    ],
    ids=["no journal", "a path", "another key", "newer", "events", "cluster", "no manifest", "deep"],
)
def test_a_backup_that_was_made_up_restores_nothing(
    state: Path, tmp_path: Path, change: Callable[[str, bytes], tuple[str, bytes] | None], code: str
) -> None:
    backup, target = backed_up(state, tmp_path / "backup"), tmp_path / "deep" / "target"
    rewritten(backup, change)
    with pytest.raises(HeadnodeError) as refused:
        restore(backup, target, NOW)
    assert refused.value.code == code
    assert list(target.iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_no_byte_of_the_archive_inside_a_backup_can_be_changed(state: Path, tmp_path: Path) -> None:
    whole = gzip.decompress(backed_up(state, tmp_path / "backup").read_bytes())
    dice = random.Random(6)
    headers = [at for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar"]
    places = [at + dice.randrange(512) for at in headers * 60]
    places += [dice.randrange(len(whole)) for _ in range(100)]
    refused = []
    for number, at in enumerate(places):
        changed = tmp_path / "changed"
        changed.write_bytes(gzip.compress(whole[:at] + dice.randbytes(1) + whole[at + 1 :], 1))
        try:
            restore(changed, tmp_path / f"again-{number}", NOW)
        except HeadnodeError as error:
            refused.append(error.code)
    assert set(refused) <= {"backup-damaged", "backup-version", "no-backup", "restore-failed"}
    assert len(refused) > len(places) / 3  # some bytes of a header, such as its times, mean nothing


@pytest.mark.skipif(os.geteuid() != 0, reason="a user may restore any file")
def test_root_restores_no_backup_that_another_user_can_change(state: Path, tmp_path: Path) -> None:
    backup = backed_up(state, tmp_path / "backup")
    for change in (lambda: os.chown(backup, 65534, 65534), lambda: backup.chmod(0o666)):
        change()
        with pytest.raises(BadRequest) as refused:
            restore(backup, tmp_path / "again", NOW)
        assert refused.value.code == "backup-owner"
        assert not (tmp_path / "again").exists()
        os.chown(backup, 0, 0)
    backup.chmod(0o600)
    restore(backup, tmp_path / "again", NOW)


def test_nothing_that_is_there_is_overwritten(state: Path, tmp_path: Path) -> None:
    backup = backed_up(state, tmp_path / "backup")
    before = (state / JOURNAL).read_bytes()
    with pytest.raises(WrongState, match="is in use"):
        restore(backup, state, NOW)
    with pytest.raises(BadRequest, match="exists already"):
        backed_up(state, backup)
    assert (state / JOURNAL).read_bytes() == before


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_no_backup_is_written_where_others_may_change_it(state: Path, tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    with pytest.raises(BadRequest, match="others may change"):
        backed_up(state, tmp_path / "open" / "backup")
    assert os.listdir(tmp_path / "open") == []  # noqa: PTH208
