"""What is wrong with a job before any cluster is asked: one rule, one function.

Source: SSS 3.1.0, Table 25-2, Interactive.
Source: SSS 3.1.0, "Requested" (attributes conj, group and preference).
Source: HPC Pack job and task validation; CCS, "Standard job and task options"."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from headnode.core.model.errors import BadRequest, Path
from headnode.core.model.fields import OPTIONS_OF_JOBS
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec, UnitType, with_option
from headnode.core.model.quantities import HIGHEST, LOWEST
from headnode.core.model.resource import ANY, HERE, places_in
from headnode.core.model.task import SPECIAL, TaskSpec, TaskType
from headnode.core.model.task_checks import check_corresponding, check_processes, check_task
from headnode.core.model.value_checks import (
    MAX_CODE,
    THE_JOB,
    JobPart,
    check_bounds,
    check_codes,
    check_environment,
    check_holds,
    check_listed,
    check_positive,
    check_run_times,
    check_whole_numbers,
    find_cycle,
    task_part,
)


def check_interactive(spec: JobSpec) -> None:
    """Refuse an interactive job that nobody could sit down at.

    Raises:  BadRequest ``interactive``.
    """
    if not spec.interactive:
        return
    if len(spec.tasks) != 1:
        what = f"an interactive job has one task, not {len(spec.tasks)}"
        THE_JOB.refuse("interactive", what, "submit the other tasks as jobs of their own", "tasks")
    task = spec.tasks[0]
    part = task_part(1, task)
    if task.kind is not TaskType.BASIC:
        what = "the task of an interactive job is not a basic task"
        part.refuse("interactive", what, "make it basic", "kind")
    for field in ("standard_input", "standard_output", "standard_error"):
        if getattr(task, field):
            what = (
                "the task of an interactive job redirects its streams to files, so it cannot use a terminal"
            )
            part.refuse("interactive", what, "leave out standard input, output and error", field)
    if spec.task_retry_limit:
        THE_JOB.refuse(
            "interactive",
            "an interactive job cannot retry its program",
            "leave out the retry limit",
            "task_retry_limit",
        )


def is_allocation(spec: JobSpec) -> bool:
    """Whether a job holds processors for a client that runs elsewhere, and ends with it."""
    return spec.interactive and spec.run_until_canceled


MAX_ALTERNATIVES = 32  # of one job


def check_alternatives(spec: JobSpec, check: Callable[[JobSpec], None]) -> None:
    """Refuse a job if it breaks a rule with one of its alternatives; `check` applies the rules to a job.

    Raises:  BadRequest; that of `check` says which alternative is meant.
    Cost:    that of `check` for each alternative.
    """
    count = len(spec.alternatives)
    if count > MAX_ALTERNATIVES:
        what = f"the job has {count} alternatives; {MAX_ALTERNATIVES} are possible"
        THE_JOB.refuse("too-many-alternatives", what, "remove the least preferred ones", "alternatives")
    for number, other in enumerate(spec.alternatives, start=1):
        part = THE_JOB.inside("alternatives", number - 1)
        if other.tasks and len(other.tasks) != len(spec.tasks):
            what = f"alternative {number} describes {len(other.tasks)} tasks; the job has"
            fix = "describe every task, or none"
            part.refuse("alternative-tasks", f"{what} {len(spec.tasks)}", fix, "tasks")
        _check_places(spec, number, part)
        try:
            check(replace(with_option(spec, number), alternatives=()))
        except BadRequest as no:
            part.refuse(no.code, f"alternative {number}: {no.what}", no.fix, *no.path)


def _check_places(spec: JobSpec, number: int, part: JobPart) -> None:
    """Refuse an alternative for own nodes behind one for a resource, and one that is for both."""
    named = spec.alternatives[number - 1].resource
    if named is None:
        if any(other.resource is not None for other in spec.alternatives[: number - 1]):
            what = f"alternative {number} is for own nodes, and one for a resource is before it"
            part.refuse("alternative-order", what, "write those for resources last", "resource")
    elif not named.strip() or {HERE, ANY}.intersection(places_in(named)):
        what = f"alternative {number} is for {named!r}"
        fix = "name resources; an alternative without `resource` is for own nodes"
        part.refuse("alternative-resource", what, fix, "resource")


MAX_SWEEPS = 100  # in one job


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
    """Refuse a job that can be kept but not run: a task has no program that a node could start.

    Raises:  BadRequest ``no-command``, ``interactive``.
    """
    check_interactive(spec)
    for number, task in enumerate(spec.tasks, 1):
        if spec.interactive:
            continue  # without one it is the login shell
        if not task.command.strip():
            part = task_part(number, task)
            part.refuse("no-command", f"{part} has no command line", "write a command line", "command")


def _check_texts(spec: JobSpec) -> None:
    """Refuse what no program can be given (NUL) and no file can hold (half of a surrogate pair)."""
    try:
        if b"\\u0000" not in msgspec.json.encode(spec):
            return
    except UnicodeEncodeError:
        pass  # some text is wrong: find it
    for name, path, text in _texts("job", (), spec):
        if "\0" in text:
            fix = "remove it: no argument and no file name can contain one"
            THE_JOB.refuse("nul", f"{name} holds a NUL character", fix, *path)
        if any("\ud800" <= character <= "\udfff" for character in text):
            what = f"{name} holds {text!r}, which is not Unicode text"
            THE_JOB.refuse("not-unicode", what, "write it as UTF-8", *path)


def _texts(name: str, path: Path, value: Any) -> Iterator[tuple[str, Path, str]]:
    """Yield every text in `value`: how messages call it, the path to it, and the text."""
    if isinstance(value, str):
        yield name, path, value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _texts(f"{name}.{field}", (*path, field), getattr(value, field))
    elif isinstance(value, Mapping):
        for key, text in value.items():
            yield name, path, key
            yield from _texts(f"{name} {key!r}", (*path, key), text)
    elif isinstance(value, tuple):
        for at, entry in enumerate(value):
            yield from _texts(f"{name} {at + 1}", (*path, at), entry)


def _check_size(spec: JobSpec) -> None:
    low, high = spec.minimum, spec.maximum
    check_positive(THE_JOB, "minimum", "the job's minimum", low)
    check_positive(THE_JOB, "maximum", "the job's maximum", high)
    if low is not None and high is not None and high < low:
        what = f"the job's maximum {high} is below its minimum {low}"
        THE_JOB.refuse("max-below-min", what, "raise the maximum", "maximum")
    if spec.processors_per_gpu != 1 and spec.unit is not UnitType.GPU:
        what = f"the job has {spec.processors_per_gpu} processors for each GPU, but counts {spec.unit.word}s"
        fix = "give its number of GPUs, for example --numgpus 1, or leave the processors of a GPU out"
        THE_JOB.refuse("processors-per-gpu", what, fix, "processors_per_gpu")
    if spec.single_node and spec.unit == "node" and (low or 1) > 1:
        what = f"a job on a single node requests {low} nodes"
        THE_JOB.refuse("single-node", what, "request 1 node", "minimum")


_LIMITED = [option for option in OPTIONS_OF_JOBS if option.limits]


def _check_limits(spec: JobSpec) -> None:
    check_run_times(THE_JOB, spec.run_time, spec.minimum_run_time)
    if not LOWEST <= spec.priority <= HIGHEST:
        what = f"priority {spec.priority} is not between {LOWEST} and {HIGHEST}"
        THE_JOB.refuse("priority", what, "choose one that is", "priority")
    check_whole_numbers(THE_JOB, spec, _LIMITED)
    for field in ("hold_until", "end_by"):
        at = getattr(spec, field)
        if at is not None and not 0 <= at < 253402300800:
            name = field.replace("_", "-")
            THE_JOB.refuse(name, f"{name} {at} is not a point in time", "write a date and time", field)
    check_holds(spec.holds)
    if spec.signal:
        _check_signal(spec)
    sized = spec.minimum is not None and spec.maximum is not None
    alone = len(spec.tasks) == 1 and spec.tasks[0].kind is TaskType.BASIC  # the job has the size of its task
    if spec.run_until_canceled and not (sized or alone):
        THE_JOB.refuse(
            "run-until-canceled",
            "a job that runs until it is canceled needs a minimum and a maximum",
            "write both, for example --numprocessors 2-4",
            "run_until_canceled",
        )


def _check_signal(spec: JobSpec) -> None:
    from headnode.core.model.signals import read_limit_signal  # few jobs have one

    try:
        asked = read_limit_signal(spec.signal)
    except BadRequest as no:
        THE_JOB.refuse(no.code, no.what, no.fix, "signal")
    if min(spec.run_time, spec.minimum_run_time or spec.run_time) <= asked.before:
        what = f"a signal {asked.before:g} s before a run time limit of {spec.run_time:g} s"
        THE_JOB.refuse("signal", what, "write fewer seconds, such as USR1@30, or a longer limit", "signal")


def _check_nodes(spec: JobSpec) -> None:
    for label, name in (("memory", "memory"), ("processors of each node", "processors_per_node")):
        low, high = getattr(spec, f"minimum_{name}"), getattr(spec, f"maximum_{name}")
        check_positive(THE_JOB, f"minimum_{name}", f"the minimum {label}", low)
        check_positive(THE_JOB, f"maximum_{name}", f"the maximum {label}", high)
        if low is not None and high is not None and high < low:
            what = f"the maximum {label} {high} is below the minimum {low}"
            THE_JOB.refuse("max-below-min", what, "raise the maximum", f"maximum_{name}")
    check_positive(THE_JOB, "process_memory", "the estimated process memory", spec.process_memory)
    for name in spec.held.__struct_fields__:
        amount = getattr(spec.held, name)
        if not 0 <= amount <= MAX_CODE:
            what = f"{amount} MB of {name} held on each node is not possible"
            THE_JOB.refuse("held", what, "write 0 or more MB", "held", name)
    requested, excluded = set(spec.requested_nodes), set(spec.excluded_nodes)
    if requested and requested <= excluded:
        what = "every requested node is also excluded"
        THE_JOB.refuse("no-nodes-left", what, "remove some of the excluded nodes", "excluded_nodes")


def _check_words(spec: JobSpec) -> None:
    """Names in lists may hold no comma; licences must be sane; environment names must be possible."""
    for field in ("requested_nodes", "excluded_nodes", "node_groups"):
        for at, name in enumerate(getattr(spec, field)):
            check_listed(THE_JOB, "node or node group", name, field, at)
    check_environment(THE_JOB, spec.environment)
    _check_licences(spec)
    for field in DEPENDENCY_FIELDS.values():
        for at, parent in enumerate(getattr(spec, field)):
            if parent < 1:
                what = f"parent job ids {getattr(spec, field)} are not all valid"
                THE_JOB.refuse("parents", what, "ids count from 1", field, at)
    if spec.singleton and not spec.name.strip():
        THE_JOB.refuse("singleton", "a singleton has no name", "give it a name", "singleton")
    if spec.dependencies or spec.any_dependency or spec.named_parents:
        from headnode.core.model.dependency_checks import check_dependencies  # few jobs have them

        check_dependencies(spec)


def _check_licences(spec: JobSpec) -> None:
    if not spec.licences:
        return
    features = [licence.feature for licence in spec.licences]
    for feature, times in Counter(features).items():
        part = THE_JOB.inside("licences", features.index(feature))
        check_listed(part, "licence feature", feature, "feature")
        if times > 1:
            what = f"licence {feature!r} is requested {times} times"
            part.refuse("licence", what, "request it once, with the sum")
    for at, licence in enumerate(spec.licences):
        if licence.amount is not None and licence.amount < 1:
            what = f"{licence.amount} of licence {licence.feature!r}"
            THE_JOB.refuse("licence", what, "ask for 1 or more, or *", "licences", at, "amount")


def _check_exit_codes(spec: JobSpec) -> None:
    check_codes(THE_JOB, spec.valid_exit_codes)


def _check_kinds(spec: JobSpec) -> None:
    if len(spec.tasks) == 1 and not spec.together:
        return  # one of each kind is possible
    kinds = Counter(task.kind for task in spec.tasks)
    if kinds[TaskType.SWEEP] > MAX_SWEEPS:
        what = f"{kinds[TaskType.SWEEP]} sweeps in a job"
        THE_JOB.refuse("too-many-sweeps", what, f"at most {MAX_SWEEPS} are possible", "tasks")
    for kind in sorted(SPECIAL):
        if kinds[kind] > 1:
            what = f"{kinds[kind]} {kind.value} tasks in a job"
            THE_JOB.refuse("special-task", what, "one is possible", "tasks")
    if kinds[TaskType.SERVICE] and (kinds[TaskType.BASIC] or kinds[TaskType.SWEEP]):
        what = "the job has a service task and ordinary tasks"
        THE_JOB.refuse("special-task", what, "put the service task into a job of its own", "tasks")
    if kinds[TaskType.SERVICE] and spec.together:
        what = "the job has a service task, and its tasks start together"
        fix = "let the tasks start separately: a service starts as many instances as fit"
        THE_JOB.refuse("special-task", what, fix, "tasks")


def _check_dependencies(spec: JobSpec) -> None:
    by_name: dict[str, list[int]] = {}
    for number, task in enumerate(spec.tasks, 1):
        by_name.setdefault(task.name, []).append(number)
    for number, task in enumerate(spec.tasks, 1):
        if task.depends_on:
            part = task_part(number, task)
            for at, name in enumerate(task.depends_on):
                _check_dependency(spec, part.inside("depends_on", at), task, name, by_name)
    graph: dict[str, set[str]] = {}
    for task in spec.tasks:
        graph.setdefault(task.name, set()).update(task.depends_on)
    circle = find_cycle(graph)
    if circle:
        first = by_name[circle[0]][0]
        part = task_part(first, spec.tasks[first - 1])
        what = f"{part} waits for itself: {_arrows(circle)}"
        part.refuse("dependency-circle", what, "remove one dependency", "depends_on")


def _check_dependency(
    spec: JobSpec, part: JobPart, task: TaskSpec, name: str, by_name: Mapping[str, list[int]]
) -> None:
    if name == task.name:
        part.refuse("dependency-on-itself", f"{part} depends on its own name", "remove the dependency")
    if not name or name not in by_name:
        known = ", ".join(repr(known) for known in list(by_name)[:10] if known)
        part.refuse(
            "dependency-unknown",
            f"{part} depends on {name!r}, but no task has that name",
            f"names are {known}" if known else "give that name to the parent task",
        )
    kinds = {spec.tasks[number - 1].kind for number in by_name[name]}
    if kinds & set(SPECIAL):
        what = f"{part} depends on {name!r}, a special task"
        part.refuse("dependency-kind", what, "depend on ordinary tasks")


def _check_groups(spec: JobSpec) -> None:
    if not spec.group_edges:
        return
    root = spec.group_edges[0].parent
    groups = {task.group for task in spec.tasks} | {root}
    graph: dict[int, set[int]] = {}
    for at, edge in enumerate(spec.group_edges):
        for side, group in (("parent", edge.parent), ("child", edge.child)):
            if group not in groups:
                what = f"task group {group} of a dependency has no task"
                THE_JOB.refuse("group-unknown", what, "correct its number", "group_edges", at, side)
        graph.setdefault(edge.parent, set()).add(edge.child)
    circle = find_cycle(graph)
    if circle:
        numbers = (number for number, task in enumerate(spec.tasks, 1) if task.group in circle)
        number = next(numbers, None)
        whose = f", that of task {number} among them" if number else ""
        what = f"task groups wait for each other: {_arrows(circle)}{whose}"
        path = ("tasks", number - 1, "group") if number else ("group_edges",)
        THE_JOB.refuse("group-circle", what, "remove one dependency", *path)


def _arrows(circle: Iterable[Hashable]) -> str:
    steps = [repr(step) for step in circle]
    if len(steps) > 12:
        steps[6:-5] = ["..."]
    return " -> ".join(steps)


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
    check_corresponding,
)
