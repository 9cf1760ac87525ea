"""The REST API, version 1: which method and path carries out which verb, with which request and answer.

Handlers, the OpenAPI document, its page and the HTTP side of the SDK are made from this table.
Source:  docs/contracts/05-rest-api.md.
"""

from collections.abc import Mapping
from typing import Final

from headnode.protocol import answers as a
from headnode.protocol import cluster_answers as c
from headnode.protocol import event_answers as v
from headnode.protocol import explanations as w
from headnode.protocol import job_answers as e
from headnode.protocol import node_answers as n
from headnode.protocol import recurring_answers as q
from headnode.protocol import requests as r
from headnode.protocol import resource_answers as x
from headnode.protocol import stream_frames as f
from headnode.protocol import user_answers as u
from headnode.protocol.rest_route import RestBody, RestForm, RestRoute, delete, get, lines, patch, post, put

PREFIX: Final = "/api/v1"

_JOB, _TASK, _NODE = "/jobs/{job}", "/jobs/{job}/tasks/{task}", "/nodes/{node}"
_RECURRING: Final = "/recurring-jobs/{recurring}"
_RESERVATION, _TEMPLATE, _GROUP = "/reservations/{name}", "/templates/{template}", "/groups/{group}"
_ELASTIC = "/elastic-pools/{name}"


_JOBS: Final = (
    get("/jobs", "jobs", r.ListJobsRequest, a.JobsAnswer, "List jobs, newest first"),
    post(
        "/jobs",
        "submit_job",
        r.SubmitJobRequest,
        a.SubmitAnswer,
        "Submit jobs",
        body=RestBody.JOB_FILE,
        needs_body=True,
        status=201,
    ),
    post(
        "/job-submissions",
        "submit_jobs",
        r.SubmitJobsRequest,
        e.SubmitJobsAnswer,
        "Submit many jobs; each is accepted or refused by itself",
    ),
    post(
        "/created-jobs",
        "create_job",
        r.CreateJobRequest,
        a.SubmitAnswer,
        "Create jobs, without submitting them",
        body=RestBody.JOB_FILE,
        status=201,
    ),
    post(
        "/job-checks",
        "check_job",
        r.SubmitJobRequest,
        w.CheckAnswer,
        "Show the result of a submission; nothing is created",
        body=RestBody.JOB_FILE,
        needs_body=True,
    ),
    lines(
        "/job-updates", "watch_jobs", r.WatchJobsRequest, a.WatchAnswer, "Follow jobs until they have ended"
    ),
    get("/queue", "queue", c.QueueRequest, c.QueueAnswer, "List the waiting jobs in queue order"),
    get("/ended-jobs", "ended_jobs", r.PastJobsRequest, c.PastJobsAnswer, "List ended jobs by id"),
    get("/job-efficiency", "job_efficiency", e.EfficiencyRequest, e.EfficiencyAnswer, "Show used shares"),
    get(_JOB, "job", r.JobIdRequest, a.JobAnswer, "Show a job"),
    patch(_JOB, "modify_job", r.ModifyJobRequest, a.ModifiedJob, "Change options of a job", guard=_JOB),
    post(
        f"{_JOB}/submit", "submit_job", r.SubmitJobRequest, a.SubmitAnswer, "Submit a created job", guard=_JOB
    ),
    post(
        f"{_JOB}/check",
        "check_job",
        r.SubmitJobRequest,
        w.CheckAnswer,
        "Show what submitting a created job would do",
    ),
    post(f"{_JOB}/cancel", "cancel_job", r.StopJobRequest, a.JobStateAnswer, "Cancel a job"),
    post(f"{_JOB}/finish", "finish_job", r.StopJobRequest, a.JobStateAnswer, "Finish a job"),
    post(f"{_JOB}/requeue", "requeue_job", r.JobIdRequest, a.RequeuedJob, "Run a job again"),
    post(f"{_JOB}/refund", "refund_job", r.JobIdRequest, c.RefundAnswer, "Refund what a job was charged"),
    post(f"{_JOB}/clone", "clone_job", r.JobIdRequest, a.SubmitAnswer, "Copy a job", status=201),
    post(f"{_JOB}/suspend", "suspend_job", r.JobIdRequest, a.JobStateAnswer, "Suspend a job"),
    post(f"{_JOB}/resume", "resume_job", r.JobIdRequest, a.JobStateAnswer, "Resume a job"),
    post(f"{_JOB}/signal", "signal_job", e.SignalJobRequest, e.SignalJobAnswer, "Send a signal"),
    post(f"{_JOB}/hold", "hold_job", e.HoldJobRequest, e.HoldsAnswer, "Hold a job"),
    post(f"{_JOB}/release", "release_job", e.ReleaseJobRequest, e.HoldsAnswer, "Release holds"),
    put(f"{_JOB}/progress", "set_progress", r.SetProgressRequest, a.JobIdAnswer, "Set the progress"),
    get(f"{_JOB}/usage", "job_usage", r.JobIdRequest, e.JobUsageAnswer, "Measure its running tasks"),
    get(f"{_JOB}/history", "job_history", r.JobHistoryRequest, a.HistoryAnswer, "Show what happened"),
    get(f"{_JOB}/states", "job_states", v.JobStatesRequest, v.JobStatesAnswer, "Show each state and why"),
    get(f"{_JOB}/explanation", "explain_job", r.JobIdRequest, w.Explanation, "Show why and when"),
    put(
        f"{_JOB}/file",
        "replace_job",
        r.ReplaceJobRequest,
        e.ReplacedJob,
        "Describe a created job anew",
        body=RestBody.JOB_FILE,
        guard=_JOB,
    ),
    get(f"{_JOB}/file", "export_job", r.ExportJobRequest, a.JobFileAnswer, "Write the job as a job file"),
)

