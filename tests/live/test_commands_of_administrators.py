"""Commands of Slurm and PBS that administrators type: reservations, queues, scripts, changes of jobs."""

import json
from pathlib import Path

import pytest
from batch_programs import Programs, slurm_fixtures

from heads import RealHead

head, slurm, nothing_is_left = slurm_fixtures()


def test_reservations_are_made_shown_and_deleted_as_in_slurm(slurm: Programs, tmp_path: Path) -> None:
    assert slurm.said("scontrol show reservation", tmp_path) == "No reservations in the system"
    assert slurm.said("sinfo -T", tmp_path) == "No reservations in the system"
    node = slurm.said("sinfo -h -N -o %N", tmp_path).split()[0]
    wish = f"reservation=course starttime=2035-01-02T08:00 duration=90 nodes={node} users=root,daemon"
    assert slurm.said(f"scontrol create {wish}", tmp_path) == "Reservation created: course"
    shown = slurm.said("scontrol show res course", tmp_path)
    assert shown == (
        "ReservationName=course StartTime=2035-01-02T08:00:00 EndTime=2035-01-02T09:30:00 Duration=01:30:00\n"
        f"   Nodes={node} NodeCnt=1 CoreCnt=2 Features=(null) PartitionName=(null) Flags=SPEC_NODES\n"
        "   TRES=cpu=2\n"
        "   Users=root,daemon Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE "
        "BurstBuffer=(null) Watts=n/a\n"
        "   MaxStartDelay=(null)"
    )
    assert slurm.said("scontrol -o show reservation", tmp_path) == shown.replace("\n   ", " ")
    assert slurm.said("sinfo -T", tmp_path).splitlines() == [
        "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST",
        f"course     INACTIVE  2035-01-02T08:00:00  2035-01-02T09:30:00     01:30:00  {node}",
    ]
    number = slurm.said("sbatch --parsable -t 5 --reservation=course --wrap true", tmp_path)
    slurm.said("sbatch -H --wrap true", tmp_path)
    assert slurm.said("squeue -h -R course -o %i", tmp_path) == number
    slurm.said(f"scancel {number}", tmp_path)
    assert slurm.said("scontrol update reservationname=course duration=2:00:00", tmp_path)
    assert "Duration=02:00:00" in slurm.said("scontrol show res", tmp_path)
    slurm.said("scontrol delete reservationname=course", tmp_path)
    for command, told in (
        ("scontrol show reservation course", "Reservation course not found\n"),
        ("scontrol delete reservationname=course", "Requested reservation is invalid\n"),
        (f"scontrol create reservation=x starttime=2035-01-02 nodes={node}", "No reservation created.\n"),
        (f"scontrol create reservation=x duration=5 nodes={node} flags=daily", "Request aborted\n"),
    ):
        done = slurm.run(command, tmp_path)
        assert (done.returncode, (done.stdout + done.stderr).endswith(told)) == (1, True), command


def test_squeue_start_shows_only_what_waits(slurm: Programs, tmp_path: Path) -> None:
    running = slurm.said("sbatch --parsable --wrap 'sleep 100'", tmp_path)
    slurm.head.until(lambda: slurm.said(f"squeue -h -j {running} -o %t", tmp_path) == "R")
    later = slurm.said("sbatch --parsable --begin=now+2hours --wrap true", tmp_path)
    sooner = slurm.said("sbatch --parsable --begin=now+1hour --wrap true", tmp_path)
    assert slurm.said("squeue -h --start -o %i", tmp_path).split() == [sooner, later]
    assert slurm.said(f"squeue -h -j {running} -o '%b|%z|%c|%O'", tmp_path) == "N/A|*:*:*|1|0"
    assert slurm.said(f"squeue -h -j {running} --users=root,daemon -o %i", tmp_path) == running


