"""Help pages, written from the same tables the parser reads."""

from textwrap import wrap

from headnode.apps.cli.catalogue import NOUNS, PLACES, find
from headnode.apps.cli.command import EVERYWHERE, Command
from headnode.apps.cli.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 100  # columns, where the terminal is not narrower
NARROWEST = 60  # columns
INTRODUCTION = "Headnode: a workload manager for compute clusters."
ALONE = {
    "Start and stop": ("up", "down", "agent", "backup", "restore"),
    "Job files and policies": ("check", "convert", "simulate"),
    "Other machines": ("run", "login", "logout", "whoami"),
}
"""The verbs that stand alone, under their headings; the others are about the program itself."""
THIS_PROGRAM = "This program"
SPELLINGS = (
    "Options have two spellings, --runtime 1h30m and /runtime:1h30m, and come in any order before a program. "
    "Some have a short form, -t 1h30m. "
    "!! stands for the last job this shell made. "
    "Exit status: 0 done, 1 refused or failed, 2 wrong usage or bad input."
)


def help_on(words: "Sequence[str]", terminal: int | None = None) -> str:
    """Return the page for the program, for a noun such as ``job``, or for one command.

    `terminal`: the columns that there are; None where that is not known.
    Raises:  BadRequest ``usage`` when there is no such command.
    """
    width = max(NARROWEST, min(terminal or WIDTH, WIDTH))
    if not words:
        return _program(width)
    if words[0] in NOUNS:
        noun, *verb = words
        return _command(noun, find(noun, verb[0]), width) if verb else _noun(noun, width)
    return _command("", find("", words[0]), width)


def _program(width: int) -> str:
    nouns = [(noun, f"{text} ({', '.join(PLACES[noun])})") for noun, text in NOUNS.items()]
    known = {verb for verbs in ALONE.values() for verb in verbs}
    rest = tuple(verb for verb in PLACES[""] if verb not in known)
    alone: list[str] = []
    for heading, verbs in {**ALONE, THIS_PROGRAM: rest}.items():
        alone += ["", f"{heading}:", *_rows([_summary("", verb) for verb in verbs], width)]
    return "\n".join(
        [
            INTRODUCTION,
            "",
            "Usage:  hn NOUN VERB [options]   or   hn VERB [options]",
            "",
            "Nouns, each with its own verbs:",
            *_rows(nouns, width),
            *alone,
            "",
            *_wrapped(SPELLINGS, width),
            "",
            "Start here:  hn up, then: hn job submit --wait /bin/hostname",
            "More:        hn job --help, hn job submit --help",
            "",
        ]
    )


def _noun(noun: str, width: int) -> str:
    rows = [_summary(noun, verb) for verb in PLACES[noun]]
    return "\n".join([f"{NOUNS[noun]}.", "", *_rows(rows, width), "", f"More: hn {noun} VERB --help", ""])


def _summary(noun: str, verb: str) -> tuple[str, str]:
    command = find(noun, verb)
    return (f"hn {noun} {verb}".replace("  ", " "), command.summary)


def _command(noun: str, command: Command, width: int) -> str:
    lines = [
        *_wrapped(f"{command.summary}.", width),
        "",
        f"Usage:    {usage_of(noun, command)}",
        f"Example:  {command.example}",
    ]
    for heading, options in paragraphs(command):
        lines += ["", f"{heading}:", *_rows([(spelling(option), told(option)) for option in options], width)]
    for note in command.notes:
        lines += ["", *_wrapped(note, width)]
    return "\n".join([*lines, ""])


def paragraphs(command: Command) -> "list[tuple[str, list[Option]]]":
    """Return the options of a command under their headings; those of every command come last."""
    found: dict[str, list[Option]] = {}
    for option in command.options[: -len(EVERYWHERE)]:
        found.setdefault(option.group or "Options", []).append(option)
    return [*found.items(), ("Options of every command", list(EVERYWHERE))]


def usage_of(noun: str, command: Command) -> str:
    """Return how the command is typed."""
    words = ["hn", noun, command.verb, command.words]
    if "options]" not in command.words:
        words.insert(3, "[options]")
    return " ".join(word for word in words if word)


def spelling(option: Option) -> str:
    """Return an option as it is typed, with its short form before it."""
    short = f"-{option.short}, " if option.short else ""
    return f"{short}--{option.name}" + (f" {option.value}" if option.value else "")


def told(option: Option) -> str:
    """Return what an option does, with its other names."""
    also = f" (also --{', --'.join(option.aliases)})" if option.aliases else ""
    return option.summary + also


def _rows(rows: "Sequence[tuple[str, str]]", width: int) -> list[str]:
    column = min(max(len(key) for key, _ in rows), 34) + 4
    lines = []
    for key, text in rows:
        first, *rest = _wrapped(text, width - column) or [""]
        if len(key) + 4 > column:
            lines.append(f"  {key}")
            key = ""
        lines.append(f"  {key:<{column - 2}}{first}")
        lines += [f"{'':<{column}}{line}" for line in rest]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False)  # native-json and --dry-run are words
