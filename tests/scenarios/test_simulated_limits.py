"""What limits of users and projects would have done to past jobs: which start later, and which earlier."""

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import ScriptedHead, hn
from lxml.html import fromstring
from test_cluster_history import pages, past
from test_engine_replay import TRACES

from headnode.adapters.files.job_logs import read_log
from headnode.apps.simulate.engine_replay import EngineReplay
from headnode.apps.simulate.limit_waits import LimitWaits, ReplayedJobs, limit_waits
from headnode.apps.simulate.machine import SimulatedMachine, machine_of, pool, read_nodes
from headnode.apps.simulate.predictions import predict
from headnode.apps.simulate.scenario import RequestOverrides, read_parameters, split_variants
from headnode.apps.simulate.simulation import PolicyOutcome, ReplaySetup, simulate
from headnode.apps.simulate.submissions import BY_NUMBERS, LogOwners, groups_in_log
from headnode.core.formats.swf import Remark
from headnode.core.model.errors import BadRequest
from headnode.core.model.workload import Workload
from headnode.core.scheduling.plan import Plan, Why
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.view import View
from headnode.core.state.limit_index import LimitIndex
from headnode.engine import usage_decay

Job = tuple[int, int, int, int, int]
"""When it comes, its run time, its processors, its user and its group."""

# The first two have all four processors; then user 2 comes.
CROWDED: tuple[Job, ...] = ((0, 100, 2, 1, 5), (0, 100, 2, 1, 5), (10, 50, 2, 2, 6))
TWO = "UserLimits=*:processors=2"


def write_log(path: Path, jobs: Sequence[Job], size: int = 4) -> str:
    lines = [
        f"{number} {at} -1 {time} {count} -1 -1 {count} {time} -1 1 {user} {group}" + " -1" * 5
        for number, (at, time, count, user, group) in enumerate(jobs, start=1)
    ]
    path.write_text("\n".join([f"; MaxProcs: {size}", *lines, ""]))
    return str(path)


def compared(path: Path, jobs: Sequence[Job], *variants: str, **scene: Any) -> tuple[PolicyOutcome, ...]:
    return simulate(write_log(path / "log.swf", jobs), ["easy", *variants], ReplaySetup(**scene)).outcomes


def limited(outcome: PolicyOutcome) -> LimitWaits:
    assert outcome.limit_waits is not None
    return outcome.limit_waits


@pytest.mark.parametrize(
    ("limit", "starts"),
    [
        (TWO, [0, 100, 10]),
        ("UserLimits=*:jobs=1", [0, 100, 10]),
        ("UserLimits=user2:jobs=0;user1:jobs=1", None),
        ("UserLimits=user1:jobs=1", [0, 100, 10]),
        ("UserLimits=*:jobs=1;user1:jobs=unlimited", [0, 0, 100]),
        ("UserLimits=user2:jobs=1", [0, 0, 100]),
        ("ProjectLimits=group5:processors=3", [0, 100, 10]),
        ("ProjectLimits=*:jobs=1", [0, 100, 10]),
        ("ProjectLimits=group6:jobs=1", [0, 0, 100]),
        ("GroupLimits=group5:processors=3", [0, 100, 10]),
        ("GroupLimits=group6:jobs=1", [0, 0, 100]),
        ("UserLimits=@group5:jobs=1", [0, 100, 10]),
        ("UserLimits=@group6:jobs=1;*:jobs=2", [0, 0, 100]),
        ("GroupLimits=group6:jobs=0;group5:jobs=1", None),
    ],
)
def test_one_job_starts_later_for_a_limit_and_another_earlier(
    limit: str, starts: list[float] | None, tmp_path: Path
) -> None:
    before, after = compared(tmp_path, CROWDED, f"easy+{limit}")
    if starts is None:  # the third job can never run: it is in no variant
        assert (before.starts, after.starts) == ([0, 0], [0, 100])
    else:
        assert before.starts == [0, 0, 100]
        assert after.starts == starts


def test_a_log_shows_which_users_and_projects_waited_for_limits_and_how_long(tmp_path: Path) -> None:
    jobs = (*CROWDED, (20, 30, 2, 1, 6))
    _, users, both = compared(
        tmp_path, jobs, f"easy+{TWO}", f"easy+{TWO}+ProjectLimits=group6:jobs=1,processors=4"
    )
    assert users.starts == [0, 100, 10, 200]  # user 1 has two from 0 to 200
    assert limited(users).seconds == [0, 100, 0, 180]
    assert both.starts == [0, 100, 10, 200]
    assert [tuple(each) for each in limited(both).owners] == [
        ("user", "user1", 2, 100 + 180, 180),
        ("project", "group6", 1, 40, 40),  # from 20 to 60, while the job of user 2 runs
    ]
    assert limited(both).seconds == [0, 100, 0, 180]


