"""The REST API, version 1: which method and path carries out which verb, with which request and answer.

Handlers, the OpenAPI document, its page and the HTTP side of the SDK are made from this table.
Source:  docs/contracts/05-rest-api.md.
"""

from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple

from headnode.protocol import answers as a
from headnode.protocol import cluster_answers as c
from headnode.protocol import event_answers as v
from headnode.protocol import explanations as w
from headnode.protocol import job_answers as e
from headnode.protocol import node_answers as n
from headnode.protocol import requests as r
from headnode.protocol import resource_answers as x
from headnode.protocol import stream_frames as f
from headnode.protocol import user_answers as u

PREFIX: Final = "/api/v1"


class RestBody(Enum):
    """Where the fields of a request come from that are not in the path."""

    QUERY = auto()  # a parameter of the query for each
    FIELDS = auto()  # one JSON object
    JOB_FILE = auto()  # one JSON object; or a job file, and the other fields in the query
    TEXT = auto()  # one JSON object; or the field `text` as plain text


class RestForm(Enum):
    """The form of an answer."""

    OBJECT = auto()  # one JSON object
    LINES = auto()  # a JSON object on each line, as they come
    BYTES = auto()  # the bytes of a file, parts of it by Range; or the JSON object of the verb, by Accept


class RestRoute(NamedTuple):
    """One method of one path.

    `fields` are set by the route itself; `guard` is the path of the GET route whose entity tag `If-Match`
    is compared with: "" if the route takes none; `needs_body`: a request without a body is refused.
    """

    method: str
    path: str  # below PREFIX; names in braces are fields of the request
    verb: str
    request: type[r.VerbRequest]
    answer: Any
    summary: str
    body: RestBody = RestBody.QUERY
    form: RestForm = RestForm.OBJECT
    status: int = 200
    fields: Mapping[str, Any] = {}
    guard: str = ""
    needs_body: bool = False

    @property
    def name(self) -> str:
        """The operation id: a name that is no other route's."""
        return _NAMES.get((self.method, self.path), self.verb)


_JOB, _TASK, _NODE = "/jobs/{job}", "/jobs/{job}/tasks/{task}", "/nodes/{node}"
_RESERVATION, _TEMPLATE, _GROUP = "/reservations/{name}", "/templates/{template}", "/groups/{group}"
_ELASTIC = "/elastic-pools/{name}"

_NAMES: Final[Mapping[tuple[str, str], str]] = {
    ("POST", f"{_JOB}/submit"): "submit_created_job",
    ("POST", f"{_JOB}/check"): "check_created_job",
    ("GET", "/jobs/{job}/tasks/{expand}/instances"): "instances",
}


_get, _delete = partial(RestRoute, "GET"), partial(RestRoute, "DELETE")
_lines = partial(RestRoute, "GET", form=RestForm.LINES)
_post = partial(RestRoute, "POST", body=RestBody.FIELDS)
_put = partial(RestRoute, "PUT", body=RestBody.FIELDS)
_patch = partial(RestRoute, "PATCH", body=RestBody.FIELDS)

