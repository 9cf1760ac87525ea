"""The commands of `hn`: what a command is, and which module has which.  Modules are imported when needed."""

import sys

from headnode.apps.cli.options import CliOption, nearest, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headnode.apps.cli.options import Arguments
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

    Run = Callable[[Arguments, Client, Output], int]

SLURM = (
    *("sbatch", "squeue", "scancel", "sinfo", "sacct", "srun", "salloc", "scontrol", "sprio", "seff"),
    *("sacctmgr", "sshare", "sstat", "sreport", "scrontab"),
)
PBS = ("qsub", "qstat", "qdel", "qhold", "qrls", "qalter")
OF_ONE = {
    **dict.fromkeys(("pbsnodes", "qsig", "qrerun", "qselect"), "pbs"),
    **dict.fromkeys(("qhost", "qacct"), "gridengine"),
}
"""Programs that only one of PBS and Grid Engine has."""
LSF = (
    *("bsub", "bjobs", "bkill", "bstop", "bresume", "brequeue", "bpeek", "bhist", "bacct", "bmod", "bswitch"),
    *("bhosts", "bqueues", "busers", "bparams", "badmin", "lsid", "lsclusters", "lshosts", "lsload"),
)
CONDOR = (
    *("condor_submit", "condor_submit_dag", "condor_q", "condor_history", "condor_rm", "condor_hold"),
    *("condor_release", "condor_prio", "condor_wait", "condor_status", "condor_transfer_data"),
    *("condor_ssh_to_job", "condor_qedit", "condor_tail"),
)
"""Programs of HTCondor."""
BATCH_PROGRAMS = (*SLURM, *PBS, *OF_ONE, *LSF, *CONDOR)
"""Programs of other schedulers that `hn` is by their names; PBS and Grid Engine have the same."""
COMMON_OPTIONS = (
    CliOption("help", "", "Show what the command does and its options", ("?",), short="h"),
    CliOption("json", "", "Print the answer of the head as one JSON document"),
    CliOption("quiet", "", "Print only ids, one on a line", short="q"),
    CliOption("state-directory", "DIRECTORY", "State directory of the head to use", ("state",)),
    CliOption("scheduler", "NAME", "Head to use: one that hn login knows, a state directory or localhost"),
)
STATE = CliOption("state", "STATE,...", "Only those in these states; * for all", repeats=True)
KEY = CliOption(
    "idempotency-key", "KEY", "Requests with the same key are carried out once (default: a new key)"
)
FORMAT = CliOption("format", "list|table", "Print records of keys and values, or a table")


class CliCommand:
    """One verb.  `words` is its usage behind the options; `positionals` as in `read_arguments`.

    A command whose `words` are "" refuses every word; `instead` says what to type where a word was meant.
    """

    __slots__ = ("example", "instead", "notes", "options", "positionals", "run", "summary", "verb", "words")

    def __init__(
        self,
        verb: str,
        words: str,
        summary: str,
        run: "Run",
        *,
        options: "Sequence[CliOption]" = (),
        example: str,
        notes: "Sequence[str]" = (),
        positionals: int | None = None,
        instead: str = "see the options with --help",
    ) -> None:
        self.verb = verb
        self.words = words
        self.summary = summary
        self.run = run
        self.options = (*options, *COMMON_OPTIONS)
        self.example = example
        self.notes = tuple(notes)
        self.positionals = positionals
        self.instead = instead


# noun -> verb -> the module under `commands`; the noun "" holds the verbs that stand alone.
_WORDS = {
    "job": (
        ("submit", "job_submit"),
        ("shell", "job_shell"),
        ("new add modify", "job_edit"),
        ("list", "job_list"),
        ("listtasks", "task"),
        ("view", "job_view"),
        ("explain", "job_explain"),
        ("efficiency", "job_efficiency"),
        ("usage", "job_usage"),
        ("wait", "job_wait"),
        ("cancel finish requeue suspend resume signal hold release clone refund", "job_control"),
        ("export", "job_edit"),
    ),
    "task": (
        ("view", "task"),
        ("output", "task_output"),
        ("cancel finish requeue hold release modify", "task"),
    ),
    "node": (("list", "node_list"), ("view listcores approve pause drain resume remove invite set", "node")),
    "cluster": (("view limits shares params envs history audit", "cluster"), ("import", "slurm_conf")),
    "journal": (("check", "backup"),),
    "standby": (("invite join list takeover remove", "standby"),),
    "reservation": (("new list view modify cancel", "reservation"),),
    "recurring": (("new list view modify suspend resume run remove", "recurring"),),
    "resource": (("add list view check remove", "resource"),),
    "elastic": (("add list view pause resume remove", "elastic"),),
    "template": (("list view export import remove", "template"),),
    "filter": (("list test", "filter"),),
    "compat": (("install run list remove", "compat"),),
    "token": (("new list revoke", "access"),),
    "grid": (("submit", "grid"),),
    "": (
        ("run", "run"),
        ("up down agent", "services"),
        ("web", "web"),
        ("sss", "sss"),
        ("backup restore", "backup"),
        ("check convert", "check"),
        ("simulate", "simulate"),
        ("login logout whoami", "access"),
        ("version", "help"),
        ("completion", "completion"),
        ("man", "help"),
    ),
}
MODULES: dict[str, dict[str, str]] = {
    noun: {verb: module for verbs, module in rows for verb in verbs.split()} for noun, rows in _WORDS.items()
}
NOUNS = {
    "job": "Jobs: submit, watch, change, explain",
    "task": "Tasks of a job and their output",
    "node": "Nodes of the cluster",
    "cluster": "The cluster as a whole and its parameters",
    "journal": "The journal of the head",
    "standby": "Standby heads: machines that can take over from the head",
    "reservation": "Reservations of nodes: for maintenance, users, projects",
    "recurring": "Recurring jobs: created by a schedule",
    "resource": "Other schedulers to which jobs are handed over: Slurm, PBS, Grid Engine",
    "elastic": "Nodes that are allocations at another scheduler, requested while jobs wait",
    "template": "Job templates: defaults and limits for kinds of jobs",
    "filter": "Submission and activation filters of the site",
    "compat": "The programs of HPC Pack, Slurm, PBS, Grid Engine, LSF and HTCondor, as links to hn",
    "token": "Tokens for the use of the cluster from other machines",
    "grid": "Jobs at a Pilot service",
}
OLDER_WORDS = {  # the words of the older commands, and short ones
    ("node", "offline"): ("node", "drain"),
    ("node", "online"): ("node", "resume"),
    ("cluster", "listparams"): ("cluster", "params"),
    ("cluster", "setparams"): ("cluster", "params"),
    ("cluster", "listenvs"): ("cluster", "envs"),
    ("cluster", "setenvs"): ("cluster", "envs"),
    ("", "clusrun"): ("", "run"),
    ("job", "eff"): ("job", "efficiency"),
}


