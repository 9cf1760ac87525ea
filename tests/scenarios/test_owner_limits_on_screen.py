"""What users and administrators see of limits, and of jobs that wait for them."""

import grp
import json
import pwd
import re
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import hn
from msgspec.structs import replace
from test_local_socket import Scene, run
from test_who_may import ADMINISTRATOR, OPERATOR, OTHER, OWNER, asking

from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state import join as c

TASK = {"command": "true"}
GPU_NODE = NodeFacts(name="g1", processors=12, gpus=4)


async def limits(scene: Scene, by: User) -> list[tuple[Any, ...]]:
    """Return the limits that a user is shown; the last value says whether it has an entry of its own."""
    async with asking(scene, by) as peer:
        answer = await peer.done(verb="limits")
    assert answer["exist"]
    assert answer["every"] == by.oversees
    found = [(*list(use.values())[:-1], use["entry"] == use["name"]) for use in answer["limits"]]
    assert all(use["entry"] in (use["name"], "*") for use in answer["limits"])
    return found


async def submit(scene: Scene, by: User, project: str = "") -> int:
    async with asking(scene, by) as peer:
        terms = {"projectname": project} if project else {}
        return int((await peer.done(verb="submit_job", tasks=[TASK], terms=terms))["job"])


async def limit(scene: Scene, **values: str | None) -> None:
    async with asking(scene, ADMINISTRATOR) as peer:
        await peer.done(verb="set_parameters", values=values)


def test_a_user_sees_its_own_limits_and_those_of_its_projects_with_what_is_in_use(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(
            scene,
            UserLimits="*:jobs=1,submitted=5;bob:jobs=unlimited,processors=7",
            ProjectLimits="*:processors=9;chem:processors=2;idle:jobs=3",
        )
        for _ in range(2):
            await submit(scene, OWNER, "chem")
        await submit(scene, OTHER, "bio")
        of_ada = [("user", "ada", "jobs", 1, 1, False), ("user", "ada", "submitted", 5, 2, False)]
        of_bob = [("user", "bob", "processors", 7, 1, True), ("user", "bob", "submitted", 5, 1, False)]
        of_bio = [("project", "bio", "processors", 9, 1, False)]
        of_chem = [("project", "chem", "processors", 2, 1, True)]
        of_idle = [("project", "idle", "jobs", 3, 0, True), ("project", "idle", "processors", 9, 0, False)]
        assert await limits(scene, OWNER) == [*of_ada, *of_chem]
        assert await limits(scene, OTHER) == [*of_bob, *of_bio]
        every = [*of_ada, *of_bob, *of_bio, *of_chem, *of_idle]
        assert await limits(scene, ADMINISTRATOR) == every
        assert await limits(scene, OPERATOR) == every

    run(tmp_path, story)


def test_limits_are_listed_in_pages_and_by_name(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        named = ";".join(f"u{number}:jobs={number}" for number in range(1, 6))
        await limit(scene, UserLimits=f"*:jobs=9;{named}", ProjectLimits="chem:jobs=7")
        async with asking(scene, OPERATOR) as peer:
            found, after, pages = [], "", 0
            while after is not None:
                page = await peer.done(verb="limits", limit=2, after=after)
                found += [(use["name"], use["limit"]) for use in page["limits"]]
                after, pages = page["more"], pages + 1
            users = [(f"u{number}", number) for number in range(1, 6)]
            assert (found, pages) == ([*users, ("chem", 7)], 3)
            page = await peer.done(verb="limits", names=["u4", "chem", "new"])
            assert [(use["name"], use["limit"], use["entry"]) for use in page["limits"]] == [
                ("new", 9, "*"), ("u4", 4, "u4"), ("chem", 7, "chem"),
            ]  # fmt: skip
            refused = await peer.ask(verb="limits", after="nonsense")
            assert (refused["code"], refused["path"]) == ("page", ["after"])
        async with asking(scene, OWNER) as peer:
            page = await peer.done(verb="limits", names=["u4", "ada"])
            assert [use["name"] for use in page["limits"]] == ["ada"]

    run(tmp_path, story)


def test_what_is_in_use_of_a_lowered_limit_is_more_than_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for _ in range(2):
            await submit(scene, OWNER)
        await limit(scene, UserLimits="ada:jobs=1")
        assert await limits(scene, OWNER) == [("user", "ada", "jobs", 1, 2, True)]
        await scene.end(1)
        assert await limits(scene, OWNER) == [("user", "ada", "jobs", 1, 1, True)]

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"UserLimits": "ada:jobs=1"}, "user,jobs,ada"),
        ({"ProjectLimits": "*:processors=1"}, "project,processors,chem"),
        ({"UserLimits": "ada:jobs=0"}, "user,jobs,ada"),
    ],
)
def test_a_list_names_the_limit_for_which_a_job_waits(
    tmp_path: Path, values: dict[str, str], key: str
) -> None:
    async def story(scene: Scene) -> None:
        of_bob = await submit(scene, OTHER, "bio")
        of_ada = [await submit(scene, OWNER, "chem") for _ in range(2)]
        await limit(scene, **values)
        await scene.end(of_bob)
        after = await submit(scene, OTHER)  # it starts, and the next waits for a processor
        behind = await submit(scene, OTHER)
        async with asking(scene, OTHER) as peer:
            jobs = {job["id"]: job for job in (await peer.done(verb="jobs", owner=None))["jobs"]}
        states = {job: jobs[job]["state"] for job in (*of_ada, after, behind)}
        assert list(states.values()) == ["Running", "Queued", "Running", "Queued"]
        assert jobs[of_ada[1]]["pending_limit"] == key
        assert jobs[behind]["pending_kind"] == "processors"
        assert "pending_limit" not in jobs[behind]

    run(tmp_path, story)


