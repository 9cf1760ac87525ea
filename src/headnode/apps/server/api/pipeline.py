"""One request of a client: its bytes, its verb and fields, who repeats it, and its answer."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

import msgspec

from headnode.apps.server.api import (
    access,
    cluster,
    filters_templates,
    groups,
    job_views,
    jobs,
    node_commands,
    nodes,
    reservations,
    shell,
    tasks,
)
from headnode.apps.server.api import requests as w
from headnode.apps.server.api.requests import ReservationNameRequest
from headnode.apps.server.api.reservations import reservation
from headnode.apps.server.api.streams import StreamHandler
from headnode.apps.server.explain import dry_run, explain_job
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.bounds import DEPTH, INTEGER, NOTE, VALUES
from headnode.core.model.errors import BadRequest, HeadnodeError, WrongState
from headnode.core.model.user import IdempotencyKey, Receipt, User
from headnode.core.state.decide import MAKING, receipt_of

_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_value(data: bytes) -> Any:
    """Return the value that the bytes are as JSON.

    Raises:  BadRequest ``request`` when they are no JSON, or beyond the bounds of depth, number and size.
    """
    try:
        if _most_values(data) > VALUES.most:
            _refuse(f"the request has more than {VALUES}", "divide it into several requests")
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(code="request", what=f"the request is not JSON: {error}") from None
    except RecursionError:
        _refuse_depth()
    _refuse_excess(value)
    return value


def _most_values(data: bytes) -> int:
    """Return how many values there are at most outside of the texts of the first level."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= VALUES.most:
        return 0  # almost always
    parts = [bytes(raw) for raw in _FIELDS_DECODER.decode(data).values()]
    return sum(
        part.count(b",") + part.count(b"[") + part.count(b"{") for part in parts if part[:1] in (b"[", b"{")
    )


def _refuse_excess(value: Any) -> None:
    """Look at all values, level by level."""
    least, most = INTEGER.least or 0, INTEGER.most
    level, depth = [value], 0
    while level:
        if depth > DEPTH.most:
            _refuse_depth()
        depth += 1
        inner = []
        for part in level:
            for each in part.values() if type(part) is dict else part if type(part) is list else (part,):
                kind = type(each)
                if kind is dict or kind is list:
                    inner.append(each)
                elif kind is int and not least <= each <= most:
                    _refuse("a number in the request is too large", f"use {INTEGER}")
        level = inner


def _refuse_depth() -> NoReturn:
    _refuse(f"the request is deeper than {DEPTH}", "no verb needs as many")


def _refuse(what: str, fix: str) -> NoReturn:
    raise BadRequest(code="request", what=what, fix=fix)


log = logging.getLogger("headnode.server")

Answer = dict[str, Any]
Verb = Callable[[ServerContext, User, Any], Awaitable[Answer]]

