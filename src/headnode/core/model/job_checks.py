"""What is wrong with a job before any cluster is asked: one rule, one function.

Source: SSS 3.1.0, Table 25-2, Interactive.
Source: SSS 3.1.0, "Requested" (attributes conj, group and preference).
Source: HPC Pack job and task validation; CCS, "Standard job and task options"."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from headnode.core.model.dependencies import DEPENDENCY_FIELDS, find_cycle
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, with_option
from headnode.core.model.quantities import HIGHEST, LOWEST
from headnode.core.model.task import SPECIAL, TaskSpec, TaskType
from headnode.core.model.task_checks import check_processes, check_task
from headnode.core.model.value_checks import (
    MOST_CODE,
    check_bounds,
    check_codes,
    check_environment,
    check_holds,
    check_listed,
    check_positive,
    check_run_time,
    refuse,
    task_title,
)


def check_interactive(spec: JobSpec) -> None:
    """Refuse an interactive job that nobody could sit down at.

    Raises:  BadRequest ``interactive``.
    """
    if not spec.interactive:
        return
    if len(spec.tasks) != 1:
        refuse(
            "interactive", f"an interactive job has one task, not {len(spec.tasks)}", "submit others apart"
        )
    task = spec.tasks[0]
    if task.kind is not TaskType.BASIC:
        refuse("interactive", "the task of an interactive job is not a basic task", "make it basic")
    if task.standard_input or task.standard_output or task.standard_error:
        refuse(
            "interactive",
            "the task of an interactive job has its streams in files, and cannot have them in a terminal",
            "leave out standard input, output and error",
        )
    if spec.task_retry_limit:
        refuse(
            "interactive",
            "an interactive program is not run again when it fails",
            "leave out the retry limit",
        )


MOST_ALTERNATIVES = 32  # of one job


def check_alternatives(spec: JobSpec, check: Callable[[JobSpec], None]) -> None:
    """Refuse a job that would be wrong under one of its alternatives; `check` is what it is held to itself.

    Raises:  BadRequest; that of `check` says which alternative is meant.
    Cost:    that of `check` for each alternative.
    """
    count = len(spec.alternatives)
    if count > MOST_ALTERNATIVES:
        what = f"the job has {count} alternatives; {MOST_ALTERNATIVES} are the most"
        refuse("too-many-alternatives", what, "remove the least preferred ones")
    for number, other in enumerate(spec.alternatives, start=1):
        if other.tasks and len(other.tasks) != len(spec.tasks):
            what = f"alternative {number} describes {len(other.tasks)} tasks; the job has"
            refuse("alternative-tasks", f"{what} {len(spec.tasks)}", "describe every task, or none")
        try:
            check(replace(with_option(spec, number), alternatives=()))
        except BadRequest as no:
            raise BadRequest(code=no.code, what=f"alternative {number}: {no.what}", fix=no.fix) from None


MOST_SWEEPS = 100  # in one job


def check_job(spec: JobSpec) -> None:
    """Refuse a job that is wrong whatever the cluster looks like.

    A minimum or maximum that is calculated (None) is not compared with anything.
    Raises:  BadRequest; `code` names the rule.
    Cost:    O(tasks + dependencies), for it and for each of its alternatives; nothing for the one that was
             looked at last, for it cannot have changed.
    """
    if spec is _good_last[0]:
        return
    for rule in _JOB_RULES:
        rule(spec)
    for number in range(1, len(spec.tasks) + 1):
        check_task(spec, number)
    _check_dependencies(spec)
    _check_groups(spec)
    if spec.alternatives:
        check_alternatives(spec, check_job)
    _good_last[0] = spec


_good_last: list[JobSpec | None] = [None]


def check_runnable(spec: JobSpec) -> None:
    """Refuse a job that can be kept but not run: a task has no command line.

    Raises:  BadRequest ``no-command``, ``interactive``.
    """
    check_interactive(spec)
    for number, task in enumerate(spec.tasks, 1):
        if spec.interactive:
            continue  # without one it is the login shell
        if not task.command.strip():
            refuse("no-command", f"{task_title(number, task)} has no command line", "write a command line")


def _check_texts(spec: JobSpec) -> None:
    """Refuse what no program can be given (NUL) and no file can hold (half of a surrogate pair)."""
    try:
        if b"\\u0000" not in msgspec.json.encode(spec):
            return
    except UnicodeEncodeError:
        pass  # some text is wrong: find it
    for path, text in _texts("job", spec):
        if "\0" in text:
            refuse(
                "nul",
                f"{path} holds a NUL character",
                "remove it: no argument and no file name can contain one",
            )
        if any("\ud800" <= character <= "\udfff" for character in text):
            refuse("not-unicode", f"{path} holds {text!r}, which is not Unicode text", "write it as UTF-8")


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every text in `value` with the way to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _texts(f"{path}.{field}", getattr(value, field))
    elif isinstance(value, Mapping):
        for name, text in value.items():
            yield from _texts(path, name)
            yield from _texts(f"{path} {name!r}", text)
    elif isinstance(value, tuple):
        for number, part in enumerate(value, 1):
            yield from _texts(f"{path} {number}", part)


def _check_size(spec: JobSpec) -> None:
    low, high = spec.minimum, spec.maximum
    check_positive("the job's minimum", low)
    check_positive("the job's maximum", high)
    if low is not None and high is not None and high < low:
        refuse("max-below-min", f"the job's maximum {high} is below its minimum {low}", "raise the maximum")
    if spec.single_node and spec.unit == "node" and (low or 1) > 1:
        refuse("single-node", f"a job on a single node asks for {low} nodes", "ask for 1 node")


def _check_limits(spec: JobSpec) -> None:
    check_run_time("the job", spec.run_time)
    if not LOWEST <= spec.priority <= HIGHEST:
        refuse(
            "priority",
            f"priority {spec.priority} is not between {LOWEST} and {HIGHEST}",
            "choose one that is",
        )
    if not 0 <= spec.task_retry_limit <= MOST_CODE:
        refuse("retry-limit", f"retry limit {spec.task_retry_limit} is not possible", "write 0 or more")
    if spec.hold_until is not None and not 0 <= spec.hold_until < 253402300800:
        refuse("hold-until", f"hold-until {spec.hold_until} is not a point in time", "write a date and time")
    if spec.end_by is not None and not 0 <= spec.end_by < 253402300800:
        refuse("end-by", f"end-by {spec.end_by} is not a point in time", "write a date and time")
    check_holds(spec.holds)
    if spec.run_until_canceled and (spec.minimum is None or spec.maximum is None):
        refuse(
            "run-until-canceled",
            "a job that runs until it is canceled leaves its minimum or maximum to be calculated",
            "write both, for example 2-4 processors",
        )


def _check_nodes(spec: JobSpec) -> None:
    pairs = (
        ("memory", spec.minimum_memory, spec.maximum_memory),
        ("processors of each node", spec.minimum_processors_per_node, spec.maximum_processors_per_node),
    )
    for what, low, high in pairs:
        check_positive(f"the minimum {what}", low)
        check_positive(f"the maximum {what}", high)
        if low is not None and high is not None and high < low:
            refuse(
                "max-below-min", f"the maximum {what} {high} is below the minimum {low}", "raise the maximum"
            )
    check_positive("the estimated process memory", spec.process_memory)
    for what in spec.held.__struct_fields__:
        amount = getattr(spec.held, what)
        if not 0 <= amount <= MOST_CODE:
            refuse("held", f"{amount} MB of {what} held on each node is not possible", "write 0 or more MB")
    requested, excluded = set(spec.requested_nodes), set(spec.excluded_nodes)
    if requested and requested <= excluded:
        refuse("no-nodes-left", "every requested node is also excluded", "remove some of the excluded nodes")


def _check_words(spec: JobSpec) -> None:
    """Names in lists may hold no comma; licences must be sane; environment names must be possible."""
    lists = (*spec.requested_nodes, *spec.excluded_nodes, *spec.node_groups)
    for name in lists:
        check_listed("node or node group", name)
    check_environment("the job", spec.environment)
    for feature, times in Counter(wish.feature for wish in spec.licences).items():
        check_listed("licence feature", feature)
        if times > 1:
            refuse(
                "licence", f"licence {feature!r} is asked for {times} times", "request it once, with the sum"
            )
    for wish in spec.licences:
        if wish.amount is not None and wish.amount < 1:
            refuse("licence", f"{wish.amount} of licence {wish.feature!r}", "ask for 1 or more, or *")
    for field in DEPENDENCY_FIELDS.values():
        ids: tuple[int, ...] = getattr(spec, field)
        if any(parent < 1 for parent in ids):
            refuse("parents", f"parent job ids {ids} are not all valid", "ids count from 1")
    if not all(parent.called.strip() for parent in spec.named_parents):
        refuse(
            "parents",
            "a dependency on a job by name has no name",
            "write the name of the job, or remove the dependency",
        )


def _check_exit_codes(spec: JobSpec) -> None:
    check_codes("the job", spec.valid_exit_codes)


def _check_kinds(spec: JobSpec) -> None:
    kinds = Counter(task.kind for task in spec.tasks)
    if kinds[TaskType.SWEEP] > MOST_SWEEPS:
        refuse(
            "too-many-sweeps",
            f"{kinds[TaskType.SWEEP]} sweeps in a job",
            f"at most {MOST_SWEEPS} are possible",
        )
    for kind in sorted(SPECIAL):
        if kinds[kind] > 1:
            refuse("special-task", f"{kinds[kind]} {kind.value} tasks in a job", "one is possible")
    if kinds[TaskType.SERVICE] and (kinds[TaskType.BASIC] or kinds[TaskType.SWEEP]):
        refuse("special-task", "a service task beside ordinary tasks", "put it in a job of its own")
    if kinds[TaskType.SERVICE] and spec.together:
        what = "a service task in a job whose tasks start together"
        refuse(
            "special-task", what, "let the tasks start separately: a service starts as many instances as fit"
        )


def _check_dependencies(spec: JobSpec) -> None:
    by_name: dict[str, list[int]] = {}
    for number, task in enumerate(spec.tasks, 1):
        by_name.setdefault(task.name, []).append(number)
    for number, task in enumerate(spec.tasks, 1):
        for name in task.depends_on:
            _check_dependency(spec, task_title(number, task), task, name, by_name)
    graph: dict[str, set[str]] = {}
    for task in spec.tasks:
        graph.setdefault(task.name, set()).update(task.depends_on)
    circle = find_cycle(graph)
    if circle:
        first = by_name[circle[0]][0]
        what = f"{task_title(first, spec.tasks[first - 1])} waits for itself: {_arrows(circle)}"
        refuse("dependency-circle", what, "remove one dependency")


def _check_dependency(
    spec: JobSpec, whose: str, task: TaskSpec, name: str, by_name: Mapping[str, list[int]]
) -> None:
    if name == task.name:
        refuse("dependency-on-itself", f"{whose} depends on its own name", "remove the dependency")
    if not name or name not in by_name:
        known = ", ".join(repr(known) for known in list(by_name)[:10] if known)
        refuse(
            "dependency-unknown",
            f"{whose} depends on {name!r}, but no task has that name",
            f"names are {known}" if known else "give that name to the parent task",
        )
    kinds = {spec.tasks[number - 1].kind for number in by_name[name]}
    if kinds & set(SPECIAL):
        refuse("dependency-kind", f"{whose} depends on {name!r}, a special task", "depend on ordinary tasks")


def _check_groups(spec: JobSpec) -> None:
    if not spec.group_edges:
        return
    root = spec.group_edges[0].parent
    groups = {task.group for task in spec.tasks} | {root}
    graph: dict[int, set[int]] = {}
    for edge in spec.group_edges:
        for group in (edge.parent, edge.child):
            if group not in groups:
                refuse(
                    "group-unknown", f"task group {group} of a dependency has no task", "correct its number"
                )
        graph.setdefault(edge.parent, set()).add(edge.child)
    circle = find_cycle(graph)
    if circle:
        numbers = (number for number, task in enumerate(spec.tasks, 1) if task.group in circle)
        whose = next((f", that of task {number} among them" for number in numbers), "")
        what = f"task groups wait for each other: {_arrows(circle)}{whose}"
        refuse("group-circle", what, "remove one dependency")


def _arrows(circle: Iterable[Hashable]) -> str:
    shown = [repr(step) for step in circle]
    if len(shown) > 12:
        shown[6:-5] = ["..."]
    return " -> ".join(shown)


_JOB_RULES: tuple[Callable[[JobSpec], None], ...] = (
    check_bounds,
    _check_texts,
    _check_size,
    _check_limits,
    _check_nodes,
    _check_words,
    _check_exit_codes,
    _check_kinds,
    check_processes,
)
