"""What preemption and balanced mode would have done to past jobs: the head itself does it, at its price."""

import json
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from cli_scripted_head import hn
from lxml.html import fromstring
from test_engine_replay import SIZE, worlds

from headnode.apps.simulate.engine_replay import EngineReplay, PreemptionCost
from headnode.apps.simulate.machine import pool
from headnode.apps.simulate.predictions import predict
from headnode.apps.simulate.scenario import (
    NOT_SIMULATED,
    SIMULATED,
    RequestOverrides,
    read_least,
    read_parameters,
    read_priorities,
    read_selector,
    read_variants,
)
from headnode.apps.simulate.simulation import ReplaySetup, simulate
from headnode.core.model.errors import BadRequest
from headnode.core.model.workload import Workload
from headnode.core.scheduling.policies import POLICIES
from headnode.engine.parameters import PARAMETERS

# Two jobs have all four processors; ten seconds later user 9 comes with a job of two.
URGENT = Workload(
    numbers=(1, 2, 3),
    submits=(0, 0, 10),
    run_times=(100, 100, 20),
    estimates=(100, 100, 20),
    processors=(2, 2, 2),
    users=("1", "2", "9"),
)
NINE_FIRST = read_priorities(["user:9=Highest"])
IMMEDIATE = "PreemptionType=Immediate"
IN_PARTS = (IMMEDIATE, "TaskImmediatePreemption=yes")
BALANCED = "SchedulingMode=Balanced"


def lived(
    workload: Workload, *parameters: str, size: int = 4, **asking: object
) -> tuple[list[float], PreemptionCost]:
    values = read_parameters(parameters)
    replay = EngineReplay(
        workload,
        pool(size),
        "easy",
        parameters=values,
        asking=RequestOverrides(NINE_FIRST)._replace(**asking),
    )
    return replay.run(), replay.preemption_cost()


def test_without_preemption_the_urgent_job_waits_for_an_end() -> None:
    starts, found = lived(URGENT)
    assert starts == [0, 0, 100]
    assert (found.returned, found.stopped, found.lost) == ([0, 0, 0], [0, 0, 0], [0, 0, 0])


def test_a_job_that_is_stopped_runs_again_from_its_beginning() -> None:
    starts, found = lived(URGENT, IMMEDIATE)
    assert starts == [0, 30, 10]  # the younger of the two gives way
    assert found.started == [0, 0, 10]
    assert found.ended == [100, 130, 30]
    assert (found.returned, found.stopped, found.lost) == ([0, 1, 0], [0, 1, 0], [0, 10 * 2, 0])


def test_nothing_is_lost_gracefully() -> None:
    starts, found = lived(URGENT, "PreemptionType=Graceful")
    assert starts == [0, 0, 100]
    assert (found.stopped, found.lost) == ([0, 0, 0], [0, 0, 0])


def test_who_may_not_run_twice_is_not_stopped() -> None:
    starts, _ = lived(URGENT, IMMEDIATE, once=(read_selector("user:2"),))
    assert starts == [30, 0, 10]
    starts, found = lived(URGENT, IMMEDIATE, once=(read_selector("user:1-2"),))
    assert starts == [0, 0, 100]
    assert found.lost == [0, 0, 0]


def test_only_the_tasks_are_stopped_whose_processors_are_needed() -> None:
    _, found = lived(URGENT, *IN_PARTS, least=50)
    assert found.stopped == [0, 1, 0]  # of two
    assert found.returned == [0, 0, 0]
    assert found.lost == [0, 10, 0]
    # The task waits until the first job is over, and the urgent one, which has one processor, runs for 40 s.
    assert found.ended == [100, 150, 50]
    _, found = lived(URGENT, IMMEDIATE, least=50)
    assert (found.stopped, found.returned) == ([0, 2, 0], [0, 1, 0])


def test_jobs_of_smaller_sizes_take_the_time_that_their_tasks_need() -> None:
    work = Workload((1, 2), (0, 0), (10, 10), (10, 10), (2, 4), users=("1", "2"))
    starts, found = lived(work, least=50)
    assert found.started == [0, 0]
    assert found.ended == [10, 20]  # two of its four tasks wait for the other job
    assert starts == [0, 10]
    assert not any(found.cut)


@pytest.mark.parametrize(("bias", "stopped"), [("MediumBias", 4), ("NoBias", 6)])
def test_balanced_jobs_have_shares_by_their_priority(bias: str, stopped: int) -> None:
    # Of twelve processors each has one to begin with; of the other ten, seven go to who is first, or five.
    work = Workload((1, 2), (0, 10), (100, 100), (100, 100), (12, 12), users=("9", "1"))
    above = read_priorities(["user:9=AboveNormal"])
    shares = BALANCED, f"PriorityBias={bias}"
    _, found = lived(work, *shares, size=12, least=1, priorities=above)
    assert found.started == [0, 10]
    assert found.stopped[0] == stopped
    assert found.lost[0] == 10 * stopped
    _, found = lived(work, *shares, "PreemptionBalancedMode=Graceful", size=12, least=1, priorities=above)
    assert found.lost == [0, 0]
    assert found.started == [0, 100]


