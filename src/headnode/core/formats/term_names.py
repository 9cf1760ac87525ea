"""The names of the command line's job and task options, with a line of help for each.

Kept apart and free of imports but one: a command line that only needs its help loads nothing else.
Source: CCS, "Standard job and task options"; HPC Pack commands job new, job add and job modify.
"""

from typing import NamedTuple


class Term(NamedTuple):
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


def _needs() -> "dict[str, Term]":
    own = {name: Term(said) for name, said in _NEEDS.items()}
    same = {"features": "feature", "arch": "architecture", "os": "system"}
    return own | {name: Term(f"as /{other}", same_as=other) for name, other in same.items()}


JOB_TERMS: dict[str, Term] = {
    "jobname": Term("name of the job"),
    "name": Term("name of the job", same_as="jobname"),
    "priority": Term("Lowest, BelowNormal, Normal, AboveNormal, Highest, one of them +n or -n, or 0 to 4000"),
    "jobtemplate": Term("name of the job template"),
    "projectname": Term("name of the project"),
    "project": Term("name of the project", same_as="projectname"),
    "runtime": Term(_RUN_TIME),
    "rununtilcanceled": Term("keep the resources until the job is canceled or its run time limit ends", True),
    "rununtilcancelled": Term("as /rununtilcanceled", True, "rununtilcanceled"),
    "runtillcancelled": Term("as /rununtilcanceled", True, "rununtilcanceled"),
    "exclusive": Term("the nodes run no other job", True),
    "singlenode": Term("the whole job runs on one node", True),
    "numprocessors": Term(_SIZE),
    "numcores": Term(_SIZE, same_as="numprocessors"),
    "numsockets": Term("sockets wanted: min[-max], * for calculated from the tasks"),
    "numnodes": Term("whole nodes wanted: min[-max], * for calculated from the tasks"),
    "requestednodes": Term("use only nodes from this list: n1,n2"),
    "askednodes": Term("as /requestednodes", same_as="requestednodes"),
    "excludednodes": Term("exclude these nodes: n1,n2"),
    "nodegroup": Term("use only nodes of these groups: g1,g2"),
    "nodegroupop": Term("combination of the groups: Intersect, Uniform or Union"),
    "memorypernode": Term("memory of each node in MB: min[-max]"),
    "corespernode": Term("processors of each node: min[-max]"),
    "orderby": Term("which nodes first: Memory, Cores, -Memory or -Cores, separated by a comma"),
    "license": Term("licences: feature:n,feature:*"),
    "failontaskfailure": Term("the first failed task fails the job", True),
    "faildependenttasks": Term("a failed task fails the tasks that depend on it", True),
    "validexitcodes": Term(_CODES),
    "parentjobids": Term("start after the jobs with these ids have finished: 1,2"),
    "aftersuccess": Term("as /parentjobids", same_as="parentjobids"),
    "afterfailure": Term("start after the jobs with these ids have failed or were canceled: 1,2"),
    "afterexit": Term("start after the jobs with these ids have ended, with any result: 1,2"),
    "afterstart": Term("start after the jobs with these ids have started: 1,2"),
    "holduntil": Term("do not start before: a date and time (UTC without a time zone), or minutes from now"),
    "endby": Term("latest end of the job: a date and time, or minutes from now"),
    "deadline": Term("as /endby", same_as="endby"),
    "holds": Term("names of holds: the job waits until all are released: h1,h2"),
    "hold": Term("hold the job until its owner releases it; values as in /holds", True),
    "reservation": Term("name of run only in this reservation of nodes"),
    "suspendable": Term("the job may be suspended and resumed", True),
    "preemptable": Term("the job may be preempted by jobs of higher priority", True),
    "interactive": Term("its program runs in a terminal; `hn job shell --job ID` connects to it", True),
    "together": Term("all tasks start at the same time", True),
    "description": Term("free description of the job"),
    "jobgroup": Term("name of the job group of the job"),
    **_needs(),
    "resourcelimit": Term(_LIMITS),
    "emailaddress": Term("e-mail address for notices"),
    "notifyonstart": Term("send a notice when the job starts", True),
    "notifyoncompletion": Term("send a notice when the job has ended", True),
    "customproperties": Term("custom properties: n=v;n=v"),
    "jobenv": Term("environment of all tasks: n=v;n=v"),
    "estimatedprocessmemory": Term("estimated memory of each process, in MB"),
    "taskexecutionfailureretrylimit": Term("how often a task is retried if its program fails"),
    "user": Term("the user the job runs as (administrators only)"),
}
"""Options of a job by their names in lower case."""

TASK_TERMS: dict[str, Term] = {
    "name": Term("name of the task"),
    "taskname": Term("name of the task", same_as="name"),
    "command": Term("the command line"),
    "type": Term("basic, parametric, nodeprep, noderelease or service"),
    "parametric": Term(
        "run once for each value: [start-]end[:increment]; * in the options is replaced by the value"
    ),
    "numprocessors": Term("processors of the task: min[-max]"),
    "numcores": Term("processors of the task: min[-max]", same_as="numprocessors"),
    "numsockets": Term("sockets of the task: min[-max]"),
    "numnodes": Term("whole nodes of the task: min[-max]"),
    "exclusive": Term("the nodes run no other task", True),
    "rerunnable": Term("may run again after a system failure", True),
    "runtime": Term(_RUN_TIME),
    "workdir": Term("work directory"),
    "stdin": Term("file for standard input"),
    "stdout": Term("file for standard output"),
    "stderr": Term("file for standard error"),
    "env": Term("environment of the task: n=v;n=v"),
    "depend": Term("run after all tasks of these names: t1,t2"),
    "requirednodes": Term("the task needs all of these nodes: n1,n2"),
    "askednodes": Term("as /requirednodes", same_as="requirednodes"),
    "requestednodes": Term("as /requirednodes", same_as="requirednodes"),
    "requestednodegroup": Term("run the task on nodes of this group"),
    **_needs(),
    "memorypernode": Term("memory of each node in MB, at least"),
    "corespernode": Term("processors of each node, at least"),
    "distribution": Term(
        "distribution of processes over nodes: per-node=2, nodes=3, round-robin or {1,2}{3}"
    ),
    "resourcelimit": Term(_LIMITS),
    "failjobonfailure": Term("a failure of this task fails the job", True),
    "failjobonfailurecount": Term("how many failed instances of this task fail the job"),
    "validexitcodes": Term(_CODES),
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
