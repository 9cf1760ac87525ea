"""Batch scripts of other schedulers run on a real head: with their variables, in their directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heads import RealHead, shared_head_fixture

HN = str(Path(sys.executable).with_name("hn"))

head = shared_head_fixture(processors=4)


def hn(head: RealHead, where: Path, *words: str) -> str:
    done = subprocess.run(
        [HN, "--state", str(head.state), *words],
        cwd=where,
        env={**os.environ, "SHELL_SAYS": "hello", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_of_slurm_runs_as_sbatch_would_run_it(head: RealHead, tmp_path: Path) -> None:
    (tmp_path / "train.sbatch").write_text(
        "#!/bin/bash\n#SBATCH --job-name=train -n 2 -t 5\n#SBATCH -o out-%x.txt\n"
        'echo "$1 $2" "$(basename "$0")" "$PWD" $SLURM_NTASKS '
        '$SLURM_JOB_NUM_NODES "$SLURM_SUBMIT_DIR" $SHELL_SAYS\n'
        "echo to errors >&2\n"
    )
    hn(head, tmp_path, "job", "submit", "--wait", "train.sbatch", "one two", "*")
    output = (tmp_path / "out-train.txt").read_text().splitlines()
    assert output[0].startswith("one two *")
    assert output[0].endswith(f"{tmp_path} 2 1 {tmp_path} hello")
    assert ".train.sbatch" in output[0]
    assert output[1] == "to errors"


def test_a_script_that_changes_after_its_submission_runs_as_it_was(head: RealHead, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --hold -o said.txt\necho before\n")
    number = hn(head, tmp_path, "job", "submit", "--quiet", "job.sh").strip()
    script.write_text("#!/bin/sh\necho after\n")
    script.unlink()
    hn(head, tmp_path, "job", "release", number)
    hn(head, tmp_path, "job", "wait", number)
    assert (tmp_path / "said.txt").read_text() == "before\n"


def test_the_numbers_of_an_array_are_told_each_system_s_way(head: RealHead, tmp_path: Path) -> None:
    for name, line, variable in (
        ("a.slurm", "#SBATCH -a 1-3 -o %a.slurm.txt", "SLURM_ARRAY_TASK_ID"),
        ("b.slurm", "#SBATCH -a 1-3 -c 2 -o %a.tasks.txt", "SLURM_ARRAY_TASK_ID"),
        ("c.sge", "#$ -cwd -t 1-3 -o $TASK_ID.sge.txt -j y", "SGE_TASK_ID"),
        ("d.lsf", "#BSUB -J d[1-3] -oo %I.lsf.txt", "LSB_JOBINDEX"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\necho ${variable}\n")
        hn(head, tmp_path, "job", "submit", "--wait", name)
    for kind in ("slurm", "tasks", "sge", "lsf"):
        assert [(tmp_path / f"{n}.{kind}.txt").read_text() for n in (1, 2, 3)] == ["1\n", "2\n", "3\n"]


def test_a_script_of_pbs_begins_at_home_and_leaves_its_files_where_it_was_submitted(
    head: RealHead, tmp_path: Path
) -> None:
    (tmp_path / "p.pbs").write_text(
        "#PBS -N p\n#PBS -l select=1:ncpus=4:mpiprocs=2,walltime=60\n#PBS -j oe\n"
        "echo $PWD $PBS_O_WORKDIR $PBS_NP $(wc -l < $PBS_NODEFILE)\n"
    )
    hn(head, tmp_path, "job", "submit", "--wait", "p.pbs")
    (found,) = tmp_path.glob("p.o*")
    home, submitted, processes, lines = found.read_text().split()
    assert (submitted, processes, lines) == (str(tmp_path), "2", "2")
    assert home != submitted


def test_a_script_of_pbs_with_one_processor_has_a_node_file(head: RealHead, tmp_path: Path) -> None:
    (tmp_path / "one.pbs").write_text("#PBS -N one\n#PBS -l ncpus=1\n#PBS -j oe\nwc -l < $PBS_NODEFILE\n")
    hn(head, tmp_path, "job", "submit", "--wait", "one.pbs")
    (found,) = tmp_path.glob("one.o*")
    assert found.read_text() == "1\n"


def test_a_script_of_lsf_has_its_processors_hosts_and_variables(head: RealHead, tmp_path: Path) -> None:
    (tmp_path / "l.lsf").write_text(
        "#!/bin/sh\n#BSUB -J l -n 2 -R span[hosts=1] -x\n#BSUB -S 1024\nulimit -s\n"
        "echo $LSB_JOBID $LSB_JOBINDEX $LSB_DJOB_NUMPROC $LSB_JOBNAME $LS_SUBCWD\n"
        "set -- $LSB_HOSTS $LSB_MCPU_HOSTS\n[ $1 = $2 ] && [ $1 = $3 ] && echo $4\n"
        "wc -l < $LSB_DJOB_HOSTFILE\n#BSUB -o said\n"
    )
    ids = [hn(head, tmp_path, "job", "submit", "--quiet", "l.lsf").strip() for _ in range(2)]
    for number in ids:
        hn(head, tmp_path, "job", "wait", number)
    lines = (tmp_path / "said").read_text().splitlines()
    assert sorted(lines[1::4]) == sorted(f"{number} 0 2 l {tmp_path}" for number in ids)
    assert (lines[0::4], lines[2::4], lines[3::4]) == (["1024"] * 2, ["2"] * 2, ["2"] * 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as another user")
def test_only_its_user_reads_a_script_on_the_node_and_it_goes_with_its_job(
    head: RealHead, tmp_path: Path
) -> None:
    (tmp_path / "s.sh").write_text(
        "#!/bin/sh\n#SBATCH -n 1 -o /dev/null\nstat -c '%a %u' $0 > seen\necho $0 >> seen\n"
    )
    hn(head, tmp_path, "job", "submit", "--wait", "s.sh")
    mode, path = (tmp_path / "seen").read_text().splitlines()
    assert mode == "400 0"
    head.until(lambda: not Path(path).exists())


def test_scripts_find_a_directory_of_the_job_in_tmpdir_if_their_scheduler_makes_one(
    head: RealHead, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o700)
    head.ask("set_parameters", values={"TemporaryDirectory": str(scratch)})
    find = 'cd "$TMPDIR" && ls -A; dirname "$TMPDIR"'
    for name, line, parent in (
        ("a", "#PBS -j oe -o a.txt -v TMPDIR=/set/x", str(scratch)),
        ("b", "#$ -cwd -j y -o b.txt -v TMPDIR=/set/x", str(scratch)),
        ("c", "#SBATCH -o c.txt --export=ALL,TMPDIR=/set/x", "/set"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n{find}\n")
        hn(head, tmp_path, "job", "submit", "--wait", name)
        assert (tmp_path / f"{name}.txt").read_text().splitlines()[-1] == parent
    hn(head, tmp_path, "job", "submit", "--wait", "--tmpdir", "--stdout", "d.txt", "sh", "-c", find)
    assert (tmp_path / "d.txt").read_text() == f"{scratch}\n"
    assert list(scratch.iterdir()) == []


def test_a_process_of_htcondor_has_its_temporary_files_where_it_runs_or_beside_it(
    head: RealHead, tmp_path: Path
) -> None:
    (tmp_path / "p.sh").write_text('#!/bin/sh\necho "$TMPDIR" "$TMP" "$TEMP" "$_CONDOR_SCRATCH_DIR" "$PWD"\n')
    (tmp_path / "p.sh").chmod(0o755)
    found = {}
    for transfer in ("YES", "NO"):
        text = f"executable = p.sh\noutput = {transfer}\nshould_transfer_files = {transfer}\nqueue\n"
        (tmp_path / "p.sub").write_text(text)
        hn(head, tmp_path, "job", "submit", "--wait", "p.sub")
        *temporary, found[transfer] = (tmp_path / transfer).read_text().split()
        assert len(temporary) == 4
        assert len({*temporary}) == 1
        assert (found[transfer] == temporary[0]) == (transfer == "YES")
        assert not Path(temporary[0]).exists()
    assert found["NO"] == str(tmp_path)
