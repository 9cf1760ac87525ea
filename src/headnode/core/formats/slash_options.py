"""The job and task options of the command line: names, help, and the forms of their values.

>>> read_features("gpu,big|huge"), read_distribution("{1,3}{2}").geometry
((('gpu',), ('big', 'huge')), ((1, 3), (2,)))"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from headnode.core.formats.hpc_values import NAMES, NODES, parse_least, parse_names
from headnode.core.formats.native.resource_values import parse_limits
from headnode.core.formats.text.quantities import parse_date_time
from headnode.core.model.errors import BadRequest, Broken
from headnode.core.model.quantities import Instant
from headnode.core.model.task import Distribution, ResourceLimit


class SlashOption(NamedTuple):
    """An option: what it does, and whether it may stand without a value, which then means true."""

    help: str
    flag: bool = False
    same_as: str = ""  # the name it is another spelling of


_SIZE = "processors wanted: min[-max], * for calculated from the tasks"
_RUN_TIME = "run time limit: 90 (minutes), 1h30m, 1-12:30, [[days:]hours:]minutes, or infinite"
_CODES = "exit codes that mean success, for example -1..10,min..-100,0..max"

_NEEDS = {
    "feature": "features that a node must have: gpu,big|huge; | is a choice",
    "lacking": "features that a node must not have: f1,f2",
    "featurepattern": "regular expression that a feature of the node matches",
    "architecture": "architecture of the node, or several alternatives: x86_64,aarch64",
    "system": "operating system of the node, or several alternatives",
    "onlynodes": "use only these nodes: n1,n2",
    "avoidnodes": "do not use these nodes: n1,n2",
    "nodepattern": "regular expression that the name of a node matches",
    "avoidpattern": "regular expression that the name of a node does not match",
    "diskpernode": "disk of each node in MB, at least",
    "swappernode": "swap of each node in MB, at least",
    "virtualpernode": "memory and swap of each node together in MB, at least",
    "speedpernode": "speed of each node in MHz, at least",
}
_LIMITS = "limits of every process: nofile=1024,cpu=600:1200; soft:hard, or a number for both"


def _needs() -> "dict[str, SlashOption]":
    own = {name: SlashOption(said) for name, said in _NEEDS.items()}
    same = {"features": "feature", "arch": "architecture", "os": "system"}
    return own | {name: SlashOption(f"as /{other}", same_as=other) for name, other in same.items()}


JOB_TERMS: dict[str, SlashOption] = {
    "jobname": SlashOption("name of the job"),
    "name": SlashOption("name of the job", same_as="jobname"),
    "priority": SlashOption(
        "Lowest, BelowNormal, Normal, AboveNormal, Highest, one of them +n or -n, or 0 to 4000"
    ),
    "jobtemplate": SlashOption("name of the job template"),
    "projectname": SlashOption("name of the project"),
    "project": SlashOption("name of the project", same_as="projectname"),
    "runtime": SlashOption(_RUN_TIME),
    "rununtilcanceled": SlashOption(
        "keep the resources until the job is canceled or its run time limit ends", True
    ),
    "rununtilcancelled": SlashOption("as /rununtilcanceled", True, "rununtilcanceled"),
    "runtillcancelled": SlashOption("as /rununtilcanceled", True, "rununtilcanceled"),
    "exclusive": SlashOption("the nodes run no other job", True),
    "singlenode": SlashOption("the whole job runs on one node", True),
    "numprocessors": SlashOption(_SIZE),
    "numcores": SlashOption(_SIZE, same_as="numprocessors"),
    "numsockets": SlashOption("sockets wanted: min[-max], * for calculated from the tasks"),
    "numnodes": SlashOption("whole nodes wanted: min[-max], * for calculated from the tasks"),
    "requestednodes": SlashOption("use only nodes from this list: n1,n2"),
    "askednodes": SlashOption("as /requestednodes", same_as="requestednodes"),
    "excludednodes": SlashOption("exclude these nodes: n1,n2"),
    "nodegroup": SlashOption("use only nodes of these groups: g1,g2"),
    "nodegroupop": SlashOption("combination of the groups: Intersect, Uniform or Union"),
    "memorypernode": SlashOption("memory of each node in MB: min[-max]"),
    "corespernode": SlashOption("processors of each node: min[-max]"),
    "orderby": SlashOption("which nodes first: Memory, Cores, -Memory or -Cores, separated by a comma"),
    "license": SlashOption("licences: feature:n,feature:*"),
    "failontaskfailure": SlashOption("the first failed task fails the job", True),
    "faildependenttasks": SlashOption("a failed task fails the tasks that depend on it", True),
    "validexitcodes": SlashOption(_CODES),
    "parentjobids": SlashOption("start after the jobs with these ids have finished: 1,2"),
    "aftersuccess": SlashOption("as /parentjobids", same_as="parentjobids"),
    "afterfailure": SlashOption("start after the jobs with these ids have failed or were canceled: 1,2"),
    "afterexit": SlashOption("start after the jobs with these ids have ended, with any result: 1,2"),
    "afterstart": SlashOption("start after the jobs with these ids have started: 1,2"),
    "holduntil": SlashOption(
        "do not start before: a date and time (UTC without a time zone), or minutes from now"
    ),
    "endby": SlashOption("latest end of the job: a date and time, or minutes from now"),
    "deadline": SlashOption("as /endby", same_as="endby"),
    "holds": SlashOption("names of holds: the job waits until all are released: h1,h2"),
    "hold": SlashOption("hold the job until its owner releases it; values as in /holds", True),
    "reservation": SlashOption("name of run only in this reservation of nodes"),
    "suspendable": SlashOption("the job may be suspended and resumed", True),
    "preemptable": SlashOption("the job may be preempted by jobs of higher priority", True),
    "interactive": SlashOption(
        "its program runs in a terminal; `hn job shell --job ID` connects to it", True
    ),
    "together": SlashOption("all tasks start at the same time", True),
    "description": SlashOption("free description of the job"),
    "jobgroup": SlashOption("name of the job group of the job"),
    **_needs(),
    "resourcelimit": SlashOption(_LIMITS),
    "emailaddress": SlashOption("e-mail address for notices"),
    "notifyonstart": SlashOption("send a notice when the job starts", True),
    "notifyoncompletion": SlashOption("send a notice when the job has ended", True),
    "customproperties": SlashOption("custom properties: n=v;n=v"),
    "jobenv": SlashOption("environment of all tasks: n=v;n=v"),
    "estimatedprocessmemory": SlashOption("estimated memory of each process, in MB"),
    "taskexecutionfailureretrylimit": SlashOption("how often a task is retried if its program fails"),
    "user": SlashOption("the user the job runs as (administrators only)"),
}
"""Options of a job by their names in lower case."""

TASK_TERMS: dict[str, SlashOption] = {
    "name": SlashOption("name of the task"),
    "taskname": SlashOption("name of the task", same_as="name"),
    "command": SlashOption("the command line"),
    "type": SlashOption("basic, parametric, nodeprep, noderelease or service"),
    "parametric": SlashOption(
        "run once for each value: [start-]end[:increment]; * in the options is replaced by the value"
    ),
    "numprocessors": SlashOption("processors of the task: min[-max]"),
    "numcores": SlashOption("processors of the task: min[-max]", same_as="numprocessors"),
    "numsockets": SlashOption("sockets of the task: min[-max]"),
    "numnodes": SlashOption("whole nodes of the task: min[-max]"),
    "exclusive": SlashOption("the nodes run no other task", True),
    "rerunnable": SlashOption("may run again after a system failure", True),
    "runtime": SlashOption(_RUN_TIME),
    "workdir": SlashOption("work directory"),
    "stdin": SlashOption("file for standard input"),
    "stdout": SlashOption("file for standard output"),
    "stderr": SlashOption("file for standard error"),
    "env": SlashOption("environment of the task: n=v;n=v"),
    "depend": SlashOption("run after all tasks of these names: t1,t2"),
    "requirednodes": SlashOption("the task needs all of these nodes: n1,n2"),
    "askednodes": SlashOption("as /requirednodes", same_as="requirednodes"),
    "requestednodes": SlashOption("as /requirednodes", same_as="requirednodes"),
    "requestednodegroup": SlashOption("run the task on nodes of this group"),
    **_needs(),
    "memorypernode": SlashOption("memory of each node in MB, at least"),
    "corespernode": SlashOption("processors of each node, at least"),
    "distribution": SlashOption(
        "distribution of processes over nodes: per-node=2, nodes=3, round-robin or {1,2}{3}"
    ),
    "resourcelimit": SlashOption(_LIMITS),
    "failjobonfailure": SlashOption("a failure of this task fails the job", True),
    "failjobonfailurecount": SlashOption("how many failed instances of this task fail the job"),
    "validexitcodes": SlashOption(_CODES),
}
"""Options of a task by their names in lower case."""

SIZES = ("numprocessors", "numcores", "numsockets", "numnodes")


def split_terms(terms: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Divide the options of a job of one task into those of the job and those of the task.

    Sizes go to both; other names that both have (name, exclusive, run time, exit codes) to the job;
    unknown names to the job, where they are refused.  A size that is to be calculated stays with the job.
    """
    job = {name: value for name, value in terms.items() if name in JOB_TERMS or name not in TASK_TERMS}
    task = {name: value for name, value in terms.items() if name in TASK_TERMS and name not in JOB_TERMS}
    task |= {name: job[name] for name in SIZES if name in job and "*" not in job[name]}
    return job, task


