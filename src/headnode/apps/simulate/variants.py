"""What is compared: a policy, with parameters of the cluster, which are those of ``hn cluster params``."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from headnode.core.model.errors import BadRequest

SIMULATED = (
    "SchedulingDepth",
    "SchedulingMode",
    "PreemptionType",
    "TaskImmediatePreemption",
    "PriorityBias",
    "RebalancingInterval",
    "PreemptionBalancedMode",
)
"""The parameters that decide which of the jobs of a log starts when."""

_FILTERS = "filters do not run in a simulation"
_LOST = "simulated nodes are never lost"
_NO_LICENCES = "logs do not contain the licences of jobs"
_NOBODY = "a simulation sends no notices"
_NOTHING_RUNS = "nothing runs on simulated nodes"
_NO_CLIENTS = "a simulation has no clients"
_PEOPLE = "a simulation does not check who may submit jobs"

WHY_NOT: Mapping[str, str] = MappingProxyType(
    {
        "SchedulingPolicy": "policies are compared by their names",
        "TaskCancelGracePeriod": "simulated tasks end at once when they are stopped",
        **dict.fromkeys(("HeartbeatInterval", "InactivityCount", "NodeLease"), _LOST),
        **dict.fromkeys(("JobRetryCount", "TaskRetryCount", "NodeStartFailureLimit"), _LOST),
        **dict.fromkeys(("DefaultWorkDirectory", "SubmitterEnvironment"), _NO_CLIENTS),
        **dict.fromkeys(("IdempotencyLifetime", "CommandSentences", "PrivateEnvironments"), _NO_CLIENTS),
        "ClusterEnvironment": _NOTHING_RUNS,
        **dict.fromkeys(("HealthCheckProgram", "HealthCheckInterval", "PrologProgram"), _NOTHING_RUNS),
        **dict.fromkeys(("PrologTimeout", "EpilogProgram", "EpilogTimeout"), _NOTHING_RUNS),
        **dict.fromkeys(("NodeFilterDirectory", "NodeFilterTimeout", "AffinityType"), _NOTHING_RUNS),
        **dict.fromkeys(("EnforceMemory", "JobProcessLimit", "UserMapping"), _NOTHING_RUNS),
        **dict.fromkeys(("NodeReleaseTaskTimeout", "TTLCompletedJobs"), _NOTHING_RUNS),
        **dict.fromkeys(("SubmissionFilterProgram", "SubmissionFilterTimeout"), _FILTERS),
        **dict.fromkeys(("ActivationFilterProgram", "ActivationFilterTimeout"), _FILTERS),
        **dict.fromkeys(("ActivationFilterInterval", "DefaultHoldDuration", "FiltersAtOnce"), _FILTERS),
        **dict.fromkeys(("EmailSmtpServer", "EmailEncryption", "EmailFrom", "EmailDomain"), _NOBODY),
        **dict.fromkeys(("EmailCredentialsFile", "NotificationWebhooks", "NotificationCopies"), _NOBODY),
        **dict.fromkeys(("Administrators", "Operators"), _PEOPLE),
        **dict.fromkeys(("Licences", "LicenceProgram", "LicenceInterval"), _NO_LICENCES),
    }
)
"""Why the other parameters are refused."""

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
        Variant(_name(policy, values, alike=alike), policy, tuple({**dict(common), **dict(values)}.items()))
        for (policy, *_), values in zip(parts, own, strict=True)
    ]


def _name(policy: str, own: Values, *, alike: bool) -> str:
    parameters = [f"{name}={value}" for name, value in own]
    return "+".join(parameters if alike and parameters else [policy, *parameters])


def read_parameters(texts: Iterable[str]) -> Values:
    """Read ``NAME=VALUE`` each; of a parameter that is given twice the last counts.

    Raises:  BadRequest ``no-such-parameter``, ``parameter-value``, ``parameter-not-simulated``.
    """
    from headnode.engine.settings import check_parameter  # most simulations are of policies alone

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        known = check_parameter(name, value if equals else None)
        if not equals:
            raise BadRequest(
                code="parameter-value",
                what=f"parameter {known.name} has no value",
                fix=f"write {known.name}={known.default}, for example",
            )
        if known.name not in SIMULATED:
            raise _not_simulated(known.name)
        found[known.name] = value
    return tuple(found.items())


def policy_first(texts: Sequence[str], policy: str) -> list[str]:
    """Return the variants that are asked for, each with a policy before its parameters.

    >>> policy_first(["FCFS", "PreemptionType=Graceful"], "easy")
    ['fcfs', 'easy+PreemptionType=Graceful']
    """
    found = []
    for text in texts:
        first, plus, rest = (part.strip() for part in text.partition("+"))
        found.append(f"{policy}+{text.strip()}" if "=" in first else f"{first.lower()}{plus}{rest}")
    return found


def _not_simulated(name: str) -> BadRequest:
    fix = "--policy or --compare" if name == "SchedulingPolicy" else f"one of {', '.join(SIMULATED)}"
    return BadRequest(
        code="parameter-not-simulated",
        what=f"parameter {name} changes nothing in a simulation: {WHY_NOT[name]}",
        fix=f"choose {fix}",
    )


def shown(values: Values) -> str:
    """Say parameters in one line, "" for none."""
    return ", ".join(f"{name}={value}" for name, value in values)
