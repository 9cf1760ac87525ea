"""Hooks of a whole cluster: the examples at work, and a node that cannot be made ready."""

import os
from pathlib import Path

import pytest

from headnode.core.model.errors import HeadnodeError
from heads import RealHead, head_fixture

EXAMPLES = Path(__file__).parents[2] / "examples" / "hooks"

head = head_fixture(nodes=2)


def test_the_example_makes_a_scratch_directory_of_the_user_and_takes_it_away_also_after_a_cancel(
    head: RealHead, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    head.ask(
        "set_parameters",
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
    head.ask("set_parameters", values={"PrologProgram": str(prolog), "JobRetryCount": "0"})
    job = head.submit(f"echo $HEADNODE_NODE >> {tmp_path}/ran")
    assert head.wait(job)["state"] == "Finished"
    assert (tmp_path / "ran").read_text() == f"{second}\n"
    states = {node["name"]: node for node in head.ask("nodes")["nodes"]}
    assert (states[first]["state"], states[second]["state"]) == ("Drained", "Ready")
    (drain,) = states[first]["drains"]
    assert drain["reason"].startswith(f"the prolog of job {job} failed: ")
    assert drain["reason"].endswith("ended with exit code 4: no scratch")
    head.ask("set_parameters", values={"PrologProgram": None})
    head.ask("resume_node", node=first)


def test_a_program_is_set_only_if_it_can_be_run_and_nobody_else_can_change_it(
    head: RealHead, tmp_path: Path
) -> None:
    first, second = (node["name"] for node in head.ask("nodes")["nodes"])
    open_to_all = tmp_path / "open"
    open_to_all.write_text("#!/bin/sh\n")
    open_to_all.chmod(0o777)
    filters = tmp_path / "site-filters"
    filters.mkdir(mode=0o755)
    (filters / "OnTaskStart.sh").symlink_to(open_to_all)
    wrong = {
        "does not exist": str(tmp_path / "none"),
        "can be changed by everybody": f"{open_to_all} /scratch",
    }
    for why, program in wrong.items():
        for name in ("SubmissionFilterProgram", "ActivationFilterProgram", "LicenceProgram"):
            with pytest.raises(HeadnodeError, match=why):
                head.ask("set_parameters", values={name: program})
        for name in ("PrologProgram", "EpilogProgram", "HealthCheckProgram"):
            with pytest.raises(HeadnodeError, match=f"{name} cannot be set: on {first}, {second}: .*{why}"):
                head.ask("set_parameters", values={name: program})
    with pytest.raises(HeadnodeError, match=r"NodeFilterDirectory cannot be set: .*can be changed by"):
        head.ask("set_parameters", values={"NodeFilterDirectory": str(filters)})
    template = f'name = "Filtered"\nsubmission_filters = "{open_to_all}"\n'
    with pytest.raises(HeadnodeError, match="can be changed by everybody"):
        head.ask("set_template", text=template)
    (tmp_path / "password").write_text("user:secret")
    (tmp_path / "password").chmod(0o644)
    with pytest.raises(HeadnodeError, match="can be read by others"):
        head.ask("set_parameters", values={"EmailCredentialsFile": str(tmp_path / "password")})
    assert {
        each["value"] for each in head.ask("parameters")["parameters"] if each["name"].endswith("Program")
    } == {""}


def test_a_prolog_that_others_can_change_since_it_was_set_is_not_run(head: RealHead, tmp_path: Path) -> None:
    prolog = tmp_path / "prolog"
    prolog.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    prolog.chmod(0o755)
    head.ask("set_parameters", values={"PrologProgram": str(prolog)})
    prolog.chmod(0o757)
    job = head.submit("true")
    nodes = [node["name"] for node in head.ask("nodes")["nodes"]]
    head.until(lambda: any(node["state"] == "Drained" for node in head.ask("nodes")["nodes"]))
    head.ask("set_parameters", values={"PrologProgram": None})
    reasons = [drain["reason"] for node in head.ask("nodes")["nodes"] for drain in node["drains"]]
    assert all(f"{str(prolog)!r} can be changed by everybody" in reason for reason in reasons)
    for name in nodes:
        head.ask("resume_node", node=name)
    assert head.wait(job)["state"] == "Finished"
    assert not (tmp_path / "ran").exists()


def test_the_example_wraps_the_first_task_and_all_others(head: RealHead, tmp_path: Path) -> None:
    filters = tmp_path / "filters"
    filters.mkdir(mode=0o755)
    for name in ("OnJobTaskStart.sh", "OnTaskStart.sh"):
        (filters / name).write_text((EXAMPLES / name).read_text())
        (filters / name).chmod(0o755)
    head.ask("set_parameters", values={"NodeFilterDirectory": str(filters)})
    says = f"echo $SITE_WRAPPER $(nice) >> {tmp_path}/said"
    job = head.submit(says, says, terms={"numprocessors": "1"})
    assert head.wait(job)["state"] == "Finished"
    assert (tmp_path / "said").read_text() == f"nice {os.nice(0) + 5}\n" * 2
