"""Files come to tasks before they start and are taken away when they have ended, whatever dies meanwhile."""

import contextlib
import json
import os
import pwd
import shlex
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heads import RealHead, processes, real_head
from testbed.faulty_storage import FaultyStorage, storage_fixture

DATA = b"0123456789" * 20_000
PROGRAM = b"""#!/bin/sh
echo "$@"
cat data > result
echo ran >> "$RAN"
exit "${CODE:-0}"
"""
MODULE = b"headnode.adapters.staging"


storage = storage_fixture(data=DATA, prog=PROGRAM)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("head")) as head:
        head.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8", "TransferTimeout": "20"})
        yield head


def staged(head: RealHead, storage: FaultyStorage, ran: Path, **more: Any) -> int:
    """Submit a job whose program, input and result are on the storage."""
    fields = {
        "stagein": f"{storage.url}/data=data",
        "stageout": f"result={storage.url}/result",
        "env": {"RAN": str(ran), "TMPDIR": str(ran.parent), **more.pop("env", {})},
        **more,
    }
    return head.submit(f"{storage.url}/prog one two", **fields)


def end_of(head: RealHead, job: int) -> tuple[str, str]:
    return head.wait(job)["state"], head.task(job)["message"]


def test_a_program_and_its_input_come_and_its_result_goes(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran")
    assert end_of(head, job) == ("Finished", "")
    assert head.output(job) == "one two\n"
    assert (storage.directory / "result").read_bytes() == DATA
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_the_grid_jobs_of_a_chain_pass_files_by_their_storage(head: RealHead, storage: FaultyStorage) -> None:
    def task(name: str, child: str, source: str, target: str) -> dict[str, Any]:
        definition = {
            "version": 2,
            "executable": "/bin/sh",
            "arguments": ["-c", f"cat in; cat in > made; printf {name} >> made"],
            "input_files": {"in": source},
            "output_files": {"made": target},
            "stdout": f"{name}.out",
        }
        return {"id": name, "definition": definition} | ({"children": [child]} if child else {})

    storage.put("first", b"0")
    document = {
        "version": 2,
        "default_storage_base": f"{storage.url}/",
        "tasks": [task("a", "b", "first", "second"), task("b", "", "second", "third")],
    }
    job = head.ask("submit_job", jobfile=json.dumps(document))["job"]
    assert head.wait(job)["state"] == "Finished"
    found = {name: (storage.directory / name).read_bytes() for name in ("third", "a.out", "b.out")}
    assert found == {"third": b"0ab", "a.out": b"0", "b.out": b"0a"}


def test_a_file_that_cannot_come_fails_the_task_before_it_starts(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran", stagein=f"{storage.url}/404/data=data")
    state, message = end_of(head, job)
    assert state == "Failed"
    assert f"'data' was not transferred from {storage.url}/404/data (attempt 1 of 5)" in message
    assert not (tmp_path / "ran").exists()
    assert head.task(job).get("started") is None
    assert head.ask("nodes")["nodes"][0]["state"] == "Ready"


def test_results_are_saved_also_after_a_failure(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran", env={"CODE": "3"})
    state, _ = end_of(head, job)
    assert (state, head.task(job)["exit_code"]) == ("Failed", 3)
    assert (storage.directory / "result").read_bytes() == DATA


def test_a_result_that_cannot_be_saved_fails_the_task_and_is_kept(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(
        head, storage, tmp_path / "ran", stageout=f"result={storage.url}/507/result", workdir=str(tmp_path)
    )
    state, message = end_of(head, job)
    assert state == "Failed"
    kept = Path(message.partition("its results are in ")[2].partition(" on the node")[0])
    assert (kept / "result").read_bytes() == DATA


@pytest.mark.parametrize("victim", ["transfer", "agent", "head"])
def test_whoever_is_killed_while_files_come_the_task_runs_once_with_whole_files(
    head: RealHead, storage: FaultyStorage, tmp_path: Path, victim: str
) -> None:
    job = staged(head, storage, tmp_path / "ran", stagein=f"{storage.url}/held/data=data", rerunnable="false")
    head.until(lambda: any(path == "/held/data" for _, path, _ in storage.asked))
    if victim == "head":
        head.kill()
        head.start_again()
    else:
        mine = (MODULE, str(head.state).encode())
        words = mine if victim == "transfer" else (b"headnode.apps.agent", str(head.state).encode())
        for process in list(processes(*words)):
            os.kill(process, signal.SIGKILL)
    storage.hold.set()
    assert end_of(head, job) == ("Finished", "")
    assert (storage.directory / "result").read_bytes() == DATA
    assert (tmp_path / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("victim", ["nobody", "agent", "head"])
def test_a_job_whose_results_are_taken_away_holds_no_processors(
    head: RealHead, storage: FaultyStorage, tmp_path: Path, victim: str
) -> None:
    job = staged(
        head, storage, tmp_path / "ran", numprocessors="2", stageout=f"result={storage.url}/held/result"
    )
    head.until(lambda: (tmp_path / "ran").exists() and head.ask("job", job=job)["job"]["allocated"] == 0)
    assert head.ask("job", job=job)["job"]["state"] == "Running"
    if victim == "head":
        head.kill()
        head.start_again()
    elif victim == "agent":
        for process in list(processes(b"headnode.apps.agent", str(head.state).encode())):
            os.kill(process, signal.SIGKILL)
    other = head.submit("true", numprocessors="2")
    assert head.wait(other)["state"] == "Finished"
    assert head.ask("job", job=job)["job"]["state"] == "Running"
    storage.hold.set()
    assert end_of(head, job) == ("Finished", "")
    assert (storage.directory / "result").read_bytes() == DATA
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_job_that_is_canceled_while_files_come_leaves_nothing(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    job = staged(head, storage, tmp_path / "ran", stagein=f"{storage.url}/held/data=data", workdir=str(work))
    head.until(lambda: any(work.iterdir()))
    head.until(lambda: any(path == "/held/data" for _, path, _ in storage.asked))
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"
    head.until(lambda: not any(work.iterdir()))
    head.until(lambda: not list(processes(MODULE, str(head.state).encode())))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("victim", ["transfer", "shepherd", "job"])
def test_the_program_that_copies_by_gridftp_ends_with_its_transfer(
    head: RealHead, tmp_path: Path, victim: str
) -> None:
    slow = tmp_path / "globus-url-copy"
    slow.write_text("#!/bin/sh\ncat\necho $$ >> $TMPDIR/copies\nexec sleep 1000\n")
    slow.chmod(0o755)
    place, path = str(tmp_path), f"{tmp_path}:{os.environ['PATH']}"
    job = head.submit("true", stagein="gsiftp://127.0.0.1/data=data", env={"TMPDIR": place, "PATH": path})
    head.until(lambda: (tmp_path / "copies").exists() and (tmp_path / "copies").read_text())
    copy = int((tmp_path / "copies").read_text().split()[0])
    transfer = parent_of(copy)
    if victim == "job":
        head.ask("cancel_job", job=job)
    else:
        os.kill(transfer if victim == "transfer" else parent_of(transfer), signal.SIGKILL)
    head.until(lambda: not is_there(copy))
    if victim != "job":
        head.ask("cancel_job", job=job)
    head.wait(job)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_is_told_how_far_the_files_are(head: RealHead, storage: FaultyStorage, tmp_path: Path) -> None:
    job = staged(head, storage, tmp_path / "ran", stagein=f"{storage.url}/held/data=data")
    head.until(lambda: head.task(job)["message"] == "1 of 2 input files are copied, 0.1 MB of 0.2 MB")
    types = [each["type"] for each in head.ask("events", jobs=[job], after=0)["events"]]
    assert "task.staging" in types
    storage.hold.set()
    assert end_of(head, job) == ("Finished", "")


@pytest.mark.parametrize("bound", ["TransfersPerNode", "TransfersPerStorage"])
def test_transfers_of_several_jobs_wait_for_each_other(
    head: RealHead, storage: FaultyStorage, tmp_path: Path, bound: str, request: pytest.FixtureRequest
) -> None:
    before = {one["name"]: one["value"] for one in head.ask("parameters")["parameters"]}
    request.addfinalizer(lambda: head.ask("set_parameters", values={bound: before[bound]}))
    head.ask("set_parameters", values={bound: "1"})
    first = staged(head, storage, tmp_path / "a", stagein=f"{storage.url}/held/data=data")
    head.until(lambda: any(path == "/held/data" for _, path, _ in storage.asked))
    storage.put("other", DATA)
    second = staged(head, storage, tmp_path / "b", stagein=f"{storage.url}/other=data")
    waits_for = "a free slot" if bound == "TransfersPerNode" else "127.0.0.1"
    head.until(lambda: head.task(second)["message"].endswith(f"it waits for {waits_for}"))
    assert not any(path == "/other" for _, path, _ in storage.asked)
    storage.hold.set()
    for job in (first, second):
        assert end_of(head, job) == ("Finished", "")


def test_the_scratch_directory_goes_when_its_results_are_safe(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    assert end_of(head, staged(head, storage, tmp_path / "ran", workdir=str(work))) == ("Finished", "")
    head.until(lambda: not any(work.iterdir()))


def test_every_instance_of_a_sweep_has_files_of_its_own(head: RealHead, storage: FaultyStorage) -> None:
    for number in (1, 2, 3):
        storage.put(f"in.{number}", str(number).encode())
    job = head.submit(
        "cp data made",
        parametric="1-3",
        stagein=f"{storage.url}/in.*=data",
        stageout=f"made={storage.url}/out.*",
    )
    assert head.wait(job)["state"] == "Finished"
    assert [(storage.directory / f"out.{n}").read_text() for n in (1, 2, 3)] == ["1", "2", "3"]


def test_the_example_of_the_page_counts_words(head: RealHead, storage: FaultyStorage) -> None:
    page = (Path(__file__).parents[2] / "docs" / "staging.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    storage.put("words.txt", b"one two three")
    job = head.ask("submit_job", jobfile=example.replace("https://storage.example.org", storage.url))["job"]
    assert end_of(head, job) == ("Finished", "")
    assert (storage.directory / "count.txt").read_text() == "3\n"


def test_secrets_are_in_no_argument_journal_or_log(
    head: RealHead, storage: FaultyStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path("~").expanduser()
    folder = home / ".config" / "headnode" / "credentials"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"test-{os.getpid()}"
    path = folder / f"{name}.toml"
    path.write_text('hosts = ["127.0.0.1"]\ntoken = "secret-token"\n')
    path.chmod(0o600)
    try:
        job = staged(
            head, storage, tmp_path / "ran", stagein=f"{storage.url}/private/data=data", credential=name
        )
        assert end_of(head, job) == ("Finished", "")
        signed = f"{storage.url}/404/data?signature=secret-signature"
        failing = head.submit("true", stagein=f"{signed}=data", credential=name)
        assert end_of(head, failing)[0] == "Failed"
        held = staged(
            head, storage, tmp_path / "ran", stagein=f"{storage.url}/held/data=data", credential=name
        )
        head.until(lambda: list(processes(MODULE, str(head.state).encode())))
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                assert b"secret-token" not in process.read_bytes()
        storage.hold.set()
        assert end_of(head, held) == ("Finished", "")
        answer = [
            head.ask(verb, job=failing) for verb in ("job_history", "explain_job", "tasks", "job_states")
        ]
        answer += [
            head.task(failing)["message"],
            head.ask("job", job=job),
            head.ask("jobs"),
        ]  # not the description
        assert [each for each in answer if "secret-" in json.dumps(each)] == []
    finally:
        path.unlink()
    assert storage.headers[0].get("Authorization", storage.headers[1].get("Authorization")) is not None
    folders = (tmp_path, head.state.parent)
    written = b"".join(each.read_bytes() for where in folders for each in where.rglob("*") if each.is_file())
    assert b"secret-token" not in written


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="runs tasks as another user")
@pytest.mark.parametrize("user", ["nobody", "root"])
def test_a_result_is_not_written_through_a_link_of_another_user(
    head: RealHead, tmp_path: Path, user: str
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    theirs.chmod(0o666)  # nothing but the link is in the way
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o777)
        link = Path(made) / "link"
        link.symlink_to(theirs)
        other = pwd.getpwnam("nobody").pw_uid if user == "root" else os.geteuid()
        os.chown(link, other, -1, follow_symlinks=False)
        os.chown(made, other, -1)
        job = head.submit("echo mine > x", stageout=f"x=file://{link}", terms={"user": user})
        end_of(head, job)
        assert theirs.read_text() == "theirs"
        assert link.is_symlink() or link.read_text() == "mine\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="runs tasks as another user")
def test_a_file_of_another_user_is_not_read(head: RealHead, storage: FaultyStorage, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    link = Path("/tmp") / f"headnode-test-link-{os.getpid()}"
    link.symlink_to(secret)
    try:
        for path in (secret, link):
            job = head.submit("true", stagein=f"file://{path}=data", terms={"user": "nobody"})
            state, message = end_of(head, job)
            assert (state, "permission denied" in message) == ("Failed", True), message
    finally:
        link.unlink()


LIE = """\
for p in /proc/[0-9]*; do
  if tr '\\0' ' ' < $p/cmdline 2> /dev/null | grep -q 'headnode.adapters.stagin[g]'; then
    echo '["moved", -1, 1, 1, 1, ""]' > $p/fd/1 && echo told
  fi
done
"""


def test_a_user_who_speaks_for_the_process_of_his_transfers_drains_no_node(
    head: RealHead, storage: FaultyStorage
) -> None:
    job = head.submit("cat data", stagein=f"{storage.url}/held/data=data")
    head.until(lambda: head.task(job)["message"] == "0 of 1 input files are copied, 0.1 MB of 0.2 MB")
    liar = head.submit(f"sh -c {shlex.quote(LIE)}")
    assert head.wait(liar)["state"] == "Finished"
    assert "told" in head.output(liar)
    head.until(lambda: head.task(job)["message"] != "0 of 1 input files are copied, 0.1 MB of 0.2 MB")
    storage.hold.set()
    assert end_of(head, job) == ("Finished", "")
    assert [node["drains"] for node in head.ask("nodes")["nodes"]] == [[]]
