"""The form of a new job, in tabs: its fields are those of the catalogue of options."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.web.console.visit import Model, texts
from headnode.core.model.errors import BadRequest
from headnode.core.model.field_rows import JobOption
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS

FORM_TABS: Final = ("General", "Processors", "Tasks", "Nodes", "Licences", "Files", "Environment", "Advanced")
PREVIEWED: Final = 3  # command lines of a sweep
MAX_TASKS: Final = 100
_TAB_OF_HEADING: Final = {
    "what": "General",
    "size": "Processors",
    "time": "Processors",
    "nodes": "Nodes",
    "files": "Files",
    "staging": "Files",
}
_TAB_OF_KEY: Final = {
    "priority": "General",
    "licences": "Licences",
    "environment": "Environment",
    "resource_limits": "Advanced",
    "reservation": "Advanced",
    "suspendable": "Advanced",
    "preemptable": "Advanced",
    "hold_until": "Advanced",
    "end_by": "Advanced",
    "run_until_canceled": "Processors",
}
_PRIORITIES: Final = ("", "Lowest", "BelowNormal", "Normal")
_PRIORITIES_OF_OPERATORS: Final = (*_PRIORITIES, "AboveNormal", "Highest")
IN_ROW: Final = ("command", "name", "parametric", "depend", "numprocessors", "runtime")
_IN_FILES: Final = ("workdir", "stdin", "stdout", "stderr")
_IN_MORE: Final = (
    *("requirednodes", "exclusive", "rerunnable", "env", "type", "numnodes", "numgpus"),
    *("memorypernode", "feature", "failjobonfailure", "validexitcodes", "stagein", "stageout"),
)
_OF_TASK: Final = (*IN_ROW, *_IN_FILES, *_IN_MORE)
_SWEEP: Final = re.compile(r"\s*(?:(-?\d{1,10})\s*-\s*)?(-?\d{1,10})\s*(?::\s*(\d{1,10})\s*)?", re.ASCII)


def _tab(option: JobOption) -> str:
    heading = option.slash.heading if option.slash else ""
    return _TAB_OF_KEY.get(option.key) or _TAB_OF_HEADING.get(heading, "Advanced")


def _field(
    option: JobOption, prefix: str, values: Mapping[str, str], priorities: Sequence[str] = ()
) -> Model:
    """Return a field of the form: its name, its label, its help and its value."""
    slash = option.slash
    assert slash is not None  # only options with a name are fields
    name = f"{prefix}{slash.name}"
    kind = "flag" if option.form == "flag" else "lines" if option.form == "pairs" else "text"
    return {
        "name": name,
        "label": _label(option.key),
        "hint": slash.summary or option.help.replace("{whose}", "the job"),
        "placeholder": slash.value,
        "kind": "priority" if option.key == "priority" else kind,
        "choices": priorities if option.key == "priority" else (),
        "value": values.get(name, ""),
    }


def _label(key: str) -> str:
    """Return a key as a label.

    >>> _label("run_time"), _label("processors_per_gpu")
    ('Run time', 'Processors per GPU')
    """
    label = key.replace("_", " ").replace("gpu", "GPU")
    return label[:1].upper() + label[1:]


def form_model(values: Mapping[str, str], *, oversees: bool, more: bool = False) -> Model:
    """Return the fields of the form by tab, and the rows of tasks.

    oversees:  the user may give jobs a priority above Normal
    more:      with one row more
    """
    priorities = _PRIORITIES_OF_OPERATORS if oversees else _PRIORITIES
    tabs: dict[str, list[Model]] = {tab: [] for tab in FORM_TABS}
    for option in OPTIONS_OF_JOBS:
        if option.slash is not None and option.key != "hold":
            tabs[_tab(option)].append(_field(option, "job-", values, priorities))
    count = min(MAX_TASKS, _rows_in(values) + (1 if more else 0))
    return {"tabs": tabs, "tasks": [_row(number, values) for number in range(1, count + 1)]}


def _rows_in(values: Mapping[str, str]) -> int:
    numbers = [int(match[1]) for key in values if (match := re.fullmatch(r"task-(\d{1,3})-\w+", key))]
    return max(1, min(MAX_TASKS, max(numbers, default=1)))


def _row(number: int, values: Mapping[str, str]) -> Model:
    options = {option.slash.name: option for option in OPTIONS_OF_TASKS if option.slash is not None}
    prefix = f"task-{number}-"
    command, sweep = values.get(f"{prefix}command", ""), values.get(f"{prefix}parametric", "")
    return {
        "number": number,
        "fields": [_field(options[name], prefix, values) for name in IN_ROW],
        "files": [_field(options[name], prefix, values) for name in _IN_FILES],
        "more": [_field(options[name], prefix, values) for name in _IN_MORE],
        "is_more": any(values.get(f"{prefix}{name}") for name in _IN_MORE),
        "preview": preview(command, sweep),
    }


def preview(command: str, sweep: str) -> list[str]:
    """Return the first command lines of a sweep; none where it is no sweep.

    >>> preview("run *.dat", "1-9:4")
    ['run 1.dat', 'run 5.dat', 'run 9.dat']
    """
    match = _SWEEP.fullmatch(sweep) if sweep else None
    if match is None:
        return []
    first, last, step = int(match[1] or 1), int(match[2]), int(match[3] or 1)
    if step < 1:
        return []
    return [command.replace("*", str(number)) for number in islice(range(first, last + 1, step), PREVIEWED)]


def form_request(form: FormData) -> Model:
    """Return the terms and the tasks that the form describes.

    Raises:  BadRequest ``empty`` when it has neither a task nor a job without tasks.
    """
    terms: dict[str, Any] = {
        option.slash.name: value
        for option in OPTIONS_OF_JOBS
        if option.slash and (value := texts(form, f"job-{option.slash.name}"))
    }
    tasks: list[dict[str, Any]] = []
    filled = {key: value for key, value in form.multi_items() if isinstance(value, str) and value.strip()}
    for number in range(1, _rows_in(filled) + 1):
        row: dict[str, Any] = {
            name: value for name in _OF_TASK if (value := texts(form, f"task-{number}-{name}"))
        }
        if "env" in row:
            row["env"] = pairs_in(row["env"])
        if row:
            tasks.append(row)
    if not tasks and terms.get("rununtilcanceled") != "true":
        raise BadRequest(
            code="empty",
            what="the job has no task",
            fix="write a command, or let the job run until it is canceled",
            path=("tasks", 0, "command"),
        )
    if "jobenv" in terms:
        terms["jobenv"] = pairs_in(terms["jobenv"])
    return {"terms": terms, "tasks": tasks}


def pairs_in(text: str) -> dict[str, str] | str:
    """Return the variables of lines as NAME=VALUE; text with another line as it is, for the head to refuse.

    >>> pairs_in("A=1\\nB=2;3")
    {'A': '1', 'B': '2;3'}
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not all("=" in line for line in lines):
        return ";".join(lines)
    return {name.strip(): value for name, _, value in (line.partition("=") for line in lines)}


def moved_up(values: Mapping[str, str], task: int) -> dict[str, str]:
    """Return the values of a form with a task before the one that was before it."""
    other = {f"task-{task}-": f"task-{task - 1}-", f"task-{task - 1}-": f"task-{task}-"}
    moved = {}
    for key, value in values.items():
        prefix = key[: key.rfind("-") + 1]
        moved[other.get(prefix, prefix) + key[len(prefix) :]] = value
    return moved
