"""What a submit file asks for one process, collected; and the task that follows.

Texts in a draft may have signs for the number of the process and the id of the job, see `macros`.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.macros import JOB_ID, PROCESS_SIGN, OneByOne, swept_number, without_signs
from headnode.core.formats.grid.command_lines import join
from headnode.core.formats.text.source_text import SourceText
from headnode.core.model.bounds import SWEEP
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.staging import NEW_FILES, file_url, is_url
from headnode.core.model.task import StagedFile, TaskSpec, TaskType
from headnode.core.model.variable_names import PERCENT, names_a_variable

_SIGN = re.compile(f"(\ud800[^\ud801]*\ud801|{JOB_ID})")
_STARS = re.compile(r"[*^]")
_OURS: Final = "%CCP_JOBID%"

USER_LOG: Final = "UserLog"
"""The property of a task with the path of its event log."""
LEAVE_IN_QUEUE: Final = "LeaveJobInQueue"
"""The property of a job with the expression under which condor_q shows it after its end."""

DOES_TRANSFER: Final = {"YES": True, "NO": False, "IF_NEEDED": None}


class SubmitDraft:
    """What the commands said so far; the last word on a command holds."""

    def __init__(self, directory: str, shell: Mapping[str, str]) -> None:
        self.directory = directory  # where the file is submitted; "" if the nodes do not have it
        self.shell = shell  # variables of the submitter
        self.job: dict[str, Any] = {}  # fields of the job
        self.properties: dict[str, str] = {}  # of the job
        self.task: dict[str, Any] = {"rerunnable": True}  # of the task
        self.needs: dict[str, Any] = {}  # of every node
        self.executable = ""
        self.arguments: list[str] = []
        self.variables: dict[str, str] = {}
        self.shell_variables: dict[str, str] = {}  # of the submitter
        self.initial_directory = ""
        self.log = ""
        self.streams = {"standard_input": "", "standard_output": "", "standard_error": ""}
        self.processors = 1
        self.gpus = 0
        self.memory = 0  # MB of the process
        self.disk = 0  # MB of the process
        self.at_once: int | None = None  # processes
        self.is_parallel = False  # universe
        self.machine_count = 1
        self.waits_for_all = False  # a parallel job ends with the last of its processes
        self.transfers: bool | None = None  # None: if files are listed
        self.brings_program = True
        self.inputs: list[str] = []
        self.outputs: list[str] | None = None
        self.output_names: dict[str, str] = {}
        self.output_base = ""  # URL
        self.licences: list[tuple[str, int]] = []
        self.run_times: dict[str, float] = {}  # by command
        self.priority = 0
        self.is_nice = False
        self.retries: int | None = None  # by max_retries
        self.starts: int | None = None  # by on_exit_remove
        self.success = 0  # exit code
        self.until: int | None = None  # exit code after which it is not tried again
        self.core_size: int | None = None  # bytes
        self.holds_on_failure: OptionPlace | None = None
        self.released_starts: int | None = None
        self.places: dict[str, OptionPlace] = {}  # of the commands that were read

    def copy(self) -> "SubmitDraft":
        """Return a draft that goes on from here."""
        other = SubmitDraft(self.directory, self.shell)
        other.__dict__ |= {
            name: value.copy() if name != "shell" and isinstance(value, dict | list) else value
            for name, value in self.__dict__.items()
        }
        return other

    @property
    def units(self) -> int:
        """The size of a process in the unit of its job: GPUs if it has any, else processors."""
        return self.gpus or self.processors

    @property
    def machines(self) -> int | None:
        """The number of processes that start together; None: it is not the parallel universe."""
        return self.machine_count if self.is_parallel else None

    @property
    def is_staged(self) -> bool:
        """Whether the process runs in a directory of its own, with files that are brought and taken away."""
        if self.transfers is None:
            return bool(self.inputs or self.outputs or self.output_base)
        return self.transfers

    @property
    def run_time(self) -> Seconds:
        """The run time limit of the process."""
        return Seconds(min(self.run_times.values(), default=FOREVER))


class TaskMaker:
    """Makes the tasks of drafts."""

    def __init__(self, source: SourceText, swept: range | None = None) -> None:
        """`swept` are the numbers of the processes of a sweep; None: a task of its own."""
        self._source, self._swept = source, swept
        self._line: tuple[int, int] | None = None  # factor and offset of the numbers that were put in

    def task(self, draft: SubmitDraft) -> TaskSpec:
        """Return the task of a draft.

        Raises:  BadRequest ``executable``, ``transfer``, ``value``; OneByOne if it is no sweep.
        """
        if not draft.executable:
            start = max((place.start for place in draft.places.values()), default=0)
            fix = "write executable = PROGRAM before queue"
            self._source.refuse(start, "executable", "no executable is named", fix)
        base = self._directory(draft)
        staged = self._staged(draft, base) if draft.is_staged else {}
        program = self._program(draft, staged=bool(staged))
        fields: dict[str, Any] = {
            field: self._path(draft, field, posixpath.join(base, text) if base else text)
            for field, text in draft.streams.items()
            if text
        }
        if draft.log and draft.log != "/dev/null":
            log = posixpath.join(base, draft.log) if base else draft.log
            fields["properties"] = {USER_LOG: self._path(draft, "log", log)}
        command = self._text(join([program, *draft.arguments]))
        directory = "" if staged else self._path(draft, "initialdir", base)
        return TaskSpec(
            **draft.task,
            **staged,
            **fields,
            **self._range(),
            command=command,
            work_directory=directory,
            minimum=draft.units,
            maximum=draft.units,
            run_time=draft.run_time,
            environment={**draft.shell_variables, **draft.variables},
        )

    def _range(self) -> dict[str, Any]:
        """Return the values of the sweep, when all texts have been read."""
        if self._swept is None:
            return {}
        factor, offset = self._line or (1, 0)
        first, last = (number * factor + offset for number in (self._swept[0], self._swept[-1]))
        if first < 0 or last > SWEEP.most:
            raise OneByOne
        return {"kind": TaskType.SWEEP, "start": first, "end": last, "increment": factor}

    def _directory(self, draft: SubmitDraft) -> str:
        """Return the initial directory of the process; "" if it is not known."""
        found = posixpath.join(draft.directory, draft.initial_directory)
        return posixpath.normpath(found) if found else ""

    def _program(self, draft: SubmitDraft, *, staged: bool) -> str:
        if not draft.brings_program:
            return draft.executable
        path = posixpath.join(draft.directory, draft.executable)
        if staged:
            return self._url(draft, "executable", path)
        return path if "/" in path else f"./{path}"

    def _staged(self, draft: SubmitDraft, base: str) -> dict[str, Any]:
        outputs = [NEW_FILES] if draft.outputs is None else draft.outputs
        if draft.outputs is None and draft.output_names:
            what = "only files that are named get other names"
            fix = "name them in transfer_output_files, too"
            draft.places["transfer_output_remaps"].refuse(what, fix, "transfer")
        found: dict[str, Any] = {
            "stage_in": tuple(self._brought(draft, base, name) for name in draft.inputs),
            "stage_out": tuple(self._taken(draft, base, name) for name in outputs),
        }
        if not draft.inputs and not outputs and not draft.brings_program:
            found["private_directory"] = True
        return found

    def _brought(self, draft: SubmitDraft, base: str, name: str) -> StagedFile:
        url = self._url(draft, "transfer_input_files", name if is_url(name) else posixpath.join(base, name))
        path = "./" if name.endswith("/") else posixpath.basename(name.partition("?")[0])
        self._refuse_names(draft, "transfer_input_files", name)
        return StagedFile(self._text(path), self._text(url))

    def _taken(self, draft: SubmitDraft, base: str, name: str) -> StagedFile:
        target = draft.output_names.get(name) or posixpath.basename(name)
        if name.endswith("/"):  # its contents go to the directory
            target = ""
        if is_url(target):
            url = target
        elif draft.output_base:
            url = f"{draft.output_base.rstrip('/')}/{target}"
        else:
            url = self._url(draft, "executable", posixpath.join(base, target))
        self._refuse_names(draft, "transfer_output_files", f"{name} {target} {draft.output_base}")
        return StagedFile(self._text(name), self._text(url))

    @staticmethod
    def _refuse_names(draft: SubmitDraft, command: str, text: str) -> None:
        """Refuse a name between percent signs, which would be replaced where files are staged."""
        if PERCENT.search(text):
            what = f"in {without_signs(text)[:80]!r} a name would be replaced by a variable of the task"
            at = draft.places.get(command) or draft.places["executable"]
            at.refuse(what, "use names of files without %NAME%")

    def _url(self, draft: SubmitDraft, command: str, path: str) -> str:
        """Return the URL of a path, with the signs in it as they are."""
        if is_url(path):
            return path
        if not path.startswith("/"):
            what = f"{without_signs(path)[:80]!r} is to be copied, and the nodes do not know where"
            fix = "submit on the head's machine, or write absolute paths or URLs"
            draft.places[command].refuse(what, fix, "transfer")
        parts = (part if _SIGN.fullmatch(part) else file_url(part)[len("file://") :] for part in _split(path))
        return "file://" + "".join(parts)

    def _path(self, draft: SubmitDraft, command: str, path: str) -> str:
        """Return a path as Headnode expands it.

        Raises:  BadRequest ``value`` for one in which it would expand more.
        """
        if names_a_variable(path):
            at = draft.places.get(_COMMANDS_OF.get(command, command)) or next(iter(draft.places.values()))
            what = f"in {without_signs(path)[:80]!r} a name would be replaced by a variable of the task"
            at.refuse(what, "use names of files without $NAME and %NAME%")
        return self._text(path)

    def _text(self, text: str) -> str:
        """Return a text with what stands here for the signs in it: stars, and the variable of the job's id.

        Raises:  OneByOne if stars would run into each other.
        """
        if self._swept is None:
            return text.replace(JOB_ID, _OURS)
        parts = _split(text)
        numbers = [swept_number(part) for part in parts]
        for one, other in pairwise(numbers):
            if one and other:
                raise OneByOne
        for one in filter(None, numbers):
            if not one.digits or (self._line and self._line != one[1:]):
                raise OneByOne
            self._line = one[1:]
        return "".join(
            "*" * one.digits if one else _STARS.sub(r"^\g<0>", part)
            for part, one in zip(parts, numbers, strict=True)
        ).replace(JOB_ID, _OURS)


_COMMANDS_OF: Final = {"standard_input": "input", "standard_output": "output", "standard_error": "error"}


def _split(text: str) -> Sequence[str]:
    return [part for part in _SIGN.split(text) if part]


def name_of(executable: str) -> str:
    """Return the name of a job without one: that of its program."""
    return PROCESS_SIGN.sub("", posixpath.basename(executable)).replace(JOB_ID, "")
