"""Commands take all jobs that fit, in place of ids: ``hn job cancel --me --state queued``."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_scripted_head import hn

SUBMITTED = ("a1", "a2", "b1")


def states(state: Path) -> dict[str, str]:
    listed = json.loads(hn("job", "list", "--all", "--json", state=state).stdout)
    return {job["name"]: job["state"] for job in listed}


@pytest.fixture
def submitted(state: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, int]]:
    """Submit held jobs with names of their own, which are canceled afterwards; return their ids by name."""
    made: dict[str, int] = {}
    for name in SUBMITTED:
        name_of_test = f"{request.node.name}-{name}"
        done = hn("job", "submit", "-q", "--hold", "-J", name_of_test, "sleep", "60", state=state)
        made[name] = int(done.stdout)
    yield made
    hn("job", "cancel", "--me", state=state)


def of_test(state: Path, name: str) -> dict[str, str]:
    return {
        job.rpartition("-")[2]: found for job, found in states(state).items() if job.startswith(f"{name}-")
    }


def test_cancel_takes_all_jobs_of_a_name_in_a_state(
    state: Path, submitted: dict[str, int], request: pytest.FixtureRequest
) -> None:
    ids = submitted
    done = hn("job", "cancel", "--jobname", f"{request.node.name}-a*", "--state", "queued", state=state)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [f"Job {ids[name]} has been canceled." for name in ("a1", "a2")]
    assert of_test(state, request.node.name) == {"a1": "Canceled", "a2": "Canceled", "b1": "Queued"}


def test_hold_release_and_cancel_take_all_my_jobs(
    state: Path, submitted: dict[str, int], request: pytest.FixtureRequest
) -> None:
    ids = submitted
    held = hn("job", "hold", "--me", "--state", "queued", "--name", "data", state=state)
    assert held.returncode == 0, held.stderr
    assert [f"Job {job} has been held." in held.stdout for job in ids.values()] == [True] * 3
    released = hn("job", "release", "--me", "--name", "data", state=state)
    assert released.stdout.count("released") >= 3
    assert hn("job", "cancel", "--me", state=state).returncode == 0
    assert set(of_test(state, request.node.name).values()) == {"Canceled"}


def test_requeue_takes_jobs_that_have_ended(
    state: Path, submitted: dict[str, int], request: pytest.FixtureRequest
) -> None:
    ids = submitted
    hn("job", "cancel", "--me", state=state)
    pattern = f"{request.node.name}-*"
    none = hn("job", "requeue", "--jobname", pattern, state=state)
    assert (none.returncode, none.stdout) == (0, ""), "none of them has failed"
    assert "no such job" in none.stderr
    done = hn("job", "requeue", "--jobname", pattern, "--state", "canceled", "--since", "1h", state=state)
    assert done.stdout.splitlines() == [f"Job {job} has been requeued." for job in sorted(ids.values())]
    assert set(of_test(state, request.node.name).values()) <= {"Queued", "Running"}


def test_a_command_for_no_job_says_so_and_succeeds(state: Path) -> None:
    for command in ("cancel", "finish", "wait", "hold", "suspend"):
        done = hn("job", command, "--jobname", "nosuchjob", state=state)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "hn: no such job\n"), command


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("cancel", "12", "--me"), "both ids and option 'me' were given"),
        (("cancel", "--group", "g", "--me"), "both a group and option 'me' were given"),
        (("cancel", "--me", "--state", "failed"), "this command selects no jobs that are failed"),
        (("requeue", "--me", "--state", "running"), "this command selects no jobs that are running"),
        (("cancel", "all"), "'all' is not an id; where a command takes all your jobs, write --me"),
        (("cancel", "--me", "--user", "ada"), "both options 'me' and 'user' were given"),
        (("cancel",), "no job was given"),
    ],
)
def test_contradictions_are_refused_before_anything_is_done(
    state: Path, words: tuple[str, ...], text: str
) -> None:
    done = hn("job", *words, state=state)
    assert done.returncode == 2
    assert text in done.stderr
