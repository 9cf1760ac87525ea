"""The values of the cluster parameters, read and checked."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import msgspec

from headnode.core.filtering import read_filters
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import TOPOLOGY_PARAMETER
from headnode.core.model.owner_limits import (
    EVERY,
    GROUP_MARK,
    LIMIT_PARAMETERS,
    LimitScope,
    read_owner_limits,
)
from headnode.core.model.priority_factors import (
    SHARE_PARAMETERS,
    WEIGHTS_PARAMETER,
    read_shares,
    read_weights,
)
from headnode.core.model.quantities import Seconds
from headnode.core.state.notices import read_hook_address
from headnode.core.state.owner_usage import USAGE_WEIGHTS_PARAMETER, usage_weights
from headnode.engine.parameters import PARAMETERS, Parameter


def parameters_with(policies: Iterable[str]) -> Mapping[str, Parameter]:
    """Return the parameters of a cluster that can choose from these policies."""
    policy = msgspec.structs.replace(PARAMETERS["schedulingpolicy"], choices=tuple(policies))
    return MappingProxyType({**PARAMETERS, policy.name.lower(): policy})


_DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS.values()}


class Settings:
    """The current cluster parameters: values that were set, else defaults."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    @property
    def values(self) -> Mapping[str, str]:
        """The values that were set, by the names of their parameters."""
        return self._values

    def text(self, name: str) -> str:
        """Return the value of a parameter as text."""
        value = self._values.get(name)
        return _DEFAULTS[name] if value is None else value

    def number(self, name: str) -> float:
        """Return the value of a parameter as a number, in its unit."""
        return float(self.text(name))

    def environment(self) -> dict[str, str]:
        """Return the variables that every task has, unless its job or itself says otherwise."""
        text = self.text("ClusterEnvironment")
        return _pairs(text) if text else {}

    def node_timeout(self) -> Seconds:
        """Return how long a node may be away before its tasks are given up."""
        return Seconds(self.number("HeartbeatInterval") * self.number("InactivityCount"))

    def lease(self) -> Seconds:
        """Return how long tasks that may run elsewhere go on where the head is not reached; 0: always."""
        return Seconds(self.node_timeout() * self.number("NodeLease") / 100)

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


_MAX_DIGITS = 4000  # Python reads up to 4,300


def read_licences(text: str) -> dict[str, int]:
    """Read ``feature:number,...``; the last colon counts, since a consumable of SSS is called name:type.

    Raises:  BadRequest ``licences``.
    """
    found: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        feature, colon, amount = part.rpartition(":")
        number = amount.strip()
        is_number = number.isdecimal() and len(number) <= _MAX_DIGITS
        if not colon or not feature.strip() or not is_number or feature.strip() in found:
            raise BadRequest(
                code="licences",
                what=f"licences {text!r} are not understood at {part!r}",
                fix="write each feature once with its number, for example solver:8,mesher:2",
            )
        found[feature.strip()] = int(number)
    return found


def check_parameter(
    name: str, value: str | None, parameters: Mapping[str, Parameter] = PARAMETERS
) -> Parameter:
    """Return the declared parameter, if it may have this value.

    Raises:  BadRequest ``no-such-parameter`` or ``parameter-value``.
    """
    return read_parameter(name, value, parameters)[0]


def read_parameter(
    name: str, value: str | None, parameters: Mapping[str, Parameter] = PARAMETERS
) -> tuple[Parameter, str | None]:
    """Return the declared parameter, and the value as it is stored: a time is a number of its unit.

    Raises:  BadRequest ``no-such-parameter`` or ``parameter-value``.
    """
    known = parameters.get(name.lower())
    if known is None:
        from headnode.core.formats.text.source_text import nearest_name  # only a misspelt name needs it

        names = [parameter.name for parameter in parameters.values()]
        meant = nearest_name(name, names)
        fix = (
            f"did you mean {meant}? see: hn cluster params" if meant else "see all of them: hn cluster params"
        )
        raise BadRequest(code="no-such-parameter", what=f"there is no cluster parameter {name!r}", fix=fix)
    if value is None:
        return known, None
    if known.choices and value not in known.choices:
        raise _wrong(known, value, f"choose one of {', '.join(known.choices)}")
    if known.least is not None and known.most is not None:
        value = _number_of(known, value)
    if check := _CHECKS.get(known.name):
        check(known, value)
    return known, value


