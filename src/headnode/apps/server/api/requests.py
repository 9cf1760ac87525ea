"""The fields of each verb of the local protocol.  Unknown fields and wrong types are refused here."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headnode.core.model import bounds as b
from headnode.core.model.reservation import AtEnd
from headnode.core.model.value_checks import DEFAULT_HOLD

Name = Annotated[str, Meta(max_length=b.NAME.most)]
Note = Annotated[str, Meta(max_length=b.NOTE.most)]
CommandLine = Annotated[str, Meta(max_length=b.COMMAND.most)]
PathText = Annotated[str, Meta(max_length=b.PATH.most)]
Word = Annotated[str, Meta(max_length=b.WORD.most)]  # a node set, the value of a parameter, a filter
Names = Annotated[list[Name], Meta(max_length=b.LIST.most)]
UnixTime = Annotated[float, Meta(ge=-b.TIME.most, le=b.TIME.most)]
Duration = Annotated[float, Meta(ge=-b.RUN_TIME.most, le=b.RUN_TIME.most)]
Cells = Annotated[int, Meta(ge=0, le=65_535)]  # of a terminal, as its driver counts them


class VerbRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every verb has: nothing."""


class JobIdRequest(VerbRequest, frozen=True):
    """A verb about one job."""

    job: int


class CreateJobRequest(VerbRequest, frozen=True):
    """create_job.  `files` are those that the job file names, `values` what is put in for names in it.

    `dialect`: what it is read as.
    """

    jobfile: str | None = None
    files: dict[str, str] = {}
    values: dict[str, str] = {}
    dialect: Name | None = None
    lenient: bool = False
    terms: dict[str, Any] = {}
    tasks: list[dict[str, Any]] = []
    strict: bool = False
    awareness: Name = "warn"


class SubmitJobRequest(CreateJobRequest, frozen=True):
    """submit_job and check_job: an id that was created, or a description."""

    job: int | None = None


class AddTasksRequest(JobIdRequest, frozen=True):
    """add_tasks: tasks as terms, or those of a job file."""

    tasks: list[dict[str, Any]] = []
    jobfile: str | None = None


class ModifyTaskRequest(JobIdRequest, frozen=True):
    """modify_task: `terms` replace those that are named."""

    task: int
    terms: dict[str, Any]


class ModifyJobRequest(JobIdRequest, frozen=True):
    """modify_job."""

    terms: dict[str, Any]


class SetProgressRequest(JobIdRequest, frozen=True):
    """set_progress."""

    percent: int | None = None
    message: Note | None = None


class StopJobRequest(JobIdRequest, frozen=True):
    """cancel_job and finish_job."""

    message: Note = ""
    force: bool = False
    graceful: bool = False


class GroupNameRequest(VerbRequest, frozen=True):
    """group.  `owner` None means the asker, * everybody."""

    group: Name
    owner: Name | None = None


class StopGroupRequest(GroupNameRequest, frozen=True):
    """cancel_group and finish_group."""

    message: Note = ""
    force: bool = False
    graceful: bool = False


class HoldJobRequest(JobIdRequest, frozen=True):
    """hold_job.  `name` is that of the hold."""

    name: Name = DEFAULT_HOLD
    message: Note = ""


class ReleaseJobRequest(JobIdRequest, frozen=True):
    """release_job.  With `all` every hold, else that of the name."""

    name: Name = DEFAULT_HOLD
    all: bool = False


class ReadOutputRequest(VerbRequest, frozen=True):
    """read_output: up to `most` bytes from `offset` on; a negative offset counts from the end.

    `stream`: what was captured, or what a task has sent to a file of its own.
    """

    job: int
    task: int
    instance: int | None = None
    offset: int = 0
    most: int = 1 << 18
    stream: Literal["captured", "standard_output", "standard_error"] = "captured"


class ListJobsRequest(VerbRequest, frozen=True):
    """jobs.  `group`: only those that this group has now.

    `name` is a pattern with * and ? for the name, or for the command of a job without one; `since` and
    `until` are about the time at which a job was made, in seconds since 1970.
    """

    owner: Name | None = None
    states: Names = []
    before: int | None = None
    limit: int = 100
    group: Name | None = None
    name: Name = ""
    project: Name = ""
    since: UnixTime | None = None
    until: UnixTime | None = None


class ListTasksRequest(JobIdRequest, frozen=True):
    """tasks."""

    after: int = 0
    limit: int = 1000
    states: Names = []
    expand: int | None = None


class TaskIdRequest(JobIdRequest, frozen=True):
    """task, output, requeue_task."""

    task: int
    instance: int | None = None


class StopTaskRequest(TaskIdRequest, frozen=True):
    """cancel_task, finish_task."""

    message: Note = ""
    force: bool = False


class JobHistoryRequest(JobIdRequest, frozen=True):
    """history."""

    limit: int = 200


class PastJobsRequest(VerbRequest, frozen=True):
    """past_jobs."""

    after: int = 0
    limit: int = 1000
    since: UnixTime | None = None
    until: UnixTime | None = None


