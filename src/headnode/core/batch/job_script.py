"""The script that another scheduler runs for one attempt, and the files by which it says what became of it.

Signals are for its program, and the shell outlives them.  Where a scheduler signals the shell alone, realtime
signals stand for those that it passes on: so no program gets one twice.

A part of it is no program: its braces end with it.  It takes ``started`` for itself before it runs anything:
a second job of the same attempt finds that and ends.  It says how the program ended in ``exit``, by a rename,
so that the file is whole or is not there.
"""

import posixpath
import re
import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

from headnode.core.batch import HAND_OFF
from headnode.core.batch.dialect import cpu_seconds
from headnode.core.model.outcome import NOT_MEASURED, ResourceUsage
from headnode.core.model.quantities import Instant
from headnode.core.model.resource_system import ResourceSystem

SCRIPT: Final = "job"  # the file of the script
STARTED: Final = "started"
EXIT: Final = "exit"
OUTPUT: Final = "output"
TAKEN: Final = 97  # the exit status of a job that finds another job of the same attempt
TO_PROGRAM: Final = 33  # with the number of a signal: the realtime signal that passes it on to the program
TO_GROUP: Final = TO_PROGRAM + 17  # of the job's signal, to all that the program started; nobody sends CHLD
MAX_REPORT: Final = 4096  # bytes of a file that is read


class Program(NamedTuple):
    """What the script runs.  Empty paths of streams: the file `OUTPUT`, and nothing to read."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    work_directory: str
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    append_stdout: bool = False
    append_stderr: bool = False
    script: str = ""  # the text of a program, which one of `argv` names as `script_path`
    script_path: str = ""


_FORWARDS: Final = """hn_n=1
while [ $hn_n -lt 32 ]; do
  trap "kill -$hn_n \\$program 2> /dev/null" $((hn_n + {to_program})); hn_n=$((hn_n + 1))
done
unset hn_n
"""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEAD: Final = """#!/bin/sh
# {marker}: made by Headnode, see docs/hand-off.md.
{{
{enter}id=${{{id}:-$$}}
(set -C; echo "$id $(date +%s) $(hostname)" > started) 2> /dev/null || {{
  echo "another job of this attempt has started: $(cat started)" >&2; exit {taken}; }}
unset {hand_off}
trap : 1 2 3 6 10 12 13 14 16 24 25 26 27 29 30 31
began=$(date +%s)
here=$(pwd)
tell() {{
  times > times && {{ read own; read user system; }} < times
  end="end=$(date +%s) id=$id host=$(hostname) user=$user system=$system"
  echo "code=$1 signal=$2 start=$began $end" > exit.new &&
    mv -f exit.new exit
}}
"""
_TAIL: Final = """program=$!
trap 'kill -TERM $program 2> /dev/null' TERM
while :; do
  wait $program; status=$?
  kill -0 $program 2> /dev/null || break
done
wait $program; last=$?; [ $last = 127 ] || status=$last
cd "$here" || exit 1
if [ $status -gt 128 ] && [ $status -le 192 ]; then tell $status $((status - 128)); else tell $status 0; fi
exit $status
}
"""


def attempt_script(marker: str, system: ResourceSystem, program: Program, to_group: int | None = None) -> str:
    """Return the script of one attempt; it runs in the directory of the attempt.

    `to_group`: the number of the signal that `TO_GROUP` stands for.
    """
    place = system.directory_variable
    enter = f'cd "${{{place}:-.}}" || exit {NO_DIRECTORY}\n' if place else ""
    lines = [_HEAD.format(marker=marker, id=system.id_variable, enter=enter, taken=TAKEN, hand_off=HAND_OFF)]
    if system is ResourceSystem.SLURM:
        lines.append(_FORWARDS.format(to_program=TO_PROGRAM))
        lines += [f"trap 'kill -{to_group} 0' {TO_GROUP}\n"] if to_group is not None else []
    exports = {name: value for name, value in program.environment.items() if _NAME.fullmatch(name)}
    lines += [f"export {name}={_quoted(value)}\n" for name, value in exports.items()]
    lines.append('export HEADNODE_NODE="$(hostname)"\n')
    if program.script:
        path = f'"$here"/{_quoted(posixpath.basename(program.script_path))}'
        lines.append(f"printf %s {_quoted(program.script)} > {path} && chmod 700 {path}\n")
    place = _quoted(program.work_directory)
    lines.append(
        f'cd {place} 2> "$here/{OUTPUT}" || {{ cd "$here"; tell {NO_DIRECTORY} 0; exit {NO_DIRECTORY}; }}\n'
    )
    lines.append(f"{_words(program)} {_streams(program)} &\n")
    return "".join([*lines, _TAIL])


NO_DIRECTORY: Final = 98  # the exit status when the work directory cannot be entered


def _quoted(text: str) -> str:
    """Return text as one word of a shell.

    No line of it begins with ``#``: LSF takes ``#BSUB`` in any line of a script for an option of bsub.
    """
    return shlex.quote(text).replace("\n#", "\n''#")


def _words(program: Program) -> str:
    path = f'"$here"/{_quoted(posixpath.basename(program.script_path))}'
    return " ".join(
        path if program.script and word == program.script_path else _quoted(word) for word in program.argv
    )


def _streams(program: Program) -> str:
    out = _quoted(program.stdout) if program.stdout else f'"$here/{OUTPUT}"'
    redirections = [f"< {_quoted(program.stdin or '/dev/null')}"]
    redirections.append(f"{'>>' if program.append_stdout else '>'} {out}")
    if program.stderr and program.stderr != program.stdout:
        redirections.append(f"2{'>>' if program.append_stderr else '>'} {_quoted(program.stderr)}")
    else:
        redirections.append("2>&1")
    return " ".join(redirections)


class ExitReport(NamedTuple):
    """What the script says of the end of its program.  A shell cannot tell signal 9 from exit code 137.

    The times are those of its processes on the first node.
    """

    code: int
    signal: int | None
    started: Instant | None
    ended: Instant | None
    host: str
    usage: ResourceUsage = NOT_MEASURED


_WORDS = re.compile(
    r"code=(\d{1,3}) signal=(\d{1,3}) start=(\d{1,15}) end=(\d{1,15}) id=(\S*) host=(\S*)"
    r"(?: user=(\S*) system=(\S*))?\s*"
)


def read_exit(text: str) -> ExitReport | None:
    """Return what the file `EXIT` says; None if it is not one of ours.

    >>> read_exit("code=3 signal=0 start=1 end=4 id=12 host=n1").code
    3
    """
    match = _WORDS.fullmatch(text[:MAX_REPORT])
    if match is None:
        return None
    code, signal, started, ended = (int(match[number]) for number in (1, 2, 3, 4))
    usage = ResourceUsage(cpu_seconds(match[7] or ""), cpu_seconds(match[8] or ""))
    return ExitReport(code, signal or None, Instant(started), Instant(ended), match[6][:256], usage)
