"""Files that tasks name for their output, read from elsewhere: as the user of the job, and only files."""

import base64
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.apps.client.client import Client
from headnode.apps.client.tls_connection import redeem_login
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead, real_head
from testbed.processes import free_address

ROOT = os.geteuid() == 0
USER = "nobody" if ROOT else pwd.getpwuid(os.geteuid()).pw_name
with_users = pytest.mark.skipif(not ROOT, reason="only root can run jobs as others")


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    """A head with a node of another machine."""
    directory = tmp_path_factory.mktemp("far")
    directory.chmod(0o755)
    with real_head(directory, nodes=0, listen=free_address()) as made:
        node = JoinedNode(directory / "nodes", "far")
        try:
            assert node.join(invite(made, approve=True)).returncode == 0
            node.start()
            wait_for_state(made, "far", "Ready")
            yield made
        finally:
            node.stop()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a directory of the user whose jobs run."""
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        shutil.chown(made, USER)
        Path(made).chmod(0o755)
        yield Path(made)


def submit(head: RealHead, folder: Path, command: str, **task: str) -> int:
    """Submit a job of the user whose output goes to `out` and `err` in the folder."""
    named = {"workdir": str(folder), "stdout": "out", "stderr": "err", **task}
    terms = {"user": USER} if ROOT else {}
    return int(head.ask("submit_job", terms=terms, tasks=[{"command": command, **named}])["job"])


def ran(head: RealHead, folder: Path, command: str = "echo said; echo wrong >&2") -> int:
    job = submit(head, folder, command)
    assert head.wait(job)["state"] == "Finished", head.task(job)
    return job


def hn(head: RealHead, *words: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{head.state}/", *words]
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)


def read(head: RealHead | Client, job: int, stream: str = "standard_output") -> str:
    return base64.b64decode(head.ask("read_output", job=job, task=1, stream=stream)["data"]).decode()


def test_both_files_are_read_where_the_task_ran(head: RealHead, folder: Path) -> None:
    job = ran(head, folder)
    assert hn(head, "task", "output", f"{job}.1").stdout == b"said\n"
    assert hn(head, "task", "output", f"{job}.1", "--stderr").stdout == b"wrong\n"
    assert b"said" in hn(head, "task", "view", f"{job}.1", "/peekoutput").stdout


def test_a_large_file_comes_whole_and_in_pieces(head: RealHead, folder: Path) -> None:
    job = ran(head, folder, "head -c 3000000 /dev/urandom")
    assert hn(head, "task", "output", f"{job}.1").stdout == (folder / "out").read_bytes()


def test_a_file_that_grows_is_followed_to_its_end(head: RealHead, folder: Path) -> None:
    job = submit(head, folder, f"echo first; while [ ! -e {folder}/go ]; do sleep 0.02; done; echo last")
    words = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{head.state}/", "task", "output"]
    with subprocess.Popen([*words, f"{job}.1", "--follow"], stdout=subprocess.PIPE) as follows:
        assert follows.stdout is not None
        assert follows.stdout.readline() == b"first\n"
        (folder / "go").touch()
        assert follows.stdout.read() == b"last\n"
    assert follows.returncode == 0


def test_a_file_that_is_gone_is_said_to_be(head: RealHead, folder: Path) -> None:
    job = ran(head, folder)
    (folder / "out").unlink()
    done = hn(head, "task", "output", f"{job}.1")
    assert done.returncode != 0
    assert f"output file 'far:{folder}/out' cannot be read: No such file or directory" in done.stderr.decode()


@with_users
def test_what_is_no_plain_file_of_the_name_leads_nowhere(head: RealHead, folder: Path) -> None:
    job = ran(head, folder)
    out, secret = folder / "out", folder / "other"
    secret.write_text("not asked for\n")
    shutil.chown(secret, USER)
    for swap in (lambda: out.symlink_to(secret), lambda: os.mkfifo(out), out.mkdir):
        out.rmdir() if out.is_dir() else out.unlink()
        swap()
        shutil.chown(folder, USER)
        began = time.monotonic()
        with pytest.raises(HeadnodeError, match="it is a link, a directory or a device, not a regular file"):
            read(head, job)
        assert time.monotonic() - began < TIMEOUT / 2  # a pipe that nobody writes to keeps nobody waiting


@with_users
def test_what_the_user_may_not_read_is_not_read_for_him_by_root(head: RealHead, folder: Path) -> None:
    job = ran(head, folder)
    (folder / "out").unlink()
    (folder / "out").write_text("of root")
    (folder / "out").chmod(0o600)
    with pytest.raises(HeadnodeError, match=f"cannot be read on node 'far' as {USER!r}: permission denied"):
        read(head, job)
    hidden = folder / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "out").write_text("of root")
    (folder / "out").unlink()
    folder.rename(aside := folder.with_name(f"{folder.name}-aside"))
    folder.symlink_to(aside / "hidden")  # a directory on the way may be a link, but leads where he may go
    try:
        with pytest.raises(HeadnodeError, match="permission denied"):
            read(head, job)
    finally:
        folder.unlink()
        aside.rename(folder)


@with_users
def test_only_the_owner_and_administrators_read_it(head: RealHead, folder: Path) -> None:
    job = ran(head, folder)
    owner = Client(redeem_login(head.ask("create_token", user=USER)["login"]))
    stranger = Client(redeem_login(head.ask("create_token", user="daemon")["login"]))
    try:
        assert read(owner, job) == "said\n"
        assert read(owner, job, "standard_error") == "wrong\n"
        assert read(head, job) == "said\n"
        with pytest.raises(HeadnodeError) as refused:
            read(stranger, job)
        assert refused.value.code == "not-owner"
    finally:
        owner.close()
        stranger.close()
