"""What the programs of other schedulers print for ``--help``: usage, and options from their tables."""

import sys
from textwrap import fill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from headnode.apps.cli.batch_programs.words import OptionTable

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
    "qsub": ("[OPTIONS] [SCRIPT [ARGUMENT...]]", "Submit a batch script, or standard input."),
    "qstat": ("[OPTIONS] [JOB...]", "List jobs."),
    "qdel": ("[OPTIONS] JOB...", "End jobs."),
    "qhold": ("[OPTIONS] JOB...", "Hold jobs until they are released."),
    "qrls": ("[OPTIONS] JOB...", "Release jobs that are held."),
    "qalter": ("[OPTIONS] JOB...", "Change jobs, with the options of qsub."),
    "qacct": ("[-j [JOB|NAME]] [OPTIONS]", "Show jobs that have ended, with what they used, or sums of it."),
    "qsig": ("[-s SIGNAL|suspend|resume] JOB...", "Send a signal to running jobs."),
    "pbsnodes": ("[OPTIONS] [NODE...]", "List nodes, or take them offline."),
    "qhost": ("[OPTIONS]", "List nodes, with their queues and jobs."),
    "bsub": ("[OPTIONS] [COMMAND [ARGUMENT...]]", "Submit a command, a script, or standard input."),
    "bjobs": ("[OPTIONS] [JOB[[ELEMENTS]]...]", "List jobs that wait and run; with -a those that ended."),
    "bkill": ("[OPTIONS] [JOB[[ELEMENTS]]...]", "End jobs, or send them a signal; 0: all of yours."),
    "bstop": ("[OPTIONS] [JOB...]", "Hold jobs that wait; suspend jobs that run."),
    "bresume": ("[OPTIONS] [JOB...]", "Release jobs that are held; resume jobs that are suspended."),
    "bpeek": ("[-f] [JOB[[ELEMENT]]]", "Print what a job has printed so far."),
    "bhosts": ("[-w] [HOST...]", "List nodes."),
    "bqueues": ("[-w] [QUEUE...]", "List queues, which are job templates."),
    "lsid": ("", "Print the version and the name of the cluster."),
}
_KEYWORDS = (
    "Keywords: show job|node|partition|config|hostnames|hostlist, update, hold, release, requeue, suspend, "
    "resume, ping"
)
_OF_QSTAT = {
    "pbs": "-f -F -x -H -t -u -a -r -i -s -n -1 -w -Q -q -B",
    "gridengine": "-f -ne -u -s -j -g -xml -ext -urg -pri",
}
_OF_ONE = {
    "pbsnodes": "-a -l -S -j -v -F -o -r -C",
    "qsig": "-s",
    "qhost": "-h -j -q -u -ncb",
    "qacct": "-j -t -o -u -P -q -h -d",
    "bjobs": "-a -d -p -r -s -l -w -A -X -UF -noheader -json -o -u -J -q -m -P -g",
    "bkill": "-s -r -J -g -m -q -u -P",
    "bstop": "-J -g -m -q -u -P",
    "bresume": "-J -g -m -q -u -P",
    "bpeek": "-f -J -q -m -u",
    "bhosts": "-w -noheader",
    "bqueues": "-w -noheader",
    "lsid": "-V",
}
_OF_QALTER = {"pbs": "-A -M -N -P -a -h -l -m -p -q", "gridengine": "-A -M -N -P -a -h -l -m -p -u"}
_OF_QDEL = {"pbs": "-x", "gridengine": "-u -f"}
_OF_HOLDS = {"pbs": "-h", "gridengine": "-h -u"}


def help_of(program: str, table: "OptionTable | None", system: str) -> str:
    """Return the help of a program; `table` has the options of one of Slurm, `system` is that of another."""
    usage, purpose = _PURPOSES[program]
    lines = [f"Usage: {program} {usage}", f"{purpose} This is {program} of Headnode."]
    if program == "scontrol":
        lines.append(fill(_KEYWORDS, _WIDTH, subsequent_indent="  "))
    if table is None:
        lines.append(_listed("Options", _options_of_others(program, system)))
    else:
        kinds = (
            ("Options", [name for name, one in table.items() if not one.refused and not one.ignored]),
            ("Without effect", [name for name, one in table.items() if one.ignored]),
            ("Refused", [name for name, one in table.items() if one.refused]),
        )
        lines += [_listed(kind, [_spelled(name, table) for name in names]) for kind, names in kinds if names]
    lines.append("More: docs/slurm-commands.md, docs/batch-scripts.md, hn --help")
    return "\n".join(lines) + "\n"


def print_help(program: str, table: "OptionTable | None", system: str) -> int:
    """Print the help of a program; return its exit status."""
    sys.stdout.write(help_of(program, table, system))
    return 0


def _spelled(name: str, table: "OptionTable") -> str:
    one = table[name]
    value = {"always": "=...", "by =": "[=...]"}.get(one.takes, "")
    return f"-{one.letter}/--{name}{value}" if one.letter else f"--{name}{value}"


def _listed(kind: str, options: "Iterable[str]") -> str:
    text = f"{kind}: {' '.join(options)}"
    return fill(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def _options_of_others(program: str, system: str) -> "list[str]":
    if program in ("qhold", "qrls"):
        return _OF_HOLDS[system].split()
    if program == "qalter":
        return _OF_QALTER[system].split()
    if program in _OF_ONE:
        return _OF_ONE[program].split()
    if program == "bsub":
        from headnode.core.formats.batch.lsf_options import BSUB_OPTIONS

        return [f"-{name}" for name in sorted(BSUB_OPTIONS, key=str.lower)]
    if program != "qsub":
        return (_OF_QSTAT if program == "qstat" else _OF_QDEL)[system].split()
    from headnode.core.formats.batch.qsub_options import GRID_ENGINE_OPTIONS, PBS_OPTIONS

    table = PBS_OPTIONS if system == "pbs" else GRID_ENGINE_OPTIONS
    return [f"-{name}" for name in sorted(table, key=str.lower)]
