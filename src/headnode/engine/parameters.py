"""Cluster parameters: each declared once, with its default, unit, bounds and meaning.

Source: HPC Pack cluster parameters, whose names are kept where the meaning is the same."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from headnode.core.launching.affinity import AFFINITIES
from headnode.core.state.decide import LIFETIME
from headnode.core.state.decide import PARAMETER as IDEMPOTENCY_LIFETIME
from headnode.core.state.hooks import EPILOG_TIMEOUT, NODE_FILTER_TIMEOUT, PROLOG_TIMEOUT
from headnode.core.state.node_faults import JOB_RETRY_COUNT, START_FAILURE_LIMIT, TASK_RETRY_COUNT
from headnode.core.state.owner_usage import HALF_LIFE, HALF_LIFE_PARAMETER


class Parameter(msgspec.Struct, frozen=True):
    """One cluster parameter.  Numbers have a unit and limits; words have their choices."""

    name: str
    doc: str
    default: str = ""
    unit: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()


_DECLARED = (
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
        doc="Queued: a job starts with as many processors as it can get; Balanced: all jobs start with "
        "their minimum and share the rest",
        choices=("Queued", "Balanced"),
    ),
    Parameter(
        name="PreemptionType",
        default="None",
        doc="in queued mode, what happens to running jobs when a job of higher priority does not fit: None: "
        "nothing; Graceful: they release processors as their tasks end; Immediate: they are stopped and "
        "requeued",
        choices=("None", "Graceful", "Immediate"),
    ),
    Parameter(
        name="TaskImmediatePreemption",
        default="no",
        doc="with PreemptionType=Immediate: yes stops only the tasks whose processors are needed, if their "
        "job keeps its minimum; no stops whole jobs",
        choices=("yes", "no"),
    ),
    Parameter(
        name="PriorityBias",
        default="MediumBias",
        doc="in balanced mode, how many more processors beyond its minimum a job gets than a job with a "
        "priority 1000 lower: ten times as many, twice as many, or the same number",
        choices=("HighBias", "MediumBias", "LowBias", "NoBias"),
    ),
    Parameter(
        name="RebalancingInterval",
        default="10",
        doc="in balanced mode, how often processors are taken from jobs that have more than their share, in "
        "addition to each start and end of a job",
        unit="s",
        least=1,
        most=3600,
    ),
    Parameter(
        name="PreemptionBalancedMode",
        default="Immediate",
        doc="in balanced mode: Immediate: tasks are stopped and run again, so that other jobs get their "
        "share; Graceful: jobs release processors as their tasks end",
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
        doc="the part of HeartbeatInterval × InactivityCount for which a node without a connection to the "
        "head continues tasks that may be run elsewhere; then it stops them; 0: it never stops them",
        unit="%",
        least=0,
        most=80,
    ),
    Parameter(
        name="HealthCheckProgram",
        doc="the program that every agent runs to check its node; any exit code but 0 drains the node",
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
        doc="the program that every agent runs before the first task of a job on its node; any exit code "
        "but 0 drains the node, and the job is requeued",
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
        doc="the program that every agent runs after the last process of a job on its node, before other "
        "jobs get its processors; any exit code but 0 drains the node",
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
        doc="the directory on the nodes with the filters OnJobTaskStart, OnTaskStart and OnJobEnd; empty: "
        "no node filters",
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
        doc="filters that every job passes before it enters the queue: [OPTION=VALUE ...] /PATH/PROGRAM "
        "[ARGUMENT ...] or plugin:NAME; separate several by ;",
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
        doc="filters that every job passes before it gets processors, written as SubmissionFilterProgram",
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
        doc="the sender of notifications; empty: headnode@ and the name of the head's machine",
    ),
    Parameter(
        name="EmailDomain",
        doc="for jobs without an address: mail goes to OWNER@DOMAIN; empty: they get no mail",
    ),
    Parameter(
        name="EmailCredentialsFile",
        doc="absolute path of a file with USER:PASSWORD for the mail server, private to the head",
    ),
    Parameter(
        name="NotificationWebhooks",
        doc="web addresses, and all addresses below them, that jobs may name for notifications; separate "
        "several by commas",
    ),
    Parameter(
        name="NotificationCopies",
        doc="mail addresses, or allowed webhooks, that also get every notification; separate several by "
        "commas",
    ),
    Parameter(
        name="EventWebhooks",
        doc="web addresses that get the events of the cluster; separate several by commas",
    ),
    Parameter(
        name="EventWebhookTypes",
        default="job,node",
        doc="the types of these events, such as job.ended, or node for all; separate several by commas",
    ),
    Parameter(
        name="EventWebhookSecretFile",
        doc="a file with the key that signs these events",
    ),
    Parameter(
        name="AffinityType",
        default="NonExclusiveJobs",
        doc="the jobs whose tasks are bound to their own processors, unless they have all processors of a "
        "node",
        choices=AFFINITIES,
    ),
    Parameter(
        name="EnforceMemory",
        default="yes",
        doc="whether a task is killed if it needs more memory than its job estimated for its processes",
        choices=("yes", "no"),
    ),
    Parameter(
        name="JobProcessLimit",
        default="65536",
        doc="how many processes and threads a job may have on one node, at most half of what the system "
        "allows",
        least=100,
        most=4_194_304,
    ),
    Parameter(
        name="Administrators",
        doc="administrators, in addition to root and the user who started the head: user,@group",
    ),
    Parameter(
        name="Operators",
        doc="operators, who may manage the jobs of all users: user,@group",
    ),
    Parameter(
        name="UserMapping",
        default="name",
        doc="the user as whom a job runs on another machine: the user with the name of its owner, or that "
        "user only if the user id is the same too",
        choices=("name", "name-and-number"),
    ),
    Parameter(
        name="DefaultWorkDirectory",
        default="Current",
        doc="work directory of jobs from the command line that name none: the current directory of the "
        "submitter, or the home directory; job files keep the rule of their language",
        choices=("Current", "Home"),
    ),
    Parameter(
        name="SubmitterEnvironment",
        doc="variables of the submitter's shell that jobs from the command line get: names separated by "
        "commas, or all",
    ),
    Parameter(
        name="ClusterEnvironment",
        doc="variables of every task, NAME=VALUE;NAME=VALUE; variables of a job or task override them",
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
        doc="after how many tasks in a row that cannot start on a node, and can elsewhere, the node is "
        "drained; 0: never",
        least=0,
        most=1_000_000,
    ),
    Parameter(
        name=HALF_LIFE_PARAMETER,
        default=str(HALF_LIFE),
        doc="the time after which used processor-seconds count half, in policies that share by usage",
        unit="s",
        least=60,
        most=3_153_600_000,
    ),
    Parameter(
        name="Licences",
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
PARAMETERS: Mapping[str, Parameter] = MappingProxyType({each.name.lower(): each for each in _DECLARED})
