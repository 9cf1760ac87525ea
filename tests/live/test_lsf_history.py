"""bhist, bacct, bmod, bswitch, brequeue and badmin of `hn compat install` do what users of LSF expect."""

import os
import re
import time
from pathlib import Path

import pytest
from batch_programs import Programs, emptied_fixture, programs_fixture
from test_programs_of_lsf import states, submitted, until

from headnode.apps.cli.batch_programs.lsf_rows import chosen_rows
from headnode.apps.cli.batch_programs.rows import JobSource
from headnode.apps.cli.batch_programs.words import ProgramWords
from heads import shared_head_fixture

head = shared_head_fixture(nodes=1, processors=2)
lsf = programs_fixture("--only", "lsf")
nothing_is_left = emptied_fixture("lsf", "bkill 0", "bjobs")


def seconds(lsf: Programs, job: int | str, where: Path) -> dict[str, int]:
    """Return how long a job was in each state, as bhist prints it."""
    title, heading, *lines = lsf.output(f"bhist '{job}'", where).splitlines()
    assert title == "Summary of time in seconds spent in various states:"
    (line,) = lines
    return dict(zip(heading.split()[3:], map(int, line.split()[-7:]), strict=True))


def test_bhist_counts_the_seconds_of_a_job_that_was_held_stopped_and_resumed(
    lsf: Programs, tmp_path: Path
) -> None:
    job = submitted(lsf, "bsub -H sleep 1000", tmp_path)
    lsf.head.ask("modify_job", job=job, terms={"suspendable": "true"})
    passed: dict[str, float] = {}

    def stay(state: str, bhist: str) -> None:
        """Wait until bhist counts a second in a state, and note what has passed."""
        until(lsf, job, [state], tmp_path)
        began = time.time()
        lsf.head.until(lambda: seconds(lsf, job, tmp_path)[bhist] >= 1)
        passed[bhist] = passed.get(bhist, 0.0) + time.time() - began

    stay("PSUSP", "PSUSP")
    lsf.output(f"bresume {job}", tmp_path)
    stay("RUN", "RUN")
    lsf.output(f"bstop {job}", tmp_path)
    stay("USUSP", "USUSP")
    lsf.output(f"bresume {job}", tmp_path)
    until(lsf, job, ["RUN"], tmp_path)
    lsf.output(f"bkill {job}", tmp_path)
    until(lsf, job, ["EXIT"], tmp_path)
    found = seconds(lsf, job, tmp_path)
    assert found["TOTAL"] == sum(
        found[state] for state in ("PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN")
    )
    assert all(found[state] >= 1 for state in ("PSUSP", "RUN", "USUSP"))
    record = lsf.head.ask("job", job=job)["job"]
    assert abs(found["TOTAL"] - (record["ended"] - record["submitted"])) <= 2  # each is rounded
    output = lsf.output(f"bhist -l {job}", tmp_path)
    parts = ("Submitted from host", "Dispatched 1 Task", "Suspended by user", "Running;", "TERM_OWNER")
    places = [output.index(part) for part in parts]
    assert places == sorted(places)


def test_bhist_counts_elements_of_arrays_and_jobs_that_wait(lsf: Programs, tmp_path: Path) -> None:
    job = submitted(lsf, "bsub -n 2 -J 'two[1-2]' sleep 1000", tmp_path)
    lsf.head.until(lambda: sorted(states(lsf, job, tmp_path)) == ["PEND", "RUN"])
    lsf.head.until(lambda: seconds(lsf, f"{job}[2]", tmp_path)["PEND"] >= 1)
    first, second = (seconds(lsf, f"{job}[{number}]", tmp_path) for number in (1, 2))
    assert (first["RUN"] >= 1, first["PEND"], second["RUN"]) == (True, 0, 0)


