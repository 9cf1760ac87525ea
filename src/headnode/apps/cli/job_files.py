"""Reads a job file as the user, in any encoding, as the text the head wants, with the files it names."""

import os
import sys

from headnode.adapters.files.opening import directory_of, open_below, open_named
from headnode.apps.cli.options import Arguments, CliOption, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from headnode.apps.client.client import Client
    from headnode.core.model.errors import HeadnodeError

HOW_TO_READ = (
    CliOption("from", "LANGUAGE", "Read the file as this job language, if it is detected wrongly"),
    CliOption("lenient", "", "Repair unambiguous damage in SSS and grid files, and report it"),
    CliOption("strict", "", "Refuse values beyond the documented limits of CCS, in its XML files"),
    CliOption("set", "NAME=VALUE", "In a grid file, replace {NAME} with VALUE", repeats=True),
)
"""Options of every command that reads job files."""

STANDARD_INPUT = "-"
LINES = "each-line"  # the option that names a file with a job on each line

MAX_JOB_FILE = 12 * 1024 * 1024  # bytes; as JSON it must still fit into one request
_SUFFIXES = (".xml", ".toml", ".json", ".js", ".sub", ".dag")


def job_file_among(words: "Sequence[str]") -> str | None:
    """Return the job file that is meant by the words behind the options; None when they are a program.

    A job file is told by its name, and by not being executable.  A .js file must also be there.
    Raises:  BadRequest ``usage`` when something follows it.
    """
    name = words[0] if words else ""
    if name != STANDARD_INPUT and not looks_like_job_file(name):
        return None
    if len(words) > 1:
        what = f"{words[1]!r} follows the job file {name!r}; only a program has arguments"
        raise usage(what, f"write options before it: hn job submit [options] {name}")
    return name


def looks_like_job_file(name: str) -> bool:
    """Return whether a word is the name of a job file, and not of a program."""
    if not name.lower().endswith(_SUFFIXES):
        return False
    if os.path.isfile(name):  # noqa: PTH113
        return not os.access(name, os.X_OK)
    return not name.lower().endswith(".js") and not any(mark in name for mark in " \t\n;|&")


def refuse_how(args: Arguments) -> None:
    """Refuse to be told how a job file is to be read where there is none.

    Raises:  BadRequest ``usage``.
    """
    for option in HOW_TO_READ:
        if option.name in args.options:
            raise usage(
                f"option {option.name!r} says how a job file is read, and none was given", "leave it out"
            )


def described_by(args: Arguments, path: str, client: "Client") -> "dict[str, Any]":
    """Return the job file at `path` as the head gets it: its text, the files it names, how to read it.

    A submit file of HTCondor comes with the directory and the variables of this shell.
    Raises:  BadRequest ``job-file``.
    """
    from headnode.core.formats.condor.recognition import is_submit_file

    text = read_job_file(path)
    if is_submit_file(text):
        described = submit_file_request(path, text, client)
    else:
        described = {"jobfile": text, "files": files_beside(path, text) or None}
    return {
        **described,
        "dialect": args.text("from"),
        "lenient": args.flag("lenient") or None,
        "strict": args.flag("strict") or None,
        "values": values_given(args) or None,
    }


def submit_file_request(path: str, text: str, client: "Client") -> "dict[str, Any]":
    """Return a submit file, or a flow, as the head gets it: with its files, and what it takes of this shell.

    Raises:  BadRequest ``job-file``.
    """
    from headnode.apps.cli.queue_items import variables_named

    files = files_beside(path, text)
    shell = _of_shell(client)
    shell["environment"] |= variables_named((text, *files.values()))
    return {**shell, "script": [path], "jobfile": text, "files": files or None}


def described_script(path: str, args: Arguments, client: "Client") -> "dict[str, Any] | None":
    """Return the text of a batch script, and where it comes from; None if it has no options for a scheduler.

    The head takes the directory and the variables of this shell if the scheduler of the script would.
    Raises:  BadRequest ``job-file``.
    """
    from headnode.core.formats.batch import is_batch_script

    text = read_job_file(path)
    if not is_batch_script(text):
        return None
    named = args.text("from")
    return {
        **({} if named is None else {"dialect": named}),
        "jobfile": text,
        "script": args.words,
        **_of_shell(client),
    }


def _of_shell(client: "Client") -> "dict[str, Any]":
    """Return the directory and the variables of this shell; the head uses what the job language says."""
    from headnode.apps.client.submitter import EVERYTHING, current_directory, variables_for_tasks

    return {
        "directory": current_directory() if client.shares_directories else "",
        "environment": variables_for_tasks(EVERYTHING),
    }


def values_given(args: Arguments) -> "dict[str, str]":
    """Return the values for names in a grid file that were given with --set.

    Raises:  BadRequest ``usage``.
    """
    values: dict[str, str] = {}
    for text in args.options.get("set", ()):
        name, equals, value = text.partition("=")
        if not equals or not (name.isascii() and name.isidentifier()):
            raise usage(
                f"--set {text!r} is not a name with a value", "write --set who=ada, for {who} in the file"
            )
        if values.setdefault(name, value) != value:
            raise usage(f"--set gives {name!r} two values", "give one")
    return values


