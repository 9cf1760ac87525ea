"""Read grid descriptions of jobs and of single tasks, with values for the names in braces."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Awareness, Fidelity, FidelityReport, apply_awareness
from headnode.core.formats.grid.keys import (
    ITEM_ROWS,
    JOB_FIELDS,
    JOB_ROWS,
    RESOURCE_KEYS,
    TASK_ROWS,
    GridRow,
    GridTable,
)
from headnode.core.formats.grid.requirement_reading import with_tasks
from headnode.core.formats.grid.source import (
    BASE,
    Behaviour,
    GridChecker,
    GridFindings,
    GridObject,
    GridText,
    as_extension,
    called,
    check_graph,
    connects,
    read_grid_text,
)
from headnode.core.formats.grid.task_reading import GridTaskReader, check_base
from headnode.core.model.errors import BadRequest, Path, TextPosition
from headnode.core.model.job import JobSpec

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
JsonObject = dict[str, Any]


class Substitution:
    """Puts values in for names, wherever the tables allow it.  Without values nothing is replaced."""

    def __init__(self, page: GridText, findings: GridFindings, variables: Mapping[str, str]) -> None:
        self._page, self._findings, self._variables = page, findings, variables
        self._looks = bool(variables) or page.says(_NAME)

    def job(self, job: JsonObject) -> JsonObject:
        """Return the job with values for names in it and in the definitions that are written in it.

        Raises:  BadRequest ``no-value`` for a name without one, when there are values; ``given-twice``.
        """
        if not self._looks:
            return job
        tasks = [self._item(item, number) for number, item in enumerate(job["tasks"])]
        return self._object(job, JOB_ROWS, "job", ()) | {"tasks": tasks}

    def task(self, task: JsonObject, whose: str, path: Path = ()) -> JsonObject:
        """Return a task definition with values for names; raises as `job`."""
        return self._object(task, TASK_ROWS, whose, path) if self._looks else task

    def _item(self, item: JsonObject, number: int) -> JsonObject:
        if "definition" not in item:
            return item
        whose, path = f"task {item['id']!r}", ("tasks", number, "definition")
        return item | {"definition": self.task(item["definition"], whose, path)}

    def _object(self, found: JsonObject, table: GridTable, whose: str, path: Path) -> JsonObject:
        changed = {
            key: self._value(value, table.by_key[key], whose, (*path, key))
            for key, value in found.items()
            if table.by_key[key].substituted
        }
        return found | changed

    def _value(self, value: Any, row: GridRow, whose: str, path: Path) -> Any:
        match value:
            case str():
                return self._text(value, whose, path)
            case list():
                return [self._value(part, row, whose, (*path, at)) for at, part in enumerate(value)]
            case dict():
                return self._pairs(value, row, whose, path)
        return value

    def _pairs(self, pairs: Mapping[str, Any], row: GridRow, whose: str, path: Path) -> JsonObject:
        """Replace in values, and in names too, but not in those of variables of the environment."""
        replaced: JsonObject = {}
        for name, value in pairs.items():
            inside = (*path, name)
            new = name if row.key == "environment" else self._text(name, whose, inside)
            if new in replaced:
                what = f"{whose}: {name!r} becomes {new!r}, which already exists"
                self._page.refuse(inside, "given-twice", what, "give the names other values")
            replaced[new] = self._value(value, row, whose, inside)
        return replaced

    def _text(self, text: str, whose: str, path: Path) -> str:
        def value_of(name: re.Match[str]) -> str:
            if name[1] in self._variables:
                return self._variables[name[1]]
            if self._variables:
                what = f"{whose}: {name[0]} has no value"
                fix = f"add --set {name[1]}=VALUE; to keep the braces: --set {name[1]}='{name[0]}'"
                self._page.refuse(path, "no-value", what, fix)
            what = f"{name[0]} stays as it is; to put in a value: --set {name[1]}=VALUE"
            self._findings.add_at(self._page, Fidelity.NOTE, whose, what, path)
            return name[0]

        return _NAME.sub(value_of, text) if "{" in text else text


JOB, TASK = "grid", "grid-task"
"""The dialects: a job, and a task on its own."""

Found = dict[str, Any]


class GridOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read.

    `lenient` reads what is wrong but beyond doubt, and reports it: the keys of a definition in the task
    itself, and a key that looks much like a right one.  `variables` are put in for ``{name}``: each name
    must have a value if there are any.  `files` holds
    what the filenames of tasks refer to, which lies beside the job's own file.
    """

    awareness: Awareness = Awareness.WARN
    lenient: bool = False
    behaviour: Behaviour = Behaviour.PUBLISHED
    variables: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}


_AS_PUBLISHED = GridOptions()