def test_bhist_lists_what_the_options_choose(lsf: Programs, tmp_path: Path) -> None:
    ended = submitted(lsf, "bsub -P chem -J gone true", tmp_path)
    failed = submitted(lsf, "bsub -J bad false", tmp_path)
    until(lsf, failed, ["EXIT"], tmp_path)
    until(lsf, ended, ["DONE"], tmp_path)
    held = submitted(lsf, "bsub -H -J later true", tmp_path)

    def listed(options: str) -> list[int]:
        done = lsf.run(f"bhist {options}", tmp_path)
        return [int(line.split()[0].partition("[")[0]) for line in done.stdout.splitlines()[2:]]

    assert listed("") == [held]
    assert set(listed("-a")) >= {ended, failed, held}
    assert {ended, failed} <= set(listed("-d"))
    assert held not in listed("-d")
    assert failed in listed("-e")
    assert ended not in listed("-e")
    assert listed("-a -P chem") == [ended]
    assert listed("-a -J 'la*'") == [held]
    assert listed(f"-C .-1, {ended} {failed}") == [ended, failed]
    assert listed(f"-C ,.-2 {ended}") == []
    projects = re.findall(r"Project <([^<>]+)>", lsf.output("bhist -l -a", tmp_path))
    assert {"chem", "default"} <= set(projects)
    missing = lsf.run("bhist 99999", tmp_path)
    assert (missing.returncode, missing.stderr) == (255, "Job <99999> is not found\n")


def test_ended_jobs_are_listed_by_the_time_of_their_end_not_by_that_of_their_submission(
    lsf: Programs, tmp_path: Path
) -> None:
    job = submitted(lsf, "bsub sleep 1", tmp_path)
    until(lsf, job, ["DONE"], tmp_path)
    ended = lsf.head.ask("job", job=job)["job"]["ended"]
    rows = chosen_rows(
        ProgramWords(), JobSource(lsf.head.client), living=False, ended=time.time() - ended + 0.1
    )
    assert job in [row.id for row in rows]