VERBS: Mapping[str, tuple[type[w.VerbRequest], Verb]] = MappingProxyType(
    {
        "ping": (w.VerbRequest, cluster.ping),
        "create_job": (w.CreateJobRequest, jobs.create_job),
        "submit_job": (w.SubmitJobRequest, jobs.submit_job),
        "check_job": (w.SubmitJobRequest, dry_run.check_job),
        "add_tasks": (w.AddTasksRequest, jobs.add_tasks),
        "modify_job": (w.ModifyJobRequest, jobs.modify_job),
        "set_progress": (w.SetProgressRequest, jobs.set_progress),
        "cancel_job": (w.StopJobRequest, jobs.cancel_job),
        "finish_job": (w.StopJobRequest, jobs.finish_job),
        "requeue_job": (w.JobIdRequest, jobs.requeue_job),
        "suspend_job": (w.JobIdRequest, jobs.suspend_job),
        "resume_job": (w.JobIdRequest, jobs.resume_job),
        "hold_job": (w.HoldJobRequest, jobs.hold_job),
        "release_job": (w.ReleaseJobRequest, jobs.release_job),
        "clone_job": (w.JobIdRequest, jobs.clone_job),
        "job": (w.JobIdRequest, jobs.job),
        "jobs": (w.ListJobsRequest, job_views.jobs),
        "group": (w.GroupNameRequest, groups.group),
        "submit_group": (w.GroupNameRequest, groups.submit_group),
        "cancel_group": (w.StopGroupRequest, groups.cancel_group),
        "finish_group": (w.StopGroupRequest, groups.finish_group),
        "history": (w.JobHistoryRequest, job_views.history),
        "past_jobs": (w.PastJobsRequest, cluster.past_jobs),
        "predictions": (w.PredictionScoresRequest, cluster.predictions),
        "explain_job": (w.JobIdRequest, explain_job.explain_job),
        "export_job": (w.ExportJobRequest, jobs.export_job),
        "tasks": (w.ListTasksRequest, tasks.tasks),
        "task": (w.TaskIdRequest, tasks.task),
        "cancel_task": (w.StopTaskRequest, tasks.cancel_task),
        "finish_task": (w.StopTaskRequest, tasks.finish_task),
        "modify_task": (w.ModifyTaskRequest, tasks.modify_task),
        "requeue_task": (w.TaskIdRequest, tasks.requeue_task),
        "output": (w.TaskIdRequest, tasks.output),
        "read_output": (w.ReadOutputRequest, tasks.read_output),
        "nodes": (w.ListNodesRequest, nodes.nodes),
        "node": (w.NodeNameRequest, nodes.node),
        "node_history": (w.NodeHistoryRequest, nodes.node_history),
        "approve_node": (w.NodeNameRequest, nodes.approve_node),
        "pause_node": (w.NodeNameRequest, nodes.pause_node),
        "drain_node": (w.DrainNodeRequest, nodes.drain_node),
        "resume_node": (w.NodeNameRequest, nodes.resume_node),
        "invite_node": (w.InviteNodeRequest, nodes.invite_node),
        "set_node": (w.SetNodeRequest, nodes.set_node),
        "remove_node": (w.NodeNameRequest, nodes.remove_node),
        "filters": (w.VerbRequest, filters_templates.filters),
        "test_filter": (w.TestFilterRequest, filters_templates.test_filter),
        "templates": (w.VerbRequest, filters_templates.templates),
        "template": (w.ShowTemplateRequest, filters_templates.template),
        "set_template": (w.SetTemplateRequest, filters_templates.set_template),
        "remove_template": (w.TemplateNameRequest, filters_templates.remove_template),
        "reservations": (w.VerbRequest, reservations.reservations),
        "reservation": (w.ReservationNameRequest, reservations.reservation),
        "make_reservation": (w.SetReservationRequest, reservations.make_reservation),
        "change_reservation": (w.SetReservationRequest, reservations.change_reservation),
        "cancel_reservation": (w.ReservationNameRequest, reservations.cancel_reservation),
        "cluster": (w.VerbRequest, cluster.cluster),
        "params": (w.VerbRequest, cluster.params),
        "set_params": (w.SetParametersRequest, cluster.set_params),
        "params_history": (w.ParameterHistoryRequest, cluster.params_history),
        "whoami": (w.VerbRequest, access.whoami),
        "defaults": (w.VerbRequest, cluster.defaults),
        "new_token": (w.NewTokenRequest, access.new_token),
        "tokens": (w.ListTokensRequest, access.tokens),
        "revoke_token": (w.RevokeTokenRequest, access.revoke_token),
        "audit": (w.AuditLogRequest, access.audit),
        "backup": (w.VerbRequest, cluster.backup),
        "down": (w.StopHeadRequest, cluster.down),
    }
)
WATCH = "watch_job"
StreamVerb = Callable[[ServerContext, User, Any], Awaitable[StreamHandler]]
STREAMING: Mapping[str, tuple[type[w.VerbRequest], StreamVerb]] = MappingProxyType(
    {
        "run_everywhere": (w.RunOnNodesRequest, node_commands.run_everywhere),
        "run_here": (w.RunOnNodeRequest, node_commands.run_here),
        "shell": (w.ShellRequest, shell.shell),
    }
)
"""Verbs that stay: once they are granted a conversation follows, and then the connection ends."""


