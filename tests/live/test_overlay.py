"""A head over the Slurm of a site: its queue and nodes, why our job waits there, and all that runs on top."""

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sites import attempts_in, slurm_fixture

from headnode.adapters.own_python import module_command
from heads import TIMEOUT, RealHead, real_head
from testbed.made_up_site import submit_jobs
from testbed.other_users import open_to_all
from testbed.slurm_peer import SlurmPeer

NOBODY = 65534
AS_NOBODY = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
)  # fmt: skip


slurm = slurm_fixture()


@pytest.fixture
def peer(slurm: SlurmPeer) -> Iterator[SlurmPeer]:
    slurm.write()
    yield slurm
    slurm.cancel_all()


@pytest.fixture
def head(tmp_path: Path, peer: SlurmPeer) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0) as head:
        paths = {"settings": str(peer.settings), "directory": attempts_in(tmp_path)}
        head.ask("set_resource", name="site", system="slurm", overlay=True, poll=1.0, **paths)
        head.until(lambda: "slurm" in site(head)["scheduler"] or site(head)["polled"])
        yield head


def site(head: RealHead) -> dict[str, Any]:
    from headnode.core.model.errors import Unavailable

    try:
        found: dict[str, Any] = head.ask("site_nodes")["site"]
    except Unavailable:
        return {"scheduler": "", "polled": None}
    return found


def fill(peer: SlurmPeer, name: str = "big", seconds: int = 60) -> str:
    """Let another job have all nodes; return its id."""
    words = ("--parsable", "-n", "8", "-t", "3", "-J", name, "-o", "/dev/null", "--chdir=/")
    return peer.run("sbatch", *words, f"--wrap=sleep {seconds}").strip()


def listed(head: RealHead, **fields: Any) -> dict[str, dict[str, Any]]:
    return {job["id"]: job for job in head.ask("site_jobs", **fields)["jobs"]}


def test_its_queue_and_its_nodes_are_shown(head: RealHead, peer: SlurmPeer) -> None:
    big = fill(peer)
    head.until(lambda: listed(head).get(big, {}).get("state") == "running")
    shown = listed(head)[big]
    assert (shown["user"], shown["name"], shown["processors"], shown["run_time"]) == ("root", "big", 8, 180.0)
    nodes = head.ask("site_nodes")["nodes"]
    assert [(node["name"], node["processors"], node["used"]) for node in nodes] == [
        ("n1", 4, 4),
        ("n2", 4, 4),
    ]
    (partition,) = site(head)["partitions"]
    assert (partition["name"], partition["default"]) == ("main", True)
    peer.run("scancel", big)
    head.until(lambda: big in listed(head, ended=True))