def _number_of(parameter: Parameter, value: str) -> str:
    """Return a number that is within the bounds; of a time with units, how many of the parameter's unit."""
    number, text = _read_number(parameter, value)
    if number is not None and (parameter.least or 0.0) <= number <= (parameter.most or 0.0):
        return text
    raise _wrong(parameter, value, _range_of(parameter))


def _range_of(parameter: Parameter) -> str:
    fix = f"write a number from {parameter.least:.12g} to {parameter.most:.12g}"
    if parameter.seconds_in_unit:
        from headnode.core.formats.text.quantities import format_span  # only refusals need it

        least, most = (
            format_span(Seconds((bound or 0.0) * parameter.seconds_in_unit))
            for bound in (parameter.least, parameter.most)
        )
        fix = f"write a time from {least} to {most}, such as 90s, 2m or 1h"
        fix += f"; a number without a unit counts {'seconds' if parameter.unit == 's' else parameter.unit}"
    elif parameter.unit:
        fix += f"; its unit is {parameter.unit}"
    return fix


def _read_number(parameter: Parameter, value: str) -> tuple[float | None, str]:
    try:
        return float(value), value
    except ValueError:
        if not parameter.seconds_in_unit:
            return None, ""
    from headnode.core.formats.text.quantities import parse_span  # most values have no unit

    try:
        number = parse_span(value) / parameter.seconds_in_unit
    except BadRequest:
        return None, ""
    return number, f"{number:.15g}"


def _check_licences(_known: Parameter, value: str) -> None:
    read_licences(value)


def _check_weights(_known: Parameter, value: str) -> None:
    read_weights(value)


def _check_usage_weights(parameter: Parameter, value: str) -> None:
    usage_weights({parameter.name: value})


def _check_shares(parameter: Parameter, value: str) -> None:
    read_shares(value, parameter.name)


def _check_limits(parameter: Parameter, value: str) -> None:
    try:
        owners = read_owner_limits(value)
    except BadRequest as wrong:
        raise BadRequest(code=wrong.code, what=f"{parameter.name}: {wrong.what}", fix=wrong.fix) from None
    if parameter.name == LimitScope.GROUP.parameter:
        _check_groups(parameter.name, owners)


def _check_groups(parameter: str, names: Iterable[str]) -> None:
    """Refuse what is no name of one group.

    A limit for each group would count every user in the private group that many systems make for it.
    """
    wrong = next((name for name in names if name == EVERY or name.startswith(GROUP_MARK)), None)
    if wrong is not None:
        each = f"to limit each member of it, write @NAME in {LimitScope.USER.parameter}"
        what = f"{wrong!r} is not the name of a group"
        raise BadRequest(
            code="limits", what=f"{parameter}: {what}", fix=f"write its name alone: students:jobs=9; {each}"
        )


def _check_filters(_known: Parameter, value: str) -> None:
    read_filters(value)


def _check_credentials(parameter: Parameter, value: str) -> None:
    if value and not value.startswith("/"):
        raise _wrong(parameter, value, "write the absolute path of a file that holds USER:PASSWORD")


def _check_directory(parameter: Parameter, value: str) -> None:
    if value and not value.startswith("/"):
        raise _wrong(
            parameter, value, "write the absolute path of a directory, such as /etc/headnode/filters"
        )


def _check_temporary(parameter: Parameter, value: str) -> None:
    if not value.startswith("/"):
        raise _wrong(
            parameter, value, "write the absolute path of a directory on the nodes, such as /scratch"
        )


def _pairs(text: str) -> dict[str, str]:
    from headnode.core.formats.slash_options import read_pairs  # a head without such variables does without

    return read_pairs(text)


def _check_environment(parameter: Parameter, value: str) -> None:
    try:
        names = [*_pairs(value)]
    except BadRequest:
        names = [""]
    if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) for name in names):
        raise _wrong(parameter, value, "write variables as NAME=VALUE;NAME=VALUE")
    reserved = [name for name in names if name.startswith(("CCP_TASK", "CCP_JOBID", "HEADNODE_"))]
    if reserved:
        raise _wrong(parameter, value, f"{reserved[0]} is set by the scheduler: choose another name")


