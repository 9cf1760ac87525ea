"""Jobs handed over to a real Slurm with accounting: what they used is what sacct says."""

from pathlib import Path

import pytest
from sites import slurm_fixture

from headnode.core.model.errors import Unavailable
from heads import RealHead, real_head
from testbed.slurm_peer import SlurmPeer

slurm = slurm_fixture(accounting=True)


def test_a_new_head_over_a_site_learns_from_its_history_how_far_predictions_are_wrong(
    tmp_path: Path, slurm: SlurmPeer
) -> None:
    words = ("-n", "8", "-t", "1", "-o", "/dev/null", "--chdir=/", "--wrap=sleep 2")
    for _ in range(4):
        slurm.run("sbatch", *words)
    slurm.until(lambda: not slurm.in_queue())
    with real_head(tmp_path, nodes=0) as head:
        paths = {"settings": str(slurm.settings), "directory": str(tmp_path / "attempts")}
        head.ask("set_resource", name="site", system="slurm", overlay=True, poll=1.0, **paths)
        head.until(lambda: judged(head))


def judged(head: RealHead) -> int:
    try:
        return int(head.ask("site_jobs")["site"]["judged"])
    except Unavailable:
        return 0


@pytest.mark.parametrize(("ending", "code"), [("exit 0", 0), ("exit 3", 3)])
def test_what_a_job_used_is_that_of_the_accounting(
    tmp_path: Path, slurm: SlurmPeer, ending: str, code: int
) -> None:
    spin = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; sleep 2"
    with real_head(tmp_path, nodes=0) as head:
        head.ask("set_resource", name="peer", system="slurm", settings=str(slurm.settings), poll=1.0)
        job = head.submit(f"{spin}; {ending}", terms={"resource": "peer"}, workdir="/")
        ended = head.wait(job)
        task = head.task(job)
        assert (ended["state"], task["exit_code"]) == ("Failed" if code else "Finished", code)
        assert task["user_time"] > 0.02
        assert task["peak_memory"] > 500  # only sacct has it
