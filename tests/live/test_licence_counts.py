"""A program tells how many licences there are, and jobs start and wait by it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heads import RealHead, real_head


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path) as made:
        made.ask("set_parameters", values={"LicenceInterval": "1"})
        yield made


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A licence program that prints a file, and fails without it."""
    script = tmp_path / "licences.sh"
    script.write_text(f"#!/bin/sh\ncat {tmp_path}/told\n")
    script.chmod(0o755)
    return script


def licences(head: RealHead) -> str:
    values = {one["name"]: one["value"] for one in head.ask("parameters")["parameters"]}
    found: str = values["Licences"]
    return found


def trouble(head: RealHead) -> str:
    found: str = head.ask("cluster")["cluster"]["licence_problem"]
    return found


def test_a_job_waits_until_the_program_says_that_there_are_enough(head: RealHead, program: Path) -> None:
    found = program.with_name("told")
    found.write_text("solver:1\nmesher:3\n")
    head.ask("set_parameters", values={"LicenceProgram": str(program)})
    head.until(lambda: licences(head) == "solver:1,mesher:3")
    job = head.submit("/bin/true", terms={"license": "solver:2"})
    head.until(lambda: "solver" in head.ask("job", job=job)["job"]["pending_reason"])
    found.write_text("solver:2\n")
    assert head.wait(job)["state"] == "Finished"


def test_a_program_that_fails_or_talks_nonsense_leaves_the_counts_as_they_are(
    head: RealHead, program: Path
) -> None:
    found = program.with_name("told")
    found.write_text("solver:1\n")
    head.ask("set_parameters", values={"LicenceProgram": str(program)})
    head.until(lambda: licences(head) == "solver:1")
    found.write_text("no licences today\n")
    head.until(lambda: "no licences today" in trouble(head))
    found.unlink()
    head.until(lambda: "exit code 1" in trouble(head))
    assert licences(head) == "solver:1"
    found.write_text("solver:5\n")
    head.until(lambda: licences(head) == "solver:5" and not trouble(head))


def test_running_jobs_go_on_when_there_are_fewer_licences_than_they_hold(
    head: RealHead, program: Path, tmp_path: Path
) -> None:
    found, flag = program.with_name("told"), tmp_path / "end"
    found.write_text("solver:1\n")
    head.ask("set_parameters", values={"LicenceProgram": str(program)})
    head.until(lambda: licences(head) == "solver:1")
    wait = f"while [ ! -e {flag} ]; do sleep 0.02; done"
    running = head.submit(wait, terms={"license": "solver:1"})
    head.wait_for(running, "Running")
    found.write_text("solver:0\n")
    head.until(lambda: licences(head) == "solver:0")
    later = head.submit("/bin/true", terms={"license": "solver:1"})
    flag.touch()
    assert head.wait(running)["state"] == "Finished"
    assert head.ask("job", job=later)["job"]["state"] == "Queued"
    found.write_text("solver:1\n")
    assert head.wait(later)["state"] == "Finished"
