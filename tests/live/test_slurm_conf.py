"""The script made of a slurm.conf sets up a real head: its jobs get the limits of the partition."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headnode.core.model.errors import HeadnodeError
from heads import RealHead, head_fixture

head = head_fixture(nodes=2)

CONF = """
ClusterName=inst
SlurmdTimeout=300
KillWait=45
Licenses=solver:8,mesher
NodeName={nodes} CPUs=8 Feature=ib
PartitionName=batch Nodes=ALL Default=YES DefaultTime=30 MaxTime=2-00:00:00
"""


def _run(words: list[str], **environment: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_script_sets_up_the_cluster(
    head: RealHead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node["name"] for node in head.ask("nodes")["nodes"]]
    (tmp_path / "slurm.conf").write_text(CONF.format(nodes=",".join(nodes)))
    hn = [sys.executable, "-m", "headnode.apps.cli"]
    script = _run([*hn, "cluster", "import", str(tmp_path / "slurm.conf")])
    here = "\n".join(line for line in script.splitlines() if not line.startswith(("hn up", "hn node invite")))
    monkeypatch.chdir(tmp_path)
    function = f'hn() {{ "{sys.executable}" -m headnode.apps.cli "$@"; }}\n'
    _run(["sh", "-ec", function + here], HEADNODE_STATE=str(head.state))
    found = {each["name"]: each["value"] for each in head.ask("parameters")["parameters"]}
    assert (found["TaskCancelGracePeriod"], found["Licences"]) == ("45", "solver:8,mesher:1")
    assert {(tuple(node["groups"]), tuple(node["features"])) for node in head.ask("nodes")["nodes"]} == {
        (("batch",), ("ib",))
    }
    job = head.ask("job", job=head.submit("true"))["job"]
    assert job["run_time"] == 1800.0  # that of the template Default
    with pytest.raises(HeadnodeError, match="2d"):
        head.submit("true", terms={"runtime": "3:00:00"})
