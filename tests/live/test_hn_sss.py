"""`hn sss` sends what its options or a file say, shows the answer, and is a listener itself."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sssrmap_peers import ACTOR, KEY, RealListener, listener_with_head

from headnode.core.formats.sss.sssrmap.messages import envelope
from headnode.core.formats.sss.sssrmap.signatures import signature_of
from heads import TIMEOUT

HN = (sys.executable, "-m", "headnode.apps.cli")


@pytest.fixture(scope="module")
def peer() -> Iterator[RealListener]:
    with listener_with_head() as found:
        yield found


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "auth_key"
    path.write_bytes(KEY + b"\n")
    path.chmod(0o600)
    return path


def hn_sss(*words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*HN, "sss", *words], capture_output=True, text=True, input=given, timeout=TIMEOUT, check=False
    )


def asked(peer: RealListener, key: Path, *words: str, given: str = "") -> dict[str, object]:
    """Return what a command that must succeed prints as JSON."""
    done = hn_sss(
        *words,
        "--json",
        "--actor",
        ACTOR,
        "--to",
        f"127.0.0.1:{peer.port}",
        "--key-file",
        str(key),
        given=given,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_job_is_submitted_changed_asked_for_and_canceled(peer: RealListener, key: Path) -> None:
    inside = "<Executable>/bin/sleep</Executable><Arguments>60</Arguments><Hold>User</Hold>"
    made = asked(peer, key, "Submit", "Job", "--data", "-", given=f"<Job><JobId>x</JobId>{inside}</Job>")
    (number,) = re.findall(r"<JobId>(\d+)<", str(made["data"]))
    for change in ("Priority=1200", "Priority+=100", "ProjectId=p q"):
        asked(peer, key, "Modify", "Job", "--set", change, "--where", f"JobId = {number}")
    where = ("--where", f"(JobId={number}", "--where", "and Priority=1300)", "--where", "andnot ProjectId~x*")
    answer = asked(peer, key, "Query", "Job", "--get", "ProjectId", "--get", "JobState", *where)
    assert answer["data"] == ["<Job><ProjectId>p q</ProjectId><JobState>Hold</JobState></Job>"]
    joined = asked(
        *(peer, key, "Query", "Job,User:U", "--get", "Job.JobId", "--get", "U.UserId"),
        *("--where", f"Job.JobId={number}", "--where", "Job.UserId=U.UserId"),
    )
    assert joined["data"] == [f"<Job_User><JobId>{number}</JobId><UserId>{ACTOR}</UserId></Job_User>"]
    counted = asked(peer, key, "Query", "Job", "--get", "JobId:Count", *where, "--sha256", "--chunk", "1")
    assert counted["data"] == ["<Job><JobId>1</JobId></Job>"]
    asked(peer, key, "Cancel", "Job", "--where", f"JobId={number}")


def test_a_request_and_its_answer_are_shown(peer: RealListener, key: Path) -> None:
    to = ("--actor", ACTOR, "--to", f"127.0.0.1:{peer.port}", "--key-file", str(key))
    done = hn_sss("Query", "Node", "--get", "NodeState", *to)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.index("request:")
        < done.stdout.index('<Get name="NodeState">')
        < done.stdout.index("answer:")
    )
    assert "<Code>000</Code>" in done.stdout
    failed = hn_sss("Query", "Moon", *to)
    assert failed.returncode == 1
    assert "<Code>315</Code>" in failed.stdout


def test_a_file_is_signed_or_sent_as_it_is(peer: RealListener, key: Path, tmp_path: Path) -> None:
    body = f'<Body><Request action="Query" actor="{ACTOR}"><Object>Queue</Object></Request></Body>'
    to = ("--json", "--to", f"127.0.0.1:{peer.port}")
    unsigned, signed, wrong = (tmp_path / name for name in ("unsigned", "signed", "wrong"))
    unsigned.write_text(body)
    signed.write_bytes(envelope(body, signature_of(body, KEY)))
    wrong.write_bytes(envelope(body, signature_of(body, b"other")))
    for words, code in (
        (("--file", str(unsigned), "--key-file", str(key)), "000"),
        (("--file", str(signed)), "000"),
        (("--file", str(wrong)), "424"),
        (("--file", str(wrong), "--key-file", str(key)), "000"),
    ):
        assert json.loads(hn_sss(*words, *to).stdout)["code"] == code


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("Query",), "an action and an object"),
        (("Query", "Job"), "--key-file"),
        (("Query", "Job,", "--key-file", "KEY"), "names no object"),
        (("Query", "Job", "--where", "JobId"), "JobState=Idle"),
        (("Query", "Job", "--set", "JobId"), "Priority=1500"),
        (("--file", "/nowhere/x"), "cannot be read"),
        (("Query", "Job", "--to", "localhost:x", "--key-file", "KEY"), "HOST:PORT"),
        (("Query", "Job", "--key-file", "/nowhere/x"), "No such file"),
    ],
)
def test_wrong_usage_is_reported(key: Path, words: tuple[str, ...], text: str) -> None:
    done = hn_sss(*(str(key) if word == "KEY" else word for word in words))
    assert done.returncode == 2
    assert text in done.stderr


def test_a_peer_that_does_not_listen_is_told(key: Path) -> None:
    done = hn_sss("Query", "Job", "--to", "127.0.0.1:1", "--key-file", str(key))
    assert (done.returncode, "no-peer" in done.stderr or "cannot be reached" in done.stderr) == (1, True)


def test_it_serves_in_the_foreground_until_it_is_told_to_end(peer: RealListener, key: Path) -> None:
    peer.head.ask("set_parameters", values={"SiteKeyRoles": "root"})  # the tests may run as root
    words = [*HN, "--state", str(peer.head.state), "sss", "--serve", "--key-file", str(key), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"port (\d+)", process.stderr.readline())
        assert found is not None
        own = ("--actor", "root") if os.geteuid() == 0 else ()
        done = hn_sss("Query", "Queue", *own, "--to", f"127.0.0.1:{found[1]}", "--key-file", str(key))
        assert "<Code>000</Code>" in done.stdout, done.stdout
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
    peer.head.ask("set_parameters", values={"SiteKeyRoles": None})
