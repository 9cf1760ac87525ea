"""Hooks of a whole cluster: the examples at work, and a node that cannot be made ready."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from heads import RealHead, real_head

EXAMPLES = Path(__file__).parents[2] / "examples" / "hooks"


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=2) as head:
        yield head


def test_the_example_makes_a_scratch_directory_of_the_user_and_takes_it_away_also_after_a_cancel(
    head: RealHead, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    head.ask(
        "set_params",
        values={
            "PrologProgram": f"{EXAMPLES / 'prolog.sh'} {scratch}",
            "EpilogProgram": f"{EXAMPLES / 'epilog.sh'} {scratch}",
        },
    )
    own = f"cd {scratch}/job-$CCP_JOBID && stat -c %u:%a . && mkdir -p deep/er && touch {tmp_path}/there"
    job = head.submit(f"{own}; sleep 300", workdir=str(tmp_path), stdout="owner")
    head.until((tmp_path / "there").exists)
    assert (tmp_path / "owner").read_text() == f"{os.getuid()}:700\n"
    assert len(list(scratch.iterdir())) == 1
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"
    assert list(scratch.iterdir()) == []


def test_a_node_that_cannot_be_made_ready_is_drained_and_the_job_runs_on_another_once(
    head: RealHead, tmp_path: Path
) -> None:
    first, second = (node["name"] for node in head.ask("nodes")["nodes"])
    prolog = tmp_path / "prolog"
    prolog.write_text(f"#!/bin/sh\n[ $HEADNODE_NODE != {first} ] || {{ echo no scratch; exit 4; }}\n")
    prolog.chmod(0o755)
    head.ask("set_params", values={"PrologProgram": str(prolog), "JobRetryCount": "0"})
    job = head.submit(f"echo $HEADNODE_NODE >> {tmp_path}/ran")
    assert head.wait(job)["state"] == "Finished"
    assert (tmp_path / "ran").read_text() == f"{second}\n"
    states = {node["name"]: node for node in head.ask("nodes")["nodes"]}
    assert (states[first]["state"], states[second]["state"]) == ("Drained", "Ready")
    (drain,) = states[first]["drains"]
    assert drain["reason"].startswith(f"the prolog of job {job} failed: ")
    assert drain["reason"].endswith("ended with exit code 4: no scratch")
    head.ask("set_params", values={"PrologProgram": None})
    head.ask("resume_node", node=first)


def test_the_example_wraps_the_first_task_and_all_others(head: RealHead, tmp_path: Path) -> None:
    filters = tmp_path / "filters"
    filters.mkdir(mode=0o755)
    for name in ("OnJobTaskStart.sh", "OnTaskStart.sh"):
        (filters / name).write_text((EXAMPLES / name).read_text())
        (filters / name).chmod(0o755)
    head.ask("set_params", values={"NodeFilterDirectory": str(filters)})
    says = f"echo $SITE_WRAPPER $(nice) >> {tmp_path}/said"
    job = head.submit(says, says, terms={"numprocessors": "1"})
    assert head.wait(job)["state"] == "Finished"
    assert (tmp_path / "said").read_text() == f"nice {os.nice(0) + 5}\n" * 2