def read_job(data: bytes | str, options: GridOptions = _AS_PUBLISHED) -> tuple[JobSpec, FidelityReport]:
    """Read a grid description of a job, of a task, or what the Pilot service says of either.

    Raises:  BadRequest with line and column: as `read_json`, then ``not-a-job``, ``unknown-key``,
             ``missing-key``, ``value``, ``given-twice``, ``id-twice``, ``unknown-task``,
             ``dependency-circle``, ``no-file``, ``no-value``, ``storage-base``;
             ``no-storage-base`` as the Pilot service; and ``not-understood`` under awareness policy Reject.
    Cost:    O(size); about 10 us for a task.
    """
    findings = GridFindings()
    page = _description(read_grid_text(data), findings)
    reader = _GridReader(page, findings, options)
    spec = reader.job() if "tasks" in page.value else reader.task()
    return spec, apply_awareness(options.awareness, findings.report())


def whole_description(data: bytes | str, options: GridOptions) -> Found:
    """Return a description with values for names, and with the definitions that are in files.

    Raises:  as `read_job`.
    """
    findings = GridFindings()
    page = _description(read_grid_text(data), findings)
    reader = _GridReader(page, findings, options)
    return reader.whole_job() if "tasks" in page.value else reader.job_of_task()


def files_named(data: bytes | str) -> tuple[str, ...]:
    """Return the files a job refers to, which `GridOptions.files` must hold; empty when it cannot be read."""
    try:
        value = read_grid_text(data).value
    except BadRequest:
        return ()
    tasks = value.get("tasks") if isinstance(value, dict) else None
    items = tasks if isinstance(tasks, list) else []
    names = (item.get("filename") for item in items if isinstance(item, dict))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _description(page: GridText, findings: GridFindings) -> GridText:
    """Return the page where the description begins: a service writes its own words around it."""
    found = page.value
    if not isinstance(found, dict):
        page.refuse((), "not-a-job", "the text is not a JSON object", 'write {"version": 2, "tasks": [...]}')
    inner = found.get("definition")
    if isinstance(inner, dict) and ("tasks" in inner or "executable" in inner):
        strange = next((key for key in found if key not in RESOURCE_KEYS), None)
        if strange is None:
            what = "only the description is read, not what a service writes around it"
            findings.add_at(page, Fidelity.NOTE, "document", what, ())
            return page.inside("definition")
    if "tasks" not in found and "executable" not in found:
        what = "the description has neither 'tasks', as a job has, nor 'executable', as a task has"
        page.refuse((), "not-a-job", what, 'write {"version": 2, "executable": "/bin/date"}')
    return page


