"""``scontrol``: what is known of jobs, nodes and partitions, and what changes them.

Source:  Slurm 22.05, scontrol(1).
"""

import sys
import time

from headnode.apps.cli.batch_programs.job_commands import (
    act_on_jobs,
    in_words,
    update_job,
    write_script,
)
from headnode.apps.cli.batch_programs.rows import (
    LIVING,
    BatchRow,
    JobSource,
    folded_nodes,
    numbers_of,
    refuse_other_clusters,
    rows_of,
)
from headnode.apps.cli.batch_programs.squeue import job_numbers, least_layout, unfolded
from headnode.apps.cli.batch_programs.values import FIELDS, clock, limit_of
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    read_words,
    refused,
)
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OPTIONS = {
    **acted_on("oneliner/o! json! quiet/Q! version/V! help/h! usage!"),
    **ignored(
        "all/a! clusters/M details/d! future/F! hide! local! verbose/v! federation! sibling!", "it is shown"
    ),
    **refused("uid/u yaml!", "the user is known from the login; write --json"),
}
_JOB = (
    "JobId=arrayjobid {array}JobName=name",
    "UserId=user({userid}) GroupId=group({groupid}) MCS_label=!N/A",
    "Priority=priority Nice=!0 Account=account QOS=qos",
    "JobState=state Reason=reason Dependency=dependency",
    "Requeue=requeue Restarts=restarts BatchFlag=!1 Reboot=!0 ExitCode=exit",
    "RunTime=elapsed TimeLimit=limit TimeMin=timemin",
    "SubmitTime=submit EligibleTime=eligible",
    "AccrueTime=eligible",
    "StartTime=startorexpected EndTime=end Deadline=deadline",
    "SuspendTime=!None SecsPreSuspend=!0 LastSchedEval=submit Scheduler=!Main",
    "Partition=partition AllocNode:Sid=!N/A",
    "ReqNodeList=requested ExcNodeList=excluded",
    "NodeList=nodes",
    "BatchHost=batchhost",
    "NumNodes=nodecount NumCPUs=cpus NumTasks=ntasks CPUs/Task=cpuspertask ReqB:S:C:T=layout",
    "TRES=tresbilled",
    "Socks/Node=sockets NtasksPerN:B:S:C=!0:0:*:* CoreSpec=!*",
    "MinCPUsNode=cpuspertask MinMemoryNode=memory MinTmpDiskNode=!0",
    "Features=features DelayBoot=!00:00:00",
    "OverSubscribe=exclusive Contiguous=contiguous Licenses=licenses Network=!(null)",
    "Command=command",
    "WorkDir=workdir",
    "Comment=comment",
    "StdErr=stderr",
    "StdIn=stdin",
    "StdOut=stdout",
    "Power=!",
    "TresPerNode=gres",
    "TresPerJob=gresofjob",
    "Signal=signal",
)
"""The lines of a job: a key and its field, or behind ``!`` a text; fields in braces are put in."""
_NOTHING = {
    "StartTime": "Unknown", "EndTime": "Unknown", "Deadline": "N/A", "NodeList": "", "AccrueTime": "Unknown",
    "EligibleTime": "Unknown",
}  # fmt: skip
_ONLY_IF_THERE = ("BatchHost=", "Comment=", "TresPerNode=", "TresPerJob=", "Signal=")


_ELSEWHERE = {
    "reconfigure": "parameters take effect when they are set; see: hn cluster params",
    "shutdown": "to stop the head: hn down",
    "takeover": "to make a standby the head: hn standby takeover",
    "reboot": "to close a node until its jobs have ended: hn node drain NODE",
    "reboot_nodes": "to close a node until its jobs have ended: hn node drain NODE",
    "top": "to change priorities: scontrol update jobid=ID priority=N",
    "write": "to save the state of the cluster: hn backup FILE",
}
"""Keywords that an administrator of Slurm types, and what does that here."""


