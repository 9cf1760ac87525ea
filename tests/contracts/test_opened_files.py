"""Files at paths that another user may change: root opens none but those that are meant."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headnode.adapters.files import local_daemons
from headnode.adapters.files.job_logs import atomic_file
from headnode.adapters.files.opening import (
    NotPlain,
    Redirected,
    directory_of,
    make_own_directory,
    open_below,
    open_named,
    open_own_directory,
    open_plain,
)
from headnode.adapters.staging.arrival import ArrivingFile
from headnode.apps.cli.job_files import files_beside, read_bytes
from headnode.apps.cli.shell import recall, remember
from headnode.core.model.errors import BadRequest
from testbed.other_users import ALICE, being

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root has files that others may not read")


@pytest.fixture
def home() -> Iterator[Path]:
    """Make a directory of a user, or of this one where it is not root's process."""
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        if ROOT:
            os.chown(made, ALICE, ALICE)
        yield Path(made)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Make a file of root that others may not read."""
    path = tmp_path / "secret"
    path.write_text("root's own")
    path.chmod(0o600)
    return path


def content(file: int) -> str:
    with os.fdopen(file, "rb") as opened:
        return opened.read().decode()


def put_link(place: Path, target: Path, user: int = ALICE) -> Path:
    place.symlink_to(target)
    if ROOT:
        os.chown(place, user, user, follow_symlinks=False)
    return place


OPENERS: dict[str, Callable[[str], int]] = {
    "open_plain": open_plain,
    "open_named": open_named,
    "directory_of": lambda path: directory_of(path)[0],
}


@as_root
@pytest.mark.parametrize("opener", OPENERS)
def test_root_follows_no_link_of_a_user(opener: str, home: Path, secret: Path) -> None:
    with pytest.raises(OSError, match=r"link") as refused:
        OPENERS[opener](str(put_link(home / "out", secret)))
    assert isinstance(refused.value, Redirected | NotPlain)


@as_root
@pytest.mark.parametrize("opener", OPENERS)
def test_root_follows_no_directory_that_a_user_has_replaced_by_a_link(
    opener: str, home: Path, secret: Path
) -> None:
    put_link(home / "results", secret.parent)
    with pytest.raises(Redirected, match=f"link of user {ALICE}"):
        OPENERS[opener](str(home / "results" / "secret"))


@as_root
def test_root_follows_its_own_links_and_no_link_of_a_user_behind_them(home: Path, secret: Path) -> None:
    direct = put_link(secret.parent / "direct", Path("secret"), user=0)
    assert content(open_named(str(direct))) == "root's own"
    put_link(secret.parent / "round", home, user=0)
    put_link(home / "out", secret)
    with pytest.raises(Redirected):
        open_named(str(secret.parent / "round" / "out"))


@as_root
def test_root_opens_no_second_name_of_a_file_that_a_user_has_made(home: Path, secret: Path) -> None:
    os.link(secret, home / "mine")
    for opened in (open_plain, open_named):
        with pytest.raises(Redirected, match="hard link"):
            opened(str(home / "mine"))


@pytest.mark.parametrize("user", [pytest.param(0, marks=as_root), pytest.param(ALICE, marks=as_root)])
def test_a_plain_file_is_opened_by_root_and_by_its_owner(user: int, home: Path) -> None:
    (home / "a").mkdir()
    (home / "a" / "file").write_text("seen")
    os.chown(home / "a", ALICE, ALICE)
    with being(user):
        for opened in (open_plain, open_named):
            assert content(opened(str(home / "a" / ".." / "a" / "." / "file"))) == "seen"


@as_root
def test_a_user_may_name_his_own_links(home: Path) -> None:
    (home / "file").write_text("seen")
    with being(ALICE):
        assert content(open_named(str(put_link_as(home / "latest", home / "file")))) == "seen"


def put_link_as(place: Path, target: Path) -> Path:
    place.symlink_to(target)
    return place


def test_what_is_no_plain_file_is_refused_at_once(home: Path) -> None:
    os.mkfifo(home / "pipe")
    (home / "link").symlink_to("/etc/hostname")
    for path in (str(home / "pipe"), str(home), "/dev/null", str(home / "link")):
        with pytest.raises((NotPlain, IsADirectoryError)):
            open_plain(path)


def test_descriptors_of_this_process_can_be_named(home: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"piped")
    os.close(write)
    assert content(open_named(f"/dev/fd/{read}")) == "piped"
    os.close(read)
    with pytest.raises(OSError):
        open_named(str(home / "none"))


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/etc/passwd", "", "a//b", "link", "linked/file"])
def test_nothing_outside_a_directory_is_opened_below_it(name: str, home: Path) -> None:
    inside = home / "inside"
    (inside / "a").mkdir(parents=True)
    (home / "out").write_text("outside")
    (home / "file").write_text("outside")
    (inside / "link").symlink_to(home / "out")
    (inside / "linked").symlink_to(home)
    directory = os.open(inside, os.O_PATH)
    with pytest.raises(OSError):
        open_below(directory, name)
    os.close(directory)


@as_root
def test_a_file_that_root_writes_whole_goes_nowhere_a_user_leads_it(home: Path, secret: Path) -> None:
    put_link(home / "starts.csv", secret)
    with pytest.raises(OSError, match="link"), atomic_file(home / "starts.csv") as file:
        file.write(b"mine")
    for guess in (home / "new.csv.part", home / ".new.csv.part"):
        put_link(guess, secret)
    with atomic_file(home / "new.csv") as file:
        file.write(b"mine")
    assert (home / "new.csv").read_bytes() == b"mine"
    assert secret.read_text() == "root's own"


@as_root
def test_files_that_a_job_file_names_are_no_way_to_files_of_who_submits_it(home: Path, secret: Path) -> None:
    (home / "t.js").write_text("{}")
    os.chown(home / "t.js", ALICE, ALICE)
    put_link(home / "link.js", secret)
    shutil.copy(secret, home / "moved.js")
    os.chown(home / "moved.js", ALICE + 1, ALICE + 1)
    text = '{"version": 2, "tasks": [{"id": "a", "filename": "NAME"}]}'
    job = str(home / "job.js")
    assert files_beside(job, text.replace("NAME", "t.js")) == {"t.js": "{}"}
    for name in ("link.js", "moved.js", str(secret), f"../{secret.relative_to(secret.parents[3])}"):
        with pytest.raises(BadRequest):
            files_beside(job, text.replace("NAME", name))


@as_root
def test_root_submits_no_job_file_that_its_author_has_replaced_by_a_link(home: Path, secret: Path) -> None:
    with pytest.raises(BadRequest, match=f"link of user {ALICE}"):
        read_bytes(str(put_link(home / "job.xml", secret)))


@as_root
def test_the_last_job_is_not_written_where_sudo_has_kept_the_environment_of_a_user(
    home: Path, secret: Path
) -> None:
    around = {"XDG_RUNTIME_DIR": str(home)}
    remember(7, around, shell=os.getpid())
    assert not (home / "headnode").exists()
    (home / "headnode").mkdir()
    os.chown(home / "headnode", ALICE, ALICE)
    put_link(home / "headnode" / "last-job", secret.parent)
    remember(7, around, shell=os.getpid())
    assert [path.name for path in secret.parent.iterdir()] == ["secret"]


def test_the_last_job_is_remembered_in_a_directory_of_ones_own(tmp_path: Path) -> None:
    around = {"XDG_RUNTIME_DIR": str(tmp_path)}
    remember(7, around, shell=os.getpid())
    assert recall(around, shell=os.getpid()) == 7
    remember(123, around, shell=os.getpid())
    remember(8, around, shell=os.getpid())
    assert recall(around, shell=os.getpid()) == 8
    (tmp_path / "headnode" / "last-job").chmod(0o777)
    with pytest.raises(OSError, match="other users can write"):
        open_own_directory(str(tmp_path / "headnode" / "last-job"))


@as_root
def test_a_head_of_root_is_not_listed_where_sudo_has_kept_the_environment_of_a_user(
    home: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_daemons, "SYSTEM_PLACE", tmp_path / "run")
    (home / "headnode-heads").mkdir()
    os.chown(home / "headnode-heads", ALICE, ALICE)
    put_link(home / "headnode-heads" / str(os.getpid()), secret)
    with local_daemons.announced({"XDG_STATE_HOME": str(home)}, "c", tmp_path):
        assert (tmp_path / "run" / str(os.getpid())).read_text() == f"c\n{tmp_path}\n"
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("root's own", 0o600)
    assert list((tmp_path / "run").iterdir()) == []


@as_root
def test_root_makes_no_directory_of_its_own_in_that_of_a_user(home: Path) -> None:
    with pytest.raises(Redirected):
        make_own_directory(str(home / "a" / "b"))
    assert not (home / "a").exists()


@as_root
def test_root_makes_directories_for_a_file_nowhere_a_user_leads_it(home: Path, tmp_path: Path) -> None:
    put_link(home / "results", tmp_path)
    with pytest.raises(Redirected):
        ArrivingFile(f"{home}/results/new/deep/x", "token")
    assert list(tmp_path.iterdir()) == []
    put_link(home / "own", tmp_path, user=0)
    for path in (home / "own/new/deep/x", home / "below/./here/x", tmp_path / "new/y"):
        ArrivingFile(str(path), "token").close()
        assert path.parent.is_dir()
