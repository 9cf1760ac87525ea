"""qalter of PBS and of Grid Engine changes jobs that wait; qacct shows those that have ended."""

from pathlib import Path

import pytest
from batch_programs import Programs, emptied_fixture, programs_fixture

from heads import RealHead, shared_head_fixture

head = shared_head_fixture(processors=2)
engine = programs_fixture("--only", "qsub", "--qsub", "gridengine")
pbs = programs_fixture("--only", "qsub", "--qsub", "pbs")
nothing_is_left = emptied_fixture("engine", "qdel -u root", "qstat")


def shown(head: RealHead, job: str) -> dict[str, object]:
    found: dict[str, object] = head.ask("job", job=int(job))["job"]
    return found


def test_qalter_of_grid_engine_changes_a_job_and_says_so(
    head: RealHead, engine: Programs, tmp_path: Path
) -> None:
    job = engine.output("qsub -terse -h -N first -b y true", tmp_path)
    output = engine.output(f"qalter -N other -p 512 -l h_rt=90 -A chem -M a@b.c {job}", tmp_path)
    assert [line.split("@", 1)[0] for line in output.splitlines()] == [
        "root", f"modified job name of job {job}", f"modified hard resource list of job {job}",
        f"modified account of job {job}", f"modified mail list of job {job}",
    ]  # fmt: skip
    found = shown(head, job)
    values = [found[key] for key in ("name", "priority", "run_time", "project")]
    assert values == ["other", 3000, 120.0, "chem"]
    assert engine.output(f"qalter -h n {job}", tmp_path) == f"modified hold of job {job}"
    head.wait(int(job))


def test_qalter_of_pbs_changes_a_job_and_says_nothing(head: RealHead, pbs: Programs, tmp_path: Path) -> None:
    name = pbs.output("echo true | qsub -h -N first", tmp_path)
    assert pbs.output(f"qalter -N other -p -512 -l walltime=00:10:00 -P bio {name}", tmp_path) == ""
    job = name.partition(".")[0]
    found = shown(head, job)
    values = [found[key] for key in ("name", "priority", "run_time", "project")]
    assert values == ["other", 1000, 600.0, "bio"]
    assert pbs.output(f"qalter -h n {name}", tmp_path) == ""
    head.wait(int(job))


@pytest.mark.parametrize(
    ("system", "words", "status", "text"),
    [
        ("gridengine", "-o file 999999", 1, "-o is not supported here for a job that was submitted"),
        ("gridengine", "-hold_jid 3 999999", 1, "-hold_jid is not supported here"),
        ("gridengine", "-V 999999", 1, "-V is not supported here for a job that was submitted"),
        ("gridengine", "-cwd 999999", 1, "-cwd is not supported here"),
        ("gridengine", "-pe smp 2 999999", 1, "-pe is not supported here"),
        ("gridengine", "-p 2000 999999", 7, 'invalid priority "2000"'),
        ("gridengine", "-N x 999999", 1, 'denied: job "999999" does not exist'),
        ("gridengine", "-N x 1.2", 4, "works only on jobs and not on tasks"),
        ("gridengine", "-nosuch", 2, 'invalid option argument "-nosuch"'),
        ("pbs", "-l select=2 999999", 1, "-l is not supported here"),
        ("pbs", "-l walltime=x 999999", 1, "Illegal attribute or resource value: -l walltime: 'x' is not a"),
        ("pbs", "-V 999999", 1, "-V is not supported here"),
        ("pbs", "-W depend=afterok:1 999999", 1, "-W is not supported here"),
        ("pbs", "-p 2000 999999", 2, 'invalid priority "2000"'),
        ("pbs", "-N x 999999", 153, "Unknown Job Id 999999"),
        ("pbs", "-x", 2, "invalid option -- 'x'"),
        ("pbs", "", 2, "no job was named"),
    ],
)
def test_what_cannot_be_changed_is_refused_and_changes_nothing(
    engine: Programs, pbs: Programs, tmp_path: Path, system: str, words: str, status: int, text: str
) -> None:
    programs = engine if system == "gridengine" else pbs
    done = programs.run(f"qalter {words}", tmp_path)
    assert (done.returncode, text in done.stdout + done.stderr) == (status, True), done


def test_an_ended_job_is_not_changed(head: RealHead, pbs: Programs, tmp_path: Path) -> None:
    name = pbs.output("echo true | qsub", tmp_path)
    head.wait(int(name.partition(".")[0]))
    done = pbs.run(f"qalter -N late {name}", tmp_path)
    assert (done.returncode, done.stderr) == (35, f"qalter: Job has finished {name}\n")


