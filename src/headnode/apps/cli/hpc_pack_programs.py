"""The programs of HPC Pack and Compute Cluster Server: their verbs and options, and ours for them."""

from headnode.apps.cli.batch_programs.words import ignored, refused
from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, CliOption, nearest, read_arguments, usage
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headnode.apps.cli.batch_programs.words import OptionTable

    CarryOut = Callable[[CliCommand, Arguments], int]

    Note = Callable[[str], object]


class HpcPackVerb:
    """A verb of a program: the command of `hn` that it stands for, and its options by what becomes of them.

    works:    options that have their effect; what they take is what the command of `hn` has them take
    aliases:  other names of options that `hn` has, by its own name
    unused:   options that have no effect or are refused, with the reasons
    """

    __slots__ = ("aliases", "noun", "unused", "verb", "works")

    def __init__(
        self,
        noun: str,
        verb: str,
        works: str = "",
        *,
        aliases: "Mapping[str, Sequence[str]] | None" = None,
        unused: "OptionTable | None" = None,
    ) -> None:
        self.noun = noun
        self.verb = verb
        self.works = tuple(works.split())
        self.aliases = {name: tuple(others) for name, others in (aliases or {}).items()}
        self.unused = dict(unused or {})


_SIZES = "numprocessors numcores numnodes numsockets numgpus"
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
_NO_PASSWORD = ignored("password", "the user is known from the login; other users can read a command line")
_PROGRESS = ignored(
    "progress progressmsg", "a job that has not started has no progress; set it with: job modify ID"
)
_FILE = {"jobfile": ("f",)}

JOB: "dict[str, HpcPackVerb]" = {
    "new": HpcPackVerb("job", "new", f"{_JOB} jobfile", aliases=_FILE, unused=_PROGRESS | _NO_PASSWORD),
    "add": HpcPackVerb("job", "add", f"{_TASK} taskfile", aliases={"taskfile": ("f",)}),
    "submit": HpcPackVerb(
        "job",
        "submit",
        f"id jobfile {_JOB} {_ONLY_TASK}",
        aliases=_FILE,
        unused=_PROGRESS
        | _NO_PASSWORD
        | refused("taskfile", "make the job first: job new, job add ID /taskfile:FILE, job submit /id:ID"),
    ),
    "modify": HpcPackVerb("job", "modify", f"{_JOB} progress progressmsg", unused=_NO_PASSWORD),
    "cancel": HpcPackVerb("job", "cancel", "message force graceful"),
    "finish": HpcPackVerb("job", "finish", "message graceful force"),
    "requeue": HpcPackVerb("job", "requeue"),
    "clone": HpcPackVerb("job", "clone"),
    "list": HpcPackVerb(
        "job",
        "list",
        "all state format jobname projectname user",
        aliases={"name": ("jobname",)},
        unused=ignored("detailed!", "a list shows the columns that fit; job view ID shows the whole job")
        | refused("jobtemplate", "filter the list of all jobs: job list /all /json"),
    ),
    "listtasks": HpcPackVerb("job", "listtasks", "state format expandparametric"),
    "view": HpcPackVerb("job", "view", "detailed history format"),
}
TASK: "dict[str, HpcPackVerb]" = {
    "view": HpcPackVerb("task", "view", "peekoutput format detailed"),
    "cancel": HpcPackVerb("task", "cancel", "message force"),
    "finish": HpcPackVerb("task", "finish", "message force"),
    "requeue": HpcPackVerb("task", "requeue"),
    "modify": HpcPackVerb("task", "modify", f"{_TASK} commandline"),
}
_PAST = "for reports about the past use: hn cluster history, hn job list /all --since 7d"
NODE: "dict[str, HpcPackVerb]" = {
    "list": HpcPackVerb(
        "node",
        "list",
        "state group format all",
        unused=refused("lastdays history!", _PAST),
    ),
    "view": HpcPackVerb(
        "node",
        "view",
        "jobhistory lastrows format detailed",
        unused=refused(
            "taskhistory!", "show the jobs with /jobhistory, and their tasks with: job listtasks ID"
        )
        | refused("when", "show what runs there now with: node listcores; what ran there with /jobhistory"),
    ),
    "listcores": HpcPackVerb("node", "listcores", "state jobid format"),
    "online": HpcPackVerb(
        "node", "resume", "all", unused=ignored("force!", "bringing a node online does not stop jobs")
    ),
    "offline": HpcPackVerb("node", "drain", "all force"),
    "approve": HpcPackVerb("node", "approve"),
    "pause": HpcPackVerb("node", "pause"),
    "resume": HpcPackVerb("node", "resume"),
}
_CREDENTIALS = ignored("user", "the user is known from the login") | _NO_PASSWORD
CLUSCFG: "dict[str, HpcPackVerb]" = {
    "view": HpcPackVerb("cluster", "view", "format"),
    "listparams": HpcPackVerb("cluster", "params", "format"),
    "setparams": HpcPackVerb("cluster", "params"),
    "listenvs": HpcPackVerb("cluster", "envs", "format"),
    "setenvs": HpcPackVerb("cluster", "envs"),
    "setcreds": HpcPackVerb("", "", unused=_CREDENTIALS),
    "delcreds": HpcPackVerb("", "", unused=_CREDENTIALS),
}
"""``setcreds`` and ``delcreds`` do nothing: there are no stored passwords."""
CLUSRUN: "dict[str, HpcPackVerb]" = {
    "": HpcPackVerb(
        "",
        "run",
        "all nodes nodegroup nodestate job task exclude workdir env stdin outputdir interleaved sorted user",
        unused=_NO_PASSWORD
        | refused(
            "template", "Headnode has no node templates: choose nodes by /nodegroup, /nodes or /nodestate"
        ),
    )
}
PROGRAMS: "dict[str, dict[str, HpcPackVerb]]" = {
    "job": JOB,
    "task": TASK,
    "node": NODE,
    "cluscfg": CLUSCFG,
    "clusrun": CLUSRUN,
}


