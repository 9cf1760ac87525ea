"""The programs `hn` and `headnode`: find the command, read its options, carry it out."""

import os
import sys

from headnode.apps.cli.catalogue import (
    BATCH_PROGRAMS,
    MODULES,
    NOUNS,
    OLDER_WORDS,
    CliCommand,
    find_command,
    nearest_command,
)
from headnode.apps.cli.options import Arguments, read_arguments, usage
from headnode.apps.cli.output import KINDS, Output, TableOutput
from headnode.apps.client.client import Client
from headnode.apps.client.head_location import head_to_ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from headnode.core.model.errors import HeadnodeError

HELP_WORDS = ("help", "--help", "-h", "/?", "-?")
VERSION_WORDS = ("--version", "-V")
PROGRAMS_OF_HPC_PACK = ("job", "task", "node", "cluscfg", "clusrun")
INTERRUPTED = 130  # what shells say of a program that was interrupted from the keyboard


class StdoutFailed(Exception):
    """Standard output cannot be written.  It is no OSError: what catches those means other files."""


class GuardedStdout:
    """Standard output, or its bytes; its errors are distinguished from those of other files."""

    def __init__(self, stream: "Any") -> None:
        """`stream` is None if standard output was closed before the program began."""
        self._stream = stream

    def write(self, text: "str | bytes") -> int:
        """Write; Raises StdoutFailed, BrokenPipeError."""
        if self._stream is None:
            raise StdoutFailed("it is closed")
        try:
            written: int = self._guarded(self._stream.write, text)
        except UnicodeEncodeError:  # the locale has no such character
            encoded = (
                str(text).encode(self._stream.encoding, "backslashreplace").decode(self._stream.encoding)
            )
            written = self._guarded(self._stream.write, encoded)
        return written

    def flush(self) -> None:
        """Write what is in the buffer; Raises StdoutFailed, BrokenPipeError."""
        if self._stream is not None:
            self._guarded(self._stream.flush)

    @property
    def buffer(self) -> "GuardedStdout":
        """Standard output as bytes."""
        return GuardedStdout(None if self._stream is None else self._stream.buffer)

    @staticmethod
    def _guarded(deed: "Callable[..., Any]", *texts: "str | bytes") -> "Any":
        try:
            return deed(*texts)
        except BrokenPipeError:
            raise
        except OSError as trouble:
            raise StdoutFailed(trouble.strerror) from None

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._stream, name)


def main() -> int:
    """Run the command on the program's command line; return its exit status."""
    program = os.path.basename(sys.argv[0])  # noqa: PTH119 (pathlib costs 6 ms of every command)
    stdout: Any = sys.stdout
    sys.stdout = GuardedStdout(stdout)
    try:
        return _ended(program)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _drop_unwritten(stdout)
        return 1
    except StdoutFailed as trouble:
        _drop_unwritten(stdout)
        named = "hn" if program == "__main__.py" else program
        sys.stderr.write(f"{named}: {_UNWRITABLE}: {trouble}; the command may have been carried out\n")
        return 1
    finally:
        sys.stdout = stdout


_UNWRITABLE = "standard output cannot be written"


def _drop_unwritten(stdout: "Any") -> None:
    """Let what is still in the buffer go nowhere: Python would try to write it at its end."""
    if stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())


def _ended(program: str) -> int:
    """Run the command; return its exit status when everything is written."""
    out: Output = _output_as(TableOutput)
    try:
        status = _started(program, out)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except _errors_of_ours() as error:
        out.problem(error)
        return 1 if program in PROGRAMS_OF_HPC_PACK else error.exit_status


def _started(program: str, out: Output) -> int:
    if program.endswith((".pbs", ".gridengine")):  # the links that say whose qsub it is
        program = program.partition(".")[0]
    if program in BATCH_PROGRAMS:
        from headnode.apps.cli.batch_programs.programs import run_as

        _refuse_unreadable(sys.argv[1:])
        return run_as(program, sys.argv[1:])
    return _obey_as(program, out) if program in PROGRAMS_OF_HPC_PACK else obey(sys.argv[1:])


def _obey_as(program: str, out: Output) -> int:
    """Carry out a command line that was typed for a program of HPC Pack, which is a link to `hn`."""
    from headnode.apps.cli.hpc_pack_programs import obey_as

    _refuse_unreadable(sys.argv[1:])
    return obey_as(program, sys.argv[1:], lambda command, asked: _carry_out(command, asked, None), out.note)


def obey(arguments: "Sequence[str]") -> int:
    """Carry out one command line; return its exit status.

    Raises:  HeadnodeError when the command is refused or cannot be understood.
    """
    _refuse_unreadable(arguments)
    if arguments and arguments[0] in VERSION_WORDS:
        arguments = ["version", *arguments[1:]]
    if not arguments or arguments[0] in HELP_WORDS:
        return _help(arguments[1:])
    head, arguments = _leading_head(arguments)
    noun, rest = (arguments[0], arguments[1:]) if arguments[0] in NOUNS else ("", arguments)
    if not rest or rest[0] in HELP_WORDS:
        return _help([noun])
    if not noun and rest[0] not in MODULES[""] and ("", rest[0]) not in OLDER_WORDS:
        raise _no_such_word(rest[0])
    command = find_command(noun, rest[0])
    args = read_arguments(rest[1:], command.options, command.positionals)
    if args.flag("help"):
        return _help([noun, command.verb])
    if scheduler := head.get("--scheduler"):
        args.options.setdefault("scheduler", [scheduler])
    return _carry_out(command, args, head.get("--state"))