def test_bacct_sums_what_ended_jobs_used(lsf: Programs, tmp_path: Path) -> None:
    good = submitted(lsf, "bsub -P sums true", tmp_path)
    bad = submitted(lsf, "bsub -P sums 'exit 3'", tmp_path)
    until(lsf, good, ["DONE"], tmp_path)
    until(lsf, bad, ["EXIT"], tmp_path)
    output = lsf.output("bacct -P sums", tmp_path)
    assert f"  - submitted by users {os.environ.get('USER', 'root')}, \n" in output
    assert "  - accounted on projects sums, \n" in output
    assert re.search(r"done jobs: +1 +Total number of exited jobs: +1\n", output)
    assert re.search(r"Total throughput: +[\d.]+ \(jobs/hour\)  during +[\d.]+ hours", output)
    assert re.search(
        r"done jobs: +0 +Total number of exited jobs: +1\n", lsf.output("bacct -e -P sums", tmp_path)
    )
    assert re.search(
        r"done jobs: +0 +Total number of exited jobs: +0\n", lsf.output("bacct -P none", tmp_path)
    )
    at_length = lsf.output(f"bacct -l {bad}", tmp_path)
    assert "Completed <exit>.\n" in at_length
    heading, values = at_length[at_length.index("     CPU_T") :].splitlines()[:2]
    found = dict(zip(heading.split(), values.split(), strict=True))
    assert (found["STATUS"], re.fullmatch(r"\d+\.\d\d", found["CPU_T"]) is not None) == ("exit", True)
    brief = lsf.output(f"bacct -b {good} {bad}", tmp_path)
    assert len(re.findall(r"^\S+ +Default ", brief, re.MULTILINE)) == 2
    missing = lsf.run("bacct 99999", tmp_path)
    assert (missing.returncode, missing.stderr) == (255, "Job <99999> is not found\n")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("-W 1:30", {"run_time": 5400.0}),
        ("-P chem -J other", {"project": "chem", "name": "other"}),
        ("-n 2", {"minimum": 2, "maximum": 2}),
        ("-Jd text", {"description": "text"}),
        ("-W 5 -Wn", {"run_time": None}),
        ("-b 2030:1:1:10:00 -bn", {"hold_until": None}),
    ],
)
def test_bmod_changes_what_a_job_asks_for(
    lsf: Programs, tmp_path: Path, options: str, shown: dict[str, object]
) -> None:
    job = submitted(lsf, "bsub -H sleep 1000", tmp_path)
    output = lsf.output(f"bmod {options} {job}", tmp_path)
    assert output == f"Parameters of job <{job}> are being changed"
    record = lsf.head.ask("job", job=job)["job"]
    record |= {"description": record["spec"].get("description")}
    assert {name: record[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("bmod -W 5", "Job ID is missing.\nJob not modified.\n"),
        ("bmod -W 5 99999", "Job <99999>: No matching job found. Job not modified.\n"),
        ("bmod {job}", "No option is given.\nJob not modified.\n"),
        ("bmod -W x {job}", "Job not modified.\n"),
        ("bmod -J 'a[1-3]' {job}", "the elements of an array cannot be changed"),
        ("bmod -R 'rusage[mem=4]' {job}", "-R is not supported here: change it with: hn job modify ID"),
        ("bmod -q nosuch {job}", "nosuch: No such queue\n"),
        ("bswitch nosuch {job}", "nosuch: No such queue\n"),
        ("bswitch", "Queue name is missing.\n"),
        ("bswitch Default 99999", "Job <99999>: No matching job found\n"),
        ("brequeue {job}", "running, failed and canceled jobs can be requeued"),
        ("brequeue -d {job}", "use hn job clone"),
        ("bhist -t", "hn cluster history"),
        ("bacct -f file", "no other file is read"),
        ("bhist -C nonsense", "Illegal time format"),
        ("badmin nosuch", "is no command here"),
        ("badmin qclose normal", "a queue is a job template"),
        ("badmin hclose nosuch", "Bad host name"),
        ("busers nosuchuser", "nosuchuser: No such user\n"),
        ("lsload nosuch", "nosuch: No such host\n"),
    ],
)
def test_what_cannot_be_done_is_refused(lsf: Programs, tmp_path: Path, command: str, text: str) -> None:
    job = submitted(lsf, "bsub -H true", tmp_path)
    before = lsf.head.ask("job", job=job)["job"]["spec"]
    done = lsf.run(command.format(job=job), tmp_path)
    assert done.returncode in (1, 255)
    assert text in done.stderr
    assert lsf.head.ask("job", job=job)["job"]["spec"] == before


def test_bswitch_moves_the_newest_job_or_all_to_a_queue(lsf: Programs, tmp_path: Path) -> None:
    lsf.head.ask("set_template", text='name = "night"\n')
    unknown = lsf.run("bsub -q nosuch true", tmp_path)
    assert unknown.returncode == 255
    assert unknown.stderr.startswith("nosuch: No such queue; choose from: Default, night; see")
    assert unknown.stderr.endswith(". Job not submitted.\n")
    jobs = [submitted(lsf, "bsub -H true", tmp_path) for _ in range(2)]
    assert lsf.output("bswitch night", tmp_path) == f"Job <{jobs[1]}> is switched to queue <night>"
    assert lsf.output("bjobs -noheader -o queue", tmp_path).split() == ["Default", "night"]
    output = lsf.output("bswitch -q night Default 0", tmp_path)
    assert output == f"Job <{jobs[1]}> is switched to queue <Default>"
    assert lsf.output(f"bmod -q night {jobs[0]}", tmp_path).endswith("are being changed")
    assert lsf.output("bjobs -noheader -o queue", tmp_path).split() == ["night", "Default"]
    lsf.head.ask("remove_template", template="night")


