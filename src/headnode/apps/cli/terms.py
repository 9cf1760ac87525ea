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
    "Time and priority",
    "Dependencies and holds",
    "Files and environment",
    "Failures",
    "Notifications",
    "Special jobs",
)
"""Headings of the help page."""

_LIMITS = Option("resourcelimit", "NAME=N[:N],...", "Limits of every process: a number, or soft:hard")
_NEEDS = grouped(
    NODES,
    Option("feature", "FEATURE,...", "Features a node must have; big|huge: either of them", ("features",)),
    Option("lacking", "FEATURE,...", "Features a node must not have"),
    Option("featurepattern", "REGEX", "Regular expression that a feature of the node must match"),
    Option("architecture", "NAME,...", "Architecture of the node; several: one of them", ("arch",)),
    Option("system", "NAME,...", "Operating system of the node; several: one of them", ("os",)),
    Option("onlynodes", "NODE,...", "Run on these nodes only"),
    Option("avoidnodes", "NODE,...", "Run on none of these nodes"),
    Option("nodepattern", "REGEX", "Regular expression that the node's name must match"),
    Option("avoidpattern", "REGEX", "Regular expression that the node's name must not match"),
    Option("diskpernode", "MB", "Disk a node must have"),
    Option("swappernode", "MB", "Swap a node must have"),
    Option("virtualpernode", "MB", "Memory and swap together a node must have"),
    Option("speedpernode", "MHZ", "Speed a node must have"),
)

JOB_OPTIONS = (
    *grouped(
        WHAT,
        Option("jobname", "TEXT", "Name of the job", ("name",), short="J"),
        Option("projectname", "TEXT", "Project of the job", ("project",)),
        Option("jobtemplate", "NAME", "Job template: defaults and limits for a kind of jobs"),
        Option("description", "TEXT", "What the job is for"),
        Option("jobgroup", "NAME", "Job group of the job"),
        Option("customproperties", "N=V;...", "Custom properties, stored with the job"),
        Option("user", "NAME", "Owner of the job; another user than you for administrators only"),
    ),
    *grouped(
        SIZE,
        Option(
            "numprocessors",
            _SIZE,
            "Processors, minimum and maximum; *: calculated from the tasks",
            ("numcores",),
            short="n",
        ),
        Option("numnodes", _SIZE, "Whole nodes, minimum and maximum", short="N"),
        Option("numsockets", _SIZE, "Sockets, minimum and maximum"),
        Option("exclusive", "", "No other job on the job's nodes"),
        Option("singlenode", "", "All processors on one node"),
        Option("estimatedprocessmemory", "MB", "Memory of each process: reserved for it, and its limit"),
        Option("memorypernode", "MB[-MB]", "Memory a node must have"),
        Option("corespernode", _SIZE, "Processors a node must have"),
        Option("license", "FEATURE:N,...", "Licences; *: one per processor"),
        _LIMITS,
    ),
    *grouped(
        TIME,
        Option(
            "runtime", _RUN_TIME, "Run time limit: 90 (minutes), 90m, 1h30m, 2d; infinite for none", short="t"
        ),
        Option("priority", "PRIORITY", "Lowest to Highest, a name plus or minus a number, or 0 to 4000"),
        Option("holduntil", "TIME", "Earliest start: a date and time, or minutes from now; empty: none"),
        Option(
            "endby",
            "TIME",
            "Deadline for its end: a date and time, or minutes from now",
            ("deadline",),
        ),
        Option("reservation", "NAME", "Run only in this reservation of nodes; empty: in none"),
        Option("suspendable", "", "The job may be suspended and resumed"),
        Option("preemptable", "", "A job of higher priority may preempt it; false: it may not"),
    ),
    *grouped(
        WAITS,
        Option("parentjobids", "ID,...", "Jobs that must have finished first", ("aftersuccess",)),
        Option("afterfailure", "ID,...", "Jobs that must have failed or been canceled first"),
        Option("afterexit", "ID,...", "Jobs that must have ended first, in any state"),
        Option("afterstart", "ID,...", "Jobs that must have started first"),
        Option("hold", "", "Hold the job until 'hn job release'; --hold=NAME,...: named holds", short="H"),
        Option("holds", "NAME,...", "Named holds; the job starts when all are released"),
    ),
    *grouped(
        NODES,
        Option("requestednodes", "NODE,...", "Nodes that the job may use", ("askednodes",), short="w"),
        Option("excludednodes", "NODE,...", "Nodes that the job may not use", short="x"),
        Option("nodegroup", "GROUP,...", "Node groups that the job may use"),
        Option("nodegroupop", "OP", "Intersect, Union or Uniform: how several groups combine"),
        Option("orderby", "KEY,...", "Order of nodes: [-]Memory, [-]Cores"),
    ),
    *_NEEDS,
    *grouped(FILES, Option("jobenv", "N=V;...", "Environment of all tasks", repeats=True)),
    *grouped(
        FAILURE,
        Option("failontaskfailure", "", "The job fails and stops with its first failed task"),
        Option("faildependenttasks", "", "Tasks that depend on a failed one fail too"),
        Option("validexitcodes", "CODE,...", "Exit codes of success, such as 0,2..5,max"),
        Option("taskexecutionfailureretrylimit", "N", "How often a failed task is run again"),
    ),
    *grouped(
        NOTICES,
        Option("emailaddress", "ADDRESS", "Address for notifications"),
        Option("notifyonstart", "", "Send a notification when the job starts"),
        Option("notifyoncompletion", "", "Send a notification when the job ends"),
    ),
    *grouped(
        OTHERWISE,
        Option(
            "rununtilcanceled",
            "",
            "Hold the resources until the job is canceled",
            ("rununtilcancelled", "runtillcancelled"),
        ),
        Option("interactive", "", "The program runs in a terminal; connect with 'hn job shell --job ID'"),
        Option("together", "", "All tasks start at the same time, or none"),
    ),
)

TASK_OPTIONS = (
    *grouped(
        WHAT,
        Option("name", "TEXT", "Name of the task, for --depend of other tasks", ("taskname",)),
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
            "distribution",
            "HOW",
            "Distribution of processes over nodes: per-node=N, nodes=N, round-robin, {1,2}{3}",
        ),
        _LIMITS,
    ),
    *grouped(
        TIME,
        Option("runtime", _RUN_TIME, "Run time limit of the task: 90 (minutes), 90m, 1h30m, 2d", short="t"),
    ),
    *grouped(WAITS, Option("depend", "NAME,...", "Names of tasks that must have ended first")),
    *grouped(
        FILES,
        Option("workdir", "DIRECTORY", "Work directory (default: your current directory)", short="D"),
        Option("stdin", "FILE", "Standard input from this file", short="i"),
        Option("stdout", "FILE", "Standard output into this file", short="o"),
        Option("stderr", "FILE", "Standard error into this file", short="e"),
        Option(
            "env",
            "N=V[;N=V] | N",
            "Environment of the task; a name alone passes your own value on",
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
        Option("rerunnable", "", "The task may be run again after its node is lost"),
        Option("failjobonfailure", "", "The job fails if this task fails"),
        Option("failjobonfailurecount", "N", "The job fails if this many instances fail"),
        Option("validexitcodes", "CODE,...", "Exit codes of success, such as 0,2..5,max"),
    ),
)
