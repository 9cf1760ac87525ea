"""Cluster parameters: each declared once, with its default, unit, bounds and meaning.

Source: HPC Pack cluster parameters, whose names are kept where the meaning is the same.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from headnode.core.filtering.registration import read_filters
from headnode.core.formats.term_values import read_pairs
from headnode.core.launching.processors import AFFINITIES
from headnode.core.lifecycle.faulty_nodes import START_FAILURE_LIMIT
from headnode.core.lifecycle.hook_addresses import read_hook_address
from headnode.core.lifecycle.hook_settings import EPILOG_TIMEOUT, NODE_FILTER_TIMEOUT, PROLOG_TIMEOUT
from headnode.core.lifecycle.receipts import LIFETIME
from headnode.core.lifecycle.receipts import PARAMETER as IDEMPOTENCY_LIFETIME
from headnode.core.lifecycle.retries import JOB_RETRY_COUNT, TASK_RETRY_COUNT
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Seconds


class Parameter(msgspec.Struct, frozen=True):
    """One setting of the cluster.  Numbers have a unit and bounds; words have their choices."""

    name: str
    default: str
    doc: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()


PARAMETERS: Mapping[str, Parameter] = MappingProxyType(
    {
        parameter.name.lower(): parameter
        for parameter in (
            Parameter(
                name="SchedulingPolicy",
                default="easy",
                doc="which waiting jobs may be backfilled; fcfs: none",
                choices=("easy", "fcfs", "conservative", "conservative-replan"),
            ),
            Parameter(
                name="SchedulingDepth",
                default="100",
                doc="how many waiting jobs may have a reservation under the two conservative policies",
                least=1,
                most=100_000,
            ),
            Parameter(
                name="SchedulingMode",
                default="Queued",
                doc="Queued: a job starts with as many processors as it can get; Balanced: all jobs start "
                "with their minimum and share the rest",
                choices=("Queued", "Balanced"),
            ),
            Parameter(
                name="PreemptionType",
                default="None",
                doc="in queued mode, what happens to running jobs when a job of higher priority does not "
                "fit: None: nothing; Graceful: they release processors as their tasks end; Immediate: "
                "they are stopped and requeued",
                choices=("None", "Graceful", "Immediate"),
            ),
            Parameter(
                name="TaskImmediatePreemption",
                default="no",
                doc="with PreemptionType=Immediate: yes stops only the tasks whose processors are needed, "
                "if their job keeps its minimum; no stops whole jobs",
                choices=("yes", "no"),
            ),
            Parameter(
                name="PriorityBias",
                default="MediumBias",
                doc="in balanced mode, how many more processors beyond its minimum a job gets than a job "
                "with a priority 1000 lower: ten times as many, twice as many, or the same number",
                choices=("HighBias", "MediumBias", "LowBias", "NoBias"),
            ),
            Parameter(
                name="RebalancingInterval",
                default="10",
                doc="in balanced mode, how often processors are taken from jobs that have more than their "
                "share, in addition to each start and end of a job",
                unit="s",
                least=1,
                most=3600,
            ),
            Parameter(
                name="PreemptionBalancedMode",
                default="Immediate",
                doc="in balanced mode: Immediate: tasks are stopped and run again, so that other jobs get "
                "their share; Graceful: jobs release processors as their tasks end",
                choices=("Immediate", "Graceful"),
            ),
            Parameter(
                name="HeartbeatInterval",
                default="30",
                doc="how often an agent sends a heartbeat",
                unit="s",
                least=1,
                most=3600,
            ),
            Parameter(
                name="InactivityCount",
                default="3",
                doc="how many heartbeats a node may miss before its tasks are given up",
                least=1,
                most=1000,
            ),
            Parameter(
                name="NodeLease",
                default="50",
                doc="the part of HeartbeatInterval × InactivityCount for which a node without a connection "
                "to the head continues tasks that may be run elsewhere; then it stops them; 0: it never "
                "stops them",
                unit="%",
                least=0,
                most=80,
            ),
            Parameter(
                name="HealthCheckProgram",
                default="",
                doc="the program that every agent runs to check its node; any exit code but 0 drains the "
                "node",
            ),
            Parameter(
                name="HealthCheckInterval",
                default="300",
                doc="the time from the end of a health check to the start of the next one",
                unit="s",
                least=1,
                most=86400,
            ),
            Parameter(
                name="PrologProgram",
                default="",
                doc="the program that every agent runs before the first task of a job on its node; any exit "
                "code but 0 drains the node, and the job is requeued",
            ),
            Parameter(
                name="PrologTimeout",
                default=str(PROLOG_TIMEOUT),
                doc="how long a prolog may take",
                unit="s",
                least=1,
                most=86400,
            ),
            Parameter(
                name="EpilogProgram",
                default="",
                doc="the program that every agent runs after the last process of a job on its node, before "
                "other jobs get its processors; any exit code but 0 drains the node",
            ),
            Parameter(
                name="EpilogTimeout",
                default=str(EPILOG_TIMEOUT),
                doc="how long an epilog may take",
                unit="s",
                least=1,
                most=86400,
            ),
            Parameter(
                name="NodeFilterDirectory",
                default="",
                doc="the directory on the nodes with the filters OnJobTaskStart, OnTaskStart and OnJobEnd; "
                "empty: no node filters",
            ),
            Parameter(
                name="NodeFilterTimeout",
                default=str(NODE_FILTER_TIMEOUT),
                doc="how long a filter of a node may take",
                unit="s",
                least=1,
                most=86400,
            ),
            Parameter(
                name="SubmissionFilterProgram",
                default="",
                doc="filters that every job passes before it enters the queue: [OPTION=VALUE ...] "
                "/PATH/PROGRAM [ARGUMENT ...] or plugin:NAME; separate several by ;",
            ),
            Parameter(
                name="SubmissionFilterTimeout",
                default="15",
                doc="how long a submission filter may take; after that the job fails",
                unit="s",
                least=1,
                most=600,
            ),
            Parameter(
                name="ActivationFilterProgram",
                default="",
                doc="filters that every job passes before it gets processors, written as "
                "SubmissionFilterProgram",
            ),
            Parameter(
                name="ActivationFilterTimeout",
                default="15",
                doc="how long an activation filter may take; after that it counts as exit code 2",
                unit="s",
                least=1,
                most=600,
            ),
            Parameter(
                name="ActivationFilterInterval",
                default="10",
                doc="the time after a rejection until activation filters are called again for the same job",
                unit="s",
                least=1,
                most=3600,
            ),
            Parameter(
                name="DefaultHoldDuration",
                default="900",
                doc="how long an activation filter holds a job that has no date of its own",
                unit="s",
                least=60,
                most=604_800,
            ),
            Parameter(
                name="FiltersAtOnce",
                default="8",
                doc="how many filters run at once, of each of the two kinds",
                least=1,
                most=64,
            ),
            Parameter(
                name="TaskCancelGracePeriod",
                default="15",
                doc="the time between SIGTERM and SIGKILL when a task is canceled",
                unit="s",
                least=0,
                most=86400,
            ),
            Parameter(
                name="EmailSmtpServer",
                default="",
                doc="the mail server for notifications, as HOST or HOST:PORT; empty: no mail is sent",
            ),
            Parameter(
                name="EmailEncryption",
                default="none",
                doc="how the head connects to the mail server",
                choices=("none", "starttls", "tls"),
            ),
            Parameter(
                name="EmailFrom",
                default="",
                doc="the sender of notifications; empty: headnode@ and the name of the head's machine",
            ),
            Parameter(
                name="EmailDomain",
                default="",
                doc="for jobs without an address: mail goes to OWNER@DOMAIN; empty: they get no mail",
            ),
            Parameter(
                name="EmailCredentialsFile",
                default="",
                doc="absolute path of a file with USER:PASSWORD for the mail server; only the head should "
                "be able to read it",
            ),
            Parameter(
                name="NotificationWebhooks",
                default="",
                doc="web addresses, and all addresses below them, that jobs may name for notifications; "
                "separate several by commas",
            ),
            Parameter(
                name="NotificationCopies",
                default="",
                doc="mail addresses, or allowed webhooks, that also get every notification; separate "
                "several by commas",
            ),
            Parameter(
                name="AffinityType",
                default="NonExclusiveJobs",
                doc="the jobs whose tasks are bound to their own processors, unless they have all "
                "processors of a node",
                choices=AFFINITIES,
            ),
            Parameter(
                name="EnforceMemory",
                default="yes",
                doc="whether a task is killed if it needs more memory than its job estimated for its "
                "processes",
                choices=("yes", "no"),
            ),
            Parameter(
                name="JobProcessLimit",
                default="65536",
                doc="how many processes and threads a job may have on one node, at most half of what the "
                "system allows",
                least=100,
                most=4_194_304,
            ),
            Parameter(
                name="Administrators",
                default="",
                doc="administrators, in addition to root and the user who started the head: user,@group",
            ),
            Parameter(
                name="Operators",
                default="",
                doc="operators, who may manage the jobs of all users: user,@group",
            ),
            Parameter(
                name="UserMapping",
                default="name",
                doc="the user as whom a job runs on another machine: the user with the name of its owner, "
                "or that user only if the user id is the same too",
                choices=("name", "name-and-number"),
            ),
            Parameter(
                name="DefaultWorkDirectory",
                default="Current",
                doc="work directory of jobs from the command line that name none: the current directory of "
                "the submitter, or the home directory; job files keep the rule of their language",
                choices=("Current", "Home"),
            ),
            Parameter(
                name="SubmitterEnvironment",
                default="",
                doc="variables of the submitter's shell that jobs from the command line get: names "
                "separated by commas, or all",
            ),
            Parameter(
                name="ClusterEnvironment",
                default="",
                doc="variables of every task, NAME=VALUE;NAME=VALUE; variables of a job or task override "
                "them",
            ),
            Parameter(
                name="CommandSentences",
                default="HPCPack",
                doc="the wording that the programs job, task, node, cluscfg and clusrun print",
                choices=("HPCPack", "CCS"),
            ),
            Parameter(
                name="PrivateEnvironments",
                default="yes",
                doc="whether only the owner of a job and administrators see its environment variables",
                choices=("yes", "no"),
            ),
            Parameter(
                name="NodeReleaseTaskTimeout",
                default="15",
                doc="how long a NodeRelease task may take",
                unit="s",
                least=1,
                most=86400,
            ),
            Parameter(
                name="JobRetryCount",
                default=str(JOB_RETRY_COUNT),
                doc="how often a job is requeued because it lost nodes, before it fails",
                least=0,
                most=1_000_000,
            ),
            Parameter(
                name="TaskRetryCount",
                default=str(TASK_RETRY_COUNT),
                doc="how often a rerunnable task is run again after the system lost it, before it fails",
                least=0,
                most=1_000_000,
            ),
            Parameter(
                name="NodeStartFailureLimit",
                default=str(START_FAILURE_LIMIT),
                doc="after how many tasks in a row that cannot start on a node, and can elsewhere, the node "
                "is drained; 0: never",
                least=0,
                most=1_000_000,
            ),
            Parameter(
                name="Licences",
                default="",
                doc="licences of the whole cluster, counted by the scheduler: feature:number,feature:number",
            ),
            Parameter(
                name=IDEMPOTENCY_LIFETIME,
                default=str(LIFETIME),
                doc="how long the head remembers the result of a request with an idempotency key",
                unit="s",
                least=60,
                most=604800,
            ),
            Parameter(
                name="LicenceProgram",
                default="",
                doc="the program on the head's machine that prints Licences, one feature:number on each line",
            ),
            Parameter(
                name="TTLCompletedJobs",
                default="0",
                doc="how long after the end of a job nodes keep its captured output; 0: unlimited",
                unit="days",
                least=0,
                most=36500,
            ),
            Parameter(
                name="LicenceInterval",
                default="60",
                doc="the time from the end of the licence program to its next run",
                unit="s",
                least=1,
                most=86400,
            ),
        )
    }
)


def parameters_with(policies: Iterable[str]) -> Mapping[str, Parameter]:
    """Return the parameters of a cluster that can choose from these policies."""
    policy = msgspec.structs.replace(PARAMETERS["schedulingpolicy"], choices=tuple(policies))
    return MappingProxyType({**PARAMETERS, policy.name.lower(): policy})


class Settings:
    """The parameters as they are now: what was set, and defaults."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """Return the value of a parameter as text."""
        return self._values.get(name, PARAMETERS[name.lower()].default)

    def number(self, name: str) -> float:
        """Return the value of a parameter as a number, in its unit."""
        return float(self.text(name))

    def environment(self) -> dict[str, str]:
        """Return the variables that every task has, unless its job or itself says otherwise."""
        return read_pairs(self.text("ClusterEnvironment"))

    def patience(self) -> Seconds:
        """Return how long a node may be away before its tasks are given up."""
        return Seconds(self.number("HeartbeatInterval") * self.number("InactivityCount"))

    def lease(self) -> Seconds:
        """Return how long tasks that may run elsewhere go on where the head is not reached; 0: always."""
        return Seconds(self.patience() * self.number("NodeLease") / 100)

    def depth(self) -> int:
        """Return how many waiting jobs may have a reservation."""
        return int(self.number("SchedulingDepth"))

    def people(self, name: str) -> tuple[str, ...]:
        """Return the users and @groups that a parameter names."""
        return read_people(self.text(name))

    def licences(self) -> dict[str, int]:
        """Return how many of each licence there are."""
        text = self.text("Licences")
        return read_licences(text) if text else {}


def read_people(text: str) -> tuple[str, ...]:
    """Read ``user,@group,...``."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def read_licences(text: str) -> dict[str, int]:
    """Read ``feature:number,...``; the last colon counts, since a consumable of SSS is called name:type.

    Raises:  BadRequest ``licences``.
    """
    found: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        feature, colon, amount = part.rpartition(":")
        if not colon or not feature.strip() or not amount.strip().isdecimal() or feature.strip() in found:
            raise BadRequest(
                code="licences",
                what=f"licences {text!r} are not understood at {part!r}",
                fix="write each feature once with its number, for example solver:8,mesher:2",
            )
        found[feature.strip()] = int(amount)
    return found


