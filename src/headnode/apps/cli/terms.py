"""The options that describe a job or a task, and what was typed as the terms the head reads.

Source:  docs/contracts/01-local-protocol.md, ``Terms``."""

import os

from headnode.apps.cli.options import CliOption, grouped
from headnode.apps.cli.shell import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from headnode.apps.cli.options import Arguments

_SIZE = "N[-M]"
_RUN_TIME = "TIME"
WHAT, SIZE, NODES, TIME, WAITS, FILES, FAILURE, NOTICES, OTHERWISE = (
    "The job",
    "Processors and nodes",
    "Which nodes",
    "Time and priority",
    "Dependencies and holds",
    "Files and environment",
    "Failures",
    "Notifications",
    "Special jobs",
)
"""Headings of the help page."""

_LIMITS = CliOption("resourcelimit", "NAME=N[:N],...", "Limits of every process: a number, or soft:hard")
_NEEDS = grouped(
    NODES,
    CliOption("feature", "FEATURE,...", "Features a node must have; big|huge: either of them", ("features",)),
    CliOption("lacking", "FEATURE,...", "Features a node must not have"),
    CliOption("featurepattern", "REGEX", "Regular expression that a feature of the node must match"),
    CliOption("architecture", "NAME,...", "Architecture of the node; several: one of them", ("arch",)),
    CliOption("system", "NAME,...", "Operating system of the node; several: one of them", ("os",)),
    CliOption("onlynodes", "NODE,...", "Run on these nodes only"),
    CliOption("avoidnodes", "NODE,...", "Run on none of these nodes"),
    CliOption("nodepattern", "REGEX", "Regular expression that the node's name must match"),
    CliOption("avoidpattern", "REGEX", "Regular expression that the node's name must not match"),
    CliOption("diskpernode", "MB", "Disk a node must have"),
    CliOption("swappernode", "MB", "Swap a node must have"),
    CliOption("virtualpernode", "MB", "Memory and swap together a node must have"),
    CliOption("speedpernode", "MHZ", "Speed a node must have"),
)

JOB_OPTIONS = (
    *grouped(
        WHAT,
        CliOption("jobname", "TEXT", "Name of the job", ("name",), short="J"),
        CliOption("projectname", "TEXT", "Project of the job", ("project",)),
        CliOption("jobtemplate", "NAME", "Job template: defaults and limits for a kind of jobs"),
        CliOption("description", "TEXT", "What the job is for"),
        CliOption("jobgroup", "NAME", "Job group of the job"),
        CliOption("customproperties", "N=V;...", "Custom properties, stored with the job"),
        CliOption("user", "NAME", "Owner of the job; another user than you for administrators only"),
    ),
    *grouped(
        SIZE,
        CliOption(
            "numprocessors",
            _SIZE,
            "Processors, minimum and maximum; *: calculated from the tasks",
            ("numcores",),
            short="n",
        ),
        CliOption("numnodes", _SIZE, "Whole nodes, minimum and maximum", short="N"),
        CliOption("numsockets", _SIZE, "Sockets, minimum and maximum"),
        CliOption("exclusive", "", "No other job on the job's nodes"),
        CliOption("singlenode", "", "All processors on one node"),
        CliOption("estimatedprocessmemory", "MB", "Memory of each process: reserved for it, and its limit"),
        CliOption("memorypernode", "MB[-MB]", "Memory a node must have"),
        CliOption("corespernode", _SIZE, "Processors a node must have"),
        CliOption("license", "FEATURE:N,...", "Licences; *: one per processor"),
        _LIMITS,
    ),
    *grouped(
        TIME,
        CliOption(
            "runtime", _RUN_TIME, "Run time limit: 90 (minutes), 90m, 1h30m, 2d; infinite for none", short="t"
        ),
        CliOption("priority", "PRIORITY", "Lowest to Highest, a name plus or minus a number, or 0 to 4000"),
        CliOption("holduntil", "TIME", "Earliest start: a date and time, or minutes from now; empty: none"),
        CliOption(
            "endby",
            "TIME",
            "Deadline for its end: a date and time, or minutes from now",
            ("deadline",),
        ),
        CliOption("reservation", "NAME", "Run only in this reservation of nodes; empty: in none"),
        CliOption("suspendable", "", "The job may be suspended and resumed"),
        CliOption("preemptable", "", "A job of higher priority may preempt it; false: it may not"),
    ),
    *grouped(
        WAITS,
        CliOption("parentjobids", "ID,...", "Jobs that must have finished first", ("aftersuccess",)),
        CliOption("afterfailure", "ID,...", "Jobs that must have failed or been canceled first"),
        CliOption("afterexit", "ID,...", "Jobs that must have ended first, in any state"),
        CliOption("afterstart", "ID,...", "Jobs that must have started first"),
        CliOption("hold", "", "Hold the job until 'hn job release'; --hold=NAME,...: named holds", short="H"),
        CliOption("holds", "NAME,...", "Named holds; the job starts when all are released"),
    ),
    *grouped(
        NODES,
        CliOption("requestednodes", "NODE,...", "Nodes that the job may use", ("askednodes",), short="w"),
        CliOption("excludednodes", "NODE,...", "Nodes that the job may not use", short="x"),
        CliOption("nodegroup", "GROUP,...", "Node groups that the job may use"),
        CliOption("nodegroupop", "OP", "Intersect, Union or Uniform: how several groups combine"),
        CliOption("orderby", "KEY,...", "Order of nodes: [-]Memory, [-]Cores"),
    ),
    *_NEEDS,
    *grouped(FILES, CliOption("jobenv", "N=V;...", "Environment of all tasks", repeats=True)),
    *grouped(
        FAILURE,
        CliOption("failontaskfailure", "", "The job fails and stops with its first failed task"),
        CliOption("faildependenttasks", "", "Tasks that depend on a failed one fail too"),
        CliOption("validexitcodes", "CODE,...", "Exit codes of success, such as 0,2..5,max"),
        CliOption("taskexecutionfailureretrylimit", "N", "How often a failed task is run again"),
    ),
    *grouped(
        NOTICES,
        CliOption("emailaddress", "ADDRESS", "Address for notifications"),
        CliOption("notifyonstart", "", "Send a notification when the job starts"),
        CliOption("notifyoncompletion", "", "Send a notification when the job ends"),
    ),
    *grouped(
        OTHERWISE,
        CliOption(
            "rununtilcanceled",
            "",
            "Hold the resources until the job is canceled",
            ("rununtilcancelled", "runtillcancelled"),
        ),
        CliOption("interactive", "", "The program runs in a terminal; connect with 'hn job shell --job ID'"),
        CliOption("together", "", "All tasks start at the same time, or none"),
    ),
)