KINDS = (
    ("PreemptionType=Graceful",),
    (IMMEDIATE,),
    IN_PARTS,
    (BALANCED,),
    (BALANCED, "PreemptionBalancedMode=Graceful"),
)


@pytest.mark.parametrize("least", [100, 30])
@pytest.mark.parametrize("parameters", KINDS)
def test_all_jobs_end_and_nobody_is_stopped_who_must_not_be(parameters: tuple[str, ...], least: int) -> None:
    asking = RANKED._replace(least=least)
    values, stopped = read_parameters(parameters), 0
    for policy in sorted(POLICIES):
        for work in worlds(1, 40):
            replay = EngineReplay(work, pool(SIZE), policy, parameters=values, asking=asking)
            starts, found = replay.run(), replay.preemption_cost()
            check_toll(work, found)
            if least == 100:
                ends = [start + time for start, time in zip(starts, work.run_times, strict=True)]
                assert (ends, any(found.cut)) == (found.ended, False)
            if BALANCED not in parameters:
                urgent = [row for row, size in enumerate(work.processors) if size == 1]
                assert not any(found.stopped[row] for row in urgent)
            if "Graceful" in parameters[-1]:
                assert not any(found.lost)
            stopped += sum(found.stopped)
    could = "Graceful" not in parameters[-1] and (least < 100 or BALANCED not in parameters)
    assert (stopped > 0) == could


RANKED = RequestOverrides(
    priorities=read_priorities(["size:1=Highest", "size:2-3=AboveNormal"]), once=(read_selector("size:6-8"),)
)


def check_toll(work: Workload, expected: PreemptionCost) -> None:
    """See that jobs held no more than there is, for all that was done, and what runs once was not stopped."""
    rows = range(len(work.numbers))
    assert not any(expected.stopped[row] for row in rows if work.processors[row] >= 6)
    times = sorted(expected.held)
    levels = list(accumulate(expected.held[time] for time in times))
    assert 0 <= min(levels) <= max(levels) <= SIZE
    assert levels[-1] == 0
    held = sum(level * (end - at) for level, (at, end) in zip(levels, pairwise(times), strict=False))
    done = sum(work.run_times[row] * work.processors[row] for row in rows if not expected.cut[row])
    assert held >= done + sum(expected.lost)


def test_the_same_log_gives_the_same_answer() -> None:
    work = next(worlds(1, 40))
    for parameters in KINDS:
        values, asking = read_parameters(parameters), RANKED._replace(least=30)
        one, other = (
            EngineReplay(work, pool(SIZE), "easy", parameters=values, asking=asking) for _ in range(2)
        )
        assert (one.run(), one.preemption_cost()) == (other.run(), other.preemption_cost())