_TASKS: Final = (
    get(f"{_JOB}/tasks", "tasks", r.ListTasksRequest, e.TasksAnswer, "List the tasks of a job"),
    post(
        f"{_JOB}/tasks",
        "add_tasks",
        r.AddTasksRequest,
        a.AddTasksAnswer,
        "Add tasks",
        body=RestBody.JOB_FILE,
        status=201,
    ),
    get(_TASK, "task", r.TaskIdRequest, e.TaskAnswer, "Show a task, or one instance of it"),
    patch(_TASK, "modify_task", r.ModifyTaskRequest, e.ModifiedTask, "Change a task", guard=_TASK),
    get(
        "/jobs/{job}/tasks/{expand}/instances",
        "tasks",
        r.ListTasksRequest,
        e.TasksAnswer,
        "List the instances of a task",
    ),
    get(
        f"{_TASK}/counts",
        "instance_counts",
        e.InstanceCountsRequest,
        e.InstanceCountsAnswer,
        "Count the instances of a task by part and state",
    ),
    post(f"{_TASK}/cancel", "cancel_task", r.StopTaskRequest, e.TaskStateAnswer, "Cancel a task"),
    post(f"{_TASK}/finish", "finish_task", r.StopTaskRequest, e.TaskStateAnswer, "Finish a task"),
    post(f"{_TASK}/requeue", "requeue_task", r.TaskIdRequest, e.TaskStateAnswer, "Run a task again"),
    post(f"{_TASK}/hold", "hold_task", r.HoldTaskRequest, e.TaskStateAnswer, "Hold instances of a task"),
    post(f"{_TASK}/release", "release_task", r.TaskIdRequest, e.TaskStateAnswer, "Release held instances"),
    get(f"{_TASK}/output", "task_output", r.TaskIdRequest, e.OutputAnswer, "Show where its output is"),
    get(
        f"{_TASK}/output/{{stream}}",
        "read_output",
        r.ReadOutputRequest,
        e.OutputBytesAnswer,
        "Read output: captured, standard_output or standard_error",
        form=RestForm.BYTES,
    ),
    get(_GROUP, "group", r.GroupNameRequest, a.GroupObject, "Show a job group"),
    post(f"{_GROUP}/submit", "submit_group", r.GroupNameRequest, a.SubmittedGroup, "Submit a group"),
    post(f"{_GROUP}/cancel", "cancel_group", r.StopGroupRequest, a.StoppedGroup, "Cancel a group"),
    post(f"{_GROUP}/finish", "finish_group", r.StopGroupRequest, a.StoppedGroup, "Finish a group"),
)

