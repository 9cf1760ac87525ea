"""What was typed, as the terms the head reads: names of options and their text.

Source:  docs/contracts/01-local-protocol.md, "Terms".
"""

import os

from headnode.apps.cli.terms import JOB_OPTIONS, TASK_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from headnode.apps.cli.options import Asked, Option

SIZES = ("numprocessors", "numnodes", "numsockets")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_^")


def job_terms(asked: "Asked") -> "dict[str, str]":
    """Return the terms of the job.

    Raises:  BadRequest ``usage`` for a time with two readings.
    """
    _check_run_time(asked)
    for name in ("holduntil", "endby"):
        if not asked.hpc_pack and "/" in (asked.text(name) or ""):
            from headnode.apps.cli.typed_times import refuse_two_dates

            refuse_two_dates(asked.options[name][-1])
    return {option.name: ";".join(asked.options[option.name]) for option in _given(asked, JOB_OPTIONS)}


def _check_run_time(asked: "Asked") -> None:
    if asked.hpc_pack or ":" not in (asked.text("runtime") or ""):
        return
    from headnode.apps.cli.typed_times import refuse_two_readings

    refuse_two_readings(asked.options["runtime"][-1])


def task_terms(asked: "Asked", words: "Sequence[str]") -> "dict[str, Any]":
    """Return the terms of a task that runs the program `words`.

    Raises:  BadRequest ``usage`` for a run time with two readings.
    """
    _check_run_time(asked)
    terms: dict[str, Any] = {
        option.name: asked.options[option.name][-1]
        for option in _given(asked, TASK_OPTIONS)
        if option.name != "env"
    }
    terms["command"] = command_line(words)
    if "env" in asked.options:
        terms["env"] = environment(asked.options["env"], os.environ)
    return terms


def changed_terms(asked: "Asked") -> "dict[str, Any]":
    """Return the terms of a task that are to change.

    Raises:  BadRequest ``usage`` for a run time with two readings.
    """
    terms = task_terms(asked, [""])
    del terms["command"]
    return terms


def only_task_terms(asked: "Asked", words: "Sequence[str]") -> "dict[str, Any]":
    """Return the terms of the only task of a job, where one option may speak of both.

    Sizes count for the job and its task, so that ``/numprocessors:4`` gives the program four; the instances
    of a sweep take one each, and so do those of a service.  All else that both could have is the job's.
    """
    several = "parametric" in asked.options or (asked.text("type") or "").casefold() not in ("", "basic")
    for_both = () if several else SIZES
    jobs = {option.name for option in JOB_OPTIONS}
    terms = task_terms(asked, words)
    return {
        name: value
        for name, value in terms.items()
        if name not in jobs or (name in for_both and "*" not in value)
    }


def command_line(words: "Sequence[str]") -> str:
    """Return the words of a program as one command line.

    A single word is a command line already, as in ``hn job submit "echo a b"``; several are quoted where
    they need it, so that the program gets them as they were typed and no shell on the way changes them.

    >>> command_line(["echo", "a b", "*"]), command_line(["echo a b"])
    ("echo 'a b' '*'", 'echo a b')
    """
    return words[0] if len(words) == 1 else " ".join(map(_quoted, words))


def environment(texts: "Sequence[str]", mine: "Mapping[str, str]") -> "dict[str, str]":
    """Read ``n=v;n=v``, given once or several times; a piece without ``=`` belongs to the value before it.

    A text that begins with a name alone takes its value from `mine`, the variables of the submitter.
    Raises:  BadRequest ``usage`` when a name is missing, or a variable that is to be taken.

    >>> environment(["A=1;B=x;y", "C=", "D"], {"D": "4"})
    {'A': '1', 'B': 'x;y', 'C': '', 'D': '4'}
    """
    values: dict[str, str] = {}
    for text in texts:
        name = ""
        for piece in text.split(";"):
            before, equals, after = piece.partition("=")
            if equals and before:
                name = before
                values[name] = after
            elif name and not equals:
                values[name] += f";{piece}"
            elif piece and not equals:
                values[piece] = _taken(piece, mine)
            else:
                raise _no_variable(text)
    return values


def _given(asked: "Asked", options: "Sequence[Option]") -> "list[Option]":
    return [option for option in options if option.name in asked.options]


def _quoted(word: str) -> str:
    if word and set(word) <= _PLAIN:
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _taken(name: str, mine: "Mapping[str, str]") -> str:
    if name not in mine:
        from headnode.apps.cli.options import usage

        raise usage(f"there is no variable {name!r} here", f"set and export it, or write {name}=VALUE")
    return mine[name]


def _no_variable(text: str) -> "Exception":
    from headnode.apps.cli.options import usage

    return usage(f"environment {text!r} is not understood", "write NAME=VALUE, or NAME=VALUE;NAME=VALUE")
