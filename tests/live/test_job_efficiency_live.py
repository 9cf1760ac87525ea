"""The efficiency of real jobs is that which their programs measure of themselves."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from batch_programs import Programs

from headnode.sdk import HeadnodeClient
from heads import RealHead, shared_head_fixture

SPIN = """
import json, os, sys, time
processes, seconds = int(sys.argv[1]), float(sys.argv[2])
began = time.monotonic()
child = os.fork() if processes > 1 else -1
while time.process_time() < seconds: pass
if child == 0: os._exit(0)
if child > 0: os.waitpid(child, 0)
print(json.dumps([sum(os.times()[:4]), time.monotonic() - began]))
"""
SECONDS = 2.0  # of processor time of each process

head = shared_head_fixture(processors=2)


def spun(head: RealHead, folder: Path, processes: int) -> tuple[int, dict[str, Any], float, float]:
    """Run a job on two processors; return its number, its efficiency, and what its program measured.

    That is its processor time and its elapsed time, in seconds.
    """
    program = folder / "spin.py"
    program.write_text(SPIN)
    job = head.submit(
        f"{sys.executable} -I -S {program} {processes} {SECONDS}", numprocessors="2", terms={"runtime": "60"}
    )
    assert head.wait(job)["state"] == "Finished"
    (found,) = head.ask("job_efficiency", job=job)["jobs"]
    used, elapsed = json.loads(head.output(job))
    return job, found, used, elapsed


@pytest.mark.parametrize("processes", [1, 2])
def test_a_job_that_spins_on_some_of_its_processors_has_their_share(
    processes: int, head: RealHead, tmp_path: Path
) -> None:
    _, found, used, elapsed = spun(head, tmp_path, processes)
    assert used >= processes * SECONDS - 0.1
    # On an idle machine that is about 50 % and 100 %; where others run, the program knows how much it got.
    assert found["processor_time"] == pytest.approx(used, rel=0.25)
    assert found["wall_time"] >= elapsed
    assert found["processor_share"] == pytest.approx(used / (2 * found["wall_time"]), rel=0.25)
    assert found["processor_share"] <= processes / 2 + 0.1
    assert found["unused"] == pytest.approx(2 * found["wall_time"] - found["processor_time"], abs=0.01)


def test_seff_prints_the_lines_of_slurm_and_the_sdk_has_the_values(head: RealHead, tmp_path: Path) -> None:
    slurm = Programs(head, tmp_path / "bin", "--only", "slurm")
    job, found, _, _ = spun(head, tmp_path, 1)
    lines = dict(line.split(": ", 1) for line in slurm.output(f"seff {job}", tmp_path).splitlines())
    assert [*lines] == [
        "Job ID", "Cluster", "User/Group", "State", "Nodes", "Cores per node", "CPU Utilized",
        "CPU Efficiency", "Job Wall-clock time", "Memory Utilized", "Memory Efficiency",
    ]  # fmt: skip
    assert (lines["Job ID"], lines["State"]) == (str(job), "COMPLETED (exit code 0)")
    assert (lines["Nodes"], lines["Cores per node"]) == ("1", "2")
    assert float(lines["CPU Efficiency"].partition("%")[0]) <= 80
    assert lines["CPU Efficiency"].endswith(" core-walltime")
    with HeadnodeClient(head.state) as client:
        assert client.job(job).efficiency().processor_share == found["processor_share"]


def test_seff_knows_elements_of_arrays_and_jobs_that_wait_or_are_unknown(
    head: RealHead, tmp_path: Path
) -> None:
    slurm = Programs(head, tmp_path / "bin", "--only", "slurm")
    options = "--wait --parsable --mem-per-cpu=100 --array=3-4"
    array = slurm.output(f"sbatch {options} --wrap 'exit $((SLURM_ARRAY_TASK_ID-3))' || true", tmp_path)
    output = slurm.output(f"seff {array}_3", tmp_path)
    assert f"Array Job ID: {array}_3\n" in output
    assert "State: COMPLETED (exit code 0)\nCores: 1\n" in output
    assert output.endswith(" of 100.00 MB (100.00 MB/core)")
    assert "State: FAILED (exit code 1)\n" in slurm.output(f"seff {array}_4", tmp_path)
    assert f"Job ID: {array}\nCluster: " in slurm.output(f"seff {array}", tmp_path)
    held = slurm.output("sbatch --parsable -H --wrap true", tmp_path)
    output = slurm.output(f"seff {held}", tmp_path)
    assert output.endswith(
        "State: PENDING\nCores: 1\nEfficiency not available for jobs in the PENDING state."
    )
    slurm.output(f"scancel {held}", tmp_path)
    for words in (f"seff {array}_9", "seff 999999"):
        unknown = slurm.run(words, tmp_path)
        assert (unknown.returncode, unknown.stderr) == (2, "Job not found.\n")
    usage = slurm.run("seff", tmp_path)
    assert (usage.returncode, usage.stdout[:6]) == (1, "Usage:")