_NODES: Final = (
    get("/nodes", "nodes", r.ListNodesRequest, n.NodesAnswer, "List the nodes"),
    get(_NODE, "node", r.NodeNameRequest, n.NodeAnswer, "Show a node"),
    patch(
        _NODE,
        "modify_node",
        r.SetNodeRequest,
        n.NodeAnswer,
        "Set groups, features and comment of a node",
        guard=_NODE,
    ),
    delete(_NODE, "remove_node", r.NodeNameRequest, c.RemovedAnswer, "Remove a node", guard=_NODE),
    get(f"{_NODE}/history", "node_history", r.NodeHistoryRequest, a.HistoryAnswer, "Show what happened"),
    post(f"{_NODE}/approve", "approve_node", r.NodeNameRequest, n.NodeAnswer, "Approve"),
    post(f"{_NODE}/pause", "pause_node", r.NodeNameRequest, n.NodeAnswer, "Pause a node"),
    post(f"{_NODE}/resume", "resume_node", r.NodeNameRequest, n.NodeAnswer, "Resume"),
    post(f"{_NODE}/drain", "drain_node", r.DrainNodeRequest, n.NodeAnswer, "Drain a node"),
    post(
        "/node-commands",
        "run_on_nodes",
        f.RunOnNodesRequest,
        f.NodeCommandLine,
        "Run a command on many nodes; the run lasts until the client disconnects",
        form=RestForm.LINES,
    ),
    post(
        "/node-invitations",
        "invite_node",
        r.InviteNodeRequest,
        n.InvitationAnswer,
        "Make an invitation for a node",
        status=201,
    ),
    get("/standbys", "standbys", r.VerbRequest, n.StandbysAnswer, "List the standby heads"),
    delete("/standbys/{name}", "remove_standby", n.StandbyNameRequest, c.RemovedAnswer, "Remove one"),
    get("/reservations", "reservations", r.VerbRequest, n.ReservationsAnswer, "List the reservations"),
    post(
        "/reservations",
        "create_reservation",
        r.SetReservationRequest,
        n.ChangedReservation,
        "Reserve nodes",
        status=201,
    ),
    get(_RESERVATION, "reservation", r.ReservationNameRequest, n.ReservationAnswer, "Show a reservation"),
    patch(
        _RESERVATION,
        "modify_reservation",
        r.SetReservationRequest,
        n.ChangedReservation,
        "Change a reservation",
        guard=_RESERVATION,
    ),
    delete(
        _RESERVATION,
        "cancel_reservation",
        r.ReservationNameRequest,
        n.CanceledReservation,
        "Cancel a reservation",
        guard=_RESERVATION,
    ),
)

_CLUSTER: Final = (
    get("/templates", "templates", r.VerbRequest, c.TemplatesAnswer, "List the job templates"),
    post(
        "/templates",
        "set_template",
        r.SetTemplateRequest,
        c.StoredTemplate,
        "Create or replace a job template",
        body=RestBody.TEXT,
    ),
    get(_TEMPLATE, "template", r.ShowTemplateRequest, c.TemplateAnswer, "Show a job template"),
    delete(
        _TEMPLATE,
        "remove_template",
        r.TemplateNameRequest,
        c.RemovedAnswer,
        "Remove a job template",
        guard=_TEMPLATE,
    ),
    get("/resources", "resources", r.VerbRequest, x.ResourcesAnswer, "List the resources"),
    post("/resources", "set_resource", x.SetResourceRequest, x.ResourceAnswer, "Add or change a resource"),
    get("/resources/{name}", "resource", x.ResourceNameRequest, x.ResourceAnswer, "Show a resource"),
    delete(
        "/resources/{name}",
        "remove_resource",
        x.ResourceNameRequest,
        c.RemovedAnswer,
        "Remove a resource",
    ),
    get("/site/jobs", "site_jobs", x.SiteJobsRequest, x.SiteJobsAnswer, "List the jobs of the site"),
    get("/site/nodes", "site_nodes", r.VerbRequest, x.SiteNodesAnswer, "List the nodes of the site"),
    get("/elastic-pools", "elastic_pools", r.VerbRequest, x.ElasticPoolsAnswer, "List the elastic pools"),
    post(
        "/elastic-pools",
        "set_elastic_pool",
        x.SetElasticRequest,
        x.ElasticPoolAnswer,
        "Add or change an elastic pool",
    ),
    get(_ELASTIC, "elastic_pool", x.ElasticNameRequest, x.ElasticPoolAnswer, "Show an elastic pool"),
    post(
        f"{_ELASTIC}/pause",
        "pause_elastic_pool",
        x.PauseElasticRequest,
        x.ElasticPoolAnswer,
        "Pause an elastic pool",
    ),
    post(
        f"{_ELASTIC}/resume",
        "resume_elastic_pool",
        x.ElasticNameRequest,
        x.ElasticPoolAnswer,
        "Resume an elastic pool",
    ),
    delete(_ELASTIC, "remove_elastic_pool", x.ElasticNameRequest, c.RemovedAnswer, "Remove an elastic pool"),
    get("/filters", "filters", r.VerbRequest, c.FiltersAnswer, "List the filters and plug-ins"),
    post("/filter-tests", "test_filter", r.TestFilterRequest, c.FilterTrial, "Try a filter"),
    get("/cluster", "cluster", r.VerbRequest, c.ClusterAnswer, "Show the cluster"),
    post("/cluster/stop", "stop_head", r.StopHeadRequest, c.DownAnswer, "End the head"),
    get("/ping", "ping", r.VerbRequest, c.PingAnswer, "Show which head answers"),
    get("/defaults", "submission_defaults", r.VerbRequest, c.DefaultsAnswer, "Show the defaults of jobs"),
    get("/parameters", "parameters", r.VerbRequest, c.ParametersAnswer, "List the cluster parameters"),
    get("/limits", "limits", u.ListLimitsRequest, u.LimitsAnswer, "List limits, with what is in use"),
    get("/shares", "shares", u.ListSharesRequest, u.SharesAnswer, "List shares, with what is used of them"),
    get("/priorities", "priorities", u.ListPrioritiesRequest, u.PrioritiesAnswer, "List what orders jobs"),
    patch(
        "/parameters",
        "set_parameters",
        r.SetParametersRequest,
        c.ParametersAnswer,
        "Set cluster parameters, all or none",
        guard="/parameters",
    ),
    get(
        "/parameters/history",
        "parameter_history",
        r.ParameterHistoryRequest,
        c.ParameterHistoryAnswer,
        "Show changes of cluster parameters",
    ),
    get(
        "/predictions",
        "predictions",
        r.PredictionScoresRequest,
        c.PredictionsAnswer,
        "Show how often predicted starts held",
    ),
    get("/events", "events", v.EventsRequest, v.EventsAnswer, "List events, oldest first"),
    get(
        "/event-updates",
        "watch_events",
        v.EventsRequest,
        v.EventsAnswer,
        "Follow events as they happen",
        form=RestForm.LINES,
    ),
    get("/metrics", "metrics", r.VerbRequest, c.MetricsAnswer, "Show counts, counters and durations"),
    get("/whoami", "whoami", r.VerbRequest, u.RequestingUser, "Show the requesting user"),
    get("/tokens", "tokens", r.ListTokensRequest, u.TokensAnswer, "List tokens"),
    delete("/tokens/{token}", "revoke_token", r.RevokeTokenRequest, u.RevokedToken, "Revoke a token"),
    get("/audit", "audit_log", r.AuditLogRequest, u.AuditAnswer, "Show the audit log"),
)