TASK_OPTIONS = (
    *grouped(
        WHAT,
        CliOption("name", "TEXT", "Name of the task, for --depend of other tasks", ("taskname",)),
        CliOption("parametric", "[A-]B[:STEP]", "A sweep: one instance per number, which replaces *"),
        CliOption("type", "TYPE", "Basic, Parametric, NodePrep, NodeRelease or Service"),
    ),
    *grouped(
        SIZE,
        CliOption("numprocessors", _SIZE, "Processors of the task", ("numcores",), short="n"),
        CliOption("numnodes", _SIZE, "Nodes of the task", short="N"),
        CliOption("numsockets", _SIZE, "Sockets of the task"),
        CliOption("exclusive", "", "No other task on the task's nodes"),
        CliOption("memorypernode", "MB", "Memory a node must have"),
        CliOption("corespernode", "N", "Processors a node must have"),
        CliOption(
            "distribution",
            "HOW",
            "Distribution of processes over nodes: per-node=N, nodes=N, round-robin, {1,2}{3}",
        ),
        _LIMITS,
    ),
    *grouped(
        TIME,
        CliOption(
            "runtime", _RUN_TIME, "Run time limit of the task: 90 (minutes), 90m, 1h30m, 2d", short="t"
        ),
    ),
    *grouped(WAITS, CliOption("depend", "NAME,...", "Names of tasks that must have ended first")),
    *grouped(
        FILES,
        CliOption("workdir", "DIRECTORY", "Work directory (default: your current directory)", short="D"),
        CliOption("stdin", "FILE", "Standard input from this file", short="i"),
        CliOption("stdout", "FILE", "Standard output into this file", short="o"),
        CliOption("stderr", "FILE", "Standard error into this file", short="e"),
        CliOption(
            "env",
            "N=V[;N=V] | N",
            "Environment of the task; a name alone passes your own value on",
            repeats=True,
        ),
    ),
    *grouped(
        NODES,
        CliOption("requirednodes", "NODE,...", "Nodes the task must have", ("askednodes", "requestednodes")),
        CliOption("requestednodegroup", "GROUP", "Node group the task must run in"),
    ),
    *_NEEDS,
    *grouped(
        FAILURE,
        CliOption("rerunnable", "", "The task may be run again after its node is lost"),
        CliOption("failjobonfailure", "", "The job fails if this task fails"),
        CliOption("failjobonfailurecount", "N", "The job fails if this many instances fail"),
        CliOption("validexitcodes", "CODE,...", "Exit codes of success, such as 0,2..5,max"),
    ),
)


