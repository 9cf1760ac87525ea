"""What node filters read and write: a task as JSON, and the changes they make to it.

Source: HPC Pack, execution filters of the Linux node manager."""

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from headnode.core.launching.environment import SHEPHERD_MARKER, TASK_MARKER
from headnode.core.launching.recipe import Recipe
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import JobId
from headnode.core.model.task import SHELL, argv_of

JOB_TASK_START, TASK_START, JOB_END = "OnJobTaskStart", "OnTaskStart", "OnJobEnd"
"""Before the first task of a job on a node, before each later one, and when the job leaves the node."""

FILTERS = (JOB_TASK_START, TASK_START, JOB_END)
_EXIT_CODES = {191: "the download of its input files failed", 192: "the upload of its output files failed"}
_WORD = 64  # bits of a number of `affinity`
_FILES = ("stdin", "stdout", "stderr")
_OURS = (TASK_MARKER, SHEPHERD_MARKER)  # by these a task is found again; no filter may take them away


class NodeFilterResult(msgspec.Struct, frozen=True):
    """A task as changed by its node filter; `processors` by the machine's numbers, empty: not bound."""

    recipe: Recipe
    processors: tuple[int, ...]


class NodeFilterInput(msgspec.Struct, frozen=True):
    """The input of a node filter: the attempt, its recipe, its user and its processors."""

    job: JobId
    task: int
    attempt: int
    user: str
    recipe: Recipe
    processors: tuple[int, ...]
    held: tuple[int, ...]  # the numbers of the node's processors that the task has


def question_at_start(filter_input: NodeFilterInput) -> str:
    """Return what a filter reads."""
    recipe = filter_input.recipe
    return _encoded(
        {
            "m_Item1": {"JobId": filter_input.job, "TaskId": filter_input.task, "ResIds": filter_input.held},
            "m_Item2": {
                "commandLine": command_line(recipe.argv),
                "stdin": recipe.stdin,
                "stdout": recipe.stdout,
                "stderr": recipe.stderr,
                "workingDirectory": recipe.work_directory,
                "environmentVariables": recipe.environment,
                "affinity": affinity(filter_input.processors),
                "taskRequeueCount": max(0, filter_input.attempt - 1),
                "inputFiles": "",
                "outputFiles": "",
            },
            "m_Item3": filter_input.user,
        }
    )


def question_at_end(job: JobId, user: str) -> str:
    """Return what the filter reads that is called when a job leaves a node."""
    return _encoded({"m_Item1": {"JobId": job, "TaskId": 0, "ResIds": []}, "m_Item2": {}, "m_Item3": user})


def _encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


def why_exit(code: int) -> str:
    """Return what an exit code of a filter says, if it says something that is agreed upon."""
    return _EXIT_CODES.get(code, "")


def apply_answer(filter_input: NodeFilterInput, answer: bytes) -> NodeFilterResult:
    """Return the task as a filter's answer has it; what the answer leaves out stays as it was.

    Raises:  BadRequest ``node-filter``, saying what is wrong with the answer.
    """
    start = _start_of(filter_input, answer)
    recipe = filter_input.recipe
    directory = _text(start, "workingDirectory", recipe.work_directory)
    if directory != recipe.work_directory:
        if recipe.private:
            raise _wrong("changes the work directory of a task that has one of its own")
        directory = posixpath.normpath(posixpath.join(recipe.work_directory, directory))
    files = {name: _path(start, name, getattr(recipe, name), directory) for name in _FILES}
    before = command_line(recipe.argv)
    command = _text(start, "commandLine", before)
    changed = replace(
        recipe,
        argv=recipe.argv if command == before else argv_of(command),
        environment=_environment(start, recipe.environment),
        work_directory=directory,
        **files,
    )
    return NodeFilterResult(changed, _processors(start, filter_input.processors))


def _start_of(filter_input: NodeFilterInput, answer: bytes) -> Mapping[str, Any]:
    """Return what an answer says of how to start the task."""
    try:
        said = msgspec.json.decode(answer)
    except UNREADABLE as error:
        raise _wrong(f"writes text that is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise _wrong("writes JSON that is not an object")
    user = said.get("m_Item3")
    if user not in (None, filter_input.user):
        raise _wrong(f"changes the user from {filter_input.user!r} to {user!r}, which no filter may")
    start = said.get("m_Item2")
    if not isinstance(start, dict):
        raise _wrong("writes JSON without the object m_Item2")
    return start


def _text(start: Mapping[str, Any], name: str, before: str) -> str:
    value = start.get(name)
    if value is None:
        return before
    if not isinstance(value, str):
        raise _wrong(f"writes {name} that is not text")
    return value


def _path(start: Mapping[str, Any], name: str, before: str, directory: str) -> str:
    value = _text(start, name, before)
    return posixpath.normpath(posixpath.join(directory, value)) if value else ""


def _environment(start: Mapping[str, Any], before: Mapping[str, str]) -> dict[str, str]:
    value = start.get("environmentVariables")
    if value is None:
        return dict(before)
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise _wrong("writes environmentVariables that are not names with texts")
    wrong = next((name for name in value if not name or "=" in name), None)
    if wrong is not None:
        raise _wrong(f"writes an environment variable with the name {wrong!r}")
    return {**value, **{name: before[name] for name in _OURS if name in before}}


def _processors(start: Mapping[str, Any], before: tuple[int, ...]) -> tuple[int, ...]:
    value = start.get("affinity")
    if value is None or value == affinity(before):
        return before
    limit = 1 << _WORD
    if not isinstance(value, list) or not all(
        type(word) is int and -limit // 2 <= word < limit for word in value
    ):
        raise _wrong("writes affinity that is not a list of 64-bit numbers")
    return tuple(at * _WORD + bit for at, word in enumerate(value) for bit in range(_WORD) if word >> bit & 1)


def affinity(processors: Sequence[int]) -> list[int]:
    """Return processors as bits of signed numbers, 64 in each; none for a task that is not bound.

    >>> affinity((0, 2)), affinity((63, 64)), affinity(())
    ([5], [-9223372036854775808, 1], [])
    """
    masks = [0] * (max(processors, default=-1) // _WORD + 1)
    for processor in processors:
        masks[processor // _WORD] |= 1 << processor % _WORD
    return [word - (1 << _WORD) if word >> (_WORD - 1) else word for word in masks]


def command_line(argv: Sequence[str]) -> str:
    """Return a command line that runs these words.

    >>> command_line(("/bin/sh", "-c", "a | b")), command_line(("prog", "one two"))
    ('a | b', "prog 'one two'")
    """
    if len(argv) == 3 and tuple(argv[:2]) == (SHELL, "-c"):
        return argv[2]
    return shlex.join(argv)


def _wrong(what: str) -> BadRequest:
    return BadRequest(code="node-filter", what=what, fix="correct the filter")
