"""Files of jobs at a real Slurm move with the rights of their users."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sites import add_resource, slurm_fixture

from headnode.apps.client.client import Client
from heads import RealHead, real_head
from testbed.faulty_storage import FaultyStorage, storage_fixture
from testbed.other_users import being
from testbed.slurm_peer import SlurmPeer

NOBODY = 65534


def may_run_python(user: int) -> bool:
    if os.geteuid() != 0:
        return False
    try:
        return subprocess.run([sys.executable, "-V"], user=user, group=user, check=False).returncode == 0
    except OSError:
        return False


slurm = slurm_fixture()


storage = storage_fixture()


@pytest.fixture
def head(tmp_path: Path, slurm: SlurmPeer) -> Iterator[RealHead]:
    slurm.write()
    with real_head(tmp_path, nodes=0) as head:
        paths = {"settings": str(slurm.settings), "programs": str(slurm.programs)}
        add_resource(head, "peer", "slurm", tmp_path, **paths)
        head.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
        yield head


def end_of(head: RealHead, job: int) -> tuple[str, str]:
    return head.wait(job)["state"], head.task(job)["message"]


def test_files_come_to_a_job_and_go(head: RealHead, storage: FaultyStorage) -> None:
    storage.put("data", b"some")
    job = head.submit(
        "sh -c 'cp data result; pwd'",
        terms={"resource": "peer"},
        stagein=f"{storage.url}/data=data",
        stageout=f"result={storage.url}/result",
    )
    assert end_of(head, job) == ("Finished", "")
    assert (storage.directory / "result").read_bytes() == b"some"


@pytest.mark.root
@pytest.mark.skipif(not may_run_python(NOBODY), reason="needs root, and a Python that nobody may run")
def test_files_move_with_the_rights_of_the_user_alone(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of root")
    secret.chmod(0o600)

    def submit(command: str, **task: str) -> int:
        terms, described = {"resource": "peer"}, {"command": command, "workdir": "/", **task}
        with being(NOBODY), closing(Client(str(head.state))) as client:
            return int(client.ask("submit_job", terms=terms, tasks=[described])["job"])

    stolen = f"{storage.url}/stolen"
    plain = submit("sh -c 'id -un > result'", stageout=f"result={storage.url}/name")
    reads = submit("true", stagein=f"file://{secret}=data")
    link = submit(f"ln -s {secret} result", stageout=f"result={stolen}")
    swapped = submit(f"sh -c 'cd ..; rm -rf files; ln -s {tmp_path} files'", stageout=f"secret={stolen}")
    assert end_of(head, plain) == ("Finished", "")
    assert (storage.directory / "name").read_text() == "nobody\n"
    for job in (reads, link, swapped):
        assert end_of(head, job)[0] == "Failed"
    assert not (storage.directory / "stolen").exists()
    assert secret.read_text() == "of root"
