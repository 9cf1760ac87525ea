"""``scrontab``: the table of a user's recurring jobs.

Source:  Slurm 22.05, scrontab(1).
"""

import os
import sys

from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    acted_on,
    errors_of_ours,
    ignored,
    read_words,
)
from headnode.apps.cli.local_zone import local_zone
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = {
    **acted_on("edit/e! list/l! remove/r! user/u version/V! help! usage!"),
    **ignored("quiet/Q! verbose/v!", "there is nothing more to say"),
}
_NEW = """\
# Lines beginning with #SCRON give options of sbatch to the next entry, for example:
#   #SCRON --time=30:00
#   0 4 * * * $HOME/bin/nightly
"""
_MOST = 1_048_576  # characters of a table


def run(argv: "Sequence[str]", client: Client) -> int:
    """Show, edit, replace or remove the table of a user."""
    args = read_words(argv, OPTIONS)
    chosen = [name for name in ("edit", "list", "remove") if args.has(name)]
    if len(chosen) + len(args.words) > 1:
        raise ProgramRefusal("Only one of -e, -l, -r and a file may be given")
    user = args.value("user")
    if args.has("list"):
        return _print_table(client, user)
    if args.has("remove"):
        client.ask("set_recurring_table", user=user, text="")
        return 0
    if args.has("edit"):
        return _edit(client, user)
    if not args.words:  # an empty standard input would remove the table
        raise ProgramRefusal("One of -e, -l, -r and a file must be given; - is standard input")
    _replace(client, user, _text_of(args.words[0]))
    return 0


def _print_table(client: Client, user: str) -> int:
    answer = client.ask("recurring_table", user=user)
    if not answer["text"]:
        who = user or client.ask("whoami")["user"]
        print(f"no crontab for {who}", file=sys.stderr)
        return 1
    sys.stdout.write(answer["text"])
    return 0


def _replace(client: Client, user: str, text: str) -> None:
    """Let a text be the table; the head refuses all of it if one entry is wrong."""
    directory = os.path.expanduser("~") if client.shares_directories else ""  # noqa: PTH111 (pathlib costs 6 ms)
    client.ask("set_recurring_table", user=user, text=text, zone=local_zone(), directory=directory)


def _text_of(path: str) -> str:
    """Return the text of a file; of standard input for ``-``.

    Raises:  ProgramRefusal.
    """
    try:
        if path == "-":
            text = sys.stdin.read(_MOST + 1)
        else:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 (pathlib costs 6 ms)
                text = file.read(_MOST + 1)
    except OSError as error:
        raise ProgramRefusal(f"Unable to read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProgramRefusal(f"Unable to read {path}: it is not UTF-8 text") from None
    if len(text) > _MOST:
        raise ProgramRefusal(f"{path} has more than {_MOST:,} characters")
    return text


def _edit(client: Client, user: str) -> int:
    """Let the user edit the table until the head accepts it, or the user gives up."""
    import tempfile

    before = client.ask("recurring_table", user=user)["text"] or _NEW
    with tempfile.TemporaryDirectory(prefix="scrontab") as folder:  # no other user can read or swap the file
        path = f"{folder}/crontab"
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 (pathlib costs 6 ms)
            file.write(before)
        while True:
            _open_editor(path)
            text = _text_of(path)
            if text == before:
                print("scrontab: no changes made to crontab", file=sys.stderr)
                return 0
            try:
                _replace(client, user, text)
            except errors_of_ours() as error:
                print(f"scrontab: error: {error}", file=sys.stderr)
            else:
                return 0
            if not _edits_again():
                print("scrontab: the crontab stays as it was", file=sys.stderr)
                return 1


def _open_editor(path: str) -> None:
    import shlex
    import subprocess

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), path], check=False)
    except (OSError, ValueError) as error:
        raise ProgramRefusal(f"the editor {editor!r} cannot be started: {error}; set EDITOR") from None
    if done.returncode:
        raise ProgramRefusal(f"the editor {editor!r} failed with status {done.returncode}")


def _edits_again() -> bool:
    """Ask whether the user wants to edit once more; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    print("Do you want to retry the edit? (y/n) ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
