"""A head that is stopped and started again finds the nodes of other machines: nobody has to go there."""

from pathlib import Path

from joined_nodes import JoinedNode, free_address, invite, wait_for_state

from heads import PATIENCE, real_head


def test_nodes_of_other_machines_wait_for_a_head_that_was_stopped(tmp_path: Path) -> None:
    with real_head(tmp_path, nodes=0, listen=free_address()) as head:
        node = JoinedNode(tmp_path / "nodes", "far")
        try:
            assert node.join(invite(head, approve=True)).returncode == 0
            node.start()
            wait_for_state(head, "far", "Ready")
            head.ask("down")
            head.process.wait(PATIENCE)
            head.start_again()
            wait_for_state(head, "far", "Ready")
            assert head.wait(head.submit("true"))["state"] == "Finished"
        finally:
            node.stop()
