"""What the owner of a job asked for beside its size and its times, in the words of the native form."""

from headnode.apps.cli.words import counted, instant, limits, time_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Spec = Mapping[str, Any]

_SHOWN = ("name", "project", "priority", "unit", "minimum", "maximum", "run_time", "tasks")
_TIMES = ("hold_until", "end_by")
_MOST_TASKS = 4  # of an alternative, told one by one


def wishes(spec: "Spec") -> dict[str, str]:
    """Return what else the owner asked for, each wish under its name."""
    return {_title(name): _told(name, value) for name, value in spec.items() if name not in _SHOWN}


def _title(name: str) -> str:
    return name.replace("_", " ").title()


def _told(name: str, value: "Any") -> str:
    if name == "alternatives":
        return "\n".join(f"{number}: {_alternative(one)}" for number, one in enumerate(value, start=1))
    if name in _TIMES:
        return instant(value)
    if name == "valid_exit_codes":
        return ", ".join(f"{low}" if low == high else f"{low}..{high}" for low, high in value)
    return _plain(value)


def _alternative(spec: "Spec") -> str:
    """Return what an alternative says in one line; what it does not say is as in the job."""
    tasks = [_in_one_line(task) for task in spec.get("tasks", ())]
    said = [_in_one_line({name: value for name, value in spec.items() if name != "tasks"})]
    if len(tasks) == 1:
        said += tasks
    else:
        said += [f"task {number}: {text}" for number, text in enumerate(tasks[:_MOST_TASKS], start=1) if text]
        said += [counted(len(tasks) - _MOST_TASKS, "more task")] if len(tasks) > _MOST_TASKS else []
    return "; ".join(text for text in said if text) or "as the job"


def _in_one_line(spec: "Spec") -> str:
    said = [f"size {limits(spec)}"] if "minimum" in spec or "maximum" in spec else []
    for name, value in spec.items():
        if name == "run_time":
            said.append(f"run time {time_limit(value)}")
        elif isinstance(value, dict):
            said += [f"{inner.replace('_', ' ')} {_plain(item)}" for inner, item in value.items()]
        elif name not in ("minimum", "maximum"):
            said.append(f"{name.replace('_', ' ')} {_plain(value)}")
    return ", ".join(said)


def _plain(value: "Any") -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}={_plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(_choice(item) for item in value)
    return "" if value is None else str(value)


def _choice(item: "Any") -> str:
    """Return one thing of a list; a list in a list is a choice, as ``/feature:big|huge`` writes it."""
    return "|".join(map(str, item)) if isinstance(item, list) else _plain(item).replace("\n", " ")
