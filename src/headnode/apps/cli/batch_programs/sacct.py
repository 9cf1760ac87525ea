"""``sacct``: the jobs of the past, and those of now.

Source:  Slurm 22.05, sacct(1).
"""

import os
import sys
import time

from headnode.apps.cli.batch_programs.columns import TableField, field_names, fields_of, table
from headnode.apps.cli.batch_programs.rows import LIVING, BatchRow, JobSource, refuse_other_clusters, rows_of
from headnode.apps.cli.batch_programs.squeue import is_chosen, job_numbers, means, own_user, states_asked
from headnode.apps.cli.batch_programs.values import FIELDS, clock, exit_code, processor_time, resources
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    moment,
    read_words,
    refused,
)
from headnode.apps.client.client import Client
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

OPTIONS = {
    **acted_on(
        "accounts/A allocations/X! allusers/a! array! batch-script/B! brief/b! delimiter endtime/E format/o "
        "helpformat/e! jobs/j long/l! name nodelist/N json! noheader/n! parsable/p! parsable2/P! partition/r "
        "qos/q starttime/S state/s uid user/u version/V! help/h! usage!"
    ),
    **ignored(
        "allclusters/L! clusters/M duplicates/D! federation! local! noconvert! units truncate/T! verbose/v! "
        "expand-patterns! env-vars!",
        "there is one cluster, and its values are whole",
    ),
    **refused("completion/c! file/f", "the head has all jobs; leave it out"),
    **refused("yaml!", "use --json"),
    **refused(
        "ncpus/I nnodes/i timelimit-min/k timelimit-max/K wckeys/W flags/F constraints/C reason/R "
        "associations/x group gid/g",
        "filter what is printed",
    ),
}
MARGIN = 7 * 86400.0  # seconds before --starttime in which a job may have been submitted that is shown
_USUAL = "jobid,jobname,partition,account,alloccpus,state,exitcode"
_BRIEF = "jobid,state,exitcode"
_LONG = (
    "jobid,jobidraw,jobname,partition,maxrss,averss,avecpu,ntasks,alloccpus,elapsed,state,exitcode,"
    "maxdiskread,maxdiskwrite,reqmem,alloctres"
)


class AccountRow:
    """A line: a job or an element, or its batch step."""

    __slots__ = ("row", "step")

    def __init__(self, row: BatchRow, step: str) -> None:
        self.row, self.step = row, step


def _of(field: str, nothing: str = "") -> "Callable[[AccountRow], str]":
    def show(line: AccountRow) -> str:
        found = FIELDS[field](line.row)
        return nothing if found is None else found

    return show


def _of_job(field: str) -> "Callable[[AccountRow], str]":
    """Return what a field shows of a job; steps show nothing."""
    output_field = _of(field)
    return lambda line: "" if line.step else output_field(line)


def _state(line: AccountRow) -> str:
    state = line.row.state
    if line.step:
        return "CANCELLED" if state == "TIMEOUT" else state
    if state != "CANCELLED":
        return state
    job = line.row.job
    _, reason, by = (job if job["state"] == "Canceled" else line.row.course)["message"].partition(
        "canceled by "
    )
    return f"{state} by {_number_of(by)}" if reason else state


def _number_of(user: str) -> str:
    import pwd

    try:
        return str(pwd.getpwnam(user.partition(":")[0]).pw_uid)
    except KeyError:
        return "0"


def _exit(line: AccountRow) -> str:
    if line.step and line.row.state in ("TIMEOUT", "CANCELLED"):
        return "0:15"
    return "{}:{}".format(*exit_code(line.row))


def _usage(key: str) -> "Callable[[AccountRow], float | None]":
    def value(line: AccountRow) -> float | None:
        course = line.row.course
        if course.get("user_time") is None:
            return None
        if key == "total":
            return float(course["user_time"] or 0) + float(course["system_time"] or 0)
        found = course.get(key)
        return None if found is None else float(found)

    return value


