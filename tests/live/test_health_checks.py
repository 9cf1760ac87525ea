"""Health checks: what the program says drains the node, and what is well again opens it."""

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headnode.adapters import process_tree
from headnode.apps.agent.node_programs import MAX_CHECK_OUTPUT, HealthCheck
from headnode.core.model.errors import BadRequest
from heads import TIMEOUT, RealHead


def checked(program: str, timeout: float = TIMEOUT) -> tuple[bool, str]:
    """Return what one run of a check tells."""

    async def once() -> tuple[bool, str]:
        found: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
        check = HealthCheck("red", lambda well, expected: found.set_result((well, expected)), timeout)
        check.order(program, 1000.0)
        try:
            async with asyncio.timeout(TIMEOUT):
                return await found
        finally:
            check.stop()

    return asyncio.run(once())


def script(directory: Path, *lines: str) -> str:
    path, fresh = directory / "check", directory / "fresh"
    fresh.write_text("\n".join(("#!/bin/sh", *lines, "")))
    fresh.chmod(0o755)
    fresh.rename(path)  # a program that runs cannot be written
    return str(path)


def test_exit_code_zero_is_well_whatever_the_program_says(tmp_path: Path) -> None:
    assert checked(script(tmp_path, "echo all is well")) == (True, "")


def test_another_exit_code_tells_what_the_program_says_on_one_line(tmp_path: Path) -> None:
    program = script(tmp_path, "echo no disk; echo 'on  node' $HEADNODE_NODE $1 >&2; exit 1")
    assert checked(f"{program} 'a b'") == (False, "no disk on node red a b")


def test_a_program_that_says_nothing_is_reported_by_how_it_ended(tmp_path: Path) -> None:
    program = script(tmp_path, "exit 3")
    assert checked(program) == (False, f"the health check {program!r} ended with exit code 3")
    program = script(tmp_path, "kill -TERM $$")
    assert checked(program) == (False, f"the health check {program!r} was ended by signal {signal.SIGTERM:d}")


def test_checks_go_on_when_one_could_open_nothing(tmp_path: Path) -> None:
    messages: list[tuple[bool, str]] = []
    program = script(tmp_path, "true")

    async def story() -> None:
        check = HealthCheck("red", lambda well, expected: messages.append((well, expected)))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with (tmp_path / "any").open("w") as lowest:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + 1, hard))
            try:
                check.order(program, 0.01)
                await asyncio.sleep(0)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        async with asyncio.timeout(TIMEOUT):
            while not messages or messages[-1] != (True, ""):
                await asyncio.sleep(0.01)
        check.stop()

    asyncio.run(story())
    assert messages[0] == (False, f"the health check {program!r} cannot be run: Too many open files")


def test_a_program_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    well, output = checked(missing)
    assert not well
    assert output.startswith(f"the health check {missing!r} cannot be run: ")
    plain = tmp_path / "plain"
    plain.write_text("x")
    assert not checked(str(plain))[0]


def test_a_program_that_hangs_fails_and_is_killed_with_what_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    program = script(tmp_path, f"sleep 300 & echo $! > {noted}.new; mv {noted}.new {noted}; wait")
    assert checked(program, 1.0) == (False, f"the health check {program!r} did not end within 1 s")
    child = int(noted.read_text())
    deadline = time.monotonic() + TIMEOUT
    while child in process_tree.picture():  # until the system has taken note of the kill
        assert time.monotonic() < deadline


def test_what_a_program_leaves_behind_with_its_output_open_holds_up_nothing(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    program = script(tmp_path, f"sleep 300 & echo $! > {noted}; echo bad; exit 1")
    assert checked(program) == (False, "bad")
    os.kill(int(noted.read_text()), signal.SIGKILL)


def test_a_program_that_says_a_lot_is_read_to_its_end_and_the_beginning_is_reported(tmp_path: Path) -> None:
    well, found = checked(script(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x; exit 1"))
    assert (well, found) == (False, "x" * MAX_CHECK_OUTPUT)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    """A head with one node, whose agent checks every second."""
    made = RealHead(tmp_path_factory.mktemp("health") / "head")
    try:
        made.wait_until_ready()
        made.ask("set_parameters", values={"HealthCheckInterval": "1"})
        yield made
    finally:
        made.stop()


def node(head: RealHead) -> dict[str, Any]:
    (found,) = head.ask("nodes")["nodes"]
    assert isinstance(found, dict)
    return found


def until_drained_by(head: RealHead, *reasons: str) -> None:
    """Wait until the node is drained for these reasons, or for none."""
    deadline = time.monotonic() + TIMEOUT
    while [each["reason"] for each in node(head)["drains"]] != list(reasons):
        assert time.monotonic() < deadline, f"{node(head)['drains']}, not {reasons}\n{head.log()}"
        time.sleep(0.02)


def test_a_check_drains_the_node_and_opens_it_again_as_it_fails_and_succeeds(
    head: RealHead, tmp_path: Path
) -> None:
    bad = tmp_path / "bad"
    program = script(tmp_path, f"[ ! -e {bad} ] || {{ cat {bad}; exit 1; }}")
    head.ask("set_parameters", values={"HealthCheckProgram": program})
    bad.write_text("no disk\n")
    until_drained_by(head, "no disk")
    assert node(head)["state"] == "Drained"
    job = head.submit("true")
    reasons = str(head.ask("explain_job", job=job))
    assert "its health check failed: no disk" in reasons
    head.ask("drain_node", node=node(head)["name"], reason="mine")
    bad.unlink()
    until_drained_by(head, "mine")
    head.ask("resume_node", node=node(head)["name"])
    assert head.wait(job)["state"] == "Finished"


def test_a_failing_check_that_is_taken_away_closes_nothing_any_more(head: RealHead, tmp_path: Path) -> None:
    head.ask("set_parameters", values={"HealthCheckProgram": script(tmp_path, "echo bad; exit 1")})
    until_drained_by(head, "bad")
    head.ask("set_parameters", values={"HealthCheckProgram": None})
    until_drained_by(head)


def test_an_agent_that_is_new_runs_the_check_at_once(head: RealHead, tmp_path: Path) -> None:
    good = script(tmp_path, "exit 0")
    head.ask("set_parameters", values={"HealthCheckInterval": "86400", "HealthCheckProgram": good})
    script(tmp_path, "echo worse; exit 1")
    for number in process_tree.picture():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{number}/cmdline").read_bytes()
            if b"headnode.apps.agent" in words and str(head.state).encode() in words:
                os.kill(number, signal.SIGKILL)
    until_drained_by(head, "worse")
    head.ask("set_parameters", values={"HealthCheckInterval": "1", "HealthCheckProgram": None})
    until_drained_by(head)


@pytest.mark.parametrize("value", ["check", "check --all", "'/bin/true", " "])
def test_a_program_without_its_path_is_refused(head: RealHead, value: str) -> None:
    with pytest.raises(BadRequest, match="parameter-value"):
        head.ask("set_parameters", values={"HealthCheckProgram": value})
