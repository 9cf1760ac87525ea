"""The directories of attempts, by shell commands that also work by ssh, and questions about attempts.

Files are written and read, and signals are sent, as the owner of the job.
"""

import shlex
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from headnode.adapters.batch.commands import account_of, run_command
from headnode.adapters.batch.orders import (
    AttemptFileAnswer,
    AttemptFileQuestion,
    AttemptSignal,
    AttemptSignalAnswer,
)
from headnode.core.batch.dialect import CommandResult, Dialect, SubmissionResult
from headnode.core.batch.job_script import SCRIPT
from headnode.core.batch.tracked import Files
from headnode.core.model.resource import BatchResource

DIRECTORY = "~/.headnode/attempts"
NO_DIRECTORY, NOT_NOW = 73, 74
_HOME = 'case $d in "~/"*) d=$HOME/${d#"~/"};; esac; '
_ROOT = (
    'case $d in "~/"*) r=$HOME;; *) r=${d%/*/*};; esac; [ -d "$r" ] || '
    f'{{ echo "there is no directory $r now" >&2; exit {NOT_NOW}; }}; '
)
"""What all attempts are in must be there: made anew where nothing is mounted, it shows none that started."""
_SUBMIT = f"""d=$1 t=$2; shift 2; {_ROOT}{_HOME}
umask 077
{{ [ -d "$d" ] || mkdir -p "$d"; }} && cd "$d" && [ -O . ] && [ -O .. ] || exit {NO_DIRECTORY}
mkdir -p "$@" || exit {NOT_NOW}
umask 022
say() {{ printf '%s\\n%s %s %s\\n' "$2" "$t" "$m" "$1"; }}
one() {{
  m=$1 script=$2; shift 2
  if ! cd "$m" || ! [ -O . ]; then
    say {NO_DIRECTORY} "it is not the directory of its user"
  elif {{ [ ! -e {SCRIPT} ] || rm -f {SCRIPT}; }} && printf %s "$script" > {SCRIPT}; then
    "$@" < {SCRIPT} 2>&1; say $?
  else
    say {NOT_NOW} "the disk of its directory is full"
  fi
  cd "$base" || exit
}}
keep() {{ (umask 077; cd "$1" && [ -O . ] && printf '%s\\n' "$2" > secret); }}
base=$PWD
"""
"""Directories of others are refused: these could exchange what is written there.  Where a disk is full or
gone, the submission is repeated.

It is read from standard input: everybody can see arguments.  No program is started but those that submit,
and rm before a repeated submission.

The script stays: where a go-between of the command is killed, the command itself may read it after that, and
an empty script is a job that does nothing.  Another submission makes another file, for the same reason.
"""
# An exit file that is there and cannot be read says nothing of its attempt, not even that there is none.
_LOOK = (
    f"n='\n'; d=$1; shift; {_ROOT}{_HOME}"
    f'(umask 077; mkdir -p "$d") && cd "$d" && [ -O . ] && [ -O .. ] || exit {NO_DIRECTORY}; base=$(pwd); '
    'for m; do s=-; x=; if cd "$base/$m" 2> /dev/null; then ls > /dev/null 2>&1; '
    "[ -e started ] && s=S; "
    "if [ -f exit ]; then x=$(dd if=exit iflag=nonblock bs=1000 count=1 2> /dev/null) || continue; fi; fi; "
    'printf "%s %s %s\\n" "$m" "$s" "${x%%"$n"*}"; done'
)


_READ = (
    "d=$1; " + _HOME + 's=$(stat -Lc %s -- "$d") && [ -f "$d" ] || exit 1; o=$2; '
    "[ $o -ge 0 ] || o=$((s + o)); [ $o -ge 0 ] || o=0; echo $s; "
    'dd if="$d" iflag=nonblock,skip_bytes,count_bytes bs=64K skip=$o count="$3" 2> /dev/null | base64 -w0'
)
"""Without waiting: a user may put a pipe in the place of a file after it was looked at."""


def read_words(path: str, offset: int, limit: int) -> list[str]:
    """Return the command that prints the size of a file, and a part of it in base64."""
    return ["sh", "-c", _READ, "sh", path, str(offset), str(limit)]


def bytes_read(result: CommandResult) -> tuple[bytes, int]:
    """Return what was read and the size of the file.

    Raises:  ValueError when nothing was, with the reason.
    """
    size, _, data = result.out.partition("\n")
    if result.status != 0 or not size.isdigit():
        raise ValueError(result.complaint)
    return b64decode(data), int(size)