def _processor_time(key: str) -> "Callable[[AccountRow], str]":
    value = _usage(key)

    return lambda line: processor_time(value(line) or 0.0)


def _of_step(key: str, unit: str) -> "Callable[[AccountRow], str]":
    value = _usage(key)

    def show(line: AccountRow) -> str:
        found = value(line) if line.step else None
        return "" if found is None else f"{int(found)}{unit}"

    return show


def _processor_seconds(line: AccountRow) -> int:
    return int(FIELDS["elapsedseconds"](line.row) or 0) * int(FIELDS["cpus"](line.row) or 0)


def _waited(line: AccountRow) -> int:
    """Return for how many seconds it could have started before it did."""
    row = line.row
    eligible = max(
        row.job["submitted"] or row.job["created"], row.source.detail(row.id).get("hold_until") or 0
    )
    return max(0, int((row.started or row.ended or time.time()) - eligible))


def _waited_processors(line: AccountRow) -> int:
    return _waited(line) * int(FIELDS["cpus"](line.row) or 0)


def _nodes(line: AccountRow) -> str:
    return FIELDS["nodes"](line.row) or "None assigned"


def _job_id(line: AccountRow) -> str:
    return f"{FIELDS['jobid'](line.row)}{line.step}"


_SHOWN: "Mapping[str, tuple[int, Callable[[AccountRow], str]]]" = {
    "Account": (10, _of("account")),
    "AllocCPUS": (10, lambda line: FIELDS["cpus"](line.row) or "0" if line.row.started else "0"),
    "AllocNodes": (10, lambda line: FIELDS["nodecount"](line.row) or "0" if line.row.started else "0"),
    "AllocTRES": (10, lambda line: _resources(line) if line.row.started else ""),
    "AveCPU": (10, _processor_time("total")),
    "AveDiskRead": (14, _of_step("bytes_read", "")),
    "AveDiskWrite": (14, _of_step("bytes_written", "")),
    "AveRSS": (10, _of_step("average_memory", "K")),
    "Cluster": (10, lambda line: _cluster_name(line.row.source.client)),
    "Comment": (14, _of_job("comment")),
    "Constraints": (19, _of_job("features")),
    "CPUTime": (10, lambda line: clock(_processor_seconds(line), hours=True)),
    "CPUTimeRAW": (10, lambda line: str(_processor_seconds(line))),
    "DerivedExitCode": (15, lambda line: "" if line.step else "0:0"),
    "Elapsed": (10, _of("elapsed")),
    "ElapsedRaw": (10, _of("elapsedseconds")),
    "Eligible": (19, _of("eligible", "Unknown")),
    "End": (19, lambda line: FIELDS["ended"](line.row) or "Unknown"),
    "ExitCode": (8, _exit),
    "GID": (6, _of_job("groupid")),
    "Group": (9, _of_job("group")),
    "JobID": (-12, _job_id),
    "JobIDRaw": (-12, _job_id),
    "JobName": (10, lambda line: "batch" if line.step else FIELDS["name"](line.row) or ""),
    "MaxDiskRead": (12, _of_step("bytes_read", "")),
    "MaxDiskWrite": (12, _of_step("bytes_written", "")),
    "MaxRSS": (10, _of_step("peak_memory", "K")),
    "NCPUS": (10, _of("cpus")),
    "NNodes": (8, _of("nodecount")),
    "NodeList": (15, _nodes),
    "NTasks": (8, lambda line: "1" if line.step else ""),
    "Partition": (10, _of_job("partition")),
    "Priority": (10, _of_job("priority")),
    "QOS": (10, _of_job("qos")),
    "Reason": (22, _of_job("reason")),
    "ReqCPUS": (8, _of("cpus")),
    "ReqMem": (10, _of_job("memory")),
    "ReqNodes": (8, _of("nodecount")),
    "ReqTRES": (10, lambda line: _resources(line)),
    "Reservation": (20, _of_job("reservation")),
    "Reserved": (10, lambda line: "" if line.step else clock(_waited(line), hours=True)),
    "ResvCPU": (10, lambda line: "" if line.step else clock(_waited_processors(line), hours=True)),
    "ResvCPURAW": (10, lambda line: "" if line.step else str(_waited_processors(line))),
    "Start": (19, lambda line: FIELDS["start"](line.row) or ("None" if line.row.ended else "Unknown")),
    "State": (10, _state),
    "Submit": (19, _of("submit")),
    "Suspended": (10, lambda _: clock(0, hours=True)),
    "SystemCPU": (10, _processor_time("system_time")),
    "Timelimit": (10, _of_job("limit")),
    "TimelimitRaw": (10, _of_job("limitminutes")),
    "TotalCPU": (10, _processor_time("total")),
    "UID": (6, _of_job("userid")),
    "User": (9, _of_job("user")),
    "UserCPU": (10, _processor_time("user_time")),
    "WorkDir": (20, _of_job("workdir")),
}
"""Title -> width, below 0 for a field that stands left, and what it shows."""
_EMPTY = {
    "AdminComment": 15, "AssocID": 7, "AveCPUFreq": 10, "AvePages": 10, "AveVMSize": 10, "BlockID": 16,
    "ConsumedEnergy": 14, "ConsumedEnergyRaw": 17, "Container": 19, "DBIndex": 10, "Flags": 19,
    "Layout": 9, "MaxDiskReadNode": 15, "MaxDiskReadTask": 15, "MaxDiskWriteNode": 16,
    "MaxDiskWriteTask": 16, "MaxPages": 8, "MaxPagesNode": 12, "MaxPagesTask": 14, "MaxRSSNode": 10,
    "MaxRSSTask": 10, "MaxVMSize": 10, "MaxVMSizeNode": 14, "MaxVMSizeTask": 14, "McsLabel": 12,
    "MinCPU": 10, "MinCPUNode": 10, "MinCPUTask": 10, "QOSRAW": 6, "ReqCPUFreq": 10, "ReqCPUFreqGov": 13,
    "ReqCPUFreqMax": 13, "ReqCPUFreqMin": 13, "ReservationId": 8, "SubmitLine": 20, "SystemComment": 15,
    "TRESUsageInAve": 14, "TRESUsageInMax": 14, "TRESUsageInMaxNode": 18, "TRESUsageInMaxTask": 18,
    "TRESUsageInMin": 14, "TRESUsageInMinNode": 18, "TRESUsageInMinTask": 18, "TRESUsageInTot": 14,
    "TRESUsageOutAve": 15, "TRESUsageOutMax": 15, "TRESUsageOutMaxNode": 19, "TRESUsageOutMaxTask": 19,
    "TRESUsageOutMin": 15, "TRESUsageOutMinNode": 19, "TRESUsageOutMinTask": 19, "TRESUsageOutTot": 15,
    "WCKey": 10, "WCKeyID": 10,
}  # fmt: skip
"""Those that nothing is known of here: title -> width.  The column is empty, so that no program fails."""
FIELDS_OF_SACCT = sorted(
    (
        *(TableField(title, *options) for title, options in _SHOWN.items()),
        *(TableField(title, width, lambda _: "") for title, width in _EMPTY.items()),
    ),
    key=lambda field: field.name,
)