def _leading_head(arguments: "Sequence[str]") -> "tuple[dict[str, str], Sequence[str]]":
    """Take ``--state DIRECTORY`` and ``--scheduler NAME`` from before the command's words."""
    head: dict[str, str] = {}
    while len(arguments) > 1:
        name, equals, value = arguments[0].partition("=")
        rest = arguments[1:] if equals else arguments[2:]
        if name not in ("--state", "--scheduler") or not rest:
            break
        head[name], arguments = value if equals else arguments[1], rest
    return head, arguments


def _carry_out(command: CliCommand, args: Arguments, state: str | None) -> int:
    _recall_last_job(args, command.positionals)
    if args.words and not command.words:
        raise usage(f"{args.words[0]!r} is not understood", command.instead)
    state = _given_state(args) or state
    if state is not None:
        args.options["state-directory"] = [state]
    scheduler = args.text("scheduler")
    client = Client(lambda: head_to_ask(os.environ, os.geteuid(), state=state, scheduler=scheduler))
    out = _output(args)
    try:
        status = command.run(args, client, out)
    except _errors_of_ours() as error:
        from headnode.apps.cli.typed_options import name_typed_options

        out.close()  # what was done before is in the document
        name_typed_options(error, args)
        raise
    finally:
        client.close()
    out.close()
    return status


def _given_state(args: Arguments) -> str | None:
    """Return the state directory that was typed.

    Verbs that list things by state call that ``/state`` too; a directory is told by its slash.
    """
    values = args.options.pop("state", [])
    if wanted := [word for word in values if "/" not in word]:
        args.options["state"] = [",".join(wanted)]
    directories = [word for word in values if "/" in word]
    return args.text("state-directory") or (directories[-1] if directories else None)


def _output(args: Arguments) -> Output:
    kind = "json" if args.flag("json") else "quiet" if args.flag("quiet") else args.text("format") or "table"
    if kind.lower() not in KINDS:
        raise usage(f"format {kind!r} is unknown", "choose list, table, json or quiet")
    return _output_as(KINDS[kind.lower()])


def _output_as(kind: type[Output]) -> Output:
    out = kind(sys.stdout.write, _complain, _write_bytes, _terminal_width())
    out.coloured = _wants_colour()
    return out


def _wants_colour() -> bool:
    """Return whether to write colours.  Source:  no-color.org."""
    return os.isatty(1) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _complain(text: str) -> None:
    sys.stdout.flush()  # who has both in one file reads them in their order
    sys.stderr.write(text)


def _write_bytes(data: bytes) -> None:
    sys.stdout.flush()  # what was said before comes before
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _terminal_width() -> int | None:
    """Return the columns of the terminal; None where there is none, or it does not know its size."""
    return os.get_terminal_size(1).columns or None if os.isatty(1) else None


def _recall_last_job(args: Arguments, positionals: int | None) -> None:
    """Put the id of the last job of this shell where ``!!`` or ``!!.1`` says so; not in a program's words."""
    ids = args.words if positionals is None else args.words[:positionals]
    options = {
        name: [word.split(",") for word in args.options[name]] for name in _OF_IDS if name in args.options
    }
    entered = (*ids, *(word for lists in options.values() for values in lists for word in values))
    if not any(word.partition(".")[0] == "!!" for word in entered):
        return
    from headnode.apps.cli.shell import recall

    job = str(recall())
    args.words[: len(ids)] = [job + word[2:] if word.partition(".")[0] == "!!" else word for word in ids]
    for name, lists in options.items():
        args.options[name] = [",".join(job if word == "!!" else word for word in words) for words in lists]


_OF_IDS = ("id", "parentjobids", "afterfailure", "afterexit", "afterstart")  # options with ids of jobs


def _help(argv: "Sequence[str]") -> int:
    from headnode.apps.cli.commands.help import help_on

    sys.stdout.write(help_on([word for word in argv if word], _terminal_width()))
    return 0


def _no_such_word(word: str) -> "HeadnodeError":
    if word.startswith("-"):
        return usage(f"{word!r} is not a command", "write options after the command: hn job list --json")
    near = nearest_command("", word)
    return usage(f"there is no command {word!r}", f"did you mean: hn {near}" if near else "see: hn --help")


def _refuse_unreadable(arguments: "Sequence[str]") -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            escaped = argument.encode(errors="backslashreplace").decode().replace("\\udc", "\\x")
            raise usage(f"argument '{escaped}' is not UTF-8", "write it in UTF-8") from None


def _errors_of_ours() -> "type[HeadnodeError]":
    """Import the errors when there is one: their module costs as much as the whole of a submit."""
    from headnode.core.model.errors import HeadnodeError

    return HeadnodeError


if __name__ == "__main__":
    sys.exit(main())
