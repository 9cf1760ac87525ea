"""Manual pages, written from the same catalogue as help: ``hn(1)`` and a page for each command."""

from headnode import __version__
from headnode.apps.cli.catalogue import NOUNS, every_command, find
from headnode.apps.cli.help import INTRODUCTION, SPELLINGS, paragraphs, spelling, told, usage_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headnode.apps.cli.command import Command

_ENVIRONMENT = (
    ("HEADNODE_STATE", "State directory of the head to talk to."),
    ("CCP_SCHEDULER", "Head to talk to, as --scheduler names it."),
    ("NO_COLOR", "If it is set and not empty, nothing is coloured."),
)
_STATUS = (
    ("0", "Done; of commands that wait, the job finished."),
    ("1", "Refused, or failed."),
    ("2", "Wrong usage, or bad input."),
    ("130", "Interrupted from the keyboard; jobs go on."),
)


def man_page(words: "Sequence[str]") -> str:
    """Return the page of the program, or of the command of these words, in the language of man(7).

    Raises:  BadRequest ``usage`` when there is no such command.
    """
    if not words:
        return _page("hn", INTRODUCTION.rstrip("."), _of_program())
    noun, verb = words if len(words) == 2 else ("", words[0])
    command = find(noun, verb)
    return _page(_name(noun, command), command.summary, _of_command(noun, command))


def every_page() -> "Iterator[tuple[str, str]]":
    """Yield the file name and the text of each page."""
    yield "hn.1", man_page([])
    for noun, command in every_command():
        yield f"{_name(noun, command)}.1", man_page([word for word in (noun, command.verb) if word])


def _name(noun: str, command: "Command") -> str:
    return "-".join(word for word in ("hn", noun, command.verb) if word)


def _page(name: str, summary: str, rest: "Iterator[str]") -> str:
    head = [f'.TH {name.upper()} 1 "" "headnode {__version__}" "Headnode"', ".SH NAME"]
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


def _of_command(noun: str, command: "Command") -> "Iterator[str]":
    yield from (".SH SYNOPSIS", f".B {_text(usage_of(noun, command))}")
    if command.notes:
        yield ".SH DESCRIPTION"
        yield "\n.PP\n".join(map(_text, command.notes))
    yield ".SH OPTIONS"
    for heading, options in paragraphs(command):
        yield f".SS {_text(heading)}"
        for option in options:
            yield from (".TP", f".B {_text(spelling(option))}", _text(f"{told(option)}."))
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
