"""What the programs of other schedulers print for ``--help``: usage, and options from their tables."""

from textwrap import fill

from headnode.apps.cli.catalogue import CONDOR, SLURM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from headnode.apps.cli.batch_programs.words import OptionTable, ProgramOption

_WIDTH = 100
_PURPOSES = {
    "sbatch": ("[OPTIONS] [SCRIPT [ARGUMENT...]]", "Submit a batch script, or standard input."),
    "squeue": ("[OPTIONS]", "List the jobs that wait and run."),
    "scancel": ("[OPTIONS] [JOB[_ELEMENT]...]", "End jobs, or elements of arrays."),
    "sinfo": ("[OPTIONS]", "List partitions and nodes."),
    "sacct": ("[OPTIONS]", "List jobs with their ends, exit codes and used resources."),
    "srun": ("[OPTIONS] PROGRAM [ARGUMENT...]", "Run a program in a new job, or in the job around it."),
    "salloc": ("[OPTIONS] [PROGRAM [ARGUMENT...]]", "Get processors for a program that runs here."),
    "scontrol": ("[OPTIONS] KEYWORD [ARGUMENT...]", "Show or change jobs, nodes and partitions."),
    "sprio": ("[OPTIONS]", "List the priorities of the jobs that wait."),
    "seff": ("[OPTIONS] JOB[_ELEMENT]", "Show what a job used of the processors and memory that it had."),
    "sacctmgr": ("[OPTIONS] show ENTITY [FIELD=VALUE...] [format=FIELD,...]", "Show accounts and users."),
    "sshare": ("[OPTIONS]", "List what users and accounts have used."),
    "sreport": ("[OPTIONS] KIND REPORT [NAME=VALUE...]", "Report the processor time of users and accounts."),
    "sstat": ("[OPTIONS] -j JOB[.STEP][,...]", "Show what running jobs use now."),
    "scrontab": ("[OPTIONS] [FILE]", "Edit, list or replace your table of recurring jobs."),
    "qsub": ("[OPTIONS] [SCRIPT [ARGUMENT...]]", "Submit a batch script, or standard input."),
    "qstat": ("[OPTIONS] [JOB...]", "List jobs."),
    "qdel": ("[OPTIONS] JOB...", "End jobs."),
    "qhold": ("[OPTIONS] JOB...", "Hold jobs until they are released."),
    "qrls": ("[OPTIONS] JOB...", "Release jobs that are held."),
    "qalter": ("[OPTIONS] JOB...", "Change jobs, with the options of qsub."),
    "qacct": ("[-j [JOB|NAME]] [OPTIONS]", "Show jobs that have ended, with what they used, or sums of it."),
    "qsig": ("[-s SIGNAL|suspend|resume] JOB...", "Send a signal to running jobs."),
    "qrerun": ("JOB...", "Let running jobs run again from the queue."),
    "qselect": ("[OPTIONS]", "List the ids of the jobs that fit all options."),
    "pbsnodes": ("[OPTIONS] [NODE...]", "List nodes, or take them offline."),
    "qhost": ("[OPTIONS]", "List nodes, with their queues and jobs."),
    "bsub": ("[OPTIONS] [COMMAND [ARGUMENT...]]", "Submit a command, a script, or standard input."),
    "bjobs": ("[OPTIONS] [JOB[[ELEMENTS]]...]", "List jobs that wait and run; with -a those that ended."),
    "bkill": ("[OPTIONS] [JOB[[ELEMENTS]]...]", "End jobs, or send them a signal; 0: all of yours."),
    "bstop": ("[OPTIONS] [JOB...]", "Hold jobs that wait; suspend jobs that run."),
    "bresume": ("[OPTIONS] [JOB...]", "Release jobs that are held; resume jobs that are suspended."),
    "bpeek": ("[-f] [JOB[[ELEMENT]]]", "Print what a job has printed so far."),
    "brequeue": ("[OPTIONS] [JOB...]", "Let running and failed jobs run again from the queue."),
    "bhist": ("[OPTIONS] [JOB[[ELEMENTS]]...]", "Show how long jobs were in each state, and their events."),
    "bacct": ("[OPTIONS] [JOB[[ELEMENTS]]...]", "Show what ended jobs used."),
    "bmod": ("[OPTIONS] JOB...", "Change jobs, with the options of bsub; -Wn takes -W back."),
    "bswitch": ("[OPTIONS] QUEUE [JOB...]", "Move jobs to another queue, which is a job template."),
    "badmin": ("hopen|hclose|showconf mbd [-C COMMENT] [HOST...]", "Close and open nodes for new jobs."),
    "bhosts": ("[-w] [HOST...]", "List nodes."),
    "busers": ("[USER...|all]", "List users with their processors."),
    "bparams": ("", "Print the default queue."),
    "lsclusters": ("", "Print the name and the size of the cluster."),
    "lshosts": ("[HOST...]", "List nodes with their processors and memory."),
    "lsload": ("[HOST...]", "List nodes with their status; their load is not known here."),
    "bqueues": ("[-w] [QUEUE...]", "List queues, which are job templates."),
    "lsid": ("", "Print the version and the name of the cluster."),
    "condor_submit": ("[OPTIONS] [NAME=VALUE...] [FILE] [-queue ...]", "Submit the jobs of a submit file."),
    "condor_submit_dag": ("[OPTIONS] FILE", "Submit the jobs of a flow of DAGMan."),
    "condor_q": ("[OPTIONS] [CLUSTER|CLUSTER.PROCESS|USER...]", "List jobs."),
    "condor_history": ("[OPTIONS] [CLUSTER|CLUSTER.PROCESS|USER...]", "List jobs that have ended."),
    "condor_rm": ("[OPTIONS] CLUSTER|CLUSTER.PROCESS|USER...", "End jobs."),
    "condor_hold": ("[OPTIONS] CLUSTER|USER...", "Hold jobs until they are released."),
    "condor_release": ("[OPTIONS] CLUSTER|USER...", "Release jobs that are held."),
    "condor_prio": ("-p PRIORITY CLUSTER|USER...", "Change the priority of jobs."),
    "condor_wait": ("[-wait SECONDS] [-num N] LOG [ID]", "Wait for the jobs that have an event log."),
    "condor_status": ("[OPTIONS] [NODE...]", "List nodes."),
}
_KEYWORDS = (
    "Keywords: show job|node|partition|config|hostnames|hostlist, update, hold, release, requeue, "
    "requeuehold, suspend, resume, ping"
)
_PAGES = "docs/slurm-commands.md, docs/batch-scripts.md"
_PAGES_OF_CONDOR = "docs/condor-commands.md, docs/submit-files.md"