_RECURRING_JOBS: Final = (
    get("/recurring-jobs", "recurring_jobs", q.ListRecurringRequest, q.RecurringJobsAnswer, "List them"),
    post(
        "/recurring-jobs",
        "create_recurring_job",
        q.CreateRecurringRequest,
        q.ChangedRecurringJob,
        "Create a recurring job",
        body=RestBody.JOB_FILE,
        needs_body=True,
        status=201,
    ),
    get(_RECURRING, "recurring_job", q.RecurringNameRequest, q.RecurringJobAnswer, "Show a recurring job"),
    patch(
        _RECURRING,
        "modify_recurring_job",
        q.ModifyRecurringRequest,
        q.ChangedRecurringJob,
        "Change a recurring job",
    ),
    delete(_RECURRING, "remove_recurring_job", q.RecurringNameRequest, q.RecurringJobRemoval, "Remove one"),
    post(
        f"{_RECURRING}/suspend",
        "suspend_recurring_job",
        q.RecurringNameRequest,
        q.RecurringJobAnswer,
        "Suspend a recurring job",
    ),
    post(
        f"{_RECURRING}/resume",
        "resume_recurring_job",
        q.RecurringNameRequest,
        q.RecurringJobAnswer,
        "Resume a recurring job",
    ),
    post(
        f"{_RECURRING}/run",
        "run_recurring_job",
        q.RecurringNameRequest,
        q.RecurringJobRunAnswer,
        "Make a job of it now",
        status=201,
    ),
    get(
        "/recurring-table", "recurring_table", q.RecurringTableRequest, q.RecurringTableAnswer, "Show a table"
    ),
    put(
        "/recurring-table",
        "set_recurring_table",
        q.SetRecurringTableRequest,
        q.RecurringTableAnswer,
        "Replace the table of a user",
        body=RestBody.TEXT,
    ),
)

ROUTES: Final[tuple[RestRoute, ...]] = (*_JOBS, *_TASKS, *_NODES, *_RECURRING_JOBS, *_CLUSTER)
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