def test_a_log_shows_which_groups_waited_for_limits(tmp_path: Path) -> None:
    _, outcome = compared(tmp_path, CROWDED, "easy+GroupLimits=group5:jobs=1;group6:jobs=9")
    assert limited(outcome).seconds == [0, 100, 0]
    assert [tuple(each) for each in limited(outcome).owners] == [("group", "group5", 1, 100, 100)]


def test_a_group_that_the_log_does_not_have_is_shown_by_the_parameter_that_names_it(
    tmp_path: Path,
) -> None:
    log = write_log(tmp_path / "log.swf", CROWDED)
    variant = "easy+GroupLimits=group8:jobs=1+UserLimits=@group9:jobs=1"
    notes = simulate(log, ["easy", variant], ReplaySetup()).notes
    assert [note.partition(" and no job")[0] for note in notes if "limits '" in note] == [
        "UserLimits limits 'group9',", "GroupLimits limits 'group8',",
    ]  # fmt: skip


@pytest.mark.parametrize("setting", ["GroupLimits=wind:jobs=1", "UserLimits=@wind:jobs=1"])
def test_the_history_of_a_cluster_does_not_say_who_was_in_a_group(tmp_path: Path, setting: str) -> None:
    log = write_log(tmp_path / "log.swf", CROWDED)
    with pytest.raises(BadRequest, match="does not say in which groups") as no:
        simulate(log, [f"easy+{setting}"], ReplaySetup(owners=LogOwners({"1": "ann"}, {"5": "wind"})))
    assert no.value.code == "simulation-limits"


def test_a_job_that_only_waits_for_others_does_not_wait_for_its_limit(tmp_path: Path) -> None:
    _, outcome = compared(tmp_path, CROWDED, "easy+UserLimits=*:processors=4")
    assert outcome.starts == [0, 0, 100]
    assert limited(outcome) == LimitWaits([0, 0, 0], [])


