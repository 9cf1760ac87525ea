"""Carry out a command line of HPC Pack or CCS, such as ``job submit /numcores:4 ./solve``.

The words become a command of `hn`, with the meaning that they have there: the work directory is the home
directory unless one is given, ``/runtime:1:30`` is an hour and a half, and sentences are those of HPC Pack.
"""

from headnode.apps.cli.hpc_pack.rows import PROGRAMS, VALUED, Verb
from headnode.apps.cli.options import Option, nearest, read_arguments, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headnode.apps.cli.command import Command
    from headnode.apps.cli.options import Asked

    CarryOut = Callable[[Command, Asked], int]
    Note = Callable[[str], object]

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
    asked = read_arguments(rest, options_of(verb, command), command.positionals, hpc_pack=True)
    if asked.flag("help"):
        print(help_page(program), end="")
        return 0
    _refuse(verb, asked)
    for name, why in verb.ignored.items():
        if asked.options.pop(name, None) is not None:
            note(f"option /{name} has no effect: {why}")
    return carry_out(command, asked)


def command_of(verb: Verb) -> "Command":
    """Return the command of `hn` that a verb stands for."""
    from headnode.apps.cli.catalogue import find

    return find(verb.noun, verb.verb)


def options_of(verb: Verb, command: "Command") -> list[Option]:
    """Return the options that a verb takes: those of the command, and those that are not acted on."""
    unused = [*verb.ignored, *verb.refused]
    extra = [Option(name, "VALUE" if name in VALUED else "", "") for name in unused]
    own = [_with_aliases(option, verb.aliases.get(option.name, ())) for option in command.options]
    return [*extra, *(option for option in own if option.name not in unused)]


def _with_aliases(option: Option, others: "Sequence[str]") -> Option:
    if not others:
        return option
    return Option(
        option.name,
        option.value,
        option.summary,
        (*option.aliases, *others),
        repeats=option.repeats,
        short=option.short,
    )


def _refuse(verb: Verb, asked: "Asked") -> None:
    for name, instead in verb.refused.items():
        if name in asked.options:
            raise usage(f"option /{name} is not supported", instead)


def help_page(program: str) -> str:
    """Return the verbs and options of a program, with what becomes of each."""
    lines = [f"{program}: a program of HPC Pack, carried out by Headnode.", ""]
    for word, verb in PROGRAMS[program].items():
        target = f"hn {verb.noun} {verb.verb}".replace("  ", " ") if verb.verb else "nothing"
        lines.append(f"{program} {word}".rstrip() + f"   as: {target}")
        if verb.works:
            lines.append("  " + " ".join(f"/{name}" for name in verb.works))
        lines += [f"  /{name}: without effect; {why}" for name, why in verb.ignored.items()]
        lines += [f"  /{name}: refused; {instead}" for name, instead in verb.refused.items()]
    return "\n".join([*lines, "", "/scheduler:NAME chooses the head. More: docs/hpc-pack.md", ""])
