"""The event logs that submit files name have what happened to their jobs, in the words of HTCondor."""

import contextlib
import os
import pwd
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from batch_programs import Programs, programs_fixture
from workflow_programs import needs, run_python

from headnode.apps.client.client import Client
from heads import RealHead, shared_head_fixture
from testbed.other_users import being, open_to_all
from testbed.small_disks import small_disk

head = shared_head_fixture(processors=2)
condor = programs_fixture("--only", "condor")

PROGRAM = "executable = /bin/sh\ntransfer_executable = false\n"
_HEAD = re.compile(r"(\d{3}) \((\d+)\.(\d+)\.000\) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d (.*)")


def events(log: Path, cluster: int) -> dict[int, list[str]]:
    """Return the events of each process in a log: their codes, with what tells them apart."""
    found: dict[int, list[str]] = {}
    for event in log.read_text().split("...\n"):
        if not event:
            continue
        head = _HEAD.match(event)
        assert head, event
        if int(head[2]) == cluster:
            ends = re.search(r"return value \d+|signal \d+", event)
            found.setdefault(int(head[3]), []).append(f"{head[1]} {ends[0]}" if ends else head[1])
    return found


def submitted(condor: Programs, where: Path, text: str) -> int:
    (where / "job.sub").write_text(text)
    return int(condor.output("condor_submit -terse job.sub", where).partition(".")[0])


def test_a_log_says_how_each_process_went(condor: Programs, tmp_path: Path) -> None:
    text = f"{PROGRAM}log = $(Cluster).log\narguments = \"-c 'exit $(Process)'\"\nqueue 3\n"
    cluster = submitted(condor, tmp_path, text)
    log = tmp_path / f"{cluster}.log"
    assert log.exists()
    ended = {number: ["000", "001", f"005 return value {number}"] for number in range(3)}
    condor.head.until(lambda: events(log, cluster) == ended)


def test_each_process_has_its_log_if_the_name_says_so(condor: Programs, tmp_path: Path) -> None:
    kills = "arguments = \"-c 'kill -9 $(DOLLAR)$(DOLLAR)'\"\n"
    cluster = submitted(condor, tmp_path, f"{PROGRAM}log = log.$(Process)\n{kills}queue 2\n")
    for number in (0, 1):
        log = tmp_path / f"log.{number}"
        wanted = {number: ["000", "001", "005 signal 9"]}
        condor.head.until(lambda log=log, wanted=wanted: log.exists() and events(log, cluster) == wanted)


def test_retries_holds_and_removals_are_events(condor: Programs, tmp_path: Path) -> None:
    log = tmp_path / "all.log"
    again = submitted(
        condor, tmp_path, f"{PROGRAM}log = all.log\nmax_retries = 1\narguments = -c false\nqueue\n"
    )
    condor.head.wait(again)
    wanted = {0: ["000", "001", "004", "001", "005 return value 1"]}
    condor.head.until(lambda: events(log, again) == wanted)
    held = submitted(condor, tmp_path, f"{PROGRAM}log = all.log\nhold = true\narguments = -c true\nqueue\n")
    condor.output(f"condor_release {held}", tmp_path)
    condor.head.until(lambda: events(log, held) == {0: ["000", "012", "013", "001", "005 return value 0"]})
    runs = submitted(condor, tmp_path, f"{PROGRAM}log = all.log\narguments = \"-c 'sleep 600'\"\nqueue 3\n")
    condor.head.until(lambda: sum("001" in each for each in events(log, runs).values()) == 2)
    condor.output(f"condor_rm {runs}", tmp_path)
    condor.head.until(lambda: [each[-1] for each in events(log, runs).values()] == ["009"] * 3)
    assert [len(each) for each in events(log, runs).values()] == [3, 3, 2]
    waits = submitted(condor, tmp_path, f"{PROGRAM}log = all.log\nhold = true\nqueue 2\n")
    condor.output(f"condor_rm {waits}.1", tmp_path)
    condor.head.until(lambda: events(log, waits).get(1) == ["000", "012", "009"])
    condor.output(f"condor_rm -reason 'a reason\n...\n005 no' {waits}", tmp_path)
    condor.head.until(lambda: events(log, waits) == {number: ["000", "012", "009"] for number in (0, 1)})
    assert "\ta reason ... 005 no\n" in log.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_process_that_is_held_and_released_alone_has_events_of_its_own(
    condor: Programs, tmp_path: Path
) -> None:
    text = f"{PROGRAM}log = one.log\nhold = true\narguments = -c true\nqueue 2\n"
    cluster = submitted(condor, tmp_path, text)
    for verb in ("hold_task", "release_task"):
        condor.head.ask(verb, job=cluster, task=1, instance=2)
    condor.output(f"condor_release {cluster}", tmp_path)
    log, ran = tmp_path / "one.log", ["013", "001", "005 return value 0"]
    wanted = {0: ["000", "012", *ran], 1: ["000", "012", "012", "013", *ran]}
    condor.head.until(lambda: events(log, cluster) == wanted)


