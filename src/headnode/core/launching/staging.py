"""Where the files of an instance are on its node: its transfers with the paths that its program sees.

Only agents import this, for tasks that stage files."""

import posixpath
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from headnode.core.launching.expansion import expand_percent
from headnode.core.model.job import JobSpec
from headnode.core.model.staging import (
    NEW_FILES,
    STREAMS,
    FileTransfer,
    TransferDirection,
    attempts_of,
    transfers_of,
    unquoted,
)
from headnode.core.model.task import TaskSpec, program_url

_HIDDEN = {key: f".headnode-{key}" for key in STREAMS}
"""The files in the scratch directory that stand for standard streams which are URLs."""


def staged_transfers(
    spec: JobSpec, task: TaskSpec, instance: int, variables: Mapping[str, str]
) -> tuple[FileTransfer, ...]:
    """Return the transfers of an instance with their paths below its scratch directory."""
    return tuple(_placed(one, variables) for one in transfers_of(spec, task, instance))


def _placed(one: FileTransfer, variables: Mapping[str, str]) -> FileTransfer:
    url = expand_percent(one.url, variables)
    path = expand_percent(one.path, variables)
    if one.stream:
        path = _HIDDEN.get(one.path) or _program_name(url)
    return msgspec.structs.replace(one, path=path, url=url)


def _program_name(url: str) -> str:
    name = unquoted(posixpath.basename(url.partition("?")[0].partition("#")[0]))
    return "program" if name in ("", ".", "..") or "/" in name or "\0" in name else name


def staged_command(command: str, transfers: tuple[FileTransfer, ...]) -> str:
    """Return a command line whose program is the one that was brought."""
    url = program_url(command)
    brought = [one for one in transfers if one.stream and one.path not in _HIDDEN.values()]
    if not url or not brought:
        return command
    written = next(each for each in (shlex.quote(url), f'"{url}"', url) if each in command)
    return command.replace(written, shlex.quote(f"./{brought[0].path}"), 1)


def staged_stream(key: str, work_directory: str) -> str:
    """Return the file that stands for a standard stream which is a URL."""
    return posixpath.join(work_directory, _HIDDEN[key])


def transfer_plan(
    spec: JobSpec, task: TaskSpec, transfers: tuple[FileTransfer, ...], **how: Any
) -> dict[str, Any]:
    """Return what a shepherd is told of the transfers of an attempt; `how` is told to each process."""
    plan: dict[str, Any] = {"attempts": attempts_of(spec, task), **how, "in": [], "out": []}
    if any(one.path == NEW_FILES and one.direction is TransferDirection.OUT for one in transfers):
        plan["notes"] = True
    for one in transfers:
        way = "in" if one.direction is TransferDirection.IN else "out"
        file = {"path": one.path, "url": one.url, "directory": one.directory, "mode": one.mode}
        plan[way].append(file | {"size": one.size, "checksum": one.checksum, "credential": one.credential})
    return plan
