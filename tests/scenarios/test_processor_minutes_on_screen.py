"""What users see of limits of processor-minutes: use, reasons, when decay leaves enough, what helps."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import hn
from test_local_socket import Scene, run
from test_who_may import ADMINISTRATOR, OTHER, OWNER

from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import Seconds
from headnode.core.model.user import User
from testbed.function_door import call


async def limit(scene: Scene, **values: str | None) -> None:
    await call(scene.context, ADMINISTRATOR, "set_parameters", values=values)


def described(minutes: int, processors: int = 1) -> dict[str, Any]:
    terms = {"runtime": f"{minutes}m", "numprocessors": str(processors)}
    return {"tasks": [{"command": "true"}], "terms": terms}


async def submit(scene: Scene, by: User, minutes: int, processors: int = 1) -> int:
    answer = await call(scene.context, by, "submit_job", **described(minutes, processors))
    return int(answer["job"])


async def used(scene: Scene, by: User) -> list[tuple[str, str, int, int]]:
    answer = await call(scene.context, by, "limits")
    return [(use["name"], use["amount"], use["used"], use["limit"]) for use in answer["limits"]]


async def dry_run(scene: Scene, minutes: int) -> dict[str, Any]:
    """Return what would become of a job of the owner."""
    answer = await call(scene.context, OWNER, "check_job", **described(minutes))
    explanation: dict[str, Any] = answer["explanation"]
    return explanation


def test_what_is_used_and_reserved_is_shown_also_of_users_without_jobs(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(
            scene,
            UserLimits="*:processor-minutes=500,processor-minutes-per-job=90",
            UsageHalfLife="3153600000",
        )
        job = await submit(scene, OWNER, 60)
        total, each = ("ada", "processor-minutes"), ("ada", "processor-minutes-per-job")
        assert await used(scene, OWNER) == [(*total, 60, 500), (*each, 0, 90)]
        scene.clock.advance(Seconds(600))
        assert await used(scene, OWNER) == [(*total, 60, 500), (*each, 0, 90)]
        await scene.end(job)
        shown = await used(scene, ADMINISTRATOR)
        assert ("ada", "processor-minutes", 10, 500) in shown

    run(tmp_path, story)


def test_an_explanation_says_when_decay_leaves_enough_and_which_shorter_time_starts_now(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, UserLimits="ada:processor-minutes=100", UsageHalfLife="3600")
        first = await submit(scene, OWNER, 80)
        scene.clock.advance(Seconds(4000))
        await scene.end(first)
        second = await submit(scene, OWNER, 80)
        answer = await call(scene.context, OWNER, "explain_job", job=second)
        (reason,) = answer["reasons"]
        assert (reason["kind"], reason["subject"]) == ("limit", "user,processor-minutes,ada")
        assert reason["text"].startswith(
            "user 'ada' may use 100 processor-minutes and has 47 used or reserved for running jobs; "
            "the job may use 80; usage halves every 1 h, and leaves enough at 1970-01-12T"
        )
        assert [change["text"] for change in answer["changes"]] == [
            "with a run time limit of at most 53m instead of 1h20m"
        ]

    run(tmp_path, story)


def test_a_dry_run_counts_usage_also_of_a_user_without_jobs(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, UserLimits="ada:processor-minutes=100", UsageHalfLife="3153600000")
        first = await submit(scene, OWNER, 80)
        scene.clock.advance(Seconds(3000))
        await scene.end(first)
        for minutes, kinds in ((51, ["limit"]), (50, [])):
            answer = await dry_run(scene, minutes)
            assert [each["kind"] for each in answer["reasons"]] == kinds
        running = await submit(scene, OWNER, 45)
        answer = await dry_run(scene, 70)
        assert answer["reasons"][0]["text"].endswith(", but running jobs must end first")
        assert running

    run(tmp_path, story)


def test_a_job_above_a_limit_even_alone_or_without_a_run_time_limit_is_refused(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, UserLimits="*:processor-minutes=100,processor-minutes-per-job=90")
        with pytest.raises(BadRequest, match="may use 90 processor-minutes in one job; the job may use 91"):
            await submit(scene, OWNER, 91)
        with pytest.raises(BadRequest, match="the job has no run time limit") as no:
            await call(scene.context, OTHER, "submit_job", tasks=[{"command": "true"}])
        assert no.value.code == "never-fits"
        job, _ = await submit(scene, OWNER, 60), await submit(scene, OWNER, 30)
        with pytest.raises(WrongState, match="too few for the new run time limit of job 1"):
            await call(scene.context, OWNER, "modify_job", job=job, terms={"runtime": "71m"})

    run(tmp_path, story)


def test_a_limit_of_what_running_jobs_may_use_is_shown_and_explained_with_when_it_leaves_enough(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, UserLimits="*:processor-minutes-running=100,gpu-minutes=7")
        await submit(scene, OWNER, 80)
        second = await submit(scene, OWNER, 60)
        scene.clock.advance(Seconds(600))
        running, gpus = ("ada", "processor-minutes-running", 70, 100), ("ada", "gpu-minutes", 0, 7)
        assert await used(scene, OWNER) == [running, gpus]
        answer = await call(scene.context, OWNER, "explain_job", job=second)
        assert answer["reasons"][0]["text"].startswith(
            "user 'ada' may have 100 processor-minutes reserved for running jobs and has 70 reserved; "
            "the job may use 60; it decreases, and leaves enough at 1970-01-12T"
        )
        assert [change["text"] for change in answer["changes"]] == [
            "with a run time limit of at most 30m instead of 1h"
        ]

    run(tmp_path, story)


@pytest.fixture(scope="module")
def limited(state: Path) -> Path:
    """A cluster whose user has one job that runs and one that waits for processor-minutes."""
    value = "UserLimits=*:processor-minutes=100,processor-minutes-per-job=90"
    assert hn("cluster", "params", value, state=state).returncode == 0
    for _ in range(2):
        assert hn("job", "submit", "--runtime", "80m", "sleep", "600", state=state).returncode == 0
    return state


def test_lists_and_the_programs_of_slurm_and_pbs_name_the_limit(limited: Path) -> None:
    user = json.loads(hn("cluster", "limits", "--json", state=limited).stdout)[0]["name"]
    sentence = f"user {user!r} may use 100 processor-minutes and has 80 used or reserved for running jobs; "
    assert sentence in hn("job", "view", "2", state=limited).stdout
    program = ("compat", "run", "squeue", "-h", "-j", "2", "-o", "%t %r")
    assert hn(*program, state=limited).stdout == "PD AssocGrpCPUMinutesLimit\n"
    assert sentence in hn("compat", "run", "qstat", "-s", state=limited).stdout
    rows = [line.split() for line in hn("cluster", "limits", state=limited).stdout.splitlines()]
    assert rows[2:] == [
        [user, "user", "processor-minutes", "100", "80", "20", "*"],
        [user, "user", "processor-minutes", "per", "job", "90", "0", "90", "*"],
    ]


def test_a_job_above_a_lowered_limit_for_each_job_waits_with_the_reason_of_slurm(limited: Path) -> None:
    value = "UserLimits=*:processor-minutes-per-job=70"
    assert hn("cluster", "params", value, state=limited).returncode == 0
    program = ("compat", "run", "squeue", "-h", "-j", "2", "-o", "%t %r")
    assert hn(*program, state=limited).stdout == "PD AssocMaxCpuMinutesPerJobLimit\n"
    refused = hn("compat", "run", "sbatch", "-t", "80", "--wrap", "true", state=limited)
    assert refused.returncode == 1
    assert "may use 70 processor-minutes in one job; the job may use 80" in refused.stderr