def help_of(program: str, table: "OptionTable") -> str:
    """Return the help of a program with these options."""
    usage, purpose = purpose_of(program)
    lines = [f"Usage: {program} {usage}", f"{purpose} This is {program} of Headnode."]
    if program == "scontrol":
        lines.append(fill(_KEYWORDS, _WIDTH, subsequent_indent="  "))
    kinds = (
        ("Options", acted_on_by(table)),
        ("Without effect", {name: one for name, one in table.items() if one.ignored}),
        ("Refused", {name: one for name, one in table.items() if one.refused}),
    )
    for kind, options in kinds:
        if options:
            lines.append(_listed(kind, [spelled_by(program, *option) for option in options.items()]))
    lines.append(f"More: {_PAGES_OF_CONDOR if program in CONDOR else _PAGES}, hn --help")
    return "\n".join(lines) + "\n"


def purpose_of(program: str) -> "tuple[str, str]":
    """Return the words of its usage, and what a program is for."""
    return _PURPOSES[program]


def acted_on_by(table: "OptionTable") -> "OptionTable":
    """Return the options that are neither refused nor without effect."""
    return {name: one for name, one in table.items() if not one.refused and not one.ignored}


def spelled_by(program: str, name: str, one: "ProgramOption") -> str:
    """Return an option as a program has it."""
    if program not in SLURM:
        return f"-{name}"
    value = {"always": "=...", "by =": "[=...]"}.get(one.takes, "")
    return f"-{one.letter}/--{name}{value}" if one.letter else f"--{name}{value}"


def _listed(kind: str, options: "Iterable[str]") -> str:
    text = f"{kind}: {' '.join(options)}"
    return fill(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