_JOBS: Final = (
    _get("/jobs", "jobs", r.ListJobsRequest, a.JobsAnswer, "List jobs, newest first"),
    _post(
        "/jobs",
        "submit_job",
        r.SubmitJobRequest,
        a.SubmitAnswer,
        "Submit jobs",
        body=RestBody.JOB_FILE,
        needs_body=True,
        status=201,
    ),
    _post(
        "/job-submissions",
        "submit_jobs",
        r.SubmitJobsRequest,
        e.SubmitJobsAnswer,
        "Submit many jobs; each is accepted or refused by itself",
    ),
    _post(
        "/created-jobs",
        "create_job",
        r.CreateJobRequest,
        a.SubmitAnswer,
        "Create jobs, without submitting them",
        body=RestBody.JOB_FILE,
        status=201,
    ),
    _post(
        "/job-checks",
        "check_job",
        r.SubmitJobRequest,
        w.CheckAnswer,
        "Show the result of a submission; nothing is created",
        body=RestBody.JOB_FILE,
        needs_body=True,
    ),
    _lines(
        "/job-updates", "watch_jobs", r.WatchJobsRequest, a.WatchAnswer, "Follow jobs until they have ended"
    ),
    _get("/queue", "queue", c.QueueRequest, c.QueueAnswer, "List the waiting jobs in queue order"),
    _get("/ended-jobs", "ended_jobs", r.PastJobsRequest, c.PastJobsAnswer, "List ended jobs by id"),
    _get("/job-efficiency", "job_efficiency", e.EfficiencyRequest, e.EfficiencyAnswer, "Show used shares"),
    _get(_JOB, "job", r.JobIdRequest, a.JobAnswer, "Show a job"),
    _patch(_JOB, "modify_job", r.ModifyJobRequest, a.ModifiedJob, "Change options of a job", guard=_JOB),
    _post(
        f"{_JOB}/submit", "submit_job", r.SubmitJobRequest, a.SubmitAnswer, "Submit a created job", guard=_JOB
    ),
    _post(
        f"{_JOB}/check",
        "check_job",
        r.SubmitJobRequest,
        w.CheckAnswer,
        "Show what submitting a created job would do",
    ),
    _post(f"{_JOB}/cancel", "cancel_job", r.StopJobRequest, a.JobStateAnswer, "Cancel a job"),
    _post(f"{_JOB}/finish", "finish_job", r.StopJobRequest, a.JobStateAnswer, "Finish a job"),
    _post(f"{_JOB}/requeue", "requeue_job", r.JobIdRequest, a.RequeuedJob, "Run a job again"),
    _post(f"{_JOB}/refund", "refund_job", r.JobIdRequest, c.RefundAnswer, "Refund what a job was charged"),
    _post(f"{_JOB}/clone", "clone_job", r.JobIdRequest, a.SubmitAnswer, "Copy a job", status=201),
    _post(f"{_JOB}/suspend", "suspend_job", r.JobIdRequest, a.JobStateAnswer, "Suspend a job"),
    _post(f"{_JOB}/resume", "resume_job", r.JobIdRequest, a.JobStateAnswer, "Resume a job"),
    _post(f"{_JOB}/signal", "signal_job", e.SignalJobRequest, e.SignalJobAnswer, "Send a signal"),
    _post(f"{_JOB}/hold", "hold_job", e.HoldJobRequest, e.HoldsAnswer, "Hold a job"),
    _post(f"{_JOB}/release", "release_job", e.ReleaseJobRequest, e.HoldsAnswer, "Release holds"),
    _put(f"{_JOB}/progress", "set_progress", r.SetProgressRequest, a.JobIdAnswer, "Set the progress"),
    _get(f"{_JOB}/usage", "job_usage", r.JobIdRequest, e.JobUsageAnswer, "Measure its running tasks"),
    _get(f"{_JOB}/history", "job_history", r.JobHistoryRequest, a.HistoryAnswer, "Show what happened"),
    _get(f"{_JOB}/states", "job_states", v.JobStatesRequest, v.JobStatesAnswer, "Show each state and why"),
    _get(f"{_JOB}/explanation", "explain_job", r.JobIdRequest, w.Explanation, "Show why and when"),
    _put(
        f"{_JOB}/file",
        "replace_job",
        r.ReplaceJobRequest,
        e.ReplacedJob,
        "Describe a created job anew",
        body=RestBody.JOB_FILE,
        guard=_JOB,
    ),
    _get(f"{_JOB}/file", "export_job", r.ExportJobRequest, a.JobFileAnswer, "Write the job as a job file"),
)

_TASKS: Final = (
    _get(f"{_JOB}/tasks", "tasks", r.ListTasksRequest, e.TasksAnswer, "List the tasks of a job"),
    _post(
        f"{_JOB}/tasks",
        "add_tasks",
        r.AddTasksRequest,
        a.AddTasksAnswer,
        "Add tasks",
        body=RestBody.JOB_FILE,
        status=201,
    ),
    _get(_TASK, "task", r.TaskIdRequest, e.TaskAnswer, "Show a task, or one instance of it"),
    _patch(_TASK, "modify_task", r.ModifyTaskRequest, e.ModifiedTask, "Change a task", guard=_TASK),
    _get(
        "/jobs/{job}/tasks/{expand}/instances",
        "tasks",
        r.ListTasksRequest,
        e.TasksAnswer,
        "List the instances of a task",
    ),
    _get(
        f"{_TASK}/counts",
        "instance_counts",
        e.InstanceCountsRequest,
        e.InstanceCountsAnswer,
        "Count the instances of a task by part and state",
    ),
    _post(f"{_TASK}/cancel", "cancel_task", r.StopTaskRequest, e.TaskStateAnswer, "Cancel a task"),
    _post(f"{_TASK}/finish", "finish_task", r.StopTaskRequest, e.TaskStateAnswer, "Finish a task"),
    _post(f"{_TASK}/requeue", "requeue_task", r.TaskIdRequest, e.TaskStateAnswer, "Run a task again"),
    _get(f"{_TASK}/output", "task_output", r.TaskIdRequest, e.OutputAnswer, "Show where its output is"),
    _get(
        f"{_TASK}/output/{{stream}}",
        "read_output",
        r.ReadOutputRequest,
        e.OutputBytesAnswer,
        "Read output: captured, standard_output or standard_error",
        form=RestForm.BYTES,
    ),
    _get(_GROUP, "group", r.GroupNameRequest, a.GroupObject, "Show a job group"),
    _post(f"{_GROUP}/submit", "submit_group", r.GroupNameRequest, a.SubmittedGroup, "Submit a group"),
    _post(f"{_GROUP}/cancel", "cancel_group", r.StopGroupRequest, a.StoppedGroup, "Cancel a group"),
    _post(f"{_GROUP}/finish", "finish_group", r.StopGroupRequest, a.StoppedGroup, "Finish a group"),
)

