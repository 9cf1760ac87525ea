"""The fields of each verb of the local protocol.  Unknown fields and wrong types are refused here."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headnode.core.model import bounds as b
from headnode.core.model.reservation import AtEnd

Name = Annotated[str, Meta(max_length=b.NAME.most)]
Note = Annotated[str, Meta(max_length=b.NOTE.most)]
CommandLine = Annotated[str, Meta(max_length=b.COMMAND.most)]
PathText = Annotated[str, Meta(max_length=b.PATH.most)]
Word = Annotated[str, Meta(max_length=b.WORD.most)]  # a node set, the value of a parameter, a filter
Names = Annotated[list[Name], Meta(max_length=b.LIST.most)]
UnixTime = Annotated[float, Meta(ge=-b.TIME.most, le=b.TIME.most)]
Duration = Annotated[float, Meta(ge=-b.RUN_TIME.most, le=b.RUN_TIME.most)]
Cells = Annotated[int, Meta(ge=0, le=65_535)]  # of a terminal, as its driver counts them


class VerbRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What every verb has: nothing."""


class JobIdRequest(VerbRequest, frozen=True):
    """A verb about one job."""

    job: int


class CreateJobRequest(VerbRequest, frozen=True):
    """create_job."""

    jobfile: str | None = None  # the text of a job file
    files: dict[str, str] = {}  # {name: text} of the files that it names
    values: dict[str, str] = {}  # {name: value} put in for `{name}` in a grid file
    dialect: Name | None = None  # its language; null: recognized by its content
    script: list[str] = []  # name and arguments of a batch script
    options: list[str] = []  # of the command line of sbatch or qsub; they override those of the script
    directory: PathText = ""  # where a batch script is submitted
    environment: dict[str, str] = {}  # variables of the shell, for a batch script that asks for them
    lenient: bool = False  # repair what can be repaired
    terms: dict[str, Any] = {}  # options; they override the file
    tasks: list[dict[str, Any]] = []  # a list of task terms
    strict: bool = False  # refuse what the language does not allow
    awareness: Name = "warn"  # reject, warn or ignore


class SubmitJobRequest(CreateJobRequest, frozen=True):
    """submit_job and check_job: an id that was created, or a description."""

    job: int | None = None  # an id that was created


class SubmitJobsRequest(VerbRequest, frozen=True, kw_only=True):
    """submit_jobs: at most 1,000 jobs in all."""

    submissions: Annotated[list[CreateJobRequest], Meta(max_length=b.JOBS.most)]  # each as in submit_job
    all_or_none: bool = False  # if one is refused, none is carried out


class ReplaceJobRequest(CreateJobRequest, frozen=True, kw_only=True):
    """replace_job: a job that was created, and what describes it from now on."""

    job: int


class AddTasksRequest(JobIdRequest, frozen=True):
    """add_tasks: tasks as terms, or those of a job file."""

    tasks: list[dict[str, Any]] = []  # a list of task terms, at most 3,000 at once
    jobfile: str | None = None  # a file with a Task, or with one job


class ModifyTaskRequest(JobIdRequest, frozen=True):
    """modify_task: `terms` replace those that are named."""

    task: int
    terms: dict[str, Any]


class ModifyJobRequest(JobIdRequest, frozen=True):
    """modify_job."""

    terms: dict[str, Any]


class SetProgressRequest(JobIdRequest, frozen=True):
    """set_progress."""

    percent: int | None = None  # 0 to 100
    message: Note | None = None


class StopJobRequest(JobIdRequest, frozen=True):
    """cancel_job and finish_job."""

    message: Note = ""
    force: bool = False
    graceful: bool = False


class GroupNameRequest(VerbRequest, frozen=True):
    """group.  `owner` None means the asker, * everybody."""

    group: Name
    owner: Name | None = None  # null: the requesting user; `*`: all users


class StopGroupRequest(GroupNameRequest, frozen=True):
    """cancel_group and finish_group."""

    message: Note = ""
    force: bool = False
    graceful: bool = False


class ReadOutputRequest(VerbRequest, frozen=True):
    """read_output: up to `limit` bytes from `offset` on; a negative offset counts from the end.

    `stream`: what was captured, or what a task has sent to a file of its own.
    """

    job: int
    task: int
    instance: int | None = None
    offset: int = 0  # bytes; negative: from the end
    limit: int = 1 << 18  # bytes
    stream: Literal["captured", "standard_output", "standard_error"] = "captured"


class ListJobsRequest(VerbRequest, frozen=True):
    """jobs.  `group`: only those that this group has now.

    `name` is a pattern with * and ? for the name, or for the command of a job without one; `since` and
    `until` are about the time at which a job was made, in seconds since 1970.
    """

    owner: Name | None = None  # null: all; "": the requesting user
    states: Names = []
    before: int | None = None  # an id
    limit: int = 100
    group: Name | None = None  # only its current jobs
    name: Name = ""  # a pattern with `*` and `?`; for a job without a name: for its command
    project: Name = ""
    since: UnixTime | None = None  # of creation
    until: UnixTime | None = None  # of creation


class ListTasksRequest(JobIdRequest, frozen=True):
    """tasks."""

    after: int = 0  # a task number, or with `expand` an instance
    limit: int = 1000
    states: Names = []
    expand: int | None = None  # a task number: its instances instead