def test_limits_of_groups_are_shown_to_their_members_who_are_known_from_what_they_ask_for(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        await limit(
            scene, GroupLimits="staff:jobs=1;idle:jobs=1", UserLimits="@staff:jobs=7;@rich:jobs=9;*:jobs=5"
        )
        for by in (replace(OWNER, groups=("audio", "rich", "staff")), replace(OTHER, groups=("staff",))):
            await submit(scene, by)
        assert scene.context.cluster.limit_index.groups == {"ada": ("rich", "staff"), "bob": ("staff",)}
        async with asking(scene, OWNER) as peer:
            shown = (await peer.done(verb="limits"))["limits"]
            assert [tuple(use.values()) for use in shown] == [
                ("user", "ada", "jobs", 9, 1, "@rich"),
                ("group", "staff", "jobs", 1, 1, "staff"),
            ]
        async with asking(scene, OTHER) as peer:
            shown = (await peer.done(verb="limits"))["limits"]
            assert [use["entry"] for use in shown] == ["@staff", "staff"]
            (waits,) = (await peer.done(verb="jobs", states=["Queued"]))["jobs"]
            assert waits["pending_limit"] == "group,jobs,staff"
            assert waits["pending_reason"] == "group 'staff' may have 1 running job at once and has 1"
        async with asking(scene, ADMINISTRATOR) as peer:
            shown = (await peer.done(verb="limits"))["limits"]
            assert [(use["scope"], use["name"]) for use in shown] == [
                ("user", "ada"), ("user", "bob"), ("group", "idle"), ("group", "staff"),
            ]  # fmt: skip
        await submit(scene, replace(OWNER, groups=("staff",)))
        assert scene.context.cluster.limit_index.groups == {"ada": ("staff",), "bob": ("staff",)}

    run(tmp_path, story)


def test_a_limit_of_a_group_counts_jobs_that_were_submitted_before_it_was_set(tmp_path: Path) -> None:
    name = pwd.getpwuid(0).pw_name
    group = grp.getgrgid(pwd.getpwuid(0).pw_gid).gr_name

    async def story(scene: Scene) -> None:
        root = replace(ADMINISTRATOR, name=name)
        jobs = [await submit(scene, root) for _ in range(20)]  # more than there are processors
        await limit(scene, GroupLimits=f"{group}:jobs=0")
        assert scene.context.cluster.limit_index.groups == {name: (group,)}
        async with asking(scene, root) as peer:
            states = [(await peer.done(verb="job", job=job))["job"] for job in jobs]
            assert states[-1]["pending_reason"] == f"group {group!r} may have 0 running jobs at once"
            (use,) = (await peer.done(verb="limits"))["limits"]
            assert 0 < use["used"] == sum(job["state"] == "Running" for job in states)

    run(tmp_path, story)


@pytest.mark.parametrize("name", ["*", "@staff"])
def test_a_limit_of_a_group_names_one_group(tmp_path: Path, name: str) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, ADMINISTRATOR) as peer:
            answer = await peer.ask(verb="set_parameters", values={"GroupLimits": f"{name}:jobs=9"})
            assert (answer["code"], answer["what"]) == (
                "limits", f"GroupLimits: {name!r} is not the name of a group",
            )  # fmt: skip
            assert "write @NAME in UserLimits" in answer["fix"]
        await limit(scene, ProjectLimits="@staff:jobs=9")
        assert await limits(scene, ADMINISTRATOR) == [("project", "@staff", "jobs", 9, 0, True)]

    run(tmp_path, story)


