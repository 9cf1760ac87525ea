"""Requests and answers about recurring jobs.  The page of the protocol is printed from them.

Times are in seconds since 1970.  The comment of a field is what the page says of it.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from headnode.core.formats.fidelity import FidelityReport
from headnode.core.model import bounds as b
from headnode.core.state.recurring_record import Missed, Overlap
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import CreateJobRequest, Name, PathText, UnixTime, VerbRequest

ScheduleText = Annotated[str, Meta(max_length=b.SCHEDULE_TEXT.most)]
TableText = Annotated[str, Meta(max_length=b.MB)]


class ListRecurringRequest(VerbRequest, frozen=True):
    """recurring_jobs."""

    user: Name | None = None  # only those of this user; null: of all


class RecurringNameRequest(VerbRequest, frozen=True):
    """The verbs about one recurring job."""

    recurring: Name  # the name of an own one, or the number of any


class CreateRecurringRequest(CreateJobRequest, frozen=True, kw_only=True):
    """create_recurring_job: a schedule, and one job as in submit_job."""

    schedule: ScheduleText  # `0 4 * * *`, `@daily`, `@every 15m`
    name: Name = ""  # empty: the name of the job, or of its program
    zone: ScheduleText = ""  # IANA's name of the time zone; empty: UTC
    overlap: Overlap = "skip"  # skip, wait or allow: what a time does while an earlier job has not ended
    missed: Missed = "one"  # one or none: how many jobs are made for times while the head was away
    keep: int = 10  # how many of the last times are listed
    end: UnixTime | None = None  # no time after this makes a job
    runs: int = 0  # how many jobs it makes; 0: no limit
    suspended: bool = False


class ModifyRecurringRequest(RecurringNameRequest, frozen=True, kw_only=True):
    """modify_recurring_job: what is left out stays as it is.

    `terms` change options of the job; `job` is another one, described as for create_recurring_job.
    """

    schedule: ScheduleText | None = None
    name: Name | None = None
    zone: ScheduleText | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    keep: int | None = None
    end: UnixTime | None = None  # 0: no end any more
    runs: int | None = None
    terms: dict[str, Any] | None = None  # options of the job; with `job`, they are in it
    job: CreateJobRequest | None = None  # without a name it keeps that of the job before


class RecurringTableRequest(VerbRequest, frozen=True):
    """recurring_table."""

    user: Name = ""  # empty: the user who asks


class SetRecurringTableRequest(RecurringTableRequest, frozen=True, kw_only=True):
    """set_recurring_table: a table as of scrontab, which replaces the one before.  Empty: none."""

    text: TableText
    zone: ScheduleText = ""  # IANA's name of the time zone; empty: UTC
    directory: PathText = ""  # work directory of entries that name none


class RecurringRunObject(VerbAnswer, frozen=True):
    """What became of one time of a recurring job."""

    time: float
    at: float  # when that was decided
    job: int | None  # null: none was made
    state: str  # of the job; or Skipped, Missed, Refused, Waiting
    reason: str  # why there is no job, or the message of the job
    by: str  # who asked for a job beside the schedule; empty: nobody


class RecurringJobObject(VerbAnswer, frozen=True):
    """A recurring job."""

    number: int
    name: str
    owner: str
    schedule: str
    zone: str
    state: str  # Active, Suspended, Ended
    overlap: str
    missed: str
    keep: int
    end: float | None
    runs: int  # 0: no limit
    made: int  # how many jobs it has made
    created: float
    table: bool  # it is an entry of the table of its owner
    command: str  # of the first task, cut
    next: list[float]  # the next five times at most
    waiting: float | None  # a time whose job waits for an earlier one
    unfinished: list[int]  # its jobs that have not ended
    last: list[RecurringRunObject]  # the last times, the newest first
    problem: str  # why it makes no jobs now; or empty


class RecurringJobsAnswer(VerbAnswer, frozen=True):
    """recurring_jobs."""

    recurring_jobs: list[RecurringJobObject]  # by number


class RecurringJobAnswer(VerbAnswer, frozen=True):
    """recurring_job, suspend_recurring_job, resume_recurring_job."""

    recurring_job: RecurringJobObject


class ChangedRecurringJob(RecurringJobAnswer, frozen=True):
    """create_recurring_job, modify_recurring_job."""

    report: FidelityReport = ()
    repeated: bool | UnsetType = UNSET  # the request was carried out before


class RecurringJobRunAnswer(VerbAnswer, frozen=True):
    """run_recurring_job."""

    job: int


class RecurringJobRemoval(VerbAnswer, frozen=True):
    """remove_recurring_job."""

    removed: int
    unfinished: list[int]  # its jobs that have not ended; they go on


class RecurringTableAnswer(VerbAnswer, frozen=True):
    """recurring_table, set_recurring_table."""

    text: str
    recurring_jobs: list[RecurringJobObject]  # its entries