async def begin_stream(context: ServerContext, by: User, verb: str, fields: dict[str, Any]) -> StreamHandler:
    """Return the conversation that follows such a verb.

    Raises:  what refuses it.
    """
    kind, grant = STREAMING[verb]
    return await grant(context, by, read_fields(kind, verb, fields))


def read_request(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the verb and its fields.

    Raises:  BadRequest ``request`` when the bytes hold no request.
    """
    request = read_value(data)
    if not isinstance(request, dict) or not isinstance(request.get("do"), str):
        raise BadRequest(code="request", what="the request names no verb", fix='send {"do": VERB, ...}')
    verb = request.pop("do")
    return verb, request


def read_fields(kind: type[w.VerbRequest], verb: str, fields: dict[str, Any]) -> w.VerbRequest:
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


async def carry_out(context: ServerContext, by: User, verb: str, fields: dict[str, Any]) -> Answer:
    """Return the answer to one request with a verb that there is.

    Raises:  HeadnodeError, which is an answer too: see `refusal`.
    """
    kind, do = VERBS[verb]
    return {"ok": True} | await do(context, by, read_fields(kind, verb, fields))


def refuse_unknown(verb: str) -> None:
    """Refuse a verb that there is not.

    Raises:  BadRequest ``verb``.
    """
    if verb not in VERBS and verb not in STREAMING and verb != WATCH:
        close = nearest_name(verb, [*VERBS, *STREAMING, WATCH])
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


IDEMPOTENCY_FIELD: Final = "idempotency"
LONGEST_KEY: Final = 64  # characters

RequestFields = dict[str, Any]


def split_key(verb: str, fields: RequestFields) -> tuple[RequestFields, IdempotencyKey | None]:
    """Return the fields without the key, and the key with a digest of the request.

    Raises:  BadRequest ``idempotency`` for a key that is none, or a verb that makes nothing.
    """
    if IDEMPOTENCY_FIELD not in fields:
        return fields, None
    rest = {name: value for name, value in fields.items() if name != IDEMPOTENCY_FIELD}
    key = fields[IDEMPOTENCY_FIELD]
    if verb not in MAKING:
        raise BadRequest(code="idempotency", what=f"{verb} takes no idempotency key", fix="leave it out")
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise BadRequest(
            code="idempotency",
            what="the idempotency key is not printable text",
            fix=f"use 1 to {LONGEST_KEY} characters, such as a UUID",
        )
    body = msgspec.json.encode([verb, rest], order="deterministic")
    return rest, IdempotencyKey(key, hashlib.sha256(body).digest()[:16], verb)


async def answer_again(
    context: ServerContext, user: User, once: IdempotencyKey, fields: RequestFields
) -> RequestFields | None:
    """Return the answer to a request that was carried out before; None: it was not.

    Raises:  BadRequest ``idempotency-conflict``; WrongState ``idempotency-secret`` when the answer had a
             secret, which is kept nowhere.
    """
    receipt = receipt_of(context.cluster, user, once, context.now())
    if receipt is None:
        return None
    if once.verb in ("submit_job", "submit_group"):
        await context.submission_chain.wait(receipt.jobs)
    if once.verb == "make_reservation":
        shown = await reservation(context, user, ReservationNameRequest(name=str(fields.get("name"))))
        return {"ok": True, **shown, "later": [], "repeated": True}
    return {"ok": True, **_answer_of(receipt, fields), "repeated": True}


def _answer_of(receipt: Receipt, fields: RequestFields) -> RequestFields:
    jobs = list(receipt.jobs)
    match receipt.verb:
        case "submit_group":
            return {"group": fields.get("group"), "jobs": jobs}
        case "add_tasks":
            return {"job": jobs[0], "tasks": list(range(receipt.first_task, receipt.last_task + 1))}
        case "invite_node" | "new_token":
            raise WrongState(
                code="idempotency-secret",
                what="this request was carried out already, and its answer had a secret that is kept nowhere",
                fix="ask for another one with a new key; the first expires unused",
            )
    more = {"jobs": jobs} if len(jobs) > 1 else {}
    return {"job": jobs[-1], "report": [], **more}