def _resources(line: AccountRow) -> str:
    return ",".join(f"{name}={count}" for name, count in sorted(resources(line.row).items()))


def _cluster_name(client: Client) -> str:
    return str(client.ask("cluster")["cluster"]["name"])


def run(argv: "Sequence[str]", client: Client) -> int:
    """List jobs."""
    args = read_words(argv, OPTIONS)
    args.merge("uid", "user")
    args.merge("accounts", "account")
    refuse_other_clusters(args, client)
    if args.has("helpformat"):
        sys.stdout.write(field_names(FIELDS_OF_SACCT, 19))
        return 0
    if args.has("batch-script"):
        sys.stdout.write("".join(_script(row) for row in _rows(args, JobSource(client))))
        return 0
    if args.has("json"):
        from headnode.apps.cli.batch_programs.data_parser import document, ended_job

        cluster, used = _cluster_name(client), _usage("total")
        found = [
            ended_job(row, cluster, used(AccountRow(row, "")) or 0.0)
            for row in _rows(args, JobSource(client))
        ]
        sys.stdout.write(document("accounting", "jobs", found))
        return 0
    usual = _BRIEF if args.has("brief") else _LONG if args.has("long") else _USUAL
    text = args.text("format") or os.environ.get("SACCT_FORMAT") or usual
    fields = fields_of(text, FIELDS_OF_SACCT, _refuse_field)
    lines = [
        AccountRow(row, step)
        for row in _rows(args, JobSource(client))
        for step in (("",) if args.has("allocations") or row.started is None else ("", ".batch"))
    ]
    sys.stdout.write(table(args, fields, lines))
    return 0