PARAMETER = "CommandSentences"
CREATED = {"HPCPack": "Created job", "CCS": "Job queued"}


def dialect_of_sentences(client: Client) -> str:
    """Return whose sentences this cluster's programs print: ``HPCPack`` or ``CCS``."""
    params = client.ask("parameters")["parameters"]
    return next((str(param["value"]) for param in params if param["name"] == PARAMETER), "HPCPack")


HELP_WORDS = ("help", "/help", "--help", "-h", "/?", "-?")
NO_CREDENTIALS = "no passwords are stored: the user is known from the login"


def obey_as(program: str, arguments: "Sequence[str]", carry_out: "CarryOut", note: "Note") -> int:
    """Carry out the words behind the name of `program`; return the exit status.

    Raises:  HeadnodeError as `hn` does.
    """
    verbs = PROGRAMS[program]
    rest = list(arguments)
    word = "" if "" in verbs else rest.pop(0).lower() if rest else "help"
    if word in HELP_WORDS or (not word and rest and rest[0] in HELP_WORDS):
        print(help_page(program), end="")
        return 0
    if word not in verbs:
        near = nearest(word, verbs)
        raise usage(
            f"{program} has no verb {word!r}",
            f"did you mean: {program} {near}" if near else f"see: {program} /?",
        )
    verb = verbs[word]
    if not verb.verb:
        note(NO_CREDENTIALS)
        return 0
    command = command_of(verb)
    args = read_arguments(rest, options_of(verb, command), command.positionals, hpc_pack=True)
    if args.flag("help"):
        print(help_page(program), end="")
        return 0
    _refuse(verb, args)
    for name, option in verb.unused.items():
        if args.options.pop(name, None) is not None:
            note(f"option /{name} has no effect: {option.ignored}")
    return carry_out(command, args)


def command_of(verb: HpcPackVerb) -> CliCommand:
    """Return the command of `hn` that a verb stands for."""
    from headnode.apps.cli.catalogue import find_command

    return find_command(verb.noun, verb.verb)


def options_of(verb: HpcPackVerb, command: CliCommand) -> list[CliOption]:
    """Return the options that a verb takes: those of the command, and those that are not acted on."""
    extra = [
        CliOption(name, "" if option.takes == "never" else "VALUE", "")
        for name, option in verb.unused.items()
    ]
    own = [_with_aliases(option, verb.aliases.get(option.name, ())) for option in command.options]
    return [*extra, *(option for option in own if option.name not in verb.unused)]


def _with_aliases(option: CliOption, others: "Sequence[str]") -> CliOption:
    if not others:
        return option
    return CliOption(
        option.name,
        option.value,
        option.summary,
        (*option.aliases, *others),
        repeats=option.repeats,
        short=option.short,
    )


def _refuse(verb: HpcPackVerb, args: Arguments) -> None:
    for name, option in verb.unused.items():
        if option.refused and name in args.options:
            raise usage(f"option /{name} is not supported", option.refused)


def help_page(program: str) -> str:
    """Return the verbs and options of a program, with what becomes of each."""
    lines = [f"{program}: a program of HPC Pack, carried out by Headnode.", ""]
    for word, verb in PROGRAMS[program].items():
        target = f"hn {verb.noun} {verb.verb}".replace("  ", " ") if verb.verb else "nothing"
        lines.append(f"{program} {word}".rstrip() + f"   as: {target}")
        if verb.works:
            lines.append("  " + " ".join(f"/{name}" for name in verb.works))
        lines += [
            f"  /{name}: without effect; {one.ignored}" for name, one in verb.unused.items() if one.ignored
        ]
        lines += [f"  /{name}: refused; {one.refused}" for name, one in verb.unused.items() if one.refused]
    return "\n".join([*lines, "", "/scheduler:NAME chooses the head. More: docs/hpc-pack.md", ""])
