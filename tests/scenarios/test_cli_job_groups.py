"""Job groups on the command line: submitted, tried, listed, waited for, held and canceled as a whole."""

import json
import re
from pathlib import Path

import pytest
from cli_scripted_head import hn

GROUP = """job_group = "GROUP"

[[jobs]]
name = "first"
command = "FIRST"

[[jobs]]
name = "then"
command = "/bin/true"
parents = ["first"]

[[jobs]]
name = "else"
command = "/bin/true"
after_failure = ["first"]
"""


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    return tmp_path / "group.toml"


def ids(text: str) -> list[str]:
    return re.findall(r"ID: (\d+)", text)


def test_a_branch_that_was_not_needed_is_no_failure_of_the_group(state: Path, job_file: Path) -> None:
    job_file.write_text(GROUP.replace("GROUP", "good").replace("FIRST", "/bin/true"))
    result = hn("job", "submit", "--wait", str(job_file), state=state)
    assert result.returncode == 0, result.stderr
    first, _, other = ids(result.stdout)
    assert (
        f"Job {other} 'else' was canceled: 1 task canceled; it waits for job {first} to fail" in result.stdout
    )
    assert hn("job", "wait", "--group", "good", state=state).returncode == 0
    assert hn("job", "wait", other, state=state).returncode == 1


def test_a_branch_for_success_is_canceled_for_a_failure_and_comes_back_with_the_job_that_failed(
    state: Path, job_file: Path
) -> None:
    job_file.write_text(GROUP.replace("GROUP", "bad").replace("FIRST", "/bin/false"))
    result = hn("job", "submit", "--wait", str(job_file), state=state)
    assert result.returncode == 1
    first, then, other = ids(result.stdout)
    why = f"it waits for job {first} to finish (OnSuccess), and job {first} failed"
    assert f"Job {then} 'then' was canceled: 1 task canceled; {why}" in result.stdout
    assert f"Job {other} 'else' finished" in result.stdout
    done = hn("job", "explain", then, state=state).stdout
    assert f'job {first} "first", OnSuccess: it cannot be satisfied; the job is failed' in done
    assert f"run job {first} again: hn job requeue {first}; then this job is requeued too" in done
    view = hn("job", "view", first, state=state).stdout
    assert f'Needed By               : job {then} "then", OnSuccess: Canceled' in view
    assert f'job {other} "else", OnFailure: Finished' in view
    assert "all jobs of group 'bad' have ended" in hn("job", "cancel", "--group", "bad", state=state).stderr
    listed = hn("job", "list", "--group", "bad", "--all", state=state).stdout
    assert "Group bad is Completed: 1 finished, 1 failed, 1 canceled (1 of them skipped)" in listed
    again = hn("job", "requeue", then, state=state)
    assert f"run job {first} again first: hn job requeue {first}" in again.stderr
    again = hn("job", "requeue", first, state=state)
    assert again.stdout.endswith(f"requeued. Requeued with it, since they wait for it: {then}.\n")
    assert hn("job", "wait", "--group", "bad", state=state).returncode == 1
    history = hn("job", "view", "--history", then, state=state).stdout
    assert f": job {first} runs again" in history


def test_a_group_is_listed_with_its_state_and_held_released_and_finished_as_a_whole(
    state: Path, job_file: Path
) -> None:
    job_file.write_text(GROUP.replace("GROUP", "slow").replace("FIRST", "sleep 100"))
    made = ids(hn("job", "new", str(job_file), state=state).stdout)
    assert len(made) == 3
    listed = hn("job", "list", "--group", "slow", state=state).stdout
    assert listed.endswith("Group slow is NotQueued: 3 configuring\n3 matching jobs\n")
    assert hn("job", "hold", "--group", "slow", state=state).returncode == 0
    assert ids(hn("job", "submit", "--group", "slow", state=state).stdout) == made
    answer = json.loads(hn("job", "list", "--group", "slow", "--json", state=state).stdout)
    assert (answer["group"]["state"], answer["group"]["jobs"]) == ("Unstarted", list(map(int, made)))
    assert hn("job", "release", "--group", "slow", state=state).returncode == 0
    assert (
        "Group slow is Active: 2 queued, 1 running"
        in hn("job", "list", "--group", "slow", state=state).stdout
    )
    assert hn("job", "finish", "--group", "slow", "--force", state=state).returncode == 0
    assert hn("job", "wait", "--group", "slow", state=state).returncode == 0
    assert json.loads(hn("job", "list", "--group", "slow", "--json", state=state).stdout)["group"][
        "counts"
    ] == {"Finished": 3}


