"""Prints the reference page of the command line from the tables the parser reads."""

import sys

from headnode.apps.cli.catalogue import COMMON_OPTIONS, NOUNS, OLDER_WORDS, CliCommand, every_command
from headnode.apps.cli.commands.help import INTRODUCTION, SPELLINGS, described, paragraphs, spelling, usage_of
from headnode.apps.cli.options import CliOption

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = f"""# The command line

{INTRODUCTION} The programs `hn` and `headnode` are the same.
This page is printed by `make bless`; do not edit it.

{SPELLINGS}

Errors go to standard error as `hn: what is wrong; what to do`. Times are local, in ISO 8601 with their
offset. An option that is a flag means true; `/exclusive:false` means false. A path such as `/bin/true`
is not an option. Hyphens within an option may be left out: `--dry-run`, `--dryrun`. Unknown options are
refused with the nearest known one. `--` ends the options.
"""


def reference() -> str:
    """Return the page as Markdown."""
    parts = [HEAD, "## Options of every command\n\n" + _table(COMMON_OPTIONS) + _where()]
    heading = None
    for noun, command in every_command():
        if noun != heading:
            heading = noun
            parts.append(f"## {NOUNS.get(noun, 'Verbs that stand alone')}\n")
        parts.append(_command(noun, command))
    return "\n".join([*parts, _older_words()])


def _command(noun: str, command: CliCommand) -> str:
    own = paragraphs(command)[:-1]
    lines = [
        f"### `{' '.join(['hn', *([noun] if noun else []), command.verb])}`",
        "",
        f"{command.summary}.",
        "",
    ]
    lines += ["```", usage_of(noun, command), "", f"$ {command.example}", "```", ""]
    lines += [line for note in command.notes for line in (note, "")]
    tables = [_table(options, heading) for heading, options in own]
    return "\n".join(lines) + "".join(f"\n{table}" for table in tables)


def _table(options: "Sequence[CliOption]", heading: str = "Options") -> str:
    rows = [f"| `{_cell(spelling(option))}` | {_cell(described(option))} |" for option in options]
    return "\n".join([f"| {heading} | |", "|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _where() -> str:
    return (
        "\nWithout `--state` the head is the one named by `HEADNODE_STATE` or `CCP_SCHEDULER`, else yours "
        "in `$XDG_STATE_HOME/headnode` (`~/.local/state/headnode`; `/var/lib/headnode` for root), else that "
        "of the whole machine in `/var/lib/headnode`. On verbs where `/state` chooses by state, a value with "
        "a slash in it is a directory. `--state DIRECTORY` may also stand right behind `hn`.\n"
    )


def _older_words() -> str:
    rows = [f"| `hn {' '.join(old)}` | `hn {' '.join(new)}` |" for old, new in OLDER_WORDS.items()]
    return "\n".join(["## Older words\n", "| typed | means |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(reference())
