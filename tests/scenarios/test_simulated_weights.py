"""What weights and shares would have done to past jobs: they go through the scheduler of the head."""

from pathlib import Path

import pytest
from test_simulated_limits import Job, write_log

from headnode.apps.simulate.scenario import split_variants
from headnode.apps.simulate.simulation import ReplaySetup, simulate
from headnode.core.model.errors import BadRequest

# User 1 of group 5 has used the machine for an hour, and wants it longer; then user 2 of group 6 comes.
BUSY: tuple[Job, ...] = (
    (0, 3600, 4, 1, 5), (10, 3600, 4, 1, 5), (20, 3600, 4, 1, 5), (30, 3600, 4, 2, 6), (40, 3600, 2, 2, 6),
)  # fmt: skip
AS_THEY_CAME = [0, 3600, 7200, 10800, 14400]
OF_USER_2_FIRST = [0, 7200, 14400, 3600, 10800]  # by turns


def starts(path: Path, variant: str) -> list[float]:
    outcomes = simulate(
        write_log(path / "log.swf", BUSY), ["fcfs", f"fcfs+{variant}"], ReplaySetup()
    ).outcomes
    assert list(outcomes[0].starts) == AS_THEY_CAME
    return list(outcomes[1].starts)


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("PriorityWeights=fair-share=1000", OF_USER_2_FIRST),
        ("PriorityWeights=fair-share=1000+UserShares=user2:0", AS_THEY_CAME),
        ("PriorityWeights=fair-share=1000+ProjectShares=group5:1;group6:0", AS_THEY_CAME),
        ("PriorityWeights=fair-share=1,age=100000+PriorityMaxAge=100000", AS_THEY_CAME),
        ("PriorityWeights=size=-1", [0, 7200, 10800, 14400, 3600]),
        ("PriorityWeights=age=1", AS_THEY_CAME),
    ],
)
def test_weights_and_shares_decide_which_past_job_starts_first(
    tmp_path: Path, variant: str, expected: list[float]
) -> None:
    assert starts(tmp_path, variant) == expected


def test_weights_between_variants_are_not_divided_at_their_commas() -> None:
    text = "easy,easy+PriorityWeights=fair-share=1,age=2,size=-3,fcfs"
    assert split_variants(text) == ["easy", "easy+PriorityWeights=fair-share=1,age=2,size=-3", "fcfs"]


def test_a_share_of_nobody_in_the_log_is_told(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", BUSY)
    variant = "easy+PriorityWeights=fair-share=1+UserShares=user9:2+ProjectShares=group8:1"
    notes = simulate(log, ["easy", variant], ReplaySetup()).notes
    assert [note.partition(", and no job")[0] for note in notes] == [
        "UserShares names 'user9'", "ProjectShares names 'group8'",
    ]  # fmt: skip


def test_weights_on_a_log_without_users_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 4\n" + "1 0 -1 60 1 -1 -1 1 60 -1 1" + " -1" * 7 + "\n")
    with pytest.raises(BadRequest, match="this log has no users"):
        simulate(str(path), ["easy+PriorityWeights=fair-share=1"], ReplaySetup())
