"""A plug-in filter: jobs without a run time limit get one, and night jobs run at night.

It lives in a process of its own, is loaded once, and keeps what it likes between calls.
"""

import time
from typing import Any

START, HOLD = 0, 3


class SiteRules:
    """Both kinds of filter in one object.  A method that is not there has nothing against a job."""

    def __init__(self) -> None:
        self.seen = 0

    def on_load(self) -> None:
        """Open files and connections here; it may take up to 20 seconds."""

    def filter_submission(self, job: dict[str, Any]) -> int | tuple[int, dict[str, Any]]:
        """Look at a job that is submitted.  Return 0, or 1 with what it is to be; anything else fails it."""
        self.seen += 1
        if "run_time" in job:
            return 0
        print("the job has a run time limit of one day now")
        return 1, job | {"run_time": "1d"}

    def filter_activation(
        self, job: dict[str, Any], scheduler_pass: int, job_index: int, backfill: bool, resource_count: int
    ) -> int:
        """Look at a job that would start; the answers are those of the table of activation filters."""
        night = not 7 <= time.localtime().tm_hour < 19
        if job.get("project") == "night" and not night:
            print("jobs of the project night run between 19:00 and 7:00")
            return HOLD
        return START

    def revert_activation(
        self, job: dict[str, Any], scheduler_pass: int, job_index: int, backfill: bool, resource_count: int
    ) -> None:
        """Give back what `filter_activation` has taken: here, nothing."""
