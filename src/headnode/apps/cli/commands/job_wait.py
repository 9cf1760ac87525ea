"""``hn job wait``: waits for jobs to end, with progress on a terminal; also for ``hn job submit --wait``."""

import os
import time

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.job_selection import IDS, SELECTION, group_fields, group_named, selected_jobs
from headnode.apps.cli.options import Arguments
from headnode.apps.cli.output import Output
from headnode.apps.cli.screens.job import ending
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from headnode.apps.cli.progress import ShowJobs

TIMEOUT = 60.0  # seconds a head may be away, for a restart, before waiting for it is given up
MAX_NAMED = 8  # jobs, when the waiting is interrupted
MAX_SHOWN = 100  # outputs of a job that was waited for
QUIET_TIME = 3.0  # seconds a job may wait before a pipe is told why
REPEAT_TIME = 60.0  # seconds after which a pipe is told another reason why a job waits
PAUSE = 0.25  # seconds between two attempts to reach it


def wait_for_jobs(
    jobs: "Sequence[int]", client: Client, out: Output, *, show_output: bool = False, together: bool = False
) -> int:
    """Wait until all of these jobs are over; tell how each ended; return 0 if all finished, else 1.

    With `show_output`, a job of one task whose output was captured shows it, as if it had run here: so it
    is after a submission, which has told the ids, and scripts that read these find each once.
    `together`: they are a group; those that were skipped are none the worse.
    """
    ended: list[dict[str, Any]] = []
    try:
        with _display(out) as display:
            for ended in states_of(list(jobs), client):
                display(ended)
    except KeyboardInterrupt:
        out.note(_left_alone(jobs))
        raise
    for job in ended:
        name = None if show_output else job["id"]
        explained = out.for_people and job["state"] == "Failed" and job["tasks"]["failed"]
        out.outcome(ending(_without_reason(job) if explained else job), job, name)
        if explained:
            _print_failure(job, client, out)
        if show_output and out.for_people:
            _show_output(job, client, out)
    well = (job["state"] == "Finished" or (together and job["skipped"]) for job in ended)
    return 0 if all(well) else 1


def _without_reason(job: "dict[str, Any]") -> "dict[str, Any]":
    """Return a failed job whose message does not say why its task failed: the next line does."""
    return {**job, "message": job["message"].partition(": ")[0]}


def _left_alone(jobs: "Sequence[int]") -> str:
    """Return the message after an interrupted wait: the job, and the command that waits for it again."""
    ids = " ".join(map(str, jobs[:MAX_NAMED])) + (" ..." if len(jobs) > MAX_NAMED else "")
    what = f"job {ids} continues" if len(jobs) == 1 else f"jobs {ids} continue"
    return f"no longer waiting, {what}; wait again: hn job wait {ids}; or cancel: hn job cancel {ids}"


def _print_failure(ended: "dict[str, Any]", client: Client, out: Output) -> None:
    """Tell how the first task that failed did, and where to see the others."""
    from headnode.apps.cli.screens.task import failure

    job = ended["id"]
    wanted = {"job": job, "states": ["Failed"], "limit": 1}
    failed = client.ask("tasks", **wanted)["tasks"]
    if failed and failed[0].get("instances"):
        failed = client.ask("tasks", expand=failed[0]["task"], **wanted)["tasks"]
    for task in failed:
        out.note(failure(task))
    if ended["tasks"]["failed"] > len(failed):
        out.note(f"all that failed: hn job listtasks {job} /state:failed /expandparametric")


def states_of(jobs: "list[int]", client: Client) -> "Iterator[list[dict[str, Any]]]":
    """Yield all job objects whenever one changed, across restarts of the head."""
    from headnode.core.model.errors import Unavailable

    known: dict[int, dict[str, Any]] = {}
    away_since: float | None = None
    while True:
        try:
            for answer in client.follow("watch_jobs", job=jobs):
                away_since = None
                known.update((job["id"], job) for job in answer["jobs"])
                yield [known[job] for job in jobs if job in known]
        except Unavailable:
            away_since = away_since or time.monotonic()
            if not known or time.monotonic() - away_since > TIMEOUT:
                raise
            time.sleep(PAUSE)
        else:
            return


def _display(out: Output) -> "AbstractContextManager[ShowJobs]":
    if out.for_people and os.isatty(1) and os.isatty(2):
        from headnode.apps.cli.progress import bars

        return bars()
    from contextlib import nullcontext

    return nullcontext(_ReasonLines(out).show if out.for_people else _show_nothing)


def _show_nothing(_jobs: "list[dict[str, Any]]") -> None:
    """A program gets no progress."""


class _ReasonLines:
    """Tells a pipe why the first job that waits does so, once it has waited for some seconds."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._said = ""
        self._since = self._at = time.monotonic()

    def show(self, jobs: "list[dict[str, Any]]") -> None:
        waiting = [job for job in jobs if job["state"] == "Queued"]
        now = time.monotonic()
        if not waiting or now - self._since < QUIET_TIME or (self._said and now - self._at < REPEAT_TIME):
            return
        if (reason := waiting[0]["pending_reason"]) != self._said:
            from headnode.apps.cli.screens.job_table import waits_in_words

            self._said, self._at = reason, now
            self._out.note(f"job {waiting[0]['id']} waits: {waits_in_words(waiting[0], time.time())}")


def _show_output(ended: "dict[str, Any]", client: Client, out: Output) -> None:
    """Show what was captured of a job: all of its only task, or of the first instances of many.

    Of an only task that wrote to a file of its own, as that of a batch script does, name the file.
    """
    from headnode.apps.cli.output_reading import copy_output, source_of

    job = ended["id"]
    if ended["tasks"]["total"] != 1:
        from headnode.apps.cli.output_reading import WholeOutput

        whole = WholeOutput(client, out, job, None, "captured_path", headers=out.width is not None)
        if whole.print_all(MAX_SHOWN) > MAX_SHOWN:
            out.note(f"only the first {MAX_SHOWN} outputs were shown; all: hn task output {job}")
        return
    question = {"job": job, "task": 1}
    files = client.ask("task_output", **question)
    if files.get("captured") and files.get("standard_output"):
        source = source_of(client, question, files, files["standard_output"])
        copy_output(source, out.raw, captured=True)
    elif files.get("node") and files["standard_output"] not in (None, os.devnull):
        out.note(f"its output is in {files['standard_output']}")


def run(args: Arguments, client: Client, out: Output) -> int:
    """Wait; exit status 0 if every job finished, else 1."""
    if group_named(args) is None:
        jobs = list(dict.fromkeys(selected_jobs(args, client, out)))
        return wait_for_jobs(jobs, client, out) if jobs else 0
    return wait_for_jobs(client.ask("group", **group_fields(args))["jobs"], client, out, together=True)


COMMANDS = (
    CliCommand(
        "wait",
        IDS,
        "Wait until jobs have ended; exit status 0 only if all finished",
        run,
        options=SELECTION,
        example="hn job wait 12 13",
        notes=(
            "On a terminal it shows the progress of running jobs, and why a queued job waits and when it "
            "should start. In a pipe the reason is printed on standard error after some seconds.",
            "Ctrl-C stops waiting with exit status 130; the jobs continue.",
            "In a group, skipped jobs count as finished: for example the branch for a failure that did not "
            "happen. If all other jobs wait for a failed job, it stops waiting with exit status 1.",
        ),
    ),
)