def test_a_limit_of_gpus_counts_those_of_running_and_of_suspended_jobs(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.batcher.ask(c.RegisterNode(facts=GPU_NODE, approved=True))
        await limit(scene, UserLimits="ada:gpus=2,processors=9")
        async with asking(scene, OWNER) as peer:
            request = {"tasks": [TASK], "terms": {"numgpus": "1", "corespergpu": "3", "suspendable": "true"}}
            jobs = [int((await peer.done(verb="submit_job", **request))["job"]) for _ in range(3)]
            waiting = (await peer.done(verb="job", job=jobs[2]))["job"]
            assert (
                waiting["pending_reason"] == "user 'ada' may have 2 GPUs at once and has 2; the job needs 1"
            )
            (gpus, processors) = ("user", "ada", "gpus", 2, 2, True), ("user", "ada", "processors", 9)
            assert await limits(scene, OWNER) == [(*processors, 6, True), gpus]
            await peer.done(verb="suspend_job", job=jobs[0])
            for report in scene.nodes.stopped(JobId(jobs[0])):
                await scene.batcher.ask(report)
            assert (await peer.done(verb="job", job=jobs[0]))["job"]["state"] == "Suspended"
            assert await limits(scene, OWNER) == [(*processors, 3, True), gpus]

    run(tmp_path, story)


@pytest.fixture(scope="module")
def limited(state: Path) -> Path:
    """A cluster of two processors; its user may have one running job and two submitted ones."""
    result = hn("cluster", "limits", state=state)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.startswith(
        "hn: No limits of users, projects and groups are set. Administrators set them: "
    )
    setting = re.search(r'hn cluster params "(.*)"', result.stderr)
    assert setting
    assert hn("cluster", "params", setting[1], state=state).returncode == 0
    result = hn("cluster", "params", "UserLimits=*:jobs=1,submitted=2", state=state)
    assert result.returncode == 0, result.stderr
    for _ in range(2):
        assert hn("job", "submit", "sleep", "600", state=state).returncode == 0
    return state


def test_limits_are_listed_with_what_is_left(limited: Path) -> None:
    result = hn("cluster", "limits", state=limited)
    rows = [line.split() for line in result.stdout.splitlines()]
    user = rows[2][0]
    assert rows[0] == ["Name", "Kind", "Amount", "Limit", "In", "Use", "Left", "Entry"]
    assert rows[2:] == [
        [user, "user", "running", "jobs", "1", "1", "0", "*"],
        [user, "user", "submitted", "jobs", "2", "2", "0", "*"],
    ]
    found = json.loads(hn("cluster", "limits", "--json", state=limited).stdout)
    assert found[1] == {
        "scope": "user", "name": user, "amount": "submitted", "limit": 2, "used": 2, "entry": "*",
    }  # fmt: skip


def test_limits_of_names_and_a_page_of_them_are_listed(limited: Path) -> None:
    result = hn("cluster", "limits", "eve", "--limit", "1", state=limited)
    assert [line.split()[0] for line in result.stdout.splitlines()[2:]] == ["eve", "eve"]
    result = hn("cluster", "limits", "eve", "bob", "--limit", "1", state=limited)
    assert result.stdout.endswith("\nmore with --after 0,bob\n")
    result = hn("cluster", "limits", "eve", "bob", "--after", "0,bob", state=limited)
    assert "eve" in result.stdout
    assert "bob" not in result.stdout


def test_a_job_that_waits_for_a_limit_says_which_in_every_list(limited: Path) -> None:
    user = json.loads(hn("cluster", "limits", "--json", state=limited).stdout)[0]["name"]
    sentence = f"user {user!r} may have 1 running job at once and has 1"
    assert f"Pending Reason          : {sentence}\n" in hn("job", "view", "2", state=limited).stdout
    assert sentence in hn("job", "list", state=limited).stdout
    explained = hn("job", "explain", "2", state=limited).stdout
    assert f"Why it waits\n  - {sentence}\n" in explained
    assert "hn cluster limits" in explained
    program = ("compat", "run", "squeue", "-h", "-j", "2", "-o", "%t %r")
    assert hn(*program, state=limited).stdout == "PD QOSMaxJobsPerUserLimit\n"
    assert sentence in hn("compat", "run", "qstat", "-s", state=limited).stdout
    assert f"comment = {sentence}" in hn("compat", "run", "qstat", "-f", "2", state=limited).stdout


def test_sbatch_refuses_a_job_above_the_submit_limit_in_the_words_of_slurm(limited: Path) -> None:
    result = hn("compat", "run", "sbatch", "--wrap", "true", state=limited)
    first, second, third, *_ = result.stderr.splitlines()
    assert result.returncode == 1
    assert first == "sbatch: error: QOSMaxSubmitJobPerUserLimit"
    assert second == (
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy "
        "(job submit limit, user's size and/or time limits)"
    )
    assert "may have 2 submitted jobs" in third


def test_qsub_refuses_a_job_above_the_submit_limit_in_the_words_of_pbs(limited: Path) -> None:
    result = hn("compat", "run", "qsub", "-", state=limited, stdin="true\n")
    first, second, *_ = result.stderr.splitlines()
    assert (result.returncode, first) == (38, "qsub: would exceed complex's per-user limit")
    assert "may have 2 submitted jobs" in second


def test_a_job_above_a_lowered_limit_is_advised_to_ask_for_less_than_the_limit(limited: Path) -> None:
    try:
        assert hn("cluster", "params", "UserLimits=*:processors=0", state=limited).returncode == 0
        explained = hn("job", "explain", "2", state=limited).stdout
        assert "may have 0 processors at once; the job needs 1\n" in explained
        assert "ask for less than your limits (hn cluster limits): hn job modify 2 ...\n" in explained
        assert "hn node list" not in explained
    finally:
        hn("cluster", "params", "UserLimits=*:jobs=1,submitted=2", state=limited)
