"""The fields of each verb of the local protocol.  Unknown fields and wrong types are refused here."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headnode.core.model import bounds as b
from headnode.core.model.holds import DEFAULT_HOLD
from headnode.core.model.reservation import AtEnd

Name = Annotated[str, Meta(max_length=b.NAME.most)]
Note = Annotated[str, Meta(max_length=b.NOTE.most)]
Command = Annotated[str, Meta(max_length=b.COMMAND.most)]
Path = Annotated[str, Meta(max_length=b.PATH.most)]
Word = Annotated[str, Meta(max_length=b.WORD.most)]  # a node set, the value of a parameter, a filter
Names = Annotated[list[Name], Meta(max_length=b.LIST.most)]
Moment = Annotated[float, Meta(ge=-b.TIME.most, le=b.TIME.most)]
Span = Annotated[float, Meta(ge=-b.RUN_TIME.most, le=b.RUN_TIME.most)]
Cells = Annotated[int, Meta(ge=0, le=65_535)]  # of a terminal, as its driver counts them


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every verb has: nothing."""


class JobWish(Wish, frozen=True):
    """A verb about one job."""

    job: int


class CreateWish(Wish, frozen=True):
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


class SubmitWish(CreateWish, frozen=True):
    """submit_job and check_job: an id that was created, or a description."""

    job: int | None = None


class AddTasksWish(JobWish, frozen=True):
    """add_tasks: tasks as terms, or those of a job file."""

    tasks: list[dict[str, Any]] = []
    jobfile: str | None = None


class ModifyTaskWish(JobWish, frozen=True):
    """modify_task: `terms` replace those that are named."""

    task: int
    terms: dict[str, Any]


class ModifyWish(JobWish, frozen=True):
    """modify_job."""

    terms: dict[str, Any]


class ProgressWish(JobWish, frozen=True):
    """set_progress."""

    percent: int | None = None
    message: Note | None = None


class StopWish(JobWish, frozen=True):
    """cancel_job and finish_job."""

    message: Note = ""
    force: bool = False
    graceful: bool = False


class GroupWish(Wish, frozen=True):
    """group.  `owner` None means the asker, * everybody."""

    group: Name
    owner: Name | None = None


class StopGroupWish(GroupWish, frozen=True):
    """cancel_group and finish_group."""

    message: Note = ""
    force: bool = False
    graceful: bool = False


class HoldWish(JobWish, frozen=True):
    """hold_job.  `name` is that of the hold."""

    name: Name = DEFAULT_HOLD
    message: Note = ""


class ReleaseWish(JobWish, frozen=True):
    """release_job.  With `all` every hold, else that of the name."""

    name: Name = DEFAULT_HOLD
    all: bool = False


class ReadOutputWish(Wish, frozen=True):
    """read_output: up to `most` bytes from `offset` on; a negative offset counts from the end.

    `stream`: what was captured, or what a task has sent to a file of its own.
    """

    job: int
    task: int
    instance: int | None = None
    offset: int = 0
    most: int = 1 << 18
    stream: Literal["captured", "standard_output", "standard_error"] = "captured"


class ListWish(Wish, frozen=True):
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
    since: Moment | None = None
    until: Moment | None = None


class TasksWish(JobWish, frozen=True):
    """tasks."""

    after: int = 0
    limit: int = 1000
    states: Names = []
    expand: int | None = None


class TaskWish(JobWish, frozen=True):
    """task, output, requeue_task."""

    task: int
    instance: int | None = None


class StopTaskWish(TaskWish, frozen=True):
    """cancel_task, finish_task."""

    message: Note = ""
    force: bool = False


class HistoryWish(JobWish, frozen=True):
    """history."""

    limit: int = 200


class PastWish(Wish, frozen=True):
    """past_jobs."""

    after: int = 0
    limit: int = 1000
    since: Moment | None = None
    until: Moment | None = None


class PredictionsWish(Wish, frozen=True):
    """predictions."""

    since: Moment | None = None


class ExportWish(JobWish, frozen=True):
    """export_job."""

    dialect: Name | None = None