def version() -> str:
    """Return what the programs answer to --version: that of the Slurm whose forms they have."""
    return "slurm-wlm 22.05.8 (Headnode)"


def run(argv: "Sequence[str]", client: Client) -> int:
    """Carry out one keyword."""
    args = read_words(argv, OPTIONS)
    refuse_other_clusters(args, client)
    if not args.words:
        raise ProgramRefusal("there is no prompt here: write a keyword, such as: scontrol show job 12")
    keyword, rest = args.words[0].lower(), args.words[1:]
    act = _KEYWORDS.get(keyword)
    if act is None:
        if keyword in _ELSEWHERE:
            raise ProgramRefusal(f"{keyword} is not carried out here: {_ELSEWHERE[keyword]}")
        raise ProgramRefusal(f"invalid keyword: {args.words[0]}", prefix="bare")
    return act(rest, client, args)


def _show(arguments: "Sequence[str]", client: Client, args: ProgramWords) -> int:
    if not arguments:
        raise ProgramRefusal("too few arguments for keyword:show", prefix="bare")
    entity = arguments[0].lower().partition("=")[0].removesuffix("s")
    named = arguments[0].partition("=")[2] or (arguments[1] if len(arguments) > 1 else "")
    shows: dict[str, Callable[[str, Client, ProgramWords], str]] = {
        "job": _jobs,
        "jobid": _jobs,
        "node": _nodes,
        "nodename": _nodes,
        "partition": _partitions,
        "partitionname": _partitions,
        "reservation": _reservations,
        "reservationname": _reservations,
        "config": _config,
        "hostname": lambda text, *_: "".join(f"{node}\n" for node in _hosts(text)),
        "hostlist": lambda text, *_: _folded(text) + "\n",
        "hostlistsorted": lambda text, *_: _folded(text) + "\n",
    }
    show = shows.get(entity) or next((shows[name] for name in shows if name.startswith(entity)), None)
    if show is None:
        raise ProgramRefusal(f"invalid entity:{arguments[0]} for keyword:show", prefix="bare")
    if args.has("json") and show is not _jobs:
        raise ProgramRefusal("--json is for jobs here; for nodes: sinfo --json")
    sys.stdout.write(show(named, client, args))
    return 0


def _hosts(text: str) -> "list[str]":
    """Return the nodes of a set; without one those of the job around."""
    import os

    nodes = unfolded(text or os.environ.get("SLURM_JOB_NODELIST", ""))
    if not nodes:
        sys.stderr.write("scontrol: error: host list is empty\n")
    return nodes


def _folded(text: str) -> str:
    return folded_nodes(unfolded(text))


def _jobs(named: str, client: Client, args: ProgramWords) -> str:
    source = JobSource(client)
    jobs = source.listed(job_numbers([named])) if named else list(source.pages(LIVING, owner=None))
    rows = [row for job in jobs for row in rows_of(source, job, expand=False)]
    number = named.partition("_")[2]
    if number:
        rows = [row for row in rows if str(row.number) == number or number in _waiting(row)]
    if named and not rows:
        raise ProgramRefusal("slurm_load_jobs error: Invalid job id specified", prefix="bare")
    if args.has("json"):
        from headnode.apps.cli.batch_programs.data_parser import queued_jobs

        return queued_jobs(rows)
    if not rows:
        return "No jobs in the system\n"
    return "".join(_joined(_job_lines(row), args) for row in rows)


def _waiting(row: BatchRow) -> "list[str]":
    return [str(number) for number in numbers_of(row.numbers)] if row.numbers else []


def _job_lines(row: BatchRow) -> "list[str]":
    lines = []
    for form in _JOB:
        if form.startswith(_ONLY_IF_THERE) and FIELDS[form.partition("=")[2]](row) is None:
            continue
        lines.append(" ".join(_pair(word, row) for word in form.split(" ")))
    return lines