def check_parameter(
    name: str, value: str | None, parameters: Mapping[str, Parameter] = PARAMETERS
) -> Parameter:
    """Return the declared parameter, if it may have this value.

    Raises:  BadRequest ``no-such-parameter`` or ``parameter-value``.
    """
    known = parameters.get(name.lower())
    if known is None:
        names = ", ".join(parameter.name for parameter in parameters.values())
        raise BadRequest(
            code="no-such-parameter", what=f"there is no cluster parameter {name!r}", fix=f"there are {names}"
        )
    if value is None:
        return known
    if known.choices and value not in known.choices:
        raise _wrong(known, value, f"choose one of {', '.join(known.choices)}")
    if known.least is not None and known.most is not None:
        try:
            number = float(value)
        except ValueError:
            raise _wrong(known, value, "write a number") from None
        if not known.least <= number <= known.most:
            raise _wrong(known, value, f"write {known.least:.12g} to {known.most:.12g} {known.unit}".rstrip())
    if known.name == "Licences":
        read_licences(value)
    if known.name in ("SubmissionFilterProgram", "ActivationFilterProgram"):
        read_filters(value)
    if known.name in ("Administrators", "Operators"):
        _check_people(known, value)
    if known.name == "ClusterEnvironment":
        _check_environment(known, value)
    if known.name == "SubmitterEnvironment":
        _check_variables(known, value)
    if known.name == "EmailSmtpServer" and value:
        _check_server(known, value)
    if known.name == "EmailCredentialsFile" and value and not value.startswith("/"):
        raise _wrong(known, value, "write the absolute path of a file that holds USER:PASSWORD")
    if known.name == "NotificationWebhooks" and value:
        _check_hooks(known, value)
    if known.name == "NodeFilterDirectory" and value and not value.startswith("/"):
        raise _wrong(known, value, "write the absolute path of a directory, such as /etc/headnode/filters")
    if known.name in ("HealthCheckProgram", "LicenceProgram", "PrologProgram", "EpilogProgram") and value:
        _check_program(known, value)
    return known


