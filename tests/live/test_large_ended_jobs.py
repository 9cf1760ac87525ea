"""Large jobs and large events, many of them: what shows them costs the head little memory."""

from itertools import islice
from pathlib import Path
from typing import Any

from headnode.apps.client.client import Client
from heads import RealHead, real_head

JOBS = 12
TASKS = [{"command": "x" * 65_000}] * 240  # 15.6 MB, nearly as much as one request may have
MOST = 120  # MB


def peak_memory(head: RealHead) -> int:
    """Return the most memory that the head has had, in MB."""
    status = Path(f"/proc/{head.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def pages(head: RealHead, **request: Any) -> list[int]:
    """Return the ids of all pages of a list of jobs."""
    found: list[int] = []
    before = None
    while True:
        answer = head.ask("jobs", limit=1000, before=before, **request)
        found += [job["id"] for job in answer["jobs"]]
        before = answer["more"]
        if before is None:
            return found


def test_no_list_of_large_ended_jobs_makes_the_head_large(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        first = head.submit("true", terms={"holds": "User", "jobgroup": "render"})
        jobs = []
        for _ in range(JOBS):
            job = head.ask("submit_job", tasks=TASKS, terms={"holds": "User", "jobgroup": "render"})["job"]
            head.ask("cancel_job", job=job)
            jobs.append(job)
        before = peak_memory(head)
        assert pages(head, states=["canceled"]) == jobs[::-1]
        grouped = pages(head, group="render")
        assert [job for job in grouped if job in jobs] == jobs[::-1][: len(grouped) - 1]
        assert first in grouped
        head.ask("ended_jobs", limit=1000)
        head.ask("job", job=first)
        head.ask("group", group="render")
        assert peak_memory(head) - before < MOST


def test_no_history_and_no_list_of_large_events_makes_the_head_large(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        job = head.ask("submit_job", tasks=TASKS, terms={"holds": "User"})["job"]
        for number in range(JOBS):
            head.ask("modify_job", job=job, terms={"jobname": f"name {number}"})
        before = peak_memory(head)
        history = head.ask("job_history", job=job, limit=1000)["history"]
        assert 2 <= len(history) < JOBS
        seen, after = [], 0
        while after < (answer := head.ask("events", after=after, types=["job.modified"]))["newest"]:
            seen += answer["events"]
            after = answer["after"]
        assert len(seen) == JOBS
        client = Client(str(head.state))
        followed = (answer["events"] for answer in client.follow("watch_events", after=0))
        assert seen[0]["number"] in {event["number"] for some in islice(followed, 3) for event in some}
        client.close()
        head.ask("cancel_job", job=job)
        head.ask("ended_jobs", limit=1000)
        assert peak_memory(head) - before < MOST