def test_every_parameter_is_simulated_or_refused_with_a_reason() -> None:
    names = {parameter.name for parameter in PARAMETERS.values()}
    assert set(SIMULATED) | NOT_SIMULATED.keys() == names
    assert not set(SIMULATED) & NOT_SIMULATED.keys()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("PreemptionType", "parameter-value"),
        ("PreemptionType=graceful", "parameter-value"),
        ("RebalancingInterval=0", "parameter-value"),
        ("Preemption=None", "no-such-parameter"),
        ("HeartbeatInterval=5", "parameter-not-simulated"),
        ("SchedulingPolicy=easy", "parameter-not-simulated"),
    ],
)
def test_parameters_are_checked_as_those_of_a_cluster(text: str, code: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_parameters([text])
    assert refused.value.code == code


@pytest.mark.parametrize(
    "text", ["user:7", "owner:7=Highest", "user:=Highest", "user:9-7=Highest", "user:x=Highest"]
)
def test_jobs_that_are_picked_by_nothing_known_are_refused(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_priorities([text])
    assert refused.value.code == "which-jobs"


def test_jobs_do_with_no_less_than_that_part_of_their_processors() -> None:
    assert [RequestOverrides(least=30).minimum(size) for size in (1, 3, 4, 10, 11)] == [1, 1, 2, 3, 4]
    assert RequestOverrides().minimum(7) == 7


def test_queues_may_be_the_priorities_themselves() -> None:
    work = URGENT._replace(queues=("3500", "", "4001"))
    asking = RequestOverrides(read_priorities(["user:2=Lowest", "queue"]))
    assert [asking.priority(work, row) for row in range(3)] == [3500, 0, 2000]


@pytest.mark.parametrize("text", ["0", "101%", "half", "-5", ""])
def test_a_part_of_the_processors_is_a_percentage(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_least(text)
    assert refused.value.code == "least"


def test_variants_are_called_by_what_differs() -> None:
    common = read_parameters(["preemptiontype=Immediate"])
    assert [
        (one.name, dict(one.parameters))
        for one in read_variants(["easy", "fcfs+PreemptionType=None"], common)
    ] == [
        ("easy", {"PreemptionType": "Immediate"}),
        ("fcfs+PreemptionType=None", {"PreemptionType": "None"}),
    ]
    assert [one.name for one in read_variants(["easy", "easy+" + IMMEDIATE])] == ["easy", IMMEDIATE]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows = zip(URGENT.numbers, URGENT.submits, URGENT.run_times, URGENT.processors, URGENT.users, strict=True)
    path = tmp_path / "urgent.swf"
    path.write_text(
        "; MaxProcs: 4\n"
        + "".join(
            f"{job} {at} -1 {time} {size} -1 -1 {size} {time} -1 1 {user}" + " -1" * 6 + "\n"
            for job, at, time, size, user in rows
        )
    )
    return path


ASKED = ("--engine", "--priority", "user:9=Highest")


def run(*words: object) -> "tuple[int, str, str]":
    result = hn("simulate", *map(str, words), state=Path("/nowhere"))
    return result.returncode, result.stdout, result.stderr


def test_settings_are_shown_side_by_side_with_a_line_for_each_priority(log: Path) -> None:
    code, shown, found = run(log, *ASKED, "--compare", f"PreemptionType=None,{IMMEDIATE}")
    heading, _, *rows = shown.splitlines()
    assert (code, found) == (0, "")
    assert heading.split()[:2] == ["Policy", "Priority"]
    assert [row.split()[0] for row in rows] == [
        "PreemptionType=None",
        "Highest",
        "Normal",
        IMMEDIATE,
        "Highest",
        "Normal",
    ]
    assert rows[4].split() == ["Highest", "1", "0.000", "0.000", "1.0000", "0", "0.00", "0"]
    assert rows[5].split() == ["Normal", "2", "0.000", "15.000", "1.1500", "1", "0.01", "0"]


def test_a_program_reads_what_was_set_and_what_it_cost(log: Path) -> None:
    _, shown, _ = run(log, *ASKED, "--set", IMMEDIATE, "--json")
    found = json.loads(shown)
    assert found["policy"] == "easy"
    assert found["parameters"] == {"PreemptionType": "Immediate"}
    assert (found["jobs_returned"], found["tasks_stopped"], found["jobs_cut"]) == (1, 1, 0)
    assert found["lost_processor_hours"] == pytest.approx(20 / 3600)
    assert [(each["priority"], each["jobs"], each["mean_wait"]) for each in found["by_priority"]] == [
        ("Highest", 1, 0),
        ("Normal", 2, 15),
    ]


def test_with_parameters_jobs_go_through_the_head_and_a_log_without_queues_has_none(log: Path) -> None:
    words = ("--set", IMMEDIATE, "--priority", "user:9=Highest")
    assert run(log, *words) == run(log, *words, "--engine")
    assert run(log, *words)[1] != run(log, "--engine", *words[2:])[1]
    assert "this log does not have: queues" in run(log, "--engine", "--priority", "queue:1=Highest")[2]


@pytest.mark.parametrize(
    "scene",
    [
        ReplaySetup(parameters=(("PreemptionType", "Immediate"),)),
        ReplaySetup(asking=RequestOverrides(least=50)),
    ],
)
def test_predictions_do_not_pass_over_what_was_set(log: Path, scene: ReplaySetup) -> None:
    with pytest.raises(BadRequest) as refused:
        predict(str(log), ["easy"], scene)
    assert refused.value.code == "predictions"


def test_the_report_shows_what_was_stopped_and_draws_no_bars_of_jobs_that_change_size(
    log: Path, tmp_path: Path
) -> None:
    pytest.importorskip("plotly")
    from headnode.apps.simulate.html.page import page
    from headnode.apps.simulate.html.study import study

    for least, bars in ((100, True), (50, False)):
        scene = ReplaySetup(engine=True, asking=RequestOverrides(NINE_FIRST, least=least))
        found = simulate(str(log), ["easy", "easy+" + IMMEDIATE], scene)
        document = fromstring(page(study("urgent.swf", found, [])))
        cells = [
            [cell.text_content() for cell in row]
            for row in document.get_element_by_id("priorities").iter("tr")  # type: ignore[attr-defined]
        ]
        assert [row[:3] for row in cells if row[0] == IMMEDIATE] == [
            [IMMEDIATE, "all", "3"],
            [IMMEDIATE, "Highest", "1"],
            [IMMEDIATE, "Normal", "2"],
        ]
        known = json.loads(document.get_element_by_id("known").text)  # type: ignore[attr-defined]
        assert (known["gantt"] is not None) == bars
        assert ("gantt-chart" in {one.get("id") for one in document.iter("div")}) == bars
