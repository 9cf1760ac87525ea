"""What a simulation compares: policies with cluster parameters, and how past jobs ask for processors."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from headnode.core.model.errors import BadRequest
from headnode.core.model.owner_limits import LIMIT_PARAMETERS, LimitedAmount, read_owner_limits
from headnode.core.model.priority_factors import ORDER_PARAMETERS, PriorityFactor
from headnode.core.model.quantities import HIGHEST, LOWEST, Priority, parse_priority
from headnode.core.model.workload import Workload

SIMULATED = (
    "SchedulingDepth",
    "Topology",
    "SchedulingMode",
    "PreemptionType",
    "TaskImmediatePreemption",
    "PriorityBias",
    "RebalancingInterval",
    "PreemptionBalancedMode",
    "UsageHalfLife",
    "UsageWeights",
    *ORDER_PARAMETERS,
    *LIMIT_PARAMETERS,
)
"""The parameters that decide which of the jobs of a log starts when."""

_FILTERS = "filters do not run in a simulation"
_LOST = "simulated nodes are never lost"
_NO_LICENCES = "logs do not contain the licences of jobs"
_NO_GPUS = "logs do not contain the GPUs of jobs"
_NOBODY = "a simulation sends no notices"
_NOTHING_RUNS = "nothing runs on simulated nodes"
_NO_CLIENTS = "a simulation has no clients"
_PEOPLE = "a simulation does not check who may submit jobs"

NOT_SIMULATED: Mapping[str, str] = MappingProxyType(
    {
        "SchedulingPolicy": "policies are compared by their names",
        "TaskCancelGracePeriod": "simulated tasks end at once when they are stopped",
        **dict.fromkeys(("HeartbeatInterval", "InactivityCount", "NodeLease"), _LOST),
        **dict.fromkeys(("JobRetryCount", "TaskRetryCount", "NodeStartFailureLimit"), _LOST),
        **dict.fromkeys(("DefaultWorkDirectory", "SubmitterEnvironment"), _NO_CLIENTS),
        **dict.fromkeys(("IdempotencyLifetime", "CommandSentences", "PrivateEnvironments"), _NO_CLIENTS),
        **dict.fromkeys(("ClusterEnvironment", "TemporaryDirectory"), _NOTHING_RUNS),
        **dict.fromkeys(("TransferNetworks", "TransferTimeout", "TransferHoldTime"), _NOTHING_RUNS),
        **dict.fromkeys(("TransfersPerJob", "TransfersPerHost"), _NOTHING_RUNS),
        **dict.fromkeys(("TransfersPerNode", "TransfersPerStorage"), _NOTHING_RUNS),
        **dict.fromkeys(("HealthCheckProgram", "HealthCheckInterval", "PrologProgram"), _NOTHING_RUNS),
        **dict.fromkeys(("PrologTimeout", "EpilogProgram", "EpilogTimeout"), _NOTHING_RUNS),
        **dict.fromkeys(("NodeFilterDirectory", "NodeFilterTimeout", "AffinityType"), _NOTHING_RUNS),
        **dict.fromkeys(("EnforceMemory", "JobProcessLimit", "UserMapping"), _NOTHING_RUNS),
        **dict.fromkeys(("NodeReleaseTaskTimeout", "TTLCompletedJobs", "PurgeJobsAfter"), _NOTHING_RUNS),
        **dict.fromkeys(("SubmissionFilterProgram", "SubmissionFilterTimeout"), _FILTERS),
        **dict.fromkeys(("ActivationFilterProgram", "ActivationFilterTimeout"), _FILTERS),
        **dict.fromkeys(("ActivationFilterInterval", "DefaultHoldDuration", "FiltersAtOnce"), _FILTERS),
        **dict.fromkeys(("EmailSmtpServer", "EmailEncryption", "EmailFrom", "EmailDomain"), _NOBODY),
        **dict.fromkeys(("EmailCredentialsFile", "NotificationWebhooks", "NotificationCopies"), _NOBODY),
        **dict.fromkeys(("EventWebhooks", "EventWebhookTypes", "EventWebhookSecretFile"), _NOBODY),
        **dict.fromkeys(("Bank", "BankKeyFile", "BankActor", "BankAway"), _NOBODY),
        **dict.fromkeys(("Administrators", "Operators", "SiteKeyRoles"), _PEOPLE),
        "StandbyWait": "a simulation has no standby heads",
        **dict.fromkeys(("MaxRecurringJobsPerUser", "RecurringShortestInterval"), _NO_CLIENTS),
        "NodeGroups": "groups without nodes run no jobs",
        **dict.fromkeys(("Licences", "LicenceProgram", "LicenceInterval"), _NO_LICENCES),
    }
)
"""Why the other parameters are refused."""

_LIMITS_WITHOUT_JOBS: Mapping[LimitedAmount, str] = MappingProxyType(
    {
        **{each: _NO_GPUS for each in LimitedAmount if each.counts_gpus},
        LimitedAmount.SUBMITTED: "a log does not say when a user submits a refused job again",
    }
)

Values = tuple[tuple[str, str], ...]
"""Parameters by their own names, and their values, in the order in which they were given."""


class Variant(NamedTuple):
    """A policy and parameters of the cluster; `name` is what it is called beside others."""

    name: str
    policy: str
    parameters: Values = ()


def read_variants(texts: Sequence[str], common: Values = ()) -> list[Variant]:
    """Read ``easy+PreemptionType=Graceful`` each: a policy, and parameters beside or for the common ones.

    Where all have the same policy, those with parameters of their own are called by these alone.
    Raises:  BadRequest ``no-such-parameter``, ``parameter-value``, ``parameter-not-simulated``.
    """
    parts = [[part.strip() for part in text.split("+")] for text in texts]
    own = [read_parameters(parameters) for _, *parameters in parts]
    alike = len({policy for policy, *_ in parts}) == 1
    return [
        Variant(
            _variant_name(policy, values, alike=alike),
            policy,
            tuple({**dict(common), **dict(values)}.items()),
        )
        for (policy, *_), values in zip(parts, own, strict=True)
    ]


def _variant_name(policy: str, own: Values, *, alike: bool) -> str:
    parameters = [f"{name}={value}" for name, value in own]
    return "+".join(parameters if alike and parameters else [policy, *parameters])


def read_parameters(texts: Iterable[str]) -> Values:
    """Read ``NAME=VALUE`` each; of a parameter that is given twice the last counts.

    Raises:  BadRequest ``no-such-parameter``, ``parameter-value``, ``parameter-not-simulated``.
    """
    names = tuple(texts)
    if not names:
        return ()
    from headnode.engine.settings import read_parameter  # most simulations are of policies alone

    parameters: dict[str, str] = {}
    for text in names:
        name, equals, value = (part.strip() for part in text.partition("="))
        known, stored = read_parameter(name, value if equals else None)
        if stored is None:
            raise BadRequest(
                code="parameter-value",
                what=f"parameter {known.name} has no value",
                fix=f"write {known.name}={known.default}, for example",
            )
        if known.name not in SIMULATED:
            raise _not_simulated(known.name)
        if known.name in LIMIT_PARAMETERS:
            _check_limits(known.name, value)
        if known.name == "UsageWeights" and "gpus" in value.casefold():
            raise _without_gpus(known.name)
        parameters[known.name] = stored
    return tuple(parameters.items())


def _check_limits(name: str, value: str) -> None:
    for limits in read_owner_limits(value).values():
        for amount in limits:
            if amount in _LIMITS_WITHOUT_JOBS:
                raise BadRequest(
                    code="parameter-not-simulated",
                    what=f"{amount} of {name} cannot be simulated: {_LIMITS_WITHOUT_JOBS[amount]}",
                    fix=f"leave out {amount}; jobs, processors and processor-minutes are simulated",
                )


def _without_gpus(parameter: str) -> BadRequest:
    return BadRequest(
        code="parameter-not-simulated",
        what=f"weights of GPUs in {parameter} cannot be simulated: {_NO_GPUS}",
        fix="leave out gpus; processors and memory-gb are simulated",
    )


def split_variants(text: str) -> list[str]:
    """Divide what is compared at its commas; those between limits or weights stay.

    >>> split_variants("fcfs,easy+UserLimits=*:jobs=2,processors=8,easy")
    ['fcfs', 'easy+UserLimits=*:jobs=2,processors=8', 'easy']
    """
    variants: list[str] = []
    for piece in text.split(","):
        word = piece.partition("=")[0].strip()
        if variants and word in _AMOUNTS:
            variants[-1] += f",{piece}"
        else:
            variants.append(piece)
    return variants


def policy_first(texts: Sequence[str], policy: str) -> list[str]:
    """Return the variants that are asked for, each with a policy before its parameters.

    >>> policy_first(["FCFS", "PreemptionType=Graceful"], "easy")
    ['fcfs', 'easy+PreemptionType=Graceful']
    """
    variants = []
    for text in texts:
        first, plus, rest = (part.strip() for part in text.partition("+"))
        variants.append(f"{policy}+{text.strip()}" if "=" in first else f"{first.lower()}{plus}{rest}")
    return variants


def _not_simulated(name: str) -> BadRequest:
    fix = "--policy or --compare" if name == "SchedulingPolicy" else f"one of {', '.join(SIMULATED)}"
    return BadRequest(
        code="parameter-not-simulated",
        what=f"parameter {name} changes nothing in a simulation: {NOT_SIMULATED[name]}",
        fix=f"choose {fix}",
    )


_AMOUNTS = frozenset((*LimitedAmount, *PriorityFactor))
NORMAL = Priority(2000)
_COLUMNS = {"queue": "queues", "group": "groups", "user": "users", "size": "processors"}
_DIGITS = 18  # of a number of a queue, group or user


class JobSelector(NamedTuple):
    """Jobs whose number in a column of the workload is in one of these ranges, both ends included."""

    text: str
    column: str
    ranges: tuple[tuple[int, int], ...]

    def picks(self, workload: Workload, row: int) -> bool:
        """Whether the job in this row is one of them."""
        number = self.number(workload, row)
        return any(first <= number <= last for first, last in self.ranges)

    def number(self, workload: Workload, row: int) -> int:
        """Return the number of a job in the column; -1 if it is unknown."""
        known = str(getattr(workload, self.column)[row])
        return int(known) if known.isdecimal() else -1


_THEIR_OWN = JobSelector("queue", "queues", ((LOWEST, HIGHEST),))  # in logs that `write_swf` wrote


class RequestOverrides(NamedTuple):
    """What is the same for all jobs of a simulation.

    Of `priorities` the first that picks a job counts, where None is the number by which it is picked; the
    others are Normal.  Jobs of `once` may not run
    twice.  Jobs are content with `least` percent of their processors: below 100, each is a sweep of tasks of
    one processor.
    """

    priorities: tuple[tuple[JobSelector, Priority | None], ...] = ()
    once: tuple[JobSelector, ...] = ()
    least: int = 100

    @property
    def keeps_sizes(self) -> bool:
        """Whether each job runs on all its processors as long as it runs."""
        return self.least == 100

    def priority(self, workload: Workload, row: int) -> Priority:
        """Return the priority of a job."""
        for selector, priority in self.priorities:
            if selector.picks(workload, row):
                return priority if priority is not None else Priority(selector.number(workload, row))
        return NORMAL

    def runs_once(self, workload: Workload, row: int) -> bool:
        """Return whether a job may not run twice."""
        return bool(self.once) and any(selector.picks(workload, row) for selector in self.once)

    def minimum(self, processors: int) -> int:
        """Return with how many processors a job is content."""
        return -(-processors * self.least // 100)

    def check(self, workload: Workload) -> None:
        """See whether the log says what jobs are picked by.

        Raises:  BadRequest ``which-jobs``.
        """
        for selector in [*(selector for selector, _ in self.priorities), *self.once]:
            if not getattr(workload, selector.column):
                raise _bad_request_rule(
                    selector.text, f"selects jobs by a field that this log does not have: {selector.column}"
                )


def _bad_request_rule(text: str, what: str) -> BadRequest:
    return BadRequest(
        code="which-jobs",
        what=f"{text!r} {what}",
        fix="name jobs by the numbers of their queue, group or user in the log, or by their processors: "
        "queue:1, group:3, user:7,12-15 or size:1-4; and a priority after =, such as user:7=Highest, or "
        "queue alone",
    )


AS_LOGGED = RequestOverrides()
"""All of one priority, all may run twice, all have one size."""


def read_priorities(texts: Sequence[str]) -> tuple[tuple[JobSelector, Priority | None], ...]:
    """Read ``queue:1,2=Highest``: which jobs, and their priority; ``queue``: its number is the priority.

    Raises:  BadRequest ``which-jobs`` or ``priority``.
    """
    priorities: list[tuple[JobSelector, Priority | None]] = []
    for text in texts:
        if text.strip().lower() == _THEIR_OWN.text:
            priorities.append((_THEIR_OWN, None))
            continue
        which, equals, priority = text.partition("=")
        if not equals:
            raise _bad_request_rule(text, "names no priority")
        priorities.append((read_selector(which), parse_priority(priority.strip())))
    return tuple(priorities)


def read_selector(text: str) -> JobSelector:
    """Read ``user:7,12-15``: jobs by their user, group or queue in the log, or by their size in processors.

    Raises:  BadRequest ``which-jobs``.

    >>> read_selector("user:7,12-15").ranges
    ((7, 7), (12, 15))
    """
    kind, _, numbers = text.strip().partition(":")
    column = _COLUMNS.get(kind.strip().lower())
    if column is None:
        raise _bad_request_rule(text, "is not understood")
    return JobSelector(text.strip(), column, tuple(_range(text, part) for part in numbers.split(",")))


def _range(text: str, part: str) -> tuple[int, int]:
    first, dash, last = (piece.strip() for piece in part.partition("-"))
    ends = (first, last if dash else first)
    if not all(end.isascii() and end.isdecimal() and len(end) <= _DIGITS for end in ends):
        raise _bad_request_rule(text, "is not understood")
    low, high = map(int, ends)
    if low > high:
        raise _bad_request_rule(text, f"has a range that ends before it begins: {part.strip()}")
    return low, high


def read_least(text: str) -> int:
    """Read a percentage from 1 to 100, with or without its sign.

    Raises:  BadRequest ``least``.

    >>> read_least("50%")
    50
    """
    number = text.strip().removesuffix("%").strip()
    if not (number.isascii() and number.isdecimal() and len(number) <= 3 and 1 <= int(number) <= 100):
        raise BadRequest(
            code="least",
            what=f"{text!r} is not a part of a job's processors",
            fix="write 1% to 100%, for example --least 50%",
        )
    return int(number)