def base_directory(resource: BatchResource, owner: str) -> str:
    """Return where a user's attempts have their directories: in the home, or where the resource says."""
    if not resource.directory:
        return f"{DIRECTORY}/{resource.mark}"
    return f"{resource.directory}/{owner}/{resource.mark}"


def submit_words(base: str, token: str, markers: Iterable[str]) -> list[str]:
    """Return the command that makes directories, and submits what its input says (`submit_input`)."""
    return ["sh", "-s", "--", base, token, *markers]


def submit_input(
    files: Mapping[str, tuple[str, Sequence[str]]], secrets: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Return the input of `submit_words`.  `files`: by marker, the script and the command to submit it.

    `secrets` are kept in the file ``secret`` of their attempts, for the owner only.
    """
    lines = [shlex.join(["keep", marker, secret]) for marker, secret in secrets.items()]
    lines += [shlex.join(["one", marker, script, *argv]) for marker, (script, argv) in files.items()]
    return "\n".join([_SUBMIT, *lines, "m=end; say 0 ''\n"]).encode()


def submission_answers(result: CommandResult, token: str, markers: Iterable[str]) -> dict[str, CommandResult]:
    """Return what each submission answered: both its streams as one text.  A line with `token` ends it."""
    if result.status == NO_DIRECTORY:
        return dict.fromkeys(markers, result)
    results = dict.fromkeys(markers, CommandResult(None, "", result.err))  # also after NOT_NOW
    text, *rest = result.out.split(f"\n{token} ")
    for part in rest[:-1]:  # what was cut on its way there shows in nothing that follows
        head, _, following = part.partition("\n")
        marker, _, status = head.partition(" ")
        if marker in results and status.isdigit():
            results[marker] = CommandResult(int(status), text, text)
        text = following
    return results


def not_written(result: CommandResult) -> SubmissionResult | None:
    """Return what follows if the directory could not be made: nothing was submitted."""
    if result.status != NO_DIRECTORY:
        return None
    return SubmissionResult(
        "refused", message=f"its directory is not its user's, or cannot be written: {result.complaint}"
    )


def look_words(base: str, markers: Sequence[str]) -> list[str]:
    """Return the command that lists the directories of attempts."""
    return ["sh", "-c", _LOOK, "sh", base, *markers]


def files_found(result: CommandResult, markers: Sequence[str]) -> dict[str, Files | None]:
    """Return what is in each directory; None for all if the command did not do its work."""
    if result.status != 0:
        return dict.fromkeys(markers)
    files: dict[str, Files | None] = dict.fromkeys(markers)
    for line in result.out.splitlines():
        marker, _, rest = line.partition(" ")
        if marker in files and files[marker] is None and rest[:2] in ("S ", "- "):
            files[marker] = Files(rest[0] == "S", rest[2:])
    return files


MAX_READ = 20.0  # seconds, of a part of a file
MAX_SIGNAL = 20.0  # seconds


class AttemptDesk(NamedTuple):
    """Answers for one resource; any thread may ask."""

    resource: BatchResource
    dialect: Dialect

    def read(self, question: AttemptFileQuestion) -> AttemptFileAnswer:
        """Read a file as the user of a job."""
        try:
            result = self._run(question, read_words(question.path, question.offset, question.limit), MAX_READ)
            data, size = bytes_read(result)
        except (LookupError, PermissionError, ValueError) as error:
            return AttemptFileAnswer(question.number, problem=str(error))
        return AttemptFileAnswer(question.number, data, size)

    def signal(self, order: AttemptSignal) -> AttemptSignalAnswer:
        """Send a signal to jobs as their user."""
        argv = self.dialect.signal(order.ids, order.signal, order.target)
        if not argv:
            return AttemptSignalAnswer(order.number, impossible=True)
        try:
            result = self._run(order, argv, MAX_SIGNAL)
        except (LookupError, PermissionError) as error:
            return AttemptSignalAnswer(order.number, problem=str(error))
        return AttemptSignalAnswer(order.number, problem="" if result.status == 0 else result.complaint)

    def _run(
        self, question: AttemptFileQuestion | AttemptSignal, argv: Sequence[str], seconds: float
    ) -> CommandResult:
        account = account_of(question.owner, question.uid, question.gid)
        variable = self.dialect.system.settings_variable
        return run_command(self.resource, variable, account, argv, seconds=seconds)