Fields = dict[str, Any]

_SPAN = re.compile(r"\s*(\*|\d{1,9})\s*(?:-\s*(\*|\d{1,9})\s*)?\Z", re.ASCII)
_PROPERTIES = re.compile(r"\w+=[^=;]*(?:;\w+=[^=;]*)*")
_NEXT_VARIABLE = re.compile(r";(?=[^=;\s]+=)")


def _span(text: str) -> tuple[int | None, int | None]:
    """Read min[-max]; None stands for an asterisk."""
    found = _SPAN.match(text)
    if not found:
        raise BadRequest(
            code="size",
            what=f"{text!r} is not a size",
            fix="write min-max, one number for both, or * for calculated, for example 2-8",
        )
    low, high = found[1], found[2] or found[1]
    return (None if low == "*" else int(low)), (None if high == "*" else int(high))


def job_size(text: str) -> Fields:
    """Read min[-max] of a job; an asterisk leaves it to be calculated."""
    minimum, maximum = _span(text)
    return {"minimum": minimum, "maximum": maximum}


def task_size(text: str) -> Fields:
    """Read min[-max] of a task."""
    minimum, maximum = _span(text)
    if minimum is None or maximum is None:
        raise BadRequest(
            code="size", what=f"{text!r} gives no size for a task", fix="write numbers, for example 1-4"
        )
    return {"minimum": minimum, "maximum": maximum}


