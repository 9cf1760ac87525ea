"""One request of a client: which verb, with which fields, by whom; and its answer."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from headnode.apps.server import (
    dry_run,
    explaining,
    verbs_access,
    verbs_cluster,
    verbs_everywhere,
    verbs_filters,
    verbs_groups,
    verbs_jobs,
    verbs_nodes,
    verbs_past,
    verbs_reservations,
    verbs_shell,
    verbs_task_changes,
    verbs_tasks,
    verbs_templates,
    verbs_waiting,
)
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.streaming import Talk
from headnode.apps.server.values import read_value
from headnode.core.formats.nearest import nearest
from headnode.core.model.bounds import NOTE
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.core.model.user import User

log = logging.getLogger("headnode.server")

Answer = dict[str, Any]
Verb = Callable[[Desk, User, Any], Awaitable[Answer]]

VERBS: Mapping[str, tuple[type[w.Wish], Verb]] = MappingProxyType(
    {
        "ping": (w.Wish, verbs_cluster.ping),
        "create_job": (w.CreateWish, verbs_jobs.create_job),
        "submit_job": (w.SubmitWish, verbs_jobs.submit_job),
        "check_job": (w.SubmitWish, dry_run.check_job),
        "add_tasks": (w.AddTasksWish, verbs_jobs.add_tasks),
        "modify_job": (w.ModifyWish, verbs_jobs.modify_job),
        "set_progress": (w.ProgressWish, verbs_jobs.set_progress),
        "cancel_job": (w.StopWish, verbs_jobs.cancel_job),
        "finish_job": (w.StopWish, verbs_jobs.finish_job),
        "requeue_job": (w.JobWish, verbs_jobs.requeue_job),
        "suspend_job": (w.JobWish, verbs_waiting.suspend_job),
        "resume_job": (w.JobWish, verbs_waiting.resume_job),
        "hold_job": (w.HoldWish, verbs_waiting.hold_job),
        "release_job": (w.ReleaseWish, verbs_waiting.release_job),
        "clone_job": (w.JobWish, verbs_jobs.clone_job),
        "job": (w.JobWish, verbs_jobs.job),
        "jobs": (w.ListWish, verbs_jobs.jobs),
        "group": (w.GroupWish, verbs_groups.group),
        "submit_group": (w.GroupWish, verbs_groups.submit_group),
        "cancel_group": (w.StopGroupWish, verbs_groups.cancel_group),
        "finish_group": (w.StopGroupWish, verbs_groups.finish_group),
        "history": (w.HistoryWish, verbs_jobs.history),
        "past_jobs": (w.PastWish, verbs_past.past_jobs),
        "predictions": (w.PredictionsWish, verbs_past.predictions),
        "explain_job": (w.JobWish, explaining.explain_job),
        "export_job": (w.ExportWish, verbs_jobs.export_job),
        "tasks": (w.TasksWish, verbs_tasks.tasks),
        "task": (w.TaskWish, verbs_tasks.task),
        "cancel_task": (w.StopTaskWish, verbs_tasks.cancel_task),
        "finish_task": (w.StopTaskWish, verbs_tasks.finish_task),
        "modify_task": (w.ModifyTaskWish, verbs_task_changes.modify_task),
        "requeue_task": (w.TaskWish, verbs_tasks.requeue_task),
        "output": (w.TaskWish, verbs_tasks.output),
        "read_output": (w.ReadOutputWish, verbs_tasks.read_output),
        "nodes": (w.NodesWish, verbs_cluster.nodes),
        "node": (w.NodeWish, verbs_cluster.node),
        "node_history": (w.NodeHistoryWish, verbs_cluster.node_history),
        "approve_node": (w.NodeWish, verbs_cluster.approve_node),
        "pause_node": (w.NodeWish, verbs_cluster.pause_node),
        "drain_node": (w.DrainWish, verbs_cluster.drain_node),
        "resume_node": (w.NodeWish, verbs_cluster.resume_node),
        "invite_node": (w.InviteWish, verbs_nodes.invite_node),
        "set_node": (w.SetNodeWish, verbs_nodes.set_node),
        "remove_node": (w.NodeWish, verbs_nodes.remove_node),
        "filters": (w.Wish, verbs_filters.filters),
        "test_filter": (w.TestFilterWish, verbs_filters.test_filter),
        "templates": (w.Wish, verbs_templates.templates),
        "template": (w.TemplateWish, verbs_templates.template),
        "set_template": (w.SetTemplateWish, verbs_templates.set_template),
        "remove_template": (w.TemplateNameWish, verbs_templates.remove_template),
        "reservations": (w.Wish, verbs_reservations.reservations),
        "reservation": (w.ReservationWish, verbs_reservations.reservation),
        "make_reservation": (w.SetReservationWish, verbs_reservations.make_reservation),
        "change_reservation": (w.SetReservationWish, verbs_reservations.change_reservation),
        "cancel_reservation": (w.ReservationWish, verbs_reservations.cancel_reservation),
        "cluster": (w.Wish, verbs_cluster.cluster),
        "params": (w.Wish, verbs_cluster.params),
        "set_params": (w.ParamsWish, verbs_cluster.set_params),
        "params_history": (w.ParamsHistoryWish, verbs_past.params_history),
        "whoami": (w.Wish, verbs_access.whoami),
        "defaults": (w.Wish, verbs_cluster.defaults),
        "new_token": (w.NewTokenWish, verbs_access.new_token),
        "tokens": (w.TokensWish, verbs_access.tokens),
        "revoke_token": (w.RevokeTokenWish, verbs_access.revoke_token),
        "audit": (w.AuditWish, verbs_access.audit),
        "backup": (w.Wish, verbs_cluster.backup),
        "down": (w.DownWish, verbs_cluster.down),
    }
)
WATCH = "watch_job"
Begin = Callable[[Desk, User, Any], Awaitable[Talk]]
STREAMING: Mapping[str, tuple[type[w.Wish], Begin]] = MappingProxyType(
    {
        "run_everywhere": (w.RunEverywhereWish, verbs_everywhere.run_everywhere),
        "run_here": (w.RunHereWish, verbs_everywhere.run_here),
        "shell": (w.ShellWish, verbs_shell.shell),
    }
)
"""Verbs that stay: once they are granted a conversation follows, and then the connection ends."""


async def begin(desk: Desk, by: User, verb: str, fields: dict[str, Any]) -> Talk:
    """Return the conversation that follows such a verb.

    Raises:  what refuses it.
    """
    kind, grant = STREAMING[verb]
    return await grant(desk, by, read_wish(kind, verb, fields))


def read_request(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the verb and its fields.

    Raises:  BadRequest ``request`` when the bytes hold no request.
    """
    request = read_value(data)
    if not isinstance(request, dict) or not isinstance(request.get("do"), str):
        raise BadRequest(code="request", what="the request names no verb", fix='send {"do": VERB, ...}')
    verb = request.pop("do")
    return verb, request


