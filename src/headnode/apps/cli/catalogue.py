"""Which module carries out which command.  Nothing is imported before it is needed."""

from importlib import import_module

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import nearest, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# noun -> verb -> the module under `commands`; the noun "" holds the verbs that stand alone.
PLACES: dict[str, dict[str, str]] = {
    "job": {
        "submit": "job_submit",
        "shell": "job_shell",
        "new": "job_new",
        "add": "job_add",
        "modify": "job_modify",
        "list": "job_list",
        "listtasks": "job_list_tasks",
        "view": "job_view",
        "explain": "job_explain",
        "wait": "job_wait",
        "cancel": "job_change",
        "finish": "job_change",
        "requeue": "job_change",
        "suspend": "job_waiting",
        "resume": "job_waiting",
        "hold": "job_waiting",
        "release": "job_waiting",
        "clone": "job_change",
        "export": "job_export",
    },
    "task": {
        "view": "task_view",
        "output": "task_output",
        "cancel": "task_change",
        "finish": "task_change",
        "requeue": "task_change",
        "modify": "task_modify",
    },
    "node": {
        "list": "node_list",
        "view": "node_view",
        "listcores": "node_cores",
        "approve": "node_change",
        "pause": "node_change",
        "drain": "node_drain",
        "resume": "node_change",
        "remove": "node_change",
        "invite": "node_invite",
        "set": "node_set",
    },
    "cluster": {
        "view": "cluster",
        "params": "cluster",
        "envs": "cluster_envs",
        "history": "cluster",
        "audit": "audit",
    },
    "journal": {"check": "journal"},
    "reservation": {
        "new": "reservation",
        "list": "reservation",
        "view": "reservation",
        "modify": "reservation",
        "cancel": "reservation",
    },
    "template": {
        "list": "template",
        "view": "template",
        "export": "template",
        "import": "template",
        "remove": "template",
    },
    "filter": {"list": "filter", "test": "filter"},
    "compat": {"install": "compat", "list": "compat", "remove": "compat"},
    "token": {"new": "token", "list": "token", "revoke": "token"},
    "": {
        "run": "run",
        "up": "up",
        "down": "down",
        "agent": "agent",
        "backup": "backup",
        "restore": "restore",
        "check": "check",
        "convert": "convert",
        "simulate": "simulate",
        "login": "login",
        "logout": "login",
        "whoami": "login",
        "version": "version",
        "completion": "completion",
        "man": "man",
    },
}
NOUNS = {
    "job": "Jobs: submit, watch, change, explain",
    "task": "Tasks of a job and their output",
    "node": "Nodes of the cluster",
    "cluster": "The cluster as a whole and its parameters",
    "journal": "The journal of the head",
    "reservation": "Reservations of nodes: for maintenance, users, projects",
    "template": "Job templates: defaults and limits for kinds of jobs",
    "filter": "Submission and activation filters of the site",
    "compat": "The programs job, task, node, cluscfg and clusrun of HPC Pack, as links to hn",
    "token": "Using the cluster from other machines",
}
ELSEWHERE = {  # the words of the older commands
    ("node", "offline"): ("node", "drain"),
    ("node", "online"): ("node", "resume"),
    ("cluster", "listparams"): ("cluster", "params"),
    ("cluster", "setparams"): ("cluster", "params"),
    ("cluster", "listenvs"): ("cluster", "envs"),
    ("cluster", "setenvs"): ("cluster", "envs"),
    ("", "clusrun"): ("", "run"),
}


def find(noun: str, verb: str) -> Command:
    """Return the command of these words; `noun` is "" for a verb that stands alone.

    Raises:  BadRequest ``usage`` with the nearest right word.
    """
    noun, verb = ELSEWHERE.get((noun, verb), (noun, verb))
    place = PLACES[noun].get(verb)
    if place is None:
        near = nearest(verb, PLACES[noun])
        words = f"{noun} {verb}".strip()
        raise usage(
            f"there is no command {words!r}",
            f"did you mean: hn {f'{noun} {near}'.strip()}" if near else f"see: hn {noun} --help",
        )
    commands: tuple[Command, ...] = import_module(f"headnode.apps.cli.commands.{place}").COMMANDS
    return next(command for command in commands if command.verb == verb)


def every_command() -> "Iterator[tuple[str, Command]]":
    """Yield every command with its noun, in the order they are told."""
    for noun, verbs in PLACES.items():
        for verb in verbs:
            yield noun, find(noun, verb)
