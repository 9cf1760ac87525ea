"""Users across machines: a job runs as the user of that name on the node, as that machine knows him."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.adapters.wire import messages as m
from headnode.apps.agent.output import as_here
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.core.model.quantities import NEVER, JobId
from heads import TIMEOUT, RealHead, real_head
from testbed.processes import free_address

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as others")
OF_ALL = ("env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", "/usr/bin/python3")
"""A Python that every user can run, with what ours imports."""
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    tmp_path.chmod(0o755)
    with real_head(tmp_path, nodes=0, listen=free_address()) as found:
        yield found


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[JoinedNode]]:
    made: list[JoinedNode] = []
    yield made
    for node in made:
        node.stop()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Make a directory that other users can reach."""
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def as_user(user: str, *words: str) -> list[str]:
    """Return a command of ours as another user runs it."""
    return ["setpriv", f"--reuid={user}", "--clear-groups", f"--regid={pwd.getpwnam(user).pw_gid}", *words]


def opened(owner: str, uid: int, *, same_numbers: bool = False) -> m.OpenJob:
    return m.OpenJob(
        job=JobId(1),
        owner=owner,
        uid=uid,
        gid=uid,
        spec=b"",
        allocation=(),
        deadline=NEVER,
        same_uid=same_numbers,
    )


def test_elsewhere_a_user_is_a_name_and_here_a_number() -> None:
    far = as_here(opened("nobody", 12345), "n", far=True)
    assert (far.uid, far.gid) == (NOBODY.pw_uid, NOBODY.pw_gid)
    assert as_here(opened("nobody", 12345), "n", far=False).uid == 12345


def test_a_user_whom_the_node_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(Unavailable) as refused:
        as_here(opened("no-such-one", 12345), "n7", far=True)
    assert refused.value.what == "user 'no-such-one' does not exist on node 'n7'"


def test_numbers_must_be_the_same_where_the_cluster_says_so() -> None:
    with pytest.raises(Unavailable) as refused:
        as_here(opened("nobody", 12345, same_numbers=True), "n", far=True)
    assert refused.value.code == "other-number"
    assert as_here(opened("nobody", NOBODY.pw_uid, same_numbers=True), "n", far=True).uid == NOBODY.pw_uid


def test_a_job_runs_elsewhere_as_the_user_of_its_owner_and_not_as_the_agent(
    head: RealHead, nodes: list[JoinedNode], tmp_path: Path
) -> None:
    node = JoinedNode(tmp_path / "nodes", "far")
    nodes.append(node)
    assert node.join(invite(head, approve=True)).returncode == 0
    node.start()
    wait_for_state(head, "far", "Ready")
    command = "echo $(id -un) $(id -gn) $(id -Gn) $HOME $USER"
    terms = {"user": "nobody"}
    job = head.ask("submit_job", terms=terms, tasks=[{"command": command, "workdir": "/"}])["job"]
    shown = head.wait(job)
    assert (shown["state"], shown["owner"]) == ("Finished", "nobody"), head.task(job)
    groups = subprocess.check_output(["id", "-Gn", "nobody"], text=True).strip()
    group = subprocess.check_output(["id", "-gn", "nobody"], text=True).strip()
    found = f"nobody {group} {groups} {NOBODY.pw_dir} nobody\n"
    assert _output(head, job) == found
    answer = [event["text"] for event in head.ask("job_history", job=job)["history"]]
    assert answer[0] == "Created by root for nobody"
    (entry, *_) = head.ask("audit_log", job=job)["entries"]
    assert (entry["user"], entry["verb"], entry["owner"]) == ("root", "submit_job", "nobody")


def _output(head: RealHead, job: int) -> str:
    import base64

    return base64.b64decode(head.ask("read_output", job=job, task=1)["data"]).decode()


def test_an_agent_of_an_ordinary_user_serves_that_user_only(
    head: RealHead, nodes: list[JoinedNode], open_directory: Path
) -> None:
    if not _reachable_by_all():
        pytest.skip("this Python cannot be run by other users")
    node = PersonalNode(open_directory, "hers", "nobody")
    nodes.append(node)
    joined = node.join(invite(head, approve=True))
    assert joined.returncode == 0, joined.stderr
    node.start()
    wait_for_state(head, "hers", "Ready")
    with pytest.raises(BadRequest, match="serves only user 'nobody'"):
        head.submit("id -un")
    hers = head.ask("submit_job", terms={"user": "nobody"}, tasks=[{"command": "id -un", "workdir": "/"}])[
        "job"
    ]
    assert head.wait(hers)["state"] == "Finished", head.task(hers)
    assert _output(head, hers) == "nobody\n"


class PersonalNode(JoinedNode):
    """A node whose agent an ordinary user has started."""

    def __init__(self, directory: Path, name: str, user: str) -> None:
        super().__init__(directory / "nodes", name)
        self._user = user
        shutil.chown(self.state, user)
        self.state.parent.chmod(0o755)

    def _command(self, *more: str) -> list[str]:
        _, *words = super()._command(*more)
        return as_user(self._user, *OF_ALL, *words)


def _reachable_by_all() -> bool:
    words = as_user("nobody", *OF_ALL, "-c", "import headnode.apps.agent.agent")
    return subprocess.run(words, capture_output=True, timeout=TIMEOUT, check=False).returncode == 0


def test_private_output_of_others_is_read_by_nobody_else(
    head: RealHead, nodes: list[JoinedNode], tmp_path: Path
) -> None:
    node = JoinedNode(tmp_path / "nodes", "far")
    nodes.append(node)
    assert node.join(invite(head, approve=True)).returncode == 0
    node.start()
    wait_for_state(head, "far", "Ready")
    job = head.submit("echo secret")
    assert head.wait(job)["state"] == "Finished"
    from headnode.apps.client.client import Client
    from headnode.apps.client.tls_connection import redeem_login
    from headnode.core.model.errors import HeadnodeError

    login = redeem_login(head.ask("create_token", user="nobody")["login"])
    client = Client(login)
    assert client.ask("whoami")["role"] == "user"
    refusals: dict[str, dict[str, Any]] = {
        "read_output": {"task": 1},
        "cancel_job": {},
        "requeue_job": {},
        "hold_job": {},
        "modify_job": {"terms": {"priority": "Lowest"}},
    }
    for verb, more in refusals.items():
        with pytest.raises(HeadnodeError) as refused:
            client.ask(verb, job=job, **more)
        assert refused.value.code in ("not-owner", "job-over"), verb
    client.close()
    asked = [entry for entry in head.ask("audit_log", user="nobody")["entries"] if entry["user"] == "nobody"]
    written = [(entry["verb"], entry["outcome"]) for entry in asked]
    assert ("read_output", "not-owner") in written
    address = {entry["from"] for entry in asked}
    assert address == {"127.0.0.1"}
