"""Short tasks wait on the node behind others; behind a long one they are given back, and run elsewhere."""

from pathlib import Path

from heads import RealHead, head_fixture

head = head_fixture(processors=1)


def test_a_task_that_was_given_back_runs_once_and_is_no_retry(head: RealHead, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    commands = (
        ["true"] * 150 + ["sleep 1"] + [f"echo {number} $CCP_RETRY_COUNT >>{ran}" for number in range(60)]
    )
    job = head.submit(*commands)
    assert head.wait(job)["state"] == "Finished"
    lines = ran.read_text().splitlines()
    assert sorted(lines) == sorted(f"{number} 0" for number in range(60))