def test_a_job_waits_there_with_its_reason_who_is_before_it_and_a_start(
    head: RealHead, peer: SlurmPeer
) -> None:
    big, next_one = fill(peer), fill(peer, "next")
    job = head.submit("true", terms={"runtime": "1"}, workdir="/")
    assert head.ask("job", job=job)["job"]["resource"] == "site"

    def why() -> dict[str, Any]:
        found: dict[str, Any] = head.ask("explain_job", job=job)
        return found

    head.until(lambda: (why()["expected"] or {}).get("p50") and (why()["site"] or {}).get("reason"))
    head.until(lambda: "higher priority" in why()["reasons"][0]["text"])
    head.until(lambda: [one["id"] for one in why()["site"]["jobs_ahead"]] == [next_one])  # the large one runs
    answer = why()
    assert answer["site"]["ahead"] == 1
    assert "higher priority" in answer["site"]["text"]
    assert answer["site"]["priority"] > 0
    assert answer["expected"]["p50"] > time.time() + 180
    own = listed(head)[answer["site"]["id"]]
    assert own["job"] == job
    peer.run("scancel", big, next_one)
    assert head.wait(job)["state"] == "Finished"


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[2Jred<script>alert(1)</script>", "|\x1f|", "x" * 900])
def test_names_of_others_are_only_names(head: RealHead, peer: SlurmPeer, name: str) -> None:
    big = fill(peer, name)
    head.until(lambda: big in listed(head))
    shown = listed(head)[big]
    assert shown["name"].isprintable()
    assert len(shown["name"]) <= 64
    assert shown["user"] == "root"
    peer.run("scancel", big)


def test_a_name_like_ours_does_not_make_a_job_ours(head: RealHead, peer: SlurmPeer) -> None:
    job = head.submit("sleep 60", terms={"runtime": "2"}, workdir="/")
    head.until(lambda: any(one["job"] == job for one in listed(head).values()))
    (marker,) = [one["name"] for one in listed(head).values() if one["job"] == job]
    forged = fill(peer, marker)
    head.until(lambda: forged in listed(head))
    assert listed(head)[forged]["job"] is None
    peer.run("scancel", forged)
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"


XML = """<?xml version="1.0"?>
<Job Name="from xml" MinCores="1" MaxCores="2" RunUntilCanceled="false">
  <Tasks><Task Name="a" CommandLine="echo a" WorkDirectory="/" MinCores="1" MaxCores="1"/></Tasks>
</Job>"""


def test_sweeps_flows_and_job_files_run_there(head: RealHead) -> None:
    sweep = head.submit("echo *", parametric="1-5", workdir="/")
    flow = head.ask(
        "submit_job",
        terms={"jobname": "flow"},
        tasks=[
            {"command": "echo one", "name": "one", "workdir": "/"},
            {"command": "echo two", "name": "two", "depend": "one", "workdir": "/"},
        ],
    )["job"]
    after = head.ask(
        "submit_job", terms={"parentjobids": str(flow)}, tasks=[{"command": "true", "workdir": "/"}]
    )["job"]
    from_xml = head.ask("submit_job", jobfile=XML)["job"]
    for job in (sweep, flow, after, from_xml):
        assert head.wait(job)["state"] == "Finished"
        assert head.ask("job", job=job)["job"]["resource"] == "site"


def test_what_own_nodes_alone_can_do_is_refused_with_the_way_out(head: RealHead) -> None:
    from headnode.core.model.errors import BadRequest

    with pytest.raises(BadRequest, match="requested nodes"):
        head.submit("true", terms={"requestednodes": "n1"})


def test_a_job_is_tried_again_there(head: RealHead, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    job = head.submit(f"echo x >> {marks}/ran; test $(wc -l < {marks}/ran) -ge 2", workdir="/")
    assert head.wait(job)["state"] == "Failed"
    head.ask("requeue_job", job=job)
    assert head.wait(job)["state"] == "Finished"


def test_starts_that_are_seen_correct_what_is_expected(head: RealHead, peer: SlurmPeer) -> None:
    """The whole of it: benchmarks/site_starts.py."""
    ids: list[str] = []
    submitting = threading.Thread(target=lambda: ids.extend(submit_jobs(peer, 25, apart=0.3)))
    submitting.start()
    found: dict[str, float] = {}
    starts: dict[str, float] = {}
    deadline = time.monotonic() + 4 * TIMEOUT
    while submitting.is_alive() or not set(ids) <= starts.keys():
        assert time.monotonic() < deadline, head.log()
        for one in (*listed(head).values(), *listed(head, ended=True).values()):
            if one["state"] == "waiting" and one["p90"] is not None:
                found.setdefault(one["id"], one["p90"])
            if one["started"] is not None:
                starts[one["id"]] = one["started"]
        time.sleep(0.3)
    judged = [starts[each] <= at for each, at in found.items() if each in starts]
    assert len(judged) >= 8
    assert sum(judged) >= len(judged) / 2
    assert site(head)["judged"] >= 5


@pytest.fixture
def home(tmp_path: Path, peer: SlurmPeer) -> Iterator[Path]:
    """Yield the empty home of an ordinary user, with `hn` beside it; end the head that the user starts."""
    open_to_all(tmp_path)
    if subprocess.run([*AS_NOBODY, sys.executable, "-c", ""], check=False).returncode:
        pytest.skip("other users cannot run this Python")
    words = shlex.join([*AS_NOBODY, *module_command("headnode.apps.cli")])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hn").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (tmp_path / "bin" / "hn").chmod(0o755)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    yield home
    typed("hn down --cancel-jobs", home, peer)


def typed(command: str, home: Path, peer: SlurmPeer) -> str:
    """Type a command of a user who has nothing but a home; Python itself may be in that of root."""
    path = f"{home.parent / 'bin'}:{os.environ['PATH']}"
    known = {"HOME": str(home), "PATH": path, "SLURM_CONF": str(peer.settings), "TZ": "UTC"}
    known["HEADNODE_RESIDENT_CLIENT"] = "0"
    done = subprocess.run(
        ["sh", "-c", f"{{ {command}\n}} 2>&1"], env=known, cwd="/", capture_output=True, text=True,
        timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def plain(text: str, home: Path) -> str:
    """Return a text without what differs from one machine and one day to another."""
    text = text.replace(str(home), "/home/ada").replace(socket.gethostname().split(".")[0], "vm")
    varying = (r"\d{4}-\d\d-\d\dT[\d:+-]+", r"\d+(\.\d+)? s\b", r"Slurm [\d.]+ of")
    text = re.sub(r"^hn: it runs in .*$", "", text, flags=re.MULTILINE)
    for pattern in varying:
        text = re.sub(pattern, "T", text)
    return " ".join(re.sub(r"-{3,}", "---", text).split())


def test_the_page_is_true_for_an_ordinary_user_with_an_empty_home(peer: SlurmPeer, home: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "overlay.md").read_text()
    block = page.partition("```console\n")[2].partition("```")[0]
    before = sorted(peer.directory.rglob("*.conf"))
    for part in block.split("$ ")[1:]:
        command, _, shown = part.partition("\n")
        if command == "hn node list --site":  # Slurm itself takes a while to clear a node
            peer.until(lambda: typed(command, home, peer).count(" idle ") == 2)  # noqa: B023 (asked at once)
        assert plain(typed(command, home, peer), home) == plain(shown, home), command
        if "--over" in command:
            typed("hn resource add slurm --poll 1", home, peer)
    assert "hn-" in typed("hn job list --site --state ended", home, peer)
    (output,) = home.glob(".headnode/attempts/*/hn-*-1.1.1-1/output")
    assert output.stat().st_uid == NOBODY
    assert sorted(peer.directory.rglob("*.conf")) == before
    assert {each.name for each in home.iterdir()} == {".local", ".headnode"}


def test_a_login_node_without_slurm_is_no_place_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headnode.apps.cli.site import check_site
    from headnode.core.model.errors import BadRequest, NotFound

    with pytest.raises(BadRequest, match="cannot run over 'pbs'"):
        check_site("pbs")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="sbatch is not in PATH"):
        check_site("slurm")
    with pytest.raises(NotFound, match="qsub is not in PATH"):
        check_site("gridengine")
