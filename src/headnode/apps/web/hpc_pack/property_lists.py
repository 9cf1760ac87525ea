"""Lists of properties: the form in which HPC Pack's REST API has jobs, tasks and nodes.

The properties of a job and of its tasks are the attributes of its job file, so their names and values stand
in one table for both.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from lxml import etree

from headnode.apps.web.problems import wrong
from headnode.core.formats.hpc_xml.attributes import JOB_ATTRIBUTES, TASK_ATTRIBUTES, HpcRow, by_spelling
from headnode.core.model.bounds import LIST
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS

Properties = dict[str, str]
DATE_FORMAT: Final = "M/d/yyyy h:mm:ss tt"
_DATES: Final = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y")
_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)


def listed(properties: Mapping[str, str], names: Iterable[str] = ()) -> list[dict[str, str]]:
    """Return properties as a list of names and values; those that are not set are empty."""
    if not (wanted := list(names)):
        return [{"Name": name, "Value": value} for name, value in properties.items()]
    known = {name.lower(): value for name, value in properties.items()}
    return [{"Name": name, "Value": known.get(name.lower(), "")} for name in wanted]


def read_list(body: Any) -> Properties:
    """Return the properties of a list; names may be spelled `Name` or `name`.

    Raises:  BadRequest ``properties``.
    """
    if not isinstance(body, list) or len(body) > LIST.most:
        raise _not_a_list()
    properties: Properties = {}
    for each in body:
        fields = {str(key).lower(): value for key, value in each.items()} if isinstance(each, dict) else {}
        name, value = fields.get("name"), fields.get("value")
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool | None):
            raise _not_a_list()
        properties[name] = "" if value is None else str(value)
    return properties


def _not_a_list() -> Exception:
    return wrong(
        "properties", "the body is not a list of properties", 'send [{"Name": "Name", "Value": "x"}]'
    )


def date_text(seconds: float | None) -> str:
    """Return a time, in seconds since 1970, as HPC Pack writes it, in UTC; "" for None."""
    if seconds is None:
        return ""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at.month}/{at.day}/{at.year} {at.hour % 12 or 12}:{at:%M:%S} {'AM' if at.hour < 12 else 'PM'}"


def read_date(text: str) -> float:
    """Return a time in UTC, as HPC Pack or ISO 8601 write it, in seconds since 1970.

    Raises:  BadRequest ``date``.
    """
    for form in _DATES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise wrong("date", f"{text[:64]!r} is not a date", "write 11/22/2026 3:00:00 PM, in UTC") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


class JobFile:
    """The job file of a job, as properties."""

    def __init__(self, text: str) -> None:
        self._root = etree.fromstring(text.encode(), _PARSER)

    @property
    def job(self) -> Properties:
        """The properties of the job."""
        return _attributes(self._root)

    def task(self, number: int) -> Properties | None:
        """The properties of a task; None: there is none of the number."""
        element = self._task(number)
        return None if element is None else _attributes(element)

    def tasks(self) -> list[Properties]:
        """The properties of all tasks, without instances."""
        return [_attributes(element) for element in self._tasks()]

    def pairs(self, kind: str, number: int | None = None) -> Properties | None:
        """The variables or the terms of the job, or of a task; None: there is no such task."""
        element = self._root if number is None else self._task(number)
        if element is None:
            return None
        box = next((child for child in element if etree.QName(child).localname == kind), None)
        return {_text(pair, "Name"): _text(pair, "Value") for pair in (() if box is None else box)}

    def _tasks(self) -> list[Any]:
        box = next((child for child in self._root if etree.QName(child).localname == "Tasks"), None)
        return [] if box is None else [each for each in box if etree.QName(each).localname == "Task"]

    def _task(self, number: int) -> Any:
        return next((each for each in self._tasks() if each.get("Id") == str(number)), None)


def _text(pair: Any, name: str) -> str:
    return next((child.text or "" for child in pair if etree.QName(child).localname == name), "")


def _attributes(element: Any) -> Properties:
    """Return the attributes; times as HPC Pack's REST API writes them."""
    attributes = {}
    for name, value in element.items():
        attributes[name] = date_text(read_date(value)) if name.endswith("Time") and "T" in value else value
    changes = [read_date(value) for name, value in element.items() if name.endswith("Time") and "T" in value]
    if changes:
        attributes["ChangeTime"] = date_text(max(changes))
    return attributes


