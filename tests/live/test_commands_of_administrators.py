"""Commands of Slurm and PBS that administrators type: reservations, queues, scripts, changes of jobs."""

import json
from pathlib import Path

import pytest
from batch_programs import Programs, slurm_fixtures

from heads import RealHead

head, slurm, nothing_is_left = slurm_fixtures()


def test_reservations_are_made_shown_and_deleted_as_in_slurm(slurm: Programs, tmp_path: Path) -> None:
    assert slurm.output("scontrol show reservation", tmp_path) == "No reservations in the system"
    assert slurm.output("sinfo -T", tmp_path) == "No reservations in the system"
    node = slurm.output("sinfo -h -N -o %N", tmp_path).split()[0]
    wish = f"reservation=course starttime=2035-01-02T08:00 duration=90 nodes={node} users=root,daemon"
    assert slurm.output(f"scontrol create {wish}", tmp_path) == "Reservation created: course"
    shown = slurm.output("scontrol show res course", tmp_path)
    assert shown == (
        "ReservationName=course StartTime=2035-01-02T08:00:00 EndTime=2035-01-02T09:30:00 Duration=01:30:00\n"
        f"   Nodes={node} NodeCnt=1 CoreCnt=2 Features=(null) PartitionName=(null) Flags=SPEC_NODES\n"
        "   TRES=cpu=2\n"
        "   Users=root,daemon Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE "
        "BurstBuffer=(null) Watts=n/a\n"
        "   MaxStartDelay=(null)"
    )
    assert slurm.output("scontrol -o show reservation", tmp_path) == shown.replace("\n   ", " ")
    assert slurm.output("sinfo -T", tmp_path).splitlines() == [
        "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST",
        f"course     INACTIVE  2035-01-02T08:00:00  2035-01-02T09:30:00     01:30:00  {node}",
    ]
    number = slurm.output("sbatch --parsable -t 5 --reservation=course --wrap true", tmp_path)
    slurm.output("sbatch -H --wrap true", tmp_path)
    assert slurm.output("squeue -h -R course -o %i", tmp_path) == number
    slurm.output(f"scancel {number}", tmp_path)
    assert slurm.output("scontrol update reservationname=course duration=2:00:00", tmp_path)
    assert "Duration=02:00:00" in slurm.output("scontrol show res", tmp_path)
    slurm.output("scontrol delete reservationname=course", tmp_path)
    for command, found in (
        ("scontrol show reservation course", "Reservation course not found\n"),
        ("scontrol delete reservationname=course", "Requested reservation is invalid\n"),
        (f"scontrol create reservation=x starttime=2035-01-02 nodes={node}", "No reservation created.\n"),
        (f"scontrol create reservation=x duration=5 nodes={node} flags=daily", "Request aborted\n"),
    ):
        done = slurm.run(command, tmp_path)
        assert (done.returncode, (done.stdout + done.stderr).endswith(found)) == (1, True), command


def test_squeue_start_shows_only_what_waits(slurm: Programs, tmp_path: Path) -> None:
    running = slurm.output("sbatch --parsable --wrap 'sleep 100'", tmp_path)
    slurm.head.until(lambda: slurm.output(f"squeue -h -j {running} -o %t", tmp_path) == "R")
    later = slurm.output("sbatch --parsable --begin=now+2hours --wrap true", tmp_path)
    sooner = slurm.output("sbatch --parsable --begin=now+1hour --wrap true", tmp_path)
    assert slurm.output("squeue -h --start -o %i", tmp_path).split() == [sooner, later]
    assert slurm.output(f"squeue -h -j {running} -o '%b|%z|%c|%O'", tmp_path) == "N/A|*:*:*|1|0"
    assert slurm.output(f"squeue -h -j {running} --users=root,daemon -o %i", tmp_path) == running