def read_bytes(path: str) -> bytes:
    """Return the bytes of the job file at `path`; ``-`` is standard input.

    Raises:  BadRequest ``job-file``.
    """
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MAX_JOB_FILE + 1)
        else:
            with os.fdopen(open_named(path), "rb") as file:
                data = file.read(MAX_JOB_FILE + 1)
    except OSError as trouble:
        raise _unreadable(path, trouble) from trouble
    if len(data) > MAX_JOB_FILE:
        raise _bad(
            f"job file {path!r} is larger than {MAX_JOB_FILE} bytes", "use a sweep instead of many tasks"
        )
    return data


def read_job_file(path: str) -> str:
    """Return the text of the job file at `path`; an XML declaration then says UTF-8, which is what is sent.

    Raises:  BadRequest ``job-file``.
    """
    return _text_of(path, read_bytes(path))


def _text_of(path: str, data: bytes) -> str:
    """Return what a job file says.

    Raises:  BadRequest ``job-file``.
    """
    from headnode.core.formats.text.encodings import text_of_job_file

    return text_of_job_file(data, f"job file {path!r}")


def files_beside(path: str, text: "str | bytes") -> "dict[str, str]":
    """Return the files that a grid job or a submit file names; those that are not there are left out.

    Those of a grid job are beside it, those of a submit file in the current directory, as all its paths.
    The author of the job file need not be the user who submits it, and the owner of the job can read what is
    sent.  Only plain files in or below that directory are read, and no links; root reads only
    its own files there and those of the owner of the directory.
    Raises:  BadRequest ``job-file`` when one cannot be read, or they are too large together.
    """
    from headnode.core.formats.condor.recognition import is_submit_file

    named = b'"filename"' if isinstance(text, bytes) else '"filename"'
    start = text[:65_536] if isinstance(text, str) else text[:65_536].decode("utf-8", "replace")
    try:
        if is_submit_file(start):
            files = _queue_items(text)
        elif named in text:  # type: ignore[operator]  # both are bytes, or both are text
            from headnode.core.formats.grid import files_named

            files = _named_files(path, files_named(text))
        else:
            return {}
    except OSError as trouble:
        raise _unreadable(path, trouble) from trouble
    if sum(map(len, files.values())) > MAX_JOB_FILE // 2:
        raise _bad(f"the files that {path!r} names are larger than {MAX_JOB_FILE // 2} bytes", "use a sweep")
    return files


def _queue_items(text: "str | bytes") -> "dict[str, str]":
    """Return the items of queue commands: files below the current directory, and names of files there.

    Raises:  OSError for the directory; BadRequest ``job-file`` for a file.
    """
    from headnode.apps.cli.queue_items import matching
    from headnode.core.formats.condor.flows import files_of_flow
    from headnode.core.formats.condor.reading import items_named
    from headnode.core.formats.condor.recognition import is_flow
    from headnode.core.formats.condor.statements import PATTERNS
    from headnode.core.model.task import ScriptOrigin

    origin = ScriptOrigin(environment=dict(os.environ))
    start = text[:65_536] if isinstance(text, str) else text[:65_536].decode("utf-8", "replace")
    if is_flow(start):
        named = files_of_flow(text, {}, origin)
        nodes = {name: file.encode() for name, file in _named_files(STANDARD_INPUT, named).items()}
        keys = files_of_flow(text, nodes, origin)
    else:
        keys = items_named(text, origin)
    files = _named_files(STANDARD_INPUT, [key for key in keys if not key.startswith(PATTERNS)])
    return files | {key: matching(key[len(PATTERNS) :]) for key in keys if key.startswith(PATTERNS)}


def _named_files(path: str, names: "Sequence[str]") -> "dict[str, str]":
    """Return the text of those named files that are there.

    Raises:  OSError for the directory; BadRequest ``job-file`` for a file.
    """
    directory, _ = (os.open(".", os.O_PATH), "") if path == STANDARD_INPUT else directory_of(path)
    files: dict[str, str] = {}
    try:
        for name in names:
            data = _read_named(directory, name)
            if data is not None:
                files[name] = _text_of(name, data)
    finally:
        os.close(directory)
    return files


def _read_named(directory: int, name: str) -> bytes | None:
    """Return the bytes of a file below the directory of the job file; None if there is none.

    Raises:  BadRequest ``job-file``.
    """
    try:
        with os.fdopen(open_below(directory, name), "rb") as file:
            owner, owners = os.fstat(file.fileno()).st_uid, (0, os.fstat(directory).st_uid)
            if os.geteuid() == 0 and owner not in owners:
                what = f"file {name!r} of the job belongs to user {owner}, and its directory to another"
                raise _bad(what, "copy it as the owner of the directory")
            return file.read(MAX_JOB_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as trouble:
        reason = trouble.strerror or str(trouble)
        fix = "a job names plain files in or below the directory of its job file, without .. and links"
        raise _bad(f"file {name!r} of the job cannot be read: {reason}", fix) from trouble


def _unreadable(path: str, trouble: OSError) -> "HeadnodeError":
    from headnode.core.model.errors import BadRequest

    reason = trouble.strerror or str(trouble)
    return BadRequest(
        code="job-file",
        what=f"job file {path!r} cannot be read: {reason}",
        fix="name an existing file that you may read",
    )


def _bad(what: str, fix: str) -> "HeadnodeError":
    from headnode.core.model.errors import BadRequest

    return BadRequest(code="job-file", what=what, fix=fix)
