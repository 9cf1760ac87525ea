"""``--json`` of squeue, sinfo, sacct and scontrol: the fields that programs read, as Slurm 22.05 writes them.

Times are seconds since 1970, 0 for none; limits are minutes, None without one; memory is in MB.  What this
cluster does not have is left out.

Source:  Slurm 22.05, squeue(1), sinfo(1), sacct(1), ``--json``; its answers on a real controller.
"""

from headnode.apps.cli.batch_programs import values
from headnode.apps.cli.batch_programs.rows import BatchRow
from headnode.apps.client.connection import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

PLUGINS = {
    "controller": ("openapi/v0.0.38", "Slurm OpenAPI v0.0.38"),
    "accounting": ("openapi/dbv0.0.38", "Slurm OpenAPI DB v0.0.38"),
}
RELEASE = (22, 5, 8)
_HIGHEST_NUMBER = 0xFF


def document(plugin: str, what: str, entries: "Sequence[Mapping[str, Any]]") -> str:
    """Return an answer: its schema, no errors, and the entries."""
    major, minor, micro = RELEASE
    meta = {
        "plugin": dict(zip(("type", "name"), PLUGINS[plugin], strict=True)),
        "Slurm": {
            "version": {"major": major, "micro": micro, "minor": minor},
            "release": f"{major}.{minor:02}.{micro}",
        },
    }
    return write_json({"meta": meta, "errors": [], what: list(entries)}) + "\n"


_TEXTS = {
    "account": "account", "batch_host": "batchhost", "command": "command", "comment": "comment",
    "current_working_directory": "workdir", "dependency": "dependency", "excluded_nodes": "excluded",
    "features": "features", "group_name": "group", "licenses": "licenses", "qos": "qos",
    "required_nodes": "requested", "resv_name": "reservation", "standard_error": "stderr",
    "standard_input": "stdin", "standard_output": "stdout", "tres_per_job": "gresofjob",
    "tres_per_node": "gres",
}  # fmt: skip
_NUMBERS = {
    "group_id": "groupid", "node_count": "nodecount", "restart_cnt": "restarts", "tasks": "ntasks",
    "user_id": "userid",
}  # fmt: skip


def queued_job(row: BatchRow) -> "dict[str, Any]":
    """Return a job as squeue and scontrol write it; its exit code is a status as wait(2) has it."""
    code, signal = values.exit_code(row)
    return {
        **{key: values.FIELDS[field](row) or "" for key, field in _TEXTS.items()},
        **{key: int(values.FIELDS[field](row) or 0) for key, field in _NUMBERS.items()},
        "array_job_id": row.id if row.job["array"] else 0,
        "array_task_id": row.number,
        "array_task_string": row.numbers or "",
        "batch_flag": True,
        "cpus": values.processors(row),
        "eligible_time": _moment(row.source.detail(row.id).get("hold_until") or row.job["submitted"]),
        "end_time": _moment(values.expected_end(row)),
        "exit_code": (code & _HIGHEST_NUMBER) << 8 | signal,
        "job_id": row.id,
        "job_state": row.state,
        "name": values.name(row),
        "nodes": values.nodes(row),
        "partition": values.partition(row),
        "priority": int(row.job["priority"]),
        "requeue": values.FIELDS["requeue"](row) == "1",
        "start_time": _moment(values.expected_start(row)),
        "state_reason": row.reason,
        "submit_time": _moment(row.job["submitted"] or row.job["created"]),
        "time_limit": _minutes(row),
        "user_name": row.job["owner"],
    }


def ended_job(row: BatchRow, cluster: str, seconds: float) -> "dict[str, Any]":
    """Return a job as sacct writes it; `seconds` of processor time that it used."""
    of = values.FIELDS
    code, signal = values.exit_code(row)
    status: dict[str, Any] = {"status": "SUCCESS" if not (code or signal) else "ERROR", "return_code": code}
    if signal:
        status = {
            "status": "SIGNALED",
            "return_code": 0,
            "signal": {"signal_id": signal, "name": ""},
        }
    return {
        "account": of["account"](row) or "",
        "allocation_nodes": int(of["nodecount"](row) or 0) if row.started is not None else 0,
        "array": {"job_id": row.id if row.job["array"] else 0, "task_id": row.number},
        "cluster": cluster,
        "comment": {"administrator": None, "job": of["comment"](row), "system": None},
        "exit_code": status,
        "group": of["group"](row) or "",
        "job_id": row.id,
        "name": values.name(row),
        "nodes": values.nodes(row) or "None assigned",
        "partition": values.partition(row),
        "priority": int(row.job["priority"]),
        "qos": of["qos"](row) or "",
        "required": {"CPUs": values.processors(row)},
        "state": {"current": row.state, "reason": row.reason if row.state == "PENDING" else "None"},
        "steps": [],
        "time": {
            "elapsed": int(values.elapsed(row)),
            "end": _moment(row.ended),
            "limit": _minutes(row),
            "start": _moment(row.started),
            "submission": _moment(row.job["submitted"] or row.job["created"]),
            "total": {"seconds": int(seconds), "microseconds": int(seconds % 1 * 1_000_000)},
        },
        "user": row.job["owner"],
        "working_directory": of["workdir"](row) or "",
    }


def node(one: "Mapping[str, Any]", state: str, reason: str) -> "dict[str, Any]":
    """Return a node as sinfo writes it, with its state in Slurm's word."""
    flags = ["DRAIN"] if state in ("draining", "drained") else []
    plain = {"draining": "mixed", "drained": "idle"}.get(state, state)
    drained = one["drains"][0] if one["drains"] else None
    features = ",".join(one["features"])
    return {
        "active_features": features,
        "address": one["address"] or one["name"],
        "alloc_cpus": one["used"],
        "architecture": one["architecture"],
        "cores": one["cores_per_socket"],  # 0: not known
        "cpus": one["processors"],
        "features": features,
        "hostname": one["name"],
        "idle_cpus": one["free"],
        "name": one["name"],
        "operating_system": one["system"],
        "partitions": [values.ALL_NODES, *(group for group in one["groups"] if group != values.ALL_NODES)],
        "real_memory": one["memory"],
        "reason": reason if drained else "",
        "reason_changed_at": _moment(drained["since"] if drained else None),
        "reason_set_by_user": drained["by"] if drained else None,
        "sockets": one["sockets"],
        "state": plain,
        "state_flags": flags,
        "threads": one["threads_per_core"],  # 0: not known
        "weight": 1,
    }


def queued_jobs(rows: "Iterable[BatchRow]") -> str:
    """Return the answer of squeue and scontrol."""
    return document("controller", "jobs", [queued_job(row) for row in rows])


def _moment(at: float | None) -> int:
    return int(at) if at is not None else 0


def _minutes(row: BatchRow) -> int | None:
    found = values.limit_of(row)
    return None if found is None else -int(-found // 60)