class RunEverywhereWish(Wish, frozen=True):
    """run_everywhere.  Nodes that all of `nodes` (a set), `groups`, `states`, `job` and `task` mean.

    `timeout` in seconds, on each node; None: as long as it takes.  `user` None means the asker.
    """

    command: Command
    nodes: Word = ""
    groups: Names = []
    states: Names = []
    job: int | None = None
    task: int | None = None
    exclude: Word = ""
    user: Name | None = None
    work_directory: Path = ""
    environment: Annotated[dict[str, str], Meta(max_length=b.LAUNCHES.most)] = {}
    timeout: Span | None = None


class RunHereWish(Wish, frozen=True):
    """run_here: the part of `run` on one of its nodes."""

    run: int
    node: Name


class ShellWish(JobWish, frozen=True):
    """shell.  Without `rows` and `columns` there is no terminal; `kind` is its TERM."""

    command: Command = ""
    rows: Cells = 0
    columns: Cells = 0
    kind: Name = ""


class WatchWish(Wish, frozen=True):
    """watch_job."""

    job: int | Annotated[list[int], Meta(max_length=b.LIST.most)]


class NodesWish(Wish, frozen=True):
    """nodes."""

    states: Names = []


class NodeWish(Wish, frozen=True):
    """node, approve_node, pause_node, resume_node, remove_node."""

    node: Name


class DrainWish(Wish, frozen=True):
    """drain_node.  `closes` in seconds since 1970; None: now.  `force`: what runs there is stopped."""

    node: Name
    closes: Moment | None = None
    reason: Note = ""
    force: bool = False


class ReservationWish(Wish, frozen=True):
    """reservation, cancel_reservation."""

    name: Name


class SetReservationWish(ReservationWish, frozen=True):
    """make_reservation and change_reservation, where what is left out stays as it is.

    `begins` and `ends` in seconds since 1970, `lasts` in seconds in place of the end; `nodes` are names and
    sets of them, or `count` of any in all of the groups and with all of the features.
    """

    begins: Moment | None = None
    ends: Moment | None = None
    lasts: Span | None = None
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


class InviteWish(Wish, frozen=True):
    """invite_node.  `lifetime` in seconds."""

    lifetime: Span = 86400.0
    approve: bool = False
    node: Name = ""


class SetNodeWish(Wish, frozen=True):
    """set_node.  What is left out stays as it is."""

    node: Name
    groups: Names | None = None
    features: Names | None = None
    comment: Note | None = None


class TemplateNameWish(Wish, frozen=True):
    """remove_template."""

    template: Name


class TemplateWish(TemplateNameWish, frozen=True):
    """template.  `form` of its file: toml, or hpcpack."""

    form: Name = "toml"


class TestFilterWish(Wish, frozen=True):
    """test_filter.  `filter` is the name of a registered one, or its text; `dialect` that of the job file."""

    __test__ = False  # pytest takes what is called Test... for tests

    filter: Word
    jobfile: str
    kind: Name = ""
    dialect: Name | None = None
    running: bool = False
    backfill: bool = False
    resources: int = 1


class SetTemplateWish(Wish, frozen=True):
    """set_template.  `text` of its file."""

    text: str


class NewTokenWish(Wish, frozen=True):
    """new_token.  `lifetime` of the token, in seconds."""

    user: Name = ""
    lifetime: Span = 90 * 86400.0


class TakeLoginWish(Wish, frozen=True):
    """take_login: what a client without a token begins with."""

    secret: Name


class SpeakForTaskWish(JobWish, frozen=True):
    """speak_for_task: the attempt of whose user a node passes on the requests."""

    task: int
    instance: int
    attempt: int


class TokenWish(Wish, frozen=True):
    """log_in: what a client of another machine begins with."""

    token: Name


class TokensWish(Wish, frozen=True):
    """tokens.  `user` None means the asker, * everybody."""

    user: Name | None = None


class RevokeTokenWish(Wish, frozen=True):
    """revoke_token."""

    token: int


class AuditWish(Wish, frozen=True):
    """audit.  `since` in seconds since 1970."""

    job: int | None = None
    user: Name = ""
    since: Moment | None = None
    limit: int = 1000


class ParamsWish(Wish, frozen=True):
    """set_params."""

    values: Annotated[dict[Name, Word | None], Meta(max_length=b.SHORT_LIST.most)]


class NodeHistoryWish(NodeWish, frozen=True):
    """node_history."""

    limit: int = 200


class ParamsHistoryWish(Wish, frozen=True):
    """params_history."""

    names: Names = []
    limit: int = 1000


class DownWish(Wish, frozen=True):
    """down."""

    cancel_jobs: bool = False