def _check_environment(known: Parameter, value: str) -> None:
    try:
        names = [*read_pairs(value)]
    except BadRequest:
        names = [""]
    if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) for name in names):
        raise _wrong(known, value, "write variables as NAME=VALUE;NAME=VALUE")
    reserved = [name for name in names if name.startswith(("CCP_TASK", "CCP_JOBID", "HEADNODE_"))]
    if reserved:
        raise _wrong(known, value, f"{reserved[0]} is set by the scheduler: choose another name")


def _check_variables(known: Parameter, value: str) -> None:
    names = [name.strip() for name in value.split(",")]
    if value and not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names):
        raise _wrong(
            known, value, "write names of variables between commas, such as PATH,VIRTUAL_ENV; or all"
        )


def _check_server(known: Parameter, value: str) -> None:
    _, colon, port = value.rpartition(":")
    if any(letter.isspace() for letter in value) or (colon and not (port.isdecimal() or port.endswith("]"))):
        raise _wrong(known, value, "write HOST or HOST:PORT, for example mail.example.org:25")


def _check_hooks(known: Parameter, value: str) -> None:
    fix = "write addresses below which hooks may be, host and slash included: https://chat.example.org/hooks/"
    for hook in filter(None, map(str.strip, value.split(","))):
        try:
            read = read_hook_address(hook)
        except BadRequest as why:
            raise _wrong(known, value, f"{why.what}; {fix}") from None
        if read.query or not hook.partition("://")[2].partition("/")[1]:
            raise _wrong(known, value, fix)


def _check_people(known: Parameter, value: str) -> None:
    for name in read_people(value):
        if name in ("@", "*") or any(sign.isspace() for sign in name):
            raise _wrong(
                known, value, "write names of users, and of groups with an @ before them: ann,@admins"
            )


def _check_program(known: Parameter, value: str) -> None:
    try:
        words = shlex.split(value)
    except ValueError:
        words = []
    if not words or not words[0].startswith("/"):
        raise _wrong(known, value, "write the absolute path of a program, with its arguments as in a shell")


def _wrong(known: Parameter, value: str, fix: str) -> BadRequest:
    return BadRequest(code="parameter-value", what=f"{known.name} cannot be {value!r}", fix=fix)
