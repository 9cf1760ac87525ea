"""Verbs about recurring jobs, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Any, Literal

from headnode.protocol.recurring_answers import (
    ChangedRecurringJob,
    CreateRecurringRequest,
    ListRecurringRequest,
    ModifyRecurringRequest,
    RecurringJobAnswer,
    RecurringJobRemoval,
    RecurringJobRunAnswer,
    RecurringJobsAnswer,
    RecurringNameRequest,
    RecurringTableAnswer,
    RecurringTableRequest,
    SetRecurringTableRequest,
)
from headnode.protocol.requests import CreateJobRequest
from headnode.sdk.verbs.verb_methods import verb_of


class RecurringVerbs:
    """Verbs about recurring jobs."""

    @verb_of(ListRecurringRequest)
    def recurring_jobs(self, *, user: str | None = None) -> RecurringJobsAnswer:
        """List recurring jobs, in the order of their numbers.

        For everybody.

        user: only those of this user; None: of all
        """

    @verb_of(RecurringNameRequest)
    def recurring_job(self, recurring: str) -> RecurringJobAnswer:
        """Show a recurring job: its next times, and what became of the last ones.

        For everybody.

        recurring: the name of an own one, or the number of any
        """

    @verb_of(CreateRecurringRequest, creates=True)
    def create_recurring_job(
        self,
        schedule: str,
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
        name: str = "",
        zone: str = "",
        overlap: Literal["skip", "wait", "allow"] = "skip",
        missed: Literal["one", "none"] = "one",
        keep: int = 10,
        end: float | None = None,
        runs: int = 0,
        suspended: bool = False,
        idempotency: str | None = None,
    ) -> ChangedRecurringJob:
        """Create a recurring job: a schedule, and a job as in submit_job, which is checked at once.

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
        schedule: `0 4 * * *`, `@daily`, `@every 15m`
        name: empty: the name of the job, or of its program
        zone: IANA's name of the time zone; empty: UTC
        overlap: skip, wait or allow: what a time does while an earlier job has not ended
        missed: one or none: how many jobs are made for times while the head was away
        keep: how many of the last times are listed
        end: no time after this makes a job
        runs: how many jobs it makes; 0: no limit
        """

    @verb_of(ModifyRecurringRequest)
    def modify_recurring_job(
        self,
        recurring: str,
        *,
        schedule: str | None = None,
        name: str | None = None,
        zone: str | None = None,
        overlap: Literal["skip", "wait", "allow"] | None = None,
        missed: Literal["one", "none"] | None = None,
        keep: int | None = None,
        end: float | None = None,
        runs: int | None = None,
        terms: dict[str, Any] | None = None,
        job: CreateJobRequest | None = None,
    ) -> ChangedRecurringJob:
        """Change a recurring job, or options of the job that it makes; jobs that were made stay as they are.

        For its owner, administrators.

        recurring: the name of an own one, or the number of any
        end: 0: no end any more
        terms: options of the job; with `job`, they are in it
        job: without a name it keeps that of the job before
        """

    @verb_of(RecurringNameRequest)
    def suspend_recurring_job(self, recurring: str) -> RecurringJobAnswer:
        """Suspend a recurring job: it makes no jobs until it is resumed.

        For its owner, operators, administrators.

        recurring: the name of an own one, or the number of any
        """

    @verb_of(RecurringNameRequest)
    def resume_recurring_job(self, recurring: str) -> RecurringJobAnswer:
        """Resume a recurring job; `missed` decides what becomes of the times in between.

        For its owner, operators, administrators.

        recurring: the name of an own one, or the number of any
        """

    @verb_of(RecurringNameRequest)
    def remove_recurring_job(self, recurring: str) -> RecurringJobRemoval:
        """Remove a recurring job; the jobs that it has made stay.

        For its owner, operators, administrators.

        recurring: the name of an own one, or the number of any
        """

    @verb_of(RecurringNameRequest)
    def run_recurring_job(self, recurring: str) -> RecurringJobRunAnswer:
        """Make a job of a recurring job now, beside its schedule.

        For its owner, operators, administrators.

        recurring: the name of an own one, or the number of any
        """

    @verb_of(RecurringTableRequest)
    def recurring_table(self, *, user: str = "") -> RecurringTableAnswer:
        """Show the table of a user; only its user and administrators may see it.

        For everybody.

        user: empty: the user who asks
        """

    @verb_of(SetRecurringTableRequest)
    def set_recurring_table(
        self, text: str, *, user: str = "", zone: str = "", directory: str = ""
    ) -> RecurringTableAnswer:
        """Replace the table of a user as a whole, or not at all if an entry is refused.

        For everybody.

        user: empty: the user who asks
        zone: IANA's name of the time zone; empty: UTC
        directory: work directory of entries that name none
        """