class TaskIdRequest(JobIdRequest, frozen=True):
    """task, task_output, requeue_task, release_task."""

    task: int
    instance: int | None = None


class StopTaskRequest(TaskIdRequest, frozen=True):
    """cancel_task, finish_task."""

    message: Note = ""
    force: bool = False


class HoldTaskRequest(TaskIdRequest, frozen=True):
    """hold_task."""

    requeue: bool = False  # also instances that run: they are stopped and go back to the queue


class JobHistoryRequest(JobIdRequest, frozen=True):
    """job_history."""

    limit: int = 200


class PastJobsRequest(VerbRequest, frozen=True):
    """ended_jobs."""

    after: int = 0  # an id
    limit: int = 1000  # at most 5,000
    since: UnixTime | None = None  # of submission
    until: UnixTime | None = None  # of submission


class PredictionScoresRequest(VerbRequest, frozen=True):
    """predictions."""

    since: UnixTime | None = None


class ExportJobRequest(JobIdRequest, frozen=True):
    """export_job."""

    dialect: Name | None = None  # one of [every job language](../job-languages.md); `submitted`: its own file


class WatchJobsRequest(VerbRequest, frozen=True):
    """watch_jobs."""

    job: int | Annotated[list[int], Meta(max_length=b.LIST.most)]  # an id, or a list of ids


class ListNodesRequest(VerbRequest, frozen=True):
    """nodes."""

    states: Names = []


class NodeNameRequest(VerbRequest, frozen=True):
    """node, approve_node, pause_node, resume_node, remove_node."""

    node: Name


class DrainNodeRequest(VerbRequest, frozen=True):
    """drain_node.  `closes` in seconds since 1970; None: now.  `force`: what runs there is stopped."""

    node: Name
    closes: UnixTime | None = None  # null: now
    reason: Note = ""
    force: bool = False  # its tasks are stopped


class ReservationNameRequest(VerbRequest, frozen=True):
    """reservation, cancel_reservation."""

    name: Name


class SetReservationRequest(ReservationNameRequest, frozen=True):
    """create_reservation and modify_reservation, where what is left out stays as it is.

    `start` and `end` in seconds since 1970, `duration` in seconds in place of the end; `nodes` are names and
    sets of them, or `count` of any in all of the groups and with all of the features.
    """

    start: UnixTime | None = None  # null: now
    end: UnixTime | None = None  # or `duration`
    duration: Duration | None = None  # seconds
    nodes: Word | None = None  # names and sets, or `count`
    count: int | None = None
    node_groups: Names | None = None
    features: Names | None = None
    users: Names | None = None  # with no users, groups and projects it is for maintenance
    groups: Names | None = None
    projects: Names | None = None
    at_end: AtEnd | None = None  # limit, run-on, cancel
    automatic: bool | None = None
    reason: Note | None = None
    ignore_running: bool = False


class InviteNodeRequest(VerbRequest, frozen=True):
    """invite_node.  `lifetime` in seconds."""

    lifetime: Duration = 86400.0  # seconds
    approve: bool = False
    node: Name = ""  # the name that the node must have
    nodes: Names = []  # each of these nodes may join once


class SetNodeRequest(VerbRequest, frozen=True):
    """modify_node.  What is left out stays as it is."""

    node: Name
    groups: Names | None = None
    features: Names | None = None
    comment: Note | None = None


class TemplateNameRequest(VerbRequest, frozen=True):
    """remove_template."""

    template: Name


class ShowTemplateRequest(TemplateNameRequest, frozen=True):
    """template.  `form` of its file: toml, or hpcpack."""

    form: Name = "toml"  # toml or hpcpack


class TestFilterRequest(VerbRequest, frozen=True):
    """test_filter.  `filter` is the name of a registered one, or its text; `dialect` that of the job file."""

    __test__ = False  # pytest takes what is called Test... for tests

    filter: Word  # a registered name, or the text that would register it
    jobfile: str
    kind: Name = ""  # submission or activation
    dialect: Name | None = None
    running: bool = False
    backfill: bool = False
    resources: int = 1


class SetTemplateRequest(VerbRequest, frozen=True):
    """set_template.  `text` of its file."""

    text: str  # of a file: TOML, JSON or XML of HPC Pack


class ListTokensRequest(VerbRequest, frozen=True):
    """tokens.  `user` None means the asker, * everybody."""

    user: Name | None = None  # null: the requesting user; `*`: all users


class RevokeTokenRequest(VerbRequest, frozen=True):
    """revoke_token."""

    token: int  # its number


class AuditLogRequest(VerbRequest, frozen=True):
    """audit_log.  `since` in seconds since 1970."""

    job: int | None = None
    user: Name = ""
    since: UnixTime | None = None
    limit: int = 1000


class SetParametersRequest(VerbRequest, frozen=True):
    """set_parameters."""

    values: Annotated[dict[Name, Word | None], Meta(max_length=b.SHORT_LIST.most)]


class NodeHistoryRequest(NodeNameRequest, frozen=True):
    """node_history."""

    limit: int = 200


class ParameterHistoryRequest(VerbRequest, frozen=True):
    """parameter_history."""

    names: Names = []
    limit: int = 1000


class StopHeadRequest(VerbRequest, frozen=True):
    """stop_head."""

    cancel_jobs: bool = False  # all jobs are canceled first