def test_a_group_means_the_jobs_that_came_last_under_its_name(state: Path, job_file: Path) -> None:
    job_file.write_text(GROUP.replace("GROUP", "twice").replace("FIRST", "/bin/false"))
    first = ids(hn("job", "submit", "--wait", str(job_file), state=state).stdout)
    hn("job", "cancel", "--group", "twice", state=state)
    job_file.write_text(GROUP.replace("GROUP", "twice").replace("FIRST", "/bin/true"))
    second = ids(hn("job", "submit", "--wait", str(job_file), state=state).stdout)
    listed = hn("job", "list", "--group", "twice", "--quiet", state=state).stdout.split()
    assert sorted(listed) == sorted(second)
    assert not set(first) & set(second)


def test_a_dry_run_reports_every_job_of_the_file_and_submits_none(state: Path, job_file: Path) -> None:
    job_file.write_text(GROUP.replace("GROUP", "dry").replace("FIRST", "/bin/true"))
    result = hn("job", "submit", "--dry-run", str(job_file), state=state)
    assert result.returncode == 0, result.stderr
    assert 'Job 1 of 3. Nothing was submitted. The job "first" would start at once' in result.stdout
    assert "it would wait for job 1 of the file to finish" in result.stdout
    assert "it would wait for job 1 of the file to fail" in result.stdout
    assert hn("job", "list", "--group", "dry", state=state).returncode == 1


def test_a_dry_run_is_refused_as_the_submission_would_be_with_the_number_of_the_job(
    state: Path, job_file: Path
) -> None:
    text = GROUP.replace("GROUP", "large").replace('name = "else"', 'name = "else"\nprocessors = 900')
    job_file.write_text(text.replace("FIRST", "/bin/true"))
    for more in ((), ("--dry-run",)):
        result = hn("job", "submit", *more, str(job_file), state=state)
        assert result.returncode == 2
        assert "job 3 'else' of 3: the job can never run on this cluster" in result.stderr


def test_a_check_of_a_file_with_several_jobs_says_which_cannot_be_submitted(
    tmp_path: Path, job_file: Path
) -> None:
    text = GROUP.replace("GROUP", "g").replace('command = "FIRST"', 'tasks = [{name = "a"}]')
    job_file.write_text(text)
    result = hn("check", str(job_file), state=tmp_path)
    assert "job 1 'first': it can be created but not submitted" in result.stdout


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("cancel", "--group", "g", "12"), "both a group and ids were given"),
        (("hold", "12", "--user", "ada"), "both ids and option 'user' were given"),
        (("wait",), "no job was given"),
        (("submit", "--group", "g", "/bin/true"), "a group was named, and /bin/true too"),
        (("submit", "--group", "g", "--runtime", "1"), "a group was named, and option 'runtime' too"),
    ],
)
def test_a_group_stands_in_place_of_ids(tmp_path: Path, words: tuple[str, ...], what: str) -> None:
    result = hn("job", *words, state=tmp_path)
    assert (result.returncode, what in result.stderr) == (2, True), result.stderr


def test_a_group_that_nobody_has_is_refused(state: Path) -> None:
    for verb in ("list", "wait", "cancel", "finish", "hold", "release"):
        result = hn("job", verb, "--group", "nothing", state=state)
        assert result.returncode == 1
        assert "there is no job group 'nothing'" in result.stderr