def test_a_log_on_a_full_disk_loses_no_event_though_the_head_is_killed_meanwhile(
    condor: Programs, head: RealHead, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        text = f"{PROGRAM}log = {{log}}\narguments = -c true\nqueue\n"
        (disk / "x.log").touch()
        (disk / "filler").write_bytes(b"x" * 60_000)
        with contextlib.suppress(OSError), (disk / "filler").open("ab") as filler:
            while True:
                filler.write(b"x" * 4096)
                filler.flush()
        late = submitted(condor, tmp_path, text.format(log=disk / "x.log"))
        good = submitted(condor, tmp_path, text.format(log="good.log"))
        ended = {0: ["000", "001", "005 return value 0"]}
        condor.head.until(lambda: events(tmp_path / "good.log", good) == ended)
        head.until(lambda: head.ask("job", job=late)["job"]["state"] == "Finished")
        assert (disk / "x.log").read_text() == ""
        (trouble,) = head.ask("cluster")["cluster"]["failed_parts"].values()
        assert trouble == "some files are written later: No space left on device"
        head.kill()
        (disk / "filler").unlink()
        head.start_again()
        head.wait_until_ready()
        condor.head.until(lambda: events(disk / "x.log", late) == ended)
        assert events(tmp_path / "good.log", good) == ended
        assert head.ask("cluster")["cluster"]["failed_parts"] == {}


FORGETS = 1000  # events: all of them, as after a restore into another directory


@pytest.mark.parametrize("lost", [0, 1, 2, 3, 4, 5, FORGETS])
def test_logs_go_on_after_a_restart_of_the_head(
    condor: Programs, head: RealHead, tmp_path: Path, lost: int
) -> None:
    """The head is killed after lines of so many events were written, and before it has stored that."""
    log = tmp_path / "x.log"
    cluster = submitted(
        condor,
        tmp_path,
        f"{PROGRAM}log = x.log\narguments = \"-c 'until [ -e go ]; do sleep 0.1; done'\"\nqueue\n",
    )
    condor.head.until(lambda: events(log, cluster) == {0: ["000", "001"]})
    head.kill()
    if lost == FORGETS:
        for file in head.state.glob("event_logs.db*"):
            file.unlink()
    else:
        with closing(sqlite3.connect(head.state / "event_logs.db", isolation_level=None)) as stored:
            stored.execute("update event_logs set number = number - ?", (lost,))
    (tmp_path / "go").touch()
    head.start_again()
    head.wait_until_ready()
    condor.head.until(lambda: events(log, cluster) == {0: ["000", "001", "005 return value 0"]})


def test_jobs_without_a_log_write_nothing_of_where_logs_are(
    condor: Programs, head: RealHead, tmp_path: Path
) -> None:
    def logged(name: str) -> None:
        cluster = submitted(condor, tmp_path, f"{PROGRAM}log = {name}\narguments = -c true\nqueue\n")
        wanted = {0: ["000", "001", "005 return value 0"]}
        condor.head.until(lambda: events(tmp_path / name, cluster) == wanted)

    logged("first.log")
    with closing(sqlite3.connect(head.state / "event_logs.db", isolation_level=None)) as stored:
        stored.execute("create table writes (number)")
        stored.execute(
            "create trigger counted after insert on event_logs "
            "begin insert into writes values (new.number); end"
        )
        for _ in range(8):
            assert head.wait(head.submit("sleep 0.2"))["state"] == "Finished"
        logged("last.log")
        (count,) = stored.execute("select count(*) from writes").fetchone()
        stored.execute("drop trigger counted")
    assert count <= 4  # the three lines of the last log, each at most once, and one of the first


def test_a_log_that_cannot_be_written_holds_up_no_other(condor: Programs, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("directory", "pipe", "nosuch/x.log"):
        submitted(condor, tmp_path, f"{PROGRAM}log = {name}\narguments = -c true\nqueue\n")
    good = submitted(condor, tmp_path, f"{PROGRAM}log = good.log\narguments = -c true\nqueue\n")
    log = tmp_path / "good.log"
    condor.head.until(lambda: events(log, good) == {0: ["000", "001", "005 return value 0"]})


READER = """
import sys
import htcondor2

for event in htcondor2.JobEventLog(sys.argv[1]).events(stop_after=0):
    print(event.cluster, event.proc, event.type.name, event.get("ReturnValue", ""))
"""


@needs("htcondor2")
def test_the_reader_of_htcondor_takes_the_logs(condor: Programs, tmp_path: Path) -> None:
    (tmp_path / "read.py").write_text(READER)
    text = f"{PROGRAM}log = x.log\narguments = \"-c 'exit $(Process)'\"\nmax_retries = 1\nqueue 2\n"
    ran = submitted(condor, tmp_path, text)
    gone = submitted(condor, tmp_path, f"{PROGRAM}log = x.log\nhold = true\nqueue\n")
    condor.output(f"condor_rm {gone}", tmp_path)
    condor.output("condor_wait x.log", tmp_path)
    condor.head.until(
        lambda: len(re.findall("^00[59] ", (tmp_path / "x.log").read_text(), re.MULTILINE)) == 3
    )
    lines = run_python(
        ["read.py", "x.log"], {"_CONDOR_LOG": "/dev/null", "CONDOR_CONFIG": "/dev/null"}, tmp_path
    )
    seen: dict[str, list[str]] = {}
    for line in lines.splitlines():
        cluster, process, *event = line.split()
        seen.setdefault(f"{int(cluster) - ran}.{process}", []).append(" ".join(event))
    retried = ["EXECUTE", "JOB_EVICTED"]
    assert seen == {
        "0.0": ["SUBMIT", "EXECUTE", "JOB_TERMINATED 0"],
        "0.1": ["SUBMIT", *retried, "EXECUTE", "JOB_TERMINATED 1"],
        "1.0": ["SUBMIT", "JOB_HELD", "JOB_ABORTED"],
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has jobs of others")
def test_a_log_of_another_user_is_written_with_the_rights_of_that_user(
    condor: Programs, head: RealHead, tmp_path: Path
) -> None:
    nobody = pwd.getpwnam("nobody")
    open_to_all(tmp_path)
    open_to_all(head.state.parent)
    (tmp_path / "own").mkdir()
    os.chown(tmp_path / "own", nobody.pw_uid, nobody.pw_gid)
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "own" / "link").symlink_to(tmp_path / "secret")
    clusters = []
    for log in ("link", "x.log"):
        text = f"{PROGRAM}log = {log}\narguments = -c true\nqueue\n"
        with being(nobody.pw_uid), closing(Client(str(head.state))) as client:
            fields = {"jobfile": text, "script": ["x.sub"], "directory": str(tmp_path / "own")}
            answer = client.ask("submit_job", **fields)
        clusters.append(answer["job"])
    own = tmp_path / "own" / "x.log"
    wanted = {0: ["000", "001", "005 return value 0"]}
    condor.head.until(lambda: own.exists() and events(own, clusters[1]) == wanted)
    assert own.stat().st_uid == nobody.pw_uid
    assert (tmp_path / "secret").read_text() == "kept"
