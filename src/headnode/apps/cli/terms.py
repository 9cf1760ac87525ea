"""The options that describe a job or a task, by name.  The head reads their values.

They are listed here so that a misspelt one is refused at once, without importing the formats; a test holds
the names to those of `headnode.core.formats.terms`.
Source:  CCS, "Standard job and task options"; HPC Pack ``job`` command.
"""

from headnode.apps.cli.options import Option, grouped

_SIZE = "N[-M]"
_RUN_TIME = "TIME"
WHAT, SIZE, NODES, TIME, WAITS, FILES, FAILURE, NOTICES, OTHERWISE = (
    "The job",
    "Processors and nodes",
    "Which nodes",
    "Time and turn",
    "What it waits for",
    "Files and environment",
    "Failures",
    "Notices",
    "Special jobs",
)
"""Headings of the help page."""

_LIMITS = Option("resourcelimit", "NAME=N[:N],...", "Limits of every process: a number, or soft:hard")
_NEEDS = grouped(
    NODES,
    Option("feature", "FEATURE,...", "Features a node must have; big|huge is a choice", ("features",)),
    Option("lacking", "FEATURE,...", "Features a node must not have"),
    Option("featurepattern", "REGEX", "Regular expression that a feature of the node matches"),
    Option("architecture", "NAME,...", "Architecture of the node; several: one of them", ("arch",)),
    Option("system", "NAME,...", "Operating system of the node; several: one of them", ("os",)),
    Option("onlynodes", "NODE,...", "On these nodes only"),
    Option("avoidnodes", "NODE,...", "On none of these nodes"),
    Option("nodepattern", "REGEX", "Regular expression that a node's name matches"),
    Option("avoidpattern", "REGEX", "Regular expression that a node's name does not match"),
    Option("diskpernode", "MB", "Disk a node must have"),
    Option("swappernode", "MB", "Swap a node must have"),
    Option("virtualpernode", "MB", "Memory and swap together a node must have"),
    Option("speedpernode", "MHZ", "Speed a node must have"),
)

JOB_OPTIONS = (
    *grouped(
        WHAT,
        Option("jobname", "TEXT", "Name of the job", ("name",), short="J"),
        Option("projectname", "TEXT", "Project the job is counted for", ("project",)),
        Option("jobtemplate", "NAME", "Job template: what jobs of a kind get, and may ask for"),
        Option("description", "TEXT", "What the job is for"),
        Option("jobgroup", "NAME", "Job group that it belongs to"),
        Option("customproperties", "N=V;...", "Your own properties, kept with the job"),
        Option("user", "NAME", "Whose job it is: of others for administrators only"),
    ),
    *grouped(
        SIZE,
        Option(
            "numprocessors",
            _SIZE,
            "Processors, minimum and maximum; * lets the tasks decide",
            ("numcores",),
            short="n",
        ),
        Option("numnodes", _SIZE, "Whole nodes, minimum and maximum", short="N"),
        Option("numsockets", _SIZE, "Sockets, minimum and maximum"),
        Option("exclusive", "", "No other job on the job's nodes"),
        Option("singlenode", "", "All processors on one node"),
        Option("estimatedprocessmemory", "MB", "Memory of each process: held for it, and its limit"),
        Option("memorypernode", "MB[-MB]", "Memory a node must have"),
        Option("corespernode", _SIZE, "Processors a node must have"),
        Option("license", "FEATURE:N,...", "Licences; * for one per processor"),
        _LIMITS,
    ),
    *grouped(
        TIME,
        Option(
            "runtime", _RUN_TIME, "Run time limit: 90 (minutes), 90m, 1h30m, 2d; infinite for none", short="t"
        ),
        Option("priority", "PRIORITY", "Lowest to Highest, a name plus or minus a number, or 0 to 4000"),
        Option("holduntil", "TIME", "Start no sooner: a date and time, or minutes from now; empty lifts it"),
        Option(
            "endby",
            "TIME",
            "It must have ended by then: a date and time, or minutes from now",
            ("deadline",),
        ),
        Option("reservation", "NAME", "Run in this reservation of nodes, and nowhere else; empty lifts it"),
        Option("suspendable", "", "It may be suspended, and go on later"),
        Option("preemptable", "", "A job of higher priority may be given what it holds; false: none may"),
    ),
    *grouped(
        WAITS,
        Option("parentjobids", "ID,...", "Jobs that must be finished first", ("aftersuccess",)),
        Option("afterfailure", "ID,...", "Jobs that must have failed, or been canceled, first"),
        Option("afterexit", "ID,...", "Jobs that must be over first, however they end"),
        Option("afterstart", "ID,...", "Jobs that must have started first"),
        Option(
            "hold", "", "Hold the job until 'hn job release'; --hold=NAME,... for holds with names", short="H"
        ),
        Option("holds", "NAME,...", "Holds, each of which must be released before it starts"),
    ),
    *grouped(
        NODES,
        Option("requestednodes", "NODE,...", "The job's nodes come from these", ("askednodes",), short="w"),
        Option("excludednodes", "NODE,...", "The job does not run on these", short="x"),
        Option("nodegroup", "GROUP,...", "The job's nodes come from these groups"),
        Option("nodegroupop", "OP", "Intersect, Union or Uniform: how several groups combine"),
        Option("orderby", "KEY,...", "Order of nodes: [-]Memory, [-]Cores"),
    ),
    *_NEEDS,
    *grouped(FILES, Option("jobenv", "N=V;...", "Environment of all tasks", repeats=True)),
    *grouped(
        FAILURE,
        Option("failontaskfailure", "", "The first failed task ends the job"),
        Option("faildependenttasks", "", "Tasks that depend on a failed one fail too"),
        Option("validexitcodes", "CODE,...", "Exit codes of success, such as 0,2..5,max"),
        Option("taskexecutionfailureretrylimit", "N", "How often a task that failed is run again"),
    ),
    *grouped(
        NOTICES,
        Option("emailaddress", "ADDRESS", "Where notices go"),
        Option("notifyonstart", "", "Send a notice at the start"),
        Option("notifyoncompletion", "", "Send a notice at the end"),
    ),
    *grouped(
        OTHERWISE,
        Option(
            "rununtilcanceled",
            "",
            "Hold the resources until the job is canceled",
            ("rununtilcancelled", "runtillcancelled"),
        ),
        Option("interactive", "", "Its program runs in a terminal: come to it with 'hn job shell --job ID'"),
        Option("together", "", "All tasks start at the same time, or none"),
    ),
)