def fields(text: str) -> list[dict[str, str]]:
    """Return the values of each job that qacct shows."""
    return [
        {line[:13].strip(): line[13:].strip() for line in part.splitlines() if line}
        for part in text.split("=" * 62 + "\n")[1:]
    ]


def test_qacct_shows_jobs_and_elements_with_their_ends(
    head: RealHead, engine: Programs, tmp_path: Path
) -> None:
    good = engine.output("qsub -terse -A chem -N good -b y -o /dev/null -j y true", tmp_path)
    bad = engine.output("qsub -terse -N bad -b y -o /dev/null -j y sh -c 'kill -9 $$'", tmp_path)
    array = engine.output("qsub -terse -t 1-3 -N many -b y -o /dev/null -j y true", tmp_path).partition(".")[
        0
    ]
    for job in (good, bad, array):
        head.wait(int(job))
    (one,) = fields(engine.output(f"qacct -j {good}", tmp_path))
    keys = ("jobname", "jobnumber", "taskid", "account", "failed", "exit_status", "slots", "owner")
    assert [one[key] for key in keys] == ["good", good, "undefined", "chem", "0", "0", "1", "root"]
    (killed,) = fields(engine.output("qacct -j bad", tmp_path))
    assert (killed["exit_status"], killed["failed"]) == ("137", "100 : assumedly after job")
    elements = fields(engine.output(f"qacct -j {array}", tmp_path))
    assert [each["taskid"] for each in elements] == ["1", "2", "3"]
    (second,) = fields(engine.output(f"qacct -j {array} -t 2", tmp_path))
    assert second["taskid"] == "2"
    mine = fields(engine.output("qacct -o root -d 1 -j", tmp_path))
    assert [each["jobname"] for each in mine][-5:] == ["good", "bad", "many", "many", "many"]


def test_a_job_that_has_not_ended_has_no_account_yet(engine: Programs, tmp_path: Path) -> None:
    job = engine.output("qsub -terse -h -b y true", tmp_path)
    done = engine.run(f"qacct -j {job}", tmp_path)
    assert (done.returncode, done.stderr) == (1, f"error: job id {job} not found\n")
    assert engine.run("qacct -t 1", tmp_path).returncode == 1


SUMS = (
    "    WALLCLOCK         UTIME         STIME           CPU"
    "             MEMORY                 IO                IOW"
)
SPIN = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"


def test_qacct_sums_what_ended_jobs_used(head: RealHead, engine: Programs, tmp_path: Path) -> None:
    before = engine.output("qacct -o", tmp_path).splitlines()
    for words in ("-P alchemy -b y", "-P botany -b y", "-P botany -t 1-2 -b y"):
        job = engine.output(f"qsub -terse {words} -o /dev/null -j y sh -c '{SPIN}'", tmp_path)
        head.wait(int(job.partition(".")[0]))
    heading, rule, *rows = engine.output("qacct -o -P -d 1", tmp_path).splitlines()
    assert (heading[:13], heading[-len(SUMS) :]) == ("OWNER PROJECT", SUMS)
    assert rule == "=" * len(heading)
    used = {tuple(row.split()[:2]): [float(cell) for cell in row.split()[2:]] for row in rows}
    one, three = used["root", "alchemy"], used["root", "botany"]
    assert one[1] > 0.005
    assert three[1] > 1.5 * one[1]
    assert abs(three[3] - three[1] - three[2]) < 0.002
    assert three[4:] == [0, 0, 0]
    owners = engine.output("qacct -o", tmp_path).splitlines()
    assert owners[0] == f"OWNER {SUMS}"
    assert (
        float(owners[2].split()[4])
        >= float(before[2].split()[4] if before[2:] else 0) + one[3] + three[3] - 0.01
    )
    assert engine.output("qacct -P botany", tmp_path).splitlines()[2:] == [
        next(row.removeprefix("root  ") for row in rows if "botany" in row)
    ]
    host = head.ask("nodes")["nodes"][0]["name"]
    for words, keys in (("-q all.q", ["HOST", "CLUSTER", "QUEUE"]), ("-h", ["HOST"])):
        shown = engine.output(f"qacct {words}", tmp_path).splitlines()
        assert shown[0].split()[: len(keys)] == keys
        assert [row.split()[0] for row in shown[2:]] == [host]
    for words in ("-o nosuch", "-h nosuch", "-q nosuch", "-d 0"):
        assert len(engine.output(f"qacct {words}", tmp_path).splitlines()) == 2 + (words == "-d 0")
    total = engine.output("qacct", tmp_path).splitlines()
    assert total[:3] == ["Total System Usage", SUMS, "=" * len(SUMS)]
    assert total[3].split() == owners[2].split()[1:]