def test_brequeue_lets_a_running_and_a_failed_job_run_again(lsf: Programs, tmp_path: Path) -> None:
    running = submitted(lsf, "bsub -r sleep 1000", tmp_path)
    until(lsf, running, ["RUN"], tmp_path)
    assert lsf.output(f"brequeue {running}", tmp_path) == f"Job <{running}> is being requeued"
    lsf.head.until(lambda: lsf.head.ask("job", job=running)["job"]["requeues"] == 1)
    until(lsf, running, ["RUN"], tmp_path)
    failed = submitted(lsf, "bsub -r 'test -e there'", tmp_path)
    until(lsf, failed, ["EXIT"], tmp_path)
    assert lsf.run(f"brequeue {failed}", tmp_path).stderr == f"Job <{failed}>: Job has already finished\n"
    held = submitted(lsf, "bsub -r sleep 1000", tmp_path)
    until(lsf, held, ["RUN"], tmp_path)
    assert lsf.output(f"brequeue -H {held}", tmp_path) == f"Job <{held}> is being requeued"
    until(lsf, held, ["PSUSP"], tmp_path)
    (tmp_path / "there").touch()
    assert lsf.output(f"brequeue -e {failed}", tmp_path) == f"Job <{failed}> is being requeued"
    until(lsf, failed, ["DONE"], tmp_path)
    lsf.output(f"bkill {running}", tmp_path)
    array = submitted(lsf, "bsub -r -J 'a[1-2]' sleep 1000", tmp_path)
    until(lsf, array, ["RUN", "RUN"], tmp_path)
    assert lsf.output(f"brequeue -H '{array}[2]'", tmp_path) == f"Job <{array}[2]> is being requeued"
    lsf.head.until(lambda: lsf.head.task(array, 1, 2)["state"] == "Queued")
    assert lsf.head.task(array, 1, 1)["state"] == "Running"


def test_badmin_closes_and_opens_hosts(lsf: Programs, tmp_path: Path) -> None:
    (node,) = (each["name"] for each in lsf.head.ask("nodes")["nodes"])
    assert lsf.output(f"badmin hclose -C 'new disk' {node}", tmp_path) == f"Close <{node}> ...... done"
    assert lsf.output("bhosts", tmp_path).splitlines()[1].split()[1] == "closed_Adm"
    assert lsf.head.ask("node", node=node)["node"]["drains"][0]["reason"] == "new disk"
    assert lsf.output("badmin hopen all", tmp_path) == f"Open <{node}> ...... done"
    assert lsf.output("bhosts", tmp_path).splitlines()[1].split()[1] == "ok"


def test_the_configuration_names_the_file_with_the_default_queue(lsf: Programs, tmp_path: Path) -> None:
    title, *lines = lsf.output("badmin showconf mbd", tmp_path).splitlines()
    values = dict(line.strip().split(" = ") for line in lines)
    cluster = lsf.output("lsclusters", tmp_path).splitlines()[1].split()[0]
    file = Path(values["LSF_CONFDIR"]) / "lsbatch" / cluster / "configdir" / "lsb.params"
    assert title.startswith("MBD configuration at ")
    assert "DEFAULT_QUEUE = Default" in file.read_text().splitlines()
    assert tmp_path in file.parents
    file.parent.chmod(0o500)
    assert lsf.output("badmin showconf mbd", tmp_path).splitlines()[1:] == lines  # it is there already


def test_lists_of_the_cluster_have_the_columns_of_lsf(lsf: Programs, tmp_path: Path) -> None:
    job = submitted(lsf, "bsub -n 2 sleep 1000", tmp_path)
    until(lsf, job, ["RUN"], tmp_path)
    (node,) = lsf.head.ask("nodes")["nodes"]

    def row(command: str) -> dict[str, str]:
        heading, line = lsf.output(command, tmp_path).splitlines()
        return dict(zip(heading.split(), line.split(), strict=True))

    machine = row(f"lshosts {node['name']}")
    assert (machine["ncpus"], machine["type"], machine["server"]) == ("2", "X86_64", "Yes")
    assert row("lsload")["status"] == "ok"
    assert row("busers")["RUN"] == row("busers all")["RUN"] == "2"
    assert row("lsclusters")["SERVERS"] == "1"
    assert lsf.output("bparams", tmp_path).splitlines()[0] == "Default Queues:  Default"