def job_file(properties: Mapping[str, str]) -> str:
    """Return the job file of a job with these properties."""
    return etree.tostring(etree.Element("Job", _spelled(properties, _JOB_ROWS)), encoding="unicode")


def task_file(properties: Mapping[str, str]) -> str:
    """Return the file of a task with these properties."""
    return etree.tostring(etree.Element("Task", _spelled(properties, _TASK_ROWS)), encoding="unicode")


_JOB_ROWS: Final = by_spelling(JOB_ATTRIBUTES)
_TASK_ROWS: Final = by_spelling(TASK_ATTRIBUTES)
_CREDENTIALS: Final = ("username", "password")


def _spelled(properties: Mapping[str, str], rows: Mapping[str, HpcRow]) -> Properties:
    """Return properties by the spelling of job files.

    Raises:  BadRequest ``properties`` for a name or value that XML cannot hold.
    """
    spelled = {}
    for name, value in properties.items():
        if name.lower() in _CREDENTIALS:
            continue  # the user is known from the log-in
        row = rows.get(name.lower())
        key = row.hpc if row is not None else name
        if not key.isidentifier() or not value.isprintable():
            raise wrong(
                "properties", f"property {name[:64]!r} has a wrong name or value", "see the list of names"
            )
        spelled[key] = value
    return spelled


def job_terms(properties: Mapping[str, str], unit: str) -> dict[str, str]:
    """Return the options of the command line that change these properties of a job, which counts `unit`.

    Raises:  BadRequest ``properties`` for one that cannot be changed.
    """
    return _terms(properties, _JOB_ROWS, _names_of(OPTIONS_OF_JOBS), unit)


def task_terms(properties: Mapping[str, str], unit: str) -> dict[str, str]:
    """Return the options of the command line that change these properties of a task, whose job counts `unit`.

    Raises:  BadRequest ``properties`` for one that cannot be changed.
    """
    return _terms(properties, _TASK_ROWS, _names_of(OPTIONS_OF_TASKS), unit)


def _names_of(options: Iterable[Any]) -> dict[str, str]:
    names: dict[str, str] = {}
    for option in options:
        if option.slash is not None and len(option.fields or (option.key,)) == 1:
            names.setdefault((option.fields or (option.key,))[0], option.slash.name)
    return names


_SIZES: Final = {"processor": "numcores", "socket": "numsockets", "node": "numnodes"}
_GPUS: Final = "Gpu"


def _terms(
    properties: Mapping[str, str], rows: Mapping[str, HpcRow], names: Mapping[str, str], counted: str
) -> dict[str, str]:
    terms: dict[str, str] = {}
    bounds: dict[str, dict[str, str]] = {}
    for name, value in properties.items():
        if name.lower() in _CREDENTIALS:
            continue
        row = rows.get(name.lower())
        field = row.field if row is not None else ""
        if field.startswith(("size.minimum.", "size.maximum.")):
            _, bound, unit = field.split(".")
            bounds.setdefault(unit, {})[bound] = value
        elif field == "run_time":
            terms[names[field]] = "Infinite" if value == "0" else f"0:0:{value}"
        elif field in names:
            terms[names[field]] = value
        elif field != "size.unit":
            raise wrong("properties", f"property {name[:64]!r} cannot be changed", "see docs/hpc-pack.md")
    units = {value for name, value in properties.items() if name.lower() == "unittype"}
    on_gpus = _GPUS in units or (not units and counted == "gpu")
    for unit, both in bounds.items():
        least = both.get("minimum") or both["maximum"]
        size = "numgpus" if unit == "socket" and on_gpus else _SIZES[unit]
        terms[size] = f"{least}-{both.get('maximum') or least}"
    return terms