_NODES: Final = (
    _get("/nodes", "nodes", r.ListNodesRequest, n.NodesAnswer, "List the nodes"),
    _get(_NODE, "node", r.NodeNameRequest, n.NodeAnswer, "Show a node"),
    _patch(
        _NODE,
        "modify_node",
        r.SetNodeRequest,
        n.NodeAnswer,
        "Set groups, features and comment of a node",
        guard=_NODE,
    ),
    _delete(_NODE, "remove_node", r.NodeNameRequest, c.RemovedAnswer, "Remove a node", guard=_NODE),
    _get(f"{_NODE}/history", "node_history", r.NodeHistoryRequest, a.HistoryAnswer, "Show what happened"),
    _post(f"{_NODE}/approve", "approve_node", r.NodeNameRequest, n.NodeAnswer, "Approve"),
    _post(f"{_NODE}/pause", "pause_node", r.NodeNameRequest, n.NodeAnswer, "Pause a node"),
    _post(f"{_NODE}/resume", "resume_node", r.NodeNameRequest, n.NodeAnswer, "Resume"),
    _post(f"{_NODE}/drain", "drain_node", r.DrainNodeRequest, n.NodeAnswer, "Drain a node"),
    _post(
        "/node-commands",
        "run_on_nodes",
        f.RunOnNodesRequest,
        f.NodeCommandLine,
        "Run a command on many nodes; the run lasts until the client disconnects",
        form=RestForm.LINES,
    ),
    _post(
        "/node-invitations",
        "invite_node",
        r.InviteNodeRequest,
        n.InvitationAnswer,
        "Make an invitation for a node",
        status=201,
    ),
    _get("/standbys", "standbys", r.VerbRequest, n.StandbysAnswer, "List the standby heads"),
    _delete("/standbys/{name}", "remove_standby", n.StandbyNameRequest, c.RemovedAnswer, "Remove one"),
    _get("/reservations", "reservations", r.VerbRequest, n.ReservationsAnswer, "List the reservations"),
    _post(
        "/reservations",
        "create_reservation",
        r.SetReservationRequest,
        n.ChangedReservation,
        "Reserve nodes",
        status=201,
    ),
    _get(_RESERVATION, "reservation", r.ReservationNameRequest, n.ReservationAnswer, "Show a reservation"),
    _patch(
        _RESERVATION,
        "modify_reservation",
        r.SetReservationRequest,
        n.ChangedReservation,
        "Change a reservation",
        guard=_RESERVATION,
    ),
    _delete(
        _RESERVATION,
        "cancel_reservation",
        r.ReservationNameRequest,
        n.CanceledReservation,
        "Cancel a reservation",
        guard=_RESERVATION,
    ),
)

