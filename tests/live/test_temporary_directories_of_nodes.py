"""A task of several nodes finds its temporary directory on each of them, at the same path."""

import json
from pathlib import Path

from testbed.clusters import cluster_on_loopback
from testbed.processes import free_address

SCRIPT = """
touch "$TMPDIR/of-the-first"
for node in $HEADNODE_HOSTS; do
  $HEADNODE_LAUNCH -n $node 'test -d "$TMPDIR" && touch "$TMPDIR/$HEADNODE_NODE" && echo "$TMPDIR"'
  $HEADNODE_LAUNCH -n $node 'test -e "$TMPDIR/$HEADNODE_NODE" && echo again'
done
"""


def test_every_node_of_a_task_has_it_for_all_commands_of_the_task(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with cluster_on_loopback(tmp_path / "pair", ("left", "right"), free_address()) as cluster:
        cluster.ask("set_parameters", values={"TemporaryDirectory": str(scratch)})
        (tmp_path / "script").write_text(SCRIPT)
        task = {"command": f"/bin/sh {tmp_path}/script", "processors": 4, "stdout": str(tmp_path / "out")}
        task |= {
            "distribution": {"per_node": 2},
            "temporary_directory": True,
            "stderr": str(tmp_path / "err"),
        }
        job = cluster.ask("submit_job", jobfile=json.dumps({"tasks": [task]}), dialect="native")["job"]
        assert cluster.wait(int(job)) == "Finished", (tmp_path / "err").read_text()
        *lines, _ = (tmp_path / "out").read_text().split("\n")
        assert len(lines) == 2 * 4
        assert set(lines[1::2]) == {"again"}
        assert len(set(lines[::2])) == 1
        assert Path(lines[0]).parent == scratch
        assert list(scratch.iterdir()) == []