class _GridReader:
    """Reads one description."""

    def __init__(self, page: GridText, findings: GridFindings, options: GridOptions) -> None:
        self._page, self._findings, self._options = page, findings, options
        self._checker = GridChecker(page, findings, lenient=options.lenient)
        self._substitution = Substitution(page, findings, options.variables)

    def task(self) -> JobSpec:
        """Read a single task, as a job of that task."""
        what = "a task alone is read as a job of that one task"
        self._findings.add_at(self._page, Fidelity.TRANSLATED, "task", what, ())
        found = self._substitution.task(self._checker.task(self._page.value, "task", ()), "task")
        source = self._source((), "task", found)
        words = found.get("meta", {})
        is_own_words = bool(words) and all(isinstance(value, str) for value in words.values())
        inner = source._replace(values=_without(found, "meta")) if is_own_words else source
        fields = GridTaskReader("", self._options.behaviour).fields(inner)
        fields |= _properties(source, {}) if is_own_words else {}
        spec = JobSpec(dialect=TASK, fail_on_task_failure=True)
        return with_tasks(spec, self._source((), "job", {}), [source], [fields])

    def job(self) -> JobSpec:
        """Read a job."""
        found = self._checker.job(self._page.value)
        check_graph(self._page, found)
        found = self._substitution.job(found)
        source = self._source((), "job", found)
        spec = JobSpec(**self._job_fields(source), dialect=JOB, fail_on_task_failure=True)
        check_base(source, found.get(BASE, ""))
        reader = GridTaskReader(found.get(BASE, ""), self._options.behaviour)
        items = [
            self._source(("tasks", number), called(item), item) for number, item in enumerate(found["tasks"])
        ]
        definitions = [self._definition(item) for item in items]
        return with_tasks(spec, source, definitions, _fields(items, definitions, reader))

    def whole_job(self) -> Found:
        """Return the description of a job with nothing left to be put in."""
        found = self._checker.job(self._page.value)
        check_graph(self._page, found)
        found = self._substitution.job(found)
        return found | {"tasks": [self._whole_item(*each) for each in enumerate(found["tasks"])]}

    def job_of_task(self) -> Found:
        """Return the description of a job of the one task."""
        task = self._substitution.task(self._checker.task(self._page.value, "task", ()), "task")
        return {"version": 2, "tasks": [{"id": "1", "definition": task}]}

    def _whole_item(self, number: int, item: Found) -> Found:
        if "filename" not in item:
            return item
        source = self._source(("tasks", number), called(item), item)
        return _without(item, "filename") | {"definition": self._from_file(source).values}

    def _source(self, path: tuple[str | int, ...], whose: str, found: Found) -> GridObject:
        return GridObject(self._page, path, whose, found, self._findings)

    def _job_fields(self, source: GridObject) -> Found:
        found = source.values
        extensions = source.kept(JOB_ROWS)
        fields: Found = {field: found[key] for key, field in JOB_FIELDS.items() if key in found}
        fields["extensions"] = extensions
        if "groups" in found:
            fields |= self._groups(source, extensions)
        return fields | _properties(source, extensions)

    def _groups(self, source: GridObject, extensions: dict[str, str]) -> Found:
        """Bring all tasks together on one node if the groups connect them; a cluster is one resource."""
        groups = source.values["groups"]
        every = {item["id"] for item in source.values["tasks"]}
        together = connects(groups, every)
        if not together or len(groups) > 1:
            extensions["groups"] = as_extension(groups)
        if together:
            source.report(
                Fidelity.TRANSLATED, "groups", "all tasks are in one group: the job runs on a single node"
            )
            return {"single_node": True}
        what = "a cluster is one resource: tasks of a group may be on different nodes of it"
        source.report(Fidelity.APPROXIMATED, "groups", what)
        return {}

    def _definition(self, item: GridObject) -> GridObject | None:
        """Return the definition of a task of a job: written in it, in a file, or None."""
        if "filename" in item.values:
            return self._from_file(item)
        if "definition" in item.values:
            path = (*item.path, "definition")
            return self._source(path, item.whose, item.values["definition"])
        what = "the task has no definition: it cannot run without one"
        self._findings.add_at(self._page, Fidelity.NOTE, item.whose, what, item.path)
        return None

    def _from_file(self, item: GridObject) -> GridObject:
        name = item.values["filename"]
        if name not in self._options.files:
            what = f"file {name[:80]!r} with the definition does not exist"
            item.refuse(
                "filename", "no-file", what, "put it beside the file of the job, or write a definition"
            )
        page = read_grid_text(self._options.files[name], name)
        if not isinstance(page.value, dict):
            page.refuse((), "not-a-job", "the text is not a JSON object", "write a task definition")
        checker = GridChecker(page, self._findings, lenient=self._options.lenient)
        found = checker.task(page.value, item.whose, ())
        found = Substitution(page, self._findings, self._options.variables).task(found, item.whose)
        return GridObject(page, (), item.whose, found, self._findings)


def _fields(
    items: Sequence[GridObject], definitions: Sequence[GridObject | None], reader: GridTaskReader
) -> Iterator[Found]:
    """Yield the fields of each task but for what it requires."""
    parents = _parents(item.values for item in items)
    for item, inner in zip(items, definitions, strict=True):
        name = item.values["id"]
        own = item.kept(ITEM_ROWS)
        fields: Found = {"name": name, "depends_on": tuple(parents.get(name, ()))}
        if "meta" in item.values:
            fields |= _properties(item, own)
        if inner:
            fields |= reader.fields(inner)
        fields["extensions"] = own | fields.get("extensions", {})
        yield fields


def _without(found: Found, key: str) -> Found:
    return {name: value for name, value in found.items() if name != key}


def _parents(items: Iterable[Found]) -> dict[str, dict[str, None]]:
    """Return the parents of each child, in the order of the tasks."""
    parents: dict[str, dict[str, None]] = {}
    for item in items:
        for child in item.get("children", ()):
            parents.setdefault(child, {})[item["id"]] = None
    return parents


def _properties(source: GridObject, extensions: dict[str, str]) -> Found:
    """Return meta as properties, if all its values are texts; keep it as an extension if they are not."""
    meta: Found = source.values.get("meta", {})
    if not meta:
        return {}
    if all(isinstance(value, str) for value in meta.values()):
        source.report(Fidelity.TRANSLATED, "meta", "it becomes properties")
        return {"properties": meta}
    source.report(Fidelity.KEPT, "meta", "it is kept")
    extensions["meta"] = as_extension(meta)
    return {}


def place_of(data: bytes | str, path: Path) -> TextPosition:
    """Return the position of a task that was read, ``("tasks", 0)``, or of the description for ``()``.

    Raises:  BadRequest as `read_json` when `data` cannot be read.
    """
    page = read_grid_text(data)
    is_wrapped = bool(path) and not ("tasks" in page.value or "executable" in page.value)
    return page.place_of(("definition", *path) if is_wrapped else path)