_MEANT = {  # words that people try
    **dict.fromkeys((("", word) for word in ("status", "queue", "jobs", "ps", "list")), "job list"),
    ("", "nodes"): "node list",
    **dict.fromkeys((("", word) for word in ("kill", "rm", "delete")), "job cancel"),
    **dict.fromkeys((("", word) for word in ("log", "logs", "output")), "task output"),
    ("", "top"): "cluster view",
    ("job", "top"): "job usage",
    ("", "start"): "up",
    ("", "stop"): "down",
    ("", "info"): "cluster view",
    **dict.fromkeys((("job", word) for word in ("output", "log", "logs")), "task output"),
    **dict.fromkeys(
        (("job", word) for word in ("delete", "kill", "stop", "remove", "rm", "del")), "job cancel"
    ),
    **dict.fromkeys((("job", word) for word in ("show", "info", "status")), "job view"),
    **dict.fromkeys((("node", word) for word in ("show", "info", "status")), "node view"),
    **dict.fromkeys((("cluster", word) for word in ("show", "info", "status")), "cluster view"),
    **dict.fromkeys((("node", word) for word in ("undrain", "unpause", "open", "enable")), "node resume"),
    **dict.fromkeys((("node", word) for word in ("close", "disable")), "node drain"),
    ("cluster", "config"): "cluster params",
    ("task", "log"): "task output",
    ("task", "list"): "job listtasks",
    ("job", "run"): "job submit",
}


_SAME = (  # words for one thing; each noun has one of them
    ("new", "add", "create", "make", "install", "import", "invite"),
    ("remove", "cancel", "delete", "rm", "del", "revoke"),
    ("view", "show", "info", "status", "get"),
    ("list", "ls"),
    ("modify", "set", "change", "update", "edit", "params"),
)


def nearest_command(noun: str, verb: str) -> str:
    """Return the command that these words probably mean, or nothing; `noun` is "" for a first word."""
    if (noun, verb) in _MEANT:
        return _MEANT[noun, verb]
    if not noun and verb in BATCH_PROGRAMS:
        return f"compat run {verb}"
    others = () if noun else tuple(other for other in NOUNS if verb in MODULES[other])
    known = MODULES[noun] if noun else [*NOUNS, *MODULES[""]]
    same = next(
        (word for same_verbs in _SAME if verb in same_verbs for word in known if word in same_verbs), ""
    )
    near = same or (f"{others[0]} {verb}" if others else nearest(verb, known))
    return f"{noun} {near}".strip() if near else ""


def find_command(noun: str, verb: str) -> CliCommand:
    """Return the command of these words; `noun` is "" for a verb that stands alone.

    Raises:  BadRequest ``usage`` with the nearest right word.
    """
    noun, verb = OLDER_WORDS.get((noun, verb), (noun, verb))
    place = MODULES[noun].get(verb)
    if place is None:
        near = nearest_command(noun, verb)
        page = " ".join(filter(None, ("hn", noun, "--help")))
        fix = f"did you mean: hn {near}" if near else f"see: {page}"
        raise usage(f"there is no command {f'{noun} {verb}'.strip()!r}", fix)
    module = f"headnode.apps.cli.commands.{place}"
    __import__(module)  # importlib would take 0.2 ms more
    commands: tuple[CliCommand, ...] = sys.modules[module].COMMANDS
    return next(command for command in commands if command.verb == verb)


def every_command() -> "Iterator[tuple[str, CliCommand]]":
    """Yield every command with its noun, in the order of the help."""
    for noun, verbs in MODULES.items():
        for verb in verbs:
            yield noun, find_command(noun, verb)
