"""``bsub`` of LSF: submits a command line, a script with ``#BSUB`` lines, or standard input.

Source:  IBM Spectrum LSF 10.1, bsub(1).
"""

import os
import sys
from functools import partial

from headnode.apps.cli.batch_programs.lsf_rows import NOT_DONE, USUAL_QUEUE
from headnode.apps.cli.batch_programs.sbatch import exit_code_of, script_at, script_request, submitted
from headnode.apps.cli.batch_programs.words import ProgramRefusal, of_scripts
from headnode.apps.client.client import Client
from headnode.apps.client.submitter import quoted_line
from headnode.core.formats.batch.lsf_options import BSUB_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from headnode.core.model.errors import HeadnodeError

OF_THE_PROGRAM = ("I", "Ip", "Is", "K")
OPTIONS = of_scripts(BSUB_OPTIONS, OF_THE_PROGRAM)
_OPERATORS = frozenset((";", "|", "||", "&&", "&", "<", ">", ">>", "2>", "2>&1"))
_BEGINNING = 1 << 16  # bytes of a file in which the first line of options is looked for


class BsubLine:
    """A command line of bsub: options for the job, options for the program, and what is submitted."""

    def __init__(self) -> None:
        self.options: list[str] = []
        self.own: set[str] = set()
        self.words: list[str] = []


def run(argv: "Sequence[str]", client: Client) -> int:
    """Submit a job; with ``-K`` and ``-I`` return its exit code."""
    line = read_bsub(argv)
    script, names = _script(line)
    interactive = line.own & {"I", "Ip", "Is"}
    terms = {"interactive": "true"} if interactive else None
    request = script_request(client, "lsf", script, names, line.options)
    queue = line.options[line.options.index("-q") + 1] if "-q" in line.options else _queue_in(script)
    job = submitted("bsub", client, request, terms=terms, in_words=partial(in_words_of_lsf, queue))
    _print_submitted(job, queue)
    if interactive:
        return _converse(job, client, terminal="I" not in line.own)
    if "K" in line.own or _says(script, "-K"):
        print("<<Waiting for dispatch ...>>", flush=True)
        status = exit_code_of(job, client)
        print("<<Job is finished>>")
        return status
    return 0


def read_bsub(argv: "Sequence[str]") -> BsubLine:
    """Return a command line read.

    Raises:  ProgramRefusal for an unknown option.
    """
    line, left = BsubLine(), list(argv)
    while left and left[0].startswith("-") and len(left[0]) > 1:
        name, glued = left.pop(0)[1:], ""
        if name not in OPTIONS and name[0] in OPTIONS and OPTIONS[name[0]].takes == "always":
            name, glued = name[0], name[1:]
        if name not in OPTIONS:
            raise ProgramRefusal(
                f"{name[:60]}: Illegal option", _NOT_SUBMITTED, status=NOT_DONE, prefix="bare"
            )
        if name in OF_THE_PROGRAM:
            line.own.add(name)
            continue
        line.options.append(f"-{name}")
        if OPTIONS[name].takes == "always":
            if not glued and not left:
                raise ProgramRefusal(f"-{name} has no value", _NOT_SUBMITTED, status=NOT_DONE, prefix="bare")
            line.options.append(glued or left.pop(0))
    line.words = left
    return line


_NOT_SUBMITTED = "Job not submitted."


def _script(line: BsubLine) -> "tuple[str, list[str]]":
    """Return the script, and its name and arguments: a file with ``#BSUB`` lines, or else a command line."""
    if not line.words:
        text = script_at("-")
        if not text.strip():
            raise ProgramRefusal(
                "No command is specified. Job not submitted.", status=NOT_DONE, prefix="bare"
            )
        return text, ["script"]
    path = line.words[0]
    if _says(_beginning_of(path), ""):
        return script_at(path), list(line.words)
    if len(line.words) == 1:
        program = (path.split() or [""])[0].rstrip(";|&")
        return f"#!/bin/sh\n{path}\n", [os.path.basename(program) or "script"]  # noqa: PTH119
    command = " ".join(word if word in _OPERATORS else quoted_line([word]) for word in line.words)
    return f"#!/bin/sh\n{command}\n", [os.path.basename(path)]  # noqa: PTH119


def _beginning_of(path: str) -> str:
    """Return the beginning of a file that may be a script; empty if there is none."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113 (pathlib costs 6 ms)
            return ""
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(_BEGINNING).decode("utf-8", "replace")
    except OSError:
        return ""


def _says(script: str, option: str) -> bool:
    """Return whether a ``#BSUB`` line has an option; empty: whether there is such a line."""
    lines = [line.split() for line in script.splitlines() if line.startswith("#BSUB")]
    return any(words[:1] == ["#BSUB"] and (not option or option in words) for words in lines)


def in_words_of_lsf(queue: str, refused: "HeadnodeError") -> ProgramRefusal:
    """Return the refusal of a job for a queue as bsub says it."""
    what = f"{queue}: No such queue" if refused.code == "no-such-template" else refused.what
    sentences = [each.rstrip(".") for each in (what, refused.fix) if each]
    return ProgramRefusal(f"{'; '.join(sentences)}. {_NOT_SUBMITTED}", status=NOT_DONE, prefix="bare")


def _print_submitted(job: int, queue: str) -> None:
    """Tell the number of the job and its queue, as programs look for them."""
    kind = "queue" if queue else "default queue"
    print(f"Job <{job}> is submitted to {kind} <{queue or USUAL_QUEUE}>.", flush=True)


def _queue_in(script: str) -> str:
    for line in script.splitlines():
        words = line.split()
        if words[:1] == ["#BSUB"] and "-q" in words[:-1]:
            return words[words.index("-q") + 1].strip("\"'")
    return ""


def _converse(job: int, client: Client, *, terminal: bool) -> int:
    """Pass the streams of an interactive job on; return its exit code."""
    from headnode.apps.cli.commands.job_shell import (
        TerminalClosed,
        canceled_on_failure,
        join_terminal,
        terminal_size,
    )

    rows, columns, kind = terminal_size() if terminal else (0, 0, "")
    with canceled_on_failure(client, job):
        conversation = client.begin("shell", rows=rows, columns=columns, kind=kind, job=job)
        sys.stderr.write("<<Waiting for dispatch ...>>\n")
        try:
            while True:
                answer = conversation.receive()
                if "node" in answer:
                    sys.stderr.write(f"<<Starting on {answer['node']}>>\n")
                    answer = join_terminal(conversation, notices=terminal)
                elif not answer.get("done"):
                    continue
                if answer["problem"]:
                    raise ProgramRefusal(str(answer["problem"]), status=int(answer["exit"]) or 1)
                return int(answer["exit"])
        except (
            TerminalClosed
        ) as left:  # by a signal, or from the keyboard: the program ends with the connection
            return left.status
        finally:
            conversation.close()