def read_wish(kind: type[w.Wish], verb: str, fields: dict[str, Any]) -> w.Wish:
    """Return the fields of a verb in their types.

    Raises:  BadRequest ``field``.
    """
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        names = ", ".join(field.name for field in msgspec.structs.fields(kind)) or "no fields"
        raise BadRequest(
            code="field", what=f"the request {verb} is wrong: {error}", fix=f"it takes {names}"
        ) from None


async def carry_out(desk: Desk, by: User, verb: str, fields: dict[str, Any]) -> Answer:
    """Return the answer to one request with a verb that there is.

    Raises:  HeadnodeError, which is an answer too: see `refusal`.
    """
    kind, do = VERBS[verb]
    return {"ok": True} | await do(desk, by, read_wish(kind, verb, fields))


def refuse_unknown(verb: str) -> None:
    """Refuse a verb that there is not.

    Raises:  BadRequest ``verb``.
    """
    if verb not in VERBS and verb not in STREAMING and verb != WATCH:
        close = nearest(verb, [*VERBS, *STREAMING, WATCH])
        raise BadRequest(
            code="verb",
            what=f"there is no verb {verb[:64]!r}",
            fix=f"did you mean {close!r}?" if close else "",
        )


def refusal(error: HeadnodeError) -> Answer:
    """Return an error as clients get it."""
    return {
        "ok": False,
        "code": error.code,
        "what": error.what[: NOTE.most],
        "fix": error.fix[: NOTE.most],
        "exit_status": error.exit_status,
    }