TASK_OPTIONS = (
    *grouped(
        WHAT,
        Option("name", "TEXT", "Name of the task, for those that depend on it", ("taskname",)),
        Option("parametric", "[A-]B[:STEP]", "A sweep: one instance per number, which replaces *"),
        Option("type", "TYPE", "Basic, Parametric, NodePrep, NodeRelease or Service"),
    ),
    *grouped(
        SIZE,
        Option("numprocessors", _SIZE, "Processors of the task", ("numcores",), short="n"),
        Option("numnodes", _SIZE, "Nodes of the task", short="N"),
        Option("numsockets", _SIZE, "Sockets of the task"),
        Option("exclusive", "", "No other task on the task's nodes"),
        Option("memorypernode", "MB", "Memory a node must have"),
        Option("corespernode", "N", "Processors a node must have"),
        Option(
            "distribution", "HOW", "How processes lie on nodes: per-node=N, nodes=N, round-robin, {1,2}{3}"
        ),
        _LIMITS,
    ),
    *grouped(
        TIME,
        Option("runtime", _RUN_TIME, "Run time limit of the task: 90 (minutes), 90m, 1h30m, 2d", short="t"),
    ),
    *grouped(WAITS, Option("depend", "NAME,...", "Tasks that must be done first")),
    *grouped(
        FILES,
        Option("workdir", "DIRECTORY", "Where it runs; the directory you stand in if not given", short="D"),
        Option("stdin", "FILE", "Standard input from this file", short="i"),
        Option("stdout", "FILE", "Standard output into this file", short="o"),
        Option("stderr", "FILE", "Standard error into this file", short="e"),
        Option(
            "env",
            "N=V[;N=V] | N",
            "Environment of the task; a name alone takes your value of it",
            repeats=True,
        ),
    ),
    *grouped(
        NODES,
        Option("requirednodes", "NODE,...", "Nodes the task must have", ("askednodes", "requestednodes")),
        Option("requestednodegroup", "GROUP", "Node group the task must run in"),
    ),
    *_NEEDS,
    *grouped(
        FAILURE,
        Option("rerunnable", "", "May be run again after its node was lost"),
        Option("failjobonfailure", "", "The job fails when the task does"),
        Option("failjobonfailurecount", "N", "The job fails when so many instances do"),
        Option("validexitcodes", "CODE,...", "Exit codes of success, such as 0,2..5,max"),
    ),
)
