"""The fields of each verb of the local protocol.  Unknown fields and wrong types are refused here."""

from typing import Any, Literal

import msgspec

from headnode.core.model.holds import DEFAULT_HOLD
from headnode.core.model.reservation import AtEnd


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every verb has: nothing."""


class JobWish(Wish, frozen=True):
    """A verb about one job."""

    job: int


class CreateWish(Wish, frozen=True):
    """create_job.  `files` are those that the job file names, `dialect` what it is read as."""

    jobfile: str | None = None
    files: dict[str, str] = {}
    dialect: str | None = None
    lenient: bool = False
    terms: dict[str, Any] = {}
    tasks: list[dict[str, Any]] = []
    strict: bool = False
    awareness: str = "warn"


class SubmitWish(CreateWish, frozen=True):
    """submit_job and check_job: an id that was created, or a description."""

    job: int | None = None


class AddTasksWish(JobWish, frozen=True):
    """add_tasks."""

    tasks: list[dict[str, Any]]


class ModifyWish(JobWish, frozen=True):
    """modify_job."""

    terms: dict[str, Any]


class ProgressWish(JobWish, frozen=True):
    """set_progress."""

    percent: int | None = None
    message: str | None = None


class StopWish(JobWish, frozen=True):
    """cancel_job and finish_job."""

    message: str = ""
    force: bool = False
    graceful: bool = False


class GroupWish(Wish, frozen=True):
    """group.  `owner` None means the asker, * everybody."""

    group: str
    owner: str | None = None


class StopGroupWish(GroupWish, frozen=True):
    """cancel_group and finish_group."""

    message: str = ""
    force: bool = False
    graceful: bool = False


class HoldWish(JobWish, frozen=True):
    """hold_job.  `name` is that of the hold."""

    name: str = DEFAULT_HOLD
    message: str = ""


class ReleaseWish(JobWish, frozen=True):
    """release_job.  With `all` every hold, else that of the name."""

    name: str = DEFAULT_HOLD
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

    owner: str | None = None
    states: list[str] = []
    before: int | None = None
    limit: int = 100
    group: str | None = None
    name: str = ""
    project: str = ""
    since: float | None = None
    until: float | None = None


class TasksWish(JobWish, frozen=True):
    """tasks."""

    after: int = 0
    limit: int = 1000
    states: list[str] = []
    expand: int | None = None


class TaskWish(JobWish, frozen=True):
    """task, output, requeue_task."""

    task: int
    instance: int | None = None


class StopTaskWish(TaskWish, frozen=True):
    """cancel_task."""

    message: str = ""
    force: bool = False


class HistoryWish(JobWish, frozen=True):
    """history."""

    limit: int = 200


class PastWish(Wish, frozen=True):
    """past_jobs."""

    after: int = 0
    limit: int = 1000
    since: float | None = None
    until: float | None = None


class PredictionsWish(Wish, frozen=True):
    """predictions."""

    since: float | None = None


class ExportWish(JobWish, frozen=True):
    """export_job."""

    dialect: str | None = None


class RunEverywhereWish(Wish, frozen=True):
    """run_everywhere.  Nodes that all of `nodes` (a set), `groups`, `states`, `job` and `task` mean.

    `timeout` in seconds, on each node; None: as long as it takes.  `user` None means the asker.
    """

    command: str
    nodes: str = ""
    groups: list[str] = []
    states: list[str] = []
    job: int | None = None
    task: int | None = None
    exclude: str = ""
    user: str | None = None
    work_directory: str = ""
    environment: dict[str, str] = {}
    timeout: float | None = None


class RunHereWish(Wish, frozen=True):
    """run_here: the part of `run` on one of its nodes."""

    run: int
    node: str


class ShellWish(JobWish, frozen=True):
    """shell.  Without `rows` and `columns` there is no terminal; `kind` is its TERM."""

    command: str = ""
    rows: int = 0
    columns: int = 0
    kind: str = ""


class WatchWish(Wish, frozen=True):
    """watch_job.  `stalled`: watch no longer when nothing more happens by itself."""

    job: int | list[int]
    stalled: bool = False


class NodesWish(Wish, frozen=True):
    """nodes."""

    states: list[str] = []


class NodeWish(Wish, frozen=True):
    """node, approve_node, pause_node, resume_node, remove_node."""

    node: str


class DrainWish(Wish, frozen=True):
    """drain_node.  `closes` in seconds since 1970; None: now.  `force`: what runs there is stopped."""

    node: str
    closes: float | None = None
    reason: str = ""
    force: bool = False


class ReservationWish(Wish, frozen=True):
    """reservation, cancel_reservation."""

    name: str


class SetReservationWish(ReservationWish, frozen=True):
    """make_reservation and change_reservation, where what is left out stays as it is.

    `begins` and `ends` in seconds since 1970, `lasts` in seconds in place of the end; `nodes` are names and
    sets of them, or `count` of any in all of the groups and with all of the features.
    """

    begins: float | None = None
    ends: float | None = None
    lasts: float | None = None
    nodes: str | None = None
    count: int | None = None
    node_groups: list[str] | None = None
    features: list[str] | None = None
    users: list[str] | None = None
    groups: list[str] | None = None
    projects: list[str] | None = None
    at_end: AtEnd | None = None
    automatic: bool | None = None
    reason: str | None = None
    ignore_running: bool = False


class InviteWish(Wish, frozen=True):
    """invite_node.  `lifetime` in seconds."""

    lifetime: float = 86400.0
    approve: bool = False
    node: str = ""


class SetNodeWish(Wish, frozen=True):
    """set_node.  What is left out stays as it is."""

    node: str
    groups: list[str] | None = None
    features: list[str] | None = None
    comment: str | None = None


class TemplateNameWish(Wish, frozen=True):
    """remove_template."""

    template: str


class TemplateWish(TemplateNameWish, frozen=True):
    """template.  `form` of its file: toml, or hpcpack."""

    form: str = "toml"


class TestFilterWish(Wish, frozen=True):
    """test_filter.  `filter` is the name of a registered one, or its text; `dialect` that of the job file."""

    __test__ = False  # pytest takes what is called Test... for tests

    filter: str
    jobfile: str
    kind: str = ""
    dialect: str | None = None
    running: bool = False
    backfill: bool = False
    resources: int = 1


class SetTemplateWish(Wish, frozen=True):
    """set_template.  `text` of its file."""

    text: str


class NewTokenWish(Wish, frozen=True):
    """new_token.  `lifetime` of the token, in seconds."""

    user: str = ""
    lifetime: float = 90 * 86400.0


class TakeLoginWish(Wish, frozen=True):
    """take_login: what a client without a token begins with."""

    secret: str


class SpeakForTaskWish(JobWish, frozen=True):
    """speak_for_task: the attempt of whose user a node passes on the requests."""

    task: int
    instance: int
    attempt: int


class TokenWish(Wish, frozen=True):
    """log_in: what a client of another machine begins with."""

    token: str


class TokensWish(Wish, frozen=True):
    """tokens.  `user` None means the asker, * everybody."""

    user: str | None = None


class RevokeTokenWish(Wish, frozen=True):
    """revoke_token."""

    token: int


class AuditWish(Wish, frozen=True):
    """audit.  `since` in seconds since 1970."""

    job: int | None = None
    user: str = ""
    since: float | None = None
    limit: int = 1000


class ParamsWish(Wish, frozen=True):
    """set_params."""

    values: dict[str, str | None]


class ParamsHistoryWish(Wish, frozen=True):
    """params_history."""

    names: list[str] = []
    limit: int = 1000


class DownWish(Wish, frozen=True):
    """down."""

    cancel_jobs: bool = False