def _refuse_field(name: str) -> ProgramRefusal:
    return ProgramRefusal(f'Invalid field requested: "{name.strip().lower()}"', prefix="")


def _script(row: BatchRow) -> str:
    """Return the script that was submitted; NONE if it is not known, or another user's."""
    from headnode.core.model.errors import Refused

    try:
        text = row.source.client.ask("export_job", job=row.id, dialect="submitted")["text"]
    except Refused:
        text = "NONE\n"
    return f"Batch Script for {FIELDS['jobid'](row)}\n{'-' * 80}\n{text}\n"


def _rows(args: ProgramWords, source: JobSource) -> "Iterator[BatchRow]":
    ids = args.parts("jobs")
    now = time.time()
    wanted = states_asked(args.parts("state")) if args.has("state") else None
    since = moment(args.text("starttime") or "", now) if args.has("starttime") else None
    until = moment(args.text("endtime") or "", now) if args.has("endtime") else None
    if since is None and not ids:
        since = now if wanted else moment("00:00", now)
    jobs = source.listed(job_numbers(ids)) if ids else _jobs_since(args, source, since or 0.0)
    for job in sorted(jobs, key=lambda each: int(each["id"])):
        if job["state"] == "Configuring":
            continue
        for row in rows_of(source, job, expand=args.has("array")):
            if _is_wanted(row, args, wanted, ids) and _is_in_time(row, since, until):
                yield row


def _jobs_since(args: ProgramWords, source: JobSource, since: float) -> "Iterator[dict[str, Any]]":
    """Yield jobs that were submitted since some days before a time, and all that are alive."""
    users, names = args.parts("user"), args.parts("name")
    own = not (args.has("allusers") or users or os.geteuid() == 0)
    owner = own_user() if own else users[0] if len(users) == 1 and not users[0].isdigit() else None
    name = names[0] if len(names) == 1 else ""
    seen = set()
    for job in source.pages(LIVING, owner=owner, name=name):
        seen.add(job["id"])
        yield job
    for job in source.pages(ENDED_STATES, owner=owner, name=name, since=since - MARGIN):
        if job["id"] not in seen:
            yield job


def _is_in_time(row: BatchRow, since: float | None, until: float | None) -> bool:
    ended, submitted = row.ended, row.job["submitted"] or row.job["created"]
    return (since is None or ended is None or ended >= since) and (until is None or submitted <= until)


def _is_wanted(row: BatchRow, args: ProgramWords, states: "set[str] | None", ids: "Sequence[str]") -> bool:
    if states is not None and row.state not in states:
        return False
    if ids and not any(means(word.partition(".")[0], row) for word in ids):
        return False
    return is_chosen(row, args, ("user", "name", "account", "partition", "qos", "nodelist"))
