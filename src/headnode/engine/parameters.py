"""Cluster parameters: each declared once, with its default, unit, bounds and meaning.

Source: HPC Pack cluster parameters, whose names are kept where the meaning is the same."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from headnode.core.model.node import AFFINITIES, TOPOLOGY_PARAMETER
from headnode.core.model.owner_limits import LimitScope
from headnode.core.model.priority_factors import (
    MAX_AGE,
    MAX_AGE_PARAMETER,
    PROJECT_SHARES,
    USER_SHARES,
    WEIGHTS_PARAMETER,
)
from headnode.core.state.bank_ledger import BANK
from headnode.core.state.decide import LIFETIME
from headnode.core.state.decide import PARAMETER as IDEMPOTENCY_LIFETIME
from headnode.core.state.hooks import EPILOG_TIMEOUT, NODE_FILTER_TIMEOUT, PROLOG_TIMEOUT
from headnode.core.state.job_end import PURGE_JOBS_AFTER, TTL_COMPLETED_JOBS
from headnode.core.state.job_request import TRANSFER_HOLD_PARAMETER, TRANSFER_HOLD_TIME
from headnode.core.state.node_faults import JOB_RETRY_COUNT, START_FAILURE_LIMIT, TASK_RETRY_COUNT
from headnode.core.state.owner_usage import HALF_LIFE, HALF_LIFE_PARAMETER, USAGE_WEIGHTS_PARAMETER
from headnode.core.state.recurring_record import MOST, MOST_OF_USER, SHORTEST, SHORTEST_INTERVAL

SECONDS_IN_UNIT: Mapping[str, int] = MappingProxyType({"s": 1, "days": 86400})
"""The units of times.  A value of such a parameter may also be written with units: 90s, 2m, 1h30m, 7d."""


class Parameter(msgspec.Struct, frozen=True):
    """One cluster parameter.  Numbers have a unit and limits; words have their choices."""

    name: str
    doc: str
    default: str = ""
    unit: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def seconds_in_unit(self) -> int:
        """How many seconds a time has in its unit; 0: this is no time."""
        return SECONDS_IN_UNIT.get(self.unit, 0)


_DECLARED = (
    Parameter("SchedulingPolicy", "which waiting jobs may be backfilled; fcfs: none",
        default="easy", choices=("easy", "fcfs", "conservative", "conservative-replan")),
    Parameter("SchedulingDepth", default="100", least=1, most=100_000,
        doc="how many waiting jobs may have a reservation under the two conservative policies"),
    Parameter("SchedulingMode", default="Queued", choices=("Queued", "Balanced"),
        doc="Queued: a job starts with as many processors as it can get; Balanced: all jobs start with their"
        " minimum and share the rest"),
    Parameter("PreemptionType", default="None", choices=("None", "Graceful", "Immediate"),
        doc="in queued mode, what happens to running jobs when a job of higher priority does not fit: None: "
        "nothing; Graceful: they release processors as their tasks end; Immediate: they are stopped and "
        "requeued"),
    Parameter("TaskImmediatePreemption", default="no", choices=("yes", "no"),
        doc="with PreemptionType=Immediate: yes stops only the tasks whose processors are needed, if their "
        "job keeps its minimum; no stops whole jobs"),
    Parameter("PriorityBias", default="MediumBias", choices=("HighBias", "MediumBias", "LowBias", "NoBias"),
        doc="in balanced mode, how many more processors beyond its minimum a job gets than a job with a "
        "priority 1000 lower: ten times as many, twice as many, or the same number"),
    Parameter("RebalancingInterval", default="10", unit="s", least=1, most=3600,
        doc="in balanced mode, how often processors are taken from jobs that have more than their share, in "
        "addition to each start and end of a job"),
    Parameter("PreemptionBalancedMode", default="Immediate", choices=("Immediate", "Graceful"),
        doc="in balanced mode: Immediate: tasks are stopped and run again, so that other jobs get their "
        "share; Graceful: jobs release processors as their tasks end"),
    Parameter("HeartbeatInterval", "how often an agent sends a heartbeat",
        default="30", unit="s", least=1, most=3600),
    Parameter("InactivityCount", "how many heartbeats a node may miss before its tasks are lost",
        default="3", least=1, most=1000),
    Parameter("NodeLease", default="50", unit="%", least=0, most=80,
        doc="the part of HeartbeatInterval × InactivityCount for which a node without a connection to the "
        "head continues tasks that may be run elsewhere; then it stops them; 0: it never stops them"),
    Parameter("HealthCheckProgram",
        "the program that every agent runs to check its node; any exit code but 0 drains the node"),
    Parameter("HealthCheckInterval", "the time from the end of a health check to the start of the next one",
        default="300", unit="s", least=1, most=86400),
    Parameter("PrologProgram",
        "the program that every agent runs before the first task of a job on its node; any exit code but 0 "
        "drains the node, and the job is requeued"),
    Parameter("PrologTimeout", "how long a prolog may take",
        default=str(PROLOG_TIMEOUT), unit="s", least=1, most=86400),
    Parameter("EpilogProgram",
        "the program that every agent runs after the last process of a job on its node, before other jobs "
        "get its processors; any exit code but 0 drains the node"),
    Parameter("EpilogTimeout", "how long an epilog may take",
        default=str(EPILOG_TIMEOUT), unit="s", least=1, most=86400),
    Parameter("NodeFilterDirectory",
        "the directory on the nodes with the filters OnJobTaskStart, OnTaskStart and OnJobEnd; empty: no "
        "node filters"),
    Parameter("NodeFilterTimeout", "how long a filter of a node may take",
        default=str(NODE_FILTER_TIMEOUT), unit="s", least=1, most=86400),
    Parameter("SubmissionFilterProgram",
        "filters that every job passes before it enters the queue: [OPTION=VALUE ...] /PATH/PROGRAM "
        "[ARGUMENT ...] or plugin:NAME; separate several by ;"),
    Parameter("SubmissionFilterTimeout", "how long a submission filter may take; after that the job fails",
        default="15", unit="s", least=1, most=600),
    Parameter("ActivationFilterProgram",
        "filters that every job passes before it gets processors, written as SubmissionFilterProgram"),
    Parameter("ActivationFilterTimeout", default="15", unit="s", least=1, most=600,
        doc="how long an activation filter may take; after that it counts as exit code 2"),
    Parameter("ActivationFilterInterval", default="10", unit="s", least=1, most=3600,
        doc="the time after a rejection until activation filters are called again for the same job"),
    Parameter("DefaultHoldDuration",
        "how long exit code 3 of an activation filter holds a job that sets no HoldUntil",
        default="900", unit="s", least=60, most=604_800),
    Parameter("FiltersAtOnce", "how many submission filters run at once, and how many activation filters",
        default="8", least=1, most=64),
    Parameter(BANK,
        "the bank (Gold, Moab Accounting Manager) that charges jobs, as HOST or HOST:PORT; empty: none"),
    Parameter("BankKeyFile",
        "absolute path of a file, private to the head, whose first line is the site key of the bank"),
    Parameter("BankActor", "the user name that the head sends to the bank", default="headnode"),
    Parameter("BankAway", default="Hold", choices=("Hold", "Continue"),
        doc="when the bank does not answer: Hold: jobs stay queued; Continue: they start without a "
        "reservation, and are charged later"),
    Parameter("TaskCancelGracePeriod", "the time between SIGTERM and SIGKILL when a task is canceled",
        default="15", unit="s", least=0, most=86400),
    Parameter("EmailSmtpServer",
        "the mail server for notifications, as HOST or HOST:PORT; empty: no mail is sent"),
    Parameter("EmailEncryption", "how the head connects to the mail server",
        default="none", choices=("none", "starttls", "tls")),
    Parameter("EmailFrom",
        "the sender of notifications; empty: headnode@ and the name of the head's machine"),
    Parameter("EmailDomain",
        "if a job names no address, its notifications go to OWNER@DOMAIN; empty: it gets none"),
    Parameter("EmailCredentialsFile",
        "absolute path of a file with USER:PASSWORD for the mail server, private to the head"),
    Parameter("NotificationWebhooks",
        "web addresses, and all addresses below them, that jobs may name for notifications; separate several"
        " by commas"),
    Parameter("NotificationCopies",
        "mail addresses, or allowed webhooks, that also get every notification; separate several by commas"),
    Parameter("EventWebhooks",
        "web addresses that get the events of the cluster; separate several by commas"),
    Parameter("EventWebhookTypes", default="job,node",
        doc="the types of these events, such as job.ended, or node for all; separate several by commas"),
    Parameter("EventWebhookSecretFile", "a file with the key that signs these events"),
    Parameter("AffinityType", default="NonExclusiveJobs", choices=AFFINITIES,
        doc="the jobs whose tasks are bound to their own processors, unless they have all processors of a "
        "node"),
    Parameter("EnforceMemory", default="yes", choices=("yes", "no"),
        doc="whether a task is killed if it needs more memory than its job estimated for its processes"),
    Parameter("JobProcessLimit", default="65536", least=100, most=4_194_304,
        doc="how many processes and threads a job may have on one node, at most half of what the system "
        "allows"),
    Parameter("Administrators",
        "administrators, in addition to root and the user who started the head: user,@group"),
    Parameter("Operators", "operators, who may manage the jobs of all users: user,@group"),
    Parameter("SiteKeyRoles",
        "users who keep their role in requests that a peer makes for them with the SSSRMAP site key: "
        "user,@group; all others are ordinary users there, and root is refused"),
    Parameter("UserMapping", default="name", choices=("name", "name-and-number"),
        doc="which user runs a job on another machine: name: the user with the name of its owner; "
        "name-and-number: the same, and the job is refused there if the user id differs"),
    Parameter("DefaultWorkDirectory", default="Current", choices=("Current", "Home"),
        doc="work directory of jobs from the command line that name none: the current directory of the "
        "submitter, or the home directory; job files keep the rule of their language"),
    Parameter("SubmitterEnvironment",
        "variables of the submitter's shell that jobs from the command line get: names separated by commas, "
        "or all"),
    Parameter("TemporaryDirectory", default="/tmp",  # noqa: S108 - in directories of one user each
        doc="the directory on the nodes in which the temporary directories of tasks are made: TMPDIR in jobs"
        " of PBS, Grid Engine and HTCondor, and in tasks that ask for one"),
    Parameter("ClusterEnvironment",
        "variables of every task, NAME=VALUE;NAME=VALUE; variables of a job or task override them"),
    Parameter("CommandSentences", "the wording that the programs job, task, node, cluscfg and clusrun print",
        default="HPCPack", choices=("HPCPack", "CCS")),
    Parameter("PrivateEnvironments", default="yes", choices=("yes", "no"),
        doc="whether only the owner and administrators see the variables and scripts of a job"),
    Parameter("NodeReleaseTaskTimeout", "how long a NodeRelease task may take",
        default="15", unit="s", least=1, most=86400),
    Parameter("JobRetryCount", "how often a job is requeued because it lost nodes, before it fails",
        default=str(JOB_RETRY_COUNT), least=0, most=1_000_000),
    Parameter("TaskRetryCount", default=str(TASK_RETRY_COUNT), least=0, most=1_000_000,
        doc="how often a rerunnable task is run again after the system lost it, before it fails"),
    Parameter("NodeStartFailureLimit", default=str(START_FAILURE_LIMIT), least=0, most=1_000_000,
        doc="after how many tasks in a row that cannot start on a node, and can elsewhere, the node is "
        "drained; 0: never"),
    Parameter(HALF_LIFE_PARAMETER, default=str(HALF_LIFE), unit="s", least=60, most=3_153_600_000,
        doc="the time after which past processor-seconds count half, in policies that share by usage and "
        "in limits of processor-minutes"),
    Parameter(USAGE_WEIGHTS_PARAMETER,
        "what usage counts in fair share, added up: processors=1,memory-gb=0.25,gpus=2,gpus:a100=4; "
        "empty: processors alone"),
    Parameter(WEIGHTS_PARAMETER,
        "how waiting jobs of the same priority are ordered: fair-share=1000,age=500,size=100; empty: by "
        "submission"),
    Parameter(MAX_AGE_PARAMETER, default=str(MAX_AGE), unit="s", least=60, most=3_153_600_000,
        doc="the time after submission from which a job has all of the weight of age"),
    Parameter(PROJECT_SHARES,
        "how much of the cluster each project should get, compared with others: chem:3;physics:1; those "
        "without an entry: *:1"),
    Parameter(USER_SHARES,
        "how much each user should get, compared with other users of the same project, or without one: "
        "ann:2;chem/bob:3;*:1"),
    Parameter("Licences",
        "licences of the whole cluster, counted by the scheduler: feature:number,feature:number"),
    Parameter(LimitScope.USER.parameter,
        "what each user may have at once: *:jobs=10,processors=64,gpus=4,submitted=500;ann:jobs=20; "
        "what each may use: *:processor-minutes=60000,gpu-minutes=6000; "
        "@staff: each member of a group"),
    Parameter(LimitScope.PROJECT.parameter,
        "what all jobs of a project may have at once, in the same form: *:processors=256;chem:jobs=50"),
    Parameter(LimitScope.GROUP.parameter,
        "what all members of a group may have together, in the same form: students:processors=64"),
    Parameter(IDEMPOTENCY_LIFETIME, default=str(LIFETIME), unit="s", least=60, most=604800,
        doc="how long the head remembers the result of a request with an idempotency key"),
    Parameter("LicenceProgram",
        "the program on the head's machine that prints Licences, one feature:number on each line"),
    Parameter(TTL_COMPLETED_JOBS, default="0", unit="days", least=0, most=36500,
        doc="how long after the end of a job nodes keep its captured output; 0: unlimited"),
    Parameter(PURGE_JOBS_AFTER, default="0", unit="days", least=0, most=36500,
        doc="how long after the end of a job its record is removed, and its captured output; 0: never"),
    Parameter(TOPOLOGY_PARAMETER,
        "the switches between nodes, as in topology.conf of Slurm: SwitchName=a Nodes=n[1-8];SwitchName=top "
        "Switches=a,b; empty: nodes are all near each other"),
    Parameter("NodeGroups", "node groups that exist even if they have no node: fast,large"),
    Parameter("TransferNetworks",
        doc="networks that transfers of staged files may reach, in addition to public addresses: for example "
        "10.0.0.0/8,192.168.7.9; any: all"),
    Parameter("TransfersPerJob", default="8", least=1, most=1000,
        doc="how many tasks of a job transfer files on a node at once; further ones wait"),
    Parameter("TransfersPerHost", default="4", least=1, most=64,
        doc="how many files a task transfers at once, and so how many connections it has to a host"),
    Parameter("TransfersPerNode", default="32", least=1, most=1000,
        doc="how many tasks of all jobs transfer files on a node at once; further ones wait"),
    Parameter("TransfersPerStorage", default="256", least=1, most=60000,
        doc="how many tasks of the cluster transfer files with one storage host at once; each node has an "
        "equal share, at least one"),
    Parameter(TRANSFER_HOLD_PARAMETER, default=str(TRANSFER_HOLD_TIME), unit="s", least=0, most=31_536_000,
        doc="how long a job keeps its processors while it only waits for files; after that other jobs may "
        "use them until the files have arrived"),
    Parameter("TransferTimeout", default="60", unit="s", least=1, most=3600,
        doc="how long a transfer may take without data, until it counts as failed and is tried again"),
    Parameter("StandbyWait", default="2", unit="s", least=0, most=60,
        doc="how long an acknowledgement waits for the standby heads to store it; one that takes longer is "
        "not waited for until it has caught up; at most half of HeartbeatInterval; 0: none is waited for"),
    Parameter(MOST_OF_USER, default=str(MOST), least=0, most=10_000,
        doc="how many recurring jobs each user may have; 0: none"),
    Parameter(SHORTEST, default=str(SHORTEST_INTERVAL), unit="s", least=1, most=86_400,
        doc="the shortest time between two jobs of a recurring job"),
    Parameter("LicenceInterval", "the time from the end of the licence program to its next run",
        default="60", unit="s", least=1, most=86400),
)  # fmt: skip
PARAMETERS: Mapping[str, Parameter] = MappingProxyType({each.name.lower(): each for each in _DECLARED})
