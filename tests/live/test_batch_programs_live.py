"""sbatch, squeue, sacct, scancel, scontrol, srun, and qsub and its like, on a real head."""

import json
import os
import re
from pathlib import Path

import pytest
from batch_programs import Programs, slurm_fixtures

from heads import RealHead
from testbed.request_relay import request_relay

head, slurm, nothing_is_left = slurm_fixtures()


def test_a_job_lives_through_all_programs(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.output("sbatch --parsable -J solve -n 2 -t 10 --comment note --wrap 'sleep 100'", tmp_path)
    slurm.head.until(lambda: slurm.output(f"squeue -h -j {number} -o %t", tmp_path) == "R")
    line = slurm.output(f"squeue -h -j {number} -o '%i|%j|%u|%C|%l|%P|%k|%D'", tmp_path)
    assert line == f"{number}|solve|{os.environ.get('USER', 'root')}|2|10:00|all|note|1"
    assert slurm.output(f"sacct -X -n -P -j {number} -o State,AllocCPUS", tmp_path) == "RUNNING|2"
    shown = slurm.output(f"scontrol -o show job {number}", tmp_path)
    assert f"JobId={number} JobName=solve " in shown
    assert "JobState=RUNNING " in shown
    assert f"StdOut={tmp_path}/slurm-{number}.out" in shown
    slurm.output(f"scontrol update jobid={number} timelimit=20", tmp_path)
    assert slurm.output(f"squeue -h -j {number} -o %l", tmp_path) == "20:00"
    slurm.output(f"scancel {number}", tmp_path)
    slurm.head.until(lambda: not slurm.output("squeue -h", tmp_path))
    output = slurm.output(f"sacct -X -n -P -j {number} -o State,ExitCode", tmp_path)
    assert output.startswith("CANCELLED by ")
    assert output.endswith("|0:0")


def test_elements_of_an_array_are_lines_of_their_own_once_they_run(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.output("sbatch --parsable --array=2-8:2%1 --wrap 'sleep 100'", tmp_path)
    lines = f"squeue -h -j {number} -o '%i %t %r'"
    wanted = [f"{number}_[4,6,8%1] PD JobArrayTaskLimit", f"{number}_2 R None"]
    slurm.head.until(lambda: slurm.output(lines, tmp_path).splitlines() == wanted)
    slurm.output(f"scancel {number}_6", tmp_path)
    slurm.head.until(lambda: f"{number}_[4,8%1] PD" in slurm.output(lines, tmp_path))
    assert slurm.output(f"sacct -X -n -P --array -j {number} -o JobID,State", tmp_path).splitlines()[2] == (
        f"{number}_6|CANCELLED"
    )


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("sbatch --wait --wrap 'exit 7'", 7),
        ("sbatch --wait --array=1-3 --wrap 'exit $SLURM_ARRAY_TASK_ID'", 3),
        ("sbatch --wait --wrap true", 0),
        ("srun sh -c 'exit 5'", 5),
        ("srun -n 3 sh -c 'exit $SLURM_PROCID'", 2),
        ("srun sh -c 'kill -9 $$'", 137),
        ("srun nosuchprogram", 2),
    ],
)
def test_exit_codes_come_back(slurm: Programs, tmp_path: Path, command: str, status: int) -> None:
    assert slurm.run(command, tmp_path).returncode == status


@pytest.mark.parametrize("options", ["", "-n 1", "-l"])
def test_srun_says_once_that_its_task_failed(slurm: Programs, tmp_path: Path, options: str) -> None:
    output = slurm.run(f"srun {options} sh -c 'exit 4'", tmp_path).stderr
    assert output.count("Exited with exit code 4") == 1


def test_programs_by_the_names_that_say_whose_they_are(head: RealHead, tmp_path: Path) -> None:
    programs = Programs(head, tmp_path / "bin", "--only", "qsub")
    assert programs.output("qsub.pbs --help", tmp_path).startswith("Usage: qsub ")
    assert not programs.output("qstat.pbs", tmp_path)


