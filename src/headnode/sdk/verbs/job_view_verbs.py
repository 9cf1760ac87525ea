"""Verbs that show jobs and limits, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Any

from headnode.protocol.answers import HistoryAnswer, JobsAnswer, WatchAnswer
from headnode.protocol.cluster_answers import QueueAnswer, QueueRequest
from headnode.protocol.event_answers import EventsAnswer, EventsRequest, JobStatesAnswer, JobStatesRequest
from headnode.protocol.explanations import CheckAnswer, Explanation
from headnode.protocol.job_answers import EfficiencyAnswer, EfficiencyRequest, JobUsageAnswer
from headnode.protocol.requests import (
    JobHistoryRequest,
    JobIdRequest,
    ListJobsRequest,
    SubmitJobRequest,
    WatchJobsRequest,
)
from headnode.protocol.user_answers import (
    LimitsAnswer,
    ListLimitsRequest,
    ListPrioritiesRequest,
    ListSharesRequest,
    PrioritiesAnswer,
    SharesAnswer,
)
from headnode.sdk.verbs.verb_methods import updates_of, verb_of


class JobViewVerbs:
    """Verbs that show jobs and limits."""

    @verb_of(ListJobsRequest)
    def jobs(
        self,
        *,
        owner: str | None = None,
        states: list[str] | None = None,
        before: int | None = None,
        limit: int = 100,
        group: str | None = None,
        name: str = "",
        project: str = "",
        since: float | None = None,
        until: float | None = None,
    ) -> JobsAnswer:
        """Show a page of jobs, newest id first.

        With `name`, `project`, `since` or `until` an answer examines at most 5,000 jobs, and may have none.

        For everybody.

        owner: None: all; "": the requesting user
        before: an id
        group: only its current jobs
        name: a pattern with `*` and `?`; for a job without a name: for its command
        since: of creation
        until: of creation
        """

    @verb_of(JobHistoryRequest)
    def job_history(self, job: int, *, limit: int = 200) -> HistoryAnswer:
        """Show what happened to a job.

        For everybody.
        """

    @updates_of(WatchJobsRequest)
    def watch_jobs(self, job: int | list[int], *, timeout: float | None = None) -> WatchAnswer:
        """Show all jobs at once, then at most ten times a second those that changed, and all when all have
        ended.

        The first twelve that wait are shown again every five seconds: the expected start may be another. An
        update of many tasks comes less often, so that who watches costs the head a twentieth of its time.

        For everybody.

        job: an id, or a list of ids
        """

    @verb_of(EfficiencyRequest)
    def job_efficiency(
        self,
        *,
        job: int | None = None,
        owner: str | None = None,
        states: list[str] | None = None,
        before: int | None = None,
        limit: int = 100,
        name: str = "",
        project: str = "",
        since: float | None = None,
        until: float | None = None,
    ) -> EfficiencyAnswer:
        """Show what jobs used of what they held and requested, newest id first.

        For everybody.

        job: only this one
        owner: None: all; "": the requesting user
        before: an id
        name: a pattern with `*` and `?`; for a job without a name: for its command
        since: of creation
        until: of creation
        """

    @verb_of(JobIdRequest)
    def job_usage(self, job: int) -> JobUsageAnswer:
        """Measure what the running tasks of a job use now.

        For everybody.
        """

    @verb_of(QueueRequest)
    def queue(self, *, limit: int = 100) -> QueueAnswer:
        """Show the first jobs of the queue, in its order, and the processors that the plan reserves for them.

        For everybody.

        limit: jobs, at most 1,000
        """

    @verb_of(SubmitJobRequest)
    def check_job(
        self,
        *,
        jobfile: str | None = None,
        files: dict[str, str] | None = None,
        values: dict[str, str] | None = None,
        dialect: str | None = None,
        script: list[str] | None = None,
        options: list[str] | None = None,
        directory: str = "",
        environment: dict[str, str] | None = None,
        lenient: bool = False,
        terms: dict[str, Any] | None = None,
        tasks: list[dict[str, Any]] | None = None,
        strict: bool = False,
        awareness: str = "warn",
        job: int | None = None,
    ) -> CheckAnswer:
        """Show the result of a submission, and what would become of each job. Nothing is created or changed.

        Each job is examined as if the others of its file did not exist, except those that it waits for.

        For everybody.

        jobfile: the text of a job file
        files: {name: text} of the files that it names
        values: {name: value} put in for `{name}` in a grid file
        dialect: its language; None: recognized by its content
        script: name and arguments of a batch script
        options: of the command line of sbatch or qsub; they override those of the script
        directory: where a batch script is submitted
        environment: variables of the shell, for a batch script that asks for them
        lenient: repair what can be repaired
        terms: options; they override the file
        tasks: a list of task terms
        strict: refuse what the language does not allow
        awareness: reject, warn or ignore
        job: an id that was created
        """

    @verb_of(JobIdRequest)
    def explain_job(self, job: int) -> Explanation:
        """Show why a job waits, when it may start, and which changes would let it start now or sooner.

        For everybody.
        """

    @verb_of(EventsRequest)
    def events(
        self,
        *,
        after: int | None = None,
        jobs: tuple[int, ...] = (),
        owner: str = "",
        types: tuple[str, ...] = (),
        limit: int = 500,
    ) -> EventsAnswer:
        """Show a page of events, oldest first.  An answer looks at no more than 5,000, and may have none.

        For everybody.

        after: the number of the last known event; 0: from the first; None: from now on
        jobs: ids
        owner: of the jobs that the events are about
        types: such as job.ended; `job` means all that begin with `job.`
        limit: at most 1,000 events in an answer
        """

    @updates_of(EventsRequest)
    def watch_events(
        self,
        *,
        after: int | None = None,
        jobs: tuple[int, ...] = (),
        owner: str = "",
        types: tuple[str, ...] = (),
        limit: int = 500,
        timeout: float | None = None,
    ) -> EventsAnswer:
        """Show events as they happen, at most ten times a second, until the client disconnects.

        First come those after `after`. An answer without events comes at once, and after 15 quiet seconds.

        For everybody.

        after: the number of the last known event; 0: from the first; None: from now on
        jobs: ids
        owner: of the jobs that the events are about
        types: such as job.ended; `job` means all that begin with `job.`
        limit: at most 1,000 events in an answer
        """

    @verb_of(JobStatesRequest)
    def job_states(
        self, job: int, *, after: int = 0, task: int | None = None, limit: int = 1000
    ) -> JobStatesAnswer:
        """Show when a job and the instances of its tasks came into each state, and why, oldest first.

        For everybody.

        after: the number of the last known event
        task: only the changes of this task
        limit: at most 1,000 events are looked at for an answer
        """

    @verb_of(ListLimitsRequest)
    def limits(self, *, names: tuple[str, ...] = (), after: str = "", limit: int = 1000) -> LimitsAnswer:
        """Show the limits of the requesting user, its groups and the projects of its jobs, with use.

        To operators and administrators: of all users, projects and groups with limits of their own or with
        jobs, and of each name that they ask for.

        For everybody.

        after: `more` of the page before
        limit: users, projects and groups
        """

    @verb_of(ListSharesRequest)
    def shares(self, *, after: str = "", limit: int = 1000) -> SharesAnswer:
        """Show the shares of the requesting user and of the projects of its jobs, with what is used of them.

        To operators and administrators: of all users and projects.

        For everybody.

        after: `more` of the page before
        limit: users, in each of their projects
        """

    @verb_of(ListPrioritiesRequest)
    def priorities(self, *, after: int = 0, limit: int = 10000) -> PrioritiesAnswer:
        """Show the priorities of waiting jobs, and what orders them within these.

        Cost: O(jobs), as a scheduling pass, for the first page; further ones of the next minute are of its
        time.

        For everybody.

        after: only jobs with larger numbers
        """