def _pair(word: str, row: BatchRow) -> str:
    if word.startswith("{array}"):
        return f"{_array_words(row)}{_pair(word.removeprefix('{array}'), row)}"
    key, _, field = word.partition("=")
    if field.startswith("!"):
        return f"{key}={_filled(field[1:], row)}"
    if field in ("layout", "sockets"):
        sockets, cores, threads = least_layout(row)
        return f"{key}={sockets}" if field == "sockets" else f"{key}=0:{sockets}:{cores}:{threads}"
    field, paren, behind = field.partition("(")
    found = FIELDS[field](row)
    if key in ("TimeLimit",) and (limit := limit_of(row)) is not None:
        found = clock(limit, hours=True)
    text = _NOTHING.get(key, "(null)") if found is None else found
    return f"{key}={text}{_filled(paren + behind, row)}"


def _filled(text: str, row: BatchRow) -> str:
    while "{" in text:
        before, _, rest = text.partition("{")
        field, _, after = rest.partition("}")
        text = f"{before}{FIELDS[field](row)}{after}"
    return text


def _array_words(row: BatchRow) -> str:
    number = FIELDS["arraynumber"](row)
    return "" if number is None else f"ArrayJobId={row.id} ArrayTaskId={number} "


def _joined(lines: "Sequence[str]", args: ProgramWords) -> str:
    return " ".join(lines) + "\n" if args.has("oneliner") else "\n   ".join(lines) + "\n\n"


def _nodes(named: str, client: Client, args: ProgramWords) -> str:
    from headnode.apps.cli.batch_programs.sinfo import node_lines

    nodes = client.ask("nodes")["nodes"]
    wanted = unfolded(named) if named else [node["name"] for node in nodes]
    known = {node["name"]: node for node in nodes}
    for name in wanted:
        if name not in known:
            print(f"Node {name} not found")
            raise ProgramRefusal
    return "".join(_joined(node_lines(known[name]), args) for name in wanted)


def _partitions(named: str, client: Client, args: ProgramWords) -> str:
    from headnode.apps.cli.batch_programs.sinfo import partition_lines, partitions_of

    found = partitions_of(client.ask("nodes")["nodes"])
    if named and named not in found:
        print(f"Partition {named} not found")
        raise ProgramRefusal
    names = [named] if named else list(found)
    return "".join(_joined(partition_lines(name, found[name]), args) for name in names)


def _reservations(named: str, client: Client, args: ProgramWords) -> str:
    from headnode.apps.cli.batch_programs.reservations import NONE, reservation_lines

    reservations = client.ask("reservations")["reservations"]
    if named and named not in [each["name"] for each in reservations]:
        print(f"Reservation {named} not found")
        raise ProgramRefusal
    nodes = client.ask("nodes")["nodes"] if reservations else []
    wanted = [each for each in reservations if named in ("", each["name"])]
    return "".join(_joined(reservation_lines(each, nodes), args) for each in wanted) or NONE


def _config(_named: str, client: Client, _asked: ProgramWords) -> str:
    name = client.ask("cluster")["cluster"]["name"]
    pairs = {
        "AccountingStorageType": "accounting_storage/headnode",
        "ClusterName": name,
        "MaxArraySize": "100001",
        "MaxJobCount": "10000000",
        "MinJobAge": "300 sec",
        "MpiDefault": "none",
        "SelectType": "select/headnode",
        "SLURM_VERSION": "22.05.8",
    }
    when = time.strftime("%Y-%m-%dT%H:%M:%S")
    return f"Configuration data as of {when}\n" + "".join(f"{key:<23} = {pairs[key]}\n" for key in pairs)


def _ping(_rest: "Sequence[str]", client: Client, _asked: ProgramWords) -> int:
    from headnode.core.model.errors import Unavailable

    try:
        name = client.ask("cluster")["cluster"]["name"]
    except Unavailable:
        print("Slurmctld(primary) is DOWN")
        return 1
    print(f"Slurmctld(primary) at {name} is UP")
    return 0


