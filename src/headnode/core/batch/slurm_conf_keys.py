"""The keys of slurm.conf: which parameter of the cluster each is, or what there is in its place."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from headnode.core.formats.batch.slurm import written_seconds
from headnode.core.model.quantities import FOREVER

Global = dict[str, tuple[int, str]]
"""Settings of the cluster by their keys in lower case: the line, and the value."""

ELSEWHERE: Final = {
    "jobsubmitplugins": "write a submission filter: docs/filters.md",
    "prologslurmctld": "write an activation filter: docs/filters.md",
    "epilogslurmctld": "a webhook tells the end of jobs: EventWebhooks",
    "taskprolog": "write a node filter: docs/hooks.md",
    "taskepilog": "write a node filter: docs/hooks.md",
    "prologflags": "a prolog runs when the job gets the node",
    "mailprog": "set EmailSmtpServer",
    "mailto": "set NotificationCopies",
    "preempttype": "preemption is by the priority of jobs: PreemptionType",
    "preemptmode": "preemption is by the priority of jobs: PreemptionType",
    "priorityweightqos": "the priority of a job template goes before all weights",
    "priorityweightpartition": "the priority of a job template goes before all weights",
    "priorityweightassoc": "there is no such factor",
    "priorityweighttres": "there is no such factor; see size in PriorityWeights",
    "topologyplugin": 'hn cluster params "Topology=$(cat /etc/slurm/topology.conf)"',
    "accountingstorageenforce": "limits are always enforced",
    "privatedata": "all users see all jobs; PrivateEnvironments hides variables and scripts",
    "suspendprogram": "see elastic nodes: docs/elastic.md",
    "resumeprogram": "see elastic nodes: docs/elastic.md",
    "suspendtime": "see elastic nodes: docs/elastic.md",
    "defmempercpu": "a job that requests no memory has no limit; see process_memory in docs/templates.md",
    "defmempernode": "a job that requests no memory has no limit; see process_memory in docs/templates.md",
    "maxmempercpu": "see process_memory in docs/templates.md",
    "maxmempernode": "see process_memory in docs/templates.md",
    "jobrequeue": "a task is requeued after the loss of its node if it is rerunnable",
    "allowaccounts": "write a submission filter: docs/filters.md",
    "denyaccounts": "write a submission filter: docs/filters.md",
    "allowqos": "write a submission filter: docs/filters.md",
    "denyqos": "write a submission filter: docs/filters.md",
    "qos": "set the limits of the QOS in UserLimits, ProjectLimits or GroupLimits",
    "prioritytier": "set the priority in the job template of the partition",
    "priorityjobfactor": "set the priority in the job template of the partition",
    "state": "drain its nodes: hn node drain NODES",
    "hidden": "all users see all node groups",
    "rootonly": "write a submission filter: docs/filters.md",
    "maxcpuspernode": "see docs/templates.md",
    "tresbillingweights": "set UsageWeights, which are those of all nodes",
}
"""What there is in the place of a key that is not carried over."""

WITHOUT_MEANING: Final = frozenset(
    " ".join(
        (
            "accountinghost accountingstoragebackuphost accountingstoragehost accountingstoragepass",
            "accountingstorageport accountingstoragetres accountingstoragetype accountingstorageuser",
            "accountingstoreflags acctgatherenergytype acctgathernodefreq authalttypes authtype",
            "batchstarttimeout communicationparameters completewait controladdr controlmachine credtype",
            "cryptotype debugflags firstjobid grestypes healthchecknodestate inactivelimit",
            "jobacctgatherfrequency jobacctgathertype jobcomphost jobcomploc jobcomptype launchtype",
            "maxarraysize maxjobcount maxstepcount maxtaskspernode messagetimeout minjobage mpidefault",
            "mpiparams plugindir plugstackconfig prioritycalcperiod priorityfavorsmall priorityflags",
            "prioritytype priorityusageresetperiod proctracktype propagateresourcelimits",
            "returntoservice schedulerparameters selecttype selecttypeparameters slurmctlddebug",
            "slurmctldlogfile slurmctldparameters slurmctldpidfile slurmctldport slurmctldtimeout",
            "slurmddebug slurmdlogfile slurmdparameters slurmdpidfile slurmdport slurmdspooldir",
            "slurmduser slurmuser statesavelocation switchtype taskplugin taskpluginparam tcptimeout",
            "tmpfs treewidth unkillablesteptimeout usepam vsizefactor waittime x11parameters",
        )
    ).split()
)
"""Keys of parts that Headnode does not have, or for which it needs no setting."""


def parameters_of(settings: Global) -> tuple[dict[str, str], list[str]]:
    """Return the parameters that the settings are, and notes; settings that were read are taken away.

    >>> parameters_of({"killwait": (3, "30"), "schedulertype": (4, "sched/builtin")})
    ({'TaskCancelGracePeriod': '30s', 'SchedulingPolicy': 'fcfs'}, [])
    """
    values: dict[str, str] = {}
    notes: list[str] = []
    weights = ",".join(_weights(settings))
    if weights:
        values["PriorityWeights"] = weights
    for key, (line, value) in list(settings.items()):
        if key in _PARAMETERS:
            found = _PARAMETERS[key](value)
            if isinstance(found, str):
                notes.append(f"line {line}: {key}={value[:60]}: {found}")
            values |= found if isinstance(found, dict) else {}
            del settings[key]
        elif key in ELSEWHERE:
            notes.append(f"line {line}: {key}={value[:60]}: {ELSEWHERE[key]}")
            del settings[key]
    return values, notes


def _weights(settings: Global) -> Iterator[str]:
    """Yield the weights of the factors; basic priority has none."""
    small = -1 if settings.get("priorityfavorsmall", (0, ""))[1].upper() == "YES" else 1
    plugin = settings.get("prioritytype", (0, "priority/multifactor"))[1].lower()
    for key, factor in _FACTORS.items():
        text = settings.pop(key, (0, ""))[1]
        if re.fullmatch(r"[1-9][0-9]{0,5}", text) and plugin.endswith("multifactor"):
            yield f"{factor}={int(text) * (small if factor == 'size' else 1)}"
        elif re.fullmatch(r"[1-9][0-9]+", text) and plugin.endswith("multifactor"):
            yield f"{factor}=1000000"


_FACTORS: Final = {
    "priorityweightfairshare": "fair-share",
    "priorityweightage": "age",
    "priorityweightjobsize": "size",
}


def _whole(value: str) -> int | None:
    return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else None


def _seconds(name: str, least: int = 1) -> "Reader":
    def read(value: str) -> dict[str, str] | str:
        number = _whole(value)
        if number is None:
            return "it is not a number of seconds"
        return {name: f"{number}s"} if number >= least else {}

    return read


def _time(name: str) -> "Reader":
    def read(value: str) -> dict[str, str] | str:
        seconds = written_seconds(value)
        if seconds is None:
            return "it is not a time"
        return {} if seconds == FOREVER else {name: f"{int(seconds)}s"}

    return read


def _program(name: str) -> "Reader":
    def read(value: str) -> dict[str, str] | str:
        if not value.startswith("/") or re.search(r"[*?,]", value):
            return f"write one program with its whole path: {name}"
        return {name: value}

    return read


def _node_timeout(value: str) -> dict[str, str] | str:
    """SlurmdTimeout: HeartbeatInterval times InactivityCount."""
    number = _whole(value)
    if not number:
        return "a node that does not answer always loses its tasks: HeartbeatInterval, InactivityCount"
    return {"HeartbeatInterval": f"{max(1, number // 3)}s", "InactivityCount": "3"}


def _licences(value: str) -> dict[str, str] | str:
    counts = [word.partition(":") for word in re.split(r"[,;]", value) if word]
    if any("@" in name or not re.fullmatch(r"[0-9]*", number) for name, _, number in counts):
        return "set Licences, or a LicenceProgram that asks the server"
    return {"Licences": ",".join(f"{name}:{number or 1}" for name, _, number in counts)} if counts else {}


def _policy(value: str) -> dict[str, str] | str:
    return {"SchedulingPolicy": "fcfs"} if value.lower() == "sched/builtin" else {}


Reader = Callable[[str], dict[str, str] | str]
"""Returns the parameters of a value, or why it is none."""

_PARAMETERS: Final[dict[str, Reader]] = {
    "prioritymaxage": _time("PriorityMaxAge"),
    "prioritydecayhalflife": _time("UsageHalfLife"),
    "killwait": _seconds("TaskCancelGracePeriod", 0),
    "slurmdtimeout": _node_timeout,
    "prolog": _program("PrologProgram"),
    "epilog": _program("EpilogProgram"),
    "healthcheckprogram": _program("HealthCheckProgram"),
    "healthcheckinterval": _seconds("HealthCheckInterval"),
    "prologepilogtimeout": _seconds("PrologTimeout"),
    "licenses": _licences,
    "schedulertype": _policy,
}
