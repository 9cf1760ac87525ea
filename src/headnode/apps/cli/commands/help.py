"""Help pages, manual pages and ``hn man``, ``hn version``, written from the same tables the parser reads."""

from textwrap import wrap

from headnode import __version__
from headnode.apps.cli.catalogue import (
    COMMON_OPTIONS,
    MODULES,
    NOUNS,
    CliCommand,
    every_command,
    find_command,
)
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH = 100  # columns, where the terminal is not narrower
NARROWEST = 60  # columns
INTRODUCTION = "Headnode: a workload manager for compute clusters."
ALONE = {
    "Start and stop": ("up", "down", "agent", "web", "sss", "backup", "restore"),
    "Job files and policies": ("check", "convert", "simulate"),
    "Other machines": ("run", "login", "logout", "whoami"),
}
"""The verbs that stand alone, under their headings; the others are about the program itself."""
THIS_PROGRAM = "This program"
SPELLINGS = (
    "Options have two spellings, --runtime 1h30m and /runtime:1h30m, and come in any order before a program. "
    "Some have a short form, -t 1h30m. "
    "'!!' stands for the last job of this shell; quote it, or bash and zsh replace it. "
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
        return _command(noun, find_command(noun, verb[0]), width) if verb else _noun(noun, width)
    return _command("", find_command("", words[0]), width)


def _program(width: int) -> str:
    nouns = [(noun, f"{text} ({', '.join(MODULES[noun])})") for noun, text in NOUNS.items()]
    known = {verb for verbs in ALONE.values() for verb in verbs}
    rest = tuple(verb for verb in MODULES[""] if verb not in known)
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
    rows = [_summary(noun, verb) for verb in MODULES[noun]]
    return "\n".join([f"{NOUNS[noun]}.", "", *_rows(rows, width), "", f"More: hn {noun} VERB --help", ""])


def _summary(noun: str, verb: str) -> tuple[str, str]:
    command = find_command(noun, verb)
    return (f"hn {noun} {verb}".replace("  ", " "), command.summary)


def _command(noun: str, command: CliCommand, width: int) -> str:
    lines = [
        *_wrapped(f"{command.summary}.", width),
        "",
        f"Usage:    {usage_of(noun, command)}",
        f"Example:  {command.example}",
    ]
    for heading, options in paragraphs(command):
        lines += [
            "",
            f"{heading}:",
            *_rows([(spelling(option), described(option)) for option in options], width),
        ]
    for note in command.notes:
        lines += ["", *_wrapped(note, width)]
    return "\n".join([*lines, ""])


def paragraphs(command: CliCommand) -> "list[tuple[str, list[CliOption]]]":
    """Return the options of a command under their headings; those of every command come last."""
    by_heading: dict[str, list[CliOption]] = {}
    for option in command.options[: -len(COMMON_OPTIONS)]:
        by_heading.setdefault(option.group or "Options", []).append(option)
    return [*by_heading.items(), ("Options of every command", list(COMMON_OPTIONS))]


def usage_of(noun: str, command: CliCommand) -> str:
    """Return how the command is typed."""
    parts = ["hn", noun, command.verb, command.words]
    if "options]" not in command.words:
        parts.insert(3, "[options]")
    return " ".join(word for word in parts if word)


def spelling(option: CliOption) -> str:
    """Return an option as it is typed, with its short form before it."""
    short = f"-{option.short}, " if option.short else ""
    return f"{short}--{option.name}" + (f" {option.value}" if option.value else "")


def described(option: CliOption) -> str:
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


_ENVIRONMENT = (
    ("HEADNODE_STATE", "State directory of the head to use."),
    ("CCP_SCHEDULER", "Head to use, as --scheduler names it."),
    (
        "HEADNODE_RESIDENT_CLIENT",
        "Seconds that the resident client waits for the next command (default: 60); 0: there is none.",
    ),
    ("NO_COLOR", "If it is set and not empty, nothing is coloured."),
)
_STATUS = (
    ("0", "Done; of commands that wait, the job finished."),
    ("1", "Refused, or failed."),
    ("2", "Wrong usage, or bad input."),
    ("130", "Interrupted from the keyboard; jobs continue."),
)


def man_page(words: "Sequence[str]") -> str:
    """Return the page of the program, or of the command of these words, in the language of man(7).

    Raises:  BadRequest ``usage`` when there is no such command.
    """
    if not words:
        return _page("hn", INTRODUCTION.rstrip("."), _of_program())
    noun, verb = words if len(words) == 2 else ("", words[0])
    if not noun and verb in NOUNS:
        first = next(iter(MODULES[verb]))
        raise usage(f"{verb!r} has a page for each verb", f"write: hn man {verb} {first}, for example")
    command = find_command(noun, verb)
    return _page(_name(noun, command), command.summary, _of_command(noun, command))


def every_page() -> "Iterator[tuple[str, str]]":
    """Yield the file name and the text of each page."""
    yield "hn.1", man_page([])
    for noun, command in every_command():
        yield f"{_name(noun, command)}.1", man_page([word for word in (noun, command.verb) if word])


def _name(noun: str, command: "CliCommand") -> str:
    return "-".join(word for word in ("hn", noun, command.verb) if word)


def _page(name: str, summary: str, rest: "Iterator[str]") -> str:
    """Return a page; its lines are not justified, and no word is divided: options and commands are copied."""
    title = f'.TH {name.upper()} 1 "" "headnode {__version__}" "Headnode"'
    head = [title, ".nh", ".ad l", ".SH NAME"]
    return "\n".join([*head, f"{_text(name)} \\- {_text(summary)}", *rest, ""])


def _of_program() -> "Iterator[str]":
    yield from (".SH SYNOPSIS", ".B hn", ".I NOUN VERB", "[options]", ".br", ".B hn", ".I VERB", "[options]")
    yield from (".SH DESCRIPTION", _text(SPELLINGS))
    heading = None
    for noun, command in every_command():
        if noun != heading:
            heading = noun
            yield f".SS {_text(NOUNS.get(noun, 'Commands that stand alone'))}"
        words = " ".join(word for word in ("hn", noun, command.verb) if word)
        yield from (".TP", f".B {_text(words)}", _text(f"{command.summary}."))
    yield from _table("ENVIRONMENT", _ENVIRONMENT)
    yield from _table("EXIT STATUS", _STATUS)
    yield from (".SH SEE ALSO", "The page of a command is named after it:", ".BR hn\\-job\\-submit (1).")


def _of_command(noun: str, command: "CliCommand") -> "Iterator[str]":
    yield from (".SH SYNOPSIS", f".B {_text(usage_of(noun, command))}")
    if command.notes:
        yield ".SH DESCRIPTION"
        yield "\n.PP\n".join(map(_text, command.notes))
    yield ".SH OPTIONS"
    for heading, options in paragraphs(command):
        if heading != "Options":  # there are no others of the command
            yield f".SS {_text(heading)}"
        for option in options:
            yield from (".TP", f".B {_text(spelling(option))}", _text(f"{described(option)}."))
    yield from (".SH EXAMPLE", ".nf", _text(command.example), ".fi")
    yield from (".SH SEE ALSO", ".BR hn (1)")


def _table(heading: str, rows: "Sequence[tuple[str, str]]") -> "Iterator[str]":
    yield f".SH {heading}"
    for name, meaning in rows:
        yield from (".TP", f".B {_text(name)}", _text(meaning))


def _text(text: str) -> str:
    """Return text in which nothing is taken for a command of the typesetter."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain


def show_manual(args: Arguments, _client: Client, out: Output) -> int:
    """Show a page, print it, or write all of them."""

    if (directory := args.text("directory")) is not None:
        return _write_pages(directory, args, out)
    if len(args.words) > 2:
        raise usage(f"{' '.join(args.words)!r} is not a command", "write: hn man job submit, for example")
    page = man_page(args.words)
    if out.width is not None and not args.flag("source"):
        return _show_page(page)
    out.text(page, {"page": page})
    return 0


def _show_page(page: str) -> int:
    """Show a page as man does; where there is no such program, as it is."""
    import subprocess

    from headnode.core.model.errors import Unavailable

    try:
        return subprocess.run(["man", "-l", "-"], input=page.encode(), check=False).returncode
    except FileNotFoundError:
        raise Unavailable(
            code="no-man",
            what="the program man is not installed",
            fix="install it (Debian: man-db), see hn --help, or print the page with --source",
        ) from None


def _write_pages(directory: str, args: Arguments, out: Output) -> int:
    from pathlib import Path

    from headnode.core.model.errors import BadRequest

    if args.words:
        raise usage(f"all pages are written, not {args.words[0]!r} alone", "leave out the command")
    folder, pages = Path(directory), dict(every_page())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            (folder / name).write_text(page, encoding="utf-8")
    except OSError as trouble:
        raise BadRequest(
            code="directory",
            what=f"manual pages cannot be written into {directory!r}: {trouble.strerror}",
            fix="give a directory you may write into",
        ) from trouble
    out.outcome(
        f"{len(pages)} manual pages written to {folder}.", {"directory": str(folder), "pages": len(pages)}
    )
    return 0


def show_version(_asked: Arguments, _client: Client, out: Output) -> int:
    """Print the version of this program."""
    out.text(f"headnode {__version__}", {"version": __version__})
    return 0


COMMANDS = (
    CliCommand(
        "man",
        "[NOUN] [VERB]",
        "Show the manual page of hn or of a command",
        show_manual,
        options=(
            CliOption("source", "", "Print the source of the page for man(1), as in a pipe"),
            CliOption(
                "directory", "DIRECTORY", "Write all pages into this directory, such as /usr/share/man/man1"
            ),
        ),
        example="hn man job submit",
    ),
    CliCommand("version", "", "Print the version of this program", show_version, example="hn version"),
)
