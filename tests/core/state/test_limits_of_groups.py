"""Limits of groups of users: whose jobs count, and that what decides is in the journal."""

import pytest
from test_limits_of_owners import TASK, refused, state
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.job import JobSpec
from headnode.core.model.owner_limits import LimitScope
from headnode.core.model.user import User
from headnode.core.state.nodes import SetParameter, SetUserGroups
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState
from headnode.engine.recovery import recover, save

EVE = User(name="eve", uid=1003, gid=1003)
QUEUED, RUNNING = JobState.QUEUED, JobState.RUNNING


def limited(users: str = "", groups: str = "", **members: tuple[str, ...]) -> World:
    """Return a world of eight processors with limits, and with users in groups."""
    world = World(8)
    for scope, value in ((LimitScope.USER, users), (LimitScope.GROUP, groups)):
        world.do(SetParameter(by=ROOT, name=scope.parameter, value=value or None))
    world.do(SetUserGroups(groups=members))
    return world


def test_the_members_of_a_group_have_its_limit_together_and_others_pass_them() -> None:
    world = limited(groups="students:jobs=1", ada=("students",), bob=("students",))
    first, second, other = (world.submit(TASK, by=user) for user in (ADA, BOB, EVE))
    assert [state(world, job) for job in (first, second, other)] == [RUNNING, QUEUED, RUNNING]
    world.end(first, 1)
    assert state(world, second) is RUNNING
    world.check_replay()


def test_each_member_of_a_group_has_a_limit_of_its_own() -> None:
    world = limited(users="@students:jobs=1;*:jobs=2", ada=("students",), bob=("students",))
    jobs = [world.submit(TASK, by=user) for user in (ADA, ADA, BOB, BOB, EVE, EVE, EVE)]
    assert [state(world, job) for job in jobs] == [RUNNING, QUEUED] * 2 + [RUNNING, RUNNING, QUEUED]
    world.check_replay()


def test_a_user_in_two_groups_counts_for_both() -> None:
    world = limited(groups="a:jobs=2;b:jobs=1", ada=("a", "b"), bob=("a",), eve=("b",))
    jobs = [world.submit(TASK, by=user) for user in (ADA, BOB, EVE, BOB)]
    assert [state(world, job) for job in jobs] == [RUNNING, RUNNING, QUEUED, QUEUED]
    world.end(jobs[0], 1)
    assert [state(world, job) for job in jobs[2:]] == [RUNNING, RUNNING]


def test_jobs_follow_when_their_user_leaves_a_group_or_comes_into_it() -> None:
    world = limited(groups="students:jobs=1", ada=("students",))
    first, second = (world.submit(TASK, by=ADA) for _ in range(2))
    world.do(SetUserGroups(groups={"ada": ()}))
    assert state(world, second) is RUNNING
    world.do(SetUserGroups(groups={"ada": ("students",)}))
    third = world.submit(TASK, by=ADA)
    for job in (first, second):
        assert state(world, third) is QUEUED
        world.end(job, 1)
    assert state(world, third) is RUNNING
    world.check_replay()


def test_what_is_known_already_of_groups_is_not_written_again() -> None:
    world = limited(groups="students:jobs=1", ada=("students",))
    count = len(list(world.journal.replay()))
    world.do(SetUserGroups(groups={"ada": ("students",), "bob": ()}))
    assert len(list(world.journal.replay())) == count


def test_submitted_jobs_of_all_members_count_together() -> None:
    world = limited(groups="students:submitted=2", ada=("students",), bob=("students",))
    first = world.submit(TASK, by=ADA)
    world.submit(TASK, by=BOB)
    another = CreateJob(by=BOB, spec=JobSpec(tasks=(TASK,)), submit=True)
    assert refused(world, another) == "group 'students' may have 2 submitted jobs at once and has 2"
    world.submit(TASK, by=EVE)
    world.end(first, 1)
    world.submit(TASK, by=BOB)
    assert world.cluster.limit_index.submitted(LimitScope.GROUP, "students") == 2
    world.check_replay()


def test_a_head_that_starts_again_knows_the_groups_without_the_system() -> None:
    world = limited(groups="students:jobs=1", ada=("students",))
    world.submit(TASK, by=ADA)
    for _ in range(2):
        cluster, *_ = recover(world.journal)
        assert cluster.limit_index.groups == {"ada": ("students",)}
        world.journal.keep_snapshot(world.journal.append([]), save(world.cluster))


@pytest.mark.parametrize("groups", ["students:processors=3", "students:processors=3;a:jobs=9"])
def test_processors_of_all_members_count_and_a_job_above_the_limit_alone_never_fits(groups: str) -> None:
    world = limited(groups=groups, ada=("students",), bob=("a", "students"))
    jobs = [world.submit(TASK, TASK, by=user, minimum=2, maximum=2) for user in (ADA, BOB)]
    assert [state(world, job) for job in jobs] == [RUNNING, QUEUED]
    (wait,) = world.engine.last_plan.waits.values()
    (reason,) = (each for each in wait.reasons if each.what == "group,processors,students")
    assert reason.text == "group 'students' may have 3 processors at once and has 2; the job needs 2"