_CLUSTER: Final = (
    _get("/templates", "templates", r.VerbRequest, c.TemplatesAnswer, "List the job templates"),
    _post(
        "/templates",
        "set_template",
        r.SetTemplateRequest,
        c.StoredTemplate,
        "Create or replace a job template",
        body=RestBody.TEXT,
    ),
    _get(_TEMPLATE, "template", r.ShowTemplateRequest, c.TemplateAnswer, "Show a job template"),
    _delete(
        _TEMPLATE,
        "remove_template",
        r.TemplateNameRequest,
        c.RemovedAnswer,
        "Remove a job template",
        guard=_TEMPLATE,
    ),
    _get("/resources", "resources", r.VerbRequest, x.ResourcesAnswer, "List the resources"),
    _post("/resources", "set_resource", x.SetResourceRequest, x.ResourceAnswer, "Add or change a resource"),
    _get("/resources/{name}", "resource", x.ResourceNameRequest, x.ResourceAnswer, "Show a resource"),
    _delete(
        "/resources/{name}",
        "remove_resource",
        x.ResourceNameRequest,
        c.RemovedAnswer,
        "Remove a resource",
    ),
    _get("/site/jobs", "site_jobs", x.SiteJobsRequest, x.SiteJobsAnswer, "List the jobs of the site"),
    _get("/site/nodes", "site_nodes", r.VerbRequest, x.SiteNodesAnswer, "List the nodes of the site"),
    _get("/elastic-pools", "elastic_pools", r.VerbRequest, x.ElasticPoolsAnswer, "List the elastic pools"),
    _post(
        "/elastic-pools",
        "set_elastic_pool",
        x.SetElasticRequest,
        x.ElasticPoolAnswer,
        "Add or change an elastic pool",
    ),
    _get(_ELASTIC, "elastic_pool", x.ElasticNameRequest, x.ElasticPoolAnswer, "Show an elastic pool"),
    _post(
        f"{_ELASTIC}/pause",
        "pause_elastic_pool",
        x.PauseElasticRequest,
        x.ElasticPoolAnswer,
        "Pause an elastic pool",
    ),
    _post(
        f"{_ELASTIC}/resume",
        "resume_elastic_pool",
        x.ElasticNameRequest,
        x.ElasticPoolAnswer,
        "Resume an elastic pool",
    ),
    _delete(_ELASTIC, "remove_elastic_pool", x.ElasticNameRequest, c.RemovedAnswer, "Remove an elastic pool"),
    _get("/filters", "filters", r.VerbRequest, c.FiltersAnswer, "List the filters and plug-ins"),
    _post("/filter-tests", "test_filter", r.TestFilterRequest, c.FilterTrial, "Try a filter"),
    _get("/cluster", "cluster", r.VerbRequest, c.ClusterAnswer, "Show the cluster"),
    _post("/cluster/stop", "stop_head", r.StopHeadRequest, c.DownAnswer, "End the head"),
    _get("/ping", "ping", r.VerbRequest, c.PingAnswer, "Show which head answers"),
    _get("/defaults", "submission_defaults", r.VerbRequest, c.DefaultsAnswer, "Show the defaults of jobs"),
    _get("/parameters", "parameters", r.VerbRequest, c.ParametersAnswer, "List the cluster parameters"),
    _get("/limits", "limits", u.ListLimitsRequest, u.LimitsAnswer, "List limits, with what is in use"),
    _get("/shares", "shares", u.ListSharesRequest, u.SharesAnswer, "List shares, with what is used of them"),
    _get("/priorities", "priorities", u.ListPrioritiesRequest, u.PrioritiesAnswer, "List what orders jobs"),
    _patch(
        "/parameters",
        "set_parameters",
        r.SetParametersRequest,
        c.ParametersAnswer,
        "Set cluster parameters, all or none",
        guard="/parameters",
    ),
    _get(
        "/parameters/history",
        "parameter_history",
        r.ParameterHistoryRequest,
        c.ParameterHistoryAnswer,
        "Show changes of cluster parameters",
    ),
    _get(
        "/predictions",
        "predictions",
        r.PredictionScoresRequest,
        c.PredictionsAnswer,
        "Show how often predicted starts held",
    ),
    _get("/events", "events", v.EventsRequest, v.EventsAnswer, "List events, oldest first"),
    _get(
        "/event-updates",
        "watch_events",
        v.EventsRequest,
        v.EventsAnswer,
        "Follow events as they happen",
        form=RestForm.LINES,
    ),
    _get("/metrics", "metrics", r.VerbRequest, c.MetricsAnswer, "Show counts, counters and durations"),
    _get("/whoami", "whoami", r.VerbRequest, u.RequestingUser, "Show the requesting user"),
    _get("/tokens", "tokens", r.ListTokensRequest, u.TokensAnswer, "List tokens"),
    _delete("/tokens/{token}", "revoke_token", r.RevokeTokenRequest, u.RevokedToken, "Revoke a token"),
    _get("/audit", "audit_log", r.AuditLogRequest, u.AuditAnswer, "Show the audit log"),
)

ROUTES: Final[tuple[RestRoute, ...]] = (*_JOBS, *_TASKS, *_NODES, *_CLUSTER)
"""Every route; a path without names in braces is before those with one at its place."""

NOT_BY_REST: Final[Mapping[str, str]] = {
    "run_on_node": "it is a part of run_on_nodes",
    "end_allocation": "only salloc knows how its command ended",
    "shell": "it is a WebSocket, which OpenAPI cannot describe: see the page of the REST API",
    "backup": "the copy is a file in the state directory: only on the head's machine",
    "keep_delegation": "the grid service has it: PUT /pilot/delegations/ID",
    "delegations": "the grid service has it: GET /pilot/delegations",
    "forget_delegation": "the grid service has it: DELETE /pilot/delegations/ID",
    "delegated_credential": "a secret, for the tasks of its user only",
    "invite_standby": "the invitation gives a machine the keys of the cluster: for the command line",
    "create_token": "a token makes no token: on the head's machine, or on a page of the console",
}
"""The verbs without a route, and why."""
