"""Cluster parameters: each declared once, with its default, unit, bounds and meaning.

Source: HPC Pack cluster parameters, whose names are kept where the meaning is the same.
"""

import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from headnode.core.model.errors import BadRequest


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
                name="TaskCancelGracePeriod",
                default="15",
                doc="how long a task may take to end after it was asked to, before it is killed",
                unit="s",
                least=0,
                most=86400,
            ),
            Parameter(
                name="Licences",
                default="",
                doc="licences of the whole cluster, counted by the scheduler: feature:number,feature:number",
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

    def depth(self) -> int:
        """Return how many waiting jobs may have a reservation."""
        return int(self.number("SchedulingDepth"))

    def licences(self) -> dict[str, int]:
        """Return how many of each licence there are."""
        text = self.text("Licences")
        return read_licences(text) if text else {}


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
            raise _wrong(known, value, f"write {known.least:g} to {known.most:g} {known.unit}".rstrip())
    if known.name == "Licences":
        read_licences(value)
    if known.name == "HealthCheckProgram" and value:
        _check_program(known, value)
    return known


def _check_program(known: Parameter, value: str) -> None:
    try:
        words = shlex.split(value)
    except ValueError:
        words = []
    if not words or not words[0].startswith("/"):
        raise _wrong(known, value, "write the absolute path of a program, with its arguments as in a shell")


def _wrong(known: Parameter, value: str, fix: str) -> BadRequest:
    return BadRequest(code="parameter-value", what=f"{known.name} cannot be {value!r}", fix=fix)