SIZES = ("numprocessors", "numnodes", "numsockets")


def job_terms(asked: "Arguments") -> "dict[str, str]":
    """Return the terms of the job.

    Raises:  BadRequest ``usage`` for a time with two readings.
    """
    _check_run_time(asked)
    for name in ("holduntil", "endby"):
        if not asked.hpc_pack and "/" in (asked.text(name) or ""):
            from headnode.apps.cli.slurm_and_pbs import refuse_ambiguous_date

            refuse_ambiguous_date(asked.options[name][-1])
    return {option.name: ";".join(asked.options[option.name]) for option in _given(asked, JOB_OPTIONS)}


def _check_run_time(asked: "Arguments") -> None:
    if asked.hpc_pack or ":" not in (asked.text("runtime") or ""):
        return
    from headnode.apps.cli.slurm_and_pbs import refuse_ambiguous_time

    refuse_ambiguous_time(asked.options["runtime"][-1])


def task_terms(asked: "Arguments", words: "Sequence[str]") -> "dict[str, Any]":
    """Return the terms of a task that runs the program `words`.

    Raises:  BadRequest ``usage`` for a run time with two readings.
    """
    _check_run_time(asked)
    terms: dict[str, Any] = {
        option.name: asked.options[option.name][-1]
        for option in _given(asked, TASK_OPTIONS)
        if option.name != "env"
    }
    terms["command"] = command_line(words)
    if "env" in asked.options:
        terms["env"] = environment(asked.options["env"], os.environ)
    return terms


def changed_terms(asked: "Arguments") -> "dict[str, Any]":
    """Return the terms of a task that are to change.

    Raises:  BadRequest ``usage`` for a run time with two readings.
    """
    terms = task_terms(asked, [""])
    del terms["command"]
    return terms


def only_task_terms(asked: "Arguments", words: "Sequence[str]") -> "dict[str, Any]":
    """Return the terms of the only task of a job, where one option may speak of both.

    Sizes count for the job and its task, so that ``/numprocessors:4`` gives the program four; the instances
    of a sweep take one each, and so do those of a service.  All else that both could have is the job's.
    """
    several = "parametric" in asked.options or (asked.text("type") or "").casefold() not in ("", "basic")
    for_both = () if several else SIZES
    jobs = {option.name for option in JOB_OPTIONS}
    terms = task_terms(asked, words)
    return {
        name: value
        for name, value in terms.items()
        if name not in jobs or (name in for_both and "*" not in value)
    }


def environment(texts: "Sequence[str]", mine: "Mapping[str, str]") -> "dict[str, str]":
    """Read ``n=v;n=v``, given once or several times; a piece without ``=`` belongs to the value before it.

    A text that begins with a name alone takes its value from `mine`, the variables of the submitter.
    Raises:  BadRequest ``usage`` when a name is missing, or a variable that is to be taken.

    >>> environment(["A=1;B=x;y", "C=", "D"], {"D": "4"})
    {'A': '1', 'B': 'x;y', 'C': '', 'D': '4'}
    """
    values: dict[str, str] = {}
    for text in texts:
        name = ""
        for piece in text.split(";"):
            before, equals, after = piece.partition("=")
            if equals and before:
                name = before
                values[name] = after
            elif name and not equals:
                values[name] += f";{piece}"
            elif piece and not equals:
                values[piece] = _imported_variable(piece, mine)
            else:
                raise _no_variable(text)
    return values


def _given(asked: "Arguments", options: "Sequence[CliOption]") -> "list[CliOption]":
    return [option for option in options if option.name in asked.options]


def _imported_variable(name: str, mine: "Mapping[str, str]") -> str:
    if name not in mine:
        from headnode.apps.cli.options import usage

        raise usage(f"there is no variable {name!r} here", f"set and export it, or write {name}=VALUE")
    return mine[name]


def _no_variable(text: str) -> "Exception":
    from headnode.apps.cli.options import usage

    return usage(f"environment {text!r} is not understood", "write NAME=VALUE, or NAME=VALUE;NAME=VALUE")
