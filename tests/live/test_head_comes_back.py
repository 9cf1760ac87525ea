"""A head that was stopped, or stood still, finds nodes of other machines again: nobody has to go there."""

import signal
import time
from pathlib import Path

from joined_nodes import JoinedNode, invite, wait_for_state

from heads import TIMEOUT, real_head
from testbed.processes import free_address


def test_nodes_of_other_machines_wait_for_a_head_that_was_stopped(tmp_path: Path) -> None:
    with real_head(tmp_path, nodes=0, listen=free_address()) as head:
        node = JoinedNode(tmp_path / "nodes", "far")
        try:
            assert node.join(invite(head, approve=True)).returncode == 0
            node.start()
            wait_for_state(head, "far", "Ready")
            head.ask("stop_head")
            head.process.wait(TIMEOUT)
            head.start_again()
            wait_for_state(head, "far", "Ready")
            assert head.wait(head.submit("true"))["state"] == "Finished"
        finally:
            node.stop()


def test_no_node_is_given_up_for_a_time_in_which_everything_stood_still(tmp_path: Path) -> None:
    end = tmp_path / "end"
    with real_head(tmp_path, nodes=0, listen=free_address()) as head:
        head.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "1"})
        node = JoinedNode(tmp_path / "nodes", "far")
        try:
            assert node.join(invite(head, approve=True)).returncode == 0
            node.start()
            wait_for_state(head, "far", "Ready")
            job = head.submit(f"until [ -e {end} ]; do sleep 0.05; done", rerunnable="false")
            head.wait_for(job, "Running")
            assert node.process is not None
            machine = (head.process, node.process)
            for each in machine:
                each.send_signal(signal.SIGSTOP)
            time.sleep(2.5)  # more than a node may be silent
            for each in machine:
                each.send_signal(signal.SIGCONT)
                head.ask("ping")
            end.touch()
            assert head.wait(job)["state"] == "Finished"
        finally:
            node.stop()
