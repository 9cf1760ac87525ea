"""The scripts and commands of Nextflow's executors work, and what they print is what Nextflow parses.

Source:  Nextflow 23, `SlurmExecutor`, `PbsProExecutor`, `SgeExecutor` and `LsfExecutor`.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from batch_programs import Programs

from heads import RealHead, shared_head_fixture

head = shared_head_fixture(nodes=1, processors=2)


class Executor(NamedTuple):
    """How Nextflow submits, asks for states and removes a job; the pattern has its number and its state."""

    install: tuple[str, ...]
    lines: str
    submit: str
    submitted: str
    states: str
    state: str
    running: str
    remove: str


EXECUTORS = {
    "slurm": Executor(
        ("--only", "slurm"),
        "#SBATCH -J nf-hello_(1)\n#SBATCH -o .command.log\n#SBATCH --no-requeue\n#SBATCH --signal B:USR2@30\n"
        "#SBATCH -c 2\n#SBATCH -t 00:10:00\n#SBATCH --mem 100M\n",
        "sbatch .command.run",
        r"Submitted batch job (\d+)",
        "squeue --noheader -o '%i %t' -t all -u $USER",
        r"^{id}\s+(\S+)$",
        "R",
        "scancel {id}",
    ),
    "pbspro": Executor(
        ("--only", "qsub", "--qsub", "pbs"),
        "#PBS -N nf-hello_1\n#PBS -o {folder}/.command.log\n#PBS -j oe\n#PBS -l select=1:ncpus=2:mem=100mb\n"
        "#PBS -l walltime=00:10:00\n",
        "qsub -N nf-hello_1 .command.run",
        r"^(\S+)$",
        "set -o pipefail; qstat -f $( qstat -B | grep -E -v '(^Server|^---)' | "
        "awk -v ORS=' ' '{{print \"@\"$1}}' ) | {{ grep -E '(Job Id:|job_state =)' || true; }}",
        r"^Job Id: {id}\n\s+job_state = (\S+)$",
        "R",
        "qdel {id}",
    ),
    "sge": Executor(
        ("--only", "qsub", "--qsub", "gridengine"),
        "#$ -wd {folder}\n#$ -N nf-hello_1\n#$ -o {folder}/.command.log\n#$ -j y\n#$ -terse\n#$ -notify\n"
        "#$ -pe smp 2\n#$ -l h_rt=00:10:00\n#$ -l h_rss=100M,mem_free=100M\n",
        "qsub -terse .command.run",
        r"^(\d+)$",
        "qstat",
        r"^\s*{id}\s+\S+\s+\S+\s+\S+\s+(\S+)",
        "r",
        "qdel {id}",
    ),
    "lsf": Executor(
        ("--only", "lsf"),
        '#BSUB -o {folder}/.command.log\n#BSUB -n 2\n#BSUB -R "span[hosts=1]"\n#BSUB -W 00:10\n#BSUB -M 50\n'
        '#BSUB -R "select[mem>=100] rusage[mem=100]"\n#BSUB -J nf-hello_1\n',
        "bsub < .command.run",
        r"Job <(\d+)> is submitted",
        "bjobs -w",
        r"^{id}\s+\S+\s+(\S+)",
        "RUN",
        "bkill {id}",
    ),
}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_nextflow_submits_sees_and_removes_a_job(head: RealHead, tmp_path: Path, executor: str) -> None:
    known = EXECUTORS[executor]
    programs = Programs(head, tmp_path / "bin", *known.install)
    began = tmp_path / "began"
    body = f"mkfifo {tmp_path}/never; echo $$ > {began}.part; mv {began}.part {began}; cat {tmp_path}/never\n"
    script = f"#!/bin/bash\n{known.lines.format(folder=tmp_path)}{body}"
    (tmp_path / ".command.run").write_text(script)
    found = re.search(known.submitted, programs.output(known.submit, tmp_path), re.MULTILINE)
    assert found is not None
    programs.output(f"until [ -e {began} ]; do read -t 0.05 < <(:) || :; done", tmp_path)
    pattern = known.state.format(id=re.escape(found[1]))
    listed = re.search(pattern, programs.output(known.states.format(), tmp_path), re.MULTILINE)
    assert listed is not None
    assert listed[1] == known.running
    programs.output(known.remove.format(id=found[1]), tmp_path)
    number = re.sub(r"\D.*", "", found[1])
    programs.run(f"hn job wait {number}", tmp_path)
    assert "Canceled" in programs.output(f"hn job view {number}", tmp_path)
