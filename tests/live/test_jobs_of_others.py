"""On the head's own machine a user looks at the jobs of others, and does nothing to them."""

import json
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heads import TIMEOUT, RealHead, real_head

OF_ALL = ("env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", "/usr/bin/python3")
"""A Python that every user can run, with what ours imports."""
ASK = """
import json, sys
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError
client, found = Client(sys.argv[1]), {}
for verb, fields in json.loads(sys.argv[2]).items():
    try:
        client.ask(verb, **fields)
        found[verb] = "done"
    except HeadnodeError as error:
        found[verb] = error.code
print(json.dumps(found))
"""


def as_nobody(*words: str) -> "subprocess.CompletedProcess[str]":
    group = pwd.getpwnam("nobody").pw_gid
    command = ["setpriv", "--reuid=nobody", f"--regid={group}", "--clear-groups", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or as_nobody(*OF_ALL, "-c", "import headnode.apps.client.client").returncode != 0,
    reason="needs root, and a Python that other users can run",
)


@pytest.fixture
def head() -> Iterator[RealHead]:
    """A head in a directory that other users can reach, as that of root is."""
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        with real_head(Path(made)) as found:
            yield found


def outcomes(head: RealHead, **questions: dict[str, Any]) -> dict[str, str]:
    """Return what becomes of questions of another user."""
    done = as_nobody(*OF_ALL, "-c", ASK, str(head.state), json.dumps(questions))
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_jobs_of_others_can_be_seen_and_not_touched(head: RealHead) -> None:
    job = head.ask("submit_job", tasks=[{"command": "sleep 60", "rerunnable": "true"}])["job"]
    head.wait_for(job, "Running")
    about: dict[str, Any] = {"job": job}
    allowed = outcomes(head, job=about, tasks=about, explain_job=about, job_history=about)
    assert set(allowed.values()) == {"done"}, allowed
    refused = outcomes(
        head,
        cancel_job=about,
        finish_job=about,
        requeue_job=about,
        suspend_job=about,
        end_allocation={**about, "exit_code": 0},
        signal_job={**about, "signal": "KILL"},
        hold_job=about,
        release_job=about,
        modify_job={**about, "terms": {"priority": "Lowest"}},
        add_tasks={**about, "tasks": [{"command": "id"}]},
        set_progress={**about, "percent": 1},
        cancel_task={**about, "task": 1},
        requeue_task={**about, "task": 1},
        hold_task={**about, "task": 1},
        release_task={**about, "task": 1},
        read_output={**about, "task": 1},
    )
    assert set(refused.values()) == {"not-owner"}, refused
    assert head.ask("job", job=job)["job"]["state"] == "Running"
    entries = [entry for entry in head.ask("audit_log", job=job)["entries"] if entry["user"] == "nobody"]
    assert [entry["verb"] for entry in entries] == list(refused)
    assert all(entry["outcome"] == "not-owner" and entry["from"].startswith("pid ") for entry in entries)
    head.ask("cancel_job", job=job, force=True)


def test_what_is_an_administrators_is_refused(head: RealHead) -> None:
    node = head.ask("nodes")["nodes"][0]["name"]
    refused = outcomes(
        head,
        set_parameters={"values": {"Administrators": "nobody"}},
        pause_node={"node": node},
        drain_node={"node": node},
        invite_node={},
        audit_log={},
        tokens={"user": "*"},
        stop_head={},
    )
    assert set(refused.values()) == {"not-administrator"}, refused
    job = {"tasks": [{"command": "id"}], "terms": {"user": "root"}}
    assert outcomes(head, submit_job=job) == {"submit_job": "run-as"}


def test_captured_output_and_the_audit_log_are_files_that_others_cannot_read(head: RealHead) -> None:
    job = head.submit("echo secret")
    assert head.wait(job)["state"] == "Finished"
    output = head.ask("task_output", job=job, task=1)["standard_output"]
    for file in (output, str(head.state / "audit.log")):
        assert Path(file).stat().st_size
        assert "Permission denied" in as_nobody("cat", file).stderr


def test_a_role_given_by_a_group_counts_at_once(head: RealHead) -> None:
    group = subprocess.run(["id", "-gn", "nobody"], capture_output=True, text=True, check=True).stdout.strip()
    job = head.submit("sleep 60")
    head.wait_for(job, "Running")
    assert outcomes(head, cancel_job={"job": job}) == {"cancel_job": "not-owner"}
    head.ask("set_parameters", values={"Operators": f"@{group}"})
    asked = outcomes(head, read_output={"job": job, "task": 1}, cancel_job={"job": job, "force": True})
    assert asked == {"read_output": "not-owner", "cancel_job": "done"}


def test_root_prints_no_file_that_the_owner_of_a_job_has_linked_to(head: RealHead) -> None:
    secret = head.state.parent / "secret"
    secret.write_text("root's own")
    secret.chmod(0o600)
    job = head.submit("echo said", terms={"user": "nobody"}, workdir="/")
    assert head.wait(job)["state"] == "Finished"
    kept = head.ask("task_output", job=job, task=1)["captured_path"]

    def printed() -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{head.state}/", "task", "output"]
        return subprocess.run(
            [*command, f"{job}.1"], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )

    assert printed().stdout == "said\n"
    assert as_nobody("ln", "-sf", str(secret), kept).returncode == 0
    refused = printed()
    assert refused.returncode != 0
    assert "root's own" not in refused.stdout
    assert "cannot be read" in refused.stderr


def test_root_starts_no_head_and_no_agent_in_a_directory_that_a_user_can_replace() -> None:
    with tempfile.TemporaryDirectory(prefix="headnode-") as home:
        user = pwd.getpwnam("nobody")
        os.chown(home, user.pw_uid, user.pw_gid)
        for program in (["headnode.apps.server"], ["headnode.apps.agent", "--head", f"{home}/head"]):
            command = [sys.executable, "-m", *program, "--state", f"{home}/state"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
            assert done.returncode != 0
            assert f"directory {home!r} belongs to user nobody" in done.stderr, done.stderr
            assert not (Path(home) / "state").exists()
