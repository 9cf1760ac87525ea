"""Reading grid descriptions of jobs and of single tasks.

Source: grid; the schemas and the behaviour of the Pilot service.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Awareness, Kind, Report, honour
from headnode.core.formats.grid.checking import Checker, called
from headnode.core.formats.grid.graph import check_graph, connects
from headnode.core.formats.grid.keys import ITEM_ROWS, JOB_ROWS, RESOURCE_KEYS
from headnode.core.formats.grid.needs_reading import with_tasks
from headnode.core.formats.grid.page import Findings, Page, read_page
from headnode.core.formats.grid.source import Behaviour, Source, as_extension
from headnode.core.formats.grid.substitution import Substitution
from headnode.core.formats.grid.task_reading import TaskReader, check_base
from headnode.core.formats.grid.transfers import BASE
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec

JOB, TASK = "grid", "grid-task"
"""The dialects: a job, and a task on its own."""

Found = dict[str, Any]


class Options(msgspec.Struct, frozen=True, kw_only=True):
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


_AS_PUBLISHED = Options()


def read_job(data: bytes | str, options: Options = _AS_PUBLISHED) -> tuple[JobSpec, Report]:
    """Read a grid description of a job, of a task, or what the Pilot service says of either.

    Raises:  BadRequest with line and column: as `read_json`, then ``not-a-job``, ``unknown-key``,
             ``missing-key``, ``value``, ``given-twice``, ``id-twice``, ``unknown-task``,
             ``dependency-circle``, ``no-file``, ``no-value``, ``storage-base``;
             ``no-storage-base`` as the Pilot service; and ``not-understood`` under awareness policy Reject.
    Cost:    O(size); about 10 us for a task.
    """
    findings = Findings()
    page = _description(read_page(data), findings)
    reader = _Reader(page, findings, options)
    spec = reader.job() if "tasks" in page.value else reader.task()
    return spec, honour(options.awareness, findings.report())


def files_named(data: bytes | str) -> tuple[str, ...]:
    """Return the files a job refers to, which `Options.files` must hold; empty when it cannot be read."""
    try:
        value = read_page(data).value
    except BadRequest:
        return ()
    tasks = value.get("tasks") if isinstance(value, dict) else None
    items = tasks if isinstance(tasks, list) else []
    names = (item.get("filename") for item in items if isinstance(item, dict))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _description(page: Page, findings: Findings) -> Page:
    """Return the page where the description begins: a service writes its own words around it."""
    found = page.value
    if not isinstance(found, dict):
        page.refuse((), "not-a-job", "the text is not a JSON object", 'write {"version": 2, "tasks": [...]}')
    inner = found.get("definition")
    if isinstance(inner, dict) and ("tasks" in inner or "executable" in inner):
        strange = next((key for key in found if key not in RESOURCE_KEYS), None)
        if strange is None:
            what = "only the description is read, not what a service writes around it"
            findings.add(page, Kind.NOTE, "document", what, ())
            return page.inside("definition")
    if "tasks" not in found and "executable" not in found:
        what = "neither a job, which has 'tasks', nor a task, which has an 'executable'"
        page.refuse((), "not-a-job", what, 'write {"version": 2, "executable": "/bin/date"}')
    return page


class _Reader:
    """Reads one description."""

    def __init__(self, page: Page, findings: Findings, options: Options) -> None:
        self._page, self._findings, self._options = page, findings, options
        self._checker = Checker(page, findings, lenient=options.lenient)
        self._substitution = Substitution(page, findings, options.variables)

    def task(self) -> JobSpec:
        """Read a single task, as a job of that task."""
        what = "a task alone is read as a job of that one task"
        self._findings.add(self._page, Kind.TRANSLATED, "task", what, ())
        found = self._substitution.task(self._checker.task(self._page.value, "task", ()), "task")
        source = self._source((), "task", found)
        words = found.get("meta", {})
        is_own_words = bool(words) and all(isinstance(value, str) for value in words.values())
        inner = source._replace(found=_without(found, "meta")) if is_own_words else source
        fields = TaskReader("", self._options.behaviour).fields(inner)
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
        reader = TaskReader(found.get(BASE, ""), self._options.behaviour)
        items = [
            self._source(("tasks", number), called(item), item) for number, item in enumerate(found["tasks"])
        ]
        definitions = [self._definition(item) for item in items]
        return with_tasks(spec, source, definitions, _fields(items, definitions, reader))

    def _source(self, path: tuple[str | int, ...], whose: str, found: Found) -> Source:
        return Source(self._page, path, whose, found, self._findings)

    def _job_fields(self, source: Source) -> Found:
        found = source.found
        extensions = source.kept(JOB_ROWS)
        fields: Found = {"name": found.get("description", ""), "extensions": extensions}
        if "groups" in found:
            fields |= self._groups(source, extensions)
        return fields | _properties(source, extensions)

    def _groups(self, source: Source, extensions: dict[str, str]) -> Found:
        """Bring all tasks together on one node if the groups connect them; a cluster is one resource."""
        groups = source.found["groups"]
        every = {item["id"] for item in source.found["tasks"]}
        together = connects(groups, every)
        if not together or len(groups) > 1:
            extensions["groups"] = as_extension(groups)
        if together:
            source.tell(
                Kind.TRANSLATED, "groups", "all tasks are in one group: the job runs on a single node"
            )
            return {"single_node": True}
        what = "a cluster is one resource: tasks of a group may be on different nodes of it"
        source.tell(Kind.APPROXIMATED, "groups", what)
        return {}

    def _definition(self, item: Source) -> Source | None:
        """Return the definition of a task of a job: written in it, in a file, or None."""
        if "filename" in item.found:
            return self._from_file(item)
        if "definition" in item.found:
            path = (*item.path, "definition")
            return self._source(path, item.whose, item.found["definition"])
        what = "the task has no definition: it cannot run without one"
        self._findings.add(self._page, Kind.NOTE, item.whose, what, item.path)
        return None

    def _from_file(self, item: Source) -> Source:
        name = item.found["filename"]
        if name not in self._options.files:
            what = f"file {name[:80]!r} with the definition is not there"
            item.refuse(
                "filename", "no-file", what, "put it beside the file of the job, or write a definition"
            )
        page = read_page(self._options.files[name], name)
        if not isinstance(page.value, dict):
            page.refuse((), "not-a-job", "the text is not a JSON object", "write a task definition")
        checker = Checker(page, self._findings, lenient=self._options.lenient)
        found = checker.task(page.value, item.whose, ())
        found = Substitution(page, self._findings, self._options.variables).task(found, item.whose)
        return Source(page, (), item.whose, found, self._findings)


def _fields(
    items: Sequence[Source], definitions: Sequence[Source | None], reader: TaskReader
) -> Iterator[Found]:
    """Yield the fields of each task but for what it requires."""
    parents = _parents(item.found for item in items)
    for item, inner in zip(items, definitions, strict=True):
        name = item.found["id"]
        own = item.kept(ITEM_ROWS)
        fields: Found = {"name": name, "depends_on": tuple(parents.get(name, ()))}
        if "meta" in item.found:
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


def _properties(source: Source, extensions: dict[str, str]) -> Found:
    """Return meta as properties, if all its values are texts; keep it as an extension if they are not."""
    meta: Found = source.found.get("meta", {})
    if not meta:
        return {}
    if all(isinstance(value, str) for value in meta.values()):
        source.tell(Kind.TRANSLATED, "meta", "it becomes properties")
        return {"properties": meta}
    source.tell(Kind.KEPT, "meta", "it is kept")
    extensions["meta"] = as_extension(meta)
    return {}
