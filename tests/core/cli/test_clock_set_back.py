"""Screens show no negative time when the clock was set back while something ran."""

import pytest

from headnode.apps.cli.screens import job as job_screen
from headnode.apps.readable_values import duration, elapsed

NOON = 1_700_000_000.0
COUNTS = {"total": 30, "queued": 0, "running": 0, "finished": 30, "failed": 0, "canceled": 0}


@pytest.mark.parametrize("back", [0.5, 3600.0, 86_400.0])
def test_no_time_is_below_zero(back: float) -> None:
    assert elapsed(NOON, NOON - back) is None
    assert duration(-back) == "0 s"


@pytest.mark.parametrize(("ended", "said"), [(NOON + 90, ", in 1 min 30 s"), (NOON - 86_400 + 3600, "")])
def test_the_last_line_of_a_job_has_no_time_that_nobody_knows(ended: float, said: str) -> None:
    job = {
        "id": 7,
        "name": "",
        "state": "Finished",
        "tasks": COUNTS,
        "started": NOON,
        "ended": ended,
        "message": "",
    }
    assert job_screen.ending(job) == f"Job 7 finished: 30 tasks finished{said}"
