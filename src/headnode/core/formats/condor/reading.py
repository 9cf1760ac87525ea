"""Read a submit file as jobs: each queue command becomes a sweep, or tasks.

Processes that ask for the same are tasks of one job; others are jobs of their own.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.command_reading import CommandPlace, SubmitCommand
from headnode.core.formats.condor.draft import SubmitDraft, TaskMaker
from headnode.core.formats.condor.evaluation import calculated
from headnode.core.formats.condor.jobs import JobMaker, QueuedProcess
from headnode.core.formats.condor.macros import JOB_ID, PROCESS_SIGN, OneByOne, ReadingBudget, SweptNumber
from headnode.core.formats.condor.other_commands import (
    ALIASES,
    command_named,
    read_attribute,
    refuse_misspelt,
)
from headnode.core.formats.condor.statements import QueueCommand, SubmitStatements, spend_tasks
from headnode.core.formats.fidelity import Awareness, Fidelity, FidelityReport, ReportItem, apply_awareness
from headnode.core.formats.text.source_text import SourceText, decode
from headnode.core.model.bounds import INSTANCES
from headnode.core.model.errors import BadRequest, Path, TextPosition
from headnode.core.model.job import JobSpec
from headnode.core.model.task import ScriptOrigin

_UNKNOWN = ScriptOrigin()
_NO_FILES: Final[Mapping[str, bytes]] = {}
_WORD_COST: Final = 4  # characters that an argument or a variable of a task counts as, beside its own
_MAX_UNUSED: Final = 100  # values that nothing uses, each compared with the names of commands
_JOB_NAMES: Final = dict.fromkeys(("cluster", "clusterid"), JOB_ID)
_MAY_BE_EMPTY: Final = frozenset({"transfer_input_files", "transfer_output_files", "arguments"})


def place_of(_data: bytes | str, _path: Path) -> TextPosition:
    """Return the beginning: the processes of a submit file have no places of their own."""
    return TextPosition(1, 0)


def items_named(
    data: bytes | str, origin: ScriptOrigin = _UNKNOWN, budget: ReadingBudget | None = None
) -> tuple[str, ...]:
    """Return the files that queue commands take items from, and their patterns, as `read_submit` wants them.

    Of a file that cannot be read those before the fault.
    """
    found: dict[str, None] = {}
    try:
        for queue in SubmitStatements(SourceText(decode(data)), origin, budget or ReadingBudget()).queues():
            if queue.source is not None:
                found[queue.source.key] = None
    except BadRequest:
        pass
    return tuple(found)


def read_submit(
    data: bytes | str,
    origin: ScriptOrigin = _UNKNOWN,
    files: Mapping[str, bytes] = _NO_FILES,
    *,
    awareness: Awareness = Awareness.WARN,
) -> tuple[tuple[JobSpec, ...], FidelityReport]:
    """Return the jobs that a submit file describes, and what became of its commands.

    files:  the items of queue commands, by `items_named`
    Raises:  BadRequest with line and column: ``statement``, ``condition``, ``queue``, ``queue-file``,
             ``macro``, ``value``, ``command``, ``not-supported``, ``executable``, ``transfer``,
             ``too-many-tasks``, ``too-large``; ``not-understood`` under awareness policy Reject.
    """
    jobs, report = read_node(data, origin, files, {}, ReadingBudget())
    return jobs, apply_awareness(awareness, report)


def read_node(
    data: bytes | str,
    origin: ScriptOrigin,
    files: Mapping[str, bytes],
    variables: Mapping[str, str],
    budget: ReadingBudget,
) -> tuple[tuple[JobSpec, ...], FidelityReport]:
    """Return the jobs of a node of a flow, which gives values to macros and commands of its submit file.

    Raises:  as `read_submit`.
    """
    reader = _Reader(SourceText(decode(data)), origin, files, budget)
    for name, value in variables.items():
        is_command = name.startswith("+") or command_named(name.lower()) is not None
        reader.statements.define(name, value, is_command=is_command)
    for queue in reader.statements.queues():
        reader.read_queue(queue)
    reader.end()
    jobs = JobMaker(reader.processes, reader.items).jobs()
    return jobs, tuple(reader.items.values())


class _Reader:
    """Reads the processes of a file."""

    def __init__(
        self, source: SourceText, origin: ScriptOrigin, files: Mapping[str, bytes], budget: ReadingBudget
    ) -> None:
        self.statements, self._budget = SubmitStatements(source, origin, budget), budget
        self.items: dict[str, ReportItem] = {}  # by what they are about
        self.processes: list[QueuedProcess] = []
        self._source, self._origin, self._files = source, origin, files
        self._number = 0  # of the next process
        self._start = 0  # of the queue command

    def read_queue(self, queue: QueueCommand) -> None:
        """Read the processes of a queue command.

        Raises:  BadRequest.
        """
        items = self._items(queue)
        rows: Sequence[Sequence[str]] = [()] if items is None else [_fields(queue, item) for item in items]
        total = self._number + queue.times * len(rows)
        if total > INSTANCES.most:
            what = f"the file has {total:,} processes; the limit is {INSTANCES}"
            self._source.refuse(queue.start, "too-many-tasks", what, "divide it into several files")
        self._start = queue.start
        fixed = self._drafted({}, fixed=True)
        for index, row in enumerate(rows if queue.times else ()):
            live = {"itemindex": str(index), "row": str(index), "item": ""}
            live |= {name.lower(): "" for name in queue.variables}
            live |= {name.lower(): text for name, text in zip(queue.variables, row, strict=False)}
            self._read_row(queue, live, fixed)

    def end(self) -> None:
        """Report values that nothing uses.

        Raises:  BadRequest ``queue`` for a file without processes, ``command`` for a misspelt command.
        """
        if not self.processes:
            what = "no line of the file queues a process"
            self._source.refuse(0, "queue", what, "write a line: queue; a list of items must not be empty")
        for text, start in self.statements.warnings:
            self._place("warning", start).report(Fidelity.NOTE, text[:200])
        unused = [
            (self._place(spelling, start), name)
            for name, (spelling, _, start) in self.statements.commands.items()
            if name not in self.statements.macros.used
            and not name.startswith("+")
            and command_named(name) is None
        ]
        for place, name in unused[:_MAX_UNUSED]:
            refuse_misspelt(place, name)
        if len(unused) > _MAX_UNUSED:
            more = f"{len(unused) - _MAX_UNUSED} more values that nothing uses"
            self.items["document"] = ReportItem(Fidelity.NOTE, "document", more)

    def _items(self, queue: QueueCommand) -> Sequence[str] | None:
        if queue.source is None:
            return None if queue.items is None else queue.chosen_of(queue.items)
        data = self._files.get(queue.source.key)
        if data is None:
            what = f"the file {queue.source.key[:80]!r} with the items of queue is missing"
            fix = "submit it in the directory of that file, or write the items here: queue x in (a b)"
            self._source.refuse(queue.start, "queue-file", what, fix)
        lines = [line.strip() for line in decode(data).splitlines()]
        return queue.chosen_of([line for line in lines if line and not line.startswith("#")])

    def _read_row(self, queue: QueueCommand, live: dict[str, str], fixed: SubmitDraft) -> None:
        """Read the processes for one item: as a sweep if they differ by their number alone."""
        numbers = range(self._number, self._number + queue.times)
        self._number += queue.times
        if fixed.machines is not None:
            for step, number in enumerate(numbers):
                self._read_gang({**live, **_numbered(number, step)}, fixed, number)
            return
        if queue.times > 1 and self._is_sweep(numbers, live, fixed):
            return
        spend_tasks(self.statements, self._budget, queue.times, queue.start)
        for step, number in enumerate(numbers):
            draft = self._drafted({**live, **_numbered(number, step)}, fixed=False, base=fixed)
            self._keep(draft, TaskMaker(self._source), number)

    def _is_sweep(self, numbers: range, live: Mapping[str, str], fixed: SubmitDraft) -> bool:
        before = self.items.copy()
        try:
            draft = self._drafted({**live, **_swept(numbers)}, fixed=False, base=fixed)
            if draft.units == 1:  # an instance of a sweep may have its processors on several nodes
                self._keep(draft, TaskMaker(self._source, numbers), numbers[0])
                return True
        except OneByOne:
            pass
        self.items.clear()
        self.items.update(before)
        return False

    def _read_gang(self, live: Mapping[str, str], fixed: SubmitDraft, number: int) -> None:
        """Read a process of the parallel universe: so many of its program start together."""
        machines = fixed.machines or 1
        try:
            draft = self._drafted({**live, "node": str(SweptNumber())}, fixed=False, base=fixed)
            if draft.units > 1:
                raise OneByOne
            tasks = [TaskMaker(self._source, range(machines)).task(draft)]
        except OneByOne:
            spend_tasks(self.statements, self._budget, machines, draft_start(fixed))
            tasks = []
            for node in range(machines):
                draft = self._drafted({**live, "node": str(node)}, fixed=False, base=fixed)
                tasks.append(TaskMaker(self._source).task(draft))
        self.processes += (QueuedProcess(draft, task, node, number) for node, task in enumerate(tasks))

    def _keep(self, draft: SubmitDraft, maker: TaskMaker, number: int) -> None:
        if draft.machines is not None:
            draft.places["universe"].refuse("it depends on the process", "write it without macros")
        variables = len(draft.variables) + len(draft.shell_variables)
        words = sum(map(len, draft.arguments)) + _WORD_COST * (len(draft.arguments) + variables)
        self.statements.macros.spend(words, draft_start(draft))
        self.processes.append(QueuedProcess(draft, maker.task(draft), number))

    def _drafted(
        self, live: Mapping[str, str], *, fixed: bool, base: SubmitDraft | None = None
    ) -> SubmitDraft:
        """Return what the commands say: those without macros (`fixed`), or the others on top of `base`."""
        draft = base.copy() if base else SubmitDraft(self._origin.directory, self._origin.environment)
        values = {} if fixed else self._given(live)
        for name, (spelling, text, start) in (self.statements.commands | values).items():
            if name not in values and ("$" in text) is fixed:
                continue
            known = command_named(name)
            if known is not None or name.startswith("+"):
                self._read_command(draft, known, (spelling, text, start), live)
        return draft

    def _given(self, live: Mapping[str, str]) -> dict[str, tuple[str, str, int]]:
        """Return the commands that are variables of the queue command: ``queue arguments from FILE``."""
        return {
            name: (name, text, self._start) for name, text in live.items() if command_named(name) is not None
        }

    def _read_command(
        self,
        draft: SubmitDraft,
        known: tuple[str, SubmitCommand] | None,
        statement: tuple[str, str, int],
        live: Mapping[str, str],
    ) -> None:
        """Read one command, or an attribute (`known` is None), into a draft."""
        spelling, text, start = statement
        place = self._place(known[0] if known else spelling, start)
        draft.places[place.name] = place
        value = self.statements.macros.expand(text, start, live).strip()
        if known is None:
            if PROCESS_SIGN.search(value):
                raise OneByOne
        elif not known[1].swept:
            self._refuse_signs(place, value)
        if known is not None and known[1].calculated:
            value = calculated(value, lambda name: self._attribute(name, live))
        if known is None:
            read_attribute(draft, place, spelling[1:], value)
        elif value or known[0] in _MAY_BE_EMPTY:
            known[1].read(draft, place, value)

    def _attribute(self, name: str, live: Mapping[str, str]) -> str | None:
        """Return what an attribute of the job is, as an expression; None if the file does not set it."""
        commands = self.statements.commands
        statement = commands.get(f"+{name}") or commands.get(name) or commands.get(ALIASES.get(name, ""))
        return None if statement is None else self.statements.macros.expand(statement[1], statement[2], live)

    def _refuse_signs(self, place: OptionPlace, text: str) -> None:
        if PROCESS_SIGN.search(text):
            raise OneByOne
        if JOB_ID in text:
            place.refuse("the id of the job is not known before it is submitted", "leave $(Cluster) out")

    def _place(self, name: str, start: int) -> OptionPlace:
        return CommandPlace(self._source, start, name, self.items)


def draft_start(draft: SubmitDraft) -> int:
    """Return where the first command of a draft stands."""
    return min((place.start for place in draft.places.values()), default=0)


def _numbered(number: int, step: int) -> dict[str, str]:
    """Return the macros of one process."""
    return {**_JOB_NAMES, "process": str(number), "procid": str(number), "step": str(step)}


def _swept(numbers: range) -> dict[str, str]:
    """Return the macros of the processes of a sweep; the step is only their number if it begins at 0."""
    sign = str(SweptNumber())
    found = {**_JOB_NAMES, "process": sign, "procid": sign}
    return {**found, "step": str(SweptNumber(offset=-numbers[0]))}


def _fields(queue: QueueCommand, item: str) -> Sequence[str]:
    """Return the values for the variables of a queue command: the last has the rest of the item.

    >>> _fields(QueueCommand(1, ("a", "b"), None, None, slice(None), 0), "1, 2 3")
    ['1', '2 3']
    """
    most = len(queue.variables) - 1
    if "\x1f" in item:
        return item.split("\x1f", most)
    return re.split(r"[ \t]*,[ \t]*|[ \t]+", item.strip(), maxsplit=most) if most else [item.strip()]