def test_the_script_of_a_job_is_written(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.output("sbatch --parsable -H -J kept --wrap 'echo kept'", tmp_path)
    script = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho kept"
    assert slurm.output(f"scontrol write batch_script {number} -", tmp_path) == script
    printed = slurm.output(f"scontrol write batch_script {number}", tmp_path)
    assert printed == f"batch script for job {number} written to slurm-{number}.sh"
    assert (tmp_path / f"slurm-{number}.sh").read_text() == f"{script}\n"
    output = slurm.output(f"sacct -B -j {number}", tmp_path)
    assert output == f"Batch Script for {number}\n{'-' * 80}\n{script}"
    slurm.output("scontrol release jobname=kept", tmp_path)
    slurm.head.until(lambda: not slurm.output("squeue -h", tmp_path))
    assert slurm.run("scontrol write batch_script 999999", tmp_path).returncode == 1


def test_scontrol_changes_limits_deadlines_and_nodes(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.output("sbatch --parsable -H -t 10 --wrap true", tmp_path)
    for change, limit in (("timelimit=+30", "40:00"), ("timelimit-=15", "25:00"), ("timelimit=5", "5:00")):
        slurm.output(f"scontrol update job {number} {change}", tmp_path)
        assert slurm.output(f"squeue -h -j {number} -o %l", tmp_path) == limit
    node = slurm.output("sinfo -h -N -o %N", tmp_path).split()[1]
    slurm.output(
        f"scontrol update jobid={number} deadline=2035-01-02T08:00 numcpus=2 nodelist={node}", tmp_path
    )
    shown = slurm.output(f"scontrol show job {number}", tmp_path)
    assert "Deadline=2035-01-02T08:00:00" in shown
    assert "NumCPUs=2" in shown


def test_sinfo_shows_each_host_name_alone(slurm: Programs, tmp_path: Path) -> None:
    assert len(slurm.output("sinfo -h -o '%n %T'", tmp_path).splitlines()) == 2


def test_squeue_chooses_by_licence(slurm: Programs, tmp_path: Path) -> None:
    slurm.output("hn cluster params Licences=solver:2,other:1", tmp_path)
    with_licence = slurm.output("sbatch --parsable -H -L solver:1 --wrap true", tmp_path)
    slurm.output("sbatch -H -L other --wrap true", tmp_path)
    slurm.output("sbatch -H --wrap true", tmp_path)
    assert slurm.output("squeue -h -L solver,none -o %i", tmp_path) == with_licence
    assert slurm.output(f"squeue -h -j {with_licence} -O cpus-per-task", tmp_path).split() == ["1"]


def test_sacct_has_every_field_of_slurm(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.output("sbatch --parsable --wait --wrap true", tmp_path)
    fields = slurm.output("sacct --helpformat", tmp_path).split()
    assert {"AdminComment", "MaxVMSize", "Reserved", "SubmitLine", "TRESUsageInTot"} <= set(fields)
    output = slurm.output(f"sacct -X -n -P -j {number} -o {','.join(fields)}", tmp_path).split("|")
    found = dict(zip(fields, output, strict=True))
    assert (found["AdminComment"], found["Reserved"], found["JobID"]) == ("", "00:00:00", number)


def test_qstat_of_pbs_counts_the_jobs_of_queues(head: RealHead, tmp_path: Path) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    (tmp_path / "job.sh").write_text("sleep 100\n")
    running = pbs.output("qsub -l walltime=3600 job.sh", tmp_path)
    pbs.output("qsub -h job.sh", tmp_path)
    pbs.output("qsub -h job.sh", tmp_path)
    head.until(lambda: f"{running} " in pbs.output("qstat -r", tmp_path).replace("...", " "))
    assert pbs.output("qstat -Q", tmp_path).splitlines() == [
        "Queue              Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type",
        "---------------- ----- ----- --- --- ----- ----- ----- ----- ----- ----- ----",
        "Default              0     3 yes yes     0     1     2     0     0     0 Exe*",
    ]
    server = running.partition(".")[2]
    assert pbs.output("qstat -q", tmp_path).splitlines() == [
        "",
        f"server: {server}",
        "",
        "Queue            Memory CPU Time Walltime Node   Run   Que   Lm  State",
        "---------------- ------ -------- -------- ---- ----- ----- ----  -----",
        "Default            --      --       --     --      1     2   --   E R",
        "                                               ----- -----",
        "                                                   1     2",
    ]
    status = pbs.output("qstat -B", tmp_path).splitlines()[2]
    assert status == f"{server[:16]:<16}     0     3     0     1     2     0     0     0 Active"
    full = pbs.output("qstat -Qf Default", tmp_path)
    counts = "Transit:0 Queued:0 Held:2 Waiting:0 Running:1 Exiting:0 Begun:0"
    assert full.splitlines()[:4] == [
        "Queue: Default",
        "    queue_type = Execution",
        "    total_jobs = 3",
        f"    state_count = {counts} ",
    ]
    unknown = pbs.run("qstat -Q nosuch", tmp_path)
    assert (unknown.returncode, unknown.stdout, unknown.stderr) == (170, "", "qstat: Unknown queue nosuch\n")


def test_qstat_of_pbs_shows_nodes_and_comments(head: RealHead, tmp_path: Path) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    (tmp_path / "job.sh").write_text("sleep 100\n")
    number = pbs.output("qsub job.sh", tmp_path).partition(".")[0]
    held = pbs.output("qsub -h job.sh", tmp_path).partition(".")[0]
    head.until(lambda: f"\n{number}." in pbs.output("qstat -r", tmp_path))
    lines = pbs.output("qstat -n", tmp_path).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith(f"{number}."))
    assert lines[at + 1].startswith("   ")
    assert lines[at + 1].endswith("/0")
    alone = pbs.output("qstat -n1", tmp_path).splitlines()
    assert next(line for line in alone if line.startswith(f"{number}.")).endswith("/0")
    lines = pbs.output("qstat -s", tmp_path).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith(f"{held}."))
    assert lines[at + 1].startswith("   it has the hold 'user'")


@pytest.mark.parametrize("program", ["qsub", "qstat", "qdel"])
def test_programs_of_pbs_have_a_version(head: RealHead, tmp_path: Path, program: str) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    assert pbs.output(f"{program} --version", tmp_path) == "pbs_version = 22.05.11"


def test_pbsnodes_shows_nodes_and_takes_them_offline(head: RealHead, tmp_path: Path) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    (tmp_path / "job.sh").write_text("sleep 100\n")
    number = pbs.output("qsub job.sh", tmp_path)
    head.until(lambda: f"{number}/0" in pbs.output("pbsnodes -a", tmp_path))
    first, second = (node["name"] for node in json.loads(pbs.output("hn node list --json", tmp_path)))
    shown = pbs.output("pbsnodes -a", tmp_path)
    assert [line for line in shown.splitlines() if line and not line.startswith(" ")] == [first, second]
    assert f"     resources_available.host = {first}\n" in shown
    output = json.loads(pbs.output(f"pbsnodes -F json {first}", tmp_path))["nodes"][first]
    assert (output["state"], output["resources_available"]["ncpus"]) == ("free", 2)
    busy = next(line for line in pbs.output("pbsnodes -aSj", tmp_path).splitlines() if line.startswith(first))
    assert busy.split()[1:5] == ["free", "1", "1", "0"]
    assert busy.endswith(f" 1/2     0/0     0/0 {number.partition('.')[0]}")
    assert not pbs.output("pbsnodes -l", tmp_path)
    pbs.output(f"pbsnodes -o {second} -C disk", tmp_path)
    assert pbs.output("pbsnodes -l", tmp_path) == f"{second:<20} offline disk"
    pbs.output(f"pbsnodes -r {second}", tmp_path)
    assert not pbs.output("pbsnodes -l", tmp_path)
    unknown = pbs.run("pbsnodes nosuch", tmp_path)
    assert (unknown.returncode, unknown.stderr) == (1, "Node: nosuch,  Error: Unknown node \n")


def test_qstat_and_qhost_of_grid_engine_show_hosts(head: RealHead, tmp_path: Path) -> None:
    engine = Programs(head, tmp_path / "sge", "--only", "qsub", "--qsub", "gridengine")
    number = engine.output("qsub -terse -b y -N runner sleep 100", tmp_path)
    held = engine.output("qsub -terse -b y -h -N kept sleep 100", tmp_path)
    head.until(lambda: " r  " in engine.output("qstat", tmp_path))
    first, second = (node["name"] for node in json.loads(engine.output("hn node list --json", tmp_path)))
    lines = engine.output("qstat -f", tmp_path).splitlines()
    queue = f"{f'all.q@{first}':<30} BIP   0/1/2          -NA-     lx-"
    assert lines[0] == "queuename                      qtype resv/used/tot. load_avg arch          states"
    assert lines[1] == "-" * 81
    assert lines[2].startswith(queue)
    assert lines[3].startswith(f"{number:>7} 0.50000 runner ")
    assert lines[5].startswith(f"all.q@{second} ")
    assert lines[-4:-1] == [
        "#" * 76,
        " - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS",
        "#" * 76,
    ]
    assert lines[-1].startswith(f"{held:>7} 0.50000 kept ")
    assert f"all.q@{second}" not in engine.output("qstat -f -ne", tmp_path)
    assert engine.output("qstat -f -xml", tmp_path).count("<Queue-List>") == 2
    assert engine.output("qstat -g c", tmp_path).splitlines()[2] == (
        "all.q                             -NA-      1      0      3      4      0      0 "
    )
    hosts = engine.output("qhost -q -j", tmp_path).splitlines()
    assert hosts[0] == (
        "HOSTNAME                ARCH         NCPU NSOC NCOR NTHR  LOAD  MEMTOT  MEMUSE  SWAPTO  SWAPUS"
    )
    assert hosts[1] == "-" * 94
    assert hosts[3].startswith(f"{first:<23} lx-")
    assert hosts[4] == f"   {'all.q':<20} BIP   0/1/2         "
    assert hosts[7].startswith(f"   {number:>7} 0.50000 runner ")
    engine.output(f"hn node drain {second} --reason disk", tmp_path)
    assert engine.output(f"qhost -q -h {second}", tmp_path).endswith(f"{'0/0/2':<14}d")
    assert engine.output("qstat -g c", tmp_path).endswith("      1      0      1      4      0      2 ")
    engine.output(f"hn node resume {second}", tmp_path)


def test_links_are_those_of_the_system(head: RealHead, tmp_path: Path) -> None:
    Programs(head, tmp_path / "pbs", "--only", "qsub")
    Programs(head, tmp_path / "sge", "--only", "qsub", "--qsub", "gridengine")
    names = [
        {link.name for link in (tmp_path / one).iterdir()} & {"pbsnodes", "qhost"} for one in ("pbs", "sge")
    ]
    assert names == [{"pbsnodes"}, {"qhost"}]


def test_jobs_are_held_and_released_as_in_pbs_and_grid_engine(head: RealHead, tmp_path: Path) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    engine = Programs(head, tmp_path / "sge", "--only", "qsub", "--qsub", "gridengine")
    (tmp_path / "job.sh").write_text("sleep 100\n")
    name = pbs.output("qsub -h job.sh", tmp_path)
    number = name.partition(".")[0]

    def state() -> str:
        return str(json.loads(pbs.output("qstat -f -F json", tmp_path))["Jobs"][name]["job_state"])

    assert state() == "H"
    assert not pbs.output(f"qrls {name}", tmp_path)
    head.until(lambda: state() == "R")
    running = pbs.run(f"qhold {name}", tmp_path)
    found = f"qhold: Request invalid for state of job {name}\n"
    assert (running.returncode, running.stderr) == (168, found)
    unknown = pbs.run("qhold 999999.x", tmp_path)
    assert (unknown.returncode, unknown.stderr) == (153, "qhold: Unknown Job Id 999999.x\n")
    pbs.output(f"qdel {name}", tmp_path)
    engine.output("qsub -b y -t 1-4 sleep 100", tmp_path)  # has all processors
    later = engine.output("qsub -terse -b y -h sleep 100", tmp_path)
    assert engine.output(f"qrls {later}", tmp_path) == f"modified hold of job {later}"
    assert engine.output(f"qhold -h u {later}", tmp_path) == f"modified hold of job {later}"
    denied = engine.run("qrls 999999", tmp_path)
    assert (denied.returncode, denied.stdout) == (3, 'denied: job "999999" does not exist\n')
    assert engine.run(f"qhold -h o {number}", tmp_path).returncode == 1
