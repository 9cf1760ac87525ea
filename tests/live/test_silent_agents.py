"""Peers that are connected and say or take nothing: a node is given up until it speaks; an agent ends."""

import os
import signal
import socket
from pathlib import Path

from agent_scene import JOB, TIMEOUT, Scene

from headnode.adapters.wire.messages import ReadOutput
from testbed.clusters import cluster_on_loopback

SPELL = "while [ ! -e {end} ]; do sleep 0.02; done; echo $CCP_TASKID >> {runs}"


def test_a_stopped_agent_is_silent_its_tasks_run_elsewhere_and_it_stops_its_own_when_it_goes_on(
    tmp_path: Path,
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    end, found = tmp_path / "end", tmp_path / "runs"
    with cluster_on_loopback(tmp_path, ("red", "green"), address, processors=1) as cluster:
        cluster.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "3"})
        for node in cluster.nodes.values():
            node.kill_agent()
            node.start_agent()
        cluster.wait_for_nodes("Ready")
        command = SPELL.format(end=end, runs=found)
        job = cluster.submit(command, command, rerunnable="true")
        red = cluster.nodes["red"].place
        cluster.until(
            lambda: len(cluster.ask("tasks", job=job, states=["Running"])["tasks"]) == 2, "both tasks run"
        )
        (task,) = (n for n in (1, 2) if cluster.ask("task", job=job, task=n)["task"]["node"] == "red")
        theirs = set(red.processes(str(end)))
        agents = red.processes("headnode.apps.agent")
        assert theirs
        for agent in agents:
            os.kill(agent, signal.SIGSTOP)
        try:
            cluster.wait_for_nodes("Unreachable", "red")
            cluster.until(
                lambda: cluster.ask("task", job=job, task=task)["task"]["state"] == "Queued", "it is given up"
            )
        finally:
            for agent in agents:
                os.kill(agent, signal.SIGCONT)
        cluster.wait_for_nodes("Ready")
        cluster.until(lambda: not theirs & set(red.processes(str(end))), "what was given up is stopped")
        end.touch()
        assert cluster.wait(job) == "Finished"
        assert sorted(found.read_text().split()) == ["1", "2"]
        assert cluster.ask("task", job=job, task=task)["task"]["attempt"] == 2


def test_a_node_that_is_silent_is_taken_offline_by_force_long_before_it_would_be_given_up(
    tmp_path: Path,
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    end, found = tmp_path / "end", tmp_path / "runs"
    with cluster_on_loopback(tmp_path, ("red", "green"), address, processors=2) as cluster:
        values = {"HeartbeatInterval": "1", "InactivityCount": "1000", "NodeLease": "0"}
        cluster.ask("set_parameters", values=values)
        for node in cluster.nodes.values():
            node.kill_agent()
            node.start_agent()
        cluster.wait_for_nodes("Ready")
        command = SPELL.format(end=end, runs=found)
        terms = {"numprocessors": "4-4"}
        job = cluster.submit(*[command] * 4, rerunnable="true", terms=terms)
        cluster.until(
            lambda: len(cluster.ask("tasks", job=job, states=["Running"])["tasks"]) == 4, "all tasks run"
        )
        answers = cluster.ask("drain_node", node="green", reason="it smells", force=True)["node"]
        assert answers["state"] == "Drained"  # it answers, so nothing of it is left when we hear of it
        assert len(cluster.ask("tasks", job=job, states=["Queued"])["tasks"]) == 2
        cluster.ask("resume_node", node="green")
        cluster.until(
            lambda: len(cluster.ask("tasks", job=job, states=["Running"])["tasks"]) == 4, "it grows again"
        )
        agents = cluster.nodes["red"].place.processes("headnode.apps.agent")
        for agent in agents:
            os.kill(agent, signal.SIGSTOP)
        try:
            cluster.ask("drain_node", node="red", reason="it burns", force=True)
            cluster.until(
                lambda: not cluster.ask("node", node="red")["node"]["jobs"], "the job has nothing of it"
            )
            assert cluster.job(job)["state"] == "Running"
            end.touch()
            assert cluster.wait(job) == "Finished"
        finally:
            for agent in agents:
                os.kill(agent, signal.SIGCONT)
        cluster.wait_for_nodes("Drained", "red")
        jobs = cluster.nodes["red"].state / "jobs"
        cluster.until(lambda: not list(jobs.glob("*.journal")), "what was given up is stopped")


MB = 1 << 20


def test_an_agent_that_is_told_to_end_ends_though_its_head_reads_nothing(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.job(f"head -c {MB} /dev/zero")
        scene.head.run(1, (1, 1))
        assert scene.head.result(1).exit_code == 0
        for number in range(8):  # more than sockets hold
            scene.head.send(ReadOutput(number=number, job=JOB, task=1, instance=1, offset=0, limit=MB))
        assert scene.agent is not None
        scene.agent.terminate()
        assert scene.agent.wait(TIMEOUT) == 0