def test_jobs_that_are_above_a_limit_alone_are_left_out_of_all_variants(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", (*CROWDED, (10, 50, 3, 1, 5), (10, 50, 3, 3, 5)))
    found = simulate(log, ["easy", f"easy+{TWO};user3:processors=unlimited"], ReplaySetup())
    assert found.log.workload.processors == (2, 2, 2, 3)
    assert found.log.remarks == {Remark.ABOVE_LIMIT: (1, 5)}
    # Its minimum is what it needs.
    found = simulate(log, [f"easy+{TWO}"], ReplaySetup(asking=RequestOverrides(least=50)))
    assert len(found.log.workload.processors) == 5


def test_whole_nodes_count_all_their_processors(tmp_path: Path) -> None:
    machine = machine_of(read_nodes("3x2"), whole_nodes=True)
    jobs = ((0, 100, 1, 1, 5), (0, 100, 1, 1, 5), (0, 100, 3, 1, 5))
    log = write_log(tmp_path / "log.swf", jobs)
    found = simulate(log, ["easy+UserLimits=*:processors=3"], ReplaySetup(machine=machine))
    assert found.outcomes[0].starts == [0, 100]
    assert limited(found.outcomes[0]).seconds == [0, 100]
    assert list(found.log.remarks) == [Remark.ABOVE_LIMIT]  # on two nodes: four processors


def test_a_job_may_grow_only_as_far_as_its_limit(tmp_path: Path) -> None:
    asking = RequestOverrides(least=25)
    without, within = compared(tmp_path, ((0, 100, 4, 1, 5),), f"easy+{TWO}", asking=asking)
    costs = [each.preemption_cost for each in (without, within) if each.preemption_cost is not None]
    assert [cost.held for cost in costs] == [{0: 4, 100: -4}, {0: 2, 200: -2}]


def levels(
    work: Workload, owners: Sequence[str], changes: Sequence[tuple[float, int, int]]
) -> Iterator[tuple[str, int, int]]:
    """Yield after each instant how many jobs and processors each owner has: a sweep over starts and ends."""
    held, sizes = {owner: [0, 0] for owner in owners}, [0] * len(work.numbers)
    for _, together in groupby(changes, key=itemgetter(0)):
        for _, row, more in together:
            before, sizes[row] = sizes[row], sizes[row] + more
            held[owners[row]][0] += (sizes[row] > 0) - (before > 0)
            held[owners[row]][1] += more
        yield from ((owner, *counts) for owner, counts in held.items())


@pytest.mark.parametrize("least", [100, 30])
@pytest.mark.parametrize("preemption", ["None", "Immediate"])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_limit_is_exceeded_in_crowded_worlds(policy: str, preemption: str, least: int) -> None:
    dice, reached = random.Random(f"{policy} {preemption} {least}"), 0
    parameters = read_parameters(
        [f"PreemptionType={preemption}", "UserLimits=*:processors=5", "ProjectLimits=*:jobs=3"]
    )
    for _ in range(3):
        work = world(dice, 50)
        replay = EngineReplay(
            work, pool(8), policy, parameters=parameters, asking=RequestOverrides(least=least)
        )
        replay.run()
        changes = replay.preemption_cost().changes
        most_processors = max(processors for *_, processors in levels(work, work.users, changes))
        most_jobs = max(jobs for _, jobs, _ in levels(work, work.groups, changes))
        assert (most_processors <= 5, most_jobs <= 3) == (True, True)
        reached += (most_processors, most_jobs) == (5, 3)
    assert reached


class _Witness:
    """A policy that writes down for how long each job was refused with a reason about limits."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.seconds: Counter[int] = Counter()
        self._limited: list[int] = []
        self._since = 0.0

    def __call__(self, view: View, /) -> Plan:
        for job in self._limited:
            self.seconds[job] += view.now - self._since
        plan = self._policy(view)
        started = {start.job for start in plan.starts}
        waiting = {each.request: [turn.job for turn in each.turns] for each in view.queue}
        self._limited = [
            job
            for request, jobs in waiting.items()
            for job in jobs
            if job not in started
            if any(reason.why is Why.LIMIT for reason in plan.waits[request].reasons)
        ]
        self._since = view.now
        return plan


@pytest.mark.parametrize("machine", [pool(8), machine_of(read_nodes("3x2,1x4"), whole_nodes=True)])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative-replan"])
def test_the_wait_for_limits_is_the_time_in_which_the_scheduler_names_them(
    policy: str, machine: SimulatedMachine
) -> None:
    dice = random.Random(policy)
    parameters = read_parameters(
        ["UserLimits=*:processors=6,jobs=2", "ProjectLimits=*:jobs=3", "GroupLimits=group1:jobs=2"]
    )
    work = world(dice, 60)
    witness = _Witness(POLICIES[policy])
    replay = EngineReplay(work, machine, policy, {policy: witness}, parameters=parameters)
    replay.run()
    cost = replay.preemption_cost()
    jobs = ReplayedJobs(replay.submissions, work.submits, cost.changes, cost.ended)
    index = LimitIndex(dict(parameters), {}, groups_in_log(work, BY_NUMBERS))
    found = limit_waits(jobs, index, machine, RequestOverrides())
    assert found.seconds == [witness.seconds[row + 1] for row in range(60)]
    assert sum(found.seconds) > 1000


@pytest.mark.parametrize("machine", [pool(8), machine_of(read_nodes("3x2,1x4"), whole_nodes=True)])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative-replan"])
@pytest.mark.parametrize("of_users", ["processor-minutes=10", "processor-minutes-running=6"])
def test_the_wait_for_processor_minutes_is_the_time_in_which_the_scheduler_names_them(
    of_users: str, policy: str, machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head makes a pass as soon as usage has decayed enough; here, not only each second."""
    monkeypatch.setattr(usage_decay, "SOONEST", 0.01)
    dice = random.Random(policy)
    parameters = read_parameters(
        [
            f"UserLimits=*:{of_users}",
            "ProjectLimits=*:processor-minutes=14,jobs=4",
            "UsageHalfLife=60",
        ]
    )
    work = world(dice, 60)
    witness = _Witness(POLICIES[policy])
    replay = EngineReplay(work, machine, policy, {policy: witness}, parameters=parameters)
    replay.run()
    cost = replay.preemption_cost()
    jobs = ReplayedJobs(replay.submissions, work.submits, cost.changes, cost.ended)
    index = LimitIndex(dict(parameters), {}, groups_in_log(work, BY_NUMBERS))
    found = limit_waits(jobs, index, machine, RequestOverrides(), 60.0)
    shown = [witness.seconds[row + 1] for row in range(60)]
    assert found.seconds == [pytest.approx(seconds, abs=1.5) for seconds in shown]
    assert sum(found.seconds) > 40


def test_a_job_of_a_log_starts_when_the_usage_of_its_user_has_decayed_enough(tmp_path: Path) -> None:
    """Each job of user 1 needs 200 processor-seconds; when 40 are left of those of the first, both fit."""
    log = write_log(tmp_path / "log.swf", CROWDED)
    (outcome,) = simulate(
        log, ["easy+UserLimits=user1:processor-minutes=4+UsageHalfLife=60"], ReplaySetup()
    ).outcomes
    time = 60 / math.log(2)
    used = 2 * time * (1 - math.exp(-100 / time))
    starts = [0, pytest.approx(100 + time * math.log(used / 40), abs=1), 10]
    assert outcome.starts == starts
    assert outcome.limit_waits is not None
    assert outcome.limit_waits.seconds == [0, pytest.approx(outcome.starts[1], abs=1), 0]


def test_jobs_above_a_limit_for_one_job_are_left_out_by_their_run_time_limits(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", CROWDED)
    found = simulate(log, ["easy", "easy+UserLimits=*:processor-minutes-per-job=2"], ReplaySetup())
    assert [len(outcome.starts) for outcome in found.outcomes] == [1, 1]


def world(dice: random.Random, jobs: int) -> Workload:
    times = [dice.randint(1, 40) for _ in range(jobs)]
    return Workload(
        numbers=range(1, jobs + 1),
        submits=sorted(dice.randint(0, 200) for _ in range(jobs)),
        run_times=times,
        estimates=[time + dice.choice((0, 0, 20)) for time in times],
        processors=[dice.randint(1, 5) for _ in range(jobs)],
        users=[str(dice.randint(1, 3)) for _ in range(jobs)],
        groups=[str(dice.randint(1, 2)) for _ in range(jobs)],
    )


@pytest.mark.skipif(not TRACES.is_dir(), reason="the traces are not beside the repository")
def test_no_limit_is_exceeded_by_the_jobs_of_a_real_trace() -> None:
    log = read_log(str(TRACES / "KTH-SP2.swf.xz"), whose=True)
    rows = [row for row, size in enumerate(log.workload.processors) if size <= 32][:3000]
    work = Workload(*([column[row] for row in rows] if column else () for column in log.workload))
    limit = read_parameters(["UserLimits=*:processors=32,jobs=6"])
    replays = [EngineReplay(work, pool(log.processors), "easy", parameters=each) for each in ((), limit)]
    free, bound = (replay.run() for replay in replays)
    most = []
    for replay in replays:
        found = list(levels(work, work.users, replay.preemption_cost().changes))
        most.append((max(jobs for _, jobs, _ in found), max(size for *_, size in found)))
    assert most[1] == (6, 32)
    assert (most[0][0] > 6, most[0][1] > 32) == (True, True)
    assert any(new < old for old, new in zip(free, bound, strict=True))
    assert any(new > old for old, new in zip(free, bound, strict=True))


def run(*words: object) -> "tuple[int, str, str]":
    result = hn("simulate", *map(str, words), state=Path("/nowhere"))
    return result.returncode, result.stdout, result.stderr


def test_one_command_shows_a_limit_beside_what_was(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", CROWDED)
    code, shown, found = run(log, "--compare", "easy,UserLimits=*:jobs=2,processors=2;user9:jobs=1")
    figures, owners = shown.split("\n\n")
    heading, _, *rows = figures.splitlines()
    assert (code, heading.split()[-6:]) == (0, ["Earlier", "Later", "Limited", "For", "limits", "(s)"])
    assert rows[1].split()[:3] == ["UserLimits=*:jobs=2,processors=2;user9:jobs=1", "3", "33.333"]
    assert rows[1].split()[-4:] == ["1", "1", "1", "33.333"]
    assert owners.splitlines()[3].split()[1:5] == ["user", "user1", "1", "0.03"]
    assert found == (
        "hn: UserLimits limits 'user9', and no job of the log is of such a user; "
        "a user of this log is, for example, 'user1'\n"
    )


def test_the_page_shows_what_the_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy-lab.md").read_text()
    start = "$ hn simulate --example --compare easy,UserLimits"
    command, *lines = page[page.index(start) :].partition("```")[0].splitlines()
    code, shown, output = run(*command.removeprefix("$ hn simulate ").split())
    assert code == 0
    assert [line for line in lines if line.startswith("hn:")] == output.splitlines()[-1:]
    assert [line for line in lines if not line.startswith("hn:")] == shown.splitlines()


def test_a_program_reads_who_waited_for_limits(tmp_path: Path) -> None:
    found = json.loads(run(write_log(tmp_path / "log.swf", CROWDED), "--set", TWO, "--json")[1])
    assert found["parameters"] == {"UserLimits": "*:processors=2"}
    assert found["limits"] == {
        "jobs": 1,
        "mean_wait": pytest.approx(100 / 3),
        "owners": [{"scope": "user", "name": "user1", "jobs": 1, "wait": 100, "longest": 100}],
    }


def test_limits_name_the_users_and_projects_of_the_cluster_whose_past_is_replayed(tmp_path: Path) -> None:
    jobs = [
        past(1, 0, 0, 50, owner="bob", project="fluid", processors=4, minimum=4, maximum=4),
        past(2, 1, 50, 50, owner="ada", project="stars"),
        past(3, 2, 50, 50, owner="ada", project="stars"),
    ]
    messages = []
    for limit in ("UserLimits=ada:jobs=1", "ProjectLimits=stars:jobs=1"):
        with ScriptedHead(tmp_path, {"ended_jobs": pages(tuple(jobs))}) as head:
            result = hn("simulate", "--history", "--set", limit, "--json", state=head.directory)
        messages.append(json.loads(result.stdout)["limits"]["owners"])
    assert [(each["scope"], each["name"], each["wait"]) for (each,) in messages] == [
        ("user", "ada", 50),
        ("project", "stars", 50),
    ]


def test_jobs_without_a_user_count_together_and_those_without_a_group_have_no_project(tmp_path: Path) -> None:
    jobs = ((0, 100, 1, -1, -1), (0, 100, 1, -1, -1), (0, 100, 1, 1, 1))
    log = write_log(tmp_path / "log.swf", jobs)
    found = simulate(log, ["easy+UserLimits=*:jobs=1", "easy+ProjectLimits=*:jobs=1"], ReplaySetup())
    assert [outcome.starts for outcome in found.outcomes] == [[0, 100, 0], [0, 0, 0]]
    assert found.notes == ("2 jobs have no user in the log; they count together, as user 'somebody'",)


@pytest.mark.parametrize("limit", ["UserLimits=*:jobs=1", "ProjectLimits=*:jobs=1"])
def test_a_limit_of_what_a_log_does_not_have_is_refused(limit: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as refused:
        compared(tmp_path, ((0, 100, 1, -1, -1),), f"easy+{limit}")
    assert refused.value.code == "simulation-limits"


@pytest.mark.parametrize("amount", ["submitted", "gpus"])
def test_amounts_that_no_log_has_are_refused_with_the_reason(amount: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_parameters([f"ProjectLimits=*:jobs=1;astro:{amount}=4"])
    assert refused.value.code == "parameter-not-simulated"
    assert amount in refused.value.what


def test_predictions_are_not_made_under_limits(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", CROWDED)
    with pytest.raises(BadRequest) as refused:
        predict(log, [f"easy+{TWO}"], ReplaySetup())
    assert refused.value.code == "predictions"


def test_commas_of_limits_divide_no_variants() -> None:
    text = "easy,UserLimits=*:jobs=1, processors=2;ann:jobs=3,gpus=1,fcfs+ProjectLimits=x:jobs=2,conservative"
    assert split_variants(text) == [
        "easy",
        "UserLimits=*:jobs=1, processors=2;ann:jobs=3,gpus=1",
        "fcfs+ProjectLimits=x:jobs=2",
        "conservative",
    ]


def test_the_report_has_a_table_of_those_who_waited_for_limits(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    from headnode.apps.simulate.html.page import page
    from headnode.apps.simulate.html.study import study

    log = write_log(tmp_path / "log.swf", CROWDED)
    found = simulate(log, ["easy", f"easy+{TWO}"], ReplaySetup())
    document = fromstring(page(study("log.swf", found, [])))
    rows = [
        [cell.text_content().strip() for cell in row]
        for row in document.get_element_by_id("limits").iter("tr")  # type: ignore[attr-defined]
    ]
    assert rows[1:] == [[TWO, "user", "user1", "1", "1 min 40 s", "1 min 40 s", "1 min 40 s"]]
    assert "priorities" not in {each.get("id") for each in document.iter()}