def _check_variables(parameter: Parameter, value: str) -> None:
    names = [name.strip() for name in value.split(",")]
    if value and not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names):
        raise _wrong(
            parameter, value, "write names of variables between commas, such as PATH,VIRTUAL_ENV; or all"
        )


def _check_server(parameter: Parameter, value: str) -> None:
    _, colon, port = value.rpartition(":")
    if any(letter.isspace() for letter in value) or (colon and not (port.isdecimal() or port.endswith("]"))):
        raise _wrong(parameter, value, "write HOST or HOST:PORT, for example mail.example.org:25")


def _check_hooks(parameter: Parameter, value: str) -> None:
    fix = "write addresses below which hooks may be, host and slash included: https://chat.example.org/hooks/"
    for hook in filter(None, map(str.strip, value.split(","))):
        try:
            read = read_hook_address(hook)
        except BadRequest as why:
            raise _wrong(parameter, value, f"{why.what}; {fix}") from None
        if read.query or not hook.partition("://")[2].partition("/")[1]:
            raise _wrong(parameter, value, fix)


def _check_event_hooks(parameter: Parameter, value: str) -> None:
    for hook in filter(None, map(str.strip, value.split(","))):
        try:
            read_hook_address(hook)
        except BadRequest as why:
            raise _wrong(parameter, value, f"{why.what}; {why.fix}") from None


def _check_event_types(parameter: Parameter, value: str) -> None:
    for name in map(str.strip, value.split(",")):
        if not re.fullmatch(r"[a-z]+(\.[a-z_]+)?", name):
            raise _wrong(parameter, value, "write types of events such as job.ended,node")


def _check_topology(_known: Parameter, value: str) -> None:
    from headnode.core.model.topology import switch_paths  # few clusters have switches

    switch_paths(value)


def _check_secret_file(parameter: Parameter, value: str) -> None:
    if value and not value.startswith("/"):
        raise _wrong(parameter, value, "write the absolute path of a file that holds the key")


def _check_people(parameter: Parameter, value: str) -> None:
    for name in read_people(value):
        if name in ("@", "*") or any(sign.isspace() for sign in name):
            raise _wrong(
                parameter, value, "write names of users, and of groups with an @ before them: ann,@admins"
            )


def _check_program(parameter: Parameter, value: str) -> None:
    if not value:
        return
    try:
        words = shlex.split(value)
    except ValueError:
        words = []
    if not words or not words[0].startswith("/"):
        raise _wrong(
            parameter, value, "write the absolute path of a program, with its arguments as in a shell"
        )


def _wrong(parameter: Parameter, value: str, fix: str) -> BadRequest:
    return BadRequest(code="parameter-value", what=f"{parameter.name} cannot be {value!r}", fix=fix)


_CHECKS: Mapping[str, Callable[[Parameter, str], None]] = {
    "Licences": _check_licences,
    **dict.fromkeys(LIMIT_PARAMETERS, _check_limits),
    WEIGHTS_PARAMETER: _check_weights,
    **dict.fromkeys(SHARE_PARAMETERS, _check_shares),
    USAGE_WEIGHTS_PARAMETER: _check_usage_weights,
    TOPOLOGY_PARAMETER: _check_topology,
    "SubmissionFilterProgram": _check_filters,
    "ActivationFilterProgram": _check_filters,
    "Administrators": _check_people,
    "SiteKeyRoles": _check_people,
    "Operators": _check_people,
    "ClusterEnvironment": _check_environment,
    "SubmitterEnvironment": _check_variables,
    "EmailSmtpServer": _check_server,
    "EmailCredentialsFile": _check_credentials,
    "Bank": _check_server,
    "BankKeyFile": _check_secret_file,
    "NotificationWebhooks": _check_hooks,
    "EventWebhooks": _check_event_hooks,
    "EventWebhookTypes": _check_event_types,
    "EventWebhookSecretFile": _check_secret_file,
    "NodeFilterDirectory": _check_directory,
    "TemporaryDirectory": _check_temporary,
    "HealthCheckProgram": _check_program,
    "LicenceProgram": _check_program,
    "PrologProgram": _check_program,
    "EpilogProgram": _check_program,
}
