"""The attributes of a job of HTCondor: what each shows of a process here.

Source:  HTCondor 24, "Job ClassAd Attributes".
"""

import os
import time

from headnode.apps.cli.condor_programs.processes import (
    COMPLETED,
    HELD,
    NEUTRAL_PRIORITY,
    OVER,
    REMOVED,
    RUNNING,
    SUSPENDED,
    CondorProcess,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from headnode.core.formats.condor.evaluation import Value

    Shown = Callable[["JobAd"], Value]

_OWN_ID = ("$(Cluster)", "%CCP_JOBID%")  # what stands for the id of the job in what it was submitted with
_VANILLA, _PARALLEL = 5, 11
_BY_USER = 1  # HoldReasonCode


class JobAd:
    """The attributes of a process; each is asked for when it is read."""

    def __init__(self, process: CondorProcess) -> None:
        self.process = process
        self._properties: dict[str, tuple[str, str]] | None = None

    def __call__(self, name: str) -> "Value":
        """Return an attribute by its name in lower case; None if the process has none of the name."""
        known = _ATTRIBUTES.get(name)
        if known is not None:
            return known[1](self)
        own = self.properties.get(name)
        return None if own is None else _typed(self.with_id(own[1]))

    def items(self) -> "Iterator[tuple[str, Value]]":
        """Yield all attributes that are defined, by name."""
        own = [spelling for name, (spelling, _) in self.properties.items() if name not in _ATTRIBUTES]
        spellings = [spelling for spelling, _ in _ATTRIBUTES.values()]
        for spelling in sorted([*spellings, *own], key=str.lower):
            value = self(spelling.lower())
            if value is not None:
                yield spelling, value

    def with_id(self, text: str) -> str:
        """Return a text with the number of the job in it."""
        for own in _OWN_ID:
            text = text.replace(own, str(self.process.cluster))
        return text

    @property
    def spec(self) -> "dict[str, Any]":
        """The description of the job."""
        found: dict[str, Any] = self.process.source.detail(self.process.cluster)["spec"]
        return found

    @property
    def task(self) -> "dict[str, Any]":
        """The description of its task."""
        found: dict[str, Any] = self.spec["tasks"][self.process.task["task"] - 1]
        return found

    @property
    def properties(self) -> "dict[str, tuple[str, str]]":
        """Attributes that its submitter gave it: by the name in lower case, the name and the text."""
        if self._properties is None:
            properties = self.spec.get("properties") or {}
            self._properties = {name.lower(): (name, text) for name, text in properties.items()}
        return self._properties

    def swept(self, text: str) -> str:
        """Return a text of the task as it is for this process."""
        from headnode.core.model.task import substitute

        spec, instance = self.task, self.process.task["instance"]
        if instance is not None and spec.get("kind") == "sweep":
            text = substitute(text, (spec.get("start") or 0) + (instance - 1) * (spec.get("increment") or 1))
        return self.with_id(text)

    def words(self) -> "list[str]":
        """Return the program and its arguments."""
        import shlex

        command = self.swept(self.task.get("command") or "")
        try:
            return shlex.split(command) or [""]
        except ValueError:  # what a shell would not read
            return [command]

    def path(self, key: str) -> str:
        """Return a file of the task, relative to its directory."""
        return self.swept(self.task.get(key) or "") or "/dev/null"

    @property
    def started(self) -> float | None:
        """When it started last."""
        at: float | None = self.process.task["started"]
        return at

    @property
    def ended(self) -> float | None:
        """When it left the queue."""
        if not self.process.is_over:
            return None
        at: float | None = self.process.task["ended"] or self.process.job["ended"]
        return at

    @property
    def queued(self) -> int:
        """When it was submitted."""
        return int(self.process.job["submitted"] or self.process.job["created"])

    def wall_time(self) -> float:
        """Return for how long it ran in its last run, in seconds."""
        if self.started is None:
            return 0.0
        return max(0.0, (self.process.task["ended"] or time.time()) - self.started)


def _typed(text: str) -> "Value":
    """Return an attribute of the submitter as it was meant: a number, true, false, or a text."""
    from headnode.core.formats.condor.expressions import NoExpression, parse

    try:
        found = parse(text)
    except NoExpression:
        return text
    if found.number is not None:
        return float(text) if "." in text else int(found.number)
    return found.truth if found.truth is not None else text


def _batch_name(ad: JobAd) -> "Value":
    """Return the name that its submitter gave the job: another than that of its program, or its flow."""
    job = ad.process.job
    if job["group"] and ad.spec.get("dialect") == "htcondor":
        return str(job["group"])
    program = os.path.basename(job["command"].partition(" ")[0])  # noqa: PTH119
    return None if job["name"] in ("", program) else str(job["name"])


def _node_of_flow(ad: JobAd) -> "Value":
    in_flow = ad.process.job["group"] and ad.spec.get("dialect") == "htcondor"
    return str(ad.process.job["name"]) if in_flow else None


def _entered(ad: JobAd) -> "Value":
    status = ad.process.status
    if status == HELD and (holds := ad.process.source.detail(ad.process.cluster)["holds"]):
        return int(max(hold["at"] for hold in holds))
    if status == SUSPENDED and (at := ad.process.source.detail(ad.process.cluster)["suspended_since"]):
        return int(at)
    if status in OVER:
        return int(ad.ended or ad.queued)
    return int(ad.started or ad.queued) if status == RUNNING else ad.queued


def _hold_reason(ad: JobAd) -> "Value":
    if ad.process.status != HELD:
        return None
    detail = ad.process.source.detail(ad.process.cluster)
    for hold in detail["holds"]:
        return str(hold["message"] or f"via condor_hold (by user {hold['by']})")
    return str(detail["pending_reason"])


def _host(ad: JobAd) -> str | None:
    node = str(ad.process.task["node"]).partition(" ")[0]
    return f"slot1@{node}" if node else None


def _cpus(ad: JobAd) -> int:
    minimum = int(ad.process.task["minimum"])
    if ad.process.job["unit"].lower() == "gpu":
        return minimum * int(ad.spec.get("processors_per_gpu") or 1)
    return minimum


def _gpus(ad: JobAd) -> "Value":
    return int(ad.process.task["minimum"]) if ad.process.job["unit"].lower() == "gpu" else None


def _memory(ad: JobAd) -> "Value":
    if each := ad.spec.get("process_memory"):
        return int(each) * _cpus(ad)
    return (ad.spec.get("held") or {}).get("memory") or None


def _disk(ad: JobAd) -> "Value":
    held = (ad.spec.get("held") or {}).get("disk")
    return int(held) * 1024 if held else None


def _log(ad: JobAd) -> "Value":
    log = (ad.task.get("properties") or {}).get("UserLog")
    return None if log is None else ad.swept(log)


def _leaves(ad: JobAd) -> "Value":
    return (ad.properties.get("leavejobinqueue") or (None, None))[1]


def _completed(ad: JobAd, value: "Callable[[], Value]") -> "Value":
    return value() if ad.process.status == COMPLETED else None


def _usage(key: str) -> "Shown":
    return lambda ad: None if ad.process.task[key] is None else float(ad.process.task[key])


def _kilobytes(ad: JobAd) -> "Value":
    peak: int | None = ad.process.task["peak_memory"]
    return peak


def _arguments(ad: JobAd) -> "Value":
    return " ".join(ad.words()[1:])


def _starts(ad: JobAd) -> int:
    return int(ad.process.task["attempt"] or (ad.started is not None))


def _directory(ad: JobAd) -> "Value":
    return ad.swept(ad.task.get("work_directory") or "") or None


def _int(at: float | None) -> int | None:
    return None if at is None else int(at)


def _attributes() -> "Iterator[tuple[str, Shown]]":
    """Yield what each attribute shows, in the order of their subjects."""
    yield "ClusterId", lambda ad: ad.process.cluster
    yield "ProcId", lambda ad: ad.process.number
    yield "JobId", lambda ad: ad.process.id
    yield "GlobalJobId", lambda ad: f"headnode#{ad.process.id}#{ad.queued}"
    yield "MyType", lambda _: "Job"
    yield "JobUniverse", lambda ad: _PARALLEL if ad.spec.get("together") else _VANILLA
    yield "Owner", lambda ad: str(ad.process.job["owner"])
    yield "User", lambda ad: str(ad.process.job["owner"])
    yield "AccountingGroup", lambda ad: ad.process.job["project"] or None
    yield "AcctGroup", lambda ad: ad.process.job["project"] or None
    yield "JobBatchName", _batch_name
    yield "DAGNodeName", _node_of_flow
    yield "JobPrio", lambda ad: int(ad.process.job["priority"]) - NEUTRAL_PRIORITY
    yield "JobStatus", lambda ad: ad.process.status
    yield "EnteredCurrentStatus", _entered
    yield "HoldReason", _hold_reason
    yield "HoldReasonCode", lambda ad: _BY_USER if ad.process.status == HELD else None
    yield "HoldReasonSubCode", lambda ad: 0 if ad.process.status == HELD else None
    yield "RemoveReason", _remove_reason
    yield "QDate", lambda ad: ad.queued
    yield "JobStartDate", lambda ad: _int(ad.started)
    yield "JobCurrentStartDate", lambda ad: _int(ad.started)
    yield "CompletionDate", lambda ad: _completed(ad, lambda: _int(ad.ended))
    yield "TotalSubmitProcs", lambda ad: int(ad.process.job["tasks"]["total"])
    yield "LeaveJobInQueue", _leaves
    yield from _of_program()
    yield from _of_machine()


def _remove_reason(ad: JobAd) -> "Value":
    if ad.process.status != REMOVED:
        return None
    return str(ad.process.task["message"] or ad.process.job["message"])


def _of_program() -> "Iterator[tuple[str, Shown]]":
    yield "Cmd", lambda ad: ad.words()[0]
    yield "Arguments", _arguments
    yield "Args", _arguments
    yield "Iwd", _directory
    yield "In", lambda ad: ad.path("standard_input")
    yield "Out", lambda ad: ad.path("standard_output")
    yield "Err", lambda ad: ad.path("standard_error")
    yield "UserLog", _log
    yield "ExitBySignal", lambda ad: _completed(ad, lambda: ad.process.task["signal"] is not None)
    yield "ExitCode", lambda ad: _completed(ad, lambda: _exit_code(ad))
    yield "ExitStatus", lambda ad: _completed(ad, lambda: _exit_code(ad))
    yield "ExitSignal", lambda ad: _completed(ad, lambda: _int(ad.process.task["signal"]))


def _exit_code(ad: JobAd) -> "Value":
    return _int(ad.process.task["exit_code"]) if ad.process.task["signal"] is None else None


def _of_machine() -> "Iterator[tuple[str, Shown]]":
    yield "RequestCpus", _cpus
    yield "RequestMemory", _memory
    yield "RequestDisk", _disk
    yield "RequestGPUs", _gpus
    yield "RemoteHost", lambda ad: _host(ad) if ad.process.status in (RUNNING, SUSPENDED) else None
    yield "LastRemoteHost", lambda ad: _host(ad) if ad.process.is_over else None
    yield "NumJobStarts", _starts
    yield "NumShadowStarts", _starts
    yield "JobRunCount", _starts
    yield "RemoteWallClockTime", lambda ad: ad.wall_time() if ad.process.is_over else 0.0
    yield "RemoteUserCpu", _usage("user_time")
    yield "RemoteSysCpu", _usage("system_time")
    yield "ImageSize", _kilobytes
    yield "ResidentSetSize", _kilobytes
    yield "MemoryUsage", lambda ad: None if _kilobytes(ad) is None else -(-int(_kilobytes(ad) or 0) // 1024)


_ATTRIBUTES: "Mapping[str, tuple[str, Shown]]" = {
    name.lower(): (name, attribute) for name, attribute in _attributes()
}
