"""``hn man``: manual pages."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", _client: "Client", out: "Output") -> int:
    """Show a page, print it, or write all of them."""
    from headnode.apps.cli.man_pages import man_page

    if (directory := asked.text("directory")) is not None:
        return _write(directory, asked, out)
    if len(asked.words) > 2:
        raise usage(f"{' '.join(asked.words)!r} is no command", "write: hn man job submit, for example")
    page = man_page(asked.words)
    if out.width is not None and not asked.flag("source"):
        return _show(page)
    out.text(page, {"page": page})
    return 0


def _show(page: str) -> int:
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


def _write(directory: str, asked: "Asked", out: "Output") -> int:
    from pathlib import Path

    from headnode.apps.cli.man_pages import every_page
    from headnode.core.model.errors import BadRequest

    if asked.words:
        raise usage(f"all pages are written, not {asked.words[0]!r} alone", "leave out the command")
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
    out.said(
        f"{len(pages)} manual pages written to {folder}.", {"directory": str(folder), "pages": len(pages)}
    )
    return 0


COMMANDS = (
    Command(
        "man",
        "[NOUN] [VERB]",
        "Show the manual page of hn or of a command",
        run,
        options=(
            Option("source", "", "Print the page for the typesetter, as a pipe gets it"),
            Option(
                "directory", "DIRECTORY", "Write all pages into this directory, such as /usr/share/man/man1"
            ),
        ),
        example="hn man job submit",
    ),
)
