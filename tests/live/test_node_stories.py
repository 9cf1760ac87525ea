"""What becomes of a node is told: in its history, on its page while it is away, in the log of its agent."""

import shutil
import socket
from pathlib import Path

from headnode.apps.cli.screens import node as screen
from testbed.clusters import Cluster, cluster_on_loopback


def texts(cluster: Cluster) -> list[str]:
    return [entry["text"] for entry in cluster.ask("node_history", node="red")["history"]]


def test_what_becomes_of_a_node_is_reported_in_its_history_on_its_page_and_in_its_log(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    go = tmp_path / "go"
    with cluster_on_loopback(tmp_path, ("red",), address, processors=1) as cluster:
        red = cluster.nodes["red"]
        cluster.ask("drain_node", node="red", reason="new memory")
        cluster.ask("resume_node", node="red")
        job = cluster.submit(f"while [ ! -e {go} ]; do sleep 0.05; done")
        cluster.until(lambda: bool(cluster.ask("tasks", job=job, states=["Running"])["tasks"]), "it runs")
        red.kill_agent()
        cluster.wait_for_nodes("Unreachable")
        cluster.until(
            lambda: cluster.ask("node", node="red")["node"]["tasks_lost_at"] is not None, "it is known"
        )
        away = cluster.ask("node", node="red")["node"]
        assert away["address"] == "127.0.0.1"
        assert away["last_heartbeat"] <= away["since"] + 1 < away["tasks_lost_at"]
        page = screen.view(away)
        assert {"Version", "Address", "Since", "Last Heartbeat", "Given Up"} <= page.keys()
        assert "are lost at" in page["Given Up"]
        red.start_agent()
        cluster.wait_for_nodes("Ready")
        found = [text.partition(" by ") for text in texts(cluster)[-4:]]
        assert [what for what, _, _ in found] == ["Drained", "Drain lifted", "Unreachable", "Reachable again"]
        assert found[0][2].endswith(": new memory")
        cluster.until(
            lambda: cluster.ask("node", node="red")["node"]["load"] is not None, "a heartbeat was heard"
        )
        go.touch()
        assert cluster.wait(job) == "Finished"

        cluster.kill_head()
        cluster.until(lambda: "nothing listens there" in red.log.read_text(), "it is told why it waits")
        cluster.start_head()
        cluster.wait_for_nodes("Ready")
        cluster.kill_head()
        shutil.rmtree(cluster.state / "authority")
        cluster.start_head()
        cluster.until(lambda: "its certificate is not trusted" in red.log.read_text(), "the lie is told")
        output = red.log.read_text()
        assert output.count("the previous agent was killed") == 1
        assert "found 1 jobs with 1 tasks" in output
        assert output.count("connected to the head of cluster") == 3
        assert output.count("nothing listens there") <= 2  # once each time, though it dials again and again
        assert output.count("is not trusted") == 1
        assert "hn node invite" in output
        assert "Traceback" not in output