def per_node(what: str) -> Callable[[str], Fields]:
    """Return a reader of min[-max] of what every node must have; nothing or 0 asks for nothing."""

    def read(text: str) -> Fields:
        minimum, maximum = _span(text) if text.strip() else (None, None)
        given = maximum if "-" in text else None
        return {f"minimum_{what}": minimum or None, f"maximum_{what}": given or None}

    return read


def moment(text: str, now: Instant | None) -> Instant | None:
    """Read a date and time, or minutes from `now`; nothing takes it away."""
    if not text.strip():
        return None
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
        return parse_date_time(text)
    if now is None:
        raise Broken(code="no-clock", what="a point of time in minutes was read without the time")
    return Instant(now + 60 * int(text))


def read_pairs(value: str | Mapping[str, str]) -> dict[str, str]:
    """Read ``name=value;name=value``; a semicolon that no name follows belongs to the value."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = [pair.partition("=") for pair in _NEXT_VARIABLE.split(value) if pair]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise BadRequest(
            code="pairs", what=f"{value!r} is not a list of n=v", fix="write name=value;name=value"
        )
    return {name.strip(): text for name, _, text in pairs}


def read_properties(value: str | Mapping[str, str]) -> Fields:
    """Read custom properties.

    Source:  HPC Pack option customproperties.
    """
    if isinstance(value, str) and value and not _PROPERTIES.fullmatch(value):
        raise BadRequest(
            code="pairs",
            what=f"{value!r} is not a list of custom properties",
            fix="write name=value;name=value, names of letters, digits and underscores",
        )
    return {"properties": read_pairs(value)}


_NUMBERED = re.compile(r"\s*(per-?node|nodes)\s*=\s*([0-9]{1,9})\s*\Z", re.IGNORECASE)
_GEOMETRY = re.compile(r"\s*(?:\{[0-9,\s]{1,100000}\}\s*)+\Z")
_BLOCK = re.compile(r"\{([^}]*)\}")


def read_features(text: str) -> tuple[tuple[str, ...], ...]:
    """Read features: a comma is between those wanted together, | between those to choose from."""
    return tuple(
        tuple(name.strip() for name in choice.split("|") if name.strip()) for choice in parse_names(text)
    )


def read_pattern(text: str) -> tuple[str, ...]:
    """Read a regular expression, in which a comma is a sign like any other."""
    return (text.strip(),) if text.strip() else ()


def read_distribution(text: str) -> Distribution | None:
    """Read ``per-node=2``, ``nodes=3``, ``round-robin`` or a geometry; nothing leaves it to the cluster.

    Raises:  BadRequest ``distribution``.
    Source:  SSS 3.1.0, "TaskDistribution", for the way in which a geometry is written.
    """
    if not text.strip():
        return None
    if re.fullmatch(r"round-?robin", text.strip(), re.IGNORECASE):
        return Distribution(round_robin=True)
    numbered = _NUMBERED.match(text)
    if numbered:
        number = int(numbered[2])
        if number == 0:
            raise BadRequest(code="distribution", what=f"{text!r} leaves no place", fix="write 1 or more")
        evenly = numbered[1].lower() == "nodes"
        return Distribution(nodes=number) if evenly else Distribution(per_node=number)
    blocks = [parse_names(block) for block in _BLOCK.findall(text)] if _GEOMETRY.match(text) else []
    if not blocks or not all(name.isdigit() and len(name) < 10 for block in blocks for name in block):
        raise BadRequest(
            code="distribution",
            what=f"{text!r} is not a distribution of processes over nodes",
            fix="write per-node=2, nodes=3, round-robin, or the processes of each node: {1,2}{3}",
        )
    return Distribution(geometry=tuple(tuple(map(int, block)) for block in blocks))


def read_limits(text: str) -> tuple[ResourceLimit, ...]:
    """Read ``name=limit`` or ``name=soft:hard``, separated by commas.

    Raises:  BadRequest ``resource-limit``.
    """
    return parse_limits([*parse_names(text)])


def _amount(text: str) -> int:
    return parse_least(text) or 0 if text.strip() else 0


NEEDS: Mapping[str, tuple[str, Any]] = {
    "feature": ("features", read_features),
    "lacking": ("lacking", NAMES.read),
    "featurepattern": ("feature_patterns", read_pattern),
    "architecture": ("architectures", NAMES.read),
    "system": ("systems", NAMES.read),
    "onlynodes": ("names", NODES.read),
    "avoidnodes": ("excluded", NODES.read),
    "nodepattern": ("patterns", read_pattern),
    "avoidpattern": ("excluded_patterns", read_pattern),
    "diskpernode": ("minimum_disk", _amount),
    "swappernode": ("minimum_swap", _amount),
    "virtualpernode": ("minimum_virtual", _amount),
    "speedpernode": ("minimum_speed", _amount),
}
"""Options of jobs and of tasks that say what is demanded of every node; the fields, and how they are read."""

NEEDS_OF_TASKS: Mapping[str, tuple[str, Any]] = {
    **NEEDS,
    "memorypernode": ("minimum_memory", _amount),
    "corespernode": ("minimum_processors", _amount),
}
"""The same for a task, for which these two are no fields of their own."""