def test_a_job_that_runs_out_of_time_is_a_timeout(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.output("sbatch --parsable --hold --wrap 'sleep 100'", tmp_path)
    slurm.head.ask("modify_job", job=int(number), terms={"runtime": "1s"})
    slurm.output(f"scontrol release {number}", tmp_path)
    slurm.head.until(lambda: not slurm.output("squeue -h", tmp_path))
    assert slurm.output(f"sacct -X -n -P -j {number} -o State,ExitCode", tmp_path) == "TIMEOUT|0:0"
    assert slurm.output(f"squeue -h -t TO -j {number} -o '%t %r'", tmp_path) == "TO TimeLimit"


def test_options_decide_where_a_job_runs_and_what_cannot_be_kept_makes_no_job(
    slurm: Programs, tmp_path: Path
) -> None:
    nodes = slurm.output("sinfo -h -N -o %N", tmp_path).split()
    for node in nodes:
        slurm.output(f"sbatch --wait -o {node}.txt -w {node} --wrap 'echo $SLURMD_NODENAME'", tmp_path)
        assert (tmp_path / f"{node}.txt").read_text() == f"{node}\n"
    before = slurm.head.ask("jobs", limit=1)["jobs"][0]["id"]
    for option in ("--use-min-nodes", "--uid=3", "-M other", "--reboot"):
        refused = slurm.run(f"sbatch {option} --wrap true", tmp_path)
        assert refused.returncode == 1
        assert "error: " in refused.stderr
    assert slurm.run("sbatch --nosuch --wrap true", tmp_path).returncode == 255
    assert slurm.head.ask("jobs", limit=1)["jobs"][0]["id"] == before


def test_a_script_from_standard_input_has_its_own_options_and_those_of_the_line(
    slurm: Programs, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(
        "#!/bin/bash\n#SBATCH -J of-script --parsable --wait -o out-%x.txt\necho $SLURM_JOB_NAME $1\n"
    )
    assert slurm.output("sbatch -J of-line < run.sh", tmp_path).isdigit()
    assert (tmp_path / "out-of-line.txt").read_text() == "of-line\n"
    assert slurm.output("sbatch run.sh arg", tmp_path).isdigit()
    assert (tmp_path / "out-of-script.txt").read_text() == "of-script arg\n"


STEPS = """#!/bin/bash
#SBATCH -n 4 -N 2 -o out.txt
srun -l sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS $SLURMD_NODENAME' | sort
srun -n 2 -o part-%t.txt echo part
echo given | srun -n 2 cat
srun -n 9 true
echo too many: $?
"""


def test_srun_in_a_job_starts_tasks_on_all_its_nodes(slurm: Programs, tmp_path: Path) -> None:
    (tmp_path / "steps.sh").write_text(STEPS)
    slurm.output("sbatch --wait steps.sh", tmp_path)
    output = (tmp_path / "out.txt").read_text().splitlines()
    first, second = sorted({line.split()[-1] for line in output[:4]})
    assert output[:4] == [
        f"0: 0 0 0 4 {first}",
        f"1: 1 1 0 4 {first}",
        f"2: 2 0 1 4 {second}",
        f"3: 3 1 1 4 {second}",
    ]
    assert [(tmp_path / f"part-{rank}.txt").read_text() for rank in (0, 1)] == ["part\n", "part\n"]
    assert output.count("given") == 2
    assert output[-1] == "too many: 1"


def test_steps_of_a_job_take_turns_on_its_processors(slurm: Programs, tmp_path: Path) -> None:
    (tmp_path / "turns.sh").write_text(
        "#!/bin/bash\n#SBATCH -n 2 -N 1 -o turns.txt\n"
        "for i in 1 2 3 4 5 6; do srun -Q -n 1 sh -c 'mkdir a 2>/dev/null && D=a || { mkdir b && D=b; } || "
        "echo three at once; sleep 0.3; rmdir $D' & done\nwait\necho done\n"
    )
    slurm.output("sbatch --wait turns.sh", tmp_path)
    assert (tmp_path / "turns.txt").read_text() == "done\n"


def test_srun_outside_of_a_job_passes_streams_on(slurm: Programs, tmp_path: Path) -> None:
    done = slurm.run("echo given | srun sh -c 'cat; echo to errors >&2'", tmp_path)
    assert (done.returncode, done.stdout) == (0, "given\n")
    assert "to errors\n" in done.stderr
    slurm.output("srun -n 2 -o both.txt echo here", tmp_path)
    assert (tmp_path / "both.txt").read_text() == "here\nhere\n"


def test_what_srun_says_itself_is_not_in_the_file_of_its_program(slurm: Programs, tmp_path: Path) -> None:
    nodes = slurm.output("sinfo -h -o %D", tmp_path).strip()
    ahead = slurm.output(f"sbatch --parsable -N {nodes} --exclusive --wrap 'sleep 600'", tmp_path).strip()
    slurm.head.until(lambda: slurm.output(f"squeue -h -t R -j {ahead}", tmp_path))
    frees = f"until squeue -h -t PD -n sh | grep -q .; do sleep 0.1; done; scancel {ahead}"
    done = slurm.run(
        f"({frees}) & srun -o own.txt sh -c 'echo here; exit 3'; ended=$?; wait; exit $ended", tmp_path
    )
    assert done.returncode == 3, done
    assert "queued and waiting for resources\n" in done.stderr
    assert "task 0: Exited with exit code 3\n" in done.stderr
    assert (tmp_path / "own.txt").read_text() == "here\n"


@pytest.mark.parametrize("option", ["--output", "--input"])
def test_srun_leaves_no_job_behind_if_its_files_cannot_be_opened(
    slurm: Programs, tmp_path: Path, option: str
) -> None:
    done = slurm.run(f"srun {option}=nowhere/file sleep 600", tmp_path)
    assert (done.returncode, "nowhere/file: No such file or directory" in done.stderr) == (1, True)
    slurm.head.until(lambda: not slurm.output("squeue -h -t R,PD -n sleep", tmp_path))


def test_a_list_of_jobs_survives_a_liar_about_arrays(slurm: Programs, tmp_path: Path) -> None:
    slurm.output("sbatch --hold --export=ALL,SLURM_ARRAY_TASK_ID=x --wrap true", tmp_path)
    slurm.output("sbatch --hold --export=ALL,SLURM_ARRAY_TASK_ID=5 -J 5 --wrap true", tmp_path)
    assert len(slurm.output("squeue -h", tmp_path).splitlines()) == 2


def test_who_asks_for_a_job_that_is_not_there_hears_it_as_from_slurm(slurm: Programs, tmp_path: Path) -> None:
    for command, status, found in (
        ("squeue -j 999999", 1, "slurm_load_jobs error: Invalid job id specified"),
        ("scontrol show job 999999", 1, "slurm_load_jobs error: Invalid job id specified"),
        ("scancel 999999", 0, ""),
        ("sacct -X -n -j 999999", 0, ""),
    ):
        done = slurm.run(command, tmp_path)
        assert (done.returncode, done.stderr.strip()) == (status, found)


def test_a_head_that_is_away_is_a_controller_that_cannot_be_reached(tmp_path: Path, slurm: Programs) -> None:
    for program, status in (("squeue", 1), ("scancel 1", 8), ("sbatch --wrap true", 1), ("sinfo", 1)):
        done = slurm.run(f"HEADNODE_STATE={tmp_path}/none {program}", tmp_path)
        assert done.returncode == status
        assert "Unable to contact slurm controller (connect failure)" in done.stderr


def test_what_a_job_waits_for_is_a_word_of_slurm(slurm: Programs, tmp_path: Path) -> None:
    first = slurm.output("sbatch --parsable -N 2 --exclusive --wrap 'sleep 100'", tmp_path)
    for options, reason in (
        ("-b now+1hour", "BeginTime"),
        ("--hold", "JobHeldUser"),
        (f"-d afterany:{first}", "Dependency"),
        ("-n 4", "Resources"),
    ):
        number = slurm.output(f"sbatch --parsable {options} --wrap true", tmp_path)
        line = f"squeue -h -j {number} -o '%t %r'"
        slurm.head.until(lambda line=line, reason=reason: slurm.output(line, tmp_path) == f"PD {reason}")


def test_another_cluster_is_refused_and_not_taken_for_this_one(slurm: Programs, tmp_path: Path) -> None:
    name = slurm.head.ask("cluster")["cluster"]["name"]
    for command in ("squeue", "sacct", "sinfo", "scancel -n x", "scontrol ping"):
        assert slurm.run(f"{command} --clusters=other", tmp_path).returncode == 1
        slurm.output(f"{command} --clusters={name},all", tmp_path)


def test_scontrol_sends_a_running_job_back_to_the_queue_and_holds_it_there(
    slurm: Programs, tmp_path: Path
) -> None:
    number = slurm.output("sbatch --parsable --requeue --wrap 'sleep 1000'", tmp_path)
    state = f"squeue -h -o '%T %r' -j {number}"
    slurm.head.until(lambda: slurm.output(state, tmp_path) == "RUNNING None")
    slurm.output(f"scontrol requeuehold {number}", tmp_path)
    slurm.head.until(lambda: slurm.output(state, tmp_path) == "PENDING JobHeldUser")
    slurm.output(f"scontrol release {number}", tmp_path)
    slurm.head.until(lambda: slurm.output(state, tmp_path) == "RUNNING None")


def test_a_node_is_drained_and_resumed_by_scontrol(slurm: Programs, tmp_path: Path) -> None:
    node = slurm.output("sinfo -h -N -o %N", tmp_path).split()[0]
    assert slurm.run(f"scontrol update nodename={node} state=drain", tmp_path).returncode == 1
    slurm.output(f"scontrol update nodename={node} state=drain reason=memory", tmp_path)
    assert slurm.output(f"sinfo -h -N -n {node} -o '%t %E'", tmp_path) == "drain memory"
    slurm.output(f"scontrol update nodename={node} state=resume", tmp_path)
    assert slurm.output(f"sinfo -h -N -n {node} -o %t", tmp_path) == "idle"


def test_qsub_and_qstat_speak_as_pbs_or_as_grid_engine(
    head: RealHead, slurm: Programs, tmp_path: Path
) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    engine = Programs(head, tmp_path / "sge", "--only", "qsub", "--qsub", "gridengine")
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsleep 100\n")
    number, _, server = pbs.output("qsub -N one -l walltime=60 job.sh", tmp_path).partition(".")
    array = pbs.output("qsub -J 1-3 -h job.sh", tmp_path)
    assert array == f"{int(number) + 1}[].{server}"
    head.until(lambda: f"{number}.{server}" in pbs.output("qstat -r", tmp_path))
    jobs = json.loads(pbs.output("qstat -f -F json", tmp_path))["Jobs"]
    assert jobs[f"{number}.{server}"]["job_state"] == "R"
    assert jobs[f"{number}.{server}"]["Resource_List"]["walltime"] == "00:01:00"
    assert jobs[array]["job_state"] == "H"
    pbs.output(f"qdel {number} {array}", tmp_path)
    head.until(lambda: not pbs.output("qstat", tmp_path))
    assert pbs.run(f"qstat {number}", tmp_path).returncode == 35
    assert (
        json.loads(pbs.output(f"qstat -x -f -F json {number}", tmp_path))["Jobs"][f"{number}.{server}"][
            "job_state"
        ]
        == "F"
    )
    assert engine.run("qsub -b y -sync y sh -c 'exit 3'", tmp_path).returncode == 3
    output = engine.output("qsub -terse -h -t 1-6:2 -N arr job.sh", tmp_path)
    assert output.endswith(".1-6:2")
    assert "<state>hqw</state>" in engine.output("qstat -xml", tmp_path)
    assert engine.output("qstat", tmp_path).splitlines()[-1].split()[-1] == "1-6:2"


def test_the_programs_of_another_scheduler_are_never_replaced(head: RealHead, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "squeue").symlink_to("/opt/slurm/bin/squeue")
    programs = Programs.__new__(Programs)
    programs.head, programs.folder = head, folder
    refused = programs.run(f"hn compat install {folder}", tmp_path)
    assert refused.returncode == 2
    assert [path.name for path in folder.iterdir()] == ["squeue"]
    assert programs.run(f"hn compat remove {folder}", tmp_path).returncode == 0
    assert (folder / "squeue").is_symlink()


def test_json_has_the_fields_that_a_real_slurm_writes_with_their_types(
    slurm: Programs, tmp_path: Path
) -> None:
    number = slurm.output("sbatch --parsable -J solve -n 2 -t 10 --comment note --wrap 'sleep 100'", tmp_path)
    slurm.head.until(lambda: slurm.output(f"squeue -h -j {number} -o %t", tmp_path) == "R")
    (job,) = json.loads(slurm.output(f"squeue --json -j {number}", tmp_path))["jobs"]
    assert (job["job_id"], job["name"], job["job_state"], job["comment"]) == (
        int(number),
        "solve",
        "RUNNING",
        "note",
    )
    assert (job["time_limit"], job["cpus"], job["exit_code"]) == (10, 2, 0)
    assert job["submit_time"] <= job["start_time"] < job["end_time"]
    assert json.loads(slurm.output(f"scontrol show job {number} --json", tmp_path))["jobs"] == [job]
    (node,) = [
        n for n in json.loads(slurm.output("sinfo --json", tmp_path))["nodes"] if n["name"] == job["nodes"]
    ]
    assert (node["state"], node["alloc_cpus"], node["partitions"]) == ("allocated", 2, ["all"])
    failed = slurm.output("sbatch --parsable --wrap 'exit 7'", tmp_path)
    slurm.head.until(lambda: slurm.output(f"sacct -nXPo State -j {failed}", tmp_path) == "FAILED")
    output = json.loads(slurm.output(f"sacct --json -j {failed}", tmp_path))
    assert output["meta"]["plugin"]["type"] == "openapi/dbv0.0.38"
    assert output["jobs"][0]["state"]["current"] == "FAILED"
    assert output["jobs"][0]["exit_code"]["return_code"] == 7
    assert json.loads(slurm.output(f"squeue --json -j {failed}", tmp_path))["jobs"][0]["exit_code"] == 7 << 8


def test_sprio_lists_what_waits_with_its_priority(slurm: Programs, tmp_path: Path) -> None:
    held = slurm.output("sbatch --parsable -H --wrap true", tmp_path)
    assert slurm.output(f"sprio -h -j {held} -o '%i %u %Y'", tmp_path).split()[0] == held
    cluster = slurm.head.ask("cluster")["cluster"]["name"]
    assert slurm.output(f"sprio -h -j {held} -o %c", tmp_path).strip() == cluster
    assert "PRIORITY" in slurm.output("sprio -l", tmp_path)
    assert slurm.output("sprio -h -u nosuchuser", tmp_path) == ""


@pytest.mark.parametrize("system", ["pbs", "gridengine"])
def test_qsub_shows_the_id_of_its_job_though_the_head_goes_away_meanwhile(
    head: RealHead, slurm: Programs, tmp_path: Path, system: str
) -> None:
    programs = Programs(head, tmp_path / system, "--only", "qsub", "--qsub", system)
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsleep 100\n")
    with request_relay(tmp_path / "relay", head.state) as relay:
        relay.lost.update(jobs=1, cluster=1)
        output = programs.output(f"HEADNODE_STATE={relay.state} qsub job.sh", tmp_path)
        assert relay.lost["jobs"] == 0
    assert str(head.ask("jobs", limit=1)["jobs"][0]["id"]) in re.findall("[0-9]+", output)


def test_an_element_is_requeued_held_and_released_alone(
    slurm: Programs, head: RealHead, tmp_path: Path
) -> None:
    script = f"echo >> {tmp_path}/starts$SLURM_ARRAY_TASK_ID; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    (tmp_path / "x.sh").write_text(f"#!/bin/sh\n{script}\n")
    job = int(slurm.output("sbatch --parsable --requeue --array=1-2 x.sh", tmp_path))
    starts = [tmp_path / f"starts{number}" for number in (1, 2)]
    head.until(lambda: all(file.exists() for file in starts))
    slurm.output(f"scontrol requeue {job}_1", tmp_path)
    head.until(lambda: len(starts[0].read_text()) == 2 and head.task(job, 1, 1)["state"] == "Running")
    refused = slurm.run(f"scontrol hold {job}_1", tmp_path)
    assert (refused.returncode, "only queued instances can be held" in refused.stderr) == (1, True)
    slurm.output(f"scontrol requeuehold {job}_[1]", tmp_path)
    head.until(lambda: head.task(job, 1, 1)["state"] == "Queued")
    (tmp_path / "go").touch()
    head.until(lambda: head.task(job, 1, 2)["state"] == "Finished")
    unknown = slurm.run(f"scontrol hold {job}_9", tmp_path)
    assert (unknown.returncode, "Invalid job id specified" in unknown.stderr) == (1, True)
    slurm.output(f"scontrol release {job}_1", tmp_path)
    assert head.wait(job)["state"] == "Finished"
    assert [len(file.read_text()) for file in starts] == [3, 1]