def test_the_script_of_a_job_is_written(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.said("sbatch --parsable -H -J kept --wrap 'echo kept'", tmp_path)
    script = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho kept"
    assert slurm.said(f"scontrol write batch_script {number} -", tmp_path) == script
    told = slurm.said(f"scontrol write batch_script {number}", tmp_path)
    assert told == f"batch script for job {number} written to slurm-{number}.sh"
    assert (tmp_path / f"slurm-{number}.sh").read_text() == f"{script}\n"
    said = slurm.said(f"sacct -B -j {number}", tmp_path)
    assert said == f"Batch Script for {number}\n{'-' * 80}\n{script}"
    slurm.said("scontrol release jobname=kept", tmp_path)
    slurm.head.until(lambda: not slurm.said("squeue -h", tmp_path))
    assert slurm.run("scontrol write batch_script 999999", tmp_path).returncode == 1


def test_scontrol_changes_limits_deadlines_and_nodes(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.said("sbatch --parsable -H -t 10 --wrap true", tmp_path)
    for change, limit in (("timelimit=+30", "40:00"), ("timelimit-=15", "25:00"), ("timelimit=5", "5:00")):
        slurm.said(f"scontrol update job {number} {change}", tmp_path)
        assert slurm.said(f"squeue -h -j {number} -o %l", tmp_path) == limit
    node = slurm.said("sinfo -h -N -o %N", tmp_path).split()[1]
    slurm.said(
        f"scontrol update jobid={number} deadline=2035-01-02T08:00 numcpus=2 nodelist={node}", tmp_path
    )
    shown = slurm.said(f"scontrol show job {number}", tmp_path)
    assert "Deadline=2035-01-02T08:00:00" in shown
    assert "NumCPUs=2" in shown


def test_sinfo_shows_each_host_name_alone(slurm: Programs, tmp_path: Path) -> None:
    assert len(slurm.said("sinfo -h -o '%n %T'", tmp_path).splitlines()) == 2


def test_squeue_chooses_by_licence(slurm: Programs, tmp_path: Path) -> None:
    slurm.said("hn cluster params Licences=solver:2,other:1", tmp_path)
    with_licence = slurm.said("sbatch --parsable -H -L solver:1 --wrap true", tmp_path)
    slurm.said("sbatch -H -L other --wrap true", tmp_path)
    slurm.said("sbatch -H --wrap true", tmp_path)
    assert slurm.said("squeue -h -L solver,none -o %i", tmp_path) == with_licence
    assert slurm.said(f"squeue -h -j {with_licence} -O cpus-per-task", tmp_path).split() == ["1"]


def test_sacct_has_every_field_of_slurm(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.said("sbatch --parsable --wait --wrap true", tmp_path)
    fields = slurm.said("sacct --helpformat", tmp_path).split()
    assert {"AdminComment", "MaxVMSize", "Reserved", "SubmitLine", "TRESUsageInTot"} <= set(fields)
    told = slurm.said(f"sacct -X -n -P -j {number} -o {','.join(fields)}", tmp_path).split("|")
    found = dict(zip(fields, told, strict=True))
    assert (found["AdminComment"], found["Reserved"], found["JobID"]) == ("", "00:00:00", number)


def test_qstat_of_pbs_counts_the_jobs_of_queues(head: RealHead, tmp_path: Path) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    (tmp_path / "job.sh").write_text("sleep 100\n")
    running = pbs.said("qsub -l walltime=3600 job.sh", tmp_path)
    pbs.said("qsub -h job.sh", tmp_path)
    pbs.said("qsub -h job.sh", tmp_path)
    head.until(lambda: f"{running} " in pbs.said("qstat -r", tmp_path).replace("...", " "))
    assert pbs.said("qstat -Q", tmp_path).splitlines() == [
        "Queue              Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type",
        "---------------- ----- ----- --- --- ----- ----- ----- ----- ----- ----- ----",
        "Default              0     3 yes yes     0     1     2     0     0     0 Exe*",
    ]
    server = running.partition(".")[2]
    assert pbs.said("qstat -q", tmp_path).splitlines() == [
        "",
        f"server: {server}",
        "",
        "Queue            Memory CPU Time Walltime Node   Run   Que   Lm  State",
        "---------------- ------ -------- -------- ---- ----- ----- ----  -----",
        "Default            --      --       --     --      1     2   --   E R",
        "                                               ----- -----",
        "                                                   1     2",
    ]
    status = pbs.said("qstat -B", tmp_path).splitlines()[2]
    assert status == f"{server[:16]:<16}     0     3     0     1     2     0     0     0 Active"
    full = pbs.said("qstat -Qf Default", tmp_path)
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
    number = pbs.said("qsub job.sh", tmp_path).partition(".")[0]
    held = pbs.said("qsub -h job.sh", tmp_path).partition(".")[0]
    head.until(lambda: f"\n{number}." in pbs.said("qstat -r", tmp_path))
    lines = pbs.said("qstat -n", tmp_path).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith(f"{number}."))
    assert lines[at + 1].startswith("   ")
    assert lines[at + 1].endswith("/0")
    alone = pbs.said("qstat -n1", tmp_path).splitlines()
    assert next(line for line in alone if line.startswith(f"{number}.")).endswith("/0")
    lines = pbs.said("qstat -s", tmp_path).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith(f"{held}."))
    assert lines[at + 1].startswith("   it has the hold 'user'")


@pytest.mark.parametrize("program", ["qsub", "qstat", "qdel"])
def test_programs_of_pbs_have_a_version(head: RealHead, tmp_path: Path, program: str) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    assert pbs.said(f"{program} --version", tmp_path) == "pbs_version = 22.05.11"


def test_pbsnodes_shows_nodes_and_takes_them_offline(head: RealHead, tmp_path: Path) -> None:
    pbs = Programs(head, tmp_path / "pbs", "--only", "qsub")
    (tmp_path / "job.sh").write_text("sleep 100\n")
    number = pbs.said("qsub job.sh", tmp_path)
    head.until(lambda: f"{number}/0" in pbs.said("pbsnodes -a", tmp_path))
    first, second = (node["name"] for node in json.loads(pbs.said("hn node list --json", tmp_path)))
    shown = pbs.said("pbsnodes -a", tmp_path)
    assert [line for line in shown.splitlines() if line and not line.startswith(" ")] == [first, second]
    assert f"     resources_available.host = {first}\n" in shown
    told = json.loads(pbs.said(f"pbsnodes -F json {first}", tmp_path))["nodes"][first]
    assert (told["state"], told["resources_available"]["ncpus"]) == ("free", 2)
    busy = next(line for line in pbs.said("pbsnodes -aSj", tmp_path).splitlines() if line.startswith(first))
    assert busy.split()[1:5] == ["free", "1", "1", "0"]
    assert busy.endswith(f" 1/2     0/0     0/0 {number.partition('.')[0]}")
    assert not pbs.said("pbsnodes -l", tmp_path)
    pbs.said(f"pbsnodes -o {second} -C disk", tmp_path)
    assert pbs.said("pbsnodes -l", tmp_path) == f"{second:<20} offline disk"
    pbs.said(f"pbsnodes -r {second}", tmp_path)
    assert not pbs.said("pbsnodes -l", tmp_path)
    unknown = pbs.run("pbsnodes nosuch", tmp_path)
    assert (unknown.returncode, unknown.stderr) == (1, "Node: nosuch,  Error: Unknown node \n")


def test_qstat_and_qhost_of_grid_engine_show_hosts(head: RealHead, tmp_path: Path) -> None:
    engine = Programs(head, tmp_path / "sge", "--only", "qsub", "--qsub", "gridengine")
    number = engine.said("qsub -terse -b y -N runner sleep 100", tmp_path)
    held = engine.said("qsub -terse -b y -h -N kept sleep 100", tmp_path)
    head.until(lambda: " r  " in engine.said("qstat", tmp_path))
    first, second = (node["name"] for node in json.loads(engine.said("hn node list --json", tmp_path)))
    lines = engine.said("qstat -f", tmp_path).splitlines()
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
    assert f"all.q@{second}" not in engine.said("qstat -f -ne", tmp_path)
    assert engine.said("qstat -f -xml", tmp_path).count("<Queue-List>") == 2
    assert engine.said("qstat -g c", tmp_path).splitlines()[2] == (
        "all.q                             -NA-      1      0      3      4      0      0 "
    )
    hosts = engine.said("qhost -q -j", tmp_path).splitlines()
    assert hosts[0] == (
        "HOSTNAME                ARCH         NCPU NSOC NCOR NTHR  LOAD  MEMTOT  MEMUSE  SWAPTO  SWAPUS"
    )
    assert hosts[1] == "-" * 94
    assert hosts[3].startswith(f"{first:<23} lx-")
    assert hosts[4] == f"   {'all.q':<20} BIP   0/1/2         "
    assert hosts[7].startswith(f"   {number:>7} 0.50000 runner ")
    engine.said(f"hn node drain {second} --reason disk", tmp_path)
    assert engine.said(f"qhost -q -h {second}", tmp_path).endswith(f"{'0/0/2':<14}d")
    assert engine.said("qstat -g c", tmp_path).endswith("      1      0      1      4      0      2 ")
    engine.said(f"hn node resume {second}", tmp_path)


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
    name = pbs.said("qsub -h job.sh", tmp_path)
    number = name.partition(".")[0]

    def state() -> str:
        return str(json.loads(pbs.said("qstat -f -F json", tmp_path))["Jobs"][name]["job_state"])

    assert state() == "H"
    assert not pbs.said(f"qrls {name}", tmp_path)
    head.until(lambda: state() == "R")
    running = pbs.run(f"qhold {name}", tmp_path)
    told = f"qhold: Request invalid for state of job {name}\n"
    assert (running.returncode, running.stderr) == (168, told)
    unknown = pbs.run("qhold 999999.x", tmp_path)
    assert (unknown.returncode, unknown.stderr) == (153, "qhold: Unknown Job Id 999999.x\n")
    pbs.said(f"qdel {name}", tmp_path)
    engine.said("qsub -b y -t 1-4 sleep 100", tmp_path)  # has all processors
    later = engine.said("qsub -terse -b y -h sleep 100", tmp_path)
    assert engine.said(f"qrls {later}", tmp_path) == f"modified hold of job {later}"
    assert engine.said(f"qhold -h u {later}", tmp_path) == f"modified hold of job {later}"
    denied = engine.run("qrls 999999", tmp_path)
    assert (denied.returncode, denied.stdout) == (3, 'denied: job "999999" does not exist\n')
    assert engine.run(f"qhold -h o {number}", tmp_path).returncode == 1