class PredictionScoresRequest(VerbRequest, frozen=True):
    """predictions."""

    since: UnixTime | None = None


class ExportJobRequest(JobIdRequest, frozen=True):
    """export_job."""

    dialect: Name | None = None


class RunOnNodesRequest(VerbRequest, frozen=True):
    """run_everywhere.  Nodes that all of `nodes` (a set), `groups`, `states`, `job` and `task` mean.

    `timeout` in seconds, on each node; None: as long as it takes.  `user` None means the asker.
    """

    command: CommandLine
    nodes: Word = ""
    groups: Names = []
    states: Names = []
    job: int | None = None
    task: int | None = None
    exclude: Word = ""
    user: Name | None = None
    work_directory: PathText = ""
    environment: Annotated[dict[str, str], Meta(max_length=b.LAUNCHES.most)] = {}
    timeout: Duration | None = None


class RunOnNodeRequest(VerbRequest, frozen=True):
    """run_here: the part of `run` on one of its nodes."""

    run: int
    node: Name


class ShellRequest(JobIdRequest, frozen=True):
    """shell.  Without `rows` and `columns` there is no terminal; `kind` is its TERM."""

    command: CommandLine = ""
    rows: Cells = 0
    columns: Cells = 0
    kind: Name = ""


class WatchJobsRequest(VerbRequest, frozen=True):
    """watch_job."""

    job: int | Annotated[list[int], Meta(max_length=b.LIST.most)]


class ListNodesRequest(VerbRequest, frozen=True):
    """nodes."""

    states: Names = []


class NodeNameRequest(VerbRequest, frozen=True):
    """node, approve_node, pause_node, resume_node, remove_node."""

    node: Name


class DrainNodeRequest(VerbRequest, frozen=True):
    """drain_node.  `closes` in seconds since 1970; None: now.  `force`: what runs there is stopped."""

    node: Name
    closes: UnixTime | None = None
    reason: Note = ""
    force: bool = False


class ReservationNameRequest(VerbRequest, frozen=True):
    """reservation, cancel_reservation."""

    name: Name


class SetReservationRequest(ReservationNameRequest, frozen=True):
    """make_reservation and change_reservation, where what is left out stays as it is.

    `begins` and `ends` in seconds since 1970, `lasts` in seconds in place of the end; `nodes` are names and
    sets of them, or `count` of any in all of the groups and with all of the features.
    """

    begins: UnixTime | None = None
    ends: UnixTime | None = None
    lasts: Duration | None = None
    nodes: Word | None = None
    count: int | None = None
    node_groups: Names | None = None
    features: Names | None = None
    users: Names | None = None
    groups: Names | None = None
    projects: Names | None = None
    at_end: AtEnd | None = None
    automatic: bool | None = None
    reason: Note | None = None
    ignore_running: bool = False


class InviteNodeRequest(VerbRequest, frozen=True):
    """invite_node.  `lifetime` in seconds."""

    lifetime: Duration = 86400.0
    approve: bool = False
    node: Name = ""


class SetNodeRequest(VerbRequest, frozen=True):
    """set_node.  What is left out stays as it is."""

    node: Name
    groups: Names | None = None
    features: Names | None = None
    comment: Note | None = None


class TemplateNameRequest(VerbRequest, frozen=True):
    """remove_template."""

    template: Name


class ShowTemplateRequest(TemplateNameRequest, frozen=True):
    """template.  `form` of its file: toml, or hpcpack."""

    form: Name = "toml"


class TestFilterRequest(VerbRequest, frozen=True):
    """test_filter.  `filter` is the name of a registered one, or its text; `dialect` that of the job file."""

    __test__ = False  # pytest takes what is called Test... for tests

    filter: Word
    jobfile: str
    kind: Name = ""
    dialect: Name | None = None
    running: bool = False
    backfill: bool = False
    resources: int = 1


class SetTemplateRequest(VerbRequest, frozen=True):
    """set_template.  `text` of its file."""

    text: str


class NewTokenRequest(VerbRequest, frozen=True):
    """new_token.  `lifetime` of the token, in seconds."""

    user: Name = ""
    lifetime: Duration = 90 * 86400.0


class ListTokensRequest(VerbRequest, frozen=True):
    """tokens.  `user` None means the asker, * everybody."""

    user: Name | None = None


class RevokeTokenRequest(VerbRequest, frozen=True):
    """revoke_token."""

    token: int


class AuditLogRequest(VerbRequest, frozen=True):
    """audit.  `since` in seconds since 1970."""

    job: int | None = None
    user: Name = ""
    since: UnixTime | None = None
    limit: int = 1000


class SetParametersRequest(VerbRequest, frozen=True):
    """set_params."""

    values: Annotated[dict[Name, Word | None], Meta(max_length=b.SHORT_LIST.most)]


class NodeHistoryRequest(NodeNameRequest, frozen=True):
    """node_history."""

    limit: int = 200


class ParameterHistoryRequest(VerbRequest, frozen=True):
    """params_history."""

    names: Names = []
    limit: int = 1000


class StopHeadRequest(VerbRequest, frozen=True):
    """down."""

    cancel_jobs: bool = False
