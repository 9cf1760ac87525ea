"""condor_submit, condor_q, condor_rm and the like on a real head, as scripts and tools call them."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from batch_programs import Programs, emptied_fixture, programs_fixture

from heads import shared_head_fixture

head = shared_head_fixture(processors=4)
condor = programs_fixture("--only", "condor")
nothing_is_left = emptied_fixture("condor", "condor_rm -all", "condor_q -allusers -af ClusterId")


SLEEP = "executable = /bin/sleep\ntransfer_executable = false\narguments = 600\n"
ECHO = "executable = /bin/echo\ntransfer_executable = false\n"


def submitted(condor: Programs, where: Path, text: str, *words: str) -> int:
    """Submit a file; return its cluster."""
    (where / "job.sub").write_text(text)
    output = condor.output(f"condor_submit {' '.join(words)} job.sub", where)
    found = re.search(r"^(\d+) job\(s\) submitted to cluster (\d+)\.$", output, re.MULTILINE)
    assert found, output
    return int(found[2])


def test_condor_submit_says_how_many_jobs_have_which_cluster(condor: Programs, tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text(f"{ECHO}queue 3\n")
    output = condor.output("condor_submit a.sub", tmp_path)
    assert re.fullmatch(r"Submitting job\(s\)\.\.\.\n3 job\(s\) submitted to cluster \d+\.", output)
    for word in ("-terse", "--terse", "-t"):
        assert re.fullmatch(r"(\d+)\.0 - \1\.2", condor.output(f"condor_submit {word} a.sub", tmp_path))
    (tmp_path / "two.sub").write_text(f"{ECHO}queue 2\nrequest_memory = 64\nqueue\n")
    lines = condor.output("condor_submit two.sub", tmp_path).splitlines()[1:]
    assert [re.sub(r"\d+\.$", "N.", line) for line in lines] == [
        "2 job(s) submitted to cluster N.",
        "1 job(s) submitted to cluster N.",
    ]


def test_the_command_line_of_condor_submit_changes_what_the_file_says(
    condor: Programs, tmp_path: Path
) -> None:
    (tmp_path / "a.sub").write_text(
        f"{ECHO}arguments = $(word:none) $(x)\noutput = out.$(Process)\nbatch_name = one\nx = 1\n"
    )
    cluster = condor.output(
        "condor_submit word=two -append 'x = 7' a.sub -batch-name other -terse -queue 2", tmp_path
    ).partition(".")[0]
    condor.head.wait(int(cluster))
    assert [(tmp_path / f"out.{number}").read_text() for number in (0, 1)] == ["two 7\n"] * 2
    assert condor.output(f"condor_history {cluster} -af JobBatchName", tmp_path) == "other\nother"
    output = condor.output("printf 'executable = /bin/echo\\nqueue\\n' | condor_submit", tmp_path)
    assert "1 job(s) submitted to cluster" in output
    done = condor.run("condor_submit a.sub -queue 2 -append 'queue 3' -maxjobs 1", tmp_path)
    assert (done.returncode, "more than -maxjobs 1" in done.stderr) == (1, True)


def test_a_file_that_is_refused_is_told_with_error_and_status_1(condor: Programs, tmp_path: Path) -> None:
    (tmp_path / "bad.sub").write_text("executable = a\nrequirements = Glibc > 3\nqueue\n")
    for line, words in (
        ("condor_submit bad.sub", "ERROR: line 2, column 0: requirements: Glibc > 3 has no equivalent"),
        ("condor_submit nosuch.sub", "ERROR: Failed to open command file (nosuch.sub)"),
        ("condor_submit -nosuch bad.sub", "ERROR: Unrecognized option -nosuch"),
        ("condor_submit -spool bad.sub", "ERROR: -spool is not supported here: write URLs"),
        ("condor_submit bad.sub -queue 3", "ERROR: -queue is given, and the submit file has a queue command"),
        ("condor_transfer_data 1", "ERROR: condor_transfer_data is not supported here; output is"),
        ("condor_ssh_to_job 1", "use: hn job shell ID"),
        ("condor_q -reverse-analyze", "use: condor_q -better-analyze ID"),
        ("condor_q -constraint 'JobStatus =='", "ERROR: the expression 'JobStatus ==' is not understood"),
        ("condor_q -constraint 'splitTime(1)'", "ERROR: the function splittime() is not supported here"),
        ("condor_rm", "ERROR: You did not specify any jobs"),
    ):
        done = condor.run(line, tmp_path)
        assert (done.returncode, words in done.stderr) == (1, True), (line, done.stderr)


def test_a_dry_run_writes_attributes_and_submits_nothing(condor: Programs, tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text(
        f'{ECHO}arguments = $(Process)\n+Mine = "yes"\nlog = /tmp/a.log\nqueue 2\n'
    )
    before = condor.head.ask("jobs", limit=1)["jobs"][:1]
    output = condor.output("condor_submit a.sub -dry-run ads", tmp_path)
    assert output == "Dry-Run job(s)..\n2 job(s) dry-run to cluster 1."
    ads = (tmp_path / "ads").read_text()
    assert 'Arguments = "1"\n' in ads
    assert 'Mine = "yes"\n' in ads
    assert 'UserLog = "/tmp/a.log"\n' in ads
    assert [job["id"] for job in condor.head.ask("jobs", limit=1)["jobs"]] == [job["id"] for job in before]


def test_condor_q_says_why_jobs_wait(condor: Programs, tmp_path: Path) -> None:
    held = submitted(condor, tmp_path, f"{SLEEP}hold = true\nqueue\n")
    asked = f"condor_q -better-analyze {held}"
    output = condor.output(asked, tmp_path)
    assert "Why it waits\n  - " in output
    assert f"release it: hn job release {held} --name user" in output
    other = submitted(condor, tmp_path, f"{SLEEP}hold = true\nqueue\n")
    both = condor.output(f"condor_q -analyze -limit 1 {held} {other}", tmp_path)
    assert both.count("Why it waits") == 1
    assert both.endswith("1 more jobs; name one: condor_q -better-analyze ID")
    assert "There is no such job" in condor.output("condor_q -better-analyze 999999", tmp_path)


def test_condor_q_shows_attributes_in_the_form_that_is_asked_for(condor: Programs, tmp_path: Path) -> None:
    cluster = submitted(condor, tmp_path, f"{SLEEP}+Mine = 5\npriority = 3\nlog = my.log\nqueue 2\n")
    condor.head.until(lambda: condor.output(f"condor_q {cluster} -af JobStatus", tmp_path) == "2\n2")
    one = f"condor_q {cluster}.1"
    for words, answer in (
        ("-af ClusterId ProcId JobStatus Owner", f"{cluster} 1 2 root"),
        ("-af:j JobStatus Nope", f"{cluster}.1 2 undefined"),
        ("-af:jr JobStatus Owner", f'{cluster}.1 2 "root"'),
        ("-autoformat:V Owner JobPrio Mine", '"root" 3 5'),
        ("-af:h ProcId Owner", "ProcId Owner\n1      root "),
        ("-af:l ProcId Owner", "ProcId = 1 Owner = root"),
        ("-af:lrng ProcId Owner", 'ProcId = 1\nOwner = "root"\n'),
        ("-af:, ProcId Owner", "1, root,"),
        ("-af:t ProcId Owner", "1\troot"),
        ("-af 'JobStatus == 2' 'ifThenElse(JobStatus == 2, Owner, \"no\")'", "true root"),
        ("-format '%d.' ClusterId -format '%d\\n' ProcId", f"{cluster}.1"),
        ("-format '%-6s|' Owner -format '%s\\n' Nope -format '%.1f\\n' JobPrio", "root  |3.0"),
        ("-long -attributes ProcId,Owner,Nope", 'ProcId = 1\nOwner = "root"\n'),
        ("-af UserLog", str(tmp_path / "my.log")),
        ("-af Cmd Args", "/bin/sleep 600"),
    ):
        assert condor.output(f"{one} {words}", tmp_path) == answer.rstrip("\n"), words
    (ad,) = json.loads(condor.output(f"{one} -json", tmp_path))
    assert (ad["ProcId"], ad["JobStatus"], ad["Mine"]) == (1, 2, 5)
    assert ad["RemoteHost"].startswith("slot1@")
    for constraint, count in (
        (f"ClusterId == {cluster} && ProcId == 0", 1),
        (f"ClusterId =?= {cluster} && (ProcId == 0 || ProcId == 1)", 2),
        ('Owner == "ROOT" && JobStatus != 2', 0),
        ('Mine > 4 && regexp("^slot1@", RemoteHost)', 2),
        ("time() - QDate < 0", 0),
    ):
        output = condor.output(f"condor_q -constraint '{constraint}' -af ProcId", tmp_path)
        assert len(output.split()) == count, constraint
    assert condor.output(f"condor_q {cluster} -limit 1 -af ProcId", tmp_path) == "0"
    assert condor.output("condor_q nosuchuser -af ProcId", tmp_path) == ""
    assert condor.output("condor_q 999999 -af ProcId", tmp_path) == ""
    assert json.loads(condor.output("condor_q 999999 -json", tmp_path)) == []


def test_the_tables_of_condor_q_have_the_columns_that_parsers_know(condor: Programs, tmp_path: Path) -> None:
    cluster = submitted(condor, tmp_path, f"{SLEEP}batch_name = mine\nqueue 2\n")
    held = submitted(condor, tmp_path, f"{SLEEP}hold = true\nqueue\n")
    condor.head.until(lambda: condor.output(f"condor_q {cluster} -af JobStatus", tmp_path) == "2\n2")
    lines = condor.output("condor_q", tmp_path).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("OWNER"))
    assert re.sub(" +", " ", lines[at]) == "OWNER BATCH_NAME SUBMITTED DONE RUN IDLE HOLD TOTAL JOB_IDS"
    rows = {line.split()[-1]: line.split() for line in lines[at + 1 :] if line.startswith("root")}
    assert rows[f"{cluster}.0-1"][1:2] + rows[f"{cluster}.0-1"][-6:-1] == ["mine", "_", "2", "_", "_", "2"]
    assert rows[f"{held}.0"][-6:-1] == ["_", "_", "_", "1", "1"]
    assert "Total for query: 3 jobs; 0 completed, 0 removed, 0 idle, 2 running, 1 held, 0 suspended " in lines
    lines = condor.output("condor_q -nobatch", tmp_path).splitlines()
    at = lines.index(" ID      OWNER            SUBMITTED     RUN_TIME ST PRI SIZE CMD")
    words = [line.split() for line in lines[at + 1 : at + 4]]
    states = {row[0]: row[5] for row in words}  # as Nextflow reads them
    assert states == {f"{cluster}.0": "R", f"{cluster}.1": "R", f"{held}.0": "H"}
    assert words[0][-2:] == ["sleep", "600"]
    output = condor.output(f"condor_q -hold {held}", tmp_path)
    assert re.search(rf"^ *{held}\.0 .* \d\d:\d\d .*hold", output, re.MULTILINE), output
    assert re.search(r" slot1@\S+$", condor.output("condor_q -run", tmp_path), re.MULTILINE)
    output = condor.output("condor_q -totals", tmp_path)
    assert "Total for query: 3 jobs;" in output
    assert "SUBMITTED" not in output


def test_jobs_are_removed_by_cluster_process_owner_and_constraint(condor: Programs, tmp_path: Path) -> None:
    cluster = submitted(condor, tmp_path, f"{SLEEP}queue 3\n")
    assert condor.output(f"condor_rm {cluster}.1", tmp_path) == f"Job {cluster}.1 marked for removal"
    left = f"condor_q {cluster} -af ProcId"
    condor.head.until(lambda: condor.output(left, tmp_path) == "0\n2")
    output = condor.output(f"condor_rm -constraint 'ClusterId == {cluster} && ProcId == 2'", tmp_path)
    assert output == (
        f"All jobs matching constraint (ClusterId == {cluster} && ProcId == 2) have been marked for removal"
    )
    condor.head.until(lambda: condor.output(left, tmp_path) == "0")
    assert condor.output(f"condor_rm {cluster}", tmp_path) == (
        f"All jobs in cluster {cluster} have been marked for removal"
    )
    condor.head.until(lambda: not condor.output(left, tmp_path))
    assert condor.output(f"condor_history {cluster} -af ProcId JobStatus", tmp_path) == "2 3\n1 3\n0 3"
    done = condor.run(f"condor_rm {cluster}", tmp_path)
    assert (done.returncode, done.stderr) == (1, f"Couldn't find/remove all jobs in cluster {cluster}\n")
    assert condor.run(f"condor_rm {cluster}.0", tmp_path).stderr == f"Job {cluster}.0 not found\n"
    assert condor.run(f"condor_rm -forcex {cluster}.0", tmp_path).returncode == 0
    submitted(condor, tmp_path, f"{SLEEP}queue\n")
    assert condor.output("condor_rm root", tmp_path) == 'All jobs of user "root" have been marked for removal'
    done = condor.run("condor_rm nosuchuser", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")


def test_jobs_are_held_and_released_and_get_another_priority(condor: Programs, tmp_path: Path) -> None:
    cluster = submitted(condor, tmp_path, f"{SLEEP}request_cpus = 4\nqueue\n")
    waiting = submitted(condor, tmp_path, f"{SLEEP}request_cpus = 4\nqueue\n")
    condor.head.until(lambda: condor.output(f"condor_q {cluster} -af JobStatus", tmp_path) == "2")
    assert condor.output(f"condor_hold {waiting} -reason 'not now'", tmp_path) == (
        f"All jobs in cluster {waiting} have been held"
    )
    assert condor.output(f"condor_q {waiting} -af JobStatus HoldReason", tmp_path) == "5 not now"
    assert condor.run(f"condor_hold {waiting}.0", tmp_path).stderr == f"Job {waiting}.0 already held\n"
    assert condor.output(f"condor_release {waiting}.0", tmp_path) == f"Job {waiting}.0 released"
    assert condor.run(f"condor_release {waiting}.0", tmp_path).stderr == (
        f"Job {waiting}.0 not held to be released\n"
    )
    for words, priority in ((f"-p 7 {waiting}", "7"), (f"+2 {waiting}", "9"), (f"-5 {waiting}", "4")):
        condor.output(f"condor_prio {words}", tmp_path)
        assert condor.output(f"condor_q {waiting} -af JobPrio", tmp_path) == priority
    refused = condor.run(f"condor_prio -p soon {waiting} 999999", tmp_path)
    assert (refused.returncode, "condor_prio needs a priority" in refused.stderr) == (1, True)


def test_a_running_job_that_is_held_goes_back_to_the_queue(condor: Programs, tmp_path: Path) -> None:
    log = tmp_path / "events"
    cluster = submitted(condor, tmp_path, f"{SLEEP}log = {log}\nqueue\n")
    condor.head.until(lambda: condor.output(f"condor_q {cluster} -af JobStatus", tmp_path) == "2")
    assert condor.output(f"condor_hold {cluster} -reason 'wrong input'", tmp_path) == (
        f"All jobs in cluster {cluster} have been held"
    )
    shown = f"condor_q {cluster} -af JobStatus HoldReason"
    condor.head.until(lambda: condor.output(shown, tmp_path) == "5 wrong input")
    assert condor.output(f"condor_release {cluster}", tmp_path) == (
        f"All jobs in cluster {cluster} have been released"
    )
    condor.head.until(lambda: condor.output(f"condor_q {cluster} -af JobStatus", tmp_path) == "2")
    condor.head.until(lambda: len(re.findall("^001 ", log.read_text(), re.MULTILINE)) == 2)
    kinds = re.findall(r"^(\d{3}) ", log.read_text(), re.MULTILINE)
    assert sorted(kinds) == ["000", "001", "001", "004", "012", "013"]


def test_one_process_of_several_is_not_held_alone(condor: Programs, tmp_path: Path) -> None:
    cluster = submitted(condor, tmp_path, f"{SLEEP}queue 2\n")
    done = condor.run(f"condor_hold {cluster}.1", tmp_path)
    assert (done.returncode, "are not held one by one here" in done.stderr) == (1, True)


def test_ads_are_printed_as_xml_and_as_lines_of_json(condor: Programs, tmp_path: Path) -> None:
    text = f"{ECHO}arguments = \"a<b & 'c\u0001'\"\n+Sure = true\n+Part = 0.25\nqueue 2\n"
    cluster = submitted(condor, tmp_path, text)
    condor.head.wait(cluster)
    asked = "-attributes ClusterId,ProcId,Owner,Sure,Part,Args,ExitBySignal"
    output = condor.output(f"condor_history {cluster} -xml {asked}", tmp_path)
    assert output.startswith(
        '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n<c>\n'
    )
    ads = ElementTree.fromstring(output).findall("c")
    first = {each.get("n"): (each[0].tag, each[0].text or each[0].get("v")) for each in ads[0]}
    assert first["ClusterId"] == ("i", str(cluster))
    assert (first["Owner"], first["Sure"], first["ExitBySignal"]) == (("s", "root"), ("b", "t"), ("b", "f"))
    assert first["Part"] == ("r", "2.500000000000000E-01")
    lines = condor.output(f"condor_history {cluster} -jsonl -attributes ClusterId,ProcId", tmp_path)
    assert lines.splitlines() == [f'{{"ClusterId": {cluster},"ProcId": {number}}}' for number in (1, 0)]
    assert ElementTree.fromstring(condor.output("condor_q -xml", tmp_path)).findall("c") == []
    names = ElementTree.fromstring(condor.output("condor_status -xml", tmp_path)).findall("c/a[@n='Name']/s")
    assert len(names) == 1


def test_condor_history_shows_how_jobs_ended(condor: Programs, tmp_path: Path) -> None:
    text = (
        "executable = /bin/sh\ntransfer_executable = false\narguments = \"-c 'exit $(Process)'\"\nqueue 3\n"
    )
    cluster = submitted(condor, tmp_path, text)
    condor.head.wait(cluster)
    killed = submitted(
        condor,
        tmp_path,
        "executable = /bin/sh\ntransfer_executable = false\n"
        "arguments = \"-c 'kill -9 $(DOLLAR)$(DOLLAR)'\"\nqueue\n",
    )
    condor.head.wait(killed)
    output = condor.output(f"condor_history {cluster} -af ProcId JobStatus ExitCode ExitBySignal", tmp_path)
    assert output == "2 4 2 false\n1 4 1 false\n0 4 0 false"
    output = condor.output(
        f"condor_history {killed} -af JobStatus ExitCode ExitBySignal ExitSignal", tmp_path
    )
    assert output == "4 undefined true 9"
    assert condor.output("condor_history -match 1 -af ClusterId", tmp_path) == str(killed)
    assert condor.output(f"condor_history -since {cluster} -af ClusterId", tmp_path) == str(killed)
    output = condor.output(f"condor_history {cluster} -limit 2", tmp_path).splitlines()
    assert output[0] == " ID     OWNER          SUBMITTED   RUN_TIME     ST COMPLETED   CMD            "
    assert [line.split()[0] for line in output[1:]] == [f"{cluster}.2", f"{cluster}.1"]
    assert [line.split()[5] for line in output[1:]] == ["C", "C"]
    assert [line.split()[-1] for line in output[1:]] == ["2", "1"]  # of exit $(Process)
    assert condor.output(f"condor_history {cluster} -af Args", tmp_path).splitlines()[-1] == "-c exit 0"


def test_condor_q_shows_a_job_that_is_left_in_the_queue_until_it_is_removed_by_force(
    condor: Programs, tmp_path: Path
) -> None:
    left = submitted(condor, tmp_path, f"{ECHO}leave_in_queue = true\nqueue\n")
    gone = submitted(condor, tmp_path, f"{ECHO}leave_in_queue = JobStatus != 4\nqueue\n")
    condor.head.wait(left)
    condor.head.wait(gone)
    assert condor.output(f"condor_q {left}.0 {gone}.0 -af:jr JobStatus", tmp_path) == f"{left}.0 4"


def test_condor_wait_waits_for_the_jobs_of_a_log(condor: Programs, tmp_path: Path) -> None:
    cluster = submitted(condor, tmp_path, f"{SLEEP}log = logs/$(Cluster).log\nqueue 2\n")
    log = f"logs/{cluster}.log"
    done = condor.run(f"condor_wait -wait 1 {log}", tmp_path)
    assert (done.returncode, done.stdout) == (1, "Time expired.\n")
    condor.output(f"condor_rm {cluster}.0", tmp_path)
    assert condor.output(f"condor_wait {log} {cluster}.0", tmp_path) == "All jobs done."
    assert condor.output(f"condor_wait -num 1 {log}", tmp_path) == "Some jobs done."
    output = condor.output(
        f"(sleep 1; condor_rm {cluster} > /dev/null) & condor_wait -status {log}", tmp_path
    )
    assert output == f"Job {cluster}.1 terminated.\nAll jobs done."
    done = condor.run("condor_wait nosuch.log", tmp_path)
    assert (done.returncode, "no job of yours has the log nosuch.log" in done.stderr) == (1, True)


def test_condor_submit_dag_submits_the_nodes_of_a_flow(condor: Programs, tmp_path: Path) -> None:
    (tmp_path / "step.sub").write_text(f"{ECHO}arguments = $(JOB)\noutput = $(JOB).txt\nqueue\n")
    (tmp_path / "flow.dag").write_text("JOB a step.sub\nJOB b step.sub\nPARENT a CHILD b\n")
    output = condor.output("condor_submit_dag -f flow.dag", tmp_path)
    clusters = re.findall(r"^1 job\(s\) submitted to cluster (\d+)\.$", output, re.MULTILINE)
    assert len(clusters) == 2
    condor.head.wait(int(clusters[1]))
    assert (tmp_path / "b.txt").read_text() == "b\n"
    output = condor.output(f"condor_history {' '.join(clusters)} -af JobBatchName DAGNodeName", tmp_path)
    assert output == "flow b\nflow a"
    done = condor.run("condor_submit_dag -maxidle 5 flow.dag", tmp_path)
    assert (done.returncode, "is not supported here" in done.stderr) == (1, True)


def test_condor_status_lists_nodes_as_slots(condor: Programs, tmp_path: Path) -> None:
    output = condor.output("condor_status", tmp_path).splitlines()
    assert output[0].split() == ["Name", "OpSys", "Arch", "State", "Activity", "LoadAv", "Mem", "ActvtyTime"]
    assert output[2].split()[1:5] == ["LINUX", "X86_64", "Unclaimed", "Idle"]
    assert output[-1].split()[:4] == ["Total", "1", "0", "0"]
    name = condor.output("condor_status -af Name TotalCpus State", tmp_path)
    assert re.fullmatch(r"slot1@\S+ 4 Unclaimed", name)
    assert condor.output("condor_status -constraint 'TotalCpus > 4' -af Name", tmp_path) == ""
    cluster = submitted(condor, tmp_path, f"{SLEEP}queue\n")
    condor.head.until(lambda: condor.output("condor_status -claimed -af Cpus", tmp_path) == "3")
    condor.output(f"condor_rm {cluster}", tmp_path)
    condor.head.until(lambda: not condor.output("condor_status -claimed -af Cpus", tmp_path))


def test_help_says_which_options_have_no_effect_and_which_are_refused(
    condor: Programs, tmp_path: Path
) -> None:
    for program in (
        "submit",
        "submit_dag",
        "q",
        "history",
        "rm",
        "hold",
        "release",
        "wait",
        "status",
        "prio",
    ):
        output = condor.output(f"condor_{program} -help", tmp_path)
        assert output.startswith(f"Usage: condor_{program} ")
        assert "Without effect: -" in output
        assert "Refused: -" in output
    assert condor.output("condor_q -version", tmp_path).startswith("$CondorVersion: ")
