"""Every verb and option of the programs of HPC Pack and Compute Cluster Server, and what becomes of it here.

Source:  CCS, "Standard job and task options"; HPC Pack commands job, task, node, cluscfg and clusrun.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Verb:
    """A verb of a program: the command of `hn` that it stands for, and its options by what becomes of them.

    works:    options that have their effect
    aliases:  other names of options that `hn` has, by its own name
    ignored:  options that are accepted without effect, and why
    refused:  options that are refused, and what to do instead
    """

    __slots__ = ("aliases", "ignored", "noun", "refused", "verb", "works")

    def __init__(
        self,
        noun: str,
        verb: str,
        works: str = "",
        *,
        aliases: "Mapping[str, Sequence[str]] | None" = None,
        ignored: "Mapping[str, str] | None" = None,
        refused: "Mapping[str, str] | None" = None,
    ) -> None:
        self.noun = noun
        self.verb = verb
        self.works = tuple(works.split())
        self.aliases = {name: tuple(others) for name, others in (aliases or {}).items()}
        self.ignored = dict(ignored or {})
        self.refused = dict(refused or {})


_SIZES = "numprocessors numcores numnodes numsockets"
_JOB = f"""
    jobname name priority jobtemplate projectname runtime rununtilcanceled exclusive singlenode {_SIZES}
    requestednodes askednodes nodegroup nodegroupop memorypernode corespernode orderby license
    failontaskfailure faildependenttasks validexitcodes parentjobids holduntil emailaddress notifyonstart
    notifyoncompletion customproperties jobenv estimatedprocessmemory taskexecutionfailureretrylimit user
    """
_TASK = f"""
    name {_SIZES} exclusive rerunnable runtime workdir stdin stdout stderr env depend requirednodes
    requestednodegroup parametric type failjobonfailure failjobonfailurecount validexitcodes
    """
_ONLY_TASK = """
    rerunnable workdir stdin stdout stderr env depend requirednodes requestednodegroup parametric type
    failjobonfailure failjobonfailurecount
    """
_NO_PASSWORD = {"password": "the user is known from the login; other users can read a command line"}
_PROGRESS = dict.fromkeys(
    ("progress", "progressmsg"), "a job that has not started has no progress; set it with: job modify ID"
)
_FILE = {"jobfile": ("f",)}

JOB: "dict[str, Verb]" = {
    "new": Verb("job", "new", f"{_JOB} jobfile", aliases=_FILE, ignored=_PROGRESS | _NO_PASSWORD),
    "add": Verb("job", "add", f"{_TASK} taskfile", aliases={"taskfile": ("f",)}),
    "submit": Verb(
        "job",
        "submit",
        f"id jobfile {_JOB} {_ONLY_TASK}",
        aliases=_FILE,
        ignored=_PROGRESS | _NO_PASSWORD,
        refused={"taskfile": "make the job first: job new, job add ID /taskfile:FILE, job submit /id:ID"},
    ),
    "modify": Verb("job", "modify", f"{_JOB} progress progressmsg", ignored=_NO_PASSWORD),
    "cancel": Verb("job", "cancel", "message force graceful"),
    "finish": Verb("job", "finish", "message graceful force"),
    "requeue": Verb("job", "requeue"),
    "clone": Verb("job", "clone"),
    "list": Verb(
        "job",
        "list",
        "all state format jobname projectname user",
        aliases={"name": ("jobname",)},
        ignored={"detailed": "a list shows the columns that fit; job view ID shows the whole job"},
        refused={"jobtemplate": "filter the list of all jobs: job list /all /json"},
    ),
    "listtasks": Verb("job", "listtasks", "state format expandparametric"),
    "view": Verb("job", "view", "detailed history format"),
}
TASK: "dict[str, Verb]" = {
    "view": Verb("task", "view", "peekoutput format detailed"),
    "cancel": Verb("task", "cancel", "message force"),
    "finish": Verb("task", "finish", "message force"),
    "requeue": Verb("task", "requeue"),
    "modify": Verb("task", "modify", f"{_TASK} commandline"),
}
_PAST = "for reports about the past use: hn cluster history, hn job list /all --since 7d"
NODE: "dict[str, Verb]" = {
    "list": Verb(
        "node", "list", "state group format all", refused=dict.fromkeys(("lastdays", "history"), _PAST)
    ),
    "view": Verb(
        "node",
        "view",
        "jobhistory lastrows format detailed",
        refused={
            "taskhistory": "show the jobs with /jobhistory, and their tasks with: job listtasks ID",
            "when": "show what runs there now with: node listcores; what ran there with /jobhistory",
        },
    ),
    "listcores": Verb("node", "listcores", "state jobid format"),
    "online": Verb("node", "resume", "all", ignored={"force": "bringing a node online does not stop jobs"}),
    "offline": Verb("node", "drain", "all force"),
    "approve": Verb("node", "approve"),
    "pause": Verb("node", "pause"),
    "resume": Verb("node", "resume"),
}
_CREDENTIALS = {
    "user": "the user is known from the login",
    "password": "the user is known from the login; other users can read a command line",
}
CLUSCFG: "dict[str, Verb]" = {
    "view": Verb("cluster", "view", "format"),
    "listparams": Verb("cluster", "params", "format"),
    "setparams": Verb("cluster", "params"),
    "listenvs": Verb("cluster", "envs", "format"),
    "setenvs": Verb("cluster", "envs"),
    "setcreds": Verb("", "", ignored=_CREDENTIALS),
    "delcreds": Verb("", "", ignored=_CREDENTIALS),
}
"""``setcreds`` and ``delcreds`` do nothing: there are no stored passwords."""
CLUSRUN: "dict[str, Verb]" = {
    "": Verb(
        "",
        "run",
        "all nodes nodegroup nodestate job task exclude workdir env stdin outputdir interleaved sorted user",
        ignored=_NO_PASSWORD,
        refused={
            "template": "Headnode has no node templates: choose nodes by /nodegroup, /nodes or /nodestate"
        },
    )
}
PROGRAMS: "dict[str, dict[str, Verb]]" = {
    "job": JOB,
    "task": TASK,
    "node": NODE,
    "cluscfg": CLUSCFG,
    "clusrun": CLUSRUN,
}
VALUED = frozenset(
    {"user", "password", "progress", "progressmsg", "taskfile", "jobtemplate", "lastdays", "when", "template"}
)
"""Options without effect, or refused, that have a value; the others are flags."""
EVERYWHERE = ("scheduler",)
"""Options that every verb has."""
