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
                doc="who may overtake a job that waits",
                choices=("easy", "fcfs", "conservative", "conservative-replan"),
            ),
            Parameter(
                name="SchedulingDepth",
                default="100",
                doc="how many waiting jobs may have a reservation, if the policy gives several",
                least=1,
                most=100_000,
            ),
            Parameter(
                name="SchedulingMode",
                default="Queued",
                doc="Queued: a job starts with all that it can have; Balanced: all start with their minimum, "
                "and the rest is shared out again and again",
                choices=("Queued", "Balanced"),
            ),
            Parameter(
                name="PreemptionType",
                default="None",
                doc="in queued mode, what running jobs do for one of higher priority that does not fit: "
                "nothing; Graceful: they give up processors as their tasks end; Immediate: they are "
                "stopped and queued again",
                choices=("None", "Graceful", "Immediate"),
            ),
            Parameter(
                name="TaskImmediatePreemption",
                default="no",
                doc="with PreemptionType=Immediate, whether only the tasks are stopped whose processors are "
                "needed, where their job keeps its minimum",
                choices=("yes", "no"),
            ),
            Parameter(
                name="PriorityBias",
                default="MediumBias",
                doc="in balanced mode, how much more a job gets beyond its minimum than one of a priority "
                "1000 lower: ten times as much, twice as much, or the same",
                choices=("HighBias", "MediumBias", "LowBias", "NoBias"),
            ),
            Parameter(
                name="RebalancingInterval",
                default="10",
                doc="in balanced mode, how often processors are taken from jobs with more than their share, "
                "beside when jobs come and go",
                unit="s",
                least=1,
                most=3600,
            ),
            Parameter(
                name="PreemptionBalancedMode",
                default="Immediate",
                doc="in balanced mode, whether tasks are stopped, and run again, so that others get their "
                "share, or jobs give processors back as their tasks end",
                choices=("Immediate", "Graceful"),
            ),
            Parameter(
                name="HeartbeatInterval",
                default="30",
                doc="how often a node says that it lives",
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
                doc="for how much of HeartbeatInterval × InactivityCount a node that cannot reach the head "
                "goes on with tasks that may be run elsewhere, before they stand still; 0: they never do",
                unit="%",
                least=0,
                most=80,
            ),
            Parameter(
                name="HealthCheckProgram",
                default="",
                doc="what every agent runs to see whether its node is well: any exit code but 0 drains it",
            ),
            Parameter(
                name="HealthCheckInterval",
                default="300",
                doc="how long after the end of a health check the next one begins",
                unit="s",
                least=1,
                most=86400,
            ),
            Parameter(
                name="PrologProgram",
                default="",
                doc="what every agent runs before the first task of a job on its node: any exit code but 0 "
                "drains the node, and the job goes elsewhere",
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
                doc="what every agent runs after the last process of a job on its node, before others get "
                "what it held: any exit code but 0 drains the node",
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
                doc="where nodes have the filters OnJobTaskStart, OnTaskStart and OnJobEnd; empty: nowhere",
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
                doc="what every job passes before it comes into the queue: [OPTION=VALUE ...] /PATH/PROGRAM "
                "[ARGUMENT ...] or plugin:NAME; several parted by ;",
            ),
            Parameter(
                name="SubmissionFilterTimeout",
                default="15",
                doc="how long a submission filter may take to answer",
                unit="s",
                least=1,
                most=600,
            ),
            Parameter(
                name="ActivationFilterProgram",
                default="",
                doc="what every job passes before it gets processors, written as SubmissionFilterProgram",
            ),
            Parameter(
                name="ActivationFilterTimeout",
                default="15",
                doc="how long an activation filter may take to answer",
                unit="s",
                least=1,
                most=600,
            ),
            Parameter(
                name="ActivationFilterInterval",
                default="10",
                doc="how long after a no an activation filter is asked again about the same job",
                unit="s",
                least=1,
                most=3600,
            ),
            Parameter(
                name="DefaultHoldDuration",
                default="900",
                doc="how long an activation filter holds a job that says no date itself",
                unit="s",
                least=60,
                most=604_800,
            ),
            Parameter(
                name="FiltersAtOnce",
                default="8",
                doc="how many filters run at once, of each kind",
                least=1,
                most=64,
            ),
            Parameter(
                name="TaskCancelGracePeriod",
                default="15",
                doc="how long a task may take to end after it was asked to, before it is killed",
                unit="s",
                least=0,
                most=86400,
            ),
            Parameter(
                name="EmailSmtpServer",
                default="",
                doc="the mail server that takes notices, as HOST or HOST:PORT; empty: no mail is sent",
            ),
            Parameter(
                name="EmailEncryption",
                default="none",
                doc="how the head speaks to the mail server",
                choices=("none", "starttls", "tls"),
            ),
            Parameter(
                name="EmailFrom",
                default="",
                doc="who notices are from; empty: headnode@ and the name of the head's machine",
            ),
            Parameter(
                name="EmailDomain",
                default="",
                doc="where the mail of owners goes whose jobs name no address: OWNER@DOMAIN; empty: nowhere",
            ),
            Parameter(
                name="EmailCredentialsFile",
                default="",
                doc="absolute path of a file with USER:PASSWORD for the mail server, for the head alone",
            ),
            Parameter(
                name="NotificationWebhooks",
                default="",
                doc="web addresses that jobs may name for notices, and all below them, between commas",
            ),
            Parameter(
                name="NotificationCopies",
                default="",
                doc="addresses of mail, or allowed hooks, that get every notice, too, between commas",
            ),
            Parameter(
                name="AffinityType",
                default="NonExclusiveJobs",
                doc="whose tasks run on their own processors only, unless they have all of a node",
                choices=AFFINITIES,
            ),
            Parameter(
                name="EnforceMemory",
                default="yes",
                doc="whether a task is killed that needs more memory than its job estimated for processes",
                choices=("yes", "no"),
            ),
            Parameter(
                name="JobProcessLimit",
                default="65536",
                doc="how many processes and threads a job has on a node, at most half of what the system can",
                least=100,
                most=4_194_304,
            ),
            Parameter(
                name="Administrators",
                default="",
                doc="who administers beside root and who started the head: user,@group",
            ),
            Parameter(
                name="Operators",
                default="",
                doc="who sees to the jobs of everybody: user,@group",
            ),
            Parameter(
                name="UserMapping",
                default="name",
                doc="as whom a job runs on another machine: the user of its owner's name there, or only if "
                "that user has the same number",
                choices=("name", "name-and-number"),
            ),
            Parameter(
                name="DefaultWorkDirectory",
                default="Current",
                doc="work directory of jobs from the command line that name none: where the submitter "
                "stands, or the home directory; job files keep the rule of their language",
                choices=("Current", "Home"),
            ),
            Parameter(
                name="SubmitterEnvironment",
                default="",
                doc="variables of the submitter's shell that jobs from the command line get: names between "
                "commas, or all",
            ),
            Parameter(
                name="ClusterEnvironment",
                default="",
                doc="variables of every task, NAME=VALUE;NAME=VALUE; those of a job or task come before them",
            ),
            Parameter(
                name="CommandSentences",
                default="HPCPack",
                doc="whose sentences the programs job, task, node, cluscfg and clusrun print",
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
                doc="how long a task may take that releases a node of its job",
                unit="s",
                least=1,
                most=86400,
            ),
            Parameter(
                name="JobRetryCount",
                default=str(JOB_RETRY_COUNT),
                doc="how often a job goes back to the queue because it lost nodes",
                least=0,
                most=1_000_000,
            ),
            Parameter(
                name="TaskRetryCount",
                default=str(TASK_RETRY_COUNT),
                doc="how often a task that may run twice is run again once the system lost it",
                least=0,
                most=1_000_000,
            ),
            Parameter(
                name="NodeStartFailureLimit",
                default=str(START_FAILURE_LIMIT),
                doc="after how many tasks in a row that cannot be started on a node, and can elsewhere, the "
                "node is drained; 0: never",
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
                doc="how long the head remembers what a request with an idempotency key made",
                unit="s",
                least=60,
                most=604800,
            ),
            Parameter(
                name="LicenceProgram",
                default="",
                doc="a program of the head's machine that prints Licences, one feature:number on a line",
            ),
            Parameter(
                name="TTLCompletedJobs",
                default="0",
                doc="how long after the end of a job nodes keep the output that was captured for it; "
                "0: for ever",
                unit="days",
                least=0,
                most=36500,
            ),
            Parameter(
                name="LicenceInterval",
                default="60",
                doc="how long after the end of the licence program it runs again",
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