_ENTITIES = {"job": "jobid", "node": "nodename", "reservation": "reservationname", "res": "reservationname"}
"""Short forms of what is changed; ``update job 12`` names it in a word of its own."""


def _pairs(argv: "Sequence[str]") -> "dict[str, str]":
    found: dict[str, str] = {}
    left = list(argv)
    while left:
        key, equals, value = left.pop(0).partition("=")
        if not equals and left and "=" not in left[0] and not found:
            value = left.pop(0)
        name = key.lower()
        found[_ENTITIES.get(name, name) if not found else name] = value
    return found


def _create(arguments: "Sequence[str]", client: Client, _asked: ProgramWords) -> int:
    """Make a reservation: ``create reservation=course starttime=...``."""
    from headnode.apps.cli.batch_programs.reservations import create_reservation

    kind, parameters = (arguments[0] if arguments else "").lower().partition("=")[0], _pairs(arguments)
    if kind not in ("reservation", "reservationname", "res"):
        raise ProgramRefusal("Invalid entity for create: only reservations are created here", prefix="bare")
    return create_reservation(parameters, client)


def _delete(arguments: "Sequence[str]", client: Client, _asked: ProgramWords) -> int:
    from headnode.apps.cli.batch_programs.reservations import delete_reservation

    for word in arguments:
        delete_reservation(word, client)
    return 0


def _update(arguments: "Sequence[str]", client: Client, _asked: ProgramWords) -> int:
    """Change a job or a node: ``update jobid=12 timelimit=30``."""
    parameters = _pairs(arguments)
    from headnode.core.model.errors import HeadnodeError

    try:
        if "reservationname" in parameters and "jobid" not in parameters:
            from headnode.apps.cli.batch_programs.reservations import update_reservation

            return update_reservation(parameters, client)
        if "nodename" in parameters:
            return _update_node(parameters, client)
        if "jobid" in parameters:
            return update_job(parameters.pop("jobid"), parameters, client)
    except HeadnodeError as refusal:
        lines = dict.fromkeys((in_words(refusal), refusal.what))  # often they are the same
        raise ProgramRefusal(": ".join(lines), prefix="bare") from None
    raise ProgramRefusal("No valid entity in update command: write JobId= or NodeName=", prefix="bare")


def _update_node(parameters: "Mapping[str, str]", client: Client) -> int:
    from headnode.apps.cli.batch_programs.changes import unknown_parameter

    state, reason = parameters.get("state", "").lower(), parameters.get("reason", "")
    for name, value in parameters.items():
        if name not in ("nodename", "state", "reason"):
            raise unknown_parameter(f"{name}={value}")
    if state in ("drain", "down", "fail") and not reason:
        raise ProgramRefusal(
            "You must specify a reason when DOWNING or DRAINING a node. Request denied", prefix="bare"
        )
    if state not in ("drain", "resume", "undrain"):
        raise unknown_parameter(f"state={state}")
    for node in unfolded(parameters["nodename"]):
        if state == "drain":
            client.ask("drain_node", node=node, reason=reason)
        else:
            client.ask("resume_node", node=node)
    return 0


_KEYWORDS: "dict[str, Callable[[Sequence[str], Client, ProgramWords], int]]" = {
    "show": _show,
    "update": _update,
    "create": _create,
    "delete": _delete,
    "ping": _ping,
    "version": lambda *_: print(version()) or 0,
    "hold": act_on_jobs("hold_job", "slurm_hold error"),
    "uhold": act_on_jobs("hold_job", "slurm_hold error"),
    "release": act_on_jobs("release_job", "slurm_release error", all=True),
    "requeue": act_on_jobs("requeue_job", "slurm_requeue error"),
    "requeuehold": act_on_jobs("hold_job", "slurm_requeue error", requeue=True),
    "write": write_script,
    "suspend": act_on_jobs("suspend_job", "slurm_suspend error"),
    "resume": act_on_jobs("resume_job", "slurm_resume error"),
}
